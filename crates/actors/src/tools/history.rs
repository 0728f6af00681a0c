//! `history_search` and `history_read`.

use cairn_core::ids::Seq;
use cairn_core::message::{Entry, Role};
use cairn_core::ports::{HitKind, Query};
use cairn_core::window::{escape_name, short_time};
use serde_json::Value;

use super::call::Found;
use super::{HITS_MAX, Toolbox, text_argument};

/// Most entries that one `history_read` returns.
const READ_MAX: usize = 50;

/// A page of `history_read` ends with the entry that brings it over so many bytes.
const PAGE_BYTES: usize = 200_000;

/// An index that lacks more records of the journal is being made, not just a little behind.
const UNINDEXED_MAX: u64 = 1_000;

/// What a search in such an index says.
const INCOMPLETE: &str = "\n(incomplete: the search index is being made; search again later)";

/// Longest excerpt of a hit, in characters.
const HIT_MAX_CHARS: usize = 1_500;

impl Toolbox {
    pub(super) async fn history_search(&self, arguments: &Value) -> Result<Found, String> {
        let query = Query {
            channel: self.handle.id.clone(),
            text: text_argument(arguments, "query")?,
            kind: None,
            scopes: Vec::new(),
            limit: HITS_MAX,
            settled: false,
        };
        let hits = self.shared.deps.store.search(query).await.map_err(|error| error.to_string())?;
        let lines: Vec<String> = hits
            .iter()
            .filter(|hit| hit.kind != HitKind::Memory)
            .map(|hit| {
                let number = hit.seq.map_or_else(|| "summary".to_owned(), |seq| format!("#{seq}"));
                let who = hit.author.as_ref().map_or_else(String::new, |author| escape_name(&author.name));
                format!("[{number} | {} | {who}] {}", short_time(hit.at), shorten(&hit.text, HIT_MAX_CHARS))
            })
            .collect();
        let is_incomplete = self.shared.deps.store.unindexed() > UNINDEXED_MAX;
        let note = if is_incomplete { INCOMPLETE } else { "" };
        if lines.is_empty() {
            return Ok(Found::own(format!("nothing found{note}")));
        }
        // A hit quotes its neighbours, too.
        let provenance = self.handle.read(|conversation| conversation.heard.clone());
        Ok(Found { text: lines.join("\n") + note, provenance, events: Vec::new() })
    }

    /// Word for word: what is too large for the window is the result guard's.
    pub(super) async fn history_read(&self, arguments: &Value) -> Result<Found, String> {
        let number = |name: &str| {
            let value = arguments.get(name).and_then(Value::as_u64);
            value.ok_or_else(|| format!("`{name}` is missing or not a message number"))
        };
        let (from, to) = (Seq(number("from")?), Seq(number("to")?));
        if from > to {
            return Err(format!("`from` = {from} is after `to` = {to}"));
        }
        let entries = self.shared.deps.store.entries(&self.handle.id, from, to, READ_MAX).await;
        let entries = entries.map_err(|error| error.to_string())?;
        let mut page: Vec<String> = Vec::new();
        let mut bytes = 0;
        for entry in &entries {
            let line = line(entry);
            bytes += line.len();
            page.push(line);
            if bytes > PAGE_BYTES {
                break;
            }
        }
        let Some(last) = page.len().checked_sub(1).and_then(|idx| entries.get(idx)) else {
            return Ok(Found::own("no messages with these numbers".to_owned()));
        };
        let newest = self.handle.read(|conversation| Seq(conversation.next_seq.0.saturating_sub(1)));
        if last.seq < to.min(newest) {
            page.push(format!("[there are more: call history_read from {} on]", last.seq.next()));
        }
        // The model's own words may repeat anybody's.
        let provenance = self.handle.read(|conversation| conversation.heard.clone());
        Ok(Found { text: page.join("\n"), provenance, events: Vec::new() })
    }
}

fn line(entry: &Entry) -> String {
    let who = match entry.role {
        Role::User => entry.author.as_ref().map_or_else(String::new, |author| escape_name(&author.name)),
        Role::Assistant => "assistant".to_owned(),
        Role::Tool => "tool".to_owned(),
    };
    format!("[#{} | {} | {who}] {}", entry.seq, short_time(entry.at), entry.text())
}

fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{} […]", &text[..end]),
        None => text.to_owned(),
    }
}
