//! One round of tool calls: checked, approved by a person where needed, run concurrently, journalled as they end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::conversation::Conversation;
use cairn_core::trust::window_provenance;
use cairn_types::event::{ApprovalEvent, DeliveryEvent, Event, TurnEvent};
use cairn_types::ids::{ApprovalId, ChannelId, LOCAL_PLATFORM, OutboxId, Seq, TurnId};
use cairn_types::memory::{Memory, SpokenWords};
use cairn_types::message::{Role, ToolCall};
use cairn_types::ports::{Platform, TurnFailure};
use cairn_types::texts::{Key, Saying};
use cairn_types::tool::approval::{Approval, ApprovalOutcome, approval_id};
use cairn_types::tool::{CALLS_MAX, Effect, ToolOutcome, ToolUse, logged_arguments, logged_error};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::SignedDuration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::state::Turn;
use crate::approvals::OpenRequest;
use crate::events::RuntimeEventKind;
use crate::messages::draft_entry;
use crate::tools::guard::ResultGuard;
use crate::tools::{CallResult, Toolbox, Verdict, effect_of};

const PARALLEL_MAX: usize = 16;

/// A call that is about to be made.
struct PlannedCall<'a> {
    ordinal: usize,
    call: ToolCall,
    effect: Effect,
    refused: Option<String>,
    asked: Option<AskedCall<'a>>,
    /// The entry of `always_allow` that makes an approval unnecessary.
    allowed_by: Option<String>,
}

struct EndedCall {
    call: ToolCall,
    used: CallResult,
    noted: ToolUse,
}

/// Most requests for approval in one turn.
const ASKS_MAX: u32 = 8;

/// Longest that an edit of a question may take.
const EDIT_LIMIT: Duration = Duration::from_secs(10);

fn question_id(channel: &ChannelId, turn: &TurnId, approval: &ApprovalId) -> OutboxId {
    OutboxId::from(format!("{channel}:{turn}:ask:{approval}"))
}

struct AskedCall<'a> {
    approval: Approval,
    /// The question, as it was put to the chat.
    question: String,
    request: OpenRequest<'a>,
}

