//! Summaries, markers and the stack that they form in the window.

mod stack;

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{Seq, SummaryId};
use crate::text::escape::{escape_text, short_date};
use crate::tokens::estimate;
use crate::tool::defs::ToolDef;

pub use stack::Stack;

/// Text that replaces a range of entries. Immutable once committed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub id: SummaryId,
    /// 0 for a summary of entries, one more than its sources for a merge.
    pub level: u32,
    pub from_seq: Seq,
    pub to_seq: Seq,
    /// When the first of them was said.
    pub from_at: Timestamp,
    pub to_at: Timestamp,
    pub messages: u64,
    /// Estimated tokens as the window renders it, before correction.
    pub tokens: u32,
    /// The model that wrote it, or `digest`.
    pub made_by: String,
    pub text: String,
    /// Identifiers of its source, verbatim, in their order; shown below the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identifiers: Vec<String>,
    /// It was extracted because no model could write it. A run over its entries is due, which will replace it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub provisional: bool,
}

impl Summary {
    /// The summary over what is left of its range, with its tokens estimated again. Only provisional summaries are narrowed:
    /// until the due run replaces them, their text covers more than their range.
    fn narrowed(&self, from_seq: Seq, to_seq: Seq) -> Self {
        let messages = to_seq.0 + 1 - from_seq.0;
        let mut rest = Self { from_seq, to_seq, messages, ..self.clone() };
        rest.tokens = summary_tokens(&rest);
        rest
    }

    /// The line of identifiers below the text, if there are any.
    pub fn identifier_line(&self) -> Option<String> {
        // Nothing in it can start a new line.
        let whole = self.identifiers.join(", ").replace(['\n', '\r'], " ");
        (!whole.is_empty()).then(|| format!("Exact identifiers: {whole}"))
    }
}

/// `made_by` of a summary that was made by extraction, without a model.
pub const MADE_BY_DIGEST: &str = "digest";

/// One line of a digest, with the entry that it quotes: so that a marker can be narrowed without the entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestLine {
    pub seq: Seq,
    pub text: String,
}

/// Digest lines as the text of a summary: one line each, with author and date where the day changes.
pub fn digest_text(lines: &[DigestLine]) -> String {
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    texts.join("\n")
}

/// Why a range left the window without a summary in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkerKind {
    /// Dropped by an emergency: a run over the range is due.
    Truncated,
    /// Dropped by an engine without summaries, or, in old journals, by a stack over its share. Still searchable.
    Retired,
}

/// Replaces in the window a range that left it without a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    pub kind: MarkerKind,
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub messages: u64,
    /// Extract of those entries, in their order; empty for a retired range.
    pub digest: Vec<DigestLine>,
    /// Estimated tokens as the window renders it, before correction.
    pub tokens: u32,
}

impl Marker {
    /// A marker over a range, with its tokens as the window renders it.
    pub fn new(kind: MarkerKind, from_seq: Seq, to_seq: Seq, digest: Vec<DigestLine>) -> Self {
        let messages = to_seq.0 + 1 - from_seq.0;
        let mut marker = Self { kind, from_seq, to_seq, messages, digest, tokens: 0 };
        marker.tokens = marker_tokens(&marker);
        marker
    }

    /// The marker with another count of messages, and its tokens estimated again.
    pub fn counting(&self, messages: u64) -> Self {
        let mut marker = Self { messages, ..self.clone() };
        marker.tokens = marker_tokens(&marker);
        marker
    }

