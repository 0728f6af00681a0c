//! The way in: bounded admission of messages.

use std::sync::Arc;

use cairn_core::command::Command;
use cairn_core::ids::{ChannelId, MessageId};
use cairn_core::message::{Amendment, Author, Inbound};
use cairn_core::ports::{Admission, Intake, Refusal};
use futures::future::BoxFuture;

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
                    Refusal::Unavailable(_) => "unavailable",
                    Refusal::UnknownAgent(_) => "unknown_agent",
                    Refusal::Store(_) => "store",
                };
                metrics::counter!("cairn_refusals_total", "reason" => reason).increment(1);
            }
            result
        })
    }

    fn amend(&self, _amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Err(Refusal::Unavailable("without a way to amend messages")) })
    }

    fn claim(
        &self,
        _channel: ChannelId,
        _message: MessageId,
        _command: Command,
        _caller: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>> {
        Box::pin(async { Err(Refusal::Unavailable("without a way to take commands")) })
    }
}

impl House {
    async fn admit(&self, inbound: Inbound) -> Result<Admission, Refusal> {
        let shared = self.shared();
        let phase = shared.phase();
        if phase != Phase::Ready {
            return Err(Refusal::Unavailable(phase.name()));
        }
        // Mailboxes have no bound: this one is theirs.
        let credit = Arc::clone(&shared.credits).try_acquire_owned();
        let credit = Arc::new(credit.map_err(|_| Refusal::Busy { retry_after_secs: RETRY_SECS })?);
        let inbound = Arc::new(inbound);
        let accept =
            |reply| ChannelMsg::Accept { inbound: Arc::clone(&inbound), credit: Arc::clone(&credit), reply };
        match shared.ask(&inbound.channel, Create::Yes, accept).await {
            Ok(admitted) => admitted,
            Err(error) => Err(refusal(error, &inbound.channel)),
        }
    }
}
