//! Erasing a person, by canaries: each path by which words of theirs are copied plants words of its own, in generated orders, in
//! a store on disk. Afterwards no file has any of them.
//!
//! Left out is what nobody can tell to be theirs: what others retell, arguments that a model makes up in the turns of others,
//! and results of tools that kept their words elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use cairn_core::agent::{AgentSettings, WindowSize, WindowSource};
use cairn_core::compaction::{self, Decision, SummaryDraft};
use cairn_core::conversation::{self, Conversation};
use cairn_core::store_port::Store as _;
use cairn_core::summary::StackSizes;
use cairn_core::{artifact, notice};
use cairn_store::{Store, StoreOptions, erase_dir};
use cairn_types::event::{
    ApprovalEvent, ArtifactEvent, Checkpoint, CompactionEvent, DeliveryEvent, Event, MemoryEvent,
    MessageEvent, NewRecord, Receipt, RunWork, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{Generation, MessageId, OutboxId, Seq, TextId, TurnId};
use cairn_types::memory::{
    DraftMemory, MemoryKind, MemorySave, Replaces, Scope, Source, TYPED_BY_MEMBER, mint_id,
};
use cairn_types::message::{
    Amendment, Artifact, Author, Change, Entry, Part, Pending, Provenance, Role, ToolCall, fingerprint,
    pending_tokens,
};
use cairn_types::model::{ChatMessage, Usage};
use cairn_types::ports::Query;
use cairn_types::tool::approval::{Approval, ApprovalOutcome};
use cairn_types::tool::{Effect, ToolOutcome, ToolUse};
use cairn_types::trace::{CallTrace, RunCall};
use fastrand::Rng;
use jiff::Timestamp;
use serde_json::json;

use crate::common::at;

const ANNA: (&str, &str) = ("telegram/5550123", "Anna Kowalska");
/// What she was called when nobody had heard her yet.
const BEFORE: &str = "Annie Quillfeather";
/// What she is called where she never talks.
const ELSEWHERE: &str = "Nan Featherquill";
const BEN: (&str, &str) = ("telegram/7", "Ben");

/// Two groups in which both talk, one in which she never does, and her private chat.
const ROOMS: [&str; 4] =
    ["main/telegram/-100", "main/telegram/-200", "main/telegram/-300", "main/telegram/5550123"];
const WITHOUT_HER: usize = 2;
const PRIVATE: usize = 3;

/// What every canary begins with.
const CANARY: &str = "zanzibirk";

const SEEDS: u64 = 12;
const STEPS: usize = 60;

/// Every path of these must have been gone at least once over all seeds.
const PATHS: [&str; 32] = [
    "answer",
    "approval",
    "argument",
    "artifact",
    "checkpoint",
    "copy",
    "correction",
    "draft",
    "edit",
    "error",
    "excerpt",
    "failover",
    "forward",
    "forwardid",
    "forwardsound",
    "found",
    "identifier",
    "instruction",
    "memory",
    "note",
    "oldname",
    "page",
    "quotedit",
    "quoting",
    "reasoning",
    "reply",
    "result",
    "retry",
    "said",
    "save",
    "summary",
    "trace",
];

fn author((id, name): (&str, &str)) -> Author {
    Author { id: id.to_owned(), name: name.to_owned() }
}

fn agent() -> AgentSettings {
    let compaction = cairn_core::settings::CompactionSettings { fan_out: 2, ..Default::default() };
    AgentSettings {
        id: "main".into(),
        system_prompt: "You are a careful assistant.".to_owned(),
        compactor_prompt: "Summarise the transcript.".to_owned(),
        window: WindowSize {
            window_tokens: 8_000,
            output_reserve_tokens: 1_000,
            source: WindowSource::Agent,
        },
        growth: None,
        compaction,
        pruning: cairn_core::settings::PruningSettings::default(),
        result_guard: cairn_core::settings::ResultGuardSettings::default(),
        window_guard: cairn_core::settings::WindowGuard::default(),
        engine: cairn_core::engine::STANDARD.to_owned(),
        model: "offline".to_owned(),
        cache_ttl_secs: 300,
        tools: cairn_types::tool::defs::ToolDefs::default(),
        recall_limit: 5,
        quote_tokens: 0,
        memory: cairn_core::settings::MemorySettings::default(),
        trust: cairn_core::trust::TrustSettings::default(),
        max_rounds: 8,
        mid_turn_messages: true,
        timezone: "UTC".to_owned(),
        languages: cairn_types::texts::Languages::default(),
    }
}

struct Room {
    state: Conversation,
    /// Entries that hold words of hers.
    hers: BTreeSet<Seq>,
    /// Messages of hers that wait, and those of others that quote her.
    waiting: BTreeSet<MessageId>,
    quoting: BTreeSet<MessageId>,
}

struct World {
    store: Option<Store>,
    rooms: Vec<Room>,
    agent: AgentSettings,
    rng: Rng,
    secs: i64,
    n: u64,
    planted: BTreeMap<String, &'static str>,
}

fn options(dir: &Path) -> StoreOptions {
    StoreOptions { segment_bytes: 40_000, ..StoreOptions::new(dir) }
}

impl World {
    fn new(dir: &Path, seed: u64) -> Self {
        let room = |name: &&str| Room {
            state: Conversation::new(name.parse().unwrap()),
            hers: BTreeSet::new(),
            waiting: BTreeSet::new(),
            quoting: BTreeSet::new(),
        };
        Self {
            store: Some(Store::open(options(dir)).unwrap()),
            rooms: ROOMS.iter().map(room).collect(),
            agent: agent(),
            rng: Rng::with_seed(seed),
            secs: 0,
            n: 0,
            planted: BTreeMap::new(),
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn now(&self) -> Timestamp {
        at(self.secs)
    }

    /// A word that is nowhere else.
    fn word(&mut self, path: &'static str) -> String {
        self.n += 1;
        let word = format!("{CANARY}{path}{}x", self.n);
        self.planted.insert(word.clone(), path);
        word
    }

    /// A sentence with such a word.
    fn plant(&mut self, path: &'static str) -> String {
        format!("the {} opens at nine by the old harbour", self.word(path))
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.rng.u32(0..one_in) == 0
    }

    async fn append(&mut self, room: usize, events: Vec<Event>) {
        self.secs += 60;
        let channel = self.rooms[room].state.channel.clone();
        let new = |event| NewRecord { channel: Some(channel.clone()), at: at(self.secs), event };
        let records = self.store().append(events.into_iter().map(new).collect()).await.unwrap();
        let room = &mut self.rooms[room];
        for record in &records {
            if let Event::Turn(
                TurnEvent::Started { messages, first_seq, .. }
                | TurnEvent::Joined { messages, first_seq, .. },
            ) = &record.event
            {
                for (seq, message) in (first_seq.0..).zip(messages) {
                    if room.waiting.remove(message) | room.quoting.remove(message) {
                        room.hers.insert(Seq(seq));
                    }
                }
            }
            room.state.apply(record).unwrap();
        }
    }

    fn is_hers(&self, room: usize) -> bool {
        !self.rooms[room].hers.is_empty()
    }

    async fn accept(&mut self, room: usize, who: (&str, &str), text: String, of: Provenance) -> MessageId {
        self.accept_parts(room, who, vec![Part::text(text)], of).await
    }

    async fn accept_parts(
        &mut self,
        room: usize,
        who: (&str, &str),
        parts: Vec<Part>,
        of: Provenance,
    ) -> MessageId {
        self.n += 1;
        let message = MessageId::from(format!("{}", 1000 + self.n));
        let author = author(who);
        let mut pending = Pending {
            message: message.clone(),
            turn: self.rooms[room].state.next_turn(),
            at: self.now(),
            spoken: false,
            reminder: None,
            fingerprint: fingerprint(&author, &parts),
            author,
            parts,
            addressed: true,
            direct: room == PRIVATE,
            chat_name: None,
            language: None,
            provenance: of,
            tokens: 0,
        };
        pending.tokens = pending_tokens(&pending);
        self.append(room, vec![Event::Message(MessageEvent::Accepted(pending))]).await;
        message
    }

    async fn anna_says(&mut self, room: usize) {
        if room == WITHOUT_HER {
            return self.ben_quotes(room).await;
        }
        let text = format!("Listen, {}.", self.plant("said"));
        let message = self.accept(room, ANNA, text, Provenance::default()).await;
        self.rooms[room].waiting.insert(message.clone());
        if self.chance(3) {
            let text = self.plant("edit");
            self.amend(room, &message, ANNA, &text).await;
        }
    }

    async fn ben_says(&mut self, room: usize) {
        let n = self.rng.u32(0..1000);
        let text = format!(
            "The ferry to island {n} leaves at seven in the morning, and we should bring warm clothes, some bread, cheese \
             and apples, since the little shop over there has been closed ever since the spring, as far as I know."
        );
        self.accept(room, BEN, text, Provenance::default()).await;
    }

    async fn ben_quotes(&mut self, room: usize) {
        let name = ANNA.1;
        let (text, of) = match self.rng.u32(0..6) {
            0 => {
                let said = self.plant("reply");
                (
                    format!("[in reply to {name}: \"{said}\"]\nwhat do you think?"),
                    Provenance::of_person(ANNA.0),
                )
            }
            1 => {
                let said = self.plant("oldname");
                (format!("[in reply to {BEFORE}: \"{said}\"]\nis it so?"), Provenance::of_person(ANNA.0))
            }
            2 => {
                let said = self.plant("forward");
                (format!("[forwarded from {name}]\nHello all. {said}\nSee you"), Provenance::of_strangers())
            }
            // A recording of hers, from an account that is hidden or not.
            3 => {
                return self.ben_forwards_sound(room, name, "forwardsound", Provenance::of_strangers()).await;
            }
            4 => {
                let of = Provenance { strangers: true, ..Provenance::of_person(ANNA.0) };
                return self.ben_forwards_sound(room, ELSEWHERE, "forwardid", of).await;
            }
            _ => {
                let message = self.accept(room, BEN, "Look at this".to_owned(), Provenance::default()).await;
                let text = format!("[in reply to {name}: \"{}\"]\nlook", self.plant("quotedit"));
                self.rooms[room].quoting.insert(message.clone());
                return self.amend(room, &message, BEN, &text).await;
            }
        };
        let message = self.accept(room, BEN, text, of).await;
        self.rooms[room].quoting.insert(message);
    }

    async fn ben_forwards_sound(&mut self, room: usize, name: &str, path: &'static str, of: Provenance) {
        let said = Part::transcribed("voice message (12 s)", &self.plant(path));
        let file =
            Part::File { name: "notes.txt".to_owned(), media_type: None, text: Some(self.plant(path)) };
        let parts = vec![Part::text(format!("[forwarded from {name}]")), said, file];
        let message = self.accept_parts(room, BEN, parts, of).await;
        self.rooms[room].quoting.insert(message);
    }

    /// As the runtime takes in an edit, of a message that waits or that was answered.
    async fn amend(&mut self, room: usize, message: &MessageId, who: (&str, &str), text: &str) {
        let change = Change::Edited { author: author(who), parts: vec![Part::text(text)], addressed: true };
        self.change(room, message, change).await;
    }

    async fn change(&mut self, room: usize, message: &MessageId, change: Change) {
        self.secs += 1;
        let channel = self.rooms[room].state.channel.clone();
        let said = self.store().entries_of(&channel, message).await.unwrap();
        let is_hers = matches!(&change, Change::Edited { author, .. } if author.id == ANNA.0);
        let amendment = Amendment { channel, message: message.clone(), at: self.now(), change };
        let Some(event) = conversation::amend(&self.rooms[room].state, &amendment, &said) else { return };
        if let (true, Event::Message(MessageEvent::Accepted(pending))) = (is_hers, &event) {
            self.rooms[room].waiting.insert(pending.message.clone());
        }
        self.append(room, vec![event]).await;
    }

    /// She changes a message that was answered.
    async fn correct(&mut self, room: usize) {
        let state = &self.rooms[room].state;
        let is_hers = |entry: &&Arc<Entry>| entry.author.as_ref().is_some_and(|author| author.id == ANNA.0);
        let Some(message) = state.live.iter().rfind(is_hers).and_then(|entry| entry.message.clone()) else {
            return;
        };
        if self.chance(4) {
            return self.change(room, &message, Change::Deleted).await;
        }
        let text = self.plant("correction");
        self.amend(room, &message, ANNA, &text).await;
    }

    fn entry(&self, room: usize, role: Role, text: &str) -> Entry {
        let state = &self.rooms[room].state;
        let turn = state.open_turn.as_ref().unwrap().id.clone();
        let mut entry = Entry::new(state.next_seq, &turn, state.generation, self.now(), role);
        entry.parts = vec![Part::text(text)];
        entry.tokens = cairn_types::message::entry_tokens(&entry);
        entry
    }

    async fn add(&mut self, room: usize, entry: Entry, hers: bool) {
        if hers {
            self.rooms[room].hers.insert(entry.seq);
        }
        self.append(room, vec![Event::Turn(TurnEvent::EntryAdded { entry })]).await;
    }

    /// A call of a tool, which the model makes with these arguments.
    async fn call(&mut self, room: usize, tool: &str, arguments: serde_json::Value, hers: bool) -> String {
        let id = format!("call{}", self.n);
        let mut entry = self.entry(room, Role::Assistant, "");
        entry.tool_calls = vec![ToolCall { id: id.clone(), name: tool.to_owned(), arguments }];
        self.add(room, entry, hers).await;
        id
    }

    async fn keep(&mut self, room: usize, tool: &str, message: Option<Seq>, text: &str) -> Artifact {
        let state = &self.rooms[room].state;
        let (id, channel) = (artifact::next_id(state, 0), state.channel.clone());
        self.store().put_artifact(&channel, &id, text.as_bytes().into()).await.unwrap();
        let kept = Artifact {
            id,
            tool: tool.to_owned(),
            message,
            sent_in: None,
            bytes: text.len() as u64,
            lines: 1,
            stored_at: self.now(),
            used_at: self.now(),
            expired_at: None,
            sha256: Some(cairn_types::text::checksum::checksum(text.as_bytes())),
            lost: false,
            file: None,
        };
        self.append(room, vec![Event::Artifact(ArtifactEvent::Stored { artifact: kept.clone() })]).await;
        kept
    }

    /// The model reads the history, in whoever's turn it is, and perhaps on in what was kept of the result.
    async fn look_up(&mut self, room: usize) {
        let heard = self.rooms[room].state.heard.clone();
        let knows = heard.people.contains(ANNA.0) || (heard.strangers && self.is_hers(room));
        let (tool, of) = match knows {
            true if self.chance(2) => ("history_read", heard),
            true => ("history_search", heard),
            false => ("memory_search", Provenance::of_person(ANNA.0)),
        };
        let call = self.call(room, tool, json!({ "query": "harbour" }), false).await;
        let said = self.plant("excerpt");
        let kept = if self.chance(2) {
            let whole = format!("[#3 | 10:00 | Anna Kowalska] {said}\n{}", self.plant("artifact"));
            Some(self.keep(room, tool, None, &whole).await.id)
        } else {
            None
        };
        let mut entry = self.entry(room, Role::Tool, &format!("[#3 | 10:00 | Anna Kowalska] {said}"));
        (entry.tool_call_id, entry.provenance, entry.artifact) = (Some(call), of, kept.clone());
        self.add(room, entry, true).await;
        let Some(id) = kept else { return };
        let call = self.call(room, "artifact_read", json!({ "id": id }), false).await;
        let text = self.plant("page");
        let mut page = self.entry(room, Role::Tool, &text);
        (page.tool_call_id, page.provenance) = (Some(call), Provenance::of_tools());
        self.append(room, vec![Event::Artifact(ArtifactEvent::Used { id })]).await;
        self.add(room, page, true).await;
    }

    /// In her turn the model calls something with her words, which a person allows, and shows what it has so far.
    async fn act(&mut self, room: usize) {
        let turn = self.open(room);
        let arguments = json!({ "text": self.plant("argument") });
        let call = self.call(room, "notes_write", arguments.clone(), true).await;
        let approval = Approval {
            id: format!("a{}", self.n).as_str().into(),
            turn: turn.clone(),
            call: call.clone(),
            tool: "notes_write".to_owned(),
            arguments: json!({ "text": self.plant("approval") }),
            caused_by: BTreeSet::from([ANNA.0.to_owned()]),
            reason: "it may change something".to_owned(),
            asked_at: self.now(),
            expires_at: self.now(),
        };
        let id = approval.id.clone();
        let question = self.plant("note");
        let note = self.intended(room, "ask", Some(question));
        let asked = Event::Approval(ApprovalEvent::Asked { approval });
        self.append(room, vec![asked, note]).await;
        let outcome = ApprovalOutcome::Granted;
        let by = Some(BEN.0.to_owned());
        let used = ToolUse {
            turn,
            call: call.clone(),
            tool: "notes_write".to_owned(),
            effect: Effect::Changes,
            caused_by: BTreeSet::from([ANNA.0.to_owned()]),
            arguments,
            outcome: ToolOutcome::Done,
            error: None,
            duration_ms: 1,
            bytes: 9,
            approval: Some(id.clone()),
            allowed_by: None,
        };
        let settled = Event::Approval(ApprovalEvent::Settled { id, outcome, by });
        self.append(room, vec![settled, Event::Turn(TurnEvent::ToolUsed(used))]).await;
        let text = self.plant("result");
        let mut result = self.entry(room, Role::Tool, &text);
        (result.tool_call_id, result.provenance) = (Some(call), Provenance::of_tools());
        self.add(room, result, true).await;
    }

    fn open(&self, room: usize) -> TurnId {
        self.rooms[room].state.open_turn.as_ref().unwrap().id.clone()
    }

    fn intended(&mut self, room: usize, what: &str, note: Option<String>) -> Event {
        self.n += 1;
        let state = &self.rooms[room].state;
        Event::Delivery(DeliveryEvent::Intended {
            id: OutboxId::from(format!("{}:{what}:{}", state.channel, self.n)),
            turn: self.open(room),
            seq: Seq(state.next_seq.0 - 1),
            note,
            reply_to: None,
            edits: None,
            approval: None,
            draft: false,
            files: Vec::new(),
        })
    }

    /// The words of a message that no longer fits are kept whole, in whoever's turn it is found.
    async fn copy(&mut self, room: usize) {
        let live = &self.rooms[room].state.live;
        let is_hers = |entry: &&Arc<Entry>| entry.author.as_ref().is_some_and(|author| author.id == ANNA.0);
        let Some(seq) = live.iter().rfind(is_hers).map(|entry| entry.seq) else { return };
        let text = self.plant("copy");
        self.keep(room, "", Some(seq), &text).await;
    }

    /// Something is said while tools are called, and heard.
    async fn join(&mut self, room: usize, turn: &TurnId) {
        self.anna_says(room).await;
        let state = &self.rooms[room].state;
        let messages = state.pending.iter().map(|pending| pending.message.clone()).collect();
        let (turn, first_seq) = (turn.clone(), state.next_seq);
        self.append(room, vec![Event::Turn(TurnEvent::Joined { turn, messages, first_seq })]).await;
    }

    /// All that waits is answered, in one way or another.
    async fn turn(&mut self, room: usize, leave_open: bool) {
        let state = &self.rooms[room].state;
        let Some(first) = state.pending.front() else { return };
        let (turn, first_seq) = (first.turn.clone(), state.next_seq);
        let messages: Vec<MessageId> = state.pending.iter().map(|pending| pending.message.clone()).collect();
        let is_anna = |pending: &Pending| pending.author.id == ANNA.0;
        let hers = state.pending.iter().any(is_anna);
        let started = TurnEvent::Started { turn: turn.clone(), messages, first_seq };
        self.append(room, vec![Event::Turn(started)]).await;
        if self.chance(3) {
            self.look_up(room).await;
        }
        if hers && self.chance(2) {
            self.act(room).await;
        }
        if self.chance(6) {
            self.join(room, &turn).await;
        }
        if self.chance(4) {
            self.copy(room).await;
        }
        if self.is_hers(room) && self.chance(5) {
            let reason = format!("`gpt`: 400 cannot read \"{}\"", self.plant("failover"));
            self.append(room, vec![Event::Turn(TurnEvent::ModelChosen { model: "b".to_owned(), reason })])
                .await;
        }
        if leave_open {
            return;
        }
        let outcome = if self.is_hers(room) && self.chance(5) {
            let message = format!("model `gpt`: HTTP 400: invalid \"{}\"", self.plant("error"));
            TurnOutcome::Failed { code: "refused".to_owned(), message }
        } else {
            self.answer(room, hers).await
        };
        let (model, usage, recalled) = (None, Usage::default(), Vec::new());
        let end = TurnEnd { turn, outcome, model, usage, recalled };
        self.append(room, vec![Event::Turn(TurnEvent::Ended(end))]).await;
    }

    async fn answer(&mut self, room: usize, hers: bool) -> TurnOutcome {
        let heard = self.rooms[room].state.heard.clone();
        let quoting = self.is_hers(room) && (heard.people.contains(ANNA.0) || heard.strangers);
        let mut entry = self.entry(room, Role::Assistant, "It leaves at seven, so take warm clothes.");
        let reply = entry.seq;
        if quoting && self.chance(3) {
            entry.parts = vec![Part::text(format!("This fits best:\n\n> {}", self.plant("quoting")))];
            (entry.quotes, entry.provenance) = (true, heard);
            self.add(room, entry, true).await;
        } else if hers {
            entry.parts = vec![Part::text(self.plant("answer"))];
            entry.reasoning = Some(self.plant("reasoning"));
            self.add(room, entry, true).await;
            self.deliver(room).await;
        } else {
            self.add(room, entry, false).await;
        }
        TurnOutcome::Answered { reply }
    }

    async fn deliver(&mut self, room: usize) {
        let said = self.plant("draft");
        let intended = self.intended(room, "end", Some(said));
        let Event::Delivery(event) = &intended else { return };
        let id = event.id().clone();
        let put_off = DeliveryEvent::PutOff { id: id.clone(), part: 0, reason: self.plant("retry") };
        let mut events =
            vec![intended, Event::Delivery(DeliveryEvent::Attempted { id: id.clone(), part: 0 })];
        events.push(Event::Delivery(put_off));
        let receipt = match self.rng.u32(0..3) {
            0 => Some(Receipt::Delivered { messages: vec!["77".into()] }),
            1 => Some(Receipt::Dead { reason: self.plant("retry") }),
            _ => None,
        };
        events.extend(receipt.map(|receipt| Event::Delivery(DeliveryEvent::Settled { id, receipt })));
        self.append(room, events).await;
    }

    fn touched(&self, room: usize, from: Seq, to: Seq) -> bool {
        from <= to && self.rooms[room].hers.range(from..=to).next().is_some()
    }

    /// A run of the compactor, as far as it comes.
    async fn compact(&mut self, room: usize, leave_open: bool) {
        let now = self.now();
        let instruction = if room != WITHOUT_HER && self.chance(2) {
            let message = MessageId::from(format!("c{}", self.n));
            let (command, caller) = ("compact".to_owned(), author(ANNA));
            let taken = Event::Message(MessageEvent::CommandTaken { message, command, caller });
            self.append(room, vec![taken]).await;
            Some(self.plant("instruction"))
        } else {
            None
        };
        let tell = self.chance(2);
        let asked = compaction::request_manual(&self.rooms[room].state, &self.agent, instruction, tell, now);
        self.append(room, Vec::from_iter(asked)).await;
        let state = &self.rooms[room].state;
        if state.run.is_none()
            && let Decision::Start(run) = compaction::next_run(state, &self.agent, now)
        {
            self.append(room, vec![Event::Compaction(CompactionEvent::RunStarted { run: *run })]).await;
        }
        let Some(run) = self.rooms[room].state.run.clone() else { return };
        let is_merge = matches!(run.work, RunWork::Merge { .. });
        let hers = self.touched(room, run.from_seq, run.to_seq);
        if hers {
            let mut events =
                vec![self.asked_again(&run.id, (!is_merge).then_some((run.from_seq, run.to_seq)))];
            if !is_merge && self.chance(2) {
                events.push(self.checkpoint(&run.id, run.to_seq));
            }
            self.append(room, events).await;
        }
        if leave_open {
            return;
        }
        let draft = self.draft(room, &run, hers);
        let state = &self.rooms[room].state;
        let Some(events) = compaction::commit(state, &self.agent, &run.id, draft, now) else { return };
        let events = notice::with_notes(state, &self.agent, events, now);
        self.append(room, events).await;
    }

    fn draft(&mut self, room: usize, run: &cairn_types::event::Run, hers: bool) -> SummaryDraft {
        let state = &self.rooms[room].state;
        let is_sealed = matches!(run.work, RunWork::Sealed);
        let is_merge = matches!(run.work, RunWork::Merge { .. });
        if is_sealed && self.rng.u32(0..3) == 0 {
            let range = run.from_seq..=run.to_seq;
            let entries: Vec<Arc<Entry>> =
                state.live.iter().filter(|entry| range.contains(&entry.seq)).cloned().collect();
            let sizes =
                StackSizes::of(&self.agent, &state.correction(&self.agent.model), state.stack.tokens());
            return compaction::digest_draft(&state.channel, &self.agent, &sizes, run, &entries, &[]);
        }
        if !hers {
            let text = "They talked about a ferry.".to_owned();
            return SummaryDraft { text, made_by: "gpt".to_owned(), ..SummaryDraft::default() };
        }
        let memory = DraftMemory {
            kind: MemoryKind::Fact,
            text: self.plant("found"),
            subject: None,
            importance: 0.5,
            by: None,
            said_at: None,
            told_by: None,
            replaces: Replaces::default(),
        };
        SummaryDraft {
            text: self.plant("summary"),
            made_by: "gpt".to_owned(),
            memories: if is_merge { Vec::new() } else { vec![memory] },
            identifiers: vec![self.word("identifier")],
            ..SummaryDraft::default()
        }
    }

    /// The model of a run said something before it was asked again.
    fn asked_again(&mut self, run: &cairn_types::ids::RunId, entries: Option<(Seq, Seq)>) -> Event {
        let added = vec![ChatMessage::User { parts: vec![Part::text(self.plant("trace"))] }];
        let work = RunCall {
            run: run.clone(),
            round: 2,
            entries,
            target_tokens: 100,
            tools_withdrawn: false,
            masked: false,
            added,
        };
        let trace = CallTrace {
            at_n: 1,
            asked_at: self.now(),
            frame: TextId::of("frame"),
            body: None,
            last_call: false,
            first_ms: None,
            total_ms: 5,
            waited_ms: 0,
            cost: None,
            failure: None,
            tried: Vec::new(),
            work: Some(work),
        };
        Event::Compaction(CompactionEvent::UsageSpent {
            model: "gpt".to_owned(),
            usage: Usage::default(),
            is_estimate: false,
            trace: Some(Box::new(trace)),
        })
    }

    fn checkpoint(&mut self, run: &cairn_types::ids::RunId, to_seq: Seq) -> Event {
        let checkpoint = Checkpoint {
            chunks: 1,
            to_seq,
            text: self.plant("checkpoint"),
            made_by: "gpt".to_owned(),
            memories: Vec::new(),
            left_out: Vec::new(),
        };
        Event::Compaction(CompactionEvent::RunCheckpointed { run: run.clone(), checkpoint })
    }

    /// The oldest turns leave at once; a digest of them is what is left.
    async fn emergency(&mut self, room: usize) {
        let state = &self.rooms[room].state;
        let events = compaction::emergency_on_overflow(state, &self.agent, 100);
        self.append(room, events).await;
    }

    async fn remember(&mut self, room: usize) {
        let scopes = ["chat:telegram/-100", "user:telegram/5550123", "agent"];
        let scope: Scope = scopes[self.rng.usize(0..3)].parse().unwrap();
        let save = MemorySave {
            agent: "main".into(),
            scope,
            kind: MemoryKind::Fact,
            text: self.plant("memory"),
            subject: None,
            importance: 0.5,
            source: Source {
                channel: Some(self.rooms[room].state.channel.clone()),
                from_seq: None,
                to_seq: None,
                summary: None,
                model: TYPED_BY_MEMBER.to_owned(),
                by: Some(author(ANNA)),
                said_at: None,
                told_by: None,
            },
            sighting: format!("{}/command/{}", self.rooms[room].state.channel, self.n),
            explicit: true,
            replaces: Replaces::default(),
        };
        let id = mint_id(&save.fingerprint());
        let text = Some(self.plant("save"));
        let edited = MemoryEvent::Edited { id, text, kind: None, importance: None };
        self.append(room, vec![Event::Memory(MemoryEvent::Saved(save)), Event::Memory(edited)]).await;
    }

    async fn session(&mut self, room: usize) {
        let state = &self.rooms[room].state;
        if state.open_turn.is_some() || state.run.is_some() {
            return;
        }
        let generation = Generation(state.generation.0 + 1);
        self.append(room, vec![Event::Turn(TurnEvent::SessionStarted { generation })]).await;
    }

    async fn undo(&mut self, room: usize) {
        let undone = conversation::undo(&self.rooms[room].state);
        self.append(room, Vec::from_iter(undone.ok())).await;
    }

    async fn restart(&mut self, dir: &Path) {
        self.keep_snapshots().await;
        self.store.take().unwrap().close().await;
        self.store = Some(Store::open(options(dir)).unwrap());
    }

    async fn keep_snapshots(&mut self) {
        for room in 0..ROOMS.len() {
            let state = Arc::new(self.rooms[room].state.clone());
            if state.last_n > 0 {
                self.store().keep_snapshot(state).await.unwrap();
            }
        }
    }

    async fn compress(&mut self) {
        for segment in self.store().segments().await.unwrap() {
            if !segment.is_open && self.chance(2) {
                // One that is compressed already is refused.
                let _compressed = self.store().compress_segment(segment.first, false).await;
            }
        }
    }

    async fn step(&mut self, dir: &Path) {
        let room = self.rng.usize(0..ROOMS.len());
        match self.rng.u32(0..24) {
            0..=3 => self.anna_says(room).await,
            4..=6 if room != PRIVATE => self.ben_says(room).await,
            7..=8 if room != PRIVATE => self.ben_quotes(room).await,
            4..=14 => self.turn(room, false).await,
            15..=16 => self.compact(room, false).await,
            17 => self.correct(room).await,
            18 => self.emergency(room).await,
            19 => self.remember(room).await,
            20 if self.chance(3) => self.session(room).await,
            21 => self.undo(room).await,
            22 if self.chance(4) => self.restart(dir).await,
            _ => self.compress().await,
        }
    }
}

/// Names and bytes of all files below a folder in lower case, what is compressed in them unpacked.
fn all_bytes(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all.extend_from_slice(path.file_name().unwrap().as_encoded_bytes());
        all.push(b'\n');
        if path.is_dir() {
            all.extend(all_bytes(&path));
        } else if path.extension().is_some_and(|extension| extension == "gz") {
            flate2::read::MultiGzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut all).unwrap();
        } else {
            all.extend(fs::read(&path).unwrap());
        }
    }
    all.make_ascii_lowercase();
    all
}

/// The words around the first place of a word.
fn found(bytes: &[u8], word: &str) -> Option<String> {
    let at = memchr::memmem::find(bytes, word.to_lowercase().as_bytes())?;
    let around = &bytes[at.saturating_sub(300)..(at + 200).min(bytes.len())];
    Some(String::from_utf8_lossy(around).into_owned())
}

/// All that is asked for at the end: a turn of hers that is open, a run under way, and messages that wait.
async fn leave_unfinished(world: &mut World) {
    for room in 0..ROOMS.len() {
        if world.rooms[room].state.run.is_none() && world.chance(2) {
            world.compact(room, true).await;
        }
        world.anna_says(room).await;
        if world.chance(2) {
            world.turn(room, true).await;
            world.anna_says(room).await;
        }
    }
}

async fn erase(world: &mut World, dir: &Path, seed: u64) {
    let store = world.store.take().unwrap();
    if seed.is_multiple_of(3) {
        store.close().await;
        erase_dir(options(dir), ANNA.0, at(world.secs), false).await.unwrap().unwrap();
        return;
    }
    let lease = store.maintenance().await.unwrap();
    assert!(store.ask_erasure(lease, ANNA.0, at(world.secs)).await.unwrap());
    if seed % 3 == 1 {
        store.prepare_erasure().await.unwrap();
        // What she says meanwhile follows.
        world.store = Some(store);
        world.anna_says(0).await;
        world.store.take().unwrap().close().await;
    } else {
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_by_which_words_are_copied_keeps_those_of_the_erased() {
    let mut gone = BTreeSet::new();
    for seed in 0..SEEDS {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path();
        let mut world = World::new(dir, seed);
        for _ in 0..STEPS {
            world.step(dir).await;
        }
        leave_unfinished(&mut world).await;
        world.keep_snapshots().await;
        let before = all_bytes(dir);
        let is_there = |(word, _): &(&String, &&str)| found(&before, word).is_some();
        gone.extend(world.planted.iter().filter(is_there).map(|(_, path)| *path));
        erase(&mut world, dir, seed).await;
        let store = Store::open(options(dir)).unwrap();
        assert!(!store.is_erasure_pending());
        let report = store.verify().await.unwrap();
        assert!(report.ok, "seed {seed}: {report:?}");
        for text in world.planted.keys() {
            let query = Query { text: text.clone(), limit: 9, settled: true, ..Query::default() };
            let hits = store.search(query).await.unwrap();
            assert!(hits.is_empty(), "seed {seed}: {text}: {hits:?}");
        }
        store.close().await;
        let after = all_bytes(dir);
        for word in [CANARY, "Kowalska", "Quillfeather", "Featherquill", "5550123"] {
            assert_eq!(found(&after, word), None, "seed {seed}");
        }
    }
    assert_eq!(Vec::from_iter(gone), PATHS);
}
