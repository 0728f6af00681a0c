//! One round of tool calls: weighed, asked for where that is due, made beside each other, journalled as they end.

use std::collections::BTreeSet;

use cairn_core::event::{Event, TurnEvent};
use cairn_core::memory::{Grounds, Memory};
use cairn_core::message::{Role, ToolCall};
use cairn_core::ports::TurnFailure;
use cairn_core::provenance::Provenance;
use cairn_core::tool::{Effect, ToolOutcome, ToolUse, logged_arguments, logged_error};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ask::Asked;
use super::{Turn, draft_entry};
use crate::notice::Notice;
use crate::tools::{Guard, Toolbox, Used, Verdict, effect_of};

const PARALLEL_MAX: usize = 16;

/// Most calls of one answer; what is beyond is not made.
const CALLS_MAX: usize = 64;

/// A call, and what is known of it before it is made.
struct Planned<'a> {
    ordinal: usize,
    call: ToolCall,
    effect: Effect,
    refused: Option<String>,
    asked: Option<Asked<'a>>,
    /// The entry of `always_allow` by which nobody is asked.
    allowed_by: Option<String>,
}

struct Done {
    call: ToolCall,
    used: Used,
    noted: ToolUse,
}

impl Turn {
    /// Calls the tools, beside each other, and journals each result as it comes, as the result guard leaves it.
    pub(super) async fn use_tools(
        &self,
        tools: &Toolbox,
        model: &str,
        calls: Vec<ToolCall>,
        recalled: &[Memory],
    ) -> Result<(), TurnFailure> {
        let planned = self.plan(tools, calls, recalled).await?;
        let mut guard = Guard::new(tools, &self.settings, planned.len());
        let room = guard.room.shared_by(planned.len());
        let permits = Semaphore::new(PARALLEL_MAX);
        let running: FuturesUnordered<_> = planned
            .into_iter()
            .map(|planned| async {
                let call = self.carry_out(tools, model, planned, &room, &permits);
                Box::pin(call).await
            })
            .collect();
        let mut ended = running.ready_chunks(CALLS_MAX);
        while let Some(batch) = ended.next().await {
            let batch: Vec<Done> = batch.into_iter().collect::<Result<_, _>>()?;
            let share = guard.share(batch.iter().map(|done| (&done.call, &done.used)));
            let mut events = Vec::new();
            for Done { call, used, noted } in batch {
                events.push(Event::Turn(TurnEvent::ToolUsed(noted)));
                events.extend(guard.admit(call, used, &share).await);
            }
            self.step(events).await?;
            guard.journalled();
        }
        Ok(())
    }

    /// Notes that calls were not made, since no more are made in this turn.
    pub(super) async fn refuse(&self, calls: Vec<ToolCall>) -> Result<(), TurnFailure> {
        let reason = "no more tools are called in this turn";
        let mut events = Vec::new();
        for call in calls {
            let effect = effect_of(&self.args.shared, &call.name);
            let used = Used::not_made(ToolOutcome::Refused, reason.to_owned());
            let mut entry = draft_entry(Role::Tool, self.args.shared.now());
            entry.parts.clone_from(&used.output.parts);
            entry.tool_call_id = Some(call.id.clone());
            events.push(Event::Turn(TurnEvent::ToolUsed(self.noted(&call, effect, &used, 0))));
            events.push(Event::Turn(TurnEvent::EntryAdded { entry }));
        }
        self.step(events).await
    }

    fn noted(&self, call: &ToolCall, effect: Effect, used: &Used, duration_ms: u64) -> ToolUse {
        let turn =
            self.args.handle.read(|conversation| conversation.open_turn.as_ref().map(|open| open.id.clone()));
        ToolUse {
            turn: turn.unwrap_or_else(|| "t0".into()),
            call: call.id.clone(),
            tool: call.name.clone(),
            effect,
            caused_by: self.caused_by(),
            arguments: logged_arguments(&call.arguments),
            outcome: used.outcome,
            error: used.error.as_deref().map(logged_error),
            duration_ms,
            bytes: used.output.words().len() as u64,
            approval: None,
            allowed_by: None,
        }
    }

