//! A small journal, and what is left of it.

mod every;
mod expired;
mod others;

use std::sync::Arc;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::conversation::Conversation;
use cairn_types::event::{
    Checkpoint, PruneCause, PruneForm, PrunedResult, Run, RunEnd, RunOutcome, RunWork, Trigger,
};
use cairn_types::ids::{Generation, MessageId, Seq, TextId};
use cairn_types::memory::{MemoryKind, MemorySave, Replaces, Source};
use cairn_types::message::{
    Artifact, Author, Entry, Part, Pending, Provenance, Role, ToolCall, fingerprint, text_of,
};
use cairn_types::model::{ChatMessage, Usage};
use cairn_types::summary::Summary;
use cairn_types::tier::Tier;
use cairn_types::tool::{Effect, ToolOutcome, ToolUse};
use cairn_types::trace::{CallTrace, RunCall};

const GROUP: &str = "main/telegram/-100";
const PRIVATE: &str = "main/telegram/5550123";
const ANNA: &str = "telegram/5550123";
const BEN: &str = "telegram/7";

struct Book {
    records: Vec<Record>,
    seqs: HashMap<ChannelId, u64>,
    turns: u64,
}

impl Book {
    fn new() -> Self {
        Self { records: Vec::new(), seqs: HashMap::new(), turns: 0 }
    }

    fn add(&mut self, channel: Option<&str>, event: Event) {
        let n = self.records.len() as u64 + 1;
        let at = Timestamp::from_second(n as i64).unwrap();
        self.records.push(Record { n, at, channel: channel.map(|channel| channel.parse().unwrap()), event });
    }

    fn seq(&mut self, channel: &str) -> Seq {
        let next = self.seqs.entry(channel.parse().unwrap()).or_default();
        *next += 1;
        Seq(*next)
    }

    fn accept(&mut self, channel: &str, id: &str, name: &str, text: &str) -> MessageId {
        let author = Author { id: id.to_owned(), name: name.to_owned() };
        let parts = vec![Part::text(text)];
        self.turns += 1;
        let mut pending = Pending {
            message: MessageId::from(format!("m{}", self.turns)),
            turn: format!("t{}", self.turns).into(),
            at: Timestamp::from_second(self.turns as i64).unwrap(),
            spoken: false,
            reminder: None,
            fingerprint: fingerprint(&author, &parts),
            author,
            parts,
            addressed: true,
            direct: channel == PRIVATE,
            chat_name: None,
            language: None,
            provenance: Provenance::default(),
            tokens: 0,
        };
        pending.tokens = crate::window::pending_tokens(&pending);
        let message = pending.message.clone();
        self.add(Some(channel), Event::Message(MessageEvent::Accepted(pending)));
        message
    }

    fn entry(&mut self, channel: &str, role: Role, text: &str) -> Entry {
        let seq = self.seq(channel);
        let turn = format!("t{}", self.turns);
        let mut entry = Entry::lost(seq, &turn.as_str().into(), Generation(1), Timestamp::UNIX_EPOCH);
        entry.role = role;
        entry.parts = vec![Part::text(text)];
        entry
    }

    /// A turn of one message and its answer.
    fn turn(&mut self, channel: &str, (id, name): (&str, &str), text: &str, answer: &str) {
        let message = self.accept(channel, id, name, text);
        let turn: cairn_types::ids::TurnId = format!("t{}", self.turns).into();
        let first_seq = self.seq(channel);
        self.add(
            Some(channel),
            Event::Turn(TurnEvent::Started { turn: turn.clone(), messages: vec![message], first_seq }),
        );
        let entry = self.entry(channel, Role::Assistant, answer);
        let reply = entry.seq;
        self.add(Some(channel), Event::Turn(TurnEvent::EntryAdded { entry }));
        let end = TurnEnd {
            turn,
            outcome: TurnOutcome::Answered { reply },
            model: None,
            usage: Usage::default(),
            recalled: Vec::new(),
        };
        self.add(Some(channel), Event::Turn(TurnEvent::Ended(end)));
    }

