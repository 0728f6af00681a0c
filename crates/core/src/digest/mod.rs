//! The digest: a summary without a model, by greedy IDF coverage.
//!
//! Short texts are taken whole, longer ones by sentences: one by one, always the one that adds most of what is rare and not yet
//! covered for its size. Names, numbers, decisions, promises and corrections weigh more; what was put right later and questions
//! that were answered are left out.

mod cover;
mod weigh;

use std::borrow::Cow;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::silence;
use cairn_types::message::{Entry, Role};
use cairn_types::summary::DigestLine;
pub use cairn_types::summary::digest_text as render;
use cairn_types::text::escape::cut_middle;
use cairn_types::text::sentences::sentences;
use cairn_types::tokens::{Correction, estimate};
use cover::{SourceLine, cover};

/// Longest text that is taken as a whole, in bytes; longer ones are taken by sentences. Where texts of 400 bytes were taken whole,
/// a fact amid small talk cost as much room as all of it (`docs/design/figures.md`, "Digests").
const WHOLE_MAX: usize = 120;

/// Longest sentence that is taken as a whole, in bytes: longer ones are cut between words.
const PIECE_MAX: usize = 400;

/// How the model is called in a digest.
const ASSISTANT: &str = "assistant";

/// Extracts the lines of the entries that cover most, up to `budget_tokens` as [`render`] gives them, in their
/// order. Tool results are left out, replies that only quote, and deleted messages.
///
/// A line begins with its author's name, the first one of a day with `[2026-11-02]` before that.
pub fn digest(entries: &[Arc<Entry>], budget_tokens: u32) -> Vec<DigestLine> {
    let said: Vec<(&Entry, String)> = read(entries).map(|entry| (&**entry, entry.text())).collect();
    let sources: Vec<SourceLine<'_>> = said
        .iter()
        .map(|(entry, text)| SourceLine {
            day: Some(entry.at.to_zoned_datetime(TimeZone::UTC).date()),
            speaker: Some(speaker(entry)),
            pieces: pieces(text),
        })
        .collect();
    cover(&sources, budget_tokens)
        .into_iter()
        .map(|(idx, text)| DigestLine { seq: said[idx].0.seq, text })
        .collect()
}

/// Tokens that the digest of what leaves the window gets in any case, so that no range is without a word.
pub(crate) const FLOOR: u64 = 24;

/// Tokens of the line of a marker with a digest.
pub(crate) const MARKER_TOKENS: u64 = 24;

/// One part of the usable window in so many may go to the digest of what leaves it.
const WINDOW_PART: u64 = 20;

/// One part of what it reads in so many is a digest: there evidence and answers were measured (`docs/design/figures.md`, "Digests").
const SOURCE_PART: u64 = 5;

/// Most tokens, before correction, of the digest of what leaves a window of so many usable tokens.
pub(crate) fn most_tokens(usable: u64, correction: &Correction) -> u64 {
    correction.undo(usable / WINDOW_PART)
}

/// Tokens of the digest of so many, `most` at the most.
pub(crate) fn budget(read_tokens: u64, most: u64) -> u64 {
    (read_tokens / SOURCE_PART).min(most)
}

/// The digest of some entries, or else the gist of them.
pub(crate) fn quoted(entries: &[Arc<Entry>], budget: u32) -> Vec<DigestLine> {
    let mut lines = digest(entries, budget);
    if let (true, Some(last)) = (lines.is_empty(), entries.last()) {
        let none = || DigestLine {
            seq: last.seq,
            text: format!("{} messages without words of people", entries.len()),
        };
        lines.push(gist(entries, budget.max(FLOOR as u32)).unwrap_or_else(none));
    }
    lines
}

/// The entries that a digest reads: not those by which the agent said nothing.
fn read(entries: &[Arc<Entry>]) -> impl Iterator<Item = &Arc<Entry>> {
    let is_read = |entry: &Entry| entry.role != Role::Tool && !entry.quotes && !entry.is_deleted();
    entries.iter().filter(move |entry| is_read(entry) && !silence::is_silent(entry))
}

/// Estimated tokens of what a digest reads, of which its budget is a share: large results must not buy room for words.
pub fn read_tokens(entries: &[Arc<Entry>]) -> u64 {
    read(entries).map(|entry| u64::from(entry.tokens)).sum()
}

