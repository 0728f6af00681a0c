//! What is not theirs alone after all: the second walk. What others say and are called, and memories of others.

use super::scrub::{RUN, Scrub};
use super::survey::{Survey, own_words};
use super::words::{run_key, words};
use crate::event::{Event, Record};
use crate::memory::{MemorySave, Scope, mint_id};
use crate::message::{Author, Entry, Role, text_of};

/// Stands before all that anybody said: what others are called was never a person's own to say.
const BEFORE_ALL: u64 = 0;

impl Survey {
    /// Second walk: strikes out what others said, too, and what they are called.
    pub fn weigh(&mut self, record: &Record) {
        match &record.event {
            Event::Accepted(pending) if !self.is_theirs(&pending.author) => {
                self.weigh_author(&pending.author);
                self.weigh_text(&own_words(&text_of(&pending.parts)), record.n, true);
            }
            Event::EntryAdded { entry } => {
                entry.author.iter().for_each(|author| self.weigh_author(author));
                if !self.is_in_their_turn(record, entry) {
                    self.weigh_entry(entry, record.n);
                }
            }
            Event::CommandTaken { caller: author, .. } | Event::PairingRequested { user: author, .. } => {
                self.weigh_author(author);
            }
            Event::PairingApproved { user } | Event::PairingRevoked { user } if user != self.person() => {
                self.weigh_text(user, BEFORE_ALL, true);
            }
            Event::MemorySaved(save) => self.weigh_memory(save, record.n),
            Event::RunEnded(end) => {
                end.memories.iter().for_each(|save| self.weigh_memory(save, record.n));
            }
            Event::MemoryEdited { id, text: Some(text), .. }
                if self.of_others.contains(id) && !self.naming().names_surely(text) =>
            {
                self.weigh_text(text, record.n, true);
            }
            _ => {}
        }
    }

    /// Nobody's name is another's word: people seldom say their own.
    fn weigh_author(&mut self, author: &Author) {
        if !self.is_theirs(author) {
            self.weigh_text(&author.id, BEFORE_ALL, true);
            self.weigh_text(&author.name, BEFORE_ALL, true);
        }
    }

    /// What is said in answer to them says nothing of what others say.
    fn is_in_their_turn(&self, record: &Record, entry: &Entry) -> bool {
        let channel = record.channel.as_ref();
        channel.is_some_and(|channel| self.turns.contains(&(channel.clone(), entry.turn.clone())))
    }

    fn weigh_entry(&mut self, entry: &Entry, n: u64) {
        let text = entry.text();
        match entry.role {
            Role::User => {}
            // The model, and what tools return, say again what they were told: only what they said first is not theirs.
            Role::Assistant | Role::Tool => self.weigh_text(&text, n, false),
        }
    }

    /// What people typed is of people, as their messages are; a model may have been told it, as its answers may.
    fn weigh_memory(&mut self, save: &MemorySave, n: u64) {
        let private = save.source.channel.as_ref().is_some_and(|channel| self.is_private(channel));
        if private || self.is_of_them(save) || self.is_out_of_their_turns(save) {
            return;
        }
        if let Scope::User { user: id, .. } | Scope::Chat { chat: id, .. } = &save.scope {
            self.weigh_text(id, BEFORE_ALL, true);
        }
        let of_others = self.is_of_others(save);
        if of_others
            && self.is_surely_about(&self.naming(), Some(&save.scope), save.subject.as_deref(), &save.text)
        {
            return;
        }
        if of_others {
            self.of_others.insert(mint_id(&save.fingerprint()));
        }
        for text in save.subject.iter().chain([&save.text]) {
            self.weigh_text(text, n, save.source.is_typed());
        }
    }

    /// A memory of others: somebody typed it, it is in another person's scope, or about another person. A word of theirs is
    /// no reason to drop it.
    pub(super) fn is_of_others(&self, save: &MemorySave) -> bool {
        save.source.is_typed()
            || matches!(save.scope, Scope::User { .. })
            || save.subject.as_ref().is_some_and(|subject| self.is_other(subject))
    }

    /// A memory of others is about them nevertheless: it is called after them, or says their id or their full name. What
    /// says neither whom it is about nor whose it is is about whom it names. `names`: what names them.
    pub(super) fn is_surely_about(
        &self,
        names: &Scrub,
        scope: Option<&Scope>,
        subject: Option<&str>,
        text: &str,
    ) -> bool {
        let anothers = matches!(scope, Some(Scope::User { .. }));
        match subject {
            Some(subject) if self.is_other(subject) && (anothers || !self.is_called(subject)) => {
                names.names_surely(text)
            }
            Some(subject) => self.is_called(subject) || names.names_them(subject) || names.names_surely(text),
            None if anothers => names.names_surely(text) || (!self.has_namesake() && names.begins(text)),
            None => names.names_in_full(text) || names.begins(text),
        }
    }

    fn weigh_text(&mut self, text: &str, n: u64, by_people: bool) {
        let found = words(text);
        for (idx, word) in found.iter().enumerate() {
            if let Some(own) = self.words.get(&word.key)
                && (n < own.first || (by_people && own.ordinary))
            {
                self.words.remove(&word.key);
            }
            let earlier = |first: Option<&u64>| first.is_some_and(|first| n < *first);
            if let Some(run) = found.get(idx..idx + RUN) {
                let key = run_key(run);
                if earlier(self.runs.get(&key)) {
                    self.runs.remove(&key);
                }
            }
            for sign in self.sign_starts.get(&word.key).into_iter().flatten() {
                let same = found
                    .get(idx..idx + sign.len())
                    .is_some_and(|here| here.iter().zip(sign).all(|(word, key)| word.key == *key));
                if same && earlier(self.signs.get(sign)) {
                    self.signs.remove(sign);
                }
            }
        }
    }
}