    /// Weighs the calls, and asks people about those that have to wait.
    async fn plan(
        &self,
        tools: &Toolbox,
        calls: Vec<ToolCall>,
        recalled: &[Memory],
    ) -> Result<Vec<Planned<'_>>, TurnFailure> {
        let (provenance, grounds) = self.args.handle.read(|conversation| {
            let provenance = Provenance::of_window(conversation, recalled);
            let grounds = Grounds::of(conversation.live.iter());
            let grounds = if provenance.tools { grounds.with_unseen_tools() } else { grounds };
            (provenance, grounds)
        });
        let mut reasons = Vec::new();
        let mut planned: Vec<Planned<'_>> = Vec::with_capacity(calls.len());
        for (ordinal, call) in calls.into_iter().enumerate() {
            let (effect, verdict) = tools.weigh(&call, &provenance, &grounds);
            let mut allowed_by = None;
            let refused = match verdict {
                _ if ordinal >= CALLS_MAX => Some(format!("more than {CALLS_MAX} calls at once; make fewer")),
                Verdict::Ready => None,
                Verdict::Allowed(entry) => {
                    allowed_by = Some(entry);
                    None
                }
                Verdict::Refused(reason) => Some(reason),
                Verdict::Asks(reason) => {
                    reasons.push((ordinal, reason));
                    None
                }
            };
            planned.push(Planned { ordinal, call, effect, refused, asked: None, allowed_by });
        }
        let wishes: Vec<_> =
            reasons.iter().map(|(ordinal, reason)| (&planned[*ordinal].call, reason.as_str())).collect();
        let asked = self.ask(&wishes).await?;
        for ((ordinal, _), asked) in reasons.iter().zip(asked) {
            match asked {
                Ok(asked) => planned[*ordinal].asked = Some(asked),
                Err(refusal) => planned[*ordinal].refused = Some(refusal),
            }
        }
        Ok(planned)
    }

    /// One call, from the yes that it may need to its end.
    async fn carry_out(
        &self,
        tools: &Toolbox,
        model: &str,
        planned: Planned<'_>,
        room: &cairn_core::result_guard::Room,
        permits: &Semaphore,
    ) -> Result<Done, TurnFailure> {
        let Planned { ordinal, call, effect, refused, asked, allowed_by } = planned;
        let approval = asked.as_ref().map(|asked| asked.approval.id.clone());
        let mut refusal = refused.map(|reason| (ToolOutcome::Refused, reason));
        if let Some(asked) = asked {
            refusal = self.answer(asked).await?;
        }
        if let Some(entry) = &allowed_by {
            tracing::info!(channel = %self.args.handle.id, tool = call.name, entry,
                "a call that needs an approval is made by always_allow");
            metrics::counter!("cairn_approvals_total", "outcome" => "always_allowed").increment(1);
        }
        let mut duration_ms = 0;
        let used = match refusal {
            Some((outcome, reason)) => Used::not_made(outcome, reason),
            None => {
                // It is never closed.
                let _permit = permits.acquire().await;
                self.tell_started(&call);
                let begun = Instant::now();
                let used = tools.call(&call, model, ordinal, room).await;
                duration_ms = begun.elapsed().as_millis() as u64;
                used
            }
        };
        self.args.handle.subscribers.tool(&call.name, if used.error.is_some() { "failed" } else { "done" });
        let noted = ToolUse { approval, allowed_by, ..self.noted(&call, effect, &used, duration_ms) };
        Ok(Done { call, used, noted })
    }

    fn tell_started(&self, call: &ToolCall) {
        self.args.handle.subscribers.tool(&call.name, "started");
        if let Some(show) = self.args.show.as_ref().filter(|_| !self.is_asking()) {
            show.typing().go_on();
        }
        let channel = self.args.handle.id.clone();
        self.args.shared.notify(Notice::ToolStarted {
            channel,
            call: call.id.clone(),
            tool: call.name.clone(),
        });
    }

    /// Whose messages the turn answers.
    pub(super) fn caused_by(&self) -> BTreeSet<String> {
        self.args.handle.read(|conversation| {
            let Some(open) = &conversation.open_turn else { return BTreeSet::new() };
            let of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
            of_turn
                .filter(|entry| entry.role == Role::User)
                .filter_map(|entry| Some(entry.author.as_ref()?.id.clone()))
                .collect()
        })
    }
}
