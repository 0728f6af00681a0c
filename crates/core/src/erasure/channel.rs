//! A channel while its events are rewritten: which parts are the person's, and what its summaries are rebuilt from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::mask::Mask;
use super::survey::quotes_lines;
use super::{NOTHING_LEFT, is_picture};
use crate::compaction::identifiers;
use crate::digest::{digest, digest_texts, render};
use cairn_types::event::{Run, RunEnd, RunWork};
use cairn_types::ids::{ArtifactId, Generation, MessageId, OutboxId, RunId, Seq, SummaryId, TurnId};
use cairn_types::message::{Entry, Part, Pending, Role};
use cairn_types::summary::{MADE_BY_DIGEST, Summary, summary_tokens};
use cairn_types::text::sentences::sentences;

/// Fewest tokens that a summary is made again within.
const LEAST_TOKENS: u32 = 64;

/// One part in so many of a summary's tokens that its identifiers may take.
const IDENTIFIERS_SHARE: u32 = 8;

/// A message that no turn has taken up yet.
#[derive(Debug)]
struct PendingMessage {
    pending: Pending,
    is_theirs: bool,
    /// It quotes or forwards them.
    quotes_them: bool,
}

/// What is known of a channel at a place of the journal.
#[derive(Debug, Default)]
pub(super) struct ChannelErasure {
    pending: HashMap<MessageId, PendingMessage>,
    pub(super) open: Option<TurnId>,
    theirs: HashSet<TurnId>,
    erased: BTreeSet<Seq>,
    /// Messages of others that quoted or forwarded them: of these something is gone.
    quoting: BTreeSet<Seq>,
    /// Messages of others, and those of them whose words have expired.
    others: BTreeSet<Seq>,
    expired: BTreeSet<Seq>,
    /// Deliveries of their turns that are owed.
    pub(super) owed: BTreeMap<OutboxId, TurnId>,
    pub(super) run: Option<Run>,
    /// The run whose summary was made again last: a note that reports it quotes what it was.
    pub(super) remade: Option<RunId>,
    /// Artifacts that go and whose records say that they stay.
    pub(super) gone: Vec<ArtifactId>,
    /// The next result is a page of an artifact of theirs.
    pub(super) reads_theirs: bool,
    /// Nothing in it is theirs: its words are not kept, since no summary of it is made again.
    is_of_others_alone: bool,
    /// Entries as rewritten that no summary stands for yet, without pictures.
    entries: Vec<Arc<Entry>>,
    undone: Vec<(Seq, Seq)>,
    deleted: BTreeSet<Seq>,
    /// The summaries of this generation, as rewritten.
    summaries: HashMap<SummaryId, Summary>,
    generation: Generation,
}

impl ChannelErasure {
    /// `took_part`: something in the channel may be theirs.
    pub(super) fn new(took_part: bool) -> Self {
        Self { is_of_others_alone: !took_part, ..Self::default() }
    }

    /// Something in the channel may be theirs: what its summaries are made of is kept.
    pub(super) fn keeps_words(&self) -> bool {
        !self.is_of_others_alone
    }

    /// Nothing in it is theirs, and no message waits: what comes next is rewritten alike without it.
    pub(super) fn is_idle(&self) -> bool {
        self.is_of_others_alone && self.pending.is_empty()
    }

    /// Entries and summaries of which the words are kept.
    #[cfg(test)]
    pub(super) fn n_kept(&self) -> usize {
        self.entries.len() + self.summaries.len()
    }

    pub(super) fn is_theirs(&self, turn: &TurnId) -> bool {
        self.theirs.contains(turn)
    }

    /// They took part in the open turn.
    pub(super) fn is_open_theirs(&self) -> bool {
        self.open.as_ref().is_some_and(|open| self.is_theirs(open))
    }

    /// The words of that entry are gone.
    pub(super) fn is_erased(&self, seq: Seq) -> bool {
        self.erased.contains(&seq)
    }

    /// A result may hold words of theirs that were erased before, and so may an answer that quotes the history: it is a page
    /// of an artifact of theirs, or nobody knows whose words it holds.
    pub(super) fn may_quote(&self, entry: &Entry) -> bool {
        let of_anybody = match entry.role {
            Role::Tool => entry.provenance.strangers,
            // In journals of earlier versions such an answer does not say whom it quotes.
            Role::Assistant => {
                quotes_lines(entry) && (entry.provenance.strangers || entry.provenance.is_empty())
            }
            Role::User => false,
        };
        (entry.role == Role::Tool && self.reads_theirs) || (of_anybody && self.has_theirs())
    }

    /// Words of theirs stood in it.
    pub(super) fn has_theirs(&self) -> bool {
        !self.erased.is_empty() || !self.quoting.is_empty()
    }

