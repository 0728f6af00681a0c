//! From an engine with runs to one without: what the old one left is ended.

use jiff::Timestamp;

use crate::agent::AgentSettings;
use crate::compaction::{after, give_up};
use crate::conversation::Conversation;
use crate::event::{CompactionEvent, Event, Run, RunOutcome, Work};
use crate::ids::{RunId, Seq};
use crate::window::measure;

const REASON: &str = "this agent's context engine makes room by itself and has no runs";

/// The end of the run under way and of all that are queued, as cancelled: what is sealed is live again, and whoever waits
/// for a run is told. Empty when there is none.
pub(super) fn end_runs(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    if conversation.run.is_none() && conversation.queued_runs.is_empty() {
        return Vec::new();
    }
    let mut events: Vec<Event> = cancel(conversation, agent, now).into_iter().collect();
    let mut then = after(conversation, &events);
    while let Some(queued) = then.queued_runs.front().cloned() {
        let gauge = measure(&then, agent);
        let from_seq = then.first_seq;
        let begun = Event::Compaction(CompactionEvent::RunStarted {
            run: Run {
                id: RunId::from(format!("r{}", then.runs + 1)),
                trigger: queued.trigger,
                tier: gauge.tier,
                work: Work::Sealed,
                from_seq,
                to_seq: Seq(from_seq.0 - 1),
                messages: 0,
                instruction: queued.instruction.clone(),
                started_at: now,
                attempt: 1,
                retry_at: None,
                tokens_before: gauge.tokens,
                checkpoint: None,
                tell: queued.tell,
                failure: None,
                replaces: None,
            },
        });
        then = after(&then, std::slice::from_ref(&begun));
        let ended = cancel(&then, agent, now);
        then = after(&then, ended.as_slice());
        events.push(begun);
        events.extend(ended);
    }
    events
}

fn cancel(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Option<Event> {
    give_up(conversation, agent, RunOutcome::Cancelled, REASON, now)
}
