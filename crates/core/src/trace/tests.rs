//! A turn folded from its records, and its request made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Map, json};

use super::*;
use crate::agent::AgentSettings;
use crate::compaction::Brief;
use crate::conversation::Conversation;
use crate::engine::{ContextEngine as _, Standard};
use crate::testing::{agent, author, memory};
use crate::window::{Quoted, Tail};
use cairn_types::event::{
    Checkpoint, CompactionEvent, Event, MemoryEvent, MessageEvent, Record, Run, RunWork, Trigger, TurnEnd,
    TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ChannelId, Generation, Seq, TextId, TurnId};
use cairn_types::memory::{Memory, Quote};
use cairn_types::message::{Entry, Part, Pending, Provenance, Role, pending_tokens};
use cairn_types::model::{ChatMessage, ChatRequest, Usage};
use cairn_types::tier::Tier;
use cairn_types::tool::defs::{ToolDef, ToolDefs};
use cairn_types::tool::{Effect, ToolOutcome, ToolUse};
use cairn_types::trace::{CallFrame, CallTrace, FailedTry, RunCall};
use cairn_types::wire::format::{KeptText, Wire, WireFormat};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn channel() -> ChannelId {
    "main/local/room".parse().unwrap()
}

fn wire() -> Wire {
    Wire {
        format: WireFormat::Openai,
        model: "gpt".to_owned(),
        images: false,
        tools: true,
        stream: true,
        limit_key: "max_tokens".to_owned(),
        cache_ttl_secs: 300,
        breakpoints: false,
        extra: Map::new(),
        remedies: Vec::new(),
    }
}

fn settings() -> AgentSettings {
    let tool = ToolDef {
        name: "find".to_owned(),
        description: "finds".to_owned(),
        parameters: json!({"type": "object"}),
    };
    AgentSettings { tools: vec![tool].into(), ..agent(4_000, 500) }
}

/// A journal of one channel.
#[derive(Default)]
struct Book(Vec<Record>);

impl Book {
    fn add(&mut self, seconds: i64, event: Event) -> u64 {
        let n = self.0.len() as u64 + 1;
        self.0.push(Record { n, at: at(seconds), channel: Some(channel()), event });
        n
    }

    fn ask(&mut self, seconds: i64, turn: &str, text: &str) {
        let mut pending = Pending {
            message: format!("m-{turn}").as_str().into(),
            turn: turn.into(),
            at: at(seconds),
            author: author("local/ann", "Ann"),
            parts: vec![Part::text(text)],
            addressed: true,
            direct: false,
            chat_name: None,
            language: None,
            provenance: Provenance::default(),
            spoken: false,
            reminder: None,
            fingerprint: "f".to_owned(),
            tokens: 0,
        };
        pending.tokens = pending_tokens(&pending);
        let messages = vec![pending.message.clone()];
        self.add(seconds, Event::Message(MessageEvent::Accepted(pending)));
        let first_seq = self.folded().next_seq;
        let started = TurnEvent::Started { turn: turn.into(), messages, first_seq };
        self.add(seconds + 1, Event::Turn(started));
    }

    fn say(&mut self, seconds: i64, turn: &str, text: &str) -> Seq {
        let seq = self.folded().next_seq;
        let mut entry = Entry::new(seq, &turn.into(), Generation::default(), at(seconds), Role::Assistant);
        entry.parts = vec![Part::text(text)];
        entry.tokens = cairn_types::message::entry_tokens(&entry);
        self.add(seconds, Event::Turn(TurnEvent::EntryAdded { entry }));
        seq
    }

    fn end(&mut self, seconds: i64, turn: &str, reply: Seq) {
        let end = TurnEnd {
            turn: turn.into(),
            outcome: TurnOutcome::Answered { reply },
            model: Some("fake".to_owned()),
            usage: Usage::default(),
            recalled: Vec::new(),
        };
        self.add(seconds, Event::Turn(TurnEvent::Ended(end)));
    }

    fn folded(&self) -> Conversation {
        self.folded_to(u64::MAX)
    }