    fn run(&mut self, channel: &str, id: u64, to: u64, text: &str, memories: Vec<MemorySave>) {
        let run = Run {
            id: format!("r{id}").as_str().into(),
            trigger: Trigger::Manual,
            tier: Tier::Calm,
            work: RunWork::Sealed,
            from_seq: Seq(1),
            to_seq: Seq(to),
            messages: to,
            instruction: None,
            started_at: Timestamp::UNIX_EPOCH,
            attempt: 1,
            retry_at: None,
            tokens_before: 0,
            checkpoint: None,
            tell: false,
            failure: None,
            replaces: None,
            spent: Default::default(),
        };
        self.add(Some(channel), Event::Compaction(CompactionEvent::RunStarted { run: run.clone() }));
        let summary = Summary {
            id: format!("s{id}").as_str().into(),
            level: 0,
            from_seq: Seq(1),
            to_seq: Seq(to),
            from_at: Timestamp::UNIX_EPOCH,
            to_at: Timestamp::UNIX_EPOCH,
            messages: to,
            tokens: 200,
            made_by: "model".to_owned(),
            text: text.to_owned(),
            identifiers: vec!["ZX-4711".to_owned()],
            provisional: false,
        };
        let end = RunEnd {
            run: run.id,
            trigger: Trigger::Manual,
            outcome: RunOutcome::Committed,
            reason: None,
            summary: Some(summary),
            memories,
            messages: to,
            tokens_before: 0,
            tokens_after: 0,
            first_kept_seq: None,
            duration_ms: 0,
            owes_run: false,
            attempts: 0,
            spent: Default::default(),
        };
        self.add(Some(channel), Event::Compaction(CompactionEvent::RunEnded(end)));
    }

