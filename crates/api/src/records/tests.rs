//! Snapshots of the records: their names and shapes are a promise.

use std::sync::Arc;

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::conversation::{Conversation, Outline};
use cairn_core::settings::CompactionSettings;
use cairn_core::window::Frame;
use cairn_types::event::{Run, RunOutcome, RunReport, RunWork, Trigger};
use cairn_types::ids::{AgentId, ChannelId, Generation, Seq};
use cairn_types::message::{Author, Entry, Part, Pending, Role, ToolCall};
use cairn_types::tier::Tier;
use cairn_types::tokens::Correction;
use jiff::Timestamp;
use serde_json::json;

use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + 60 * minute).unwrap()
}

fn entry(seq: u64, role: Role, parts: Vec<Part>) -> Entry {
    Entry {
        seq: Seq(seq),
        turn: "t1".into(),
        generation: Generation(1),
        at: at(seq as i64),
        role,
        author: (role == Role::User).then(|| Author { id: "local/ann".to_owned(), name: "Ann".to_owned() }),
        message: (role == Role::User).then(|| "m1".into()),
        parts,
        reasoning: None,
        provider_state: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        files: Vec::new(),
        provenance: cairn_types::message::Provenance::default(),
        spoken: false,
        quotes: false,
        finish: None,
        tokens: 10,
    }
}

fn conversation() -> Conversation {
    let mut conversation = Conversation::new("main/local/ops".parse::<ChannelId>().unwrap());
    let file = Part::File { name: "a.txt".to_owned(), media_type: None, text: Some("inside".to_owned()) };
    let image = Part::Image { name: None, media_type: "image/png".to_owned(), data: "AA==".to_owned() };
    let mut calling = entry(2, Role::Assistant, vec![]);
    let arguments = json!({ "query": "tea" });
    calling.tool_calls = vec![ToolCall { id: "c1".to_owned(), name: "memory_search".to_owned(), arguments }];
    let mut result = entry(3, Role::Tool, vec![Part::text("nothing")]);
    result.tool_call_id = Some("c1".to_owned());
    conversation.live = [entry(1, Role::User, vec![Part::text("hi"), file, image]), calling, result]
        .into_iter()
        .map(Arc::new)
        .collect();
    conversation.next_seq = Seq(4);
    conversation.last_at = at(5);
    conversation.pending.push_back(Pending {
        message: "m2".into(),
        turn: "t2".into(),
        at: at(4),
        author: Author { id: "local/bo".to_owned(), name: "Bo".to_owned() },
        parts: vec![Part::text("and I?")],
        addressed: true,
        direct: false,
        chat_name: None,
        language: None,
        provenance: cairn_types::message::Provenance::default(),
        spoken: false,
        reminder: None,
        fingerprint: "f".to_owned(),
        tokens: 5,
    });
    conversation.run = Some(Run {
        id: "r2".into(),
        trigger: Trigger::Threshold,
        tier: Tier::Background,
        work: RunWork::Sealed,
        from_seq: Seq(1),
        to_seq: Seq(1),
        messages: 1,
        instruction: None,
        started_at: at(4),
        attempt: 1,
        retry_at: None,
        tokens_before: 100,
        checkpoint: None,
        tell: false,
        failure: None,
        replaces: None,
        spent: Default::default(),
    });
    conversation.outcomes.push_back(RunReport {
        run: "r1".into(),
        trigger: Trigger::Manual,
        outcome: RunOutcome::Rejected,
        reason: Some("the summary is empty".to_owned()),
        tokens_before: 100,
        tokens_after: 100,
        messages: 2,
        first_kept_seq: Some(Seq(1)),
        duration_ms: 12,
        memories: 0,
        summary_size: None,
        ended_at: None,
        attempts: 0,
        spent: Default::default(),
    });
    conversation
        .corrections
        .insert("fake".to_owned(), Correction { estimated: 100.4, reported: 150.0, ratio: 1.5 });
    conversation
}

fn agent() -> AgentSettings {
    AgentSettings {
        id: AgentId::from("main"),
        system_prompt: "Be kind.".to_owned(),
        compactor_prompt: "Summarise.".to_owned(),
        window: WindowSize::resolve(None, Some(8_000), None, 128_000, None),
        growth: None,
        compaction: CompactionSettings::default(),
        pruning: cairn_core::settings::PruningSettings::default(),
        result_guard: cairn_core::settings::ResultGuardSettings::default(),
        window_guard: cairn_core::settings::WindowGuard::default(),
        engine: cairn_core::engine::STANDARD.to_owned(),
        cache_ttl_secs: 300,
        model: "fake".to_owned(),
        tools: Vec::new().into(),
        recall_limit: 6,
        quote_tokens: 0,
        mid_turn_messages: true,
        memory: cairn_core::settings::MemorySettings::default(),
        trust: cairn_core::trust::TrustSettings::default(),
        max_rounds: 8,
        timezone: "UTC".to_owned(),
        languages: cairn_types::texts::Languages::default(),
    }
}