    fn folded_to(&self, n: u64) -> Conversation {
        let mut conversation = Conversation::new(channel());
        self.0.iter().filter(|record| record.n <= n).for_each(|record| conversation.apply(record).unwrap());
        conversation
    }

    /// What the daemon does before it asks: assembles, and notes by what.
    fn assemble(&self, seconds: i64, memories: &[Memory]) -> (ChatRequest, CallTrace, Vec<KeptText>) {
        let (conversation, settings) = (self.folded(), settings());
        let tail = Tail {
            now: at(seconds),
            zone: jiff::tz::TimeZone::UTC,
            recalled: memories.to_vec(),
            quotes: Vec::new(),
            last_call: false,
        };
        let request = Standard.assemble(&conversation, &settings, &tail).unwrap().request;
        let (texts, frame) = frame_of(&settings, &settings.system_prompt, None, &settings.tools, wire());
        let trace = CallTrace {
            at_n: conversation.last_n,
            asked_at: tail.now,
            frame,
            body: None,
            last_call: false,
            first_ms: Some(200),
            total_ms: 1_000,
            waited_ms: 0,
            cost: None,
            failure: None,
            tried: Vec::new(),
            work: None,
        };
        (request, trace, texts)
    }

    fn report(&mut self, seconds: i64, trace: CallTrace) {
        self.add(
            seconds,
            Event::Turn(TurnEvent::UsageReported {
                model: "fake".to_owned(),
                estimated: 90,
                usage: Usage { input_tokens: 100, output_tokens: 5, ..Usage::default() },
                disbelieved: None,
                is_estimate: false,
                set_window: None,
                caused_by: BTreeSet::new(),
                trace: Some(Box::new(trace)),
            }),
        );
    }
}

/// Two turns, the second with a memory; what was sent for it.
fn talked() -> (Book, ChatRequest, CallTrace, Vec<KeptText>, Memory) {
    let mut book = Book::default();
    book.ask(0, "t1", "hello");
    let reply = book.say(2, "t1", "hi");
    book.end(3, "t1", reply);
    book.ask(10, "t2", "what do I drink?");
    let tea = memory("agent", "Ann drinks tea");
    let recalled = MemoryEvent::Recalled {
        ids: vec![tea.id.clone()],
        tokens: 30,
        scores: vec![2.5],
        near: vec![("m9".into(), 0.4)],
        quotes: Vec::new(),
    };
    book.add(12, Event::Memory(recalled));
    let (request, trace, texts) = book.assemble(13, std::slice::from_ref(&tea));
    book.report(15, trace.clone());
    let reply = book.say(15, "t2", "tea");
    book.end(15, "t2", reply);
    (book, request, trace, texts, tea)
}

fn text<'a>(texts: &'a [KeptText], id: &TextId) -> Option<&'a str> {
    texts.iter().find(|text| text.id == *id).map(|text| &*text.text)
}

fn made(
    book: &Book,
    trace: &CallTrace,
    texts: &[KeptText],
    shown: &[Arc<Entry>],
    memories: &[Memory],
) -> Result<Rebuilt, Gap> {
    let frame: CallFrame = serde_json::from_str(text(texts, &trace.frame).unwrap()).unwrap();
    rebuild(Inputs {
        conversation: book.folded_to(trace.at_n),
        shown,
        model: "fake",
        trace,
        frame: &frame,
        prompt: text(texts, &frame.prompt),
        instructions: None,
        talk: Vec::new(),
        tools: frame.tools.as_ref().and_then(|id| text(texts, id)),
        memories,
        quoted: shown,
    })
}

