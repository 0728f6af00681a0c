//! The records of summaries: `cairn summary`.

use cairn_core::compaction::LeftOut;
use cairn_types::event::{RunEnd, Trigger};
use cairn_types::ids::{ChannelId, RunId, Seq, SummaryId};
use cairn_types::summary::Summary;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A summary of a channel, current or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryLine {
    pub id: SummaryId,
    /// 0 for a summary of entries, one more than its sources for a merge.
    pub level: u32,
    pub from_seq: Seq,
    pub to_seq: Seq,
    pub from_at: Timestamp,
    pub to_at: Timestamp,
    /// Entries that it covers.
    pub messages: u64,
    /// Tokens in the window, as estimated.
    pub tokens: u32,
    /// The model that wrote it, or `digest`.
    pub made_by: String,
    pub made_at: Timestamp,
    /// No model could write it.
    pub provisional: bool,
    pub state: SummaryState,
}

/// Where a summary is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryState {
    /// It is in the window.
    Window,
    /// It was merged into that summary.
    Merged(SummaryId),
    /// That summary replaced it.
    Replaced(SummaryId),
    /// Its session is over.
    Archived,
}

/// A summary with its sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryView {
    pub channel: ChannelId,
    #[serde(flatten)]
    pub line: SummaryLine,
    pub text: String,
    /// Identifiers of its source, verbatim, which the model sees below the text.
    pub identifiers: Vec<String>,
    pub run: RunId,
    pub trigger: Trigger,
    pub duration_ms: u64,
    /// The summaries that were merged into it, oldest first.
    pub sources: Vec<SummaryLine>,
    /// Entries of its range whose text is still available.
    pub entries: u64,
    /// Entries of its range that were deleted or whose text has expired.
    pub wordless: u64,
    /// Exact details of those entries that it leaves out, in the order of the entries.
    pub left_out: Vec<LeftOutRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutRecord {
    /// `path`, `url`, `id`, `number`, `function`, `author`, `name`.
    pub kind: String,
    pub text: String,
    /// The entry that says it first.
    pub seq: Seq,
    /// How many entries say it.
    pub entries: u64,
}

impl LeftOutRecord {
    /// All details, in the order of the entries.
    pub fn all(found: LeftOut) -> Vec<Self> {
        let record = |((kind, text), (seq, entries))| Self { kind: str::to_owned(kind), text, seq, entries };
        let mut records: Vec<Self> = found.into_iter().map(record).collect();
        records.sort_by(|a, b| (a.seq, &a.kind, &a.text).cmp(&(b.seq, &b.kind, &b.text)));
        records
    }
}

/// The summaries of a channel, for lists. `ends`: the runs that made them, oldest first; `in_window`: whether a summary is in
/// the window.
pub fn lines(ends: &[(Timestamp, RunEnd)], in_window: impl Fn(&SummaryId) -> bool) -> Vec<SummaryLine> {
    let summaries: Vec<(Timestamp, &Summary)> =
        ends.iter().filter_map(|(at, end)| Some((*at, end.summary.as_ref()?))).collect();
    let lines = summaries.iter().enumerate().map(|(idx, (made_at, summary))| {
        let later = || summaries[idx + 1..].iter().map(|(_, later)| *later);
        let covers = |later: &&Summary| later.from_seq <= summary.from_seq && later.to_seq >= summary.to_seq;
        let state = if in_window(&summary.id) {
            SummaryState::Window
        } else if let Some(again) = later().filter(|later| later.level == summary.level).find(covers) {
            SummaryState::Replaced(again.id.clone())
        } else if let Some(merge) = later().filter(|later| later.level > summary.level).find(covers) {
            SummaryState::Merged(merge.id.clone())
        } else {
            SummaryState::Archived
        };
        SummaryLine {
            id: summary.id.clone(),
            level: summary.level,
            from_seq: summary.from_seq,
            to_seq: summary.to_seq,
            from_at: summary.from_at,
            to_at: summary.to_at,
            messages: summary.messages,
            tokens: summary.tokens,
            made_by: summary.made_by.clone(),
            made_at: *made_at,
            provisional: summary.provisional,
            state,
        }
    });
    lines.collect()
}
