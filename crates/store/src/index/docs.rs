//! Documents of summaries and memories.

use cairn_core::ids::ChannelId;
use cairn_core::memory::Memory;
use cairn_core::summary::Summary;

use super::recent::{Write, document};
use super::schema::{Fields, Subject, date_words, places_of, summaries_of, tokens, words_of};

/// An important memory counts for up to this much more, and each further sighting for a little.
const IMPORTANCE_BOOST: f64 = 0.3;
const SIGHTING_BOOST: f64 = 0.1;

/// Divides the weight, so that a memory of middling importance counts as much as an entry.
const MIDDLING: f64 = 1.0 + IMPORTANCE_BOOST / 2.0;

/// A summary's document, with the date that its range begins on.
pub(crate) fn of_summary(fields: &Fields, channel: &ChannelId, summary: &Summary) -> Write {
    let subject = Subject::Summary(channel.clone(), summary.id.clone());
    let mut doc = document(fields, &subject, &[summaries_of(channel)], summary.from_at, 1.0);
    let mut words = words_of(&summary.text);
    words.extend(date_words(summary.from_at));
    doc.add_pre_tokenized_text(fields.near, tokens(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    Write { key: subject.key(), replaces: false, doc }
}

/// A memory's document, with whom or what it is about. Not with its date: a number in a question would find all of a day.
pub(crate) fn of_memory(fields: &Fields, memory: &Memory) -> Write {
    let subject = Subject::Memory(memory.id.clone());
    let further = f64::from(memory.sightings.max(1)).ln();
    let boost = 1.0 + IMPORTANCE_BOOST * memory.importance + SIGHTING_BOOST * further;
    let weight = boost * memory.weight() / MIDDLING;
    let mut doc = document(fields, &subject, &places_of(memory), memory.created_at, weight);
    let own = words_of(&memory.text);
    // What is said in the first person is found by the name of whoever says it.
    let speaker = memory.said_by().filter(|_| memory.is_of_speaker()).unwrap_or_default();
    let near = words_of(&format!("{}\n{speaker}", memory.subject.as_deref().unwrap_or_default()));
    doc.add_pre_tokenized_text(fields.near, tokens(&near.iter().map(String::as_str).collect::<Vec<_>>()));
    doc.add_pre_tokenized_text(fields.own, tokens(&own.iter().map(String::as_str).collect::<Vec<_>>()));
    Write { key: subject.key(), replaces: true, doc }
}