/// What is left to say where no line fits the budget: the newest words of a person, cut in their middle. `None` when
/// nobody said a word.
pub fn gist(entries: &[Arc<Entry>], budget_tokens: u32) -> Option<DigestLine> {
    let is_said = |entry: &&Arc<Entry>| {
        entry.role == Role::User && !entry.is_deleted() && entry.text().chars().any(char::is_alphanumeric)
    };
    let newest = entries.iter().rev().find(is_said)?;
    let text = newest.text().split_whitespace().collect::<Vec<_>>().join(" ");
    let budget = budget_tokens.max(GIST_MIN);
    let mut share = f64::from(budget) / f64::from(estimate(&text).max(1));
    loop {
        let cut = cut_middle(&text, share).split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("{}: {cut}", speaker(newest));
        // The name and the note in the middle take some, too. A name that is longer than that is no reason for no word.
        if estimate(&line) <= budget || share * (text.len() as f64) < GIST_LEAST_BYTES {
            return Some(DigestLine { seq: newest.seq, text: line });
        }
        share = share.min(1.0) * 0.85;
    }
}

/// Fewest tokens of a gist.
const GIST_MIN: u32 = 16;

/// Fewest bytes of the message that a gist has.
const GIST_LEAST_BYTES: f64 = 16.0;

/// Merges texts of summaries without a model: extracts from their lines up to `budget_tokens`, in their order.
pub fn digest_texts(texts: &[&str], budget_tokens: u32) -> String {
    let mut lines = Vec::new();
    for text in texts {
        let mut day = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (dated, rest) = split_day(line);
            day = dated.or(day);
            let (speaker, rest) = split_speaker(rest);
            lines.push(SourceLine { day, speaker: speaker.map(Cow::from), pieces: pieces(rest) });
        }
    }
    let texts: Vec<String> = cover(&lines, budget_tokens).into_iter().map(|(_, text)| text).collect();
    texts.join("\n")
}

/// How much each of some lines tells for its size: rare words, names and numbers.
pub fn informative(lines: &[&str]) -> Vec<f64> {
    let said: Vec<weigh::Said<'_>> = lines.iter().map(|text| weigh::Said { text, speaker: None }).collect();
    let (weighed, _) = weigh::weigh(&said);
    let worth = |(line, weighed): (&&str, &weigh::Weighed)| {
        let words: f64 = weighed.words.iter().map(|word| word.1).sum();
        words * weighed.factor / f64::from(estimate(line).max(1)).sqrt()
    };
    lines.iter().zip(&weighed).map(worth).collect()
}

fn speaker(entry: &Entry) -> Cow<'_, str> {
    match &entry.author {
        _ if entry.role == Role::Assistant => ASSISTANT.into(),
        Some(author) if author.name.trim().is_empty() => one_line(&author.id),
        Some(author) => one_line(&author.name),
        None => "somebody".into(),
    }
}

/// A name on one line: nobody gets a line of their own by a line break in their name.
fn one_line(name: &str) -> Cow<'_, str> {
    if name.contains(|c: char| c.is_whitespace() && c != ' ') {
        name.split_whitespace().collect::<Vec<_>>().join(" ").into()
    } else {
        name.trim().into()
    }
}

/// The text itself if it is short, else its sentences, long ones cut between words.
fn pieces(text: &str) -> Vec<&str> {
    let text = text.trim();
    if !text.is_empty() && text.len() <= WHOLE_MAX && !text.contains('\n') {
        return vec![text];
    }
    let mut pieces = Vec::new();
    for mut sentence in sentences(text) {
        while sentence.len() > PIECE_MAX {
            let limit = sentence.floor_char_boundary(PIECE_MAX);
            let cut = sentence[..limit].rfind(char::is_whitespace).filter(|cut| *cut > 0).unwrap_or(limit);
            let (piece, rest) = sentence.split_at(cut);
            pieces.push(piece.trim_end());
            sentence = rest.trim_start();
        }
        if !sentence.is_empty() {
            pieces.push(sentence);
        }
    }
    pieces
}

/// How a day is written before the first line of it.
fn day_mark(day: Date) -> String {
    format!("[{day}] ")
}

fn split_day(line: &str) -> (Option<Date>, &str) {
    let dated = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match dated.and_then(|(day, rest)| Some((day.parse().ok()?, rest))) {
        Some((day, rest)) => (Some(day), rest),
        None => (None, line),
    }
}

/// Splits `Anna: Hello` when what stands before the colon can be a name.
fn split_speaker(line: &str) -> (Option<&str>, &str) {
    match line.split_once(": ") {
        Some((name, rest)) if name.chars().count() <= 40 && !name.contains(['.', '?', '!']) => {
            (Some(name), rest)
        }
        _ => (None, line),
    }
}

#[cfg(test)]
mod tests;
