//! Taking messages in: each once, durable before it is acknowledged.

use std::time::Duration;

use cairn_core::event::{Event, TurnEnd, TurnOutcome};
use cairn_core::ids::{ChannelId, LOCAL_PLATFORM, MessageId, TurnId};
use cairn_core::limits::Limited;
use cairn_core::message::{Amendment, Change, Inbound, Pending, fingerprint};
use cairn_core::notice::long_messages;
use cairn_core::ports::{Admission, Answer, Refusal, Reply, Seen, StoreError, TurnFailure};
use cairn_core::window::pending_tokens;

use super::ChannelState;
use super::journal::Fault;
use crate::failure;
use crate::runtime::RuntimeError;
use crate::shared::Phase;
use crate::subscribers::ended_stream;

/// Ended messages that a channel remembers itself, so that a repeat is answered without asking the store.
const RECENT_KEPT: usize = 64;

/// Seconds after which a full queue is worth another try.
const BUSY_RETRY_SECS: u64 = 5;

/// Longest that a channel waits for the views to say whether a message was seen: they may be on their way from the
/// journal, which takes a while, and the open turn must not wait for that.
const VIEWS_LIMIT: Duration = Duration::from_secs(5);

const BEHIND: &str = "bringing its views up to the journal";

/// What the views say, unless they are too far behind: without them nobody knows whether a message is new, so it is
/// refused, to be sent again.
pub(super) async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, Refusal> {
    match tokio::time::timeout(VIEWS_LIMIT, work).await {
        Ok(result) => result.map_err(of_store),
        Err(_) => Err(Refusal::Unavailable(BEHIND)),
    }
}

/// A message whose turn ended lately.
pub(super) struct Recent {
    pub(super) message: MessageId,
    pub(super) fingerprint: String,
    pub(super) end: TurnEnd,
}

pub(super) enum Standing {
    New,
    Open(TurnId, String),
    Ended(TurnEnd, String),
}

