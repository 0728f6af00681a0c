//! Memories: which of them go.

use super::Eraser;
use super::room::Room;
use crate::event::Event;
use crate::ids::{ChannelId, MemoryId, Seq};
use crate::memory::{DraftMemory, MemorySave, mint_id};

impl Eraser {
    /// A save as it is kept; `None`: it goes. `room`: the channel that it is journalled in, when it is one.
    pub(super) fn save(&mut self, room: Option<&Room>, mut save: MemorySave) -> Option<MemorySave> {
        let id = mint_id(&save.fingerprint());
        if self.is_gone(room, &save) {
            if !self.kept.contains(&id) {
                self.forgotten.insert(id);
            }
            self.figures.memories += 1;
            return None;
        }
        self.kept.insert(id.clone());
        if self.survey.is_of_others(&save) {
            self.of_others.insert(id.clone());
        }
        if self.mention(|scrub| scrub.scrub(&mut save.text) | scrub.scrub_option(&mut save.subject)) {
            self.cleaned.insert(id.clone());
        }
        let channel = save.source.channel.clone();
        self.mask.sighting(&mut save.sighting, channel.as_ref(), &self.scrub);
        self.mask.scope(&mut save.scope);
        self.mask.source(&mut save.source, &self.scrub);
        // The id derives from agent, scope and text.
        let renamed = mint_id(&save.fingerprint());
        if renamed != id {
            self.moved.insert(id, renamed);
        }
        Some(save)
    }

    fn is_gone(&self, room: Option<&Room>, save: &MemorySave) -> bool {
        let about_them = || {
            let subject = save.subject.as_deref();
            match self.survey.is_of_others(save) {
                true => self.survey.is_surely_about(&self.scrub, Some(&save.scope), subject, &save.text),
                false => self.is_about_them(subject, &save.text),
            }
        };
        if self.survey.is_of_them(save) || about_them() {
            return true;
        }
        let source = &save.source;
        if source.channel.as_ref().is_some_and(|channel| self.survey.is_private(channel)) {
            return true;
        }
        let found_in = match (room, &source.channel) {
            (Some(room), _) => Some(room),
            (None, Some(channel)) => self.rooms.get(channel),
            (None, None) => None,
        };
        match (found_in, source.from_seq, source.to_seq) {
            (Some(room), Some(from), Some(to)) => {
                let may_be = room.is_wordless(from, to) && !self.survey.is_of_others(save);
                may_be || room.is_found_in_theirs(&save.text, from, to)
            }
            _ => false,
        }
    }

    /// One of which nobody knows that it is of others: it goes for a word that only they said. One about something else that
    /// merely has a word of their name stays, without it.
    fn is_about_them(&self, subject: Option<&str>, text: &str) -> bool {
        match subject {
            Some(subject) => {
                self.survey.is_called(subject)
                    || self.scrub.names_them(subject)
                    || self.scrub.hits_surely(text)
            }
            None => self.scrub.is_about_them(text),
        }
    }

    /// Those of a run that are not saved yet.
    pub(super) fn keep_drafts(&self, room: &Room, from: Seq, to: Seq, drafts: &mut Vec<DraftMemory>) {
        drafts.retain(|draft| {
            let subject = draft.subject.as_deref();
            let about_them = match subject.is_some_and(|subject| self.survey.is_other(subject)) {
                true => self.survey.is_surely_about(&self.scrub, None, subject, &draft.text),
                false => self.is_about_them(subject, &draft.text),
            };
            let by_them = draft.by.as_ref().is_some_and(|by| self.survey.is_theirs(by));
            !by_them && !about_them && !room.is_found_in_theirs(&draft.text, from, to)
        });
        for draft in drafts {
            self.scrub.scrub(&mut draft.text);
            self.scrub.scrub_option(&mut draft.subject);
            draft.by.iter_mut().for_each(|by| self.mask.author(by, &self.scrub));
        }
    }

    /// Ids of memories that are still there.
    pub(super) fn keep_ids(&self, ids: &mut Vec<MemoryId>) {
        ids.retain(|id| !self.is_lost(id));
        ids.iter_mut().for_each(|id| *id = self.moved_to(id));
    }

    fn moved_to(&self, id: &MemoryId) -> MemoryId {
        self.moved.get(id).unwrap_or(id).clone()
    }

    fn is_lost(&self, id: &MemoryId) -> bool {
        self.forgotten.contains(id) && !self.kept.contains(id)
    }

    /// An event outside of any channel, or of one memory; `None`: it goes.
    pub(super) fn of_memories(&mut self, room: Option<&Room>, event: Event) -> Option<Event> {
        match event {
            Event::MemorySaved(save) => self.save(room, save).map(Event::MemorySaved),
            Event::MemoryEdited { id, mut text, kind, importance } => {
                if self.is_lost(&id) {
                    return None;
                }
                let of_others = self.of_others.contains(&id);
                let goes = |text: &String| match of_others {
                    true => self.scrub.names_surely(text),
                    false => self.scrub.hits_surely(text),
                };
                // The words of the edit go, and with them the memory.
                if text.as_ref().is_some_and(goes) {
                    self.figures.memories += 1;
                    self.cleaned.remove(&id);
                    return Some(Event::MemoryForgotten { id: self.moved_to(&id) });
                }
                if self.mention(|scrub| scrub.scrub_option(&mut text)) {
                    self.cleaned.insert(id.clone());
                }
                let id = self.moved_to(&id);
                Some(Event::MemoryEdited { id, text, kind, importance })
            }
            Event::MemoryForgotten { id } => {
                (!self.is_lost(&id)).then(|| Event::MemoryForgotten { id: self.moved_to(&id) })
            }
            event => Some(event),
        }
    }

    /// The channel's artifact is one whose file goes.
    pub(super) fn is_tainted(&self, channel: &ChannelId, id: &crate::ids::ArtifactId) -> bool {
        self.tainted.contains(&(channel.clone(), id.clone()))
    }
}