    /// A call of a run's model over these entries, which was told this.
    fn asked(&mut self, channel: &str, (from, to): (u64, u64), told: String) {
        let work = RunCall {
            run: "r9".into(),
            round: 1,
            entries: Some((Seq(from), Seq(to))),
            target_tokens: 100,
            tools_withdrawn: false,
            masked: false,
            added: vec![ChatMessage::User { parts: vec![Part::text(told)] }],
        };
        let trace = CallTrace {
            at_n: 1,
            asked_at: Timestamp::UNIX_EPOCH,
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
        self.add(
            Some(channel),
            Event::Compaction(CompactionEvent::UsageSpent {
                model: "model".to_owned(),
                usage: Usage::default(),
                is_estimate: false,
                trace: Some(Box::new(trace)),
            }),
        );
    }

    fn erase(&self, person: &str) -> (Vec<Record>, Eraser) {
        let mut survey = Survey::new(person);
        self.records.iter().for_each(|record| survey.hear(record));
        assert!(survey.is_known());
        let mut eraser = Eraser::new(survey);
        let mut left: Vec<Record> =
            self.records.iter().filter_map(|record| eraser.erase(record.clone())).collect();
        let next = self.records.len() as u64 + 1;
        let closing = eraser.closing(Timestamp::UNIX_EPOCH, 0.0);
        left.extend((next..).zip(closing).map(|(n, NewRecord { channel, at, event })| Record {
            n,
            at,
            channel,
            event,
        }));
        (left, eraser)
    }
}

fn memory(scope: &str, subject: Option<&str>, text: &str, range: Option<(u64, u64)>) -> MemorySave {
    MemorySave {
        agent: "main".into(),
        scope: scope.parse().unwrap(),
        kind: MemoryKind::Fact,
        text: text.to_owned(),
        subject: subject.map(ToOwned::to_owned),
        importance: 0.5,
        source: Source {
            channel: range.map(|_| GROUP.parse().unwrap()),
            from_seq: range.map(|range| Seq(range.0)),
            to_seq: range.map(|range| Seq(range.1)),
            summary: None,
            model: "model".to_owned(),
            by: None,
            said_at: None,
            told_by: None,
        },
        sighting: format!("{GROUP}/s1/{text}"),
        explicit: false,
        replaces: Replaces::default(),
    }
}

fn text(records: &[Record]) -> String {
    serde_json::to_string(records).unwrap()
}

fn folded(records: &[Record], channel: &str) -> Conversation {
    let channel: ChannelId = channel.parse().unwrap();
    let mut conversation = Conversation::new(channel.clone());
    for record in records.iter().filter(|record| record.channel.as_ref() == Some(&channel)) {
        conversation.apply(record).unwrap();
    }
    conversation
}

#[test]
fn words_answers_names_and_private_chats_go_and_others_stay() {
    let mut book = Book::new();
    book.turn(
        GROUP,
        (ANNA, "Anna Kowalska"),
        "My parrot Zorblax eats rambutans, mail me at anna.k@zypo.org",
        "Rambutans for Zorblax, noted.",
    );
    book.turn(
        GROUP,
        (BEN, "Ben"),
        "The ferry leaves Gdynia at seven",
        "Kowalska said her parrot eats rambutans. The ferry is at seven.",
    );
    book.turn(PRIVATE, (ANNA, "Anna Kowalska"), "a secret wish", "kept");
    let before = folded(&book.records, GROUP);
    let (left, eraser) = book.erase(ANNA);
    let all = text(&left);
    for gone in ["5550123", "Kowalska", "Anna", "Zorblax", "zypo", "secret"] {
        assert!(!all.contains(gone), "{gone} in {all}");
    }
    for kept in [
        "The ferry leaves Gdynia at seven",
        "The ferry is at seven.",
        "telegram/erased-1",
        "erased-1 said her parrot eats",
    ] {
        assert!(all.contains(kept), "{kept} in {all}");
    }
    let after = folded(&left, GROUP);
    assert_eq!(after.next_seq, before.next_seq);
    assert_eq!(after.live.len(), before.live.len());
    assert!(after.heard.people.contains("telegram/erased-1") && after.heard.people.contains(BEN));
    let figures = eraser.figures();
    assert_eq!((figures.entries, figures.answers, figures.conversations), (2, 2, 1));
    assert!(
        matches!(&left.last().unwrap().event, Event::Maintenance(MaintenanceEvent::PersonErased { pseudonym, .. }) if pseudonym == "telegram/erased-1")
    );
}

#[test]
fn summaries_over_them_are_made_again_of_what_others_said_and_a_model_is_owed_one() {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna"), "Order ZX-4711 is late", "ZX-4711 is on its way");
    book.turn(GROUP, (BEN, "Ben"), "The ferry leaves Gdynia at seven", "Noted.");
    let theirs = memory("chat:telegram/-100", None, "Order ZX-4711 is late", Some((1, 4)));
    let bens = memory("chat:telegram/-100", Some("Ben"), "The ferry leaves Gdynia at seven", Some((1, 4)));
    book.run(
        GROUP,
        1,
        4,
        "Anna waits for ZX-4711; Ben says the ferry leaves Gdynia at seven",
        vec![theirs, bens],
    );
    let (left, eraser) = book.erase(ANNA);
    assert_eq!((eraser.figures().summaries, eraser.figures().memories), (1, 1));
    let after = folded(&left, GROUP);
    let summary = after.stack.summaries().next().unwrap();
    assert!(summary.text.contains("The ferry leaves Gdynia at seven"), "{summary:?}");
    assert_eq!((summary.made_by.as_str(), summary.identifiers.is_empty()), ("digest", true));
    assert!(summary.provisional, "a model makes it again");
    let all = text(&left);
    assert!(!all.contains("4711") && !all.contains("Anna"), "{all}");
    assert_eq!(all.matches("\"kind\":\"fact\"").count(), 1, "Ben's memory stays: {all}");
}

#[rstest]
#[case::by_her(Some(ANNA), true)]
#[case::bens(Some("Ben"), false)]
fn what_a_run_was_told_of_a_memory_that_goes_goes_too(#[case] subject: Option<&str>, #[case] goes: bool) {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna"), "Hello", "Hello.");
    book.turn(GROUP, (BEN, "Ben"), "The ferry leaves at seven", "Noted.");
    let save = memory("chat:telegram/-100", subject, "Quinces grow by the gate", None);
    let id = cairn_types::memory::mint_id(&save.fingerprint());
    book.add(None, Event::Memory(MemoryEvent::Saved(save)));
    let told = format!("<known-memories>\n- {id}: Quinces grow by the gate [2026-03-01]\n</known-memories>");
    book.asked(GROUP, (3, 4), told);
    let (left, _) = book.erase(ANNA);
    assert_eq!(text(&left).matches("Quinces").count(), if goes { 0 } else { 3 }, "{}", text(&left));
}

#[rstest]
#[case::scope(memory("user:telegram/5550123", None, "Likes tea", None), true)]
#[case::subject_id(memory("agent", Some(ANNA), "Likes tea", None), true)]
#[case::subject_name(memory("agent", Some("anna kowalska"), "Likes tea", None), true)]
#[case::full_name(memory("agent", Some("Ben"), "Ben met Anna Kowalska", None), false)]
#[case::of_nobody(memory("agent", None, "Tea with Anna Kowalska is at four", None), true)]
#[case::subject_with_their_name(memory("agent", Some("Kowalska's cat"), "It likes tea", None), true)]
#[case::begins_with_them(memory("agent", None, "Kowalska likes tea", None), true)]
#[case::mention(memory("agent", Some("Ben"), "Ben met Kowalska", None), false)]
#[case::in_their_words_alone(memory("chat:telegram/-100", None, "The order is late", Some((1, 2))), true)]
#[case::of_another_in_their_words_alone(memory("chat:telegram/-100", Some("Ben"), "The order is late", Some((1, 2))), true)]
#[case::among_their_words(memory("chat:telegram/-100", Some("orders"), "The order is late", Some((1, 4))), true)]
#[case::of_another_among_their_words(memory("chat:telegram/-100", Some("Ben"), "The order is late", Some((1, 4))), false)]
#[case::in_words_of_others(memory("chat:telegram/-100", None, "The ferry leaves at seven", Some((3, 4))), false)]
#[case::of_an_operator(memory("agent", None, "Tea is at four", None), false)]
fn memories_of_theirs_go(#[case] save: MemorySave, #[case] goes: bool) {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna Kowalska"), "QQ-99812 is late", "I see");
    book.turn(GROUP, (BEN, "Ben"), "The ferry leaves at seven", "Noted.");
    let id = cairn_types::memory::mint_id(&cairn_types::memory::Fingerprint::of(
        &save.agent,
        &save.scope,
        &save.text,
    ));
    book.add(None, Event::Memory(MemoryEvent::Saved(save)));
    book.add(None, Event::Memory(MemoryEvent::Forgotten { id, wished: false }));
    let (left, eraser) = book.erase(ANNA);
    let n = left
        .iter()
        .filter(|record| {
            matches!(record.event, Event::Memory(MemoryEvent::Saved(_) | MemoryEvent::Forgotten { .. }))
        })
        .count();
    assert_eq!(n, if goes { 0 } else { 2 });
    assert_eq!(eraser.figures().memories, u64::from(goes));
}

/// Anna's name, what Ben says, what is left of it, and whether a memory of his with these words stays.
#[rstest]
#[case::dot(".", "Yes. Fine, v1.2. Go.", "Yes. Fine, v1.2. Go.")]
#[case::dash("-", "a well-known inn - here", "a well-known inn - here")]
#[case::smile("\u{1f642}", "nice \u{1f642}", "nice \u{1f642}")]
#[case::word("Will", "they will go, said Will", "they will go, said erased-1")]
#[case::letter("A", "A ferry, plan A", "A ferry, plan A")]
#[case::digit("7", "at 7 the ferry leaves", "at 7 the ferry leaves")]
#[case::short("Bo", "bo, said Bo", "bo, said erased-1")]
fn a_name_that_everybody_writes_takes_nothing_from_others(
    #[case] name: &str,
    #[case] said: &str,
    #[case] left: &str,
) {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, name), "hello", "ok");
    book.turn(GROUP, (BEN, "Ben"), said, "ok");
    let mut answer = format!("[in reply to {name}: \"hi\"]\nyes");
    book.turn(GROUP, (BEN, "Ben"), &answer, "ok");
    let text_of_memory = "Ben takes the dude's ferry at 7. A good one - he says \u{1f642}";
    book.add(None, Event::Memory(MemoryEvent::Saved(memory("agent", Some("Ben"), text_of_memory, None))));
    let (after, eraser) = book.erase(ANNA);
    assert_eq!(eraser.figures().memories, 0, "{}", text(&after));
    let mut said_after = after.iter().filter_map(|record| match &record.event {
        Event::Message(MessageEvent::Accepted(pending)) if pending.author.id == BEN => {
            Some(text_of(&pending.parts))
        }
        _ => None,
    });
    assert_eq!(said_after.next().as_deref(), Some(left));
    answer = "[in reply to erased-1: \"[erased]\"]\nyes".to_owned();
    assert_eq!(said_after.next(), Some(answer), "the line in which an adapter names them");
}

