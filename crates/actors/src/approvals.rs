//! Open requests for approval, and how an answer reaches the turn that waits for it. The requests themselves are in the
//! conversation.

use std::collections::BTreeMap;

use cairn_types::ids::{ApprovalId, ChannelId};
use cairn_types::texts::{Key, Saying};
use cairn_types::tool::approval::{Approval, ApprovalOutcome};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// An answer on its way to the turn that waits for it.
pub(crate) struct ApprovalAnswer {
    pub(crate) granted: bool,
    /// Who says so (`PLATFORM/USER`).
    pub(crate) by: String,
    pub(crate) told: oneshot::Sender<()>,
}

/// The requests of a channel that wait for an answer.
#[derive(Default)]
pub(crate) struct Approvals {
    waiting: Mutex<BTreeMap<ApprovalId, oneshot::Sender<ApprovalAnswer>>>,
}

impl Approvals {
    /// Registers a request, so that it can be answered.
    pub(crate) fn expect(&self, id: ApprovalId) -> OpenRequest<'_> {
        let (answer, decision) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), answer);
        OpenRequest { approvals: self, id, decision }
    }

    /// Passes on an answer; only the first one counts. False: the request no longer waits.
    pub(crate) fn decide(&self, id: &ApprovalId, decision: ApprovalAnswer) -> bool {
        let waiting = self.waiting.lock().remove(id);
        waiting.is_some_and(|waiting| waiting.send(decision).is_ok())
    }
}

/// A request that waits for an answer. Dropping it withdraws it.
pub(crate) struct OpenRequest<'a> {
    approvals: &'a Approvals,
    id: ApprovalId,
    decision: oneshot::Receiver<ApprovalAnswer>,
}

impl OpenRequest<'_> {
    pub(crate) async fn answer(&mut self) -> ApprovalAnswer {
        match (&mut self.decision).await {
            Ok(decision) => decision,
            // Nobody can answer any more: the time runs out.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.approvals.waiting.lock().remove(&self.id);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalTarget {
    Id(ApprovalId),
    OnlyOf(ChannelId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approver {
    /// On the local socket, which only the daemon's operators reach.
    Socket,
    /// A person in a chat, `PLATFORM/USER`.
    Person(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalError {
    /// No request has that id, or there is none at all.
    Nothing,
    Several(Vec<ApprovalId>),
    NotAllowed,
}

impl ApprovalError {
    /// Why, for whoever answered.
    pub fn told(&self) -> Saying {
        match self {
            Self::Nothing => Key::ApprovalNothing.into(),
            Self::Several(ids) => {
                let ids: Vec<&str> = ids.iter().map(ApprovalId::as_str).collect();
                Key::ApprovalSeveral.with("ids", ids.join(", "))
            }
            Self::NotAllowed => Key::ApprovalNotAllowed.into(),
        }
    }
}

impl std::error::Error for ApprovalError {}

impl std::fmt::Display for ApprovalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.told().fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalDecision {
    pub channel: ChannelId,
    pub approval: Approval,
    pub outcome: ApprovalOutcome,
}

impl ApprovalDecision {
    pub fn told(&self) -> Saying {
        let key = match self.outcome {
            ApprovalOutcome::Granted => Key::CallGranted,
            ApprovalOutcome::Denied | ApprovalOutcome::Expired | ApprovalOutcome::Void => Key::CallDenied,
        };
        key.with("tool", self.approval.tool.as_str())
    }
}
