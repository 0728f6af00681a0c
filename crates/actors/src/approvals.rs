//! Approvals: who waits for a yes, and who may give it. What waits is in the conversation; here is the way back to the turn.

use std::collections::BTreeMap;

use cairn_core::approval::{Approval, ApprovalOutcome};
use cairn_core::ids::{ApprovalId, ChannelId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::handle::ChannelHandle;
use crate::runtime::Runtime;

/// An answer on its way to the turn that waits for it.
pub(crate) struct Decision {
    pub(crate) granted: bool,
    /// Who says so (`PLATFORM/USER`).
    pub(crate) by: String,
    pub(crate) told: oneshot::Sender<()>,
}

/// The turns of a channel that wait for an answer.
#[derive(Default)]
pub(crate) struct Approvals {
    waiting: Mutex<BTreeMap<ApprovalId, oneshot::Sender<Decision>>>,
}

impl Approvals {
    /// Waits for an answer from here on.
    pub(crate) fn expect(&self, id: ApprovalId) -> Waiting<'_> {
        let (answer, decision) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), answer);
        Waiting { approvals: self, id, decision }
    }

    /// Hands an answer over; the first one counts. False: nobody waits for it any more.
    fn decide(&self, id: &ApprovalId, decision: Decision) -> bool {
        let waiting = self.waiting.lock().remove(id);
        waiting.is_some_and(|waiting| waiting.send(decision).is_ok())
    }
}

/// Somebody waits for an answer; when this is dropped, nobody does any more.
pub(crate) struct Waiting<'a> {
    approvals: &'a Approvals,
    id: ApprovalId,
    decision: oneshot::Receiver<Decision>,
}

impl Waiting<'_> {
    pub(crate) async fn answer(&mut self) -> Decision {
        match (&mut self.decision).await {
            Ok(decision) => decision,
            // Nobody can answer any more: the time runs out.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.approvals.waiting.lock().remove(&self.id);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    Id(ApprovalId),
    OnlyOf(ChannelId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approver {
    /// Somebody at the socket: whoever reaches it runs the daemon.
    Socket,
    /// A person in a chat, `PLATFORM/USER`.
    Person(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// Nothing of that id waits, or nothing at all.
    #[error("nothing waits for a yes here; it was answered, has expired, or its answer was stopped")]
    Nothing,
    #[error("several calls wait; say which: {}", list(.0))]
    Several(Vec<ApprovalId>),
    #[error("you may not approve calls of tools here")]
    NotAllowed,
}

fn list(ids: &[ApprovalId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    pub channel: ChannelId,
    pub approval: Approval,
    pub outcome: ApprovalOutcome,
}

impl Decided {
    pub fn words(&self) -> String {
        let tool = &self.approval.tool;
        match self.outcome {
            ApprovalOutcome::Granted => format!("Yes: `{tool}` is called now."),
            ApprovalOutcome::Denied | ApprovalOutcome::Expired | ApprovalOutcome::Void => {
                format!("No: `{tool}` is not called.")
            }
        }
    }
}

impl Runtime {
    /// What waits for a yes, in all channels.
    pub fn approvals(&self) -> Vec<(ChannelId, Approval)> {
        let handles: Vec<_> = self.shared().handles.read().values().cloned().collect();
        handles
            .iter()
            .flat_map(|handle| of_cell(handle).into_iter().map(|open| (handle.id.clone(), open)))
            .collect()
    }

    /// Answers a request: at once, whatever else waits in its channel. Returns when the answer is in the journal.
    ///
    /// # Errors
    /// Nothing waits, it is not said which is meant, or whoever answers may not.
    pub async fn decide(&self, which: Which, granted: bool, by: Approver) -> Result<Decided, Undecided> {
        let open = match &which {
            Which::Id(id) => self.approvals().into_iter().filter(|(_, open)| open.id == *id).collect(),
            Which::OnlyOf(channel) => {
                let mut open = self.approvals();
                open.retain(|(of, _)| of == channel);
                open
            }
        };
        let (channel, approval) = match open.as_slice() {
            [] => return Err(Undecided::Nothing),
            [one] => one.clone(),
            several => {
                return Err(Undecided::Several(several.iter().map(|(_, open)| open.id.clone()).collect()));
            }
        };
        let handle = self.shared().handle(&channel).ok_or(Undecided::Nothing)?;
        let by = match by {
            Approver::Socket => "local/operator".to_owned(),
            Approver::Person(person) if handle.settings().trust.may_approve(&person) => person,
            Approver::Person(person) => {
                tracing::warn!(%channel, approval = %approval.id, %person, "somebody who may not has answered a request for approval");
                return Err(Undecided::NotAllowed);
            }
        };
        let (told, journalled) = oneshot::channel();
        if !handle.approvals.decide(&approval.id, Decision { granted, by, told }) || journalled.await.is_err()
        {
            return Err(Undecided::Nothing);
        }
        let outcome = if granted { ApprovalOutcome::Granted } else { ApprovalOutcome::Denied };
        Ok(Decided { channel, approval, outcome })
    }
}

fn of_cell(handle: &ChannelHandle) -> Vec<Approval> {
    handle
        .read(|conversation| conversation.open_turn.as_ref().map(|open| open.approvals.clone()))
        .unwrap_or_default()
}