#[test]
fn a_quoted_entry_stands_in_the_request_again_unless_its_words_are_gone() {
    let mut book = Book::default();
    let first = book.say(0, "t0", "the ferry leaves at ten");
    book.ask(10, "t1", "when?");
    let quote = Quote { seq: first, from: 4, to: 9, score: 1.5 };
    let (ids, scores, near) = (Vec::new(), Vec::new(), Vec::new());
    book.add(
        12,
        Event::Memory(MemoryEvent::Recalled { ids, tokens: 30, scores, near, quotes: vec![quote.clone()] }),
    );
    let (_, trace, texts) = book.assemble(13, &[]);
    let entry = book.folded().live.front().cloned().unwrap();
    let quotes = vec![Quoted { entry: Arc::clone(&entry), quote }];
    let zone = jiff::tz::TimeZone::UTC;
    let tail = Tail { now: at(13), zone, recalled: Vec::new(), quotes, last_call: false };
    let sent = Standard.assemble(&book.folded(), &settings(), &tail).unwrap().request;
    assert!(format!("{sent:?}").contains("…ferry…"), "{sent:?}");
    let again = made(&book, &trace, &texts, &[Arc::clone(&entry)], &[]).unwrap();
    assert_eq!((again.request, again.gaps), (sent, Vec::new()));
    let gone = made(&book, &trace, &texts, &[Arc::new(entry.deleted())], &[]).unwrap();
    assert!(gone.gaps.contains(&Gap::Deleted { entries: vec![(first, first)] }), "{:?}", gone.gaps);
    assert!(!format!("{:?}", gone.request).contains("ferry"));
}

#[test]
fn a_request_is_made_again_from_records_however_much_came_after_it() {
    let (mut book, request, trace, texts, tea) = talked();
    for n in 3..6 {
        let turn = format!("t{n}");
        book.ask(n * 10, &turn, "more");
        let reply = book.say(n * 10 + 2, &turn, "yes");
        book.end(n * 10 + 3, &turn, reply);
    }
    let rebuilt = made(&book, &trace, &texts, &[], &[tea]).unwrap();
    // The question is for the embedded model, the purpose for us: neither is sent.
    assert_eq!(rebuilt.request, request);
    assert_eq!(rebuilt.gaps, []);
}

#[test]
fn a_text_is_kept_once_whatever_else_a_frame_says() {
    let settings = settings();
    let ids = |settings: &AgentSettings| -> Vec<TextId> {
        let (texts, frame) = frame_of(settings, &settings.system_prompt, None, &settings.tools, wire());
        assert_eq!(texts.last().map(|text| &text.id), Some(&frame));
        assert!(texts.iter().all(|text| text.id == TextId::of(&text.text)));
        texts.into_iter().map(|text| text.id).collect()
    };
    let (first, narrowed) =
        (ids(&settings), ids(&AgentSettings { window: settings.window.narrowed(3_000), ..settings.clone() }));
    assert_eq!(first.len(), 3);
    assert_eq!(first[..2], narrowed[..2], "prompt and tools are the same texts");
    assert_ne!(first[2], narrowed[2]);
    assert_eq!(ids(&settings), first);
}

#[rstest]
#[case::expired(Entry::expired, |range| Gap::Expired { entries: range })]
#[case::deleted(Entry::deleted, |range| Gap::Deleted { entries: range })]
fn words_that_nobody_is_shown_any_more_are_left_out_and_named(
    #[case] hide: fn(&Entry) -> Entry,
    #[case] gap: fn(Vec<(Seq, Seq)>) -> Gap,
) {
    let (book, request, trace, texts, tea) = talked();
    let live = book.folded_to(trace.at_n).live;
    let shown: Vec<Arc<Entry>> = live.iter().take(2).map(|entry| Arc::new(hide(entry))).collect();
    let rebuilt = made(&book, &trace, &texts, &shown, &[tea]).unwrap();
    assert_eq!(rebuilt.gaps, [gap(vec![(Seq(1), Seq(2))])]);
    assert_ne!(rebuilt.request, request);
    let words = format!("{:?}", rebuilt.request.messages);
    assert!(!words.contains("hello") && words.contains("what do I drink?"), "{words}");
}

