//! Asking people before a call that changes something is made.

use std::collections::BTreeSet;
use std::time::Duration;

use cairn_core::approval::{Approval, ApprovalOutcome, approval_id};
use cairn_core::event::{ApprovalEvent, DeliveryEvent, Event};
use cairn_core::ids::{ApprovalId, ChannelId, LOCAL_PLATFORM, OutboxId, Seq, TurnId};
use cairn_core::message::ToolCall;
use cairn_core::ports::TurnFailure;
use cairn_core::tool::ToolOutcome;
use jiff::SignedDuration;
use parking_lot::Mutex;

use super::Turn;
use crate::approvals::Waiting;
use crate::channel::ChannelMsg;

/// Most requests of one turn: a model that asks without end is no use to anybody.
const ASKS_MAX: u32 = 8;

/// Longest that an edit of a question may take.
const EDIT_LIMIT: Duration = Duration::from_secs(10);

fn question_id(channel: &ChannelId, turn: &TurnId, approval: &ApprovalId) -> OutboxId {
    OutboxId::from(format!("{channel}:{turn}:ask:{approval}"))
}

/// What people have said in this turn so far.
#[derive(Debug, Default)]
pub(super) struct Answers {
    asked: u32,
    /// Requests that wait for an answer now.
    open: u32,
    unanswered: bool,
    denied: BTreeSet<String>,
}

pub(super) struct Asked<'a> {
    pub(super) approval: Approval,
    waiting: Waiting<'a>,
}