#[test]
fn an_id_of_signs_alone_takes_no_platform_out_of_texts() {
    let mut book = Book::new();
    book.turn("main/local/main", ("local/.", "."), "hello", "ok");
    book.turn("main/local/main", ("local/ben", "Ben"), "a local ferry", "ok");
    assert!(text(&book.erase("local/.").0).contains("a local ferry"));
}

#[test]
fn calls_results_and_artifacts_of_their_turns_go_with_their_arguments() {
    let mut book = Book::new();
    let message = book.accept(GROUP, ANNA, "Anna", "look up my number");
    let first_seq = book.seq(GROUP);
    book.add(
        Some(GROUP),
        Event::Turn(TurnEvent::Started { turn: "t1".into(), messages: vec![message], first_seq }),
    );
    let mut call = book.entry(GROUP, Role::Assistant, "I look it up");
    call.tool_calls =
        vec![ToolCall { id: "c1".to_owned(), name: "lookup".to_owned(), arguments: json!({"q": "Anna"}) }];
    book.add(Some(GROUP), Event::Turn(TurnEvent::EntryAdded { entry: call }));
    let artifact = Artifact {
        id: "a1".into(),
        tool: "lookup".to_owned(),
        message: None,
        sent_in: None,
        bytes: 9,
        lines: 1,
        stored_at: Timestamp::UNIX_EPOCH,
        used_at: Timestamp::UNIX_EPOCH,
        expired_at: None,
        sha256: None,
        lost: false,
        file: None,
    };
    book.add(Some(GROUP), Event::Artifact(ArtifactEvent::Stored { artifact }));
    let mut result = book.entry(GROUP, Role::Tool, "0123 is the number");
    result.artifact = Some("a1".into());
    book.add(Some(GROUP), Event::Turn(TurnEvent::EntryAdded { entry: result }));
    book.add(
        Some(GROUP),
        Event::Turn(TurnEvent::ToolUsed(ToolUse {
            turn: "t1".into(),
            call: "c1".to_owned(),
            tool: "lookup".to_owned(),
            effect: Effect::Reads,
            caused_by: BTreeSet::from([ANNA.to_owned()]),
            arguments: json!({"q": "Anna"}),
            outcome: ToolOutcome::Done,
            error: None,
            duration_ms: 1,
            bytes: 9,
            approval: None,
            allowed_by: None,
        })),
    );
    book.add(
        Some(GROUP),
        Event::Turn(TurnEvent::UsageReported {
            model: "main".to_owned(),
            estimated: 9,
            usage: Usage { input_tokens: 9, ..Usage::default() },
            disbelieved: None,
            is_estimate: false,
            set_window: None,
            caused_by: BTreeSet::from([ANNA.to_owned()]),
            trace: None,
        }),
    );
    let (left, eraser) = book.erase(ANNA);
    let all = text(&left);
    assert!(all.contains("usage_reported") && !all.contains(&format!("\"{ANNA}\"")), "{all}");
    assert!(!all.contains("Anna") && !all.contains("0123") && !all.contains("look it up"), "{all}");
    assert_eq!(eraser.artifacts().count(), 1);
    let after = folded(&left, GROUP);
    assert!(after.artifacts.values().all(|artifact| artifact.expired_at.is_some()));
    assert!(after.open_turn.is_none(), "their open turn has ended");
    assert_eq!(after.live.len(), 3);
}

