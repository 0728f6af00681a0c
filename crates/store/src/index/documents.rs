//! What is written to the index: a document for each entry, each summary, each memory.
//!
//! What people say to each other is understood by what is said around it: an entry has words of its two neighbours on each side.
//! What a model says is long and stands for itself: it lends nothing and borrows nothing, nor does what one person alone says to it.

use std::collections::VecDeque;

use cairn_types::ids::{ChannelId, Seq};
use cairn_types::memory::Memory;
use cairn_types::message::{Entry, Role};
use cairn_types::summary::Summary;
use jiff::{SignedDuration, Timestamp};
use tantivy::schema::Value as _;

use super::schema::{
    Fields, Subject, date_words, entries_of, joined, places_of, seconds, summaries_of, topic_word,
};
use crate::views::topic::{Topic, words_of};

/// People's entries on each side, whatever a model said between them (`docs/design/figures.md`, "Search").
const NEIGHBOURS: usize = 2;

/// Entries further apart in time are no neighbours: a new sitting has begun.
const SITTING: SignedDuration = SignedDuration::from_hours(3);

/// Bytes of a text that are indexed, of a tool's result, and words that a neighbour lends: those that stand nearest.
const TEXT_BYTES: usize = 64 * 1024;
const TOOL_BYTES: usize = 4 * 1024;
const LENT_WORDS: usize = 30;

/// What no person said counts for this much of what a person said: of a model's long answers each has many words of a question.
const UNSAID_WEIGHT: f64 = 0.5;

/// The index has it with some neighbours, nobody knows which.
const UNKNOWN: usize = usize::MAX;

#[derive(Debug, Clone)]
struct Spoken {
    seq: Seq,
    at: Timestamp,
    author: String,
    words: String,
    asks: bool,
    /// Neighbours after it that the index has it with; none: the index does not have it.
    written_with: Option<usize>,
}

/// Whether an entry is indexed: it has words of its own, and they do not quote others.
fn is_spoken(entry: &Entry) -> bool {
    !entry.quotes && entry.role != Role::Tool && !entry.is_deleted() && !entry.is_expired()
}

/// The last entries of people in a channel, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    entries: VecDeque<Spoken>,
}

/// A document to be written: the one before it goes.
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) replaces: bool,
    pub(crate) doc: tantivy::TantivyDocument,
}

impl Write {
    /// Bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        self.doc.field_values().filter_map(|(_, value)| value.as_str()).map(str::len).sum()
    }
}

impl Recent {
    /// What was indexed before a restart.
    pub(crate) fn loaded(entries: &[std::sync::Arc<Entry>]) -> Self {
        let mut recent = Self::default();
        for entry in entries.iter().filter(|entry| is_of_person(entry)) {
            if let Some(spoken) = spoken(entry) {
                // Not known: rewritten when a neighbour comes.
                recent.entries.push_back(Spoken { written_with: Some(0), ..spoken });
            }
        }
        recent.trim();
        recent
    }

    /// Takes in the next entry. Returns the one that has all its neighbours now.
    pub(crate) fn push(&mut self, fields: &Fields, channel: &ChannelId, entry: &Entry) -> Option<Write> {
        if !is_of_person(entry) {
            return unsaid(fields, channel, entry);
        }
        self.entries.push_back(spoken(entry)?);
        let complete =
            self.entries.len().checked_sub(NEIGHBOURS + 1).and_then(|idx| self.write(fields, channel, idx));
        self.trim();
        complete
    }

    /// The youngest entries, which wait for neighbours still, with those that they have.
    pub(crate) fn rest(&mut self, fields: &Fields, channel: &ChannelId) -> Vec<Write> {
        let from = self.entries.len().saturating_sub(NEIGHBOURS);
        (from..self.entries.len()).filter_map(|idx| self.write(fields, channel, idx)).collect()
    }

    /// The neighbours of a number among the entries around it, as they are without the entry of that number.
    pub(crate) fn around(
        fields: &Fields,
        channel: &ChannelId,
        entries: &[std::sync::Arc<Entry>],
        seq: Seq,
    ) -> Vec<Write> {
        let mut recent = Self::default();
        for entry in entries.iter().filter(|entry| is_of_person(entry)) {
            recent
                .entries
                .extend(spoken(entry).map(|spoken| Spoken { written_with: Some(UNKNOWN), ..spoken }));
        }
        let middle = recent.entries.partition_point(|entry| entry.seq < seq);
        let to = (middle + NEIGHBOURS).min(recent.entries.len());
        let near = middle.saturating_sub(NEIGHBOURS)..to;
        near.filter_map(|idx| recent.write(fields, channel, idx)).collect()
    }

    fn write(&mut self, fields: &Fields, channel: &ChannelId, idx: usize) -> Option<Write> {
        let after = (self.entries.len() - 1 - idx).min(NEIGHBOURS);
        let written_with = self.entries[idx].written_with;
        if written_with == Some(after) {
            return None;
        }
        self.entries[idx].written_with = Some(after);
        let (lent, entry) = (self.lent(idx, after), &self.entries[idx]);
        let subject = Subject::Entry(channel.clone(), entry.seq);
        let mut doc = document(fields, &subject, &[entries_of(channel)], entry.at, 1.0);
        doc.add_text(fields.near, joined(lent.chain(date_words(entry.at).iter().map(String::as_str))));
        doc.add_text(fields.own, &entry.words);
        doc.add_text(fields.author, &entry.author);
        doc.add_bool(fields.asks, entry.asks);
        if after == NEIGHBOURS {
            // It is written for good: from here on it only lends words to what comes after it.
            let words = &mut self.entries[idx].words;
            let n_words = words.lines().count();
            *words = joined(words.lines().skip(n_words.saturating_sub(LENT_WORDS)));
        }
        Some(Write { key: subject.key(), replaces: written_with.is_some(), doc })
    }