#[test]
fn what_is_not_in_the_journal_any_more_is_named() {
    let (mut book, _, trace, texts, tea) = talked();
    let forgotten = made(&book, &trace, &texts, &[], &[]).unwrap();
    assert_eq!(forgotten.gaps, [Gap::Memory { id: tea.id.clone() }]);
    let frame_alone = &texts[texts.len() - 1..];
    let bare = made(&book, &trace, frame_alone, &[], std::slice::from_ref(&tea)).unwrap();
    let what = |gap: &Gap| gap.to_string();
    assert_eq!(
        bare.gaps.iter().map(what).collect::<Vec<_>>(),
        [
            "the system prompt of that time is not in the journal",
            "the list of tools of that time is not in the journal"
        ]
    );
    if let Event::Message(MessageEvent::Accepted(pending)) = &mut book.0[0].event {
        pending.parts = vec![Part::text(crate::erasure::ERASED)];
    }
    let erased = made(&book, &trace, &texts, &[], &[tea]).unwrap();
    assert_eq!(erased.gaps, [Gap::Erased { entries: vec![(Seq(1), Seq(1))] }]);
}

#[test]
fn a_story_tells_of_its_own_turn_alone() {
    let (mut book, _, trace, _, _) = talked();
    let used = ToolUse {
        turn: "t2".into(),
        call: "c1".to_owned(),
        tool: "find".to_owned(),
        effect: Effect::Reads,
        caused_by: BTreeSet::new(),
        arguments: json!({}),
        outcome: ToolOutcome::Done,
        error: None,
        duration_ms: 40,
        bytes: 3,
        approval: None,
        allowed_by: None,
    };
    book.add(15, Event::Turn(TurnEvent::ToolUsed(used)));
    book.ask(20, "t3", "next");
    let told = story(&TurnId::from("t2"), &book.0).unwrap();
    assert_eq!(
        told.asked.iter().map(|(seq, pending)| (seq.0, pending.parts.len())).collect::<Vec<_>>(),
        [(3, 1)]
    );
    let recalled = told.recalled.clone().unwrap();
    assert_eq!(
        (recalled.memories, recalled.near),
        (vec![("m1".into(), Some(2.5))], vec![("m9".into(), 0.4)])
    );
    assert_eq!(
        told.calls.iter().map(|call| call.trace.as_deref().cloned()).collect::<Vec<_>>(),
        [Some(trace)]
    );
    assert_eq!((told.tools.len(), told.said.len(), told.undone), (1, 1, false));
    assert_eq!(told.end.as_ref().map(|(ended, _)| *ended), Some(at(15)));
    let stages: Vec<(&str, u64)> = told.stages().iter().map(|stage| (stage.name, stage.ms)).collect();
    let expected = [
        ("waiting", 1_000),
        ("recall and assembling", 2_000),
        ("to the first word", 200),
        ("models", 1_000),
        ("tools", 40),
        ("whole turn", 4_000),
    ];
    assert_eq!(stages, expected);
    assert_eq!(story(&TurnId::from("t9"), &book.0), None);
    assert_eq!(told.started_at.duration_since(told.accepted_at.unwrap()), SignedDuration::from_secs(1));
}

#[test]
fn tries_that_failed_alike_are_counted() {
    let mut tries = Vec::new();
    for (model, error) in [("a", "overloaded"), ("b", "timeout"), ("a", "overloaded"), ("a", "timeout")] {
        FailedTry::note(&mut tries, model, error);
    }
    let counted: Vec<_> =
        tries.iter().map(|tried| (tried.model.as_str(), tried.error.as_str(), tried.n)).collect();
    assert_eq!(counted, [("a", "overloaded", 2), ("b", "timeout", 1), ("a", "timeout", 1)]);
}

#[rstest]
#[case("last", WhichTurn::Last)]
#[case("t12", WhichTurn::Id("t12".into()))]
#[case("message:1184", WhichTurn::Message("1184".into()))]
#[case("at:2026-11-23T07:00:00Z", WhichTurn::At("2026-11-23T07:00:00Z".parse().unwrap()))]
fn a_turn_is_named_as_in_a_url(#[case] name: &str, #[case] expected: WhichTurn) {
    assert_eq!(name.parse(), Ok(expected));
}

#[test]
fn a_time_that_is_none_is_refused() {
    assert!("at:yesterday".parse::<WhichTurn>().is_err());
}

