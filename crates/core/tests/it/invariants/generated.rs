//! Generated sequences: whatever happens in whatever order, the invariants hold after every step.

use std::sync::Arc;

use cairn_core::settings::{HardClear, PruneMode, PruningSettings};
use cairn_core::window;
use cairn_types::event::{
    CompactionEvent, DeliveryEvent, Event, MessageEvent, Receipt, Record, Run, TurnEvent,
};
use cairn_types::ids::{MessageId, OutboxId, Seq};
use cairn_types::message::{Entry, Role};
use cairn_types::model::{ChatMessage, ChatRequest};
use proptest::prelude::*;

use crate::invariants::expired::check_expired;
use crate::invariants::sim::Sim;

#[derive(Debug, Clone)]
enum Step {
    Accept(usize),
    StartTurn,
    CallTool(Option<usize>),
    Answer(usize),
    Stop,
    Watch,
    Commit,
    CommitLate(usize),
    FailAttempt,
    GiveUp,
    Manual,
    Emergency,
    Overflow,
    /// So many seconds in which nothing happens.
    Pass(i64),
    New,
    Report(f64),
    Restart,
    /// The message so many before the newest.
    Edit(u64, usize),
    Delete(u64),
    Undo,
    Outbox(u8, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..300_usize).prop_map(Step::Accept),
        1 => (3_000..9_000_usize).prop_map(Step::Accept),
        8 => Just(Step::StartTurn),
        3 => proptest::option::weighted(0.8, 0..600_usize).prop_map(Step::CallTool),
        8 => (0..300_usize).prop_map(Step::Answer),
        1 => Just(Step::Stop),
        5 => Just(Step::Watch),
        4 => Just(Step::Commit),
        1 => (0..5_usize).prop_map(Step::CommitLate),
        2 => Just(Step::FailAttempt),
        1 => Just(Step::GiveUp),
        1 => Just(Step::Manual),
        2 => Just(Step::Emergency),
        1 => Just(Step::Overflow),
        2 => (0..900_i64).prop_map(Step::Pass),
        1 => Just(Step::New),
        1 => (0.5..3.0_f64).prop_map(Step::Report),
        2 => Just(Step::Restart),
        3 => ((0..8_u64), (0..60_usize)).prop_map(|(back, n)| Step::Edit(back, n)),
        3 => (0..12_u64).prop_map(Step::Delete),
        3 => Just(Step::Undo),
        3 => ((0..6_u8), (0..4_usize)).prop_map(|(what, idx)| Step::Outbox(what, idx)),
    ]
}

fn words(n: usize) -> String {
    let some = ["Anna", "moved", "to", "Lisbon", "on", "12", "May", "with", "her", "cello", "and", "I"];
    let text: Vec<_> = (0..n).map(|idx| some[(idx * 7 + n) % some.len()]).collect();
    if text.is_empty() { "yes".to_owned() } else { text.join(" ") }
}

/// A word that only that message has.
fn own_word(n: u64) -> String {
    format!("Xq{n}z")
}

fn outbox(sim: &mut Sim, what: u8, idx: usize) {
    let id: OutboxId = format!("o{idx}").into();
    let turn = sim.conversation.open_turn.as_ref().map_or_else(|| "t1".into(), |open| open.id.clone());
    let is_listed = sim.items.iter().any(|item| item.id == id);
    sim.journal(match what {
        0 if !is_listed => Event::Delivery(DeliveryEvent::Intended {
            id,
            turn,
            seq: Seq(1),
            note: None,
            approval: None,
            reply_to: None,
            edits: None,
            draft: idx == 3,
            files: Vec::new(),
        }),
        0 | 1 => Event::Delivery(DeliveryEvent::Attempted { id, part: 0 }),
        2 => Event::Delivery(DeliveryEvent::Settled {
            id,
            receipt: Receipt::Delivered { messages: Vec::new() },
        }),
        3 => Event::Delivery(DeliveryEvent::Settled {
            id,
            receipt: Receipt::Dead { reason: "gone".to_owned() },
        }),
        4 => Event::Delivery(DeliveryEvent::Retried { id }),
        _ => Event::Delivery(DeliveryEvent::Dropped { id }),
    });
}

