//! A conversation: the fold of its channel's journal events, live and at replay alike.
//!
//! Invariant (coverage): every `seq` below [`Conversation::next_seq`] is in exactly one place: archived with its
//! generation or by `/undo` ([`Conversation::undone`]), under an item of [`Conversation::stack`], or in
//! [`Conversation::live`] (sealed when the run under way covers it); ranges are in order, and contiguous but for the
//! turns that were undone. An item of the stack may span such a turn, and does not stand for it.

mod amend;
mod apply;
mod outline;
mod reactions;
mod snapshot;
mod undo;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::prune::as_sent;
use crate::usage_watch::UsageWatch;
use cairn_types::event::{PrunedResult, Run, RunReport, RunRequest, RunWork};
use cairn_types::ids::{
    ArtifactId, ChannelId, Generation, MemoryId, MessageId, OutboxId, ReminderId, Seq, SeqRange, SummaryId,
    TurnId,
};
use cairn_types::memory::Quote;
use cairn_types::message::{Artifact, Entry, Pending, Provenance, Role};
use cairn_types::model::Usage;
use cairn_types::reminder::Reminder;
use cairn_types::summary::{MarkerKind, Stack, StackItem};
use cairn_types::tokens::Correction;
use cairn_types::tool::approval::Approval;
use cairn_types::window_bounds::WindowBounds;

pub use amend::amend;
pub use apply::FoldError;
pub use outline::Outline;
pub use reactions::{OwnMessage, Reaction};
pub use undo::{UndoError, Undone, undo};

/// How many ends of runs are kept for `cairn context`.
pub const OUTCOMES_KEPT: usize = 20;

/// Unclean stops in a row, with no turn finished in between, after which an open turn is given up (`docs/design/models.md`).
pub const MAX_INTERRUPTIONS: u32 = 3;

/// A message that is older than this when it is answered was told after the fact.
const TOLD_LATER: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenTurn {
    pub id: TurnId,
    pub first_seq: Seq,
    pub messages: Vec<MessageId>,
    pub addressed: bool,
    /// Those of its messages that are to be answered.
    #[serde(default)]
    pub asked: Vec<MessageId>,
    /// Unclean stops in a row that found it open.
    pub interruptions: u32,
    /// The newest message of it that is to be answered.
    #[serde(default)]
    pub reply_to: Option<MessageId>,
    /// The draft of its answer that the chat shows.
    #[serde(default)]
    pub draft: Option<AnswerDraft>,
    /// Notes about it that were handed to the outbox.
    #[serde(default)]
    pub notes: Vec<OutboxId>,
    /// Calls of it that wait for a yes.
    #[serde(default)]
    pub approvals: Vec<Approval>,
    /// The messages by which the chat was asked, by their deliveries: the last part of each that is there.
    #[serde(default)]
    pub questions: BTreeMap<OutboxId, Option<MessageId>>,
    /// What its calls of models took so far.
    #[serde(default)]
    pub usage: Usage,
    /// The model that was called last, by its id in the configuration.
    #[serde(default)]
    pub model: Option<String>,
    /// When its first answered call was made: the time that its requests go on showing where an answer is bound to them.
    #[serde(default)]
    pub clock: Option<Timestamp>,
    /// Reactions to the bot's messages that its requests show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<Reaction>,
}

impl OpenTurn {
    /// The request for a yes that a message in the chat shows, if it still waits.
    pub fn asked_by(&self, message: &MessageId) -> Option<&Approval> {
        let (question, _) = self.questions.iter().find(|(_, shown)| shown.as_ref() == Some(message))?;
        let id = question.as_str().rsplit(':').next()?;
        self.approvals.iter().find(|approval| approval.id.as_str() == id)
    }
}

/// The draft of an answer on its way to the chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerDraft {
    pub id: OutboxId,
    /// When it was first attempted, if it was and nothing is known of it since.
    pub attempted_at: Option<Timestamp>,
    /// Its id on the platform, once it is there.
    pub message: Option<MessageId>,
}

/// What left view without a summary, and has none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    pub at: Timestamp,
    pub to_seq: Seq,
    pub told: bool,
}

