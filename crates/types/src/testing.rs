//! What unit tests are made of, here and in the crates above.

pub mod hostile;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::event::Event;
use crate::event::visit::{Kind, Visit};
use crate::ids::{Generation, Seq};
use crate::memory::{Memory, MemoryKind, Source};
use crate::message::{Author, Entry, Part, Role};

pub fn author(id: &str, name: &str) -> Author {
    Author { id: id.to_owned(), name: name.to_owned() }
}

/// An entry of one part, by Ann where it is a person's.
pub fn entry(role: Role, text: &str) -> Entry {
    let at = "2026-02-02T02:40:00Z".parse().unwrap();
    let mut entry = Entry::new(Seq(1), &"t1".into(), Generation(1), at, role);
    entry.author = (role == Role::User).then(|| author("local/ann", "Ann"));
    entry.parts = vec![Part::text(text)];
    entry.tokens = crate::message::entry_tokens(&entry);
    entry
}

/// What people say, and after `bot: ` the model.
pub fn said(texts: &[&str]) -> Vec<Arc<Entry>> {
    let of = |text: &&str| match text.strip_prefix("bot: ") {
        Some(text) => Arc::new(entry(Role::Assistant, text)),
        None => Arc::new(entry(Role::User, text)),
    };
    texts.iter().map(of).collect()
}

pub fn memory(scope: &str, text: &str) -> Memory {
    Memory {
        id: "m1".into(),
        agent: "main".into(),
        scope: scope.parse().unwrap(),
        kind: MemoryKind::Fact,
        text: text.to_owned(),
        subject: None,
        importance: 0.5,
        sightings: 1,
        source: source(None, "gpt"),
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        recalled_at: None,
        uses: 0,
        superseded_by: None,
        until: None,
    }
}

pub fn source(channel: Option<&str>, model: &str) -> Source {
    Source {
        channel: channel.map(|channel| channel.parse().unwrap()),
        from_seq: None,
        to_seq: None,
        summary: None,
        model: model.to_owned(),
        by: None,
        said_at: None,
        told_by: None,
    }
}

/// An event of each kind, as JSON, with all that it can have.
pub fn every_event() -> Vec<Value> {
    include_str!("event/visit/every.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// These events once for each text in them, which is replaced by what `with` makes of it; each with the name of that text, such
/// as `ban_set/reason`. Texts that only have a few values, such as times, are left out.
pub fn with_each_text<'a>(
    events: &'a [Value],
    with: impl Fn(&str) -> String + 'a,
) -> impl Iterator<Item = (String, Event)> + 'a {
    events.iter().flat_map(move |event| {
        let mut found = Vec::new();
        pointers(event, "", &mut found);
        let changed = found.iter().filter_map(|pointer| {
            let mut event = event.clone();
            let text = event.pointer_mut(pointer)?;
            *text = with(text.as_str()?).into();
            Some((path(&event, pointer), serde_json::from_value(event).ok()?))
        });
        changed.collect::<Vec<_>>()
    })
}

fn path(event: &Value, pointer: &str) -> String {
    let fields = pointer.split('/').skip(1).filter(|field| field.parse::<usize>().is_err());
    std::iter::once(event["type"].as_str().unwrap()).chain(fields).collect::<Vec<_>>().join("/")
}

fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) if at != "/type" => found.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| pointers(item, &format!("{at}/{n}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, field)| pointers(field, &format!("{at}/{key}"), found));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The texts that no visitor of events gets, as [`with_each_text`] names them.
pub fn kept_from_visitors() -> BTreeSet<String> {
    include_str!("event/visit/kept.txt").lines().map(ToOwned::to_owned).collect()
}

/// Whether all that an event has of `part` is in texts and arguments, not in ids.
pub fn is_in_texts(event: &Event, part: &str) -> bool {
    struct TakeTexts;
    impl Visit for TakeTexts {
        const MEASURES: bool = false;

        fn words(&mut self, words: &mut String, _: Kind) -> bool {
            words.clear();
            true
        }

        fn json(&mut self, value: &mut Value) -> bool {
            *value = Value::Null;
            true
        }
    }
    let mut without = event.clone();
    without.visit_mut(&mut TakeTexts);
    let has = |event| serde_json::to_string(event).unwrap().contains(part);
    has(event) && !has(&without)
}
