//! An erasure where words have expired before: what cannot be told apart any more errs towards the erased one, and
//! leaves the others as much as it can.

use super::*;
use crate::retention::{InUse, WordsExpiry, expire};

/// The words of all that has left the window are taken out.
fn expired(mut book: Book) -> Book {
    let conversation = folded(&book.records, GROUP);
    let in_use = InUse::of(&conversation, [].iter());
    let seqs: HashMap<MessageId, Seq> = book
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::Turn(TurnEvent::Started { messages, first_seq, .. }) => {
                Some((messages[0].clone(), *first_seq))
            }
            _ => None,
        })
        .collect();
    let mut n_expired = 0;
    for record in &mut book.records {
        let seq = match &record.event {
            Event::Message(MessageEvent::Accepted(pending)) => seqs.get(&pending.message).copied(),
            _ => None,
        };
        n_expired += u64::from(expire(&mut record.event, seq, &in_use) == WordsExpiry::Expired);
    }
    assert!(n_expired >= 4, "{n_expired}");
    book
}

fn talked(summary: &str, memories: Vec<MemorySave>) -> Book {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna"), "My number is 48601555, and Zorblax eats figs", "Noted.");
    book.turn(GROUP, (BEN, "Ben"), "The ferry leaves Gdynia at seven", "Noted.");
    book.run(GROUP, 1, 4, summary, memories);
    expired(book)
}

#[test]
fn a_summary_of_expired_words_keeps_what_speaks_of_others() {
    let summary =
        "Ben takes the ferry at seven. Anna keeps a parrot.\nCall 48601555 for it. The inn is full.";
    let (left, eraser) = talked(summary, Vec::new()).erase(ANNA);
    let after = folded(&left, GROUP);
    let summary = after.stack.summaries().next().unwrap();
    assert_eq!(summary.text, "Ben takes the ferry at seven.\nThe inn is full.");
    assert!(summary.identifiers.is_empty(), "{:?}", summary.identifiers);
    assert!(!summary.provisional, "a model could make nothing better of what is left");
    let figures = eraser.figures();
    assert_eq!((figures.entries, figures.expired, figures.summaries), (1, 1, 1));
    let all = text(&left);
    assert!(!all.contains("Anna") && !all.contains("48601555"), "{all}");
}

#[rstest]
#[case::of_nobody(None, "Zorblax eats figs", true)]
#[case::of_another(Some("Ben"), "The ferry leaves Gdynia at seven", false)]
fn of_memories_of_that_time_those_of_others_stay(
    #[case] subject: Option<&str>,
    #[case] words: &str,
    #[case] goes: bool,
) {
    let save = memory("chat:telegram/-100", subject, words, Some((1, 4)));
    let (left, eraser) = talked("Ben takes the ferry at seven.", vec![save]).erase(ANNA);
    assert_eq!((eraser.figures().memories, text(&left).contains(words)), (u64::from(goes), !goes));
}

#[test]
fn a_summary_that_has_expired_itself_stays_so() {
    let mut book = Book::new();
    book.turn(GROUP, (ANNA, "Anna"), "My number is 48601555", "Noted.");
    book.turn(GROUP, (BEN, "Ben"), "The ferry leaves Gdynia at seven", "Noted.");
    book.run(GROUP, 1, 4, "Ben takes the ferry.", Vec::new());
    book.add(Some(GROUP), Event::Turn(TurnEvent::SessionStarted { generation: Generation(2) }));
    let (left, _) = expired(book).erase(ANNA);
    let texts = left.iter().filter_map(|record| match &record.event {
        Event::Compaction(CompactionEvent::RunEnded(end)) => {
            end.summary.as_ref().map(|summary| summary.text.as_str())
        }
        _ => None,
    });
    assert_eq!(texts.collect::<Vec<_>>(), [""]);
}
