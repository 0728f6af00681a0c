//! Messages that were edited or deleted after they were sent: what becomes of them, decided and folded.

use std::sync::Arc;

use jiff::Timestamp;

use super::Conversation;
use cairn_types::event::{Event, MessageEvent, Run};
use cairn_types::ids::{MessageId, Seq};
use cairn_types::message::{
    Amendment, Author, Change, Entry, Part, Pending, fingerprint, pending_tokens, text_of,
};

/// Characters of what a message said before that its correction quotes.
const BEFORE_MAX_CHARS: usize = 200;

/// What a change of a message leads to. `said`: the entries that the message and its corrections became, in order, from
/// the archive; those that are in the window may be left out.
///
/// While it is pending, an edit changes it in place; later, what it says now is accepted as a message of its own, at
/// the tail. `None`: it changes nothing, comes too late, or the message is not known, deleted, or archived.
pub fn amend(conversation: &Conversation, amendment: &Amendment, said: &[Arc<Entry>]) -> Option<Event> {
    match &amendment.change {
        Change::Edited { author, parts, addressed } => {
            edited(conversation, amendment, said, author, parts, *addressed)
        }
        Change::Deleted => deleted(conversation, &amendment.message, said),
        Change::Reacted { by, emoji, removed } => {
            conversation.reacted(&amendment.message, by, emoji, *removed)
        }
    }
}

fn edited(
    conversation: &Conversation,
    amendment: &Amendment,
    said: &[Arc<Entry>],
    author: &Author,
    parts: &[Part],
    addressed: bool,
) -> Option<Event> {
    let message = &amendment.message;
    if let Some(pending) = conversation.newest_pending(message) {
        if pending.is_deleted() || is_late(&pending.message, amendment) || pending.author.id != author.id {
            return None;
        }
        let mut now = pending.clone();
        let is_correction = pending.message != *message;
        now.addressed = addressed && !is_correction;
        now.parts = parts.to_vec();
        if is_correction {
            now.parts.splice(0..0, pending.parts.first().cloned());
        }
        if now.parts == pending.parts && now.addressed == pending.addressed {
            return None;
        }
        return Some(Event::Message(MessageEvent::Edited {
            message: pending.message.clone(),
            addressed: now.addressed,
            fingerprint: fingerprint(&pending.author, &now.parts),
            tokens: pending_tokens(&now),
            parts: now.parts,
        }));
    }
    let newest = conversation.newest_entry(message).or_else(|| said.last())?;
    // Whether words that have expired are other ones now, nobody can tell any more.
    let is_gone = newest.is_deleted() || newest.is_expired() || conversation.deleted.contains(&newest.seq);
    let is_archived = newest.seq < conversation.first_seq || conversation.is_undone(newest.seq);
    let id = newest.message.as_ref()?;
    let before = text_of(words(id, message, &newest.parts));
    // Some networks let anybody send an edit of anybody's message: nobody changes what another person said.
    let is_anothers = newest.author.as_ref().is_some_and(|known| known.id != author.id);
    if is_gone || is_archived || is_anothers || is_late(id, amendment) || before == text_of(parts) {
        return None;
    }
    let mut pending = Pending {
        message: message.correction(amendment.at),
        turn: conversation.next_turn(),
        at: amendment.at,
        author: author.clone(),
        parts: vec![Part::text(correction_note(&before))],
        addressed: false,
        direct: conversation.direct_with.as_ref() == Some(&author.id),
        chat_name: None,
        language: None,
        // Whoever wrote it besides its author wrote it still.
        provenance: newest.provenance.clone(),
        spoken: false,
        reminder: None,
        fingerprint: String::new(),
        tokens: 0,
    };
    pending.parts.extend_from_slice(parts);
    pending.fingerprint = fingerprint(author, &pending.parts);
    pending.tokens = pending_tokens(&pending);
    Some(Event::Message(MessageEvent::Accepted(pending)))
}

/// The words of a message without the note that leads a correction.
fn words<'a>(id: &MessageId, message: &MessageId, parts: &'a [Part]) -> &'a [Part] {
    if id == message { parts } else { parts.get(1..).unwrap_or_default() }
}

