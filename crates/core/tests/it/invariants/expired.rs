//! Words that expire: whatever happens before and after, a conversation folds to the same without them.

use std::collections::BTreeMap;

use cairn_core::conversation::Conversation;
use cairn_core::retention::{InUse, WordsExpiry, expire};
use cairn_types::event::{Event, MessageEvent, Record, TurnEvent};
use cairn_types::ids::{MessageId, Seq};
use cairn_types::ports::OutboxItem;

use crate::invariants::sim::Sim;

/// The journal after the words were taken out of its first `at` records, at that time; how many lost theirs.
fn without_words(journal: &[Record], at: usize) -> (Vec<Record>, usize) {
    let channel = journal[0].channel.clone().unwrap();
    let mut conversation = Conversation::new(channel.clone());
    let mut items: Vec<OutboxItem> = Vec::new();
    let mut seqs: BTreeMap<MessageId, Seq> = BTreeMap::new();
    for record in &journal[..at] {
        conversation.apply(record).unwrap();
        match OutboxItem::intended(&channel, record) {
            Some(item) => items.push(item),
            None => items.retain_mut(|item| item.apply(record)),
        }
        if let Event::Turn(TurnEvent::Started { messages, first_seq, .. }) = &record.event {
            seqs.extend(messages.iter().cloned().zip((first_seq.0..).map(Seq)));
        }
    }
    let in_use = InUse::of(&conversation, items.iter());
    let mut n_expired = 0;
    let mut journal = journal.to_vec();
    for record in &mut journal[..at] {
        let seq = match &record.event {
            Event::Message(MessageEvent::Accepted(pending)) => seqs.get(&pending.message).copied(),
            Event::Message(MessageEvent::Edited { message, .. }) => seqs.get(message).copied(),
            _ => None,
        };
        let before = serde_json::to_string(&record.event).unwrap();
        let words = expire(&mut record.event, seq, &in_use);
        let after = serde_json::to_string(&record.event).unwrap();
        assert!(after.len() <= before.len(), "{after} is longer than {before}");
        assert_eq!(words == WordsExpiry::Expired, after != before, "{words:?}: {before}");
        n_expired += usize::from(words == WordsExpiry::Expired);
        assert_ne!(expire(&mut record.event, seq, &in_use), WordsExpiry::Expired, "twice: {after}");
    }
    (journal, n_expired)
}

/// Taken out at any time, words are missed by nothing that comes later.
pub(crate) fn check_expired(sim: &Sim, at: usize) {
    if sim.journal.is_empty() {
        return;
    }
    let (journal, _) = without_words(&sim.journal, at);
    let mut conversation = Conversation::new(sim.conversation.channel.clone());
    journal.iter().for_each(|record| conversation.apply(record).unwrap());
    assert_eq!(conversation, sim.conversation, "expired at {at} of {}", sim.journal.len());
}

#[test]
fn what_has_left_the_window_expires_and_what_it_shows_stays() {
    let mut sim = Sim::new(2_000);
    let long = "Anna's parrot Zorblax eats figs and nothing else ".repeat(8);
    for n in 0..12 {
        sim.turn(&format!("question {n}: {long}"), &format!("answer {n}"));
        while sim.watch().is_some() {
            sim.commit("They talked about a parrot.");
        }
    }
    sim.turn("the last question", "the last answer");
    let first_live = sim.conversation.live.front().unwrap().seq;
    assert!(first_live > Seq(1), "nothing was compacted");
    let (journal, n_expired) = without_words(&sim.journal, sim.journal.len());
    assert!(n_expired as u64 >= first_live.0 - 1, "{n_expired} of those before {first_live}");
    let text = serde_json::to_string(&journal).unwrap();
    assert!(!text.contains("question 0") && !text.contains("answer 0"), "{text}");
    for kept in ["the last question", "the last answer", "They talked about a parrot."] {
        assert!(text.contains(kept), "{kept}");
    }
}

#[test]
fn a_range_that_a_run_is_owed_keeps_its_words() {
    let mut sim = Sim::new(1_500);
    while !sim.conversation.stack.markers().any(|_| true) {
        sim.turn(&"a question about Zorblax ".repeat(20), "an answer");
        sim.accept("and now?");
        sim.start_turn();
        sim.emergency();
        sim.answer("yes");
    }
    let (journal, _) = without_words(&sim.journal, sim.journal.len());
    assert!(serde_json::to_string(&journal).unwrap().contains("Zorblax"));
    assert!(sim.watch().is_some(), "a run is owed");
    sim.commit("They talked about Zorblax.");
    let (journal, _) = without_words(&sim.journal, sim.journal.len());
    let said = |record: &&Record| matches!(record.event, Event::Message(MessageEvent::Accepted(_)));
    let first = serde_json::to_string(&journal.iter().find(said).unwrap()).unwrap();
    assert!(!first.contains("Zorblax"), "{first}");
}
