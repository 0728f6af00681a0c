//! What was missed: read from Discord by channel, after the last message that was taken in, and answered as one turn.

use std::collections::HashSet;
use std::time::Duration;

use cairn_types::ids::{ChannelId as RuntimeChannel, MessageId as RuntimeMessage};
use cairn_types::message::{Amendment, Change};
use jiff::SignedDuration;
use serde_json::Value;
use serenity::all::ChannelId;

use super::InboundHandler;
use super::listing::{Looked, Missed};
use crate::discord::outbox::number;
use crate::discord::rest::{PAGE, Page, RestError};
use crate::discord::until_known;
use crate::discord::wire::{Message, id_at, time_of};

/// So far before the last message the reading begins: what came in beside each other may have been taken in in
/// another order, and what was edited or deleted meanwhile is seen.
const OVERLAP: SignedDuration = SignedDuration::from_mins(5);

/// Pause before a channel is read again that could not be read.
const PAUSE: Duration = Duration::from_secs(5);

/// Where reading begins for a channel that was taken in up to this id.
pub(super) fn overlap(last: u64) -> u64 {
    id_at(time_of(last).checked_sub(OVERLAP).unwrap_or(jiff::Timestamp::UNIX_EPOCH)).min(last)
}

/// A channel that is read, under its name in the runtime.
struct ChannelToRead<'a> {
    id: ChannelId,
    name: &'a RuntimeChannel,
    /// What is deleted there shows: Discord tells who may not read the history that there is none.
    shows_all: bool,
}

/// What Discord has of a channel.
struct History {
    /// From here on it is whole.
    from: u64,
    /// The messages that count, oldest first, within the limits of the configuration.
    messages: Vec<Message>,
    /// All that is there, by their ids.
    ids: HashSet<u64>,
}

impl InboundHandler {
    /// Looks at a channel in which something may have been missed, and takes in what is new. Returns when all of it is taken in,
    /// or cannot be read.
    pub(super) async fn backfill(&self, channel: ChannelId, mut missed: Missed) -> Looked {
        // What could not be read before is read with it.
        for (_, from) in self.places.unread(|id, _| id == channel) {
            missed.join(Missed::after(from));
        }
        let Some(channel_ref) = self.channel_ref(channel, None).await else { return Looked::Unreadable };
        let Some(name) = self.path.channel_of(&(&channel_ref).into()) else { return Looked::Quiet };
        let row = until_known(self.link.platform(), || self.path.ports.intake.channel(&name)).await;
        let last = row.and_then(|row| row.last_message).and_then(|message| number(message.as_str()));
        let Some(from) = self.where_from(missed, last) else { return Looked::Quiet };
        let me = *self.me.lock();
        let may_read = me.and_then(|me| self.places.may_read(channel, me, self.path.now()));
        match (may_read, last) {
            (Some(false), None) => return Looked::Quiet,
            (Some(false), Some(_)) => {
                let why = "the bot may not read it; give it View Channel and Read Message History there";
                self.cannot_read(channel, from, why);
                return Looked::Unreadable;
            }
            _ => {}
        }
        let shows_all = channel_ref.is_direct() || may_read == Some(true);
        self.read_missed(&ChannelToRead { id: channel, name: &name, shows_all }, from).await
    }

    /// From which message on a channel is read; none: nothing was missed there. `last`: the message of it that was taken in last.
    fn where_from(&self, missed: Missed, last: Option<u64>) -> Option<u64> {
        match (missed.after, last) {
            (Some(after), Some(last)) => Some(overlap(last).min(after)),
            (Some(after), None) => Some(after),
            (None, Some(last)) => (missed.last > last).then(|| overlap(last)),
            (None, None) => {
                // What was said before the bot was here at all is none of its business.
                let served_since = self.path.pairing_store.access_since(self.link.platform())?;
                let from = missed.since.max(self.oldest()).max(id_at(served_since));
                (missed.last > from).then_some(from)
            }
        }
    }

    async fn read_missed(&self, to_read: &ChannelToRead<'_>, from: u64) -> Looked {
        let channel = to_read.id;
        // Before the pages: what is taken in while they are read is not in them.
        let known = self.standing(to_read, from).await;
        let history = loop {
            match self.read_after(channel, from).await {
                Ok(history) => {
                    self.link.clear(&history_of(channel));
                    break history;
                }
                // A token that is refused says nothing of the channel.
                Err(error) if error.is_passing() || error == RestError::Unauthorized => {
                    tracing::warn!(
                        platform = self.link.platform(),
                        channel = channel.get(),
                        %error,
                        "what was missed cannot be read yet; trying again"
                    );
                    tokio::time::sleep(error.after().unwrap_or(PAUSE)).await;
                }
                Err(error) if error.is_unknown_channel() => {
                    self.gone(channel);
                    return Looked::Unreadable;
                }
                Err(error) => {
                    self.cannot_read(channel, from, &error.to_string());
                    return Looked::Unreadable;
                }
            }
        };
        let deleted = self.amend_deleted(to_read, known, &history).await;
        let mut fresh = Vec::new();
        for message in history.messages {
            let id = RuntimeMessage::new(message.id.to_string());
            let edited = message.was_edited();
            let Some(served) = self.served(Box::new(message), true).await else { continue };
            if self.path.is_new(&served.admitted.channel, &id).await {
                fresh.push(served);
            } else if edited {
                self.amend_edited(served).await;
            }
        }
        let messages = fresh.len() as u64;
        // One answer to all of it: the last that asks for one gets it, and what came before is there for it to see.
        let last = fresh.iter().rposition(|served| served.admitted.addressed);
        for (n, mut served) in fresh.into_iter().enumerate() {
            served.admitted.addressed = Some(n) == last;
            self.submit(served).await;
        }
        // Not sooner: what a stop leaves of it is read again.
        self.places.set_read(channel);
        Looked::Read { messages, deleted }
    }

