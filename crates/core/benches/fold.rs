//! How long the channel's write lock is held: what is applied under it, at 2,000 live entries.

use cairn_core::conversation::Conversation;
use cairn_types::event::{
    CompactionEvent, Event, MessageEvent, Record, Run, RunEnd, RunOutcome, RunWork, Trigger, TurnEnd,
    TurnEvent, TurnOutcome,
};
use cairn_types::ids::{AgentId, ChannelId, MessageId, RunId, Seq, SummaryId};
use cairn_types::message::{Author, Part, Pending};
use cairn_types::model::Usage;
use cairn_types::summary::{Marker, MarkerKind, Summary};
use cairn_types::tier::Tier;
use divan::Bencher;
use jiff::Timestamp;

fn main() {
    divan::main();
}

const N_ENTRIES: u64 = 2_000;

fn apply(conversation: &mut Conversation, event: Event) {
    let record = Record { n: conversation.last_n + 1, at: Timestamp::UNIX_EPOCH, channel: None, event };
    if let Err(error) = conversation.apply(&record) {
        panic!("{error}");
    }
}

fn accepted(conversation: &Conversation) -> Event {
    Event::Message(MessageEvent::Accepted(Pending {
        message: MessageId::from(format!("m{}", conversation.accepted)),
        turn: conversation.next_turn(),
        at: Timestamp::UNIX_EPOCH,
        author: Author { id: "local/anna".into(), name: "Anna".into() },
        parts: vec![Part::text("We looked at seven flats in Lisbon and Anna liked the third one best.")],
        addressed: true,
        direct: false,
        chat_name: None,
        language: None,
        provenance: cairn_types::message::Provenance::default(),
        spoken: false,
        reminder: None,
        fingerprint: String::new(),
        tokens: 30,
    }))
}

fn large() -> Conversation {
    let channel = ChannelId::local(&AgentId::from("main"), "main");
    let mut conversation = Conversation::new(channel.unwrap_or_else(|error| panic!("{error}")));
    while conversation.next_seq.0 <= N_ENTRIES {
        let event = accepted(&conversation);
        apply(&mut conversation, event);
        let (turn, messages) =
            (conversation.pending[0].turn.clone(), vec![conversation.pending[0].message.clone()]);
        let first_seq = conversation.next_seq;
        apply(&mut conversation, Event::Turn(TurnEvent::Started { turn: turn.clone(), messages, first_seq }));
        let (usage, recalled) = (Usage::default(), Vec::new());
        let end = TurnEnd { turn, outcome: TurnOutcome::Unanswered, model: None, usage, recalled };
        apply(&mut conversation, Event::Turn(TurnEvent::Ended(end)));
    }
    conversation
}

/// Times the fold of one record; the clone before it and the drop behind it are not counted.
fn bench(bencher: Bencher<'_, '_>, base: &Conversation, event: Event) {
    let record = Record { n: base.last_n + 1, at: Timestamp::UNIX_EPOCH, channel: None, event };
    bencher.with_inputs(|| base.clone()).bench_values(|mut conversation| {
        let applied = conversation.apply(&record);
        (conversation, applied)
    });
}

#[divan::bench]
fn accept_a_message(bencher: Bencher<'_, '_>) {
    let base = large();
    bench(bencher, &base, accepted(&base));
}

#[divan::bench]
fn swap_in_a_summary_of_half(bencher: Bencher<'_, '_>) {
    let mut base = large();
    let to_seq = Seq(N_ENTRIES / 2);
    let run = Run {
        id: RunId::from("r1"),
        trigger: Trigger::Threshold,
        tier: Tier::Aggressive,
        work: RunWork::Sealed,
        from_seq: Seq(1),
        to_seq,
        messages: N_ENTRIES / 2,
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
    apply(&mut base, Event::Compaction(CompactionEvent::RunStarted { run }));
    let summary = Summary {
        id: SummaryId::from("s1"),
        level: 0,
        from_seq: Seq(1),
        to_seq,
        from_at: Timestamp::UNIX_EPOCH,
        to_at: Timestamp::UNIX_EPOCH,
        messages: N_ENTRIES / 2,
        tokens: 20,
        made_by: "bench".into(),
        text: "Anna liked the third flat best.".into(),
        identifiers: Vec::new(),
        provisional: false,
    };
    let end = RunEnd {
        run: RunId::from("r1"),
        trigger: Trigger::Threshold,
        outcome: RunOutcome::Committed,
        reason: None,
        summary: Some(summary),
        memories: Vec::new(),
        messages: N_ENTRIES / 2,
        tokens_before: 0,
        tokens_after: 0,
        first_kept_seq: None,
        duration_ms: 0,
        owes_run: false,
        attempts: 0,
        spent: Default::default(),
    };
    bench(bencher, &base, Event::Compaction(CompactionEvent::RunEnded(end)));
}

#[divan::bench]
fn drop_half_in_an_emergency(bencher: Bencher<'_, '_>) {
    let base = large();
    let messages = N_ENTRIES / 2;
    let marker = Marker::new(MarkerKind::Truncated, Seq(1), Seq(messages), Vec::new());
    bench(
        bencher,
        &base,
        Event::Compaction(CompactionEvent::EmergencyApplied {
            marker,
            messages,
            tokens_before: 0,
            tokens_after: 0,
        }),
    );
}
