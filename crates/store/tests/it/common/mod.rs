//! Builders for the store's tests, and what many of them look at.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_core::conversation::Conversation;
use cairn_core::store_port::Store as _;
use cairn_store::{DatabaseOptions, Store, StoreOptions};
use cairn_testkit::postgres;
use cairn_types::event::{
    CompactionEvent, Event, MessageEvent, NewRecord, Record, Run, RunEnd, RunOutcome, RunWork, Trigger,
    TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{AgentId, ChannelId, MessageId, RunId, Seq, SummaryId, TurnId};
use cairn_types::memory::{MemoryKind, MemorySave, Replaces, Scope, Source};
use cairn_types::message::{Artifact, Author, Entry, Part, Pending, Role};
use cairn_types::model::Usage;
use cairn_types::ports::{Query, StoreError};
use cairn_types::summary::Summary;
use cairn_types::tier::Tier;
use jiff::Timestamp;
use parking_lot::Mutex;

/// A moment, in seconds after the first of January 2026.
pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + secs).unwrap()
}

pub(crate) fn channel(name: &str) -> ChannelId {
    ChannelId::local(&AgentId::from("main"), name).unwrap()
}

/// The store in that folder. Where `CAIRN_TEST_STORE` is `database`, with a database of its own in a PostgreSQL server: so
/// `.ci/run` has the tests of a store once more.
pub(crate) fn open(dir: &Path) -> Store {
    #[expect(clippy::disallowed_methods, reason = "which store is tested is told from outside")]
    let kind = std::env::var_os("CAIRN_TEST_STORE");
    if kind.is_none_or(|kind| kind != "database") {
        return Store::open(StoreOptions::new(dir)).unwrap();
    }
    in_a_database(dir)
}

/// The store in that folder with a database of its own, the same one each time.
pub(crate) fn in_a_database(dir: &Path) -> Store {
    static URLS: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let url = URLS.lock().entry(dir.to_owned()).or_insert_with(postgres::database).clone();
    let (node, address) = ("a".to_owned(), "a.example:80".to_owned());
    let database = Some(DatabaseOptions { url: url.into(), node, address });
    Store::open(StoreOptions { database, ..StoreOptions::new(dir) }).unwrap()
}

/// A store in a folder of its own.
pub(crate) fn opened() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    (dir, store)
}

/// The same with a channel in which nothing was said yet.
pub(crate) fn chatting() -> (tempfile::TempDir, Store, Chat) {
    let (dir, store) = opened();
    let chat = Chat::new(&store, "main");
    (dir, store, chat)
}

/// The journal's files, in order.
pub(crate) fn segments(dir: &Path) -> Vec<PathBuf> {
    let list = fs::read_dir(dir.join("journal")).unwrap();
    let mut paths: Vec<PathBuf> = list.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Removes all that would show what was in the journal.
pub(crate) fn remove_derived(dir: &Path) {
    fs::remove_dir_all(dir.join("views")).unwrap();
    fs::remove_dir_all(dir.join("index")).unwrap();
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            // A store may go on meanwhile: a file that has gone since it was listed is one that a kill would not have left.
            match fs::copy(entry.path(), target) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => assert!(copied.is_ok(), "{copied:?}"),
            }
        }
    }
}

/// A search of the chat `main` with its memories, when all is indexed.
pub(crate) fn query(text: &str) -> Query {
    let scopes = vec![scope()];
    Query {
        channel: Some(channel("main")),
        text: text.to_owned(),
        scopes,
        limit: 50,
        settled: true,
        ..Query::default()
    }
}

pub(crate) async fn found(store: &Store, text: &str) -> Vec<String> {
    store.search(query(text)).await.unwrap().into_iter().map(|hit| hit.text).collect()
}

/// What history shows of the chat `main`.
pub(crate) async fn history(store: &Store) -> Vec<String> {
    texts(&store.entries(&channel("main"), Seq(1), Seq(u64::MAX), 1_000).await.unwrap())
}

pub(crate) fn artifact(id: &str, bytes: u64) -> Artifact {
    Artifact {
        id: id.into(),
        tool: "fetch".to_owned(),
        message: None,
        sent_in: None,
        bytes,
        lines: 1,
        stored_at: at(0),
        used_at: at(0),
        expired_at: None,
        sha256: None,
        lost: false,
        file: None,
    }
}

/// A channel whose state is folded from what it appends, as an actor does it.
pub(crate) struct Chat {
    pub(crate) store: Store,
    pub(crate) state: Conversation,
    pub(crate) secs: i64,
}

impl Chat {
    pub(crate) fn new(store: &Store, name: &str) -> Self {
        Self { store: store.clone(), state: Conversation::new(channel(name)), secs: 0 }
    }

    pub(crate) async fn try_append(&mut self, events: Vec<Event>) -> Result<Vec<Record>, StoreError> {
        self.secs += 60;
        let records = events
            .into_iter()
            .map(|event| NewRecord { channel: Some(self.state.channel.clone()), at: at(self.secs), event })
            .collect();
        let records = self.store.append(records).await?;
        for record in &records {
            self.state.apply(record).unwrap();
        }
        Ok(records)
    }

    pub(crate) async fn append(&mut self, events: Vec<Event>) -> Vec<Record> {
        self.try_append(events).await.unwrap()
    }

