//! How every entry of a channel is kept, from the first to the last.

use std::collections::BTreeSet;

use cairn_core::conversation::{Conversation, EntryPlace};
use cairn_types::ids::Seq;

/// Consecutive entries in the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub place: EntryPlace,
}

impl Stretch {
    pub fn entries(&self) -> u64 {
        self.to_seq.0 + 1 - self.from_seq.0
    }
}

/// The places of all entries of a conversation, in order and without gaps.
pub fn coverage(conversation: &Conversation) -> Vec<Stretch> {
    let end = conversation.next_seq;
    let items = conversation.stack.items().iter().map(|item| item.range());
    let undone = conversation.undone.iter().map(|undone| (undone.from_seq, undone.to_seq));
    let ranges = items.chain(undone).chain(conversation.sealed_range());
    // Entries whose place may differ from that of the entry before.
    let mut begins: BTreeSet<Seq> = ranges.flat_map(|(from, to)| [from, to.next()]).collect();
    begins.extend([Seq(1), conversation.first_seq]);
    let begins: Vec<Seq> = begins.into_iter().filter(|seq| *seq < end).collect();
    let ends = begins.iter().skip(1).chain([&end]).map(|next| Seq(next.0 - 1));
    let mut stretches: Vec<Stretch> = Vec::new();
    for (from_seq, to_seq) in begins.iter().copied().zip(ends) {
        let Some(place) = conversation.place(from_seq) else { continue };
        match stretches.last_mut() {
            Some(last) if last.place == place => last.to_seq = to_seq,
            _ => stretches.push(Stretch { from_seq, to_seq, place }),
        }
    }
    stretches
}
