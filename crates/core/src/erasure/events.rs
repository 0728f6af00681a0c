//! How each event is rewritten. It is changed in place; false: nothing of it stays.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::channel::ChannelErasure;
use super::mask::Mask;
use super::{ERASED, Eraser};
use cairn_types::event::{
    ApprovalEvent, ArtifactEvent, Checkpoint, CompactionEvent, DeliveryEvent, Event, MaintenanceEvent,
    MemoryEvent, MessageEvent, Receipt, RegistryEvent, Run, RunEnd, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ChannelId, MemoryId, Seq};
use cairn_types::memory::{DraftMemory, MemorySave, Scope, mint_id};
use cairn_types::message::{Artifact, Entry, Part, Pending, Role, entry_tokens, fingerprint, pending_tokens};
use cairn_types::model::ChatMessage;
use cairn_types::provider_state::ProviderState;
use cairn_types::summary::{Marker, marker_tokens, summary_tokens};
use cairn_types::trace::RunCall;

fn erased_parts() -> Vec<Part> {
    vec![Part::text(ERASED)]
}

impl Eraser {
    /// Rewrites an event that belongs to no channel.
    pub(super) fn outside(&mut self, event: &mut Event) -> bool {
        match event {
            Event::Registry(event) => self.registry(event),
            Event::Maintenance(MaintenanceEvent::WordsExpired { channel, .. }) => {
                let stays = !self.survey.is_private(channel);
                *channel = self.mask.channel(channel);
                stays
            }
            Event::Memory(event) => self.memory(None, event),
            Event::Message(_)
            | Event::Turn(_)
            | Event::Compaction(_)
            | Event::Artifact(_)
            | Event::Delivery(_)
            | Event::Approval(_)
            | Event::Maintenance(_) => true,
        }
    }

    /// Rewrites an event of a channel that stays.
    pub(super) fn within(
        &mut self,
        state: &mut ChannelErasure,
        channel: &ChannelId,
        at: Timestamp,
        event: &mut Event,
    ) -> bool {
        match event {
            Event::Message(event) => self.message(state, channel, event),
            Event::Turn(event) => self.turn(state, channel, event),
            Event::Compaction(event) => return self.compaction(state, channel, event),
            Event::Artifact(ArtifactEvent::Stored { artifact }) => self.stored(state, channel, at, artifact),
            Event::Artifact(ArtifactEvent::Used { .. } | ArtifactEvent::Expired { .. }) => {}
            Event::Memory(event) => return self.memory(Some(state), event),
            Event::Delivery(event) => self.delivery(state, channel, event),
            Event::Approval(event) => self.approval(state, event),
            Event::Registry(event) => return self.registry(event),
            Event::Maintenance(_) => {}
        }
        true
    }

    fn registry(&mut self, event: &mut RegistryEvent) -> bool {
        match event {
            RegistryEvent::PairingRequested { user, .. } if self.survey.is_theirs(user) => return false,
            RegistryEvent::PairingRequested { user, .. } => self.mask.author(user),
            RegistryEvent::PairingApproved { user }
            | RegistryEvent::PairingRevoked { user }
            | RegistryEvent::BanLifted { user } => return user != self.survey.person(),
            RegistryEvent::BanSet { user, .. } if user == self.survey.person() => return false,
            RegistryEvent::BanSet { reason, by, .. } => {
                self.mask.person(by);
                self.mention(|mask| mask.option(reason));
            }
            RegistryEvent::AccessSet { platform, access } => self.mask.access(platform, access),
            RegistryEvent::ChatMigrated { platform, from, to } => {
                self.mask.chat(platform, from);
                self.mask.chat(platform, to);
            }
            RegistryEvent::ServerApproved { .. } | RegistryEvent::ServerRevoked { .. } => {}
        }
        true
    }

