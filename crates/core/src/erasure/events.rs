//! How each event is rewritten in place: whose it is, what of it goes by hand, its texts and ids, and what is learnt of its channel.

use jiff::Timestamp;

use super::channel::ChannelErasure;
use super::rewrite::Rewrite;
use super::{ERASED, Eraser};
use crate::memory::id_on_line;
use crate::notice::report_id;
use cairn_types::event::{
    ApprovalEvent, ArtifactEvent, Checkpoint, CompactionEvent, DeliveryEvent, Event, MaintenanceEvent,
    MemoryEvent, MessageEvent, Receipt, RegistryEvent, ReminderEvent, RunEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ChannelId, MemoryId, RunId, Seq};
use cairn_types::memory::{DraftMemory, MemorySave, Scope, mint_id};
use cairn_types::message::{Artifact, Entry, Pending, Role, fingerprint, pending_tokens, text_of};
use cairn_types::model::ChatMessage;
use cairn_types::summary::{Marker, marker_tokens};
use cairn_types::trace::CallTrace;

impl Eraser {
    /// Rewrites an event of no channel. False: it goes.
    pub(super) fn outside(&mut self, event: &mut Event) -> bool {
        let stays = match event {
            Event::Registry(event) => self.keeps_registered(event),
            Event::Maintenance(MaintenanceEvent::WordsExpired { channel, .. }) => {
                !self.survey.is_private(channel)
            }
            Event::Memory(event) => self.keeps_memory(None, event),
            _ => true,
        };
        if stays {
            self.rewrite(None, false, event);
        }
        stays
    }

    /// Rewrites an event of a channel that stays. False: it goes.
    pub(super) fn within(
        &mut self,
        state: &mut ChannelErasure,
        channel: &ChannelId,
        at: Timestamp,
        event: &mut Event,
    ) -> bool {
        let is_theirs = self.is_theirs(state, channel, event);
        let quotes_them = match event {
            Event::Message(
                MessageEvent::Accepted(Pending { parts, .. }) | MessageEvent::Edited { parts, .. },
            ) => self.mask.is_quoted_in(parts),
            _ => false,
        };
        match event {
            Event::Message(event) if is_theirs => self.message(channel, event),
            Event::Turn(event) => self.turn(state, channel, is_theirs, event),
            Event::Artifact(event) => self.artifact(state, channel, at, event),
            _ => {}
        }
        let stays = match event {
            Event::Compaction(event) => self.compaction(state, channel, event),
            Event::Memory(event) => self.keeps_memory(Some(state), event),
            Event::Registry(event) => self.keeps_registered(event),
            Event::Reminder(ReminderEvent::Set(reminder)) => !self.survey.is_theirs(&reminder.by),
            Event::Message(MessageEvent::Reacted { by, .. }) => !self.survey.is_theirs(by),
            _ => true,
        };
        if stays {
            self.rewrite(Some(channel), is_theirs, event);
            learn(state, is_theirs, quotes_them, event);
        }
        stays
    }

    /// What the event says is theirs, or was said in answer to them.
    fn is_theirs(&mut self, state: &ChannelErasure, channel: &ChannelId, event: &Event) -> bool {
        let person = self.survey.person();
        match event {
            Event::Message(MessageEvent::Accepted(pending)) => self.survey.is_theirs(&pending.author),
            Event::Message(MessageEvent::SystemSet { author, .. }) => self.survey.is_theirs(author),
            Event::Message(MessageEvent::Edited { message, .. }) => {
                let mut message = message.clone();
                self.mask.message(&mut message);
                state.is_pending_theirs(&message)
            }
            Event::Turn(TurnEvent::EntryAdded { entry }) => {
                self.is_by_them(entry)
                    || (entry.role != Role::User && state.is_theirs(&entry.turn))
                    || self.survey.is_quoted(entry)
                    || state.may_quote(entry)
            }
            Event::Turn(TurnEvent::Ended(end)) => state.is_theirs(&end.turn),
            Event::Turn(TurnEvent::ToolUsed(used)) => {
                state.is_theirs(&used.turn) || used.caused_by.contains(person)
            }
            Event::Approval(ApprovalEvent::Asked { approval }) => {
                state.is_theirs(&approval.turn) || approval.caused_by.contains(person)
            }
            Event::Delivery(DeliveryEvent::Intended { id, turn, seq, note, .. }) => {
                let tells = |run: &RunId| *id == report_id(channel, run);
                state.is_theirs(turn)
                    || (note.is_none() && state.is_erased(*seq))
                    || state.remade.as_ref().is_some_and(tells)
            }
            Event::Delivery(event) => {
                let mut id = event.id().clone();
                self.mask.delivery(&mut id, channel);
                state.owed.contains_key(&id)
            }
            _ => false,
        }
    }

