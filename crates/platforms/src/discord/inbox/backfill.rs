//! Backfill: missed messages are read from Discord per channel, starting a little before the last message taken in, and
//! answered as one turn.

use std::collections::HashSet;

use cairn_types::ids::{ChannelId as RuntimeChannel, MessageId as RuntimeMessage};
use cairn_types::message::{Amendment, Change};
use jiff::SignedDuration;
use serde_json::Value;
use serenity::all::ChannelId;

use super::InboundHandler;
use super::listing::{Looked, Missed, UNTOLD};
use crate::discord::outbox::{id_of, number};
use crate::discord::rest::{PAGE, Page, RestError};
use crate::discord::until_known;
use crate::discord::wire::{Message, id_at, time_of};
use crate::link::Place;

/// How far before the last message reading starts. Messages may have been taken in out of order, and edits and
/// deletions in this range are noticed too.
const OVERLAP: SignedDuration = SignedDuration::from_mins(5);

/// The id to read from, for a channel whose last message taken in is `last`.
pub(super) fn overlap(last: u64) -> u64 {
    id_at(time_of(last).checked_sub(OVERLAP).unwrap_or(jiff::Timestamp::UNIX_EPOCH)).min(last)
}

/// A channel to read, and its name in the runtime.
struct ChannelToRead<'a> {
    id: ChannelId,
    name: &'a RuntimeChannel,
    /// Whether the whole history is visible. Without the right to read it Discord returns an empty list, which would
    /// look like deletion.
    shows_all: bool,
}

/// A channel's history as Discord returned it.
struct History {
    /// `ids` is complete after this id.
    from: u64,
    /// The messages to take in, oldest first, within the limits of `catch_up`.
    messages: Vec<Message>,
    /// The ids of all messages returned.
    ids: HashSet<u64>,
}

impl InboundHandler {
    /// Checks a channel that may have missed messages, and takes in the new ones. Returns when all are taken in, or
    /// when the channel cannot be read.
    pub(super) async fn backfill(&self, channel: ChannelId, mut missed: Missed) -> Looked {
        // Includes ranges that could not be read before.
        for (_, from) in self.places.unread(|id, _| id == channel) {
            missed.join(Missed::after(from));
        }
        let Some(channel_ref) = self.channel_ref(channel, None).await else { return Looked::Unreadable };
        let Some(name) = self.path.channel_of(&(&channel_ref).into()) else { return Looked::Quiet };
        let row = until_known(self.link.platform(), || self.path.ports.intake.channel(&name)).await;
        let last = row.and_then(|row| row.last_message).and_then(|message| number(message.as_str()));
        let heard = self.places.heard(channel);
        let me = *self.me.lock();
        let may_read = me.and_then(|me| self.places.may_read(channel, me, self.path.now()));
        let shows_all = channel_ref.is_direct() || may_read == Some(true);
        let to_read = ChannelToRead { id: channel, name: &name, shows_all };
        let Some(from) = self.where_from(missed, last, heard) else {
            return match last {
                Some(last) => self.find_deleted(&to_read, overlap(last), u64::MAX).await,
                None => Looked::Quiet,
            };
        };
        match (may_read, last) {
            (Some(false), None) => return Looked::Quiet,
            (Some(false), Some(_)) => {
                let why = "the bot may not read it; give it View Channel and Read Message History there";
                self.cannot_read(channel, from, why);
                return Looked::Unreadable;
            }
            _ => {}
        }
        let mut looked = self.read_missed(&to_read, from).await;
        if matches!(looked, Looked::Read { .. }) && missed.last != UNTOLD {
            self.places.set_heard(channel, missed.last);
        }
        if let Looked::Read { deleted, .. } = &mut looked
            && let Looked::Read { deleted: earlier, .. } = self.find_deleted(&to_read, from, from).await
        {
            *deleted += earlier;
        }
        looked
    }

