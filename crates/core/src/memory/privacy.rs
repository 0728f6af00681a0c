//! What nothing is learnt from: chats and people that are private, and what was said while they were.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use cairn_types::ids::{ChannelId, TurnId};
use cairn_types::memory::likely_sources;
use cairn_types::message::{Entry, Role};

use crate::registry::RegistryState;
use crate::window::escape_name;

/// Most times of one chat or person that are told apart; the oldest are joined, with what lies between them.
const SPANS_MAX: usize = 32;

/// Longest name that a compaction's model is told, in characters.
const NAME_MAX: usize = 40;

/// A time in which nothing is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivateSpan {
    pub since: Timestamp,
    /// `None`: it has not been lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The times of one chat or person, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivateSpans(Vec<PrivateSpan>);

impl PrivateSpans {
    pub(crate) fn set(&mut self, on: bool, at: Timestamp) {
        match self.0.last_mut().filter(|last| last.until.is_none()) {
            Some(last) if !on => last.until = Some(at),
            None if on => self.0.push(PrivateSpan { since: at, until: None }),
            Some(_) | None => {}
        }
        if self.0.len() > SPANS_MAX {
            let first = self.0.remove(0);
            self.0[0].since = first.since;
        }
    }

    /// Since when it is private now.
    pub fn since(&self) -> Option<Timestamp> {
        self.0.last().filter(|last| last.until.is_none()).map(|last| last.since)
    }

    fn hold(&self, at: Timestamp) -> bool {
        self.since().is_some()
            || self.0.iter().any(|span| span.since <= at && span.until.is_none_or(|until| at <= until))
    }
}

/// The key of a chat among [`RegistryState::private_chats`].
pub fn chat_key(channel: &ChannelId) -> String {
    format!("{}/{}", channel.platform(), channel.chat())
}

/// What nothing may be learnt from, of a stretch of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotLearnt {
    /// The chat is private now.
    everything: bool,
    /// Its private messages: those of people who are private now, and what was said while they or the chat were.
    entries: BTreeSet<cairn_types::ids::Seq>,
    /// The turns that these messages are in: answers and results may repeat them.
    turns: BTreeSet<TurnId>,
    /// Names of the people.
    people: BTreeSet<String>,
}