/// What the provider reported of the last model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// The model, by its id in the configuration.
    pub model: String,
    /// What we had estimated, before correction.
    pub estimated: u64,
    pub usage: Usage,
    /// When: from here on its cache grows cold.
    #[serde(default)]
    pub at: Timestamp,
}

/// What a model's server said of it that the configuration does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learnt {
    /// Its window in tokens.
    pub window_tokens: Option<u64>,
    /// What the configuration or the server's list said of the window then. With another size it is asked again; none in
    /// journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_of: Option<u64>,
    pub no_tools: bool,
    /// The server has not named that window: it is bounded by what was taken and refused.
    #[serde(default)]
    pub inferred: bool,
    /// The server cuts requests that are larger than its window, and does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Learnt {
    /// The window that was learnt, where what is otherwise known of it is what was known then.
    pub fn window(&self, known_tokens: u64) -> Option<u64> {
        self.window_tokens.filter(|_| self.window_of.is_none_or(|of| of == known_tokens))
    }
}

/// Tokens that runs took within a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// When the last of them did.
    pub at: Timestamp,
    /// Tokens of request and answer.
    pub tokens: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryPlace {
    Summary(SummaryId),
    Marker,
    /// Sealed for the run under way, still in the window.
    Sealed,
    Live,
    /// Of an older generation, or of a turn that was undone.
    Archived,
}

impl std::fmt::Display for EntryPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Summary(id) => write!(f, "summary:{id}"),
            Self::Marker => f.write_str("marker"),
            Self::Sealed => f.write_str("sealed"),
            Self::Live => f.write_str("live"),
            Self::Archived => f.write_str("archived"),
        }
    }
}

/// For how long the tokens of runs are counted.
const SPENT_FOR: SignedDuration = SignedDuration::from_hours(1);

/// It counts at that time. What lies ahead is of a clock that was set back since: nobody knows how long ago it was.
fn is_recent(spent: &Spent, now: Timestamp) -> bool {
    spent.at <= now && now.duration_since(spent.at) < SPENT_FOR
}