fn carry_out(sim: &mut Sim, step: &Step) {
    match step {
        Step::Accept(n) => sim.accept(&format!("{} {}", own_word(sim.n_messages + 1), words(*n))),
        Step::StartTurn => sim.start_turn(),
        Step::CallTool(result) => sim.call_tool(result.map(words).as_deref()),
        Step::Answer(n) => sim.answer(&words(*n)),
        Step::Stop => sim.stop(),
        Step::Watch => drop(sim.watch()),
        Step::Commit => sim.commit("They talked about Lisbon and a cello."),
        Step::CommitLate(idx) => {
            if let Some(run) = sim.ended.get(*idx).cloned() {
                let before = sim.journal.len();
                sim.commit_run(&run, "late");
                assert_eq!(sim.journal.len(), before, "a late result changed something");
            }
        }
        Step::FailAttempt => sim.fail_attempt(),
        Step::GiveUp => sim.give_up(),
        Step::Manual => sim.manual(),
        Step::Emergency => drop(sim.emergency()),
        Step::Overflow => sim.overflow(),
        Step::Pass(secs) => sim.pass(*secs),
        Step::New => sim.new_generation(),
        Step::Report(ratio) => sim.report(*ratio),
        Step::Edit(back, n) => {
            let message = sim.n_messages.saturating_sub(*back);
            drop(sim.edit(message, &format!("{} now {}", own_word(message), words(*n))));
        }
        Step::Delete(back) => drop(sim.delete(sim.n_messages.saturating_sub(*back))),
        Step::Undo => drop(sim.undo()),
        Step::Outbox(what, idx) => outbox(sim, *what, *idx),
        Step::Restart => sim.conversation = sim.restored_from(sim.journal.len() / 2),
    }
}

/// Invariant 4 and 5: the request fits, and no call is parted from its result.
fn check_request(sim: &mut Sim) {
    if sim.conversation.open_turn.is_none() {
        return;
    }
    sim.emergency();
    let assembled = sim.assemble();
    let usable = sim.agent.window.usable_tokens();
    assert!(assembled.tokens <= usable, "{} tokens in a window of {usable}", assembled.tokens);
    let mut owed: Vec<&str> = Vec::new();
    for message in &assembled.request.messages {
        match message {
            ChatMessage::Assistant { tool_calls, .. } => {
                assert!(owed.is_empty(), "a call was parted from its result");
                owed = tool_calls.iter().map(|call| call.id.as_str()).collect();
            }
            ChatMessage::Tool { call_id, .. } => {
                let idx = owed.iter().position(|id| id == call_id).expect("a result without its call");
                owed.remove(idx);
            }
            ChatMessage::User { .. } | ChatMessage::Context { .. } => {
                assert!(owed.is_empty(), "a call was parted from its result");
            }
        }
    }
    let asked = |message: &ChatMessage| matches!(message, ChatMessage::User { .. });
    assert!(assembled.request.messages.iter().any(asked), "the question is not in the request");
}

/// The open turn is never cut, and neither seals nor emergencies part a turn.
fn check_whole_turns(sim: &Sim) {
    let conversation = &sim.conversation;
    if let Some(open) = &conversation.open_turn {
        let first = conversation.live.iter().find(|entry| entry.turn == open.id);
        assert_eq!(first.map(|entry| entry.seq), Some(open.first_seq), "the open turn was cut");
    }
    let started: Vec<_> = sim
        .journal
        .iter()
        .filter_map(|record| match &record.event {
            Event::Turn(TurnEvent::Started { first_seq, .. }) => Some(*first_seq),
            _ => None,
        })
        .collect();
    for item in conversation.stack.items() {
        assert!(started.contains(&item.range().0), "a turn was parted at {:?}", item.range());
    }
}

/// Deleted words are in no run's source, and in no request.
fn check_deleted(sim: &Sim) {
    let word = |id: &MessageId| own_word(id.as_str()[1..].parse().unwrap());
    let conversation = &sim.conversation;
    if let Some(run) = &conversation.run {
        let source = conversation.readable(run, conversation.live.iter().cloned());
        for message in &sim.deleted {
            let has = |entry: &Arc<Entry>| entry.text().contains(&word(message));
            assert!(!source.iter().any(has), "a run reads deleted message {message}");
        }
        assert!(source.iter().all(|entry| !conversation.is_undone(entry.seq)));
    }
    if conversation.open_turn.is_some() && !(sim.deleted.is_empty() && conversation.undone.is_empty()) {
        let request = format!("{:?}", sim.assemble().request);
        for message in &sim.deleted {
            assert!(!request.contains(&word(message)), "deleted message {message} is in the request");
        }
        for undone in &conversation.undone {
            let said = sim.spoken.range(undone.from_seq..=undone.to_seq).map(|(_, entry)| entry);
            for id in said.filter_map(|entry| entry.message.as_ref()).filter(|id| !id.is_correction()) {
                let corrected = |entry: &&Arc<Entry>| {
                    entry.message.as_ref().is_some_and(|other| other.is_of(id) && other != id)
                };
                // A correction that was taken up later stands on its own, also where a marker quotes it.
                let stands = |entry: &&Arc<Entry>| corrected(entry) && !conversation.is_undone(entry.seq);
                if !sim.spoken.values().any(|entry| stands(&entry)) {
                    assert!(!request.contains(&word(id)), "undone message {id} is in the request");
                }
            }
        }
    }
}

/// An edit of a message changes nothing of what the model saw before.
fn check_prefix(before: Option<ChatRequest>, sim: &Sim) {
    if let Some(before) = before {
        assert_eq!(
            sim.assemble().request.messages.split_last().unwrap().1,
            before.messages.split_last().unwrap().1
        );
        assert_eq!(sim.assemble().request.system, before.system);
    }
}