    fn is_by_them(&self, entry: &Entry) -> bool {
        entry.author.as_ref().is_some_and(|author| self.survey.is_theirs(author))
    }

    /// Has the texts and ids of an event without them.
    fn rewrite(&mut self, channel: Option<&ChannelId>, is_theirs: bool, event: &mut Event) {
        let before = memories(event);
        let mut rewrite = Rewrite {
            mask: &mut self.mask,
            moved: &self.moved,
            channel,
            is_theirs,
            took_part: channel.is_some_and(|channel| self.survey.took_part(channel)),
            mentioned: false,
        };
        event.visit_mut(&mut rewrite);
        self.figures.mentions += u64::from(rewrite.mentioned);
        for ((id, words), (now, left)) in before.into_iter().zip(memories(event)) {
            if words != left {
                self.cleaned.insert(id.clone());
            }
            // It derives from agent, scope and text.
            if id != now {
                self.moved.insert(id, now);
            }
        }
    }

    /// Pairings and bans of theirs go.
    fn keeps_registered(&self, event: &RegistryEvent) -> bool {
        match event {
            RegistryEvent::PairingRequested { user, .. } => !self.survey.is_theirs(user),
            RegistryEvent::PairingApproved { user }
            | RegistryEvent::PairingRevoked { user }
            | RegistryEvent::BanLifted { user }
            | RegistryEvent::BanSet { user, .. } => user != self.survey.person(),
            RegistryEvent::PrivacySet { user, chat, .. } => chat.is_some() || user != self.survey.person(),
            RegistryEvent::AccessSet { .. }
            | RegistryEvent::ChatMigrated { .. }
            | RegistryEvent::ServerApproved { .. }
            | RegistryEvent::ServerRevoked { .. } => true,
        }
    }

    /// Nobody waits any more for the answer to a message of theirs that no turn took up.
    fn message(&mut self, channel: &ChannelId, event: &mut MessageEvent) {
        match event {
            MessageEvent::Accepted(pending) => {
                self.figures.entries += 1;
                self.figures.expired += u64::from(pending.parts.is_empty());
                pending.addressed &= !self.survey.waits(channel, &pending.message);
            }
            MessageEvent::Edited { message, addressed, .. } => {
                *addressed &= !self.survey.waits(channel, message);
            }
            _ => {}
        }
    }

    fn turn(
        &mut self,
        state: &mut ChannelErasure,
        channel: &ChannelId,
        is_theirs: bool,
        event: &mut TurnEvent,
    ) {
        match event {
            TurnEvent::EntryAdded { entry } if is_theirs => {
                if let Some(artifact) = &entry.artifact
                    && self.artifacts.insert((channel.clone(), artifact.clone()))
                {
                    // Its own record came before, and says that it stays.
                    self.figures.artifacts += 1;
                    state.gone.push(artifact.clone());
                }
                if self.is_by_them(entry) {
                    self.figures.entries += 1
                } else {
                    self.figures.answers += 1
                }
                entry.reasoning = None;
            }
            TurnEvent::Ended(end) => {
                end.recalled.retain(|id| !self.is_lost(id));
                if let TurnOutcome::Failed { message, .. } = &mut end.outcome {
                    forget_error(state, message);
                }
            }
            TurnEvent::ModelChosen { reason, .. } => forget_error(state, reason),
            TurnEvent::UsageReported { trace: Some(trace), .. } => self.forget_talk(state, trace),
            _ => {}
        }
    }

    fn artifact(
        &mut self,
        state: &mut ChannelErasure,
        channel: &ChannelId,
        at: Timestamp,
        event: &mut ArtifactEvent,
    ) {
        match event {
            ArtifactEvent::Stored { artifact } => self.stored(state, channel, at, artifact),
            ArtifactEvent::Used { id } => {
                state.reads_theirs = self.artifacts.contains(&(channel.clone(), id.clone()));
            }
            ArtifactEvent::Expired { .. } => {}
        }
    }

    fn stored(
        &mut self,
        state: &ChannelErasure,
        channel: &ChannelId,
        at: Timestamp,
        artifact: &mut Artifact,
    ) {
        let named = (channel.clone(), artifact.id.clone());
        let is_theirs = match artifact.sent_in.clone() {
            // Whoever sent it: a turn of somebody else may be open.
            Some(mut message) => {
                self.mask.message(&mut message);
                state.is_pending_theirs(&message) || state.quotes_pending(&message)
            }
            None => state.is_open_theirs() || artifact.message.is_some_and(|seq| state.is_erased(seq)),
        };
        if is_theirs || self.is_renamed(channel) {
            self.artifacts.insert(named.clone());
        }
        if self.artifacts.contains(&named) {
            self.figures.artifacts += 1;
            artifact.expired_at.get_or_insert(at);
        }
    }