/// A newer edit has been taken in, or this one.
fn is_late(newest: &MessageId, amendment: &Amendment) -> bool {
    newest.corrected_at().is_some_and(|at| at >= amendment.at.as_millisecond())
}

fn correction_note(before: &str) -> String {
    let line = before.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut quote: String = line.chars().take(BEFORE_MAX_CHARS).collect();
    if quote.len() < line.len() {
        quote.push('…');
    }
    format!("(edited; it said before: \"{quote}\")")
}

fn deleted(conversation: &Conversation, message: &MessageId, said: &[Arc<Entry>]) -> Option<Event> {
    let of_message = |id: &MessageId| id.is_of(message);
    let mut waits = conversation.pending.iter().filter(|pending| of_message(&pending.message));
    let live = conversation.live.iter().filter(|entry| entry.message.as_ref().is_some_and(of_message));
    let mut seqs: Vec<Seq> = live
        .chain(said)
        .filter(|entry| !entry.is_deleted() && !conversation.deleted.contains(&entry.seq))
        .map(|entry| entry.seq)
        .collect();
    seqs.sort_unstable();
    seqs.dedup();
    let is_known = !seqs.is_empty() || waits.any(|pending| !pending.is_deleted());
    is_known.then(|| Event::Message(MessageEvent::Deleted { message: message.clone(), seqs }))
}

impl Conversation {
    /// What a message says by now, its latest correction counted, when it is pending or in the window. A deleted one
    /// says nothing.
    pub fn words_of(&self, message: &MessageId) -> Option<&[Part]> {
        if let Some(pending) = self.newest_pending(message) {
            return (!pending.is_deleted()).then(|| words(&pending.message, message, &pending.parts));
        }
        let entry = self.newest_entry(message)?;
        let is_deleted = entry.is_deleted() || self.deleted.contains(&entry.seq);
        let id = entry.message.as_ref()?;
        (!is_deleted).then(|| words(id, message, &entry.parts))
    }

    /// The open turn has nothing to answer any more: every message that it was to answer is deleted.
    pub fn is_withdrawn(&self) -> bool {
        let asked = self.open_turn.as_ref().map_or(&[][..], |open| &open.asked);
        !asked.is_empty() && asked.iter().all(|message| self.words_of(message).is_none())
    }

    /// The messages of people since a time that wait or are in the window, without corrections and deleted ones.
    pub fn standing_messages(&self, since: Timestamp) -> Vec<MessageId> {
        let waiting = self.pending.iter().filter(|pending| !pending.is_deleted() && pending.at >= since);
        let stands = |entry: &&Arc<Entry>| {
            entry.at >= since && !entry.is_deleted() && !self.deleted.contains(&entry.seq)
        };
        let said = self.live.iter().filter(stands).filter_map(|entry| entry.message.as_ref());
        let all = waiting.map(|pending| &pending.message).chain(said);
        all.filter(|message| !message.is_correction()).cloned().collect()
    }

    fn newest_pending(&self, message: &MessageId) -> Option<&Pending> {
        self.pending.iter().rev().find(|pending| pending.message.is_of(message))
    }

    fn newest_entry(&self, message: &MessageId) -> Option<&Arc<Entry>> {
        self.live.iter().rev().find(|entry| entry.message.as_ref().is_some_and(|id| id.is_of(message)))
    }

    /// Entries of a run's range as the run may read them: without turns that were undone, and without the words of
    /// deleted messages.
    pub fn readable(&self, run: &Run, entries: impl IntoIterator<Item = Arc<Entry>>) -> Vec<Arc<Entry>> {
        let in_range = |entry: &Arc<Entry>| (run.from_seq..=run.to_seq).contains(&entry.seq);
        let entries = entries.into_iter().filter(in_range).filter(|entry| !self.is_undone(entry.seq));
        entries.map(|entry| self.without_deleted(entry)).collect()
    }

    /// The entry, without its words when its message was deleted.
    pub fn without_deleted(&self, entry: Arc<Entry>) -> Arc<Entry> {
        if self.deleted.contains(&entry.seq) { Arc::new(entry.deleted()) } else { entry }
    }
}
