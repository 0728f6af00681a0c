//! What unit tests are made of, here and in the crates above.

use std::sync::Arc;

use jiff::Timestamp;

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
    }
}