/// The state of a channel. Changed by [`Conversation::apply`] alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    pub channel: ChannelId,
    /// Number of the last journal record folded in; 0 before the first.
    pub last_n: u64,
    /// When that record was journalled.
    pub last_at: Timestamp,
    /// The generation under way.
    pub generation: Generation,
    /// The number that the next entry gets.
    pub next_seq: Seq,
    /// First number of the generation under way.
    pub first_seq: Seq,
    /// Messages ever accepted; the next turn's ordinal derives from it.
    pub accepted: u64,
    /// Runs ever started; the next run's ordinal derives from it.
    pub runs: u64,
    #[serde(default)]
    pub emergencies: u64,
    /// What the newest emergency took out of view, while no summary stands for it.
    #[serde(default)]
    pub lost: Option<Lost>,
    /// When the chat was last told that something was lost from view, or that a run failed for good.
    #[serde(default)]
    pub noticed_at: Option<Timestamp>,
    /// Summaries and markers, oldest first; together with `live` they cover the generation.
    pub stack: Stack,
    /// Sealed and live entries, oldest first, without a gap but for turns that were undone.
    pub live: VecDeque<Arc<Entry>>,
    /// Turns of this generation that `/undo` archived, oldest first.
    #[serde(default)]
    pub undone: Vec<Undone>,
    /// Entries whose messages were deleted since the stack last changed, or that a run under way may have read. The window
    /// has none of their words.
    #[serde(default)]
    pub deleted: BTreeSet<Seq>,
    /// Number of the last record that deleted a message; 0: none. A request that was assembled before it may have its words.
    #[serde(default)]
    pub deleted_n: u64,
    /// Accepted, not yet in a turn, first in first out.
    pub pending: VecDeque<Pending>,
    pub open_turn: Option<OpenTurn>,
    pub run: Option<Run>,
    /// Runs that wait for it, first in first out.
    pub queued_runs: VecDeque<RunRequest>,
    /// The last ends of runs, oldest first.
    pub outcomes: VecDeque<RunReport>,
    /// Failures of runs since the last commit, for back-off: their number, and when the last was.
    pub failures: Failures,
    /// Failures of runs that can be deferred: merges, and what is provisional.
    #[serde(default)]
    pub deferred_failures: Failures,
    /// Running correction of estimates, by model.
    pub corrections: BTreeMap<String, Correction>,
    /// What the provider reported last.
    pub reported: Option<Reported>,
    /// The model that answers here, by its id in the configuration; none: the first of the chain that can.
    #[serde(default)]
    pub model: Option<String>,
    /// Why it does, when it is not the first.
    #[serde(default)]
    pub model_reason: Option<String>,
    /// The model that answered last, and how many turns in a row.
    #[serde(default)]
    pub answered_by: Option<AnsweredBy>,
    /// What was learnt of models, by their ids in the configuration.
    #[serde(default)]
    pub learnt: BTreeMap<String, Learnt>,
    /// What the servers of models have taken and refused, by the models' ids in the configuration.
    #[serde(default)]
    pub bounds: BTreeMap<String, WindowBounds>,
    /// What the reports of models' servers say of them, by the models' ids in the configuration.
    #[serde(default)]
    pub usage_watches: BTreeMap<String, UsageWatch>,
    /// What is left out of requests since a model's server refuses it, by the models' ids in the configuration.
    #[serde(default)]
    pub withheld: BTreeMap<String, SeqRange>,
    /// Entries in `live` whose messages a model's server refused: they are left out of all requests.
    #[serde(default)]
    pub refused: BTreeSet<Seq>,
    /// Results in `live` that are sent shorter than they are kept.
    #[serde(default)]
    pub pruned: BTreeMap<Seq, PrunedResult>,
    /// Artifacts that entries in `live` refer to, and those of the open turn. The store has all of them.
    #[serde(default)]
    pub artifacts: BTreeMap<ArtifactId, Artifact>,
    /// The number in the id of the newest artifact, of all generations; 0: there was none.
    #[serde(default)]
    pub newest_artifact: u64,
    /// It has, or had, recordings, whose ids have no such number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_recordings: bool,
    /// Tokens that runs took within the last hour.
    #[serde(default)]
    pub spent: VecDeque<Spent>,
    /// Sum of all usage reported in this channel.
    pub usage_total: Usage,
    /// Memories that were in the window of the last turn.
    pub recalled: Vec<MemoryId>,
    /// Their tokens in that window, with those of the clock and of `quotes`, before correction.
    pub recalled_tokens: u32,
    /// Entries that were quoted at the end of the window of the last turn, without those that were deleted since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<Quote>,
    /// The bot's newest messages in the chat that show answers, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub own: VecDeque<OwnMessage>,
    /// Reactions to them that no turn has shown the model yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reactions: Vec<Reaction>,
    pub owed: Vec<OutboxId>,
    /// Deliveries that did not succeed and were not given up: an operator may have them tried again.
    #[serde(default)]
    pub undelivered: Vec<OutboxId>,
    /// What people see as the name of the chat: a private one has the person's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The language of the place, where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The person whom this private chat is with, `PLATFORM/USER`; none in a group.
    #[serde(default)]
    pub direct_with: Option<String>,
    /// What the program through which a person talks wants of the agent. It stands behind the agent's own prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_system: Option<ClientSystem>,
    /// Whose text has left `live` in this generation: it stands behind summaries and markers.
    #[serde(default)]
    pub left: Provenance,
    /// Who was ever heard here, in all generations.
    #[serde(default)]
    pub heard: Provenance,
    /// Approvals ever asked for; the next one's id derives from it.
    #[serde(default)]
    pub approvals: u64,
    /// Reminders that are to fire, by their ids. They belong to the channel: `/new` keeps them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reminders: BTreeMap<ReminderId, Reminder>,
    /// The highest number that a reminder got as its id.
    #[serde(default)]
    pub newest_reminder: u64,
}

/// The system message of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSystem {
    /// The person whose client sent it, `PLATFORM/USER`.
    pub by: String,
    /// Empty: it has expired.
    pub text: Arc<str>,
    /// Estimated tokens, before correction.
    pub tokens: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredBy {
    /// Its id in the configuration.
    pub model: String,
    /// Turns that it has answered since another model did.
    pub turns: u32,
}