impl Turn {
    /// Asks for the calls that have to wait, all of them at once. A call whose request makes no sense gets a reason to be
    /// refused instead.
    pub(super) async fn ask(
        &self,
        calls: &[(&ToolCall, &str)],
    ) -> Result<Vec<Result<Asked<'_>, String>>, TurnFailure> {
        let mut out = Vec::with_capacity(calls.len());
        let mut events = Vec::new();
        for (call, reason) in calls {
            if let Err(refusal) = self.may_ask(call) {
                out.push(Err(refusal));
                continue;
            }
            let approval = self.approval(call, reason, events.len() as u64 + 1);
            events.push(Event::Approval(ApprovalEvent::Asked { approval: approval.clone() }));
            let waiting = self.args.handle.approvals.expect(approval.id.clone());
            out.push(Ok(Asked { approval, waiting }));
        }
        if events.is_empty() {
            return Ok(out);
        }
        self.budget.hold();
        if let Some(show) = &self.args.show {
            show.typing().pause().await;
        }
        events.extend(out.iter().flatten().filter_map(|asked| self.question(&asked.approval)));
        self.step(events).await?;
        for asked in out.iter().flatten() {
            self.args.handle.subscribers.approval(&asked.approval);
        }
        Ok(out)
    }

    pub(super) fn is_asking(&self) -> bool {
        self.answers.lock().open > 0
    }

    fn may_ask(&self, call: &ToolCall) -> Result<(), String> {
        let mut answers = self.answers.lock();
        if answers.denied.contains(&call.name) {
            return Err("a person has said no to this tool in this turn; do not call it again".to_owned());
        }
        if answers.unanswered {
            return Err(
                "it needs a person's yes, and nobody answered the last request; tell them, and go on \
                        when somebody is there"
                    .to_owned(),
            );
        }
        if answers.asked >= ASKS_MAX {
            return Err(format!(
                "people were asked {ASKS_MAX} times in this turn; tell them what is left to do"
            ));
        }
        let chat = self.args.handle.id.platform() != LOCAL_PLATFORM;
        if chat && self.settings.trust.approvers.is_empty() {
            tracing::warn!(channel = %self.args.handle.id, tool = call.name,
                "a call needs a yes, and nobody may say it here: name `approvers` of the agent, or `operators`");
            return Err("it needs a person's yes, and nobody is named who may say it here".to_owned());
        }
        answers.asked += 1;
        answers.open += 1;
        Ok(())
    }

    fn approval(&self, call: &ToolCall, reason: &str, ordinal: u64) -> Approval {
        let asked_at = self.args.shared.now();
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
            reason: reason.to_owned(),
            asked_at,
            expires_at: asked_at.checked_add(SignedDuration::from_secs(secs)).unwrap_or(jiff::Timestamp::MAX),
        }
    }

    /// What a chat is asked; a local channel is told by [`cairn_core::ports::Progress::Approval`].
    fn question(&self, approval: &Approval) -> Option<Event> {
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
                note: Some(approval.question()),
                approval: Some(approval.id.clone()),
                reply_to: open.reply_to.clone(),
                edits: None,
                draft: false,
            }))
        })
    }

    /// Waits for the answer, and notes it before anything is done. `None`: yes.
    pub(super) async fn answer(
        &self,
        mut asked: Asked<'_>,
    ) -> Result<Option<(ToolOutcome, String)>, TurnFailure> {
        let id = asked.approval.id.clone();
        let time = Duration::from_secs(self.settings.trust.approval_secs);
        let decision = tokio::select! {
            decision = tokio::time::timeout(time, asked.waiting.answer()) => decision.ok(),
            () = self.stopping() => None,
        };
        let (outcome, by) = match &decision {
            Some(decision) if decision.granted => (ApprovalOutcome::Granted, Some(decision.by.clone())),
            Some(decision) => (ApprovalOutcome::Denied, Some(decision.by.clone())),
            None => (ApprovalOutcome::Expired, None),
        };
        let settled = Event::Approval(ApprovalEvent::Settled { id: id.clone(), outcome, by: by.clone() });
        self.step(vec![settled]).await?;
        tracing::info!(channel = %self.args.handle.id, approval = %id, tool = asked.approval.tool,
            outcome = outcome.name(), by, "a request for approval ended");
        metrics::counter!("cairn_approvals_total", "outcome" => outcome.name()).increment(1);
        if let Some(decision) = decision {
            // Who answered may be gone.
            let _ = decision.told.send(());
        }
        self.tell_outcome(&asked.approval, outcome, by.as_deref());
        let last = {
            let mut answers = self.answers.lock();
            answers.open -= 1;
            answers.open == 0
        };
        if last {
            self.budget.go_on();
            if let Some(show) = &self.args.show {
                show.typing().go_on();
            }
        }
        let mut answers = self.answers.lock();
        Ok(match outcome {
            ApprovalOutcome::Granted => None,
            ApprovalOutcome::Denied => {
                answers.denied.insert(asked.approval.tool);
                let by = by.unwrap_or_default();
                Some((
                    ToolOutcome::Denied,
                    format!("{by} said no; do not try it in another way, and tell them so"),
                ))
            }
            ApprovalOutcome::Expired | ApprovalOutcome::Void => {
                answers.unanswered = true;
                Some((
                    ToolOutcome::Expired,
                    "it needs a person's yes, and nobody answered in time".to_owned(),
                ))
            }
        })
    }

    /// Has the question in the chat say how it ended; its buttons go with that.
    fn tell_outcome(&self, approval: &Approval, outcome: ApprovalOutcome, by: Option<&str>) {
        let (shared, handle) = (&self.args.shared, &self.args.handle);
        let Some(platform) = shared.platform(&handle.id) else { return };
        let message = handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            open.questions.get(&question_id(&handle.id, &open.id, &approval.id)).cloned().flatten()
        });
        let Some(message) = message else { return };
        let told = match (outcome, by) {
            (ApprovalOutcome::Granted, Some(by)) => format!("Yes, by {by}."),
            (ApprovalOutcome::Denied, Some(by)) => format!("No, by {by}."),
            _ => "Nobody answered in time: it was not done.".to_owned(),
        };
        let last = platform.split(&approval.question()).pop().unwrap_or_default();
        let whole = format!("{last}\n\n{told}");
        // Where there is no room for both, the outcome is what counts.
        let words = if platform.split(&whole).len() == 1 { whole } else { told };
        let channel = handle.id.clone();
        shared.tasks.spawn("tell an approval's end", async move {
            let edit = platform.edit(channel.clone(), message, words);
            match tokio::time::timeout(EDIT_LIMIT, edit).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%channel, %error, "a question does not show how it ended"),
                Err(_) => tracing::debug!(%channel, "a question does not show in time how it ended"),
            }
        });
    }

    /// Never returns: when the runtime stops, the turn stays open, and is taken up again at the next start.
    async fn stopping(&self) {
        let mut stop = self.args.shared.stop_by.subscribe();
        if stop.wait_for(Option::is_some).await.is_ok() {
            let attempt = self.args.turn.attempt;
            // A channel that is gone has no need of it.
            let _ = self.args.turn.channel.send_message(ChannelMsg::Yield { attempt });
        }
        std::future::pending::<()>().await;
    }
}

/// Behind a lock, since calls of one answer wait beside each other.
pub(super) type Said = Mutex<Answers>;
