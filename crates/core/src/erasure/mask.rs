//! Ids: whatever names the person is replaced, everywhere by the same.

use std::collections::{BTreeSet, HashMap};

use super::scrub::Scrub;
use crate::ids::{ChannelId, MessageId, OutboxId};
use crate::memory::{Scope, Source};
use crate::message::Author;
use crate::voices::Voices;

/// What stands in the place of what.
#[derive(Debug, Clone)]
pub(super) struct Mask {
    person: String,
    /// `PLATFORM/erased-1`.
    pub(super) pseudonym: String,
    /// Ids of messages that name the person or hold their words, by the ids that they have.
    messages: HashMap<String, String>,
}

impl Mask {
    pub(super) fn new(person: &str, pseudonym: &str) -> Self {
        Self { person: person.to_owned(), pseudonym: pseudonym.to_owned(), messages: HashMap::new() }
    }

    /// The pseudonym without its platform.
    pub(super) fn alias(&self) -> &str {
        self.pseudonym.split_once('/').map_or(&self.pseudonym, |(_, alias)| alias)
    }

    fn bare(&self) -> &str {
        self.person.split_once('/').map_or(&self.person, |(_, bare)| bare)
    }

    fn platform(&self) -> &str {
        self.person.split_once('/').map_or("", |(platform, _)| platform)
    }

    pub(super) fn person(&self, id: &mut String) {
        if *id == self.person {
            id.clone_from(&self.pseudonym);
        }
    }

    pub(super) fn people(&self, people: &mut BTreeSet<String>) {
        if people.remove(&self.person) {
            people.insert(self.pseudonym.clone());
        }
    }

    pub(super) fn voices(&self, voices: &mut Voices) {
        self.people(&mut voices.people);
    }

    /// Id and name. Of somebody else, the name without theirs.
    pub(super) fn author(&self, author: &mut Author, scrub: &Scrub) {
        if author.id == self.person {
            author.id.clone_from(&self.pseudonym);
            self.alias().clone_into(&mut author.name);
        } else {
            scrub.scrub_name(&mut author.name);
        }
    }

    /// A channel; one that is named after the person is named after the pseudonym.
    pub(super) fn channel(&self, channel: &ChannelId) -> ChannelId {
        if channel.platform() != self.platform() || channel.chat() != self.bare() {
            return channel.clone();
        }
        let renamed = ChannelId::new(&channel.agent(), channel.platform(), self.alias(), channel.thread());
        renamed.unwrap_or_else(|_| channel.clone())
    }

    pub(super) fn chat(&self, platform: &str, chat: &mut String) {
        if platform == self.platform() && chat == self.bare() {
            self.alias().clone_into(chat);
        }
    }

    pub(super) fn scope(&self, scope: &mut Scope) {
        match scope {
            Scope::Agent => {}
            Scope::Chat { platform, chat } => self.chat(&platform.clone(), chat),
            Scope::User { platform, user } => self.chat(&platform.clone(), user),
        }
    }

    pub(super) fn source(&self, source: &mut Source, scrub: &Scrub) {
        source.by.iter_mut().for_each(|by| self.author(by, scrub));
        if let Some(channel) = &mut source.channel {
            *channel = self.channel(channel);
        }
    }

    /// A message's id: one that holds what is taken out of texts gets another, the corrections of it, too.
    pub(super) fn message(&mut self, message: &mut MessageId, scrub: &Scrub) {
        let text = message.as_str();
        let (base, rest) = text.find('#').map_or((text, ""), |at| text.split_at(at));
        if !scrub.hits(base) {
            return;
        }
        let n = self.messages.len() + 1;
        let alias = self.alias().to_owned();
        let other = self.messages.entry(base.to_owned()).or_insert_with(|| format!("{alias}-{n}"));
        *message = MessageId::from(format!("{other}{rest}"));
    }

    pub(super) fn message_option(&mut self, message: &mut Option<MessageId>, scrub: &Scrub) {
        if let Some(message) = message {
            self.message(message, scrub);
        }
    }

    /// A delivery's id begins with its channel.
    pub(super) fn delivery(&self, id: &mut OutboxId, channel: &ChannelId) {
        let rest = id.as_str().strip_prefix(channel.as_str()).map(ToOwned::to_owned);
        if let Some(rest) = rest {
            *id = OutboxId::from(format!("{}{rest}", self.channel(channel)));
        }
    }

    /// The key of a sighting begins with its channel and may end with a message's id.
    pub(super) fn sighting(&mut self, sighting: &mut String, channel: Option<&ChannelId>, scrub: &Scrub) {
        let Some(channel) = channel else { return };
        let Some(rest) = sighting.strip_prefix(channel.as_str()) else { return };
        let mut rest = rest.to_owned();
        if let Some((_, message)) = rest.split_once("/command/") {
            let mut message = MessageId::from(message);
            self.message(&mut message, scrub);
            rest = format!("/command/{message}");
        }
        *sighting = format!("{}{rest}", self.channel(channel));
    }
}