/// Runs that ended without a commit since the last one that had one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    pub n: u32,
    pub last_at: Option<Timestamp>,
}

impl Conversation {
    pub fn new(channel: ChannelId) -> Self {
        Self {
            channel,
            last_n: 0,
            last_at: Timestamp::UNIX_EPOCH,
            generation: Generation::default(),
            next_seq: Seq(1),
            first_seq: Seq(1),
            accepted: 0,
            runs: 0,
            emergencies: 0,
            lost: None,
            noticed_at: None,
            stack: Stack::default(),
            live: VecDeque::new(),
            undone: Vec::new(),
            deleted: BTreeSet::new(),
            deleted_n: 0,
            pending: VecDeque::new(),
            open_turn: None,
            client_system: None,
            run: None,
            queued_runs: VecDeque::new(),
            outcomes: VecDeque::new(),
            failures: Failures::default(),
            deferred_failures: Failures::default(),
            corrections: BTreeMap::new(),
            reported: None,
            model: None,
            model_reason: None,
            answered_by: None,
            learnt: BTreeMap::new(),
            bounds: BTreeMap::new(),
            usage_watches: BTreeMap::new(),
            withheld: BTreeMap::new(),
            refused: BTreeSet::new(),
            pruned: BTreeMap::new(),
            artifacts: BTreeMap::new(),
            newest_artifact: 0,
            has_recordings: false,
            spent: VecDeque::new(),
            usage_total: Usage::default(),
            recalled: Vec::new(),
            recalled_tokens: 0,
            quotes: Vec::new(),
            own: VecDeque::new(),
            reactions: Vec::new(),
            owed: Vec::new(),
            undelivered: Vec::new(),
            name: None,
            language: None,
            direct_with: None,
            left: Provenance::default(),
            heard: Provenance::default(),
            approvals: 0,
            reminders: BTreeMap::new(),
            newest_reminder: 0,
        }
    }

    /// The id of the turn that the next accepted message would begin.
    pub fn next_turn(&self) -> TurnId {
        TurnId::from(format!("t{}", self.accepted + 1))
    }

    /// The range that is sealed for the run under way and still in the window.
    pub fn sealed_range(&self) -> Option<(Seq, Seq)> {
        let run = self.run.as_ref().filter(|run| matches!(run.work, RunWork::Sealed))?;
        let first = self.live.front()?.seq;
        (run.to_seq >= first).then_some((first, run.to_seq))
    }

    /// Number of entries at the front of `live` that are sealed.
    pub fn n_sealed(&self) -> usize {
        match self.sealed_range() {
            Some((_, to)) => self.live.partition_point(|entry| entry.seq <= to),
            None => 0,
        }
    }

    /// A range has been taken out of the window that no model has summarised yet.
    pub fn owes_run(&self) -> bool {
        self.stack.markers().any(|marker| marker.kind == MarkerKind::Truncated)
            || self.stack.summaries().any(|summary| summary.provisional)
    }

    /// Something is pending, open, under way, queued or owed: the channel may not fall asleep for good.
    pub fn is_unfinished(&self) -> bool {
        !self.pending.is_empty()
            || self.open_turn.is_some()
            || self.run.is_some()
            || !self.queued_runs.is_empty()
            || !self.owed.is_empty()
            || self.owes_run()
    }

    /// When an entry that answers the open turn was said: now, unless the turn answers a message that is told after
    /// the fact (a replayed history), whose own time its answer shares, so that the order of time stays whole.
    pub fn answer_time(&self, now: Timestamp) -> Timestamp {
        let Some(open) = &self.open_turn else { return now };
        let asked = self.live.iter().rev().take_while(|entry| entry.turn == open.id);
        let newest = asked.filter(|entry| entry.role == Role::User).map(|entry| entry.at).max();
        newest.filter(|at| now.duration_since(*at) > TOLD_LATER).unwrap_or(now)
    }

