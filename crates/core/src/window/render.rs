//! How single things read in the window, and what they weigh.

use crate::message::{Entry, Pending};
use crate::summary::{Marker, Summary};

/// A person's name, made harmless: one line, no control or direction characters, no brackets or colon, 64
/// characters at most.
pub fn escape_name(name: &str) -> String {
    let _ = name;
    todo!()
}

/// Tokens of an entry as the window renders it, before correction.
pub fn entry_tokens(entry: &Entry) -> u32 {
    let _ = entry;
    todo!()
}

/// Tokens of a pending message as the window will render it, before correction.
pub fn pending_tokens(pending: &Pending) -> u32 {
    let _ = pending;
    todo!()
}

/// A summary as the window shows it: `[Compaction Summary]: …` with its range and dates.
pub fn summary_text(summary: &Summary) -> String {
    let _ = summary;
    todo!()
}

/// Tokens of a summary in the window, before correction.
pub fn summary_tokens(summary: &Summary) -> u32 {
    let _ = summary;
    todo!()
}

/// A marker as the window and `cairn context` show it: `[System: N older messages …]` and the digest.
pub fn marker_text(marker: &Marker) -> String {
    let _ = marker;
    todo!()
}

/// Tokens of a marker in the window, before correction.
pub fn marker_tokens(marker: &Marker) -> u32 {
    let _ = marker;
    todo!()
}