impl NotLearnt {
    /// When it is unknown what is private.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    pub fn of<'e>(
        registry: &RegistryState,
        channel: &ChannelId,
        entries: impl IntoIterator<Item = &'e Arc<Entry>>,
    ) -> Self {
        let chat = registry.private_chats.get(&chat_key(channel));
        let mut found =
            Self { everything: chat.is_some_and(|chat| chat.since().is_some()), ..Self::default() };
        for entry in entries.into_iter().filter(|entry| entry.role == Role::User) {
            let author = entry.author.as_ref();
            let person = author.and_then(|author| registry.private_people.get(&author.id));
            if person.is_some_and(|person| person.hold(entry.at))
                || chat.is_some_and(|chat| chat.hold(entry.at))
            {
                found.entries.insert(entry.seq);
                found.turns.insert(entry.turn.clone());
                found.people.extend(author.map(|author| author.name.clone()));
            }
        }
        found
    }

    pub fn is_nothing(&self) -> bool {
        !self.everything && self.turns.is_empty()
    }

    /// Whether the turn has a private message.
    pub fn has_turn(&self, turn: &TurnId) -> bool {
        self.everything || self.turns.contains(turn)
    }

    /// Whether a memory may come from what is private. It may where nobody is seen to have said it.
    pub fn covers(&self, text: &str, entries: &[Arc<Entry>]) -> bool {
        if self.everything || self.is_nothing() {
            return self.everything;
        }
        let sources = likely_sources(text, entries, usize::MAX);
        let Some(best) = sources.first().map(|source| source.shared) else { return true };
        let is_private = |entry: &Entry| match entry.role {
            Role::User => self.entries.contains(&entry.seq),
            Role::Assistant | Role::Tool => self.turns.contains(&entry.turn),
        };
        sources.iter().take_while(|source| source.shared == best).any(|source| is_private(&source.entry))
    }

    /// What a compaction's model is told.
    pub fn instruction(&self) -> Option<String> {
        if self.everything {
            return Some("This chat is private: save no memories.".to_owned());
        }
        let cut = |name: &String| name.chars().take(NAME_MAX).collect::<String>();
        let names: Vec<String> = self
            .people
            .iter()
            .map(|name| format!("\"{}\"", escape_name(&cut(name)).replace('"', "'")))
            .collect();
        (!names.is_empty()).then(|| {
            format!(
                "Some messages are private: save no memories from what these people say: {}.",
                names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::event::{Event, Record, RegistryEvent};
    use cairn_types::ids::Seq;
    use cairn_types::message::Author;

    use super::*;
    use crate::testing;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn set(registry: &mut RegistryState, user: &str, chat: Option<&str>, on: bool, second: i64) {
        let chat = chat.map(str::to_owned);
        let event = Event::Registry(RegistryEvent::PrivacySet { user: user.to_owned(), chat, on });
        registry.apply(&Record { n: 1, at: at(second), channel: None, event });
    }

    fn said(seq: u64, turn: &str, who: &str, second: i64, text: &str) -> Arc<Entry> {
        let author = Some(Author { id: format!("net/{who}"), name: who.to_owned() });
        let entry = testing::entry(Role::User, text);
        Arc::new(Entry { seq: Seq(seq), turn: turn.into(), author, at: at(second), ..entry })
    }

    fn answered(seq: u64, turn: &str, text: &str) -> Arc<Entry> {
        let entry = testing::entry(Role::Assistant, text);
        Arc::new(Entry { seq: Seq(seq), turn: turn.into(), author: None, ..entry })
    }

    #[test]
    fn what_is_private_and_what_was_is_not_learnt_and_all_else_is() {
        let channel: ChannelId = "main/net/group".parse().unwrap();
        let entries = [
            said(1, "t1", "ann", 10, "I sail a blue boat"),
            said(2, "t1", "ben", 10, "I own a red bicycle"),
            answered(3, "t1", "Noted: ann wants to go to Iceland by balloon"),
            said(4, "t2", "ben", 30, "My cat sleeps all day"),
        ];
        let mut registry = RegistryState::default();
        let covers = |registry: &RegistryState, text: &str| {
            NotLearnt::of(registry, &channel, &entries).covers(text, &entries)
        };
        assert!(!covers(&registry, "Ann sails a blue boat"));
        set(&mut registry, "net/ann", None, true, 5);
        assert!(covers(&registry, "Ann sails a blue boat"));
        assert!(covers(&registry, "Ann goes to Iceland by balloon"), "an answer repeats her");
        assert!(covers(&registry, "Something that nobody said"), "it may be hers");
        assert!(
            !covers(&registry, "Ben owns a red bicycle")
                && !covers(&registry, "The cat of Ben sleeps all day")
        );
        let told = NotLearnt::of(&registry, &channel, &entries).instruction().unwrap();
        assert!(told.contains("\"ann\"") && !told.contains("ben"), "{told}");
        set(&mut registry, "net/ann", None, false, 20);
        assert!(covers(&registry, "Ann sails a blue boat"), "it was said while she was private");
        set(&mut registry, "net/op", Some("group"), true, 25);
        assert!(covers(&registry, "Ben owns a red bicycle"), "the whole chat");
        set(&mut registry, "net/op", Some("group"), false, 40);
        assert!(
            !covers(&registry, "Ben owns a red bicycle")
                && covers(&registry, "The cat of Ben sleeps all day")
        );
        assert!(NotLearnt::of(&registry, &"main/net/other".parse().unwrap(), &[]).is_nothing());
    }

    #[test]
    fn many_times_are_joined_never_lost() {
        let mut spans = PrivateSpans::default();
        for n in 0..100 {
            spans.set(true, at(10 * n));
            spans.set(false, at(10 * n + 5));
        }
        assert!(spans.0.len() <= SPANS_MAX && spans.hold(at(3)) && !spans.hold(at(997)), "{spans:?}");
        assert_eq!(spans.since(), None);
    }
}