    /// False: nothing of it stays.
    fn compaction(
        &mut self,
        state: &mut ChannelErasure,
        channel: &ChannelId,
        event: &mut CompactionEvent,
    ) -> bool {
        match event {
            CompactionEvent::RunStarted { run } => {
                self.instruction(channel, &mut run.instruction);
                run.checkpoint.take_if(|done| !self.keeps_checkpoint(state, run.from_seq, done));
            }
            CompactionEvent::RunQueued { request } => self.instruction(channel, &mut request.instruction),
            CompactionEvent::RunCheckpointed { run, checkpoint } => {
                let current = state.run.as_ref().filter(|current| current.id == *run);
                let from = current.map(|run| run.from_seq).unwrap_or_default();
                return self.keeps_checkpoint(state, from, checkpoint);
            }
            CompactionEvent::RunEnded(end) => self.run_ended(state, end),
            CompactionEvent::EmergencyApplied { marker, .. }
            | CompactionEvent::StackRetired { marker }
            | CompactionEvent::WindowSlid { marker, .. } => unquote(state, marker),
            CompactionEvent::ResultsPruned { results, .. } => {
                for pruned in results.iter_mut().filter(|pruned| state.is_erased(pruned.seq)) {
                    // It is as short as it will ever be.
                    pruned.whole_bytes = ERASED.len() as u64;
                }
            }
            CompactionEvent::UsageSpent { trace: Some(trace), .. } => self.forget_talk(state, trace),
            CompactionEvent::UsageSpent { trace: None, .. } | CompactionEvent::RunAttemptFailed { .. } => {}
        }
        true
    }

    /// In a channel where they gave instructions, nobody knows whose these were: they go.
    fn instruction(&self, channel: &ChannelId, instruction: &mut Option<String>) {
        if self.survey.instructed.contains(channel) {
            *instruction = instruction.take().map(|_| ERASED.to_owned());
        }
    }

    /// What the chunks of a run have come to, unless it is made of their words: then the run begins again.
    fn keeps_checkpoint(&self, state: &ChannelErasure, from: Seq, checkpoint: &mut Checkpoint) -> bool {
        checkpoint.memories.retain(|draft| self.keeps_draft(draft));
        !state.is_touched(from, checkpoint.to_seq)
    }

    fn run_ended(&mut self, state: &mut ChannelErasure, end: &mut RunEnd) {
        end.memories.retain(|save| self.keeps_save(Some(state), save));
        if let Some(summary) = &mut end.summary
            && state.is_touched(summary.from_seq, summary.to_seq)
        {
            state.remake(summary, &self.mask);
            state.remade = Some(end.run.clone());
            self.figures.summaries += 1;
        }
    }

    fn keeps_memory(&mut self, state: Option<&ChannelErasure>, event: &mut MemoryEvent) -> bool {
        match event {
            MemoryEvent::Saved(save) => self.keeps_save(state, save),
            MemoryEvent::Edited { id, .. } | MemoryEvent::Forgotten { id, .. } => !self.is_lost(id),
            MemoryEvent::Recalled { ids, scores, near, .. } => {
                let mut kept = ids.iter().map(|id| !self.is_lost(id));
                scores.retain(|_| kept.next().unwrap_or_default());
                near.retain(|(id, _)| !self.is_lost(id));
                ids.retain(|id| !self.is_lost(id));
                true
            }
        }
    }