    /// Of that entry some or all words are gone.
    pub(super) fn is_changed(&self, seq: Seq) -> bool {
        self.is_touched(seq, seq)
    }

    /// A range holds entries of which some or all words are gone.
    pub(super) fn is_touched(&self, from: Seq, to: Seq) -> bool {
        let within = |seqs: &BTreeSet<Seq>| seqs.range(from..=to).next().is_some();
        from <= to && (within(&self.erased) || within(&self.quoting))
    }

    pub(super) fn accept(&mut self, pending: &Pending, is_theirs: bool, quotes_them: bool) {
        let message = PendingMessage { pending: pending.clone(), is_theirs, quotes_them };
        self.pending.insert(pending.message.clone(), message);
    }

    /// A message that waits is theirs. One that is not known was quarantined: it may have been theirs.
    pub(super) fn is_pending_theirs(&self, message: &MessageId) -> bool {
        self.pending.get(message).map_or(self.keeps_words(), |message| message.is_theirs)
    }

    /// A message that waits has words of theirs that somebody else forwarded or quoted.
    pub(super) fn quotes_pending(&self, message: &MessageId) -> bool {
        self.pending.get(message).is_some_and(|message| message.quotes_them)
    }

    /// The author and time of a message that waits.
    pub(super) fn pending(&self, message: &MessageId) -> Option<&Pending> {
        self.pending.get(message).map(|message| &message.pending)
    }

    /// A message that waits says something else.
    pub(super) fn edit(&mut self, message: &MessageId, parts: &[Part], quotes_them: bool) {
        if let Some(message) = self.pending.get_mut(message) {
            message.quotes_them |= quotes_them;
            message.pending.parts = parts.to_vec();
        }
    }

    pub(super) fn take_up(&mut self, turn: &TurnId, messages: &[MessageId], first: Seq) {
        self.open = Some(turn.clone());
        for (seq, message) in (first.0..).map(Seq).zip(messages) {
            let Some(PendingMessage { pending, is_theirs, quotes_them }) = self.pending.remove(message)
            else {
                // Its line was quarantined: it may have been theirs, and the answer to them.
                self.theirs.insert(turn.clone());
                continue;
            };
            if is_theirs {
                self.theirs.insert(turn.clone());
                self.erased.insert(seq);
            } else if quotes_them {
                self.quoting.insert(seq);
            }
            self.keep(pending.to_entry(seq, turn, self.generation));
        }
    }

    /// An entry was added; `theirs`: its words are gone.
    pub(super) fn add(&mut self, entry: &Entry, theirs: bool) {
        if theirs {
            self.erased.insert(entry.seq);
        }
        self.reads_theirs &= entry.role != Role::Tool;
        self.keep(entry.clone());
    }

    fn keep(&mut self, mut entry: Entry) {
        if self.is_of_others_alone {
            return;
        }
        if entry.role == Role::User && !self.erased.contains(&entry.seq) {
            self.others.insert(entry.seq);
            if entry.parts.is_empty() {
                self.expired.insert(entry.seq);
            }
        }
        entry.parts.retain(|part| !is_picture(part));
        entry.reasoning = None;
        entry.provider_state = None;
        self.entries.push(Arc::new(entry));
    }

    /// Removes a range, after `/undo`.
    pub(super) fn take_back(&mut self, from: Seq, to: Seq) {
        if !self.is_of_others_alone {
            self.undone.push((from, to));
        }
    }

    /// Removes entries of a deleted message.
    pub(super) fn delete(&mut self, message: &MessageId, seqs: &[Seq]) {
        self.pending
            .iter_mut()
            .filter(|(id, _)| id.is_of(message))
            .for_each(|(_, message)| message.pending.delete());
        let said =
            self.entries.iter().filter(|entry| entry.message.as_ref().is_some_and(|id| id.is_of(message)));
        let said: Vec<Seq> = said.map(|entry| entry.seq).collect();
        if !self.is_of_others_alone {
            self.deleted.extend(said.into_iter().chain(seqs.iter().copied()));
        }
    }

    /// A new session began.
    pub(super) fn start_session(&mut self, generation: Generation) {
        let pending = std::mem::take(&mut self.pending);
        let (theirs, erased) = (std::mem::take(&mut self.theirs), std::mem::take(&mut self.erased));
        let (others, expired) = (std::mem::take(&mut self.others), std::mem::take(&mut self.expired));
        let quoting = std::mem::take(&mut self.quoting);
        let (owed, gone) = (std::mem::take(&mut self.owed), std::mem::take(&mut self.gone));
        let is_of_others_alone = self.is_of_others_alone;
        *self = Self {
            pending,
            theirs,
            erased,
            quoting,
            others,
            expired,
            owed,
            gone,
            generation,
            is_of_others_alone,
            ..Self::default()
        };
    }