#[test]
fn the_copy_of_a_message_goes_with_it() {
    let mut book = Book::new();
    let message = book.accept(GROUP, ANNA, "Anna", &"my secret is safe ".repeat(100));
    let first_seq = book.seq(GROUP);
    book.add(
        Some(GROUP),
        Event::Turn(TurnEvent::Started { turn: "t1".into(), messages: vec![message], first_seq }),
    );
    let (stored_at, used_at) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
    let (id, tool, message) = ("a1".into(), String::new(), Some(first_seq));
    let artifact = Artifact {
        id,
        tool,
        message,
        sent_in: None,
        bytes: 1_800,
        lines: 1,
        stored_at,
        used_at,
        expired_at: None,
        sha256: None,
        lost: false,
        file: None,
    };
    book.add(Some(GROUP), Event::Artifact(ArtifactEvent::Stored { artifact }));
    let (form, artifact) = (PruneForm::Shrunk { bytes: 900 }, Some("a1".into()));
    let pruned =
        PrunedResult { seq: first_seq, form, tokens: 200, tool: String::new(), whole_bytes: 1_800, artifact };
    let (cause, results) = (PruneCause::Message, vec![pruned]);
    let tokens = (900, 300);
    let event = Event::Compaction(CompactionEvent::ResultsPruned {
        cause,
        results,
        scanned: 1,
        tokens_before: tokens.0,
        tokens_after: tokens.1,
    });
    book.add(Some(GROUP), event);
    let (left, eraser) = book.erase(ANNA);
    assert!(!text(&left).contains("secret"));
    assert_eq!(eraser.artifacts().count(), 1);
    let after = folded(&left, GROUP);
    assert!(after.artifacts.values().all(|artifact| artifact.expired_at.is_some()));
    assert_eq!(text_of(&after.sent(&after.live[0]).parts), ERASED);
}