/// Invariant 8: from request to request the prefix stays, but for a cause. Returns this request, and the journal's length.
fn check_stable(before: Option<(ChatRequest, usize)>, sim: &Sim) -> Option<(ChatRequest, usize)> {
    if sim.conversation.open_turn.is_none() {
        return before;
    }
    let assembled = sim.assemble();
    // A server's report may say that what fitted does not: the request is then a view of its own.
    let fits = window::measure(&sim.conversation, &sim.agent).tokens <= sim.agent.window.usable_tokens();
    if !assembled.shortened.is_empty() || !fits {
        return None;
    }
    let is_cause = |record: &Record| match &record.event {
        Event::Compaction(CompactionEvent::RunEnded(end)) => end.summary.is_some(),
        Event::Compaction(
            CompactionEvent::EmergencyApplied { .. }
            | CompactionEvent::ResultsPruned { .. }
            | CompactionEvent::StackRetired { .. },
        )
        | Event::Message(MessageEvent::Deleted { .. })
        | Event::Turn(TurnEvent::SessionStarted { .. } | TurnEvent::Undone { .. }) => true,
        _ => false,
    };
    if let Some((before, n)) = before.filter(|(_, n)| !sim.journal[*n..].iter().any(is_cause)) {
        let (_tail, stable) = before.messages.split_last().unwrap();
        assert_eq!(before.system, assembled.request.system, "the prefix changed without a cause after {n}");
        let now = &assembled.request.messages[..stable.len()];
        assert_eq!(stable, now, "the prefix changed without a cause after {n}");
    }
    Some((assembled.request, sim.journal.len()))
}

fn pruning() -> impl Strategy<Value = PruningSettings> {
    let mode = prop_oneof![Just(PruneMode::Pressure), Just(PruneMode::CacheTtl), Just(PruneMode::Off)];
    (mode, 300..1_200_usize, 0..60_000_u64, proptest::bool::ANY).prop_map(
        |(mode, shrink_bytes, protect_tokens, clears)| PruningSettings {
            mode,
            shrink_bytes,
            protect_tokens,
            min_win_tokens: protect_tokens / 2,
            soft_chars: shrink_bytes,
            keep_chars: shrink_bytes / 3,
            keep_replies: 1,
            hard_clear: HardClear { enabled: clears },
            ..PruningSettings::default()
        },
    )
}

/// A run under way stays what it was, whatever messages arrive.
fn check_run(before: Option<&Run>, sim: &Sim, step: &Step) {
    let quiet = matches!(
        step,
        Step::Accept(_)
            | Step::StartTurn
            | Step::CallTool(_)
            | Step::Answer(_)
            | Step::Stop
            | Step::Emergency
            | Step::Overflow
            | Step::Pass(_)
            | Step::Edit(..)
            | Step::Delete(_)
            | Step::Undo
            | Step::Outbox(..)
    );
    if quiet && let Some(before) = before {
        assert_eq!(sim.conversation.run.as_ref(), Some(before), "{step:?} touched the run under way");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_after_every_step(
        steps in proptest::collection::vec(step(), 1..120),
        window in 900..6_000_u64,
        pruning in pruning(),
        share in 0.0..=1.0_f64,
    ) {
        let mut sim = Sim::new(window);
        sim.agent.pruning = pruning;
        let mut last = None;
        for step in &steps {
            let run = sim.conversation.run.clone();
            let amends = matches!(step, Step::Edit(..));
            let request =
                (amends && sim.conversation.open_turn.is_some()).then(|| sim.assemble().request);
            carry_out(&mut sim, step);
            check_prefix(request, &sim);
            check_run(run.as_ref(), &sim, step);
            sim.check_coverage();
            sim.check_messages();
            sim.check_owed();
            check_deleted(&sim);
            check_whole_turns(&sim);
            check_request(&mut sim);
            sim.check_weights();
            last = check_stable(last, &sim);
        }
        for n in [0, sim.journal.len() / 3, sim.journal.len()] {
            prop_assert_eq!(&sim.restored_from(n), &sim.conversation);
        }
        check_expired(&sim, (share * sim.journal.len() as f64) as usize);
    }

    #[test]
    fn a_long_conversation_keeps_a_small_stack(turns in 150..400_usize, n in 5..60_usize) {
        let mut sim = Sim::new(2_000);
        for idx in 0..turns {
            sim.turn(&words(n + idx % 7), &words(n));
            while sim.watch().is_some() {
                sim.commit("Anna moved to Lisbon on 12 May, and took her cello with her.");
            }
        }
        sim.check_coverage();
        let cap = sim.agent.compaction.stack_share * sim.agent.window.usable_tokens() as f64;
        prop_assert!(sim.conversation.stack.tokens() as f64 <= cap.max(200.0));
        prop_assert!(sim.conversation.live.iter().all(|entry| entry.role != Role::Tool));
    }
}
