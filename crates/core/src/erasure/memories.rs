//! Memories: which of them go.

use super::Eraser;
use super::room::Room;
use crate::event::Event;
use crate::ids::MemoryId;
use crate::memory::{DraftMemory, MemorySave, Scope, mint_id};

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
        if self.mention(|mask| mask.text(&mut save.text) | mask.option(&mut save.subject)) {
            self.cleaned.insert(id.clone());
        }
        let channel = save.source.channel.clone();
        self.mask.sighting(&mut save.sighting, channel.as_ref());
        self.mask.scope(&mut save.scope);
        self.mask.source(&mut save.source);
        // The id derives from agent, scope and text.
        let renamed = mint_id(&save.fingerprint());
        if renamed != id {
            self.moved.insert(id, renamed);
        }
        Some(save)
    }

    /// It is in their scope, by them, about them, or of their private chat, or was found where they spoke. There a memory of
    /// somebody else stays, unless nobody else spoke.
    fn is_gone(&self, room: Option<&Room>, save: &MemorySave) -> bool {
        let of_others = self.survey.is_of_others(save);
        let subject = save.subject.as_deref();
        if self.survey.is_of_them(save)
            || self.is_about_them(subject, Some(&save.scope), &save.text, of_others)
        {
            return true;
        }
        let source = &save.source;
        if source.channel.as_ref().is_some_and(|channel| self.survey.is_private(channel)) {
            return true;
        }
        let found_in = room.or_else(|| self.rooms.get(source.channel.as_ref()?));
        match (found_in, source.from_seq, source.to_seq) {
            (Some(room), Some(from), Some(to)) => {
                room.is_theirs_alone(from, to) || (!of_others && room.is_touched(from, to))
            }
            _ => false,
        }
    }

    /// What they are called is its subject; somebody else who is called alike keeps their own. One without a subject that is
    /// nobody else's is about whom it names.
    fn is_about_them(
        &self,
        subject: Option<&str>,
        scope: Option<&Scope>,
        text: &str,
        of_others: bool,
    ) -> bool {
        match subject {
            Some(subject) if matches!(scope, Some(Scope::User { .. })) && self.survey.is_other(subject) => {
                false
            }
            Some(subject) => self.mask.is_called(subject) || (!of_others && self.mask.names(subject)),
            None => !of_others && self.mask.names(text),
        }
    }

    /// Those that a run found where they did not speak, and has not saved yet.
    pub(super) fn keep_drafts(&self, drafts: &mut Vec<DraftMemory>) {
        drafts.retain(|draft| {
            let subject = draft.subject.as_deref();
            let of_others =
                draft.by.is_some() || subject.is_some_and(|subject| self.survey.is_other(subject));
            !self.is_about_them(subject, None, &draft.text, of_others)
        });
        for draft in drafts {
            self.mask.text(&mut draft.text);
            self.mask.option(&mut draft.subject);
            draft.by.iter_mut().for_each(|by| self.mask.author(by));
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
                if self.mention(|mask| mask.option(&mut text)) {
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
}