impl ChannelState {
    /// Takes a message in: durable when this returns. A repeated id joins its turn or gets its stored answer.
    pub(super) async fn accept(&mut self, inbound: &Inbound) -> Result<Result<Admission, Refusal>, Fault> {
        if self.draining {
            return Ok(Err(Refusal::Unavailable("stopping")));
        }
        let print = fingerprint(&inbound.author, &inbound.parts);
        let standing = match in_time(self.standing(&inbound.message)).await {
            Ok(standing) => standing,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match standing {
            // An adapter that sees the newer words of a message it has handed in before.
            Standing::Open(_, known) | Standing::Ended(_, known)
                if known != print && !known.is_empty() && self.is_chat() =>
            {
                self.newer_words(inbound).await
            }
            Standing::Open(_, known) | Standing::Ended(_, known) if known != print && !self.is_chat() => {
                Ok(Err(Refusal::Conflict(inbound.message.clone())))
            }
            Standing::Open(turn, _) => {
                Ok(Ok(Admission { turn, progress: self.handle.subscribers.join(&inbound.message) }))
            }
            Standing::Ended(end, _) => match in_time(self.stored_answer(&inbound.message, &end)).await {
                Ok(Some(answer)) => {
                    Ok(Ok(Admission { turn: end.turn.clone(), progress: ended_stream(answer) }))
                }
                Ok(None) => self.try_again_for(inbound, print, &end.turn).await,
                Err(refusal) => Ok(Err(refusal)),
            },
            Standing::New => self.take_in(inbound, print, None).await,
        }
    }

    /// A chat network, where messages have words that change, and never run twice.
    pub(super) fn is_chat(&self) -> bool {
        self.handle.id.platform() != LOCAL_PLATFORM
    }

    /// A chat network may deliver what was refused again, after a restart that begins the hour again: it stays refused.
    /// On the local platform whoever sent it sends it again, and then it is let in.
    async fn note_refused(&mut self, message: &MessageId) -> Result<(), Fault> {
        if self.is_chat()
            && let Err(error) = self.commit(vec![Event::MessageRefused { message: message.clone() }]).await?
        {
            tracing::warn!(channel = %self.handle.id, %error, "that a limit kept a message out is not journalled");
        }
        Ok(())
    }

    async fn newer_words(&mut self, inbound: &Inbound) -> Result<Result<Admission, Refusal>, Fault> {
        let change = Change::Edited {
            author: inbound.author.clone(),
            parts: inbound.parts.clone(),
            addressed: inbound.addressed,
        };
        let (channel, message) = (inbound.channel.clone(), inbound.message.clone());
        let amendment = Amendment { channel, message, at: inbound.at, change };
        if let Err(refusal) = self.amend(&amendment).await? {
            return Ok(Err(refusal));
        }
        let turn = self.handle.read(cairn_core::conversation::Conversation::next_turn);
        Ok(Ok(Admission { turn, progress: ended_stream(Answer::Failed(failure::repeated())) }))
    }

    /// A message whose turn ended without an answer is sent again: that turn is open again, or it begins another in its
    /// place.
    async fn try_again_for(
        &mut self,
        inbound: &Inbound,
        print: String,
        turn: &TurnId,
    ) -> Result<Result<Admission, Refusal>, Fault> {
        let again = self.handle.read(|conversation| conversation.sent_again(turn, &inbound.message));
        let is_idle = self.current.is_none() && self.unsaved.is_none();
        let Some(reopened @ Event::TurnReopened { .. }) = again else {
            return self.take_in(inbound, print, again).await;
        };
        if !is_idle {
            return Ok(Err(Refusal::Busy { retry_after_secs: BUSY_RETRY_SECS }));
        }
        if let Some(refusal) = self.over_limit(inbound).await? {
            return Ok(Err(refusal));
        }
        let progress = self.handle.subscribers.join(&inbound.message);
        if let Err(error) = self.commit(vec![reopened]).await? {
            drop(progress);
            return Ok(Err(Refusal::Store(error)));
        }
        metrics::counter!("cairn_accepted_total").increment(1);
        self.go_on().await?;
        Ok(Ok(Admission { turn: turn.clone(), progress }))
    }

    async fn over_limit(&mut self, inbound: &Inbound) -> Result<Option<Refusal>, Fault> {
        if inbound.addressed
            && let Err(limited) = self.shared.admit(&self.handle.id, &inbound.author.id)
        {
            self.note_refused(&inbound.message).await?;
            let Limited { retry_after_secs, words, tell } = limited;
            return Ok(Some(Refusal::Limited { retry_after_secs, words, tell }));
        }
        Ok(None)
    }

    /// `before`: what is to be journalled before it.
    async fn take_in(
        &mut self,
        inbound: &Inbound,
        print: String,
        before: Option<Event>,
    ) -> Result<Result<Admission, Refusal>, Fault> {
        let (n_pending, turn) =
            self.handle.read(|conversation| (conversation.pending.len(), conversation.next_turn()));
        if n_pending >= self.shared.limits().channel_queue {
            return Ok(Err(Refusal::Busy { retry_after_secs: BUSY_RETRY_SECS }));
        }
        if let Some(refusal) = self.over_limit(inbound).await? {
            return Ok(Err(refusal));
        }
        let mut pending = Pending {
            message: inbound.message.clone(),
            turn: turn.clone(),
            at: inbound.at,
            author: inbound.author.clone(),
            parts: inbound.parts.clone(),
            addressed: inbound.addressed,
            direct: inbound.direct,
            provenance: inbound.provenance.clone(),
            fingerprint: print,
            tokens: 0,
        };
        pending.tokens = pending_tokens(&pending);
        // An idle channel begins the turn in the same breath: one sync for both.
        let begun = self.next_turn_events(Some(&pending));
        let mut events: Vec<Event> = before.into_iter().collect();
        events.push(Event::Accepted(pending));
        events.extend(begun);
        // Waiting begins before the turn can end.
        let progress = self.handle.subscribers.join(&inbound.message);
        if let Err(error) = self.commit(events).await? {
            drop(progress);
            return Ok(Err(Refusal::Store(error)));
        }
        metrics::counter!("cairn_accepted_total").increment(1);
        self.go_on().await?;
        Ok(Ok(Admission { turn, progress }))
    }

    pub(super) async fn standing(&self, message: &MessageId) -> Result<Standing, StoreError> {
        let open = self.handle.read(|conversation| {
            if let Some(pending) = conversation.pending.iter().find(|pending| pending.message == *message) {
                return Some(Standing::Open(pending.turn.clone(), pending.fingerprint.clone()));
            }
            let open = conversation.open_turn.as_ref().filter(|open| open.messages.contains(message))?;
            let of_turn = |entry: &&std::sync::Arc<cairn_core::message::Entry>| {
                entry.turn == open.id && entry.message.as_ref() == Some(message)
            };
            let entry = conversation.live.iter().rev().find(of_turn)?;
            let print = fingerprint(entry.author.as_ref()?, &entry.parts);
            Some(Standing::Open(open.id.clone(), print))
        });
        if let Some(open) = open {
            return Ok(open);
        }
        if let Some(recent) = self.recent.iter().rev().find(|recent| recent.message == *message) {
            return Ok(Standing::Ended(recent.end.clone(), recent.fingerprint.clone()));
        }
        match self.shared.deps.store.seen(&self.handle.id, message).await? {
            // Open in the archive but not here: a `/new` between its acceptance and now took its turn along.
            Seen::New | Seen::Open { .. } => Ok(Standing::New),
            Seen::Ended { fingerprint, end, .. } => Ok(Standing::Ended(*end, fingerprint)),
        }
    }

    /// What a message is answered with whose turn has ended; `None` when it is to run again.
    async fn stored_answer(&self, message: &MessageId, end: &TurnEnd) -> Result<Option<Answer>, StoreError> {
        let reply = match &end.outcome {
            TurnOutcome::Failed { code, message } if self.is_chat() => {
                return Ok(Some(Answer::Failed(failure::stored(code, message))));
            }
            TurnOutcome::Stopped if self.is_chat() => return Ok(Some(Answer::Failed(failure::stopped()))),
            TurnOutcome::Failed { .. } | TurnOutcome::Stopped => return Ok(None),
            TurnOutcome::DeadLettered => return Ok(Some(Answer::Failed(failure::dead_letter()))),
            TurnOutcome::Unanswered => String::new(),
            TurnOutcome::Answered { reply } => {
                let entries = self.shared.deps.store.entries(&self.handle.id, *reply, *reply, 1).await?;
                match entries.first() {
                    Some(entry) if entry.is_expired() => return Ok(Some(Answer::Failed(failure::expired()))),
                    Some(entry) => entry.text(),
                    None if self.is_chat() => return Ok(Some(Answer::Failed(failure::lost()))),
                    None => return Ok(None),
                }
            }
        };
        let settings = self.handle.settings();
        let of_message = std::slice::from_ref(message);
        let notice =
            self.handle.read(|conversation| long_messages(conversation, &settings, of_message, false));
        Ok(Some(answer_of(message, end, reply, notice)))
    }

    /// Remembers the end of these messages' turn.
    pub(super) fn remember(&mut self, messages: Vec<(MessageId, String)>, end: &TurnEnd) {
        for (message, fingerprint) in messages {
            if self.recent.len() == RECENT_KEPT {
                self.recent.pop_front();
            }
            self.recent.retain(|recent| recent.message != message);
            self.recent.push_back(Recent { message, fingerprint, end: end.clone() });
        }
    }
}

/// A reply as the waiter of `message` gets it.
pub(super) fn answer_of(message: &MessageId, end: &TurnEnd, reply: String, notice: Option<String>) -> Answer {
    Answer::Reply(Reply {
        turn: end.turn.clone(),
        message: message.clone(),
        reply,
        model: end.model.clone().unwrap_or_default(),
        usage: end.usage,
        recalled: end.recalled.clone(),
        notice,
    })
}

pub(super) fn failed(failure: &TurnFailure) -> Answer {
    Answer::Failed(failure.clone())
}

/// A refusal in the words of the way in.
pub(crate) fn refusal(error: RuntimeError, channel: &ChannelId) -> Refusal {
    match error {
        RuntimeError::UnknownAgent(agent) => Refusal::UnknownAgent(agent),
        RuntimeError::NoAgent | RuntimeError::NoSuchChannel(_) => Refusal::UnknownAgent(channel.agent()),
        RuntimeError::Stopping => Refusal::Unavailable(Phase::Stopping.name()),
        RuntimeError::Interrupted(_)
        | RuntimeError::Spawn { .. }
        | RuntimeError::NoSuchDelivery(_)
        | RuntimeError::Limited(_)
        | RuntimeError::Instruction(_)
        | RuntimeError::NothingToUndo(_) => Refusal::Unavailable("starting a channel again"),
        RuntimeError::Store(error) => of_store(error),
    }
}

/// A refusal of a command, whose channel begins with it where it must.
pub(super) fn refusal_of_command(error: RuntimeError) -> Refusal {
    match error {
        RuntimeError::UnknownAgent(agent) => Refusal::UnknownAgent(agent),
        RuntimeError::Stopping => Refusal::Unavailable(Phase::Stopping.name()),
        RuntimeError::Store(error) => of_store(error),
        _ => Refusal::Unavailable("starting a channel again"),
    }
}

/// Views mend themselves from the journal: a message that needs them is only to be sent again.
fn of_store(error: StoreError) -> Refusal {
    match error {
        StoreError::View { .. } => {
            tracing::warn!(%error, "a message is refused, to be sent again, until the views are mended");
            Refusal::Unavailable(BEHIND)
        }
        error => Refusal::Store(error),
    }
}
