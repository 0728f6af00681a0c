//! An event of each kind, each of whose texts names the person once, or is theirs.

use cairn_types::testing::{every_event, is_in_texts, kept_from_visitors, with_each_text};

use serde_json::Value;

use super::*;

/// A group that is called like Anna.
const NAMESAKE: &str = "main/telegram/5550123/9";

/// Each kind of event, in that group, by that person.
fn events(person: &str) -> Vec<Value> {
    let text = Value::from(every_event()).to_string();
    let text = text.replace("main/telegram/-100", NAMESAKE).replace(BEN, person);
    serde_json::from_str(&text).unwrap()
}

/// Anna and Ben talk in a group that is called like her; she also started a turn there, which is that of the events.
fn book(her_turn: bool) -> Book {
    let mut book = Book::new();
    book.accept(NAMESAKE, BEN, "Ben", "hello");
    book.accept(NAMESAKE, ANNA, "Anna Kowalska", "hi");
    let (id, name) = if her_turn { (ANNA, "Anna Kowalska") } else { (BEN, "Ben") };
    book.turns = 6;
    let messages = vec![book.accept(NAMESAKE, id, name, "hello there")];
    let started = TurnEvent::Started { turn: "t7".into(), messages, first_seq: Seq(2) };
    book.add(Some(NAMESAKE), Event::Turn(started));
    let (id, turn) = (format!("{NAMESAKE}:9").as_str().into(), "t7".into());
    let (note, reply_to, edits, approval, draft) = (None, None, None, None, false);
    let intended = DeliveryEvent::Intended {
        id,
        turn,
        seq: Seq(8),
        note,
        reply_to,
        edits,
        approval,
        draft,
        files: Vec::new(),
    };
    book.add(Some(NAMESAKE), Event::Delivery(intended));
    book
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// What is left of an event behind these records when Anna is erased; none: nothing is.
fn left(mut book: Book, event: Event) -> Option<String> {
    let n = book.records.len() as u64 + 1;
    book.add(Some(NAMESAKE), event);
    let (left, _) = book.erase(ANNA);
    left.iter().find(|record| record.n == n).map(json)
}

/// The text in a shape that can stand in the place of another, with her name or her id in it.
fn naming(text: &str) -> String {
    match text {
        // Ids of memories are hashes.
        "m0" | "m1" => text.to_owned(),
        _ if text.starts_with(NAMESAKE) => text.to_owned(),
        _ if text.starts_with("telegram/") => ANNA.to_owned(),
        _ if text.starts_with("user:") || text.starts_with("chat:") => format!("user:{ANNA}"),
        _ if text.parse::<i64>().is_ok() => "5550123".to_owned(),
        _ => format!("as Anna Kowalska ({ANNA}) said"),
    }
}

#[test]
fn nothing_names_them_but_what_no_visitor_gets() {
    let kept = kept_from_visitors();
    let events = events(BEN);
    let mut n_left = 0;
    // Hashes are computed again where they are of something else.
    for (path, event) in with_each_text(&events, naming).filter(|(path, _)| !path.ends_with("/fingerprint")) {
        let before = json(&event);
        let Some(left) = left(book(false), event) else { continue };
        n_left += 1;
        let names = left.contains("Kowalska") || left.contains("5550123");
        assert_eq!(names, kept.contains(&path), "{path}: {before} became {left}");
    }
    assert!(n_left > 150, "{n_left}");
}

/// Texts of a channel that may be of others, and reasons that are of no turn of theirs.
const STAY: [&str; 6] = [
    "memory_edited/text",
    "run_attempt_failed/reason",
    "run_ended/reason",
    "run_queued/request/instruction",
    "run_started/run/failure",
    "run_started/run/instruction",
];

#[test]
fn no_text_of_their_turn_is_left() {
    let events = events(ANNA);
    let is_id = |text: &str| text.contains("telegram/");
    let canary = |text: &str| if is_id(text) { text.to_owned() } else { "quokka".to_owned() };
    let (mut n_texts, mut stay) = (0, BTreeSet::new());
    for (path, event) in with_each_text(&events, canary) {
        if is_in_texts(&event, "quokka") {
            n_texts += 1;
            stay.extend(left(book(true), event).filter(|left| left.contains("quokka")).map(|_| path));
        }
    }
    assert!(n_texts > 50, "{n_texts}");
    assert_eq!(Vec::from_iter(stay), STAY);
}