    fn message(&mut self, state: &mut ChannelErasure, channel: &ChannelId, event: &mut MessageEvent) {
        match event {
            MessageEvent::Accepted(pending) => self.accepted(state, channel, pending),
            MessageEvent::Edited { message, parts, addressed, fingerprint: hash, tokens } => {
                let named = message.clone();
                self.mask.message(message);
                let theirs = state.is_pending_theirs(message);
                if theirs {
                    *parts = erased_parts();
                } else {
                    self.mention(|mask| mask.parts(parts));
                }
                state.edit(message, parts);
                *addressed &= !(theirs && self.survey.waits(channel, &named));
                (*hash, *tokens) = match state.pending(message) {
                    Some(pending) => (fingerprint(&pending.author, parts), pending_tokens(pending)),
                    None => (String::new(), 0),
                };
            }
            MessageEvent::Deleted { message, seqs } => {
                self.mask.message(message);
                state.delete(message, seqs);
            }
            MessageEvent::CommandTaken { message, caller, .. } => {
                self.mask.message(message);
                self.mask.author(caller);
            }
            MessageEvent::Refused { message } => self.mask.message(message),
        }
    }

    fn turn(&mut self, state: &mut ChannelErasure, channel: &ChannelId, event: &mut TurnEvent) {
        match event {
            TurnEvent::Started { turn, messages, first_seq } => {
                messages.iter_mut().for_each(|message| self.mask.message(message));
                state.start_turn(turn, messages, *first_seq);
            }
            TurnEvent::Reopened { turn, messages } => {
                messages.iter_mut().for_each(|message| self.mask.message(message));
                state.open = Some(turn.clone());
            }
            TurnEvent::EntryAdded { entry } => self.added(state, channel, entry),
            TurnEvent::Ended(end) => self.ended(state, end),
            TurnEvent::Undone { from_seq, to_seq, .. } => state.take_back(*from_seq, *to_seq),
            TurnEvent::SessionStarted { generation } => state.start_session(*generation),
            TurnEvent::ToolUsed(used) => {
                let theirs = state.is_theirs(&used.turn) || used.caused_by.contains(self.survey.person());
                self.mask.people(&mut used.caused_by);
                if theirs {
                    used.arguments = erased_arguments();
                    used.error = used.error.take().map(|_| ERASED.to_owned());
                } else {
                    self.mention(|mask| mask.value(&mut used.arguments) | mask.option(&mut used.error));
                }
            }
            TurnEvent::ModelChosen { reason, .. } => drop(self.mention(|mask| mask.text(reason))),
            TurnEvent::UsageReported { caused_by, .. } => self.mask.people(caused_by),
            TurnEvent::Interrupted { .. } | TurnEvent::ModelLearnt(_) | TurnEvent::HistoryWithheld { .. } => {
            }
        }
    }

    /// Something of another person's: counted when anything was taken out of it.
    fn mention(&mut self, mask: impl FnOnce(&Mask) -> bool) -> bool {
        let changed = mask(&self.mask);
        self.figures.mentions += u64::from(changed);
        changed
    }