    /// `state`: the channel that it is journalled in, when it is one.
    fn keeps_save(&mut self, state: Option<&ChannelErasure>, save: &MemorySave) -> bool {
        let id = mint_id(&save.fingerprint());
        let stays = !self.is_gone(state, save);
        if stays {
            self.kept.insert(id);
        } else {
            if !self.kept.contains(&id) {
                self.forgotten.insert(id);
            }
            self.figures.memories += 1;
        }
        stays
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

    /// A memory that a run found where they did not speak, and has not saved yet.
    fn keeps_draft(&self, draft: &DraftMemory) -> bool {
        let subject = draft.subject.as_deref();
        let of_others = draft.by.is_some() || subject.is_some_and(|subject| self.survey.is_other(subject));
        !self.is_about_them(subject, None, &draft.text, of_others)
    }

    fn is_lost(&self, id: &MemoryId) -> bool {
        self.forgotten.contains(id) && !self.kept.contains(id)
    }

    /// What the model of a run said and was told goes where it read their words, was a merge of what others made of them, or was
    /// told of a memory that is lost.
    fn forget_talk(&self, state: &ChannelErasure, trace: &mut CallTrace) {
        if let Some(work) = &mut trace.work
            && (work.entries.is_none_or(|(from, to)| state.is_touched(from, to))
                || work.added.iter().any(|message| self.tells_of_lost(message)))
        {
            work.added.clear();
        }
    }

    /// Whether a message lists a memory that is lost.
    fn tells_of_lost(&self, message: &ChatMessage) -> bool {
        let listed = |line: &str| id_on_line(line).is_some_and(|id| self.is_lost(&id));
        match message {
            ChatMessage::User { parts } => text_of(parts).lines().any(listed),
            ChatMessage::Tool { text, .. } => text.lines().any(listed),
            ChatMessage::Assistant { .. } | ChatMessage::Context { .. } => false,
        }
    }
}

/// The memories of an event, with their texts.
fn memories(event: &Event) -> Vec<(MemoryId, [Option<String>; 2])> {
    let saves = match event {
        Event::Memory(MemoryEvent::Edited { id, text, .. }) => {
            return vec![(id.clone(), [text.clone(), None])];
        }
        Event::Memory(MemoryEvent::Saved(save)) => std::slice::from_ref(save),
        Event::Compaction(CompactionEvent::RunEnded(end)) => &end.memories,
        _ => &[],
    };
    let known =
        |save: &MemorySave| (mint_id(&save.fingerprint()), [Some(save.text.clone()), save.subject.clone()]);
    saves.iter().map(known).collect()
}

/// What a model's server says of a request may repeat it.
fn forget_error(state: &ChannelErasure, message: &mut String) {
    if state.has_theirs() {
        ERASED.clone_into(message);
    }
}

/// Lines of entries that are erased, or quoted them, go.
fn unquote(state: &ChannelErasure, marker: &mut Marker) {
    let before = marker.digest.len();
    marker.digest.retain(|line| !state.is_changed(line.seq));
    if marker.digest.len() < before {
        marker.tokens = marker_tokens(marker);
    }
}

/// Learns what an event says of its channel, as it was rewritten.
fn learn(state: &mut ChannelErasure, is_theirs: bool, quotes_them: bool, event: &mut Event) {
    match event {
        Event::Message(MessageEvent::Accepted(pending)) => state.accept(pending, is_theirs, quotes_them),
        Event::Message(MessageEvent::Edited { message, parts, fingerprint: hash, tokens, .. }) => {
            state.edit(message, parts, quotes_them);
            (*hash, *tokens) = match state.pending(message) {
                Some(pending) => (fingerprint(&pending.author, parts), pending_tokens(pending)),
                None => (String::new(), 0),
            };
        }
        Event::Message(MessageEvent::Deleted { message, seqs }) => state.delete(message, seqs),
        Event::Turn(
            TurnEvent::Started { turn, messages, first_seq }
            | TurnEvent::Joined { turn, messages, first_seq },
        ) => {
            state.take_up(turn, messages, *first_seq);
        }
        Event::Turn(TurnEvent::Reopened { turn, .. }) => state.open = Some(turn.clone()),
        Event::Turn(TurnEvent::EntryAdded { entry }) => state.add(entry, is_theirs),
        Event::Turn(TurnEvent::Ended(end)) => drop(state.open.take_if(|open| *open == end.turn)),
        Event::Turn(TurnEvent::Undone { from_seq, to_seq, .. }) => state.take_back(*from_seq, *to_seq),
        Event::Turn(TurnEvent::SessionStarted { generation }) => state.start_session(*generation),
        Event::Compaction(CompactionEvent::RunStarted { run }) => state.run = Some(run.clone()),
        Event::Compaction(CompactionEvent::RunEnded(end)) => state.end_run(end),
        Event::Compaction(CompactionEvent::WindowSlid { marker, .. }) => state.forget(marker.to_seq),
        Event::Delivery(DeliveryEvent::Intended { id, turn, draft: false, .. }) if is_theirs => {
            state.owed.insert(id.clone(), turn.clone());
        }
        // Another end may be tried again.
        Event::Delivery(DeliveryEvent::Settled { id, receipt: Receipt::Delivered { .. } })
        | Event::Delivery(DeliveryEvent::Dropped { id }) => drop(state.owed.remove(id)),
        _ => {}
    }
}