#[test]
fn words_are_kept_only_of_channels_in_which_they_took_part_and_nothing_else_of_the_others() {
    const OTHERS: &str = "main/telegram/-99";
    let mut book = Book::new();
    for channel in [GROUP, OTHERS] {
        for n in 0..10 {
            book.turn(channel, ("telegram/9", "Zoe"), &format!("message {n}"), "an answer");
        }
    }
    book.turn(GROUP, (ANNA, "Anna"), "hello there", "hello");
    let (left, eraser) = book.erase(ANNA);
    let kept: Vec<_> =
        eraser.channels.iter().map(|(channel, state)| (channel.as_str(), state.n_kept())).collect();
    assert_eq!(kept, [(GROUP, 22)]);
    let others = |record: &&Record| record.channel.as_ref().is_some_and(|channel| channel.as_str() == OTHERS);
    let before: Vec<_> = book.records.iter().filter(others).collect();
    assert_eq!(left.iter().filter(others).collect::<Vec<_>>(), before);
}

#[test]
fn a_message_of_theirs_that_waits_is_answered_by_nobody() {
    let mut book = Book::new();
    book.accept(GROUP, ANNA, "Anna", "are you there");
    let (left, _) = book.erase(ANNA);
    let after = folded(&left, GROUP);
    assert!(!after.pending[0].addressed);
    assert_eq!(after.pending[0].parts, [Part::text(ERASED)]);
}

/// Anna has talked in one group, Ben in two. Then comes what a case says.
#[rstest]
#[case::more_of_both((GROUP, ANNA, "Anna Kowalska"), true)]
#[case::where_she_never_spoke(("main/telegram/-900", ANNA, "Anna Kowalska"), true)]
#[case::where_only_ben_spoke(("main/telegram/-200", ANNA, "Anna Kowalska"), false)]
#[case::in_private((PRIVATE, ANNA, "Anna Kowalska"), true)]
#[case::by_another_name((GROUP, ANNA, "Ania"), false)]
#[case::another_of_her_name((GROUP, "telegram/8", "Anna"), false)]
#[case::somebody_new((GROUP, "telegram/9", "Zoe"), true)]
fn what_was_rewritten_holds_until_it_would_be_otherwise(
    #[case] (channel, id, name): (&str, &str, &str),
    #[case] holds: bool,
) {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna Kowalska"), "I have a parrot", "Noted.");
    book.turn(GROUP, (BEN, "Ben"), "The ferry leaves at seven, Anna", "Noted.");
    book.turn("main/telegram/-200", (BEN, "Ben"), "The inn is full", "Noted.");
    let n_before = book.records.len();
    let (mut left, mut eraser) = book.erase(ANNA);
    left.truncate(n_before);
    book.turn(channel, (id, name), "hello", "hi");
    let since = &book.records[n_before..];
    since.iter().for_each(|record| eraser.hear(record));
    assert_eq!(eraser.still_holds(), holds);
    if holds {
        left.extend(since.iter().filter_map(|record| eraser.erase(record.clone())));
        let (mut at_once, _) = book.erase(ANNA);
        at_once.retain(|record| record.n <= book.records.len() as u64);
        assert_eq!(left, at_once, "as if it had all been there");
    }
}

