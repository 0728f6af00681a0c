//! The fold: one event at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Archived, Conversation, Draft, Failures, OpenTurn};
use crate::event::{Event, Receipt, Record};
use crate::ids::{MessageId, OutboxId, Seq, TurnId};
use crate::message::{Entry, LOST_TURN, Pending};
use crate::provenance::Provenance;
use crate::summary::StackItem;

/// An event that does not fit the state: a damaged or foreign journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("journal record {n} does not fit the conversation: {reason}")]
pub struct FoldError {
    pub n: u64,
    pub reason: String,
}

impl Conversation {
    /// Folds a record in. Records up to [`Conversation::last_n`] are passed over, so that a replay that overlaps
    /// changes nothing. Numbers that are missing because journal lines were quarantined are filled with
    /// [`Entry::lost`].
    ///
    /// # Errors
    /// The event does not fit; the state is as before.
    pub fn apply(&mut self, record: &Record) -> Result<(), FoldError> {
        if record.n <= self.last_n {
            return Ok(());
        }
        self.fold(record).map_err(|reason| FoldError { n: record.n, reason })?;
        self.last_n = record.n;
        self.last_at = record.at;
        Ok(())
    }

    fn fold(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Accepted(pending) => self.accept(pending)?,
            Event::TurnStarted { turn, messages, first_seq } => {
                self.start_turn(record, turn, messages, *first_seq)?;
            }
            Event::TurnReopened { turn, messages } => self.reopen_turn(turn, messages)?,
            Event::EntryAdded { entry } => self.add_entry(record, entry)?,
            Event::TurnEnded(end) => {
                self.open_turn.take_if(|open| open.id == end.turn).ok_or("that turn is not open")?;
            }
            Event::TurnInterrupted { turn } => {
                let open = self.open_turn.as_mut().filter(|open| open.id == *turn);
                open.ok_or("that turn is not open")?.interruptions += 1;
            }
            Event::RunStarted { .. }
            | Event::RunQueued { .. }
            | Event::RunAttemptFailed { .. }
            | Event::RunCheckpointed { .. }
            | Event::RunEnded(_)
            | Event::EmergencyApplied { .. }
            | Event::WindowSlid { .. }
            | Event::StackRetired { .. } => self.fold_run(record)?,
            Event::ResultsPruned { .. }
            | Event::ArtifactStored { .. }
            | Event::ArtifactUsed { .. }
            | Event::ArtifactsExpired { .. } => self.fold_results(record),
            Event::UsageReported { .. }
            | Event::UsageSpent { .. }
            | Event::ModelChosen { .. }
            | Event::ModelLearnt { .. } => self.fold_model(record),
            Event::GenerationStarted { generation } => self.start_generation(*generation),
            Event::MemoriesRecalled { ids, tokens } => {
                self.recalled.clone_from(ids);
                self.recalled_tokens = *tokens;
            }
            Event::OutboxIntended { .. }
            | Event::OutboxAttempted { .. }
            | Event::OutboxPutOff { .. }
            | Event::OutboxSent { .. }
            | Event::OutboxSettled { .. }
            | Event::OutboxRetried { .. }
            | Event::OutboxDropped { .. } => self.fold_delivery(record),
            Event::ApprovalAsked { .. } | Event::ApprovalSettled { .. } => self.fold_approval(&record.event),
            Event::MessageEdited { .. } => self.edit(&record.event)?,
            Event::MessageDeleted { message, seqs } => self.delete(message, seqs),
            Event::TurnUndone { turn, from_seq, to_seq } => self.take_back(turn, *from_seq, *to_seq)?,
            Event::LinesQuarantined { next_seq: Some(next_seq), .. } => self.lose_end(record, *next_seq)?,
            Event::DaemonStarted { .. }
            | Event::DaemonStopped
            | Event::CommandTaken { .. }
            | Event::MessageRefused { .. }
            | Event::PairingRequested { .. }
            | Event::PairingApproved { .. }
            | Event::PairingRevoked { .. }
            | Event::ChatMigrated { .. }
            | Event::MemorySaved(_)
            | Event::MemoryEdited { .. }
            | Event::MemoryForgotten { .. }
            | Event::ToolUsed(_)
            | Event::ServerApproved { .. }
            | Event::ServerRevoked { .. }
            | Event::PersonErased { .. }
            | Event::WordsExpired { .. }
            | Event::RecordsRemoved { .. }
            | Event::LinesQuarantined { .. } => {}
        }
        Ok(())
    }

    fn fold_approval(&mut self, event: &Event) {
        match event {
            Event::ApprovalAsked { approval } => {
                self.approvals += 1;
                if let Some(open) = self.open_turn.as_mut().filter(|open| open.id == approval.turn) {
                    open.approvals.push(approval.clone());
                }
            }
            Event::ApprovalSettled { id, .. } => {
                if let Some(open) = &mut self.open_turn {
                    open.approvals.retain(|approval| approval.id != *id);
                }
            }
            _ => {}
        }
    }

    fn fold_delivery(&mut self, record: &Record) {
        match &record.event {
            Event::OutboxIntended { id, turn, note, draft, approval, .. } => {
                self.intend(id, turn, note.is_some(), *draft);
                if let (Some(open), Some(_)) = (&mut self.open_turn, approval) {
                    open.questions.insert(id.clone(), None);
                }
                self.fold_notice(id, record.at);
            }
            Event::OutboxAttempted { id, .. } => {
                if let Some(draft) = self.draft_mut(id) {
                    draft.attempted_at.get_or_insert(record.at);
                }
            }
            Event::OutboxPutOff { id, .. } => {
                if let Some(draft) = self.draft_mut(id) {
                    draft.attempted_at = None;
                }
            }
            Event::OutboxSent { id, message, .. } => {
                let questions = self.open_turn.as_mut().map(|open| &mut open.questions);
                if let Some(question) = questions.and_then(|questions| questions.get_mut(id)) {
                    *question = Some(message.clone());
                }
                if let Some(draft) = self.draft_mut(id) {
                    draft.attempted_at = None;
                    draft.message = Some(message.clone());
                }
            }
            Event::OutboxSettled { id, receipt } => {
                self.settle(id, !matches!(receipt, Receipt::Delivered { .. }));
            }
            Event::OutboxDropped { id } => self.settle(id, false),
            Event::OutboxRetried { id } => {
                if let Some(idx) = self.undelivered.iter().position(|undelivered| undelivered == id) {
                    self.owed.push(self.undelivered.remove(idx));
                }
            }
            _ => {}
        }
    }

    fn accept(&mut self, pending: &Pending) -> Result<(), String> {
        if self.pending.iter().any(|other| other.message == pending.message) {
            return Err(format!("message {} is pending already", pending.message));
        }
        if pending.direct {
            self.direct_with = Some(pending.author.id.clone());
        }
        self.pending.push_back(pending.clone());
        self.accepted += 1;
        Ok(())
    }

    fn start_turn(
        &mut self,
        record: &Record,
        turn: &TurnId,
        messages: &[MessageId],
        first_seq: Seq,
    ) -> Result<(), String> {
        if let Some(open) = &self.open_turn {
            return Err(format!("turn {} is open", open.id));
        }
        self.fill_gap(record, turn, first_seq)?;
        let mut reply_to = None;
        for message in messages {
            let position = self.pending.iter().position(|pending| pending.message == *message);
            let entry = match position.and_then(|idx| self.pending.remove(idx)) {
                Some(pending) => {
                    if pending.addressed {
                        reply_to = Some(pending.message.clone());
                    }
                    pending.to_entry(self.next_seq, turn, self.generation)
                }
                None => Entry::lost(self.next_seq, turn, self.generation, record.at),
            };
            self.push(entry);
        }
        let messages = messages.to_vec();
        self.open_turn = Some(OpenTurn {
            id: turn.clone(),
            first_seq,
            messages,
            addressed: reply_to.is_some(),
            interruptions: 0,
            reply_to,
            draft: None,
            notes: Vec::new(),
            approvals: Vec::new(),
            questions: BTreeMap::new(),
        });
        Ok(())
    }

    fn intend(&mut self, id: &OutboxId, turn: &TurnId, is_note: bool, is_draft: bool) {
        let open = self.open_turn.as_mut().filter(|open| open.id == *turn);
        if is_draft {
            if let Some(open) = open {
                open.draft = Some(Draft { id: id.clone(), attempted_at: None, message: None });
            }
            return;
        }
        if let (Some(open), true) = (open, is_note) {
            open.notes.push(id.clone());
        }
        if !self.owed.contains(id) {
            self.owed.push(id.clone());
        }
    }

    /// A delivery is owed no longer. `may_be_retried`: it did not succeed.
    fn settle(&mut self, id: &OutboxId, may_be_retried: bool) {
        let was_known = self.owed.contains(id) || self.undelivered.contains(id);
        self.owed.retain(|owed| owed != id);
        self.undelivered.retain(|undelivered| undelivered != id);
        if may_be_retried && was_known {
            self.undelivered.push(id.clone());
        }
    }

    fn draft_mut(&mut self, id: &OutboxId) -> Option<&mut Draft> {
        self.open_turn.as_mut()?.draft.as_mut().filter(|draft| draft.id == *id)
    }

    fn add_entry(&mut self, record: &Record, entry: &Entry) -> Result<(), String> {
        if entry.generation != self.generation {
            return Err(format!("entry {} is of another generation", entry.seq));
        }
        self.fill_gap(record, &entry.turn, entry.seq)?;
        self.push(entry.clone());
        Ok(())
    }

    fn push(&mut self, entry: Entry) {
        self.next_seq = entry.seq.next();
        self.heard.join(&Provenance::of_entry(&entry));
        self.live.push_back(Arc::new(entry));
    }

    /// Brings `next_seq` up to `seq`, with a visible stand-in for each number whose line was lost.
    fn fill_gap(&mut self, record: &Record, turn: &TurnId, seq: Seq) -> Result<(), String> {
        if seq < self.next_seq {
            return Err(format!("number {seq} was given before"));
        }
        while self.next_seq < seq {
            self.push(Entry::lost(self.next_seq, turn, self.generation, record.at));
        }
        Ok(())
    }

    /// Entries up to `next_seq` were lost with the end of the journal, and with them how the open turn ended.
    fn lose_end(&mut self, record: &Record, next_seq: Seq) -> Result<(), String> {
        self.open_turn = None;
        self.fill_gap(record, &TurnId::from(LOST_TURN), next_seq.max(self.next_seq))
    }

    /// Changes the stack: from here on the window begins with other bytes, and deleted words leave it, too.
    pub(super) fn place_item(&mut self, item: StackItem) {
        self.stack.place(item);
        self.forget_deleted();
        self.recount_markers();
        self.fold_find();
    }

    /// Takes entries up to and including `to_seq` out of the window.
    pub(crate) fn drop_live(&mut self, to_seq: Seq) {
        while self.live.front().is_some_and(|entry| entry.seq <= to_seq) {
            if let Some(entry) = self.live.pop_front() {
                self.left.join(&Provenance::of_entry(&entry));
            }
        }
        self.pruned = self.pruned.split_off(&to_seq.next());
    }

    fn start_generation(&mut self, generation: crate::ids::Generation) {
        self.archived.push(Archived {
            generation: self.generation,
            from_seq: self.first_seq,
            to_seq: Seq(self.next_seq.0 - 1),
        });
        self.generation = generation;
        self.first_seq = self.next_seq;
        self.stack.clear();
        self.live.clear();
        self.left = Provenance::default();
        self.undone.clear();
        self.pruned.clear();
        self.deleted.clear();
        self.open_turn = None;
        self.run = None;
        self.queued_runs.clear();
        self.failures = Failures::default();
        self.deferred_failures = Failures::default();
        self.lost = None;
        self.recalled.clear();
        self.recalled_tokens = 0;
    }
}