    /// The correction of estimates for a model; neutral when nothing was reported yet.
    pub fn correction(&self, model: &str) -> Correction {
        self.corrections.get(model).copied().unwrap_or_default()
    }

    /// The estimate of a model was corrected while the configuration set another window than it does now (`set_window`; 0:
    /// nothing). Journals of earlier versions do not say what it set: there a correction downward may be a mistake.
    pub fn measured_otherwise(&self, model: &str, set_window: u64) -> bool {
        match self.usage_watches.get(model) {
            Some(watch) => watch.set_window() != set_window,
            None => self.corrections.get(model).is_some_and(|correction| correction.ratio < 1.0),
        }
    }

    /// Where the entry of that number is; `None` when there is none.
    pub fn place(&self, seq: Seq) -> Option<EntryPlace> {
        if seq < Seq(1) || seq >= self.next_seq {
            return None;
        }
        if seq < self.first_seq || self.is_undone(seq) {
            return Some(EntryPlace::Archived);
        }
        if let Some(item) = self.stack.item_at(seq) {
            return Some(match item {
                StackItem::Summary(summary) => EntryPlace::Summary(summary.id.clone()),
                StackItem::Marker(_) => EntryPlace::Marker,
            });
        }
        let sealed = self.sealed_range().is_some_and(|(from, to)| (from..=to).contains(&seq));
        Some(if sealed { EntryPlace::Sealed } else { EntryPlace::Live })
    }

    /// Estimated tokens of a live entry as it is sent, before correction.
    pub fn weight(&self, entry: &Entry) -> u64 {
        u64::from(self.pruned.get(&entry.seq).map_or(entry.tokens, |pruned| pruned.tokens))
    }

    pub fn sent(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        if self.refused.contains(&entry.seq) {
            return Arc::new(entry.refused());
        }
        match self.pruned.get(&entry.seq) {
            Some(pruned) => Arc::new(as_sent(entry, pruned)),
            None => Arc::clone(entry),
        }
    }

    /// The artifact that holds the whole of a message of which the model saw head and tail.
    pub fn artifact_of(&self, message: Seq) -> Option<&Artifact> {
        self.artifacts.values().find(|artifact| artifact.message == Some(message))
    }

    /// Tokens that runs took within the hour before `now`.
    pub fn spent_within_hour(&self, now: Timestamp) -> u64 {
        self.spent
            .iter()
            .filter(|spent| is_recent(spent, now))
            .map(|spent| spent.tokens)
            .fold(0, u64::saturating_add)
    }

    /// When the tokens that runs took within the last hour will have fallen below `most`, if no more are taken; `None`
    /// when they are below it already.
    pub fn spent_below(&self, most: u64, now: Timestamp) -> Option<Timestamp> {
        let mut left = self.spent_within_hour(now);
        let recent = self.spent.iter().filter(|spent| is_recent(spent, now));
        let mut frees = None;
        for spent in recent {
            if left < most {
                break;
            }
            left = left.saturating_sub(spent.tokens);
            frees = spent.at.checked_add(SPENT_FOR).ok();
        }
        frees
    }

    /// The outbox ids of what a chat is told beside answers begin so.
    pub(crate) fn notice_prefix(&self) -> String {
        format!("{}:notice:", self.channel)
    }

    /// The outbox id of the note about messages that left view, up to that one.
    pub(crate) fn lost_id(&self, to_seq: Seq) -> OutboxId {
        OutboxId::from(format!("{}lost:{to_seq}", self.notice_prefix()))
    }

    /// Folds in that the chat is told something beside answers.
    fn fold_notice(&mut self, id: &OutboxId, at: Timestamp) {
        if !id.as_str().starts_with(&self.notice_prefix()) {
            return;
        }
        self.noticed_at = Some(at);
        if let Some(lost) = self.lost
            && *id == self.lost_id(lost.to_seq)
        {
            self.lost = Some(Lost { told: true, ..lost });
        }
    }

    /// Nothing is lost from view any more when no range is without its summary.
    fn fold_find(&mut self) {
        if !self.stack.markers().any(|marker| marker.kind == MarkerKind::Truncated) {
            self.lost = None;
        }
    }
}