    /// The marker over a smaller range.
    fn narrowed(&self, from_seq: Seq, to_seq: Seq) -> Self {
        let inside = |line: &&DigestLine| (from_seq..=to_seq).contains(&line.seq);
        let digest = self.digest.iter().filter(inside).cloned().collect();
        Self::new(self.kind, from_seq, to_seq, digest)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StackItem {
    Summary(Summary),
    Marker(Marker),
}

impl From<Summary> for StackItem {
    fn from(summary: Summary) -> Self {
        Self::Summary(summary)
    }
}

impl From<Marker> for StackItem {
    fn from(marker: Marker) -> Self {
        Self::Marker(marker)
    }
}

impl StackItem {
    /// First and last entry that it covers.
    pub fn range(&self) -> (Seq, Seq) {
        match self {
            Self::Summary(summary) => (summary.from_seq, summary.to_seq),
            Self::Marker(marker) => (marker.from_seq, marker.to_seq),
        }
    }

    /// Estimated tokens in the window, before correction.
    pub fn tokens(&self) -> u32 {
        match self {
            Self::Summary(summary) => summary.tokens,
            Self::Marker(marker) => marker.tokens,
        }
    }

    pub fn messages(&self) -> u64 {
        match self {
            Self::Summary(summary) => summary.messages,
            Self::Marker(marker) => marker.messages,
        }
    }

    /// The item over a smaller range; `None` for a summary that is not provisional, which cannot be narrowed.
    pub(crate) fn narrowed(&self, from_seq: Seq, to_seq: Seq) -> Option<Self> {
        match self {
            Self::Summary(summary) if summary.provisional => Some(summary.narrowed(from_seq, to_seq).into()),
            Self::Summary(_) => None,
            Self::Marker(marker) => Some(marker.narrowed(from_seq, to_seq).into()),
        }
    }
}

/// The tools by which an agent looks up what has left the window. Texts of the stack name no tool that it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupTools {
    /// `history_read`: message by message.
    pub reads: bool,
    /// `history_search`: by words.
    pub searches: bool,
}

impl LookupTools {
    pub fn of(tools: &[ToolDef]) -> Self {
        let has = |name: &str| tools.iter().any(|tool| tool.name == name);
        Self { reads: has("history_read"), searches: has("history_search") }
    }

    /// All tools. Tokens of the stack's items are estimated with these, so that no estimate is too small.
    pub const ALL: Self = Self { reads: true, searches: true };
}

/// A summary as the window shows it: `[Compaction Summary]: …` with its range, the number of its messages and its dates, and
/// below it the text. How to read summaries is said once, before the stack.
pub fn summary_text(summary: &Summary) -> String {
    let Summary { from_seq, to_seq, messages, .. } = summary;
    let (from, to) = (short_date(summary.from_at), short_date(summary.to_at));
    let days = if from == to { from } else { format!("{from} to {to}") };
    let plural = if *messages == 1 { "" } else { "s" };
    let mut text =
        format!("[Compaction Summary]: messages {from_seq} to {to_seq} ({messages} message{plural}), {days}");
    text.push('\n');
    text.push_str(&escape_text(&summary.text));
    if let Some(identifiers) = summary.identifier_line() {
        let _ = write!(text, "\n{identifiers}");
    }
    text
}

/// Tokens of a summary in the window, before correction.
pub fn summary_tokens(summary: &Summary) -> u32 {
    estimate(&summary_text(summary)) + 1
}

/// A marker as the window and `cairn context` show it: `[System: N older messages …]` and the digest.
pub fn marker_text(marker: &Marker, lookup: LookupTools) -> String {
    let n = marker.messages;
    match marker.kind {
        MarkerKind::Truncated => {
            let mut text = format!("[System: {n} older messages were truncated due to context limits]");
            if !marker.digest.is_empty() {
                let digest = digest_text(&marker.digest);
                let _ = write!(text, "\n{}", escape_text(&digest));
            }
            text
        }
        MarkerKind::Retired if lookup.searches => {
            format!("[System: {n} older messages have left the window; history_search finds them]")
        }
        MarkerKind::Retired => format!("[System: {n} older messages have left the window]"),
    }
}

/// Tokens of a marker in the window, before correction.
pub fn marker_tokens(marker: &Marker) -> u32 {
    estimate(&marker_text(marker, LookupTools::ALL)) + 1
}