    /// Reads a channel's newest messages, one page of them, where the runtime has messages up to id `to` that a model may still
    /// read: Discord's list goes on naming a message that is deleted, so nothing else tells that one of them is. `from`: where to
    /// read from once the channel can be read again.
    async fn find_deleted(&self, to_read: &ChannelToRead<'_>, from: u64, to: u64) -> Looked {
        let mut known = self.standing(to_read, self.oldest()).await;
        known.retain(|message| number(message.as_str()).is_some_and(|id| id <= to));
        if known.is_empty() {
            return Looked::Quiet;
        }
        match self.page(to_read.id, Page::Newest).await {
            Ok(values) => {
                let ids: HashSet<u64> = values.iter().filter_map(id_of).collect();
                let all = values.len() < PAGE;
                let from = if all { 0 } else { ids.iter().min().copied().unwrap_or(u64::MAX) };
                let history = History { from, messages: Vec::new(), ids };
                let deleted = self.amend_deleted(to_read, known, &history).await;
                Looked::Read { messages: 0, deleted }
            }
            Err(error) if error.is_unknown_channel() => {
                self.gone(to_read.id);
                Looked::Unreadable
            }
            Err(error) => {
                self.cannot_read(to_read.id, from, &error.to_string());
                Looked::Unreadable
            }
        }
    }

    /// The id to read from; `None`: nothing was missed. `last`: the last message taken in from this channel; `heard`: the
    /// one up to which nothing can be missing.
    fn where_from(&self, missed: Missed, last: Option<u64>, heard: u64) -> Option<u64> {
        match (missed.after, last) {
            (Some(after), Some(last)) => Some(overlap(last).min(after)),
            (Some(after), None) => Some(after),
            (None, Some(last)) => (missed.last > last.max(heard)).then(|| overlap(last)),
            (None, None) => {
                // Messages from before the bot served this network are not read.
                let served_since = self.path.pairing_store.access_since(self.link.platform())?;
                let from = missed.since.max(self.oldest()).max(id_at(served_since)).max(heard);
                (missed.last > from).then_some(from)
            }
        }
    }

    async fn read_missed(&self, to_read: &ChannelToRead<'_>, from: u64) -> Looked {
        let channel = to_read.id;
        // Asked before the pages are read: messages taken in meanwhile are not in them.
        let known = self.standing(to_read, from).await;
        let history = match self.read_after(channel, from).await {
            Ok(history) => {
                self.link.clear(history_of(channel));
                history
            }
            Err(error) if error.is_unknown_channel() => {
                self.gone(channel);
                return Looked::Unreadable;
            }
            Err(error) => {
                self.cannot_read(channel, from, &error.to_string());
                return Looked::Unreadable;
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
        // All of it gets one answer: to the last message that asks for one, with the earlier messages as context.
        let last = fresh.iter().rposition(|served| served.admitted.addressed);
        for (n, mut served) in fresh.into_iter().enumerate() {
            served.admitted.addressed = Some(n) == last;
            self.submit(served).await;
        }
        // Only now, so that a stop before this point leaves the channel to be read again.
        self.places.set_read(channel);
        Looked::Read { messages, deleted }
    }

    /// The channel's messages that the runtime has since `from`; empty if deletions cannot be seen.
    async fn standing(&self, to_read: &ChannelToRead<'_>, from: u64) -> Vec<RuntimeMessage> {
        if !to_read.shows_all {
            return Vec::new();
        }
        let (platform, since) = (self.link.platform(), time_of(from));
        until_known(platform, || self.path.ports.intake.standing_messages(to_read.name, since)).await
    }

    /// Tells the runtime which of its messages are deleted on Discord. Returns their number.
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
            "missed messages cannot be read"
        );
        self.link.trouble(history_of(channel), &format!("missed messages cannot be read: {why}"));
    }

    /// The history of a channel after an id, within the limits of `catch_up`.
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
                "some missed messages are over the catch_up limits and were left out"
            );
        }
        Ok(History { from, messages: read.split_off(too_many), ids })
    }

    fn readable(&self, values: Vec<Value>) -> Vec<Message> {
        values.into_iter().filter_map(|value| self.read("message of a channel", value)).collect()
    }

    /// Reads one page, for as long as it takes. Fails only where Discord refuses it.
    async fn page(&self, channel: ChannelId, page: Page) -> Result<Vec<Value>, RestError> {
        self.reads.answered(&self.link, || self.rest.messages(channel, page)).await
    }

    /// Reads from the newest message back to `from`, up to about `most` messages: if much was missed, the newest count.
    /// Also returns the id after which the result is complete.
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

/// The status entry for a channel that could not be read. Sending there does not clear it.
pub(super) fn history_of(channel: ChannelId) -> Place {
    Place::in_chat("history of channel", channel)
}