/// A run over six of eight turns, the first two of them summarised already.
fn long_run(book: &mut Book) -> (Run, Checkpoint) {
    for n in 0..8 {
        let turn = format!("t{n}");
        book.ask(n * 10, &turn, &format!("question {n} about a kayak"));
        let seq = book.say(n * 10 + 2, &turn, "an answer that takes some words to be said");
        book.end(n * 10 + 3, &turn, seq);
    }
    let run = Run {
        id: "r1".into(),
        trigger: Trigger::Manual,
        tier: Tier::Calm,
        work: RunWork::Sealed,
        from_seq: Seq(1),
        to_seq: Seq(12),
        messages: 12,
        instruction: Some("the kayak".to_owned()),
        started_at: at(100),
        attempt: 1,
        retry_at: None,
        tokens_before: 900,
        checkpoint: None,
        tell: false,
        failure: None,
        replaces: None,
        spent: BTreeMap::new(),
    };
    book.add(100, Event::Compaction(CompactionEvent::RunStarted { run: run.clone() }));
    let checkpoint = Checkpoint {
        chunks: 1,
        to_seq: Seq(4),
        text: "## Goal\na kayak".to_owned(),
        made_by: "fake".to_owned(),
        memories: Vec::new(),
        left_out: Vec::new(),
    };
    let done = CompactionEvent::RunCheckpointed { run: run.id.clone(), checkpoint: checkpoint.clone() };
    book.add(101, Event::Compaction(done));
    (run, checkpoint)
}

#[test]
fn a_request_of_a_long_run_is_made_again_from_the_chunks_before_it_and_names_what_has_expired() {
    let mut book = Book::default();
    let (run, checkpoint) = long_run(&mut book);
    // As a worker asks for the rest.
    let (conversation, mut reader) = (book.folded(), settings());
    reader.compactor_prompt = "Summarise.".to_owned();
    reader.compaction.instructions = Some("Keep prices.".to_owned());
    let (channel, tools) = (channel(), ToolDefs::default());
    let brief =
        Brief { channel: &channel, run: &run, reader: &reader, tools: false, correction: 1.0, mask: None };
    let entries = conversation.readable(&run, conversation.live.iter().cloned());
    let chunk = brief.chunk(&entries[4..], Some(&checkpoint.text), None, false).unwrap();
    let mut request = brief.summarise(entries[4..4 + chunk.n].into(), &chunk.script, &chunk.beside(), 300);
    let talk = vec![ChatMessage::User { parts: vec![Part::text("once more")] }];
    request.messages.extend(talk.clone());
    request.max_output_tokens = Brief::answer_limit(&reader, &chunk.room, &request);
    let (prompt, wishes) = (reader.compactor_prompt.as_str(), reader.compaction.instructions.as_deref());
    let (texts, frame) = frame_of(&reader, prompt, wishes, &tools, wire());
    let (_, mut trace, _) = book.assemble(102, &[]);
    trace.frame = frame;
    trace.work = Some(RunCall {
        run: run.id.clone(),
        round: 2,
        entries: Some((Seq(5), Seq(4 + chunk.n as u64))),
        target_tokens: 300,
        tools_withdrawn: false,
        masked: false,
        added: talk.clone(),
    });
    book.say(200, "t7", "said later");

    let frame: CallFrame = serde_json::from_str(text(&texts, &trace.frame).unwrap()).unwrap();
    let again = |shown: &[Arc<Entry>], talk: Vec<ChatMessage>| {
        rebuild(Inputs {
            conversation: book.folded_to(trace.at_n),
            shown,
            model: "fake",
            trace: &trace,
            frame: &frame,
            prompt: text(&texts, &frame.prompt),
            instructions: frame.instructions.as_ref().and_then(|id| text(&texts, id)),
            tools: None,
            talk,
            memories: &[],
            quoted: &[],
        })
        .unwrap()
    };
    let made = again(&entries, talk.clone());
    assert_eq!((made.request, made.gaps), (request, Vec::new()));
    let expired: Vec<_> = entries.iter().map(|entry| Arc::new(entry.expired())).collect();
    let gaps = again(&expired, Vec::new()).gaps;
    assert_eq!(
        gaps,
        [
            Gap::Expired { entries: vec![(Seq(5), Seq(12))] },
            Gap::Text { what: "talk before this call".to_owned() }
        ]
    );
}