    /// The messages of a channel that the runtime has; none where their deletion does not show.
    async fn standing(&self, to_read: &ChannelToRead<'_>, from: u64) -> Vec<RuntimeMessage> {
        if !to_read.shows_all {
            return Vec::new();
        }
        let (platform, since) = (self.link.platform(), time_of(from));
        until_known(platform, || self.path.ports.intake.standing_messages(to_read.name, since)).await
    }

    /// Tells the runtime which of the messages it has are not with Discord any more. How many.
    async fn amend_deleted(
        &self,
        to_read: &ChannelToRead<'_>,
        known: Vec<RuntimeMessage>,
        history: &History,
    ) -> u64 {
        let is_gone = |message: &RuntimeMessage| {
            number(message.as_str()).is_some_and(|id| id > history.from && !history.ids.contains(&id))
        };
        let mut n_gone = 0;
        for message in known.into_iter().filter(is_gone) {
            let (channel, at) = (to_read.name.clone(), self.path.now());
            self.path.amend(Amendment { channel, message, at, change: Change::Deleted }).await;
            n_gone += 1;
        }
        n_gone
    }

    fn cannot_read(&self, channel: ChannelId, from: u64, why: &str) {
        self.places.set_unread(channel, from);
        tracing::warn!(
            platform = self.link.platform(),
            channel = channel.get(),
            why,
            "what was missed cannot be read"
        );
        self.link.trouble(&history_of(channel), &format!("what was missed cannot be read: {why}"));
    }

    /// What a channel has after an id, within the limits of the configuration.
    async fn read_after(&self, channel: ChannelId, after: u64) -> Result<History, RestError> {
        let limits = self.path.chat.get().catch_up;
        let oldest = self.oldest();
        let first = self.page(channel, Page::After(after)).await?;
        let whole = first.len() < PAGE;
        let (mut values, mut from) = (first, after);
        let mut too_old = !whole && after < oldest;
        if !whole {
            (values, from) = self.read_back(channel, after.max(oldest), limits.max_messages).await?;
        }
        let ids = values.iter().filter_map(id_of).collect();
        let mut read = self.readable(values);
        read.sort_by_key(|message| message.id.get());
        read.dedup_by_key(|message| message.id.get());
        let me = *self.me.lock();
        read.retain(|message| message.is_speech() && Some(message.author.id) != me);
        let n_read = read.len();
        read.retain(|message| message.id.get() >= oldest);
        too_old |= read.len() < n_read;
        let too_many = read.len().saturating_sub(limits.max_messages);
        if too_many > 0 || too_old {
            tracing::warn!(
                platform = self.link.platform(),
                channel = channel.get(),
                too_old,
                too_many = too_many > 0,
                "some of what was missed is outside the limits of catch_up and was left out"
            );
        }
        Ok(History { from, messages: read.split_off(too_many), ids })
    }

    fn readable(&self, values: Vec<Value>) -> Vec<Message> {
        values.into_iter().filter_map(|value| self.read("message of a channel", value)).collect()
    }

    /// Few at a time ask; who waits for a limit keeps nobody else from asking.
    async fn page(&self, channel: ChannelId, page: Page) -> Result<Vec<Value>, RestError> {
        let ask = || async {
            let _permit = self.reads.acquire().await;
            self.rest.messages(channel, page).await
        };
        self.rest.patiently(ask).await
    }

    /// From the newest back to an id, at most so many and a page: of much that was missed the newest counts. Also from where on
    /// it is whole.
    async fn read_back(
        &self,
        channel: ChannelId,
        from: u64,
        most: usize,
    ) -> Result<(Vec<Value>, u64), RestError> {
        let mut all: Vec<Value> = Vec::new();
        let mut page = Page::Newest;
        loop {
            let values = self.page(channel, page).await?;
            let last_page = values.len() < PAGE;
            let Some(oldest) = values.iter().filter_map(id_of).min() else { return Ok((all, from)) };
            all.extend(values.into_iter().filter(|message| id_of(message).is_some_and(|id| id > from)));
            if last_page || oldest <= from {
                return Ok((all, from));
            }
            if all.len() > most {
                return Ok((all, oldest));
            }
            page = Page::Before(oldest);
        }
    }
}

/// The place of this trouble in the status: a message that goes out there does not end it.
pub(super) fn history_of(channel: ChannelId) -> String {
    format!("history of channel {channel}")
}

/// The id of a message, whatever else of it can be read.
fn id_of(message: &Value) -> Option<u64> {
    message.get("id")?.as_str().and_then(number)
}
