//! The way in: bounded admission of messages.

use std::sync::Arc;

use cairn_core::command::Command;
use cairn_core::ids::{ChannelId, MessageId};
use cairn_core::message::{Amendment, Author, Inbound};
use cairn_core::ports::{Admission, Intake, Refusal};
use futures::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

use crate::channel::{ChannelMsg, refusal};
use crate::house::House;
use crate::shared::{Create, Phase};

/// Seconds after which the house is worth another try when all credits are given out.
const RETRY_SECS: u64 = 1;

impl Intake for House {
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>> {
        Box::pin(async move {
            let result = self.admit(inbound).await;
            if let Err(refusal) = &result {
                let reason = match refusal {
                    Refusal::Conflict(_) => "conflict",
                    Refusal::Busy { .. } => "busy",
                    Refusal::Limited { .. } => "limited",
                    Refusal::Decided { .. } => "decided",
                    Refusal::Unavailable(_) => "unavailable",
                    Refusal::UnknownAgent(_) => "unknown_agent",
                    Refusal::Store(_) => "store",
                };
                metrics::counter!("cairn_refusals_total", "reason" => reason).increment(1);
            }
            result
        })
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async move {
            let (shared, credit) = (self.shared(), self.credit()?);
            let amendment = Arc::new(amendment);
            let amend = |reply| ChannelMsg::Amend {
                amendment: Arc::clone(&amendment),
                credit: Arc::clone(&credit),
                reply,
            };
            match shared.ask(&amendment.channel, Create::No, amend).await {
                Ok(amended) => amended,
                Err(error) => Err(refusal(error, &amendment.channel)),
            }
        })
    }

    fn claim(
        &self,
        channel: ChannelId,
        message: MessageId,
        command: Command,
        caller: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>> {
        Box::pin(async move {
            let (shared, credit) = (self.shared(), self.credit()?);
            let claim = |reply| ChannelMsg::Claim {
                message: message.clone(),
                command: command.name(),
                caller: caller.clone(),
                credit: Arc::clone(&credit),
                reply,
            };
            match shared.ask(&channel, Create::Yes, claim).await {
                Ok(claimed) => claimed,
                Err(error) => Err(refusal(error, &channel)),
            }
        })
    }
}

impl House {
    /// Leave to hand something to a channel: mailboxes have no bound, this one is theirs.
    fn credit(&self) -> Result<Arc<OwnedSemaphorePermit>, Refusal> {
        let shared = self.shared();
        let phase = shared.phase();
        if phase != Phase::Ready {
            return Err(Refusal::Unavailable(phase.name()));
        }
        let credit = Arc::clone(&shared.credits).try_acquire_owned();
        Ok(Arc::new(credit.map_err(|_| Refusal::Busy { retry_after_secs: RETRY_SECS })?))
    }

    async fn admit(&self, inbound: Inbound) -> Result<Admission, Refusal> {
        let (shared, credit) = (self.shared(), self.credit()?);
        let inbound = Arc::new(inbound);
        let accept =
            |reply| ChannelMsg::Accept { inbound: Arc::clone(&inbound), credit: Arc::clone(&credit), reply };
        match shared.ask(&inbound.channel, Create::Yes, accept).await {
            Ok(admitted) => admitted,
            Err(error) => Err(refusal(error, &inbound.channel)),
        }
    }
}