#[test]
fn what_the_day_has_cost_is_told_with_its_cap_and_currency() {
    let spend = |per_day, currency: Option<&str>| SpendStatus {
        today: 0.12,
        per_day,
        currency: currency.map(str::to_owned),
    };
    assert_eq!(spend(None, None).described(), "0.12");
    assert_eq!(spend(Some(5.0), Some("EUR")).described(), "0.12 of 5.00 EUR");
}

#[test]
fn context() {
    insta::assert_json_snapshot!(ContextRecord::of(&conversation(), &agent(), &agent().model, &[]));
}

#[test]
fn channel() {
    let (conversation, agent) = (conversation(), agent());
    let Conversation { channel, last_at, .. } = conversation.clone();
    let entries = conversation.next_seq.0 - 1;
    let line = ChannelLine { channel, last_at, entries, outline: None };
    let outline = Outline::of(&conversation);
    let usage = outline.sizes.usage(Frame::of(&agent), &conversation.correction("fake"), &agent);
    let gauge = window::measure(&conversation, &agent);
    assert_eq!(usage, (gauge.usage_ratio, gauge.tier), "the list shows what the window shows");
    insta::assert_json_snapshot!(ChannelRecord::of(
        line,
        Wakefulness::Awake,
        usage,
        outline.summaries,
        outline.name.clone()
    ));
}

#[test]
fn history_with_what_is_pending() {
    let conversation = conversation();
    let correction = conversation.correction("fake");
    let mut records: Vec<_> =
        conversation.live.iter().map(|entry| EntryRecord::of(entry, &conversation, &correction)).collect();
    records.extend(pending_records(&conversation, &correction));
    insta::assert_json_snapshot!(records);
}

#[test]
fn gauge() {
    insta::assert_json_snapshot!(GaugeRecord::of(&conversation(), &agent()));
}

#[test]
fn coverage_has_every_entry_once_in_its_place() {
    let summary = |id: &str, from: u64, to: u64| {
        json!({ "id": id, "level": 0, "from_seq": from, "to_seq": to, "from_at": at(1), "to_at": at(2), "messages": 1,
                "tokens": 9, "made_by": "fake", "text": "tea" })
    };
    let marker =
        json!({ "kind": "truncated", "from_seq": 8, "to_seq": 9, "messages": 2, "digest": [], "tokens": 3 });
    let mut conversation = conversation();
    conversation.first_seq = Seq(3);
    conversation.stack =
        serde_json::from_value(json!([summary("s1", 3, 5), summary("s2", 6, 7), marker])).unwrap();
    conversation.live = (10..=20).map(|seq| Arc::new(entry(seq, Role::User, vec![]))).collect();
    conversation.next_seq = Seq(21);
    conversation.run.as_mut().unwrap().to_seq = Seq(14);
    conversation
        .undone
        .push(serde_json::from_value(json!({ "turn": "t9", "from_seq": 17, "to_seq": 18 })).unwrap());
    let stretches = coverage(&conversation);
    let told: Vec<_> = stretches
        .iter()
        .map(|stretch| (stretch.from_seq.0, stretch.to_seq.0, stretch.place.to_string()))
        .collect();
    let expected = [
        (1, 2, "archived"),
        (3, 5, "summary:s1"),
        (6, 7, "summary:s2"),
        (8, 9, "marker"),
        (10, 14, "sealed"),
        (15, 16, "live"),
        (17, 18, "archived"),
        (19, 20, "live"),
    ];
    assert_eq!(told, expected.map(|(from, to, place)| (from, to, place.to_owned())));
    for seq in 1..21 {
        let in_it = |stretch: &&Stretch| stretch.from_seq <= Seq(seq) && Seq(seq) <= stretch.to_seq;
        let places: Vec<_> = stretches.iter().filter(in_it).map(|stretch| stretch.place.clone()).collect();
        assert_eq!(places, [conversation.place(Seq(seq)).unwrap()], "entry {seq}");
    }
    let none = Conversation::new("main/local/ops".parse::<ChannelId>().unwrap());
    assert_eq!(coverage(&none), []);
}

#[test]
fn reactions_are_a_line_by_emoji() {
    let conversation = Conversation::new("main/local/main".parse().unwrap());
    let mut record =
        EntryRecord::of(&entry(2, Role::Assistant, Vec::new()), &conversation, &Correction::default());
    assert_eq!(record.reactions_line(), None);
    for (name, emoji) in [("Ann", "👍"), ("Cleo\n", "🦆"), ("Ben", "👍")] {
        let by = history::AuthorRecord { id: format!("net/{name}"), name: name.to_owned() };
        record.reactions.push(ReactionRecord { by, emoji: emoji.to_owned() });
    }
    assert_eq!(record.reactions_line().unwrap(), "👍 Ann, Ben · 🦆 Cleo");
}