    /// The nearest words of the neighbours; none where nobody else spoke near it.
    fn lent(&self, idx: usize, after: usize) -> impl Iterator<Item = &str> {
        let entry = &self.entries[idx];
        let is_near = |other: &usize| entry.at.duration_since(self.entries[*other].at).abs() <= SITTING;
        let near: Vec<usize> = (idx.saturating_sub(NEIGHBOURS)..=idx + after)
            .filter(|other| *other != idx)
            .filter(is_near)
            .collect();
        let is_talk = near.iter().any(|other| self.entries[*other].author != entry.author);
        near.into_iter().filter(move |_| is_talk).flat_map(move |other| {
            let words = self.entries[other].words.lines();
            let skipped = if other < idx { words.clone().count().saturating_sub(LENT_WORDS) } else { 0 };
            words.skip(skipped).take(LENT_WORDS)
        })
    }

    /// About how many bytes of memory they take.
    pub(crate) fn bytes(&self) -> usize {
        let entry = |entry: &Spoken| size_of::<Spoken>() + entry.words.capacity();
        size_of::<Self>() + self.entries.iter().map(entry).sum::<usize>()
    }

    fn trim(&mut self) {
        while self.entries.len() > 2 * NEIGHBOURS + 1 {
            self.entries.pop_front();
        }
    }
}

fn is_of_person(entry: &Entry) -> bool {
    entry.role == Role::User && is_spoken(entry)
}

fn spoken(entry: &Entry) -> Option<Spoken> {
    let text = entry.text();
    let words = words_in(head(&text, TEXT_BYTES));
    let author = entry.author.as_ref().map(|author| author.name.clone()).unwrap_or_default();
    let asks = text.trim_end().ends_with(['?', '？', '؟']);
    let spoken = Spoken { seq: entry.seq, at: entry.at, author, words, asks, written_with: None };
    (!spoken.words.is_empty()).then_some(spoken)
}

fn words_in(text: &str) -> String {
    joined(words_of(text).iter().map(String::as_str))
}

/// What a model says, and a tool's result by its beginning.
fn unsaid(fields: &Fields, channel: &ChannelId, entry: &Entry) -> Option<Write> {
    let (field, most) = match entry.role {
        Role::Tool if !entry.is_expired() => (fields.near, TOOL_BYTES),
        Role::Assistant if is_spoken(entry) => (fields.own, TEXT_BYTES),
        _ => return None,
    };
    let words = words_in(head(&entry.text(), most));
    if words.is_empty() {
        return None;
    }
    let subject = Subject::Entry(channel.clone(), entry.seq);
    let mut doc = document(fields, &subject, &[entries_of(channel)], entry.at, UNSAID_WEIGHT);
    if entry.role == Role::Assistant {
        doc.add_text(fields.near, joined(date_words(entry.at).iter().map(String::as_str)));
    }
    doc.add_text(field, words);
    Some(Write { key: subject.key(), replaces: false, doc })
}

/// The beginning of a text, at most that many bytes, cut at a character.
fn head(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn document(
    fields: &Fields,
    subject: &Subject,
    places: &[String],
    at: Timestamp,
    weight: f64,
) -> tantivy::TantivyDocument {
    let mut doc = tantivy::TantivyDocument::new();
    doc.add_text(fields.key, subject.key());
    places.iter().for_each(|place| doc.add_text(fields.place, place));
    doc.add_u64(fields.at, seconds(at));
    doc.add_f64(fields.weight, weight);
    doc
}

/// A summary's document, with the date that its range begins on.
pub(crate) fn of_summary(fields: &Fields, channel: &ChannelId, summary: &Summary) -> Write {
    let subject = Subject::Summary(channel.clone(), summary.id.clone());
    let mut doc = document(fields, &subject, &[summaries_of(channel)], summary.from_at, 1.0);
    let mut words = words_of(&summary.text);
    words.extend(date_words(summary.from_at));
    doc.add_text(fields.near, joined(words.iter().map(String::as_str)));
    Write { key: subject.key(), replaces: false, doc }
}

pub(crate) fn of_memory(fields: &Fields, memory: &Memory) -> Write {
    let subject = Subject::Memory(memory.id.clone());
    let (topic, places) = (Topic::of(memory), places_of(memory));
    let mut doc = document(fields, &subject, &places, memory.created_at, topic.weight);
    let within: Vec<String> =
        places.iter().flat_map(|place| topic.counted().map(|word| topic_word(place, word))).collect();
    for (field, words) in [(fields.near, &topic.near), (fields.own, &topic.own), (fields.topic, &within)] {
        doc.add_text(field, joined(words.iter().map(String::as_str)));
    }
    Write { key: subject.key(), replaces: true, doc }
}