#[test]
fn erasing_again_finds_nobody() {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna"), "hello there", "hello");
    let (left, _) = book.erase(ANNA);
    let mut survey = Survey::new(ANNA);
    left.iter().for_each(|record| survey.hear(record));
    assert!(!survey.is_known());
}

/// A text, and what is left of it.
#[rstest]
#[case::name("Anna Kowalska said so", "erased-1 said so")]
#[case::last_name("ask Kowalska's dog", "ask erased-1's dog")]
#[case::first_name("ask Anna, ANNA!", "ask erased-1, erased-1!")]
#[case::short_name_in_small_letters("ask anna", "ask anna")]
#[case::long_name_in_small_letters("ask kowalska", "ask erased-1")]
#[case::id("see telegram/5550123", "see erased-1")]
#[case::bare_id("user 5550123 left", "user erased-1 left")]
#[case::within_a_word("Annabel has 15550123", "Annabel has 15550123")]
#[case::no_name("call 601 234 567", "call 601 234 567")]
#[case::quote("[in reply to Anna Kowalska: \"tea\"]\nyes", "[in reply to erased-1: \"[erased]\"]\nyes")]
#[case::forwarded("[forwarded from Anna]\ntea\nat four", "[forwarded from erased-1]\n[erased]")]
#[case::quote_of_another("[in reply to Max: \"tea\"]\nyes", "[in reply to Max: \"tea\"]\nyes")]
#[case::first_name_of_another("Max is here", "Max is here")]
fn their_names_and_ids_go_from_other_texts(#[case] before: &str, #[case] after: &str) {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna Kowalska"), "", "ok");
    book.turn(GROUP, (ANNA, "Max Kowalska"), "", "ok");
    book.turn(GROUP, ("telegram/8", "Max"), "", "ok");
    let mut survey = Survey::new(ANNA);
    book.records.iter().for_each(|record| survey.hear(record));
    let mask = survey.mask();
    assert_eq!(mask.clean(before).as_deref().unwrap_or(before), after);
    let blanked = mask.blanked(before).unwrap_or_else(|| before.to_owned());
    assert_eq!((blanked.len(), blanked == before), (before.len(), before == after));
}

#[test]
fn a_run_under_way_over_them_begins_again() {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna"), "Order ZX-4711 is late", "ZX-4711 is on its way");
    book.turn(GROUP, (BEN, "Ben"), "The ferry leaves Gdynia at seven", "Noted.");
    book.run(GROUP, 1, 4, "", Vec::new());
    book.records.pop();
    let checkpoint = Checkpoint {
        chunks: 1,
        left_out: Vec::new(),
        to_seq: Seq(2),
        text: "An order is late".to_owned(),
        memories: Vec::new(),
        made_by: "model".to_owned(),
    };
    book.add(
        Some(GROUP),
        Event::Compaction(CompactionEvent::RunCheckpointed { run: "r1".into(), checkpoint }),
    );
    let (left, _) = book.erase(ANNA);
    assert!(folded(&left, GROUP).run.is_some_and(|run| run.checkpoint.is_none()));
    assert!(!text(&left).contains("order"));
}

#[test]
fn a_message_whose_id_names_them_gets_another_everywhere() {
    let mut book = Book::new();
    let mut pending = None;
    book.accept("main/local/main", "local/marzena", "marzena", "hi");
    if let Some(Event::Message(MessageEvent::Accepted(first))) =
        book.records.first_mut().map(|record| &mut record.event)
    {
        first.message = "marzena-1".into();
        pending = Some(first.message.clone());
    }
    let first_seq = book.seq("main/local/main");
    let messages = vec![pending.unwrap()];
    book.add(
        Some("main/local/main"),
        Event::Turn(TurnEvent::Started { turn: "t1".into(), messages, first_seq }),
    );
    let (left, _) = book.erase("local/marzena");
    assert!(!text(&left).contains("marzena"));
    assert_eq!(folded(&left, "main/local/main").live.len(), 1);
    let live: Vec<Arc<Entry>> = folded(&left, "main/local/main").live.into_iter().collect();
    assert_eq!(live[0].parts, [Part::text(ERASED)], "it is the same message, not a lost one");
}