    /// A run ended; its end is as rewritten.
    pub(super) fn end_run(&mut self, end: &RunEnd) {
        self.run = None;
        if let Some(summary) = end.summary.as_ref().filter(|_| !self.is_of_others_alone) {
            if summary.level == 0 {
                self.forget(summary.to_seq);
            }
            self.summaries.insert(summary.id.clone(), summary.clone());
        }
    }

    /// No summary will stand for entries up to that one.
    pub(super) fn forget(&mut self, to: Seq) {
        self.entries.retain(|entry| entry.seq > to);
    }

    fn readable(&self, from: Seq, to: Seq) -> Vec<Arc<Entry>> {
        let undone = |seq: Seq| self.undone.iter().any(|(from, to)| (*from..=*to).contains(&seq));
        let in_range = self.entries.iter().filter(|entry| (from..=to).contains(&entry.seq));
        let gone = |entry: &&Arc<Entry>| {
            self.erased.contains(&entry.seq) || undone(entry.seq) || self.deleted.contains(&entry.seq)
        };
        in_range.filter(|entry| !gone(entry)).cloned().collect()
    }

    /// Makes a summary again of what is left of its range, by extraction: a model makes it again later, wherever the words of
    /// others are still there. Where some of them have expired, nothing better can be made: then the summary loses what may
    /// be of the person. One that has expired itself stays so.
    pub(super) fn remake(&self, summary: &mut Summary, mask: &Mask) {
        if summary.text.is_empty() {
            return;
        }
        let budget = summary.tokens.max(LEAST_TOKENS);
        let of_identifiers = budget / IDENTIFIERS_SHARE;
        let range = summary.from_seq..=summary.to_seq;
        let has_expired = self.expired.range(range).next().is_some();
        if self.is_made_of_nothing(summary) {
            summary.text = without_theirs(&summary.text, mask);
            summary.identifiers.retain(|identifier| !is_sign(identifier));
        } else if summary.level == 0 {
            let entries = self.readable(summary.from_seq, summary.to_seq);
            summary.text = render(&digest(&entries, budget - of_identifiers));
            summary.identifiers = identifiers::of_entries(&entries, &summary.text, of_identifiers);
        } else {
            let sources = self.sources(summary);
            let texts: Vec<&str> = sources.iter().map(|source| source.text.as_str()).collect();
            summary.text = digest_texts(&texts, budget - of_identifiers);
            summary.identifiers = identifiers::of_summaries(&sources, &summary.text, of_identifiers);
        }
        summary.provisional = !has_expired;
        if summary.text.trim().is_empty() {
            NOTHING_LEFT.clone_into(&mut summary.text);
            summary.provisional = false;
        }
        MADE_BY_DIGEST.clone_into(&mut summary.made_by);
        summary.tokens = summary_tokens(summary);
    }

    /// Words of others that a summary was made of have expired.
    fn is_made_of_nothing(&self, summary: &Summary) -> bool {
        match summary.level {
            0 => self.expired.range(summary.from_seq..=summary.to_seq).next().is_some(),
            _ => self.sources(summary).iter().any(|source| source.text.is_empty()),
        }
    }

    fn sources(&self, summary: &Summary) -> Vec<Summary> {
        let of_run = self.run.as_ref().and_then(|run| match &run.work {
            RunWork::Merge { sources, .. } => Some(sources),
            RunWork::Sealed | RunWork::Truncated => None,
        });
        let known =
            |id: &SummaryId| self.summaries.get(id).filter(|source| source.text != NOTHING_LEFT).cloned();
        match of_run {
            Some(sources) => sources.iter().filter_map(known).collect(),
            // The record that began the run was quarantined: those of the level below within the range.
            None => {
                let below = |source: &&Summary| {
                    source.level + 1 == summary.level
                        && source.from_seq >= summary.from_seq
                        && source.to_seq <= summary.to_seq
                };
                let mut sources: Vec<Summary> = self.summaries.values().filter(below).cloned().collect();
                sources.sort_by_key(|source| source.from_seq);
                sources
            }
        }
    }

    /// They spoke in a range, and nobody else did.
    pub(super) fn is_theirs_alone(&self, from: Seq, to: Seq) -> bool {
        self.is_touched(from, to) && self.others.range(from..=to).next().is_none()
    }
}

/// The sentences of a text that neither name them nor tell a number or an address, which may be theirs.
fn without_theirs(text: &str, mask: &Mask) -> String {
    let is_clear = |sentence: &&str| !mask.names(sentence) && !sentence.split_whitespace().any(is_sign);
    let clean = |line: &str| sentences(line).filter(is_clear).map(str::trim).collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(clean).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// A number of four digits or more, or an address.
fn is_sign(word: &str) -> bool {
    word.bytes().filter(u8::is_ascii_digit).count() >= 4 || word.contains('@') || word.contains("://")
}
