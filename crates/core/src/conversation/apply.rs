//! The fold: one event at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{
    AnswerDraft, AnsweredBy, ClientSystem, Conversation, Failures, Learnt, Lost, OUTCOMES_KEPT, OpenTurn,
    Reported, Spent, Undone, is_recent,
};
use crate::artifact::{self, ordinal};
use crate::reminder;
use crate::turn::spans;
use crate::usage_watch::UsageWatch;
use cairn_types::event::{
    ApprovalEvent, ArtifactEvent, CompactionEvent, DeliveryEvent, Event, MaintenanceEvent, MemoryEvent,
    MessageEvent, ModelNews, Receipt, Record, ReminderEvent, Run, RunEnd, RunOutcome, RunReport, RunWork,
    SummarySize, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ArtifactId, MessageId, OutboxId, Seq, TurnId};
use cairn_types::message::{Entry, LOST_TURN, Part, Pending, Provenance, REFUSALS, Role};
use cairn_types::model::Usage;
use cairn_types::reminder::Reminder;
use cairn_types::summary::StackItem;

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
            Event::Message(event) => self.fold_message(record.n, event),
            Event::Turn(event) => self.fold_turn(record, event),
            Event::Compaction(event) => self.fold_compaction(record, event),
            Event::Artifact(event) => {
                self.fold_artifact(record.at, event);
                Ok(())
            }
            Event::Delivery(event) => {
                self.fold_delivery(record.at, event);
                Ok(())
            }
            Event::Approval(event) => {
                self.fold_approval(event);
                Ok(())
            }
            Event::Reminder(event) => {
                reminder::fold(&mut self.reminders, &record.event);
                if let ReminderEvent::Set(Reminder { id, .. }) = event {
                    self.newest_reminder = self.newest_reminder.max(id.as_str().parse().unwrap_or_default());
                }
                Ok(())
            }
            Event::Memory(MemoryEvent::Recalled { ids, tokens, quotes, .. }) => {
                self.recalled.clone_from(ids);
                self.quotes.clone_from(quotes);
                self.recalled_tokens = *tokens;
                Ok(())
            }
            Event::Maintenance(MaintenanceEvent::LinesQuarantined { next_seq: Some(next_seq), .. }) => {
                self.lose_end(record, *next_seq)
            }
            Event::Memory(
                MemoryEvent::Saved(_) | MemoryEvent::Edited { .. } | MemoryEvent::Forgotten { .. },
            )
            | Event::Registry(_)
            | Event::Maintenance(_) => Ok(()),
        }
    }

    fn fold_message(&mut self, n: u64, event: &MessageEvent) -> Result<(), String> {
        match event {
            MessageEvent::Accepted(pending) => self.accept(pending)?,
            MessageEvent::Edited { message, parts, addressed, fingerprint, tokens } => {
                let pending = self.pending.iter_mut().find(|pending| pending.message == *message);
                let pending = pending.ok_or("that message is not pending")?;
                pending.parts.clone_from(parts);
                pending.addressed = *addressed;
                pending.fingerprint.clone_from(fingerprint);
                pending.tokens = *tokens;
            }
            MessageEvent::Deleted { message, seqs } => {
                self.delete(message, seqs);
                self.deleted_n = n;
            }
            MessageEvent::SystemSet { author, text, tokens } => {
                let (by, text) = (author.id.clone(), text.as_str().into());
                self.client_system = (*tokens > 0).then_some(ClientSystem { by, text, tokens: *tokens });
                self.restart_watches();
            }
            MessageEvent::Reacted { message, seq, by, emoji, removed } => {
                self.fold_reaction(message, *seq, by, emoji, *removed);
            }
            MessageEvent::CommandTaken { .. } | MessageEvent::Refused { .. } => {}
        }
        Ok(())
    }

    fn fold_turn(&mut self, record: &Record, event: &TurnEvent) -> Result<(), String> {
        match event {
            TurnEvent::Started { turn, messages, first_seq } => {
                self.start_turn(record, turn, messages, *first_seq)?;
            }
            TurnEvent::Joined { turn, messages, first_seq } => {
                self.join_turn(record, turn, messages, *first_seq)?;
            }
            TurnEvent::Reopened { turn, messages } => self.reopen_turn(turn, messages)?,
            TurnEvent::EntryAdded { entry } => self.add_entry(record, entry)?,
            TurnEvent::Ended(end) => {
                let open = self.open_turn.take_if(|open| open.id == end.turn);
                let open = open.ok_or("that turn is not open")?;
                if !matches!(end.outcome, TurnOutcome::Answered { .. } | TurnOutcome::Silent) {
                    self.put_back(open.reactions);
                }
                self.count_answer(open.model, &end.outcome);
                self.forget_provider_state(&end.turn);
                if matches!(&end.outcome, TurnOutcome::Failed { code, .. } if REFUSALS.contains(&code.as_str()))
                {
                    let said =
                        self.live.iter().filter(|entry| entry.turn == end.turn && entry.role == Role::User);
                    self.refused.extend(said.map(|entry| entry.seq));
                    self.restart_watches();
                }
                self.forget_artifacts();
            }
            TurnEvent::Interrupted { turn } => {
                let open = self.open_turn.as_mut().filter(|open| open.id == *turn);
                open.ok_or("that turn is not open")?.interruptions += 1;
            }
            TurnEvent::Undone { turn, from_seq, to_seq } => self.take_back(turn, *from_seq, *to_seq)?,
            TurnEvent::SessionStarted { generation } => self.start_generation(*generation),
            TurnEvent::UsageReported { .. } => self.fold_usage(record, event),
            TurnEvent::ModelChosen { model, reason } => {
                self.model = Some(model.clone());
                self.model_reason = Some(reason.clone());
            }
            TurnEvent::ModelLearnt(news) => self.fold_news(news),
            TurnEvent::HistoryWithheld { model, range } => {
                match range {
                    Some(range) => self.withheld.insert(model.clone(), *range),
                    None => self.withheld.remove(model),
                };
                self.restart_watches();
            }
            TurnEvent::ToolUsed(_) => {}
        }
        Ok(())
    }

    fn count_answer(&mut self, model: Option<String>, outcome: &TurnOutcome) {
        let is_answer = matches!(outcome, TurnOutcome::Answered { .. } | TurnOutcome::Silent);
        let Some(model) = model.filter(|_| is_answer) else { return };
        let before = self.answered_by.take().filter(|answered| answered.model == model);
        let turns = before.map_or(0, |answered| answered.turns).saturating_add(1);
        self.answered_by = Some(AnsweredBy { model, turns });
    }

    fn fold_usage(&mut self, record: &Record, event: &TurnEvent) {
        let TurnEvent::UsageReported {
            model,
            estimated,
            usage,
            disbelieved,
            is_estimate,
            set_window,
            trace,
            ..
        } = event
        else {
            return;
        };
        self.usage_total += *usage;
        if let Some(open) = &mut self.open_turn {
            open.usage += *usage;
            open.model = Some(model.clone());
            let answered = trace.as_ref().filter(|trace| trace.failure.is_none());
            open.clock = open.clock.or(answered.map(|trace| trace.asked_at));
        }
        if *is_estimate {
            return;
        }
        let is_believed = disbelieved.is_none();
        if is_believed {
            let correction = self.corrections.entry(model.clone()).or_default();
            correction.observe(*estimated, usage.input_tokens);
            self.bounds.entry(model.clone()).or_default().take(usage.input_tokens);
        }
        if let Some(set_window) = set_window {
            let (correction, frame) = (self.correction(model), trace.as_ref().map(|trace| &trace.frame));
            let reported = disbelieved.unwrap_or(*usage).input_tokens;
            let watch = self.usage_watches.entry(model.clone()).or_default();
            watch.take((frame, *set_window), (*estimated, reported), is_believed, correction);
        }
        let (model, at) = (model.clone(), record.at);
        self.reported = Some(Reported { model, estimated: *estimated, usage: *usage, at });
    }

    fn fold_news(&mut self, news: &ModelNews) {
        let model = &news.model;
        if news.forgets {
            self.corrections.remove(model);
            self.bounds.remove(model);
            self.usage_watches.remove(model);
            if let Some(learnt) = self.learnt.get_mut(model).filter(|learnt| learnt.cut || learnt.inferred) {
                *learnt = Learnt { no_tools: learnt.no_tools, ..Learnt::default() };
            }
        }
        if news.cut
            && let Some(watch) = self.usage_watches.get_mut(model)
        {
            // Reports before this one may have been of cut requests, too.
            if let Some(correction) = watch.correction() {
                self.corrections.insert(model.clone(), correction);
            }
            watch.restart();
        }
        if let Some(bounds) = news.bounds {
            self.bounds.insert(model.clone(), bounds);
        }
        if news.window_tokens.is_some() || news.no_tools.is_some() || news.cut {
            let learnt = self.learnt.entry(model.clone()).or_default();
            if news.window_tokens.is_some() {
                (learnt.window_tokens, learnt.window_of) = (news.window_tokens, news.window_of);
                (learnt.inferred, learnt.cut) = (news.bounds.is_some(), false);
            }
            learnt.cut |= news.cut;
            learnt.no_tools = news.no_tools.unwrap_or(learnt.no_tools);
        }
    }

    /// Requests lost something, or got something that servers count in ways of their own: reports from before are not compared
    /// with those to come.
    fn restart_watches(&mut self) {
        self.usage_watches.values_mut().for_each(UsageWatch::restart);
    }

    fn fold_compaction(&mut self, record: &Record, event: &CompactionEvent) -> Result<(), String> {
        match event {
            CompactionEvent::RunStarted { run } => self.start_run(run)?,
            CompactionEvent::RunQueued { request } => self.queued_runs.push_back(request.clone()),
            CompactionEvent::RunAttemptFailed { run, attempt, reason, retry_at } => {
                let current = self.run.as_mut().filter(|current| current.id == *run);
                let current = current.ok_or("that run is not under way")?;
                current.attempt = attempt + 1;
                current.retry_at = Some(*retry_at);
                current.failure = Some(reason.clone());
            }
            CompactionEvent::RunCheckpointed { run, checkpoint } => {
                let current = self.run.as_mut().filter(|current| current.id == *run);
                current.ok_or("that run is not under way")?.checkpoint = Some(checkpoint.clone());
            }
            CompactionEvent::RunEnded(end) => self.end_run(record, end)?,
            CompactionEvent::EmergencyApplied { marker, .. } => {
                self.drop_live(marker.to_seq);
                self.place_item(marker.clone().into());
                self.emergencies += 1;
                self.lost = Some(Lost { at: record.at, to_seq: marker.to_seq, told: false });
            }
            CompactionEvent::WindowSlid { marker, .. } => {
                self.drop_live(marker.to_seq);
                self.place_item(marker.clone().into());
            }
            CompactionEvent::StackRetired { marker } => self.place_item(marker.clone().into()),
            CompactionEvent::ResultsPruned { results, .. } => {
                self.pruned.extend(results.iter().map(|pruned| (pruned.seq, pruned.clone())));
                self.forget_deleted();
                self.restart_watches();
            }
            CompactionEvent::UsageSpent { model, usage, trace, .. } if usage.tokens() > 0 => {
                self.spend(record.at, *usage);
                // A call of a run that was cancelled may be told while the next one is under way.
                let of = trace.as_ref().and_then(|trace| trace.work.as_ref()).map(|work| &work.run);
                if let Some(run) = self.run.as_mut().filter(|run| of.is_none_or(|of| *of == run.id)) {
                    *run.spent.entry(model.clone()).or_default() += *usage;
                }
            }
            CompactionEvent::UsageSpent { .. } => {}
        }
        Ok(())
    }

    fn fold_artifact(&mut self, at: Timestamp, event: &ArtifactEvent) {
        if let ArtifactEvent::Stored { artifact } = event {
            self.newest_artifact = self.newest_artifact.max(ordinal(&artifact.id).unwrap_or_default());
            self.has_recordings |= ordinal(&artifact.id).is_none();
            if artifact.sent_in.is_some() {
                // Nothing in the window refers to it.
                return;
            }
        }
        artifact::fold(&mut self.artifacts, at, event);
    }

    fn fold_delivery(&mut self, at: Timestamp, event: &DeliveryEvent) {
        match event {
            DeliveryEvent::Intended { id, turn, seq, note, draft, approval, edits, .. } => {
                if let (Some(message), None) = (edits, note) {
                    self.note_own(message, *seq);
                }
                self.intend(id, turn, note.is_some(), *draft);
                if let (Some(open), Some(_)) = (&mut self.open_turn, approval) {
                    open.questions.insert(id.clone(), None);
                }
                self.fold_notice(id, at);
            }
            DeliveryEvent::Attempted { id, .. } => {
                if let Some(draft) = self.draft_mut(id) {
                    draft.attempted_at.get_or_insert(at);
                }
            }
            DeliveryEvent::PutOff { id, .. } => {
                if let Some(draft) = self.draft_mut(id) {
                    draft.attempted_at = None;
                }
            }
            DeliveryEvent::Sent { id, message, .. } => {
                if let Some(seq) = self.answer_of(id) {
                    self.note_own(message, seq);
                }
                let questions = self.open_turn.as_mut().map(|open| &mut open.questions);
                if let Some(question) = questions.and_then(|questions| questions.get_mut(id)) {
                    *question = Some(message.clone());
                }
                if let Some(draft) = self.draft_mut(id) {
                    draft.attempted_at = None;
                    draft.message = Some(message.clone());
                }
            }
            DeliveryEvent::Settled { id, receipt } => {
                self.settle(id, !matches!(receipt, Receipt::Delivered { .. }));
            }
            DeliveryEvent::Dropped { id } => self.settle(id, false),
            DeliveryEvent::Retried { id } => {
                if let Some(idx) = self.undelivered.iter().position(|undelivered| undelivered == id) {
                    self.owed.push(self.undelivered.remove(idx));
                }
            }
        }
    }

    fn fold_approval(&mut self, event: &ApprovalEvent) {
        match event {
            ApprovalEvent::Asked { approval } => {
                self.approvals += 1;
                if let Some(open) = self.open_turn.as_mut().filter(|open| open.id == approval.turn) {
                    open.approvals.push(approval.clone());
                }
            }
            ApprovalEvent::Settled { id, .. } => {
                if let Some(open) = &mut self.open_turn {
                    open.approvals.retain(|approval| approval.id != *id);
                }
            }
        }
    }

    fn accept(&mut self, pending: &Pending) -> Result<(), String> {
        if self.pending.iter().any(|other| other.message == pending.message) {
            return Err(format!("message {} is pending already", pending.message));
        }
        if pending.direct {
            self.direct_with = Some(pending.author.id.clone());
            self.name = Some(pending.author.name.clone());
        } else if let Some(name) = &pending.chat_name {
            self.name = Some(name.clone());
        }
        if let Some(language) = &pending.language {
            self.language = Some(language.clone()).filter(|language| !language.is_empty());
        }
        if let Some(fired) = &pending.reminder {
            reminder::fired(&mut self.reminders, fired);
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
        let asked = self.take_up(record, turn, messages, first_seq)?;
        let messages = messages.to_vec();
        let reactions = if asked.is_empty() { Vec::new() } else { std::mem::take(&mut self.reactions) };
        self.open_turn = Some(OpenTurn {
            id: turn.clone(),
            first_seq,
            messages,
            addressed: !asked.is_empty(),
            interruptions: 0,
            reply_to: asked.iter().rev().find(|id| !id.is_reminder()).cloned(),
            asked,
            draft: None,
            notes: Vec::new(),
            approvals: Vec::new(),
            questions: BTreeMap::new(),
            usage: Usage::default(),
            model: None,
            clock: None,
            reactions,
        });
        Ok(())
    }

    fn join_turn(
        &mut self,
        record: &Record,
        turn: &TurnId,
        messages: &[MessageId],
        first_seq: Seq,
    ) -> Result<(), String> {
        if self.open_turn.as_ref().is_none_or(|open| open.id != *turn) {
            return Err(format!("turn {turn} is not open"));
        }
        let asked = self.take_up(record, turn, messages, first_seq)?;
        if let Some(open) = &mut self.open_turn {
            open.messages.extend_from_slice(messages);
            open.reply_to = asked.last().cloned().or(open.reply_to.take());
            open.asked.extend(asked);
        }
        Ok(())
    }

    /// Makes pending messages entries of a turn. Returns those that are addressed to the bot.
    fn take_up(
        &mut self,
        record: &Record,
        turn: &TurnId,
        messages: &[MessageId],
        first_seq: Seq,
    ) -> Result<Vec<MessageId>, String> {
        self.fill_gap(record, turn, first_seq)?;
        let mut asked = Vec::new();
        for message in messages {
            let position = self.pending.iter().position(|pending| pending.message == *message);
            let entry = match position.and_then(|idx| self.pending.remove(idx)) {
                Some(pending) => {
                    if pending.addressed {
                        asked.push(pending.message.clone());
                    }
                    pending.to_entry(self.next_seq, turn, self.generation)
                }
                None => Entry::lost(self.next_seq, turn, self.generation, record.at),
            };
            self.push(entry);
        }
        Ok(asked)
    }

    fn intend(&mut self, id: &OutboxId, turn: &TurnId, is_note: bool, is_draft: bool) {
        let open = self.open_turn.as_mut().filter(|open| open.id == *turn);
        if is_draft {
            if let Some(open) = open {
                open.draft = Some(AnswerDraft { id: id.clone(), attempted_at: None, message: None });
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

    fn draft_mut(&mut self, id: &OutboxId) -> Option<&mut AnswerDraft> {
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
        if entry.parts.iter().any(|part| matches!(part, Part::Image { .. })) {
            self.restart_watches();
        }
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
    fn place_item(&mut self, item: StackItem) {
        self.stack.place(item);
        self.forget_deleted();
        self.restart_watches();
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
        self.refused = self.refused.split_off(&to_seq.next());
        self.withheld.retain(|_, range| range.to_seq > to_seq);
        self.forget_artifacts();
    }

    /// Leaves out of a closed turn what its provider wants back within it alone.
    fn forget_provider_state(&mut self, turn: &TurnId) {
        let mut is_less = false;
        for entry in self.live.iter_mut().rev().take_while(|entry| entry.turn == *turn) {
            let closed = entry.closed();
            is_less |= !Arc::ptr_eq(&closed, entry);
            *entry = closed;
        }
        if is_less {
            self.restart_watches();
        }
    }

    /// Leaves the artifacts to the store that nothing in the window refers to. What a turn stores, its entries name later.
    fn forget_artifacts(&mut self) {
        if self.artifacts.is_empty() || self.open_turn.is_some() {
            return;
        }
        let Self { artifacts, live, .. } = self;
        let named: BTreeSet<&ArtifactId> = live.iter().filter_map(|entry| entry.artifact.as_ref()).collect();
        let is_live = |seq: Seq| live.binary_search_by_key(&seq, |entry| entry.seq).is_ok();
        artifacts.retain(|id, artifact| named.contains(id) || artifact.message.is_some_and(is_live));
    }

    fn start_generation(&mut self, generation: cairn_types::ids::Generation) {
        self.generation = generation;
        self.first_seq = self.next_seq;
        self.stack.clear();
        self.live.clear();
        self.left = Provenance::default();
        self.client_system = None;
        self.undone.clear();
        self.pruned.clear();
        self.withheld.clear();
        self.refused.clear();
        self.deleted.clear();
        self.open_turn = None;
        self.artifacts.clear();
        self.run = None;
        self.queued_runs.clear();
        self.failures = Failures::default();
        self.deferred_failures = Failures::default();
        self.lost = None;
        self.recalled.clear();
        self.recalled_tokens = 0;
        self.quotes.clear();
        self.own.clear();
        self.reactions.clear();
        self.restart_watches();
    }

    fn reopen_turn(&mut self, turn: &TurnId, messages: &[MessageId]) -> Result<(), String> {
        if let Some(open) = &self.open_turn {
            return Err(format!("turn {} is open", open.id));
        }
        let last = spans(self).pop().filter(|span| span.turn == *turn);
        let last = last.ok_or_else(|| format!("turn {turn} is not the last one"))?;
        self.open_turn = Some(OpenTurn {
            id: turn.clone(),
            first_seq: last.from_seq,
            messages: messages.to_vec(),
            addressed: true,
            interruptions: 0,
            reply_to: messages.last().cloned(),
            asked: messages.to_vec(),
            draft: None,
            notes: Vec::new(),
            approvals: Vec::new(),
            questions: BTreeMap::new(),
            usage: Usage::default(),
            model: None,
            clock: None,
            reactions: Vec::new(),
        });
        Ok(())
    }

    fn take_back(&mut self, turn: &TurnId, from_seq: Seq, to_seq: Seq) -> Result<(), String> {
        if self.open_turn.as_ref().is_some_and(|open| open.id == *turn) {
            return Err(format!("turn {turn} is open"));
        }
        let first = self.live.front().map_or(self.next_seq, |entry| entry.seq);
        if from_seq < first || to_seq >= self.next_seq || to_seq < from_seq || self.is_undone(from_seq) {
            return Err(format!("turn {turn} is not in the window"));
        }
        self.live.retain(|entry| !(from_seq..=to_seq).contains(&entry.seq));
        self.pruned.retain(|seq, _| !(from_seq..=to_seq).contains(seq));
        self.forget_artifacts();
        self.restart_watches();
        self.undone.push(Undone { turn: turn.clone(), from_seq, to_seq });
        self.undone.sort_by_key(|undone| undone.from_seq);
        Ok(())
    }

    /// Markers say how many messages they stand for: undone ones are none of them.
    fn recount_markers(&mut self) {
        if self.undone.is_empty() {
            return;
        }
        let mut stack = std::mem::take(&mut self.stack);
        stack.recount(|from, to| self.count(from, to));
        self.stack = stack;
    }

    fn delete(&mut self, message: &MessageId, seqs: &[Seq]) {
        for pending in self.pending.iter_mut().filter(|pending| pending.message.is_of(message)) {
            pending.delete();
        }
        let of_message = |entry: &&Arc<Entry>| entry.message.as_ref().is_some_and(|id| id.is_of(message));
        let live = self.live.iter().filter(of_message).map(|entry| entry.seq);
        self.quotes.retain(|quote| !seqs.contains(&quote.seq));
        let first = self.first_seq;
        self.deleted.extend(live.chain(seqs.iter().copied()).filter(|seq| *seq >= first));
        self.hide_deleted();
    }

    /// Takes the words of deleted messages out of the window.
    pub(super) fn hide_deleted(&mut self) {
        let Self { deleted, live, pruned, stack, .. } = self;
        let mut is_less = false;
        for entry in live.iter_mut().filter(|entry| deleted.contains(&entry.seq) && !entry.is_deleted()) {
            *entry = Arc::new(entry.deleted());
            is_less = true;
        }
        pruned.retain(|seq, _| !deleted.contains(seq));
        stack.unquote(|seq| deleted.contains(&seq));
        if is_less {
            self.restart_watches();
        }
    }

    /// Takes the words of deleted messages out of a new item of the stack, too. Only what a run under way has read is
    /// remembered from then on.
    fn forget_deleted(&mut self) {
        self.hide_deleted();
        let run = self.run.as_ref().map(|run| run.from_seq..=run.to_seq);
        self.deleted.retain(|seq| run.as_ref().is_some_and(|run| run.contains(seq)));
    }

    fn start_run(&mut self, run: &Run) -> Result<(), String> {
        if let Some(current) = &self.run {
            return Err(format!("run {} is under way", current.id));
        }
        if let Some(idx) = self.queued_runs.iter().position(|queued| queued.trigger == run.trigger) {
            self.queued_runs.remove(idx);
        }
        self.runs += 1;
        self.run = Some(run.clone());
        Ok(())
    }

    fn end_run(&mut self, record: &Record, end: &RunEnd) -> Result<(), String> {
        let run = self.run.take_if(|run| run.id == end.run).ok_or("that run is not under way")?;
        let source_tokens = self.source_tokens(&run);
        let failures =
            if end.trigger.is_deferrable() { &mut self.deferred_failures } else { &mut self.failures };
        match end.outcome {
            RunOutcome::Committed => *failures = Failures::default(),
            RunOutcome::Rejected | RunOutcome::Failed => {
                *failures = Failures { n: failures.n + 1, last_at: Some(record.at) };
            }
            RunOutcome::Superseded | RunOutcome::Cancelled => {}
        }
        if let Some(summary) = &end.summary {
            self.drop_live(summary.to_seq);
            self.place_item(summary.clone().into());
            if summary.provisional {
                // No model is well just now: what can be deferred waits.
                let n = self.deferred_failures.n.max(1);
                self.deferred_failures = Failures { n, last_at: Some(record.at) };
            }
        }
        if self.outcomes.len() == OUTCOMES_KEPT {
            self.outcomes.pop_front();
        }
        // A provisional one says nothing of what models write.
        let summary = end.summary.as_ref().filter(|summary| !summary.provisional);
        let summary_size = summary.zip(source_tokens).map(|(summary, source_tokens)| {
            let merge = matches!(run.work, RunWork::Merge { .. });
            SummarySize { tokens: summary.tokens, source_tokens, merge }
        });
        let ended_at = Some(record.at);
        self.outcomes.push_back(RunReport { summary_size, ended_at, ..end.to_outcome() });
        Ok(())
    }

    /// Tokens of what a run works on; `None` when not all of it is in the window any more.
    fn source_tokens(&self, run: &Run) -> Option<u64> {
        match &run.work {
            RunWork::Merge { sources, .. } => {
                let tokens = |id| self.stack.summary(id).map(|summary| u64::from(summary.tokens));
                sources.iter().map(tokens).sum()
            }
            RunWork::Sealed | RunWork::Truncated => {
                let range = run.from_seq..=run.to_seq;
                let sealed = || self.live.iter().filter(|entry| range.contains(&entry.seq));
                let whole = sealed().count() as u64 == run.messages;
                whole.then(|| sealed().map(|entry| u64::from(entry.tokens)).sum())
            }
        }
    }

    fn spend(&mut self, at: Timestamp, usage: Usage) {
        self.spent.retain(|spent| is_recent(spent, at));
        let minute = |at: Timestamp| at.as_second().div_euclid(60);
        match self.spent.back_mut().filter(|last| minute(last.at) == minute(at)) {
            Some(last) => *last = Spent { at, tokens: last.tokens.saturating_add(usage.tokens()) },
            None => self.spent.push_back(Spent { at, tokens: usage.tokens() }),
        }
    }
}
