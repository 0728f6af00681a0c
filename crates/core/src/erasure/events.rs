//! What becomes of each event.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::mask::Mask;
use super::room::Room;
use super::{ERASED, Eraser};
use crate::artifact::Artifact;
use crate::event::{Checkpoint, Event, Receipt, Run, RunEnd, RunRequest, TurnEnd, TurnOutcome};
use crate::ids::{ChannelId, MessageId, OutboxId, Seq};
use crate::message::{Entry, Part, Pending, Role, entry_tokens, fingerprint, pending_tokens};
use crate::prune::PrunedResult;
use crate::summary::{Marker, marker_tokens, summary_tokens};

fn erased_parts() -> Vec<Part> {
    vec![Part::text(ERASED)]
}

impl Eraser {
    /// An event of no channel; `None`: it goes.
    pub(super) fn outside(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::PairingRequested { ref user, .. } if self.survey.is_theirs(user) => None,
            Event::PairingApproved { ref user } | Event::PairingRevoked { ref user }
                if user == self.survey.person() =>
            {
                None
            }
            Event::PairingRequested { mut user, chat, code } => {
                self.mask.author(&mut user);
                Some(Event::PairingRequested { user, chat, code })
            }
            Event::ChatMigrated { platform, mut from, mut to } => {
                self.mask.chat(&platform, &mut from);
                self.mask.chat(&platform, &mut to);
                Some(Event::ChatMigrated { platform, from, to })
            }
            Event::WordsExpired { ref channel, .. } if self.survey.is_private(channel) => None,
            Event::WordsExpired { channel, entries, summaries } => {
                Some(Event::WordsExpired { channel: self.mask.channel(&channel), entries, summaries })
            }
            event => self.of_memories(None, event),
        }
    }

    /// An event of a channel that stays; `None`: it goes.
    pub(super) fn within(
        &mut self,
        room: &mut Room,
        channel: &ChannelId,
        at: Timestamp,
        event: Event,
    ) -> Option<Event> {
        Some(match event {
            Event::Accepted(_)
            | Event::MessageEdited { .. }
            | Event::MessageDeleted { .. }
            | Event::TurnStarted { .. }
            | Event::TurnReopened { .. }
            | Event::EntryAdded { .. }
            | Event::TurnEnded(_)
            | Event::TurnUndone { .. }
            | Event::GenerationStarted { .. } => self.talk(room, channel, event),
            Event::RunStarted { .. }
            | Event::RunQueued { .. }
            | Event::RunAttemptFailed { .. }
            | Event::RunCheckpointed { .. }
            | Event::RunEnded(_)
            | Event::EmergencyApplied { .. }
            | Event::WindowSlid { .. }
            | Event::StackRetired { .. } => return self.of_run(room, channel, event),
            Event::ResultsPruned { cause, mut results, scanned, tokens_before, tokens_after } => {
                for pruned in results.iter_mut().filter(|pruned| room.is_erased(pruned.seq)) {
                    pruned_of_erased(pruned);
                }
                Event::ResultsPruned { cause, results, scanned, tokens_before, tokens_after }
            }
            Event::ArtifactStored { artifact } => {
                Event::ArtifactStored { artifact: self.stored(room, channel, at, artifact) }
            }
            Event::OutboxIntended { .. }
            | Event::OutboxAttempted { .. }
            | Event::OutboxPutOff { .. }
            | Event::OutboxSent { .. }
            | Event::OutboxSettled { .. }
            | Event::OutboxRetried { .. }
            | Event::OutboxDropped { .. } => self.delivery(room, channel, event),
            Event::ToolUsed(_) | Event::ApprovalAsked { .. } | Event::ApprovalSettled { .. } => {
                self.of_call(room, event)
            }
            Event::CommandTaken { mut message, command, mut caller } => {
                self.mask.message(&mut message);
                self.mask.author(&mut caller);
                Event::CommandTaken { message, command, caller }
            }
            Event::MessageRefused { mut message } => {
                self.mask.message(&mut message);
                Event::MessageRefused { message }
            }
            Event::MemoriesRecalled { mut ids, tokens } => {
                self.keep_ids(&mut ids);
                Event::MemoriesRecalled { ids, tokens }
            }
            Event::ModelChosen { model, mut reason } => {
                self.mention(|mask| mask.text(&mut reason));
                Event::ModelChosen { model, reason }
            }
            event => return self.of_memories(Some(room), event),
        })
    }

    fn talk(&mut self, room: &mut Room, channel: &ChannelId, event: Event) -> Event {
        match event {
            Event::Accepted(pending) => Event::Accepted(self.accepted(room, channel, pending)),
            Event::MessageEdited { message, parts, addressed, .. } => {
                self.edited(room, channel, message, parts, addressed)
            }
            Event::MessageDeleted { mut message, seqs } => {
                self.mask.message(&mut message);
                room.delete(&message, &seqs);
                Event::MessageDeleted { message, seqs }
            }
            Event::TurnStarted { turn, mut messages, first_seq } => {
                messages.iter_mut().for_each(|message| self.mask.message(message));
                room.start_turn(&turn, &messages, first_seq);
                Event::TurnStarted { turn, messages, first_seq }
            }
            Event::TurnReopened { turn, mut messages } => {
                messages.iter_mut().for_each(|message| self.mask.message(message));
                room.open = Some(turn.clone());
                Event::TurnReopened { turn, messages }
            }
            Event::EntryAdded { entry } => Event::EntryAdded { entry: self.added(room, channel, entry) },
            Event::TurnEnded(end) => Event::TurnEnded(self.ended(room, end)),
            Event::TurnUndone { turn, from_seq, to_seq } => {
                room.take_back(from_seq, to_seq);
                Event::TurnUndone { turn, from_seq, to_seq }
            }
            Event::GenerationStarted { generation } => {
                room.start_generation(generation);
                Event::GenerationStarted { generation }
            }
            event => event,
        }
    }

    /// Something of somebody else's: counted when anything was taken out of it.
    pub(super) fn mention(&mut self, mask: impl FnOnce(&Mask) -> bool) -> bool {
        let changed = mask(&self.mask);
        self.figures.mentions += u64::from(changed);
        changed
    }

    fn accepted(&mut self, room: &mut Room, channel: &ChannelId, mut pending: Pending) -> Pending {
        let theirs = self.survey.is_theirs(&pending.author);
        let waits = theirs && self.survey.waits(channel, &pending.message);
        self.mask.message(&mut pending.message);
        self.mask.provenance(&mut pending.provenance);
        let before = pending.author.name.clone();
        self.mask.author(&mut pending.author);
        let changed = if theirs {
            self.figures.entries += 1;
            self.figures.expired += u64::from(pending.parts.is_empty());
            pending.parts = erased_parts();
            // Nobody waits for its answer any more.
            pending.addressed &= !waits;
            true
        } else {
            self.mention(|mask| mask.parts(&mut pending.parts)) || before != pending.author.name
        };
        if changed {
            pending.fingerprint = fingerprint(&pending.author, &pending.parts);
            pending.tokens = pending_tokens(&pending);
        }
        room.accept(&pending, theirs);
        pending
    }

    fn edited(
        &mut self,
        room: &mut Room,
        channel: &ChannelId,
        mut message: MessageId,
        mut parts: Vec<Part>,
        addressed: bool,
    ) -> Event {
        let named = message.clone();
        self.mask.message(&mut message);
        let theirs = room.waits_for_them(&message);
        if theirs {
            parts = erased_parts();
        } else {
            self.mention(|mask| mask.parts(&mut parts));
        }
        room.edit(&message, &parts);
        let addressed = addressed && !(theirs && self.survey.waits(channel, &named));
        let (fingerprint, tokens) = match room.waiting(&message) {
            Some(pending) => (fingerprint(&pending.author, &parts), pending_tokens(pending)),
            None => (String::new(), 0),
        };
        Event::MessageEdited { message, parts, addressed, fingerprint, tokens }
    }

    fn added(&mut self, room: &mut Room, channel: &ChannelId, mut entry: Entry) -> Entry {
        let by_them = entry.author.as_ref().is_some_and(|author| self.survey.is_theirs(author));
        let theirs = by_them || (entry.role != Role::User && room.is_theirs(&entry.turn));
        self.mask.provenance(&mut entry.provenance);
        self.mask.message_option(&mut entry.message);
        if let Some(author) = &mut entry.author {
            self.mask.author(author);
        }
        let changed = if theirs {
            if let Some(artifact) = &entry.artifact {
                self.artifacts.insert((channel.clone(), artifact.clone()));
            }
            if by_them {
                self.figures.entries += 1
            } else {
                self.figures.answers += 1
            }
            entry.parts = erased_parts();
            entry.reasoning = None;
            entry.tool_calls.iter_mut().for_each(|call| call.arguments = erased_arguments());
            true
        } else {
            self.mention(|mask| {
                let calls = entry.tool_calls.iter_mut();
                let in_calls = calls.fold(false, |changed, call| changed | mask.value(&mut call.arguments));
                mask.parts(&mut entry.parts) | mask.option(&mut entry.reasoning) | in_calls
            })
        };
        if changed {
            entry.tokens = entry_tokens(&entry);
        }
        room.add(&entry, theirs);
        entry
    }

    fn ended(&mut self, room: &mut Room, mut end: TurnEnd) -> TurnEnd {
        self.keep_ids(&mut end.recalled);
        if let TurnOutcome::Failed { message, .. } = &mut end.outcome {
            if room.is_theirs(&end.turn) {
                ERASED.clone_into(message);
            } else {
                self.mention(|mask| mask.text(message));
            }
        }
        room.open.take_if(|open| *open == end.turn);
        end
    }

    fn stored(
        &mut self,
        room: &Room,
        channel: &ChannelId,
        at: Timestamp,
        mut artifact: Artifact,
    ) -> Artifact {
        let named = (channel.clone(), artifact.id.clone());
        if room.is_open_theirs() {
            self.artifacts.insert(named.clone());
        }
        let goes = self.artifacts.contains(&named) || self.is_renamed(channel);
        if goes {
            self.figures.artifacts += 1;
            artifact.expired_at.get_or_insert(at);
        }
        artifact
    }

    fn of_call(&mut self, room: &Room, event: Event) -> Event {
        match event {
            Event::ToolUsed(mut used) => {
                let theirs = room.is_theirs(&used.turn) || used.caused_by.contains(self.survey.person());
                self.mask.people(&mut used.caused_by);
                if theirs {
                    used.arguments = erased_arguments();
                    used.error = used.error.map(|_| ERASED.to_owned());
                } else {
                    self.mention(|mask| mask.value(&mut used.arguments) | mask.option(&mut used.error));
                }
                Event::ToolUsed(used)
            }
            Event::ApprovalAsked { mut approval } => {
                let theirs =
                    room.is_theirs(&approval.turn) || approval.caused_by.contains(self.survey.person());
                self.mask.people(&mut approval.caused_by);
                self.mention(|mask| mask.text(&mut approval.reason));
                if theirs {
                    approval.arguments = erased_arguments();
                } else {
                    self.mention(|mask| mask.value(&mut approval.arguments));
                }
                Event::ApprovalAsked { approval }
            }
            Event::ApprovalSettled { id, outcome, mut by } => {
                by.iter_mut().for_each(|by| self.mask.person(by));
                Event::ApprovalSettled { id, outcome, by }
            }
            event => event,
        }
    }

    fn delivery(&mut self, room: &mut Room, channel: &ChannelId, event: Event) -> Event {
        let renamed = |this: &Self, mut id: OutboxId| {
            this.mask.delivery(&mut id, channel);
            id
        };
        match event {
            Event::OutboxIntended { id, turn, seq, mut note, mut reply_to, mut edits, approval, draft } => {
                let id = renamed(self, id);
                let theirs = room.is_theirs(&turn);
                self.mask.message_option(&mut reply_to);
                self.mask.message_option(&mut edits);
                if theirs {
                    note = note.map(|_| ERASED.to_owned());
                    if !draft {
                        room.owed.insert(id.clone(), turn.clone());
                    }
                } else {
                    self.mention(|mask| mask.option(&mut note));
                }
                Event::OutboxIntended { id, turn, seq, note, reply_to, edits, approval, draft }
            }
            Event::OutboxPutOff { id, part, mut reason } => {
                self.mention(|mask| mask.text(&mut reason));
                Event::OutboxPutOff { id: renamed(self, id), part, reason }
            }
            Event::OutboxSent { id, part, mut message } => {
                self.mask.message(&mut message);
                Event::OutboxSent { id: renamed(self, id), part, message }
            }
            Event::OutboxSettled { id, mut receipt } => {
                let id = renamed(self, id);
                match &mut receipt {
                    Receipt::Delivered { messages } => {
                        room.owed.remove(&id);
                        messages.iter_mut().for_each(|message| self.mask.message(message));
                    }
                    // It may be tried again.
                    Receipt::Dead { reason } | Receipt::Unknown { reason, .. } => {
                        self.mention(|mask| mask.text(reason));
                    }
                }
                Event::OutboxSettled { id, receipt }
            }
            Event::OutboxDropped { id } => {
                let id = renamed(self, id);
                room.owed.remove(&id);
                Event::OutboxDropped { id }
            }
            Event::OutboxAttempted { id, part } => Event::OutboxAttempted { id: renamed(self, id), part },
            Event::OutboxRetried { id } => Event::OutboxRetried { id: renamed(self, id) },
            event => event,
        }
    }

    fn of_run(&mut self, room: &mut Room, channel: &ChannelId, event: Event) -> Option<Event> {
        Some(match event {
            Event::RunStarted { mut run } => {
                self.run(room, channel, &mut run);
                room.start_run(&run);
                Event::RunStarted { run }
            }
            Event::RunQueued { mut request } => {
                let RunRequest { instruction, .. } = &mut request;
                self.instruction(channel, instruction);
                Event::RunQueued { request }
            }
            Event::RunAttemptFailed { run, attempt, mut reason, retry_at } => {
                self.mention(|mask| mask.text(&mut reason));
                Event::RunAttemptFailed { run, attempt, reason, retry_at }
            }
            Event::RunCheckpointed { run, mut checkpoint } => {
                let from = room.run().filter(|current| current.id == run).map(|run| run.from_seq);
                if !self.keeps_checkpoint(room, from.unwrap_or_default(), &mut checkpoint) {
                    return None;
                }
                Event::RunCheckpointed { run, checkpoint }
            }
            Event::RunEnded(end) => Event::RunEnded(self.run_ended(room, end)),
            Event::EmergencyApplied { mut marker, messages, tokens_before, tokens_after } => {
                self.marker(room, &mut marker);
                Event::EmergencyApplied { marker, messages, tokens_before, tokens_after }
            }
            Event::WindowSlid { mut marker, messages, tokens_before, tokens_after } => {
                self.marker(room, &mut marker);
                room.forget(marker.to_seq);
                Event::WindowSlid { marker, messages, tokens_before, tokens_after }
            }
            Event::StackRetired { mut marker } => {
                self.marker(room, &mut marker);
                Event::StackRetired { marker }
            }
            event => event,
        })
    }

    /// Of their own channels nobody knows whose wish it was: there it goes.
    fn instruction(&mut self, channel: &ChannelId, instruction: &mut Option<String>) {
        if self.survey.wishes.contains(channel) {
            *instruction = instruction.take().map(|_| ERASED.to_owned());
        } else {
            self.mention(|mask| mask.option(instruction));
        }
    }

    fn run(&mut self, room: &Room, channel: &ChannelId, run: &mut Run) {
        self.instruction(channel, &mut run.instruction);
        self.mention(|mask| mask.option(&mut run.failure));
        run.checkpoint.take_if(|checkpoint| !self.keeps_checkpoint(room, run.from_seq, checkpoint));
    }

    /// What the chunks of a run have come to, unless it is made of their words: then the run begins again.
    fn keeps_checkpoint(&mut self, room: &Room, from: Seq, checkpoint: &mut Checkpoint) -> bool {
        if room.is_touched(from, checkpoint.to_seq) {
            return false;
        }
        self.keep_drafts(&mut checkpoint.memories);
        self.mention(|mask| mask.text(&mut checkpoint.text));
        true
    }

    fn run_ended(&mut self, room: &mut Room, mut end: RunEnd) -> RunEnd {
        self.mention(|mask| mask.option(&mut end.reason));
        let saves = std::mem::take(&mut end.memories);
        end.memories = saves.into_iter().filter_map(|save| self.save(Some(room), save)).collect();
        if let Some(summary) = &mut end.summary {
            let touched = room.is_touched(summary.from_seq, summary.to_seq);
            if touched {
                room.remake(summary, &self.mask);
                self.figures.summaries += 1;
            }
            let cleaned = self.mention(|mask| {
                let identifiers = summary.identifiers.len();
                summary.identifiers.retain(|identifier| !mask.names(identifier));
                mask.text(&mut summary.text) | (summary.identifiers.len() < identifiers)
            });
            if cleaned {
                summary.tokens = summary_tokens(summary);
            }
        }
        room.end_run(&end);
        end
    }

    fn marker(&mut self, room: &Room, marker: &mut Marker) {
        let before = marker.digest.len();
        marker.digest.retain(|line| !room.is_erased(line.seq));
        let lines = &mut marker.digest;
        let cleaned = self.mention(|mask| {
            lines.iter_mut().fold(false, |changed, line| changed | mask.text(&mut line.text))
        });
        if cleaned || marker.digest.len() < before {
            marker.tokens = marker_tokens(marker);
        }
    }
}

/// Arguments of a call as they are kept: none.
fn erased_arguments() -> Value {
    json!({})
}

/// A result whose words are gone is as short as it will ever be.
fn pruned_of_erased(pruned: &mut PrunedResult) {
    pruned.whole_bytes = ERASED.len() as u64;
}
