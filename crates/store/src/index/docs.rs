//! Documents of summaries and memories.

use cairn_core::ids::ChannelId;
use cairn_core::memory::Memory;
use cairn_core::summary::Summary;

use super::recent::{Write, document};
use super::schema::{Fields, Subject, date_words, memories_of, summaries_of, tokens, words_of};

/// A summary's document, with the date that its range begins on.
pub(crate) fn of_summary(fields: &Fields, channel: &ChannelId, summary: &Summary) -> Write {
    let subject = Subject::Summary(channel.clone(), summary.id.clone());
    let mut doc = document(fields, &subject, &summaries_of(channel), summary.from_at);
    let mut words = words_of(&summary.text);
    words.extend(date_words(summary.from_at));
    doc.add_pre_tokenized_text(fields.near, tokens(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    Write { key: subject.key(), replaces: false, doc }
}

/// A memory's document, with whom or what it is about.
pub(crate) fn of_memory(fields: &Fields, memory: &Memory) -> Write {
    let subject = Subject::Memory(memory.id.clone());
    let place = memories_of(&memory.agent, &memory.scope);
    let mut doc = document(fields, &subject, &place, memory.created_at);
    let own = words_of(&memory.text);
    let about = words_of(memory.subject.as_deref().unwrap_or_default());
    let date = date_words(memory.created_at);
    let near: Vec<&str> = about.iter().chain(&date).map(String::as_str).collect();
    doc.add_pre_tokenized_text(fields.near, tokens(&near));
    doc.add_pre_tokenized_text(fields.own, tokens(&own.iter().map(String::as_str).collect::<Vec<_>>()));
    Write { key: subject.key(), replaces: true, doc }
}