    pub(crate) fn pending(&self, id: &str, user: &str, text: &str) -> Pending {
        Pending {
            message: MessageId::from(id),
            turn: self.state.next_turn(),
            at: at(self.secs),
            author: Author { id: format!("local/{user}"), name: user.to_owned() },
            parts: vec![Part::text(text)],
            addressed: true,
            direct: false,
            chat_name: None,
            language: None,
            provenance: cairn_types::message::Provenance::default(),
            spoken: false,
            reminder: None,
            fingerprint: format!("print of {text}"),
            tokens: 7,
        }
    }

    pub(crate) async fn accept(&mut self, id: &str, user: &str, text: &str) -> TurnId {
        let pending = self.pending(id, user, text);
        let turn = pending.turn.clone();
        self.append(vec![Event::Message(MessageEvent::Accepted(pending))]).await;
        turn
    }

    pub(crate) async fn start(&mut self, turn: &TurnId, ids: &[&str]) {
        let messages = ids.iter().map(|id| MessageId::from(*id)).collect();
        let first_seq = self.state.next_seq;
        self.append(vec![Event::Turn(TurnEvent::Started { turn: turn.clone(), messages, first_seq })]).await;
    }

    pub(crate) fn reply(&self, turn: &TurnId, text: &str) -> Entry {
        Entry {
            seq: self.state.next_seq,
            turn: turn.clone(),
            generation: self.state.generation,
            at: at(self.secs),
            role: Role::Assistant,
            author: None,
            message: None,
            parts: vec![Part::text(text)],
            reasoning: Some("hm".to_owned()),
            provider_state: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            artifact: None,
            files: Vec::new(),
            provenance: cairn_types::message::Provenance::default(),
            spoken: false,
            quotes: false,
            finish: None,
            tokens: 5,
        }
    }

    pub(crate) fn end(turn: &TurnId, reply: Seq) -> Event {
        Event::Turn(TurnEvent::Ended(TurnEnd {
            turn: turn.clone(),
            outcome: TurnOutcome::Answered { reply },
            model: Some("offline".to_owned()),
            usage: Usage::default(),
            recalled: Vec::new(),
        }))
    }

    /// A whole turn: message, reply, end.
    pub(crate) async fn turn(&mut self, id: &str, text: &str, reply: &str) -> TurnId {
        self.turn_of(id, "ana", text, reply).await
    }

    pub(crate) async fn turn_of(&mut self, id: &str, user: &str, text: &str, reply: &str) -> TurnId {
        let turn = self.accept(id, user, text).await;
        self.start(&turn, &[id]).await;
        let entry = self.reply(&turn, reply);
        let seq = entry.seq;
        self.append(vec![Event::Turn(TurnEvent::EntryAdded { entry }), Self::end(&turn, seq)]).await;
        turn
    }

    /// A run over the oldest live entries, committed with a summary and memories.
    pub(crate) async fn compact(&mut self, to_seq: u64, text: &str, memories: Vec<MemorySave>) {
        let from_seq = self.state.live.front().unwrap().seq;
        let run = Run {
            id: RunId::from(format!("r{}", self.state.runs + 1)),
            trigger: Trigger::Manual,
            tier: Tier::Calm,
            work: RunWork::Sealed,
            from_seq,
            to_seq: Seq(to_seq),
            messages: to_seq - from_seq.0 + 1,
            instruction: None,
            started_at: at(self.secs),
            attempt: 1,
            retry_at: None,
            tokens_before: 100,
            checkpoint: None,
            tell: false,
            failure: None,
            replaces: None,
            spent: Default::default(),
        };
        self.append(vec![Event::Compaction(CompactionEvent::RunStarted { run: run.clone() })]).await;
        let summary = Summary {
            id: SummaryId::from(format!("s{}", self.state.runs)),
            level: 0,
            from_seq,
            to_seq: run.to_seq,
            from_at: at(0),
            to_at: at(1),
            messages: run.messages,
            tokens: 9,
            made_by: "offline".to_owned(),
            text: text.to_owned(),
            identifiers: Vec::new(),
            provisional: false,
        };
        let end = RunEnd {
            run: run.id,
            trigger: run.trigger,
            outcome: RunOutcome::Committed,
            reason: None,
            summary: Some(summary),
            memories,
            messages: run.messages,
            tokens_before: 100,
            tokens_after: 50,
            first_kept_seq: None,
            duration_ms: 12,
            owes_run: false,
            attempts: 0,
            spent: Default::default(),
        };
        self.append(vec![Event::Compaction(CompactionEvent::RunEnded(end))]).await;
    }
}

/// A memory of the chat `main`.
pub(crate) fn memory(text: &str, sighting: &str) -> MemorySave {
    MemorySave {
        agent: AgentId::from("main"),
        scope: scope(),
        kind: MemoryKind::Fact,
        text: text.to_owned(),
        subject: None,
        importance: 0.5,
        source: Source {
            channel: Some(channel("main")),
            from_seq: None,
            to_seq: None,
            summary: None,
            model: "rules".to_owned(),
            by: None,
            said_at: None,
            told_by: None,
        },
        sighting: sighting.to_owned(),
        explicit: false,
        replaces: Replaces::default(),
    }
}

pub(crate) fn scope() -> Scope {
    Scope::Chat { platform: "local".to_owned(), chat: "main".to_owned() }
}

pub(crate) fn texts(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|entry| entry.text()).collect()
}