impl Turn {
    /// Runs the tool calls concurrently, and journals each result as it comes, after the result guard.
    pub(super) async fn use_tools(
        &self,
        tools: &Toolbox,
        model: &str,
        calls: Vec<ToolCall>,
        recalled: &[Memory],
    ) -> Result<(), TurnFailure> {
        let planned = self.plan(tools, calls, recalled).await?;
        self.ask_client(tools, &planned);
        let mut guard = ResultGuard::new(tools, &self.settings, planned.len());
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
            let batch: Vec<EndedCall> = batch.into_iter().collect::<Result<_, _>>()?;
            let share = guard.share(batch.iter().map(|done| (&done.call, &done.used)));
            let mut events = Vec::new();
            for EndedCall { call, used, noted } in batch {
                events.push(Event::Turn(TurnEvent::ToolUsed(noted)));
                events.extend(guard.admit(call, used, &share).await);
            }
            self.step(events).await?;
            guard.journalled();
        }
        Ok(())
    }

    /// Hands the client the calls of its own tools.
    fn ask_client(&self, tools: &Toolbox, planned: &[PlannedCall<'_>]) {
        let Some(client) = &self.args.client else { return };
        let made = planned.iter().filter(|planned| planned.refused.is_none()).map(|planned| &planned.call);
        let theirs: Vec<ToolCall> = made.filter(|call| tools.is_of_client(&call.name)).cloned().collect();
        if !theirs.is_empty() {
            client.expect(&theirs);
            let open = |conversation: &Conversation| conversation.open_turn.as_ref().map(|open| open.usage);
            let usage = self.args.handle.read(open).unwrap_or_default();
            self.args.handle.subscribers.client_calls(theirs, usage);
        }
    }

    /// Journals that calls were not made, since the turn makes no more.
    pub(super) async fn refuse(&self, calls: Vec<ToolCall>) -> Result<(), TurnFailure> {
        let reason = "no more tools are called in this turn";
        let mut events = Vec::new();
        for call in calls {
            let effect = effect_of(&*self.args.shared.ports.tools, &call.name);
            let used = CallResult::not_made(ToolOutcome::Refused, reason.to_owned());
            let mut entry = draft_entry(Role::Tool, self.args.shared.ports.now());
            entry.parts.clone_from(&used.output.parts);
            entry.tool_call_id = Some(call.id.clone());
            events.push(Event::Turn(TurnEvent::ToolUsed(self.noted(&call, effect, &used, 0))));
            events.push(Event::Turn(TurnEvent::EntryAdded { entry }));
        }
        self.step(events).await
    }

    fn noted(&self, call: &ToolCall, effect: Effect, used: &CallResult, duration_ms: u64) -> ToolUse {
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

    /// Checks the calls, and asks people to approve those that need it.
    async fn plan(
        &self,
        tools: &Toolbox,
        calls: Vec<ToolCall>,
        recalled: &[Memory],
    ) -> Result<Vec<PlannedCall<'_>>, TurnFailure> {
        let (provenance, grounds) = self.args.handle.read(|conversation| {
            let provenance = window_provenance(conversation, recalled);
            let grounds = SpokenWords::of(conversation.live.iter());
            let grounds = if provenance.tools { grounds.with_unseen_tools() } else { grounds };
            (provenance, grounds)
        });
        let mut reasons = Vec::new();
        let mut planned: Vec<PlannedCall<'_>> = Vec::with_capacity(calls.len());
        for (ordinal, call) in calls.into_iter().enumerate() {
            let (effect, verdict) = tools.weigh(&call, &provenance, &grounds);
            let mut allowed_by = None;
            let refused = match verdict {
                _ if ordinal >= CALLS_MAX => Some(format!(
                    "an answer may make {CALLS_MAX} calls; this one and all after it were not run: repeat what is \
                     still needed in the next answer"
                )),
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
            planned.push(PlannedCall { ordinal, call, effect, refused, asked: None, allowed_by });
        }
        let asking: Vec<_> =
            reasons.iter().map(|(ordinal, reason)| (&planned[*ordinal].call, reason)).collect();
        let asked = self.ask(&asking).await?;
        for ((ordinal, _), asked) in reasons.iter().zip(asked) {
            match asked {
                Ok(asked) => planned[*ordinal].asked = Some(asked),
                Err(refusal) => planned[*ordinal].refused = Some(refusal),
            }
        }
        Ok(planned)
    }

    /// Carries out one call, including its approval.
    async fn carry_out(
        &self,
        tools: &Toolbox,
        model: &str,
        planned: PlannedCall<'_>,
        room: &cairn_core::result_guard::ResultRoom,
        permits: &Semaphore,
    ) -> Result<EndedCall, TurnFailure> {
        let PlannedCall { ordinal, call, effect, refused, asked, allowed_by } = planned;
        let approval = asked.as_ref().map(|asked| asked.approval.id.clone());
        let mut refusal = refused.map(|reason| (ToolOutcome::Refused, reason));
        if let Some(asked) = asked {
            refusal = self.answer(asked).await?;
        }
        if let Some(entry) = &allowed_by {
            tracing::info!(channel = %self.args.handle.id, tool = call.name, entry,
                "a call that needs approval was permitted by always_allow");
            metrics::counter!("cairn_approvals_total", "outcome" => "always_allowed").increment(1);
        }
        let mut duration_ms = 0;
        let used = match refusal {
            Some((outcome, reason)) => CallResult::not_made(outcome, reason),
            None => {
                // The semaphore is never closed. What the client runs takes nothing of this process.
                let _permit =
                    if tools.is_of_client(&call.name) { None } else { permits.acquire().await.ok() };
                self.tell_started(&call);
                let begun = Instant::now();
                let used = tools.call(&call, model, ordinal, room).await;
                duration_ms = begun.elapsed().as_millis() as u64;
                used
            }
        };
        self.args.handle.subscribers.tool(&call.name, if used.error.is_some() { "failed" } else { "done" });
        let noted = ToolUse { approval, allowed_by, ..self.noted(&call, effect, &used, duration_ms) };
        Ok(EndedCall { call, used, noted })
    }

    fn tell_started(&self, call: &ToolCall) {
        self.args.handle.subscribers.tool(&call.name, "started");
        if let Some(show) = self.args.show.as_ref().filter(|_| !self.is_asking()) {
            show.typing().resume();
        }
        let started = RuntimeEventKind::ToolStarted { call: call.id.clone(), tool: call.name.clone() };
        self.args.shared.directory.notify(self.args.shared.ports.now(), &self.args.handle.id, started);
    }

    /// The people whose messages the turn answers.
    fn caused_by(&self) -> BTreeSet<String> {
        self.args.handle.read(|conversation| {
            let Some(open) = &conversation.open_turn else { return BTreeSet::new() };
            let of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
            of_turn
                .filter(|entry| entry.role == Role::User)
                .filter_map(|entry| Some(entry.author.as_ref()?.id.clone()))
                .collect()
        })
    }

    /// Asks for approval of all these calls at once. A call that must not be asked for gets a reason for its refusal
    /// instead.
    async fn ask(
        &self,
        calls: &[(&ToolCall, &Saying)],
    ) -> Result<Vec<Result<AskedCall<'_>, String>>, TurnFailure> {
        let mut out = Vec::with_capacity(calls.len());
        let mut events = Vec::new();
        for (call, reason) in calls {
            if let Err(refusal) = self.may_ask(call) {
                out.push(Err(refusal));
                continue;
            }
            let approval = self.approval(call, reason.to_string(), events.len() as u64 + 1);
            let texts = self.args.handle.texts();
            let question = approval.question(&texts, (*reason).clone());
            events.push(Event::Approval(ApprovalEvent::Asked { approval: approval.clone() }));
            let request = self.args.handle.approvals.expect(approval.id.clone());
            out.push(Ok(AskedCall { approval, question, request }));
        }
        if events.is_empty() {
            return Ok(out);
        }
        self.approvals.lock().held.get_or_insert_with(|| (self.budget.pause(), Instant::now()));
        if let Some(show) = &self.args.show {
            show.typing().pause().await;
        }
        events
            .extend(out.iter().flatten().filter_map(|asked| self.question(&asked.approval, &asked.question)));
        self.step(events).await?;
        for asked in out.iter().flatten() {
            self.args.handle.subscribers.approval(&asked.approval);
        }
        Ok(out)
    }

    fn is_asking(&self) -> bool {
        self.approvals.lock().open > 0
    }

    fn may_ask(&self, call: &ToolCall) -> Result<(), String> {
        let mut approvals = self.approvals.lock();
        if approvals.denied.contains(&call.name) {
            return Err("a person has said no to this tool in this turn; do not call it again".to_owned());
        }
        if approvals.unanswered {
            return Err(
                "it needs a person's approval, and nobody answered the last request; tell them, and go \
                        on when they are there"
                    .to_owned(),
            );
        }
        if approvals.asked >= ASKS_MAX {
            return Err(format!(
                "people were asked {ASKS_MAX} times in this turn; tell them what is left to do"
            ));
        }
        let chat = self.args.handle.id.platform() != LOCAL_PLATFORM;
        if chat && self.settings.trust.approvers.is_empty() {
            tracing::warn!(channel = %self.args.handle.id, tool = call.name,
                "a call needs approval, and nobody may approve it here; set `approvers` of the agent, or \
                 `operators`");
            return Err("it needs a person's approval, and nobody is named who may give it here".to_owned());
        }
        approvals.asked += 1;
        approvals.open += 1;
        Ok(())
    }

    fn approval(&self, call: &ToolCall, reason: String, ordinal: u64) -> Approval {
        let asked_at = self.args.shared.ports.now();
        let secs = i64::try_from(self.settings.trust.approval_secs).unwrap_or(i64::MAX / 2);
        let (id, turn) = self.args.handle.read(|conversation| {
            let turn = conversation.open_turn.as_ref().map(|open| open.id.clone());
            (approval_id(&conversation.channel, conversation.approvals + ordinal), turn)
        });
        Approval {
            id,
            turn: turn.unwrap_or_else(|| "t0".into()),
            call: call.id.clone(),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            caused_by: self.caused_by(),
            reason,
            asked_at,
            expires_at: asked_at.checked_add(SignedDuration::from_secs(secs)).unwrap_or(jiff::Timestamp::MAX),
        }
    }

    /// The question to a chat. A local channel gets [`cairn_types::ports::Progress::Approval`] instead.
    fn question(&self, approval: &Approval, words: &str) -> Option<Event> {
        let handle = &self.args.handle;
        if handle.id.platform() == LOCAL_PLATFORM {
            return None;
        }
        handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            Some(Event::Delivery(DeliveryEvent::Intended {
                id: question_id(&handle.id, &open.id, &approval.id),
                turn: open.id.clone(),
                seq: Seq(conversation.next_seq.0.saturating_sub(1)),
                note: Some(words.to_owned()),
                approval: Some(approval.id.clone()),
                reply_to: open.reply_to.clone(),
                edits: None,
                draft: false,
                files: Vec::new(),
            }))
        })
    }

    /// Waits for an answer, and journals it before anything is done. `None`: the call is approved.
    async fn answer(&self, mut asked: AskedCall<'_>) -> Result<Option<(ToolOutcome, String)>, TurnFailure> {
        let id = asked.approval.id.clone();
        let time = Duration::from_secs(self.settings.trust.approval_secs);
        let decision = tokio::select! {
            biased;
            decision = tokio::time::timeout(time, asked.request.answer()) => decision.ok(),
            () = self.stopping() => None,
        };
        let (outcome, by) = match &decision {
            Some(decision) if decision.granted => (ApprovalOutcome::Granted, Some(decision.by.clone())),
            Some(decision) => (ApprovalOutcome::Denied, Some(decision.by.clone())),
            None => (ApprovalOutcome::Expired, None),
        };
        let settled = Event::Approval(ApprovalEvent::Settled { id: id.clone(), outcome, by: by.clone() });
        self.step(vec![settled]).await?;
        self.args.handle.subscribers.settled(&id);
        tracing::info!(channel = %self.args.handle.id, approval = %id, tool = asked.approval.tool,
            outcome = outcome.name(), by, "approval request ended");
        metrics::counter!("cairn_approvals_total", "outcome" => outcome.name()).increment(1);
        if let Some(decision) = decision {
            // A dropped receiver is ignored.
            let _ = decision.told.send(());
        }
        self.tell_outcome(&asked.approval, asked.question, outcome, by.as_deref());
        let (last, held) = {
            let mut approvals = self.approvals.lock();
            approvals.open -= 1;
            let last = approvals.open == 0;
            (last, approvals.held.take_if(|_| last))
        };
        if let Some((deadline, since)) = held {
            self.budget.resume(deadline, since.elapsed());
        }
        if last && let Some(show) = &self.args.show {
            show.typing().resume();
        }
        let mut approvals = self.approvals.lock();
        Ok(match outcome {
            ApprovalOutcome::Granted => None,
            ApprovalOutcome::Denied => {
                approvals.denied.insert(asked.approval.tool);
                let by = by.unwrap_or_default();
                Some((
                    ToolOutcome::Denied,
                    format!("{by} said no; do not try it in another way, and tell them so"),
                ))
            }
            ApprovalOutcome::Expired | ApprovalOutcome::Void => {
                approvals.unanswered = true;
                Some((
                    ToolOutcome::Expired,
                    "it needs a person's approval, and nobody answered in time".to_owned(),
                ))
            }
        })
    }

    /// Edits the question in the chat to show its outcome. Its buttons disappear with that.
    fn tell_outcome(
        &self,
        approval: &Approval,
        question: String,
        outcome: ApprovalOutcome,
        by: Option<&str>,
    ) {
        let (shared, handle) = (&self.args.shared, &self.args.handle);
        let Some(platform) = shared.ports.platform(&handle.id) else { return };
        let message = handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            open.questions.get(&question_id(&handle.id, &open.id, &approval.id)).cloned().flatten()
        });
        let Some(message) = message else { return };
        let told = match (outcome, by) {
            (ApprovalOutcome::Granted, Some(by)) => handle.say(Key::EndedYes.with("by", by)),
            (ApprovalOutcome::Denied, Some(by)) => handle.say(Key::EndedNo.with("by", by)),
            _ => handle.say(Key::EndedExpired),
        };
        let ports = Arc::clone(&shared.ports);
        let channel = handle.id.clone();
        shared.lifecycle.tasks.spawn("tell an approval's end", async move {
            let last = ports.split(&platform, question, Platform::split).await.pop().unwrap_or_default();
            let whole = format!("{last}\n\n{told}");
            // If both do not fit, only the outcome is shown.
            let n_parts = ports.split(&platform, whole.clone(), Platform::split).await.len();
            let words = if n_parts == 1 { whole } else { told };
            let edit = platform.edit(channel.clone(), message, words);
            match tokio::time::timeout(EDIT_LIMIT, edit).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%channel, %error, "a question does not show how it ended"),
                Err(_) => tracing::debug!(%channel, "a question does not show in time how it ended"),
            }
        });
    }
}