    fn accepted(&mut self, state: &mut ChannelErasure, channel: &ChannelId, pending: &mut Pending) {
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
            pending.tokens = pending_tokens(pending);
        }
        state.accept(pending, theirs);
    }

    fn added(&mut self, state: &mut ChannelErasure, channel: &ChannelId, entry: &mut Entry) {
        let by_them = entry.author.as_ref().is_some_and(|author| self.survey.is_theirs(author));
        let theirs = by_them || (entry.role != Role::User && state.is_theirs(&entry.turn));
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
            entry.provider_state = None;
            entry.tool_calls.iter_mut().for_each(|call| call.arguments = erased_arguments());
            true
        } else {
            self.mention(|mask| {
                let calls = entry.tool_calls.iter_mut();
                let in_calls = calls.fold(false, |changed, call| changed | mask.value(&mut call.arguments));
                mask.parts(&mut entry.parts) | mask.option(&mut entry.reasoning) | in_calls
            })
        };
        let given = entry.provider_state.take_if(|given| !self.keeps_state(channel, given));
        let changed = changed || given.is_some();
        if changed {
            entry.tokens = entry_tokens(entry);
        }
        state.add(entry, theirs);
    }

    /// Nobody can read what is encrypted: where they took part, what a provider gave goes as a whole.
    fn keeps_state(&self, channel: &ChannelId, state: &ProviderState) -> bool {
        !self.survey.took_part(channel) && !state.values().any(|value| self.mask.value(&mut value.clone()))
    }

    fn ended(&mut self, state: &mut ChannelErasure, end: &mut TurnEnd) {
        self.keep_ids(&mut end.recalled);
        if let TurnOutcome::Failed { message, .. } = &mut end.outcome {
            if state.is_theirs(&end.turn) {
                ERASED.clone_into(message);
            } else {
                self.mention(|mask| mask.text(message));
            }
        }
        state.open.take_if(|open| *open == end.turn);
    }

    fn stored(
        &mut self,
        state: &ChannelErasure,
        channel: &ChannelId,
        at: Timestamp,
        artifact: &mut Artifact,
    ) {
        let named = (channel.clone(), artifact.id.clone());
        if state.is_open_theirs() {
            self.artifacts.insert(named.clone());
        }
        if self.artifacts.contains(&named) || self.is_renamed(channel) {
            self.figures.artifacts += 1;
            artifact.expired_at.get_or_insert(at);
        }
    }

    fn approval(&mut self, state: &ChannelErasure, event: &mut ApprovalEvent) {
        match event {
            ApprovalEvent::Asked { approval } => {
                let theirs =
                    state.is_theirs(&approval.turn) || approval.caused_by.contains(self.survey.person());
                self.mask.people(&mut approval.caused_by);
                self.mention(|mask| mask.text(&mut approval.reason));
                if theirs {
                    approval.arguments = erased_arguments();
                } else {
                    self.mention(|mask| mask.value(&mut approval.arguments));
                }
            }
            ApprovalEvent::Settled { by, .. } => by.iter_mut().for_each(|by| self.mask.person(by)),
        }
    }

    fn delivery(&mut self, state: &mut ChannelErasure, channel: &ChannelId, event: &mut DeliveryEvent) {
        self.mask.delivery(event.id_mut(), channel);
        match event {
            DeliveryEvent::Intended { id, turn, note, reply_to, edits, draft, .. } => {
                self.mask.message_option(reply_to);
                self.mask.message_option(edits);
                if !state.is_theirs(turn) {
                    self.mention(|mask| mask.option(note));
                    return;
                }
                *note = note.take().map(|_| ERASED.to_owned());
                if !*draft {
                    state.owed.insert(id.clone(), turn.clone());
                }
            }
            DeliveryEvent::PutOff { reason, .. } => drop(self.mention(|mask| mask.text(reason))),
            DeliveryEvent::Sent { message, .. } => self.mask.message(message),
            DeliveryEvent::Settled { id, receipt: Receipt::Delivered { messages } } => {
                state.owed.remove(id);
                messages.iter_mut().for_each(|message| self.mask.message(message));
            }
            // It may be tried again.
            DeliveryEvent::Settled {
                receipt: Receipt::Dead { reason } | Receipt::Unknown { reason, .. },
                ..
            } => {
                self.mention(|mask| mask.text(reason));
            }
            DeliveryEvent::Dropped { id } => drop(state.owed.remove(id)),
            DeliveryEvent::Attempted { .. } | DeliveryEvent::Retried { .. } => {}
        }
    }

    fn compaction(
        &mut self,
        state: &mut ChannelErasure,
        channel: &ChannelId,
        event: &mut CompactionEvent,
    ) -> bool {
        match event {
            CompactionEvent::RunStarted { run } => {
                self.run(state, channel, run);
                state.run = Some(run.clone());
            }
            CompactionEvent::RunQueued { request } => self.instruction(channel, &mut request.instruction),
            CompactionEvent::RunAttemptFailed { reason, .. } => drop(self.mention(|mask| mask.text(reason))),
            CompactionEvent::RunCheckpointed { run, checkpoint } => {
                let current = state.run.as_ref().filter(|current| current.id == *run);
                let from = current.map(|run| run.from_seq).unwrap_or_default();
                return self.keeps_checkpoint(state, from, checkpoint);
            }
            CompactionEvent::RunEnded(end) => self.run_ended(state, end),
            CompactionEvent::EmergencyApplied { marker, .. } | CompactionEvent::StackRetired { marker } => {
                self.marker(state, marker);
            }
            CompactionEvent::WindowSlid { marker, .. } => {
                self.marker(state, marker);
                state.forget(marker.to_seq);
            }
            CompactionEvent::ResultsPruned { results, .. } => {
                for pruned in results.iter_mut().filter(|pruned| state.is_erased(pruned.seq)) {
                    // It is as short as it will ever be.
                    pruned.whole_bytes = ERASED.len() as u64;
                }
            }
            CompactionEvent::UsageSpent { trace, .. } => {
                if let Some(work) = trace.as_mut().and_then(|trace| trace.work.as_mut()) {
                    self.talk(state, work);
                }
            }
        }
        true
    }

    /// What the model of a run said before it was asked again: gone where it read their words, or a merge of what others
    /// made of them.
    fn talk(&mut self, state: &ChannelErasure, work: &mut RunCall) {
        if work.entries.is_none_or(|(from, to)| state.is_touched(from, to)) {
            work.added.clear();
        }
        for message in &mut work.added {
            self.mention(|mask| match message {
                ChatMessage::User { parts } => mask.parts(parts),
                ChatMessage::Assistant { text, tool_calls, provider_state } => {
                    provider_state.take();
                    let calls = tool_calls.iter_mut();
                    calls.fold(mask.text(text), |changed, call| changed | mask.value(&mut call.arguments))
                }
                ChatMessage::Tool { text, .. } | ChatMessage::Context { text } => mask.text(text),
            });
        }
    }

    /// In a channel where they gave instructions, nobody knows whose these were: they go.
    fn instruction(&mut self, channel: &ChannelId, instruction: &mut Option<String>) {
        if self.survey.instructed.contains(channel) {
            *instruction = instruction.take().map(|_| ERASED.to_owned());
        } else {
            self.mention(|mask| mask.option(instruction));
        }
    }

    fn run(&mut self, state: &ChannelErasure, channel: &ChannelId, run: &mut Run) {
        self.instruction(channel, &mut run.instruction);
        self.mention(|mask| mask.option(&mut run.failure));
        run.checkpoint.take_if(|checkpoint| !self.keeps_checkpoint(state, run.from_seq, checkpoint));
    }

    /// What the chunks of a run have come to, unless it is made of their words: then the run begins again.
    fn keeps_checkpoint(&mut self, state: &ChannelErasure, from: Seq, checkpoint: &mut Checkpoint) -> bool {
        if state.is_touched(from, checkpoint.to_seq) {
            return false;
        }
        self.keep_drafts(&mut checkpoint.memories);
        self.mention(|mask| mask.text(&mut checkpoint.text));
        true
    }

    fn run_ended(&mut self, state: &mut ChannelErasure, end: &mut RunEnd) {
        self.mention(|mask| mask.option(&mut end.reason));
        let saves = std::mem::take(&mut end.memories);
        end.memories = saves.into_iter().filter_map(|save| self.save(Some(state), save)).collect();
        if let Some(summary) = &mut end.summary {
            let touched = state.is_touched(summary.from_seq, summary.to_seq);
            if touched {
                state.remake(summary, &self.mask);
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
        state.end_run(end);
    }

    fn marker(&mut self, state: &ChannelErasure, marker: &mut Marker) {
        let before = marker.digest.len();
        marker.digest.retain(|line| !state.is_erased(line.seq));
        let lines = &mut marker.digest;
        let cleaned = self.mention(|mask| {
            lines.iter_mut().fold(false, |changed, line| changed | mask.text(&mut line.text))
        });
        if cleaned || marker.digest.len() < before {
            marker.tokens = marker_tokens(marker);
        }
    }

    fn memory(&mut self, state: Option<&ChannelErasure>, event: &mut MemoryEvent) -> bool {
        match event {
            MemoryEvent::Saved(save) => match self.save(state, save.clone()) {
                Some(kept) => *save = kept,
                None => return false,
            },
            MemoryEvent::Edited { id, text, .. } => {
                if self.is_lost(id) {
                    return false;
                }
                if self.mention(|mask| mask.option(text)) {
                    self.cleaned.insert(id.clone());
                }
                *id = self.moved_to(id);
            }
            MemoryEvent::Forgotten { id } => {
                if self.is_lost(id) {
                    return false;
                }
                *id = self.moved_to(id);
            }
            MemoryEvent::Recalled { ids, scores, near, .. } => {
                let kept: Vec<bool> = ids.iter().map(|id| !self.is_lost(id)).collect();
                let mut kept = kept.into_iter();
                scores.retain(|_| kept.next().unwrap_or_default());
                near.retain(|(id, _)| !self.is_lost(id));
                near.iter_mut().for_each(|(id, _)| *id = self.moved_to(id));
                self.keep_ids(ids);
            }
        }
        true
    }

    /// A save as it is kept; `None`: it goes. `state`: the channel that it is journalled in, when it is one.
    fn save(&mut self, state: Option<&ChannelErasure>, mut save: MemorySave) -> Option<MemorySave> {
        let id = mint_id(&save.fingerprint());
        if self.is_gone(state, &save) {
            if !self.kept.contains(&id) {
                self.forgotten.insert(id);
            }
            self.figures.memories += 1;
            return None;
        }
        self.kept.insert(id.clone());
        if self.mention(|mask| mask.text(&mut save.text) | mask.option(&mut save.subject)) {
            self.cleaned.insert(id.clone());
        }
        let channel = save.source.channel.clone();
        self.mask.sighting(&mut save.sighting, channel.as_ref());
        self.mask.scope(&mut save.scope);
        self.mask.source(&mut save.source);
        // The id derives from agent, scope and text.
        let renamed = mint_id(&save.fingerprint());
        if renamed != id {
            self.moved.insert(id, renamed);
        }
        Some(save)
    }

    /// It is in their scope, by them, about them, or of their private chat, or was found where they spoke. There a memory of
    /// somebody else stays, unless nobody else spoke.
    fn is_gone(&self, state: Option<&ChannelErasure>, save: &MemorySave) -> bool {
        let of_others = self.survey.is_of_others(save);
        let subject = save.subject.as_deref();
        if self.survey.is_of_them(save)
            || self.is_about_them(subject, Some(&save.scope), &save.text, of_others)
        {
            return true;
        }
        let source = &save.source;
        if source.channel.as_ref().is_some_and(|channel| self.survey.is_private(channel)) {
            return true;
        }
        let found_in = state.or_else(|| self.channels.get(source.channel.as_ref()?));
        match (found_in, source.from_seq, source.to_seq) {
            (Some(state), Some(from), Some(to)) => {
                state.is_theirs_alone(from, to) || (!of_others && state.is_touched(from, to))
            }
            _ => false,
        }
    }

    /// What they are called is its subject; somebody else who is called alike keeps their own. One without a subject that is
    /// nobody else's is about whom it names.
    fn is_about_them(
        &self,
        subject: Option<&str>,
        scope: Option<&Scope>,
        text: &str,
        of_others: bool,
    ) -> bool {
        match subject {
            Some(subject) if matches!(scope, Some(Scope::User { .. })) && self.survey.is_other(subject) => {
                false
            }
            Some(subject) => self.mask.is_called(subject) || (!of_others && self.mask.names(subject)),
            None => !of_others && self.mask.names(text),
        }
    }

    /// Those that a run found where they did not speak, and has not saved yet.
    fn keep_drafts(&self, drafts: &mut Vec<DraftMemory>) {
        drafts.retain(|draft| {
            let subject = draft.subject.as_deref();
            let of_others =
                draft.by.is_some() || subject.is_some_and(|subject| self.survey.is_other(subject));
            !self.is_about_them(subject, None, &draft.text, of_others)
        });
        for draft in drafts {
            self.mask.text(&mut draft.text);
            self.mask.option(&mut draft.subject);
            draft.by.iter_mut().for_each(|by| self.mask.author(by));
        }
    }

    /// Ids of memories that are still there.
    fn keep_ids(&self, ids: &mut Vec<MemoryId>) {
        ids.retain(|id| !self.is_lost(id));
        ids.iter_mut().for_each(|id| *id = self.moved_to(id));
    }

    fn moved_to(&self, id: &MemoryId) -> MemoryId {
        self.moved.get(id).unwrap_or(id).clone()
    }

    fn is_lost(&self, id: &MemoryId) -> bool {
        self.forgotten.contains(id) && !self.kept.contains(id)
    }
}

/// Arguments of a call as they are kept: none.
fn erased_arguments() -> Value {
    json!({})
}
