//! The way in: bounded admission of messages.

use std::sync::Arc;

use cairn_core::approval::reads_as;
use cairn_core::command::Command;
use cairn_core::ids::{ChannelId, LOCAL_PLATFORM, MessageId};
use cairn_core::message::{Amendment, Author, Inbound, Part};
use cairn_core::ports::{Admission, ChannelRow, Intake, Refusal, Seen, StoreError};
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::OwnedSemaphorePermit;

use crate::approvals::{Approver, Which};
use crate::channel::{ChannelMsg, refusal};
use crate::runtime::Runtime;
use crate::shared::{Create, Phase};

/// Seconds after which the runtime is worth another try when all credits are given out.
const RETRY_SECS: u64 = 1;

impl Intake for Runtime {
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

    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>> {
        self.shared().deps.store.channels()
    }

    fn has_seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<bool, StoreError>> {
        let seen = self.shared().deps.store.seen(channel, message);
        Box::pin(async move { Ok(seen.await? != Seen::New) })
    }
}

impl Runtime {
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
        if let Some(words) = self.taken_as_answer(&inbound).await? {
            return Err(Refusal::Decided { words });
        }
        let (shared, credit) = (self.shared(), self.credit()?);
        let inbound = Arc::new(inbound);
        let accept =
            |reply| ChannelMsg::Accept { inbound: Arc::clone(&inbound), credit: Arc::clone(&credit), reply };
        match shared.ask(&inbound.channel, Create::Yes, accept).await {
            Ok(admitted) => admitted,
            Err(error) => Err(refusal(error, &inbound.channel)),
        }
    }

    /// A yes or no that is said to the bot, by somebody who may, while a call waits for it: it is taken at once, whatever
    /// else waits. The words to tell them; `None`: the message is none of that.
    async fn taken_as_answer(&self, inbound: &Inbound) -> Result<Option<String>, Refusal> {
        let [Part::Text { text }] = inbound.parts.as_slice() else { return Ok(None) };
        let Some(granted) = reads_as(text).filter(|_| inbound.addressed) else { return Ok(None) };
        let channel = &inbound.channel;
        if channel.platform() == LOCAL_PLATFORM {
            return Ok(None);
        }
        let Some(handle) = self.shared().handle(channel) else { return Ok(None) };
        // A reply answers the question that it replies to, and nothing else; a bare word the only question of a private chat.
        let asked = handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            let asked = match (&inbound.reply_to, open.approvals.as_slice()) {
                (Some(message), _) => open.asked_by(message)?,
                (None, [only]) if inbound.direct => only,
                (None, _) => return None,
            };
            (inbound.at >= whole_second(asked.asked_at)).then(|| asked.id.clone())
        });
        let Some(id) = asked.filter(|_| handle.settings().trust.may_approve(&inbound.author.id)) else {
            return Ok(None);
        };
        let command = if granted {
            Command::Approve { id: Some(id.clone()) }
        } else {
            Command::Deny { id: Some(id.clone()) }
        };
        if !self.claim(channel.clone(), inbound.message.clone(), command, inbound.author.clone()).await? {
            return Ok(Some("That was answered before.".to_owned()));
        }
        let by = Approver::Person(inbound.author.id.clone());
        Ok(Some(match self.decide(Which::Id(id), granted, by).await {
            Ok(decided) => decided.words(),
            Err(undecided) => undecided.to_string(),
        }))
    }
}

/// Platforms tell times to the second.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
