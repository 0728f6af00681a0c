//! What was missed: read from Discord by channel, after the last message that was taken in, and answered as one turn.

use std::time::Duration;

use cairn_core::ids::MessageId as RuntimeMessage;
use jiff::SignedDuration;
use serenity::all::ChannelId;

use super::InboundHandler;
use crate::discord::rest::{PAGE, Page, RestError, UNKNOWN_CHANNEL};
use crate::discord::wire::{Message, id_at, time_of};

/// So far before the last message the reading begins: what came in beside each other may have been taken in in
/// another order, and what was edited meanwhile is seen.
const OVERLAP: SignedDuration = SignedDuration::from_mins(5);

/// Pause before a channel is read again that could not be read.
const PAUSE: Duration = Duration::from_secs(5);

/// Where reading begins for a channel that was taken in up to this id.
pub(super) fn overlap(last: u64) -> u64 {
    id_at(time_of(last).checked_sub(OVERLAP).unwrap_or(jiff::Timestamp::UNIX_EPOCH)).min(last)
}

impl InboundHandler {
    /// Reads a channel after an id and takes in what is new. Returns when all of it is taken in, or cannot be read.
    pub(super) async fn backfill(&self, channel: ChannelId, after: u64) {
        let missed = loop {
            match self.read_after(channel, after).await {
                Ok(missed) => {
                    self.link.clear(&history_of(channel));
                    break missed;
                }
                Err(error) if error.is_passing() => {
                    tracing::warn!(
                        platform = "discord",
                        channel = channel.get(),
                        %error,
                        "what was missed cannot be read yet; trying again"
                    );
                    tokio::time::sleep(error.after().unwrap_or(PAUSE)).await;
                }
                Err(error) => return self.cannot_read(channel, &error),
            }
        };
        let mut fresh = Vec::new();
        for message in missed {
            let id = message.id.get();
            let edited = message.was_edited();
            let Some(served) = self.served(Box::new(message)).await else { continue };
            if self.path.is_new(&served.admitted.channel, &RuntimeMessage::new(id.to_string())).await {
                fresh.push((id, served));
            } else if edited {
                self.amend_edited(served).await;
            }
        }
        if fresh.is_empty() {
            return;
        }
        let n_missed = fresh.len();
        tracing::info!(platform = "discord", channel = channel.get(), n_missed, "taking in what was missed");
        // One answer to all of it: the last that asks for one gets it, and what came before is there for it to see.
        let last = fresh.iter().rposition(|(_, served)| served.admitted.addressed);
        for (n, (id, mut served)) in fresh.into_iter().enumerate() {
            served.admitted.addressed = Some(n) == last;
            self.submit(served).await;
            self.note_taken(channel, id);
        }
    }

    fn cannot_read(&self, channel: ChannelId, error: &RestError) {
        tracing::warn!(platform = "discord", channel = channel.get(), %error, "what was missed cannot be read");
        let gone = matches!(error, RestError::Refused { code: UNKNOWN_CHANNEL, .. });
        if !gone {
            self.link.trouble(&history_of(channel), &format!("what was missed cannot be read: {error}"));
        }
    }

    /// Messages after an id, oldest first, within the limits of the configuration.
    async fn read_after(&self, channel: ChannelId, after: u64) -> Result<Vec<Message>, RestError> {
        let limits = self.path.chat.get().catch_up;
        let oldest = self.oldest();
        let first = self.page(channel, Page::After(after)).await?;
        let whole = first.len() < PAGE;
        let mut read = readable(first);
        let mut too_old = !whole && after < oldest;
        if !whole {
            read = self.read_back(channel, after.max(oldest), limits.max_messages).await?;
        }
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
                platform = "discord",
                channel = channel.get(),
                too_old,
                too_many = too_many > 0,
                "some of what was missed is outside the limits of catch_up and was left out"
            );
        }
        Ok(read.split_off(too_many))
    }

    /// Few at a time ask; who waits for a limit keeps nobody else from asking.
    async fn page(&self, channel: ChannelId, page: Page) -> Result<Vec<serde_json::Value>, RestError> {
        let ask = || async {
            let _permit = self.reads.acquire().await;
            self.rest.messages(channel, page).await
        };
        self.rest.patiently(ask).await
    }

    /// From the newest back to an id, at most so many and a page: of much that was missed the newest counts.
    async fn read_back(&self, channel: ChannelId, from: u64, most: usize) -> Result<Vec<Message>, RestError> {
        let mut all: Vec<Message> = Vec::new();
        let mut page = Page::Newest;
        loop {
            let values = self.page(channel, page).await?;
            let last_page = values.len() < PAGE;
            let read = readable(values);
            let Some(oldest) = read.iter().map(|message| message.id.get()).min() else { return Ok(all) };
            all.extend(read.into_iter().filter(|message| message.id.get() > from));
            if last_page || oldest <= from || all.len() > most {
                return Ok(all);
            }
            page = Page::Before(oldest);
        }
    }
}

/// The place of this trouble in the status: a message that goes out there does not end it.
pub(super) fn history_of(channel: ChannelId) -> String {
    format!("history of channel {channel}")
}

fn readable(values: Vec<serde_json::Value>) -> Vec<Message> {
    values.into_iter().filter_map(|value| super::read("message of a channel", value)).collect()
}
