//! What becomes of the texts and ids of one event: those of the person go, and in all others nothing names them.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::ERASED;
use super::mask::Mask;
use cairn_types::event::visit::{Kind, Visit, visit_parts};
use cairn_types::ids::{ChannelId, MemoryId, MessageId, OutboxId};
use cairn_types::message::{Author, Part};
use cairn_types::provider_state::ProviderState;

#[derive(Debug)]
pub(super) struct Rewrite<'a> {
    pub mask: &'a mut Mask,
    /// Memories that have another id since.
    pub moved: &'a HashMap<MemoryId, MemoryId>,
    /// The channel of the event.
    pub channel: Option<&'a ChannelId>,
    /// Its text is theirs.
    pub is_theirs: bool,
    /// Nobody can read what is encrypted: in channels where they took part, what a provider gave goes as a whole.
    pub took_part: bool,
    /// Their name was taken out of a text that stays.
    pub mentioned: bool,
}

impl Visit for Rewrite<'_> {
    fn words(&mut self, words: &mut String, _: Kind) -> bool {
        if self.is_theirs {
            ERASED.clone_into(words);
            return true;
        }
        let changed = self.mask.text(words);
        self.mentioned |= changed;
        changed
    }

    fn json(&mut self, value: &mut Value) -> bool {
        if self.is_theirs {
            *value = json!({});
            return true;
        }
        let changed = self.mask.value(value);
        self.mentioned |= changed;
        changed
    }

    fn parts(&mut self, parts: &mut Vec<Part>) -> bool {
        if self.is_theirs {
            *parts = vec![Part::text(ERASED)];
            return true;
        }
        let theirs = self.mask.forwarded_in(parts).map_or(parts.len(), |at| at + 1);
        let behind = parts.split_off(theirs);
        let changed = visit_parts(self, parts);
        if !behind.is_empty() {
            parts.push(Part::text(ERASED));
        }
        changed
    }

    fn state(&mut self, state: &mut Option<Box<ProviderState>>) -> bool {
        let goes = |state: &mut Box<ProviderState>| {
            self.is_theirs
                || self.took_part
                || state.values().any(|value| self.mask.value(&mut value.clone()))
        };
        state.take_if(goes).is_some()
    }

    fn identifiers(&mut self, identifiers: &mut Vec<String>) -> bool {
        let before = identifiers.len();
        identifiers.retain(|identifier| !self.mask.names(identifier));
        let changed = identifiers.len() < before;
        self.mentioned |= changed;
        changed
    }

    fn person(&mut self, person: &mut String) -> bool {
        self.mask.person(person)
    }

    fn bare(&mut self, platform: &str, id: &mut String) -> bool {
        self.mask.bare_id(platform, id)
    }

    fn author(&mut self, author: &mut Author) -> bool {
        self.mask.author(author)
    }

    fn message(&mut self, message: &mut MessageId) -> bool {
        self.mask.message(message)
    }

    fn channel(&mut self, channel: &mut ChannelId) -> bool {
        let renamed = self.mask.channel(channel);
        let changed = renamed != *channel;
        *channel = renamed;
        changed
    }

    fn delivery(&mut self, id: &mut OutboxId) -> bool {
        self.channel.is_some_and(|channel| self.mask.delivery(id, channel))
    }

    fn memory(&mut self, id: &mut MemoryId) -> bool {
        let moved = self.moved.get(id);
        moved.map(|moved| id.clone_from(moved)).is_some()
    }

    fn sighting(&mut self, sighting: &mut String, of: Option<&ChannelId>) -> bool {
        of.is_some_and(|channel| self.mask.sighting(sighting, channel))
    }
}