#[rstest]
#[case("telegram/7", true)]
#[case(" local/anna ", true)]
#[case("anna", false)]
#[case("telegram/", false)]
#[case("/7", false)]
fn a_person_is_named_with_their_platform(#[case] text: &str, #[case] fine: bool) {
    assert_eq!(check_person(text).is_ok(), fine);
}

#[test]
fn a_recording_goes_with_who_sent_it_whoever_s_turn_is_open() {
    let mut book = Book::new();
    let first = book.accept(GROUP, BEN, "Ben", "anybody here?");
    let first_seq = book.seq(GROUP);
    book.add(
        Some(GROUP),
        Event::Turn(TurnEvent::Started { turn: "t1".into(), messages: vec![first], first_seq }),
    );
    let by_anna = book.accept(GROUP, ANNA, "Anna", "[voice message, transcribed]\nhere");
    book.add(Some(GROUP), recording("r1", &by_anna));
    let by_ben = book.accept(GROUP, BEN, "Ben", "[voice message, transcribed]\nhello");
    book.add(Some(GROUP), recording("r2", &by_ben));
    for (person, gone) in [(ANNA, "r1"), (BEN, "r2")] {
        let (left, eraser) = book.erase(person);
        let ids: Vec<&str> = eraser.artifacts().map(|(_, id)| id.as_str()).collect();
        assert_eq!(ids, [gone]);
        let expired = left.iter().filter_map(|record| match &record.event {
            Event::Artifact(ArtifactEvent::Stored { artifact }) => {
                artifact.expired_at.map(|_| artifact.id.as_str())
            }
            _ => None,
        });
        assert_eq!(expired.collect::<Vec<_>>(), [gone]);
    }
}

/// Who is named as the origin, whether it is known by its id, and whether all that came with it goes.
#[rstest]
#[case::by_their_name("Anna", false, true)]
#[case::by_their_id("Nan", true, true)]
#[case::somebody_else("Max", false, false)]
fn all_that_comes_with_a_forward_goes_with_whose_it_is(
    #[case] name: &str,
    #[case] by_id: bool,
    #[case] goes: bool,
) {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna"), "hello", "ok");
    let message = book.accept(GROUP, BEN, "Ben", &format!("[forwarded from {name}]"));
    let Some(Event::Message(MessageEvent::Accepted(pending))) =
        book.records.last_mut().map(|record| &mut record.event)
    else {
        unreachable!()
    };
    let known = if by_id { Provenance::of_person(ANNA) } else { Provenance::default() };
    pending.provenance = Provenance { strangers: true, ..known };
    let (media_type, data) = ("image/png".to_owned(), "AAAA".to_owned());
    pending.parts.push(Part::transcribed("voice message", "feed the quokka"));
    pending.parts.push(Part::Image { name: None, media_type, data });
    let before = pending.parts.clone();
    book.add(Some(GROUP), recording("r1", &message));
    let (left, eraser) = book.erase(ANNA);
    let after = left.iter().rev().find_map(|record| match &record.event {
        Event::Message(MessageEvent::Accepted(pending)) => Some(pending.parts.clone()),
        _ => None,
    });
    let erased = vec![Part::text("[forwarded from erased-1]"), Part::text(ERASED)];
    assert_eq!(after, Some(if goes { erased } else { before }));
    assert_eq!(eraser.artifacts().count(), usize::from(goes), "the recording goes with its words");
}

fn recording(id: &str, message: &MessageId) -> Event {
    let at = Timestamp::UNIX_EPOCH;
    let artifact = Artifact {
        id: id.into(),
        tool: String::new(),
        message: None,
        sent_in: Some(message.clone()),
        bytes: 5,
        lines: 0,
        stored_at: at,
        used_at: at,
        expired_at: None,
        sha256: None,
        lost: false,
        file: None,
    };
    Event::Artifact(ArtifactEvent::Stored { artifact })
}
