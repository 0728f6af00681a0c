//! What people and other parts of the runtime ask of a channel.

use cairn_core::compaction::{NothingToCompact, give_up, request_manual};
use cairn_core::conversation::Conversation;
use cairn_core::engine::MakeRoom;
use cairn_core::event::{CompactionEvent, Event, RunOutcome, RunRequest, Trigger, TurnEvent};
use cairn_core::ids::{Generation, RunId};

use super::ChannelState;
use super::journal::Fault;
use crate::compactor::CompactorMsg;
use crate::runtime::{Compaction, RoomMade, RunTicket, RuntimeError};

/// Runs that may wait behind the one under way because people asked for them.
const QUEUED_MAX: usize = 4;

impl ChannelState {
    /// Starts a compaction, or queues one behind the run under way; when that run leaves nothing more to compact and has the
    /// same instruction, it is the one that was asked for. An engine without runs makes room at once. `tell`: the chat is
    /// told how it ends.
    pub(super) async fn compact(
        &mut self,
        instruction: Option<String>,
        tell: bool,
    ) -> Result<Result<Compaction, RuntimeError>, Fault> {
        if self.handle.engine_info().owns_compaction {
            return self.make_room().await;
        }
        let now = self.shared.now();
        let settings = &self.handle.settings();
        if let Err(limited) = self.shared.admit_spend() {
            return Ok(Err(RuntimeError::Limited(limited.words)));
        }
        if let Some(run) = self.handle.read(|conversation| queued_already(conversation, &instruction)) {
            return Ok(Ok(Compaction::Run(self.ticket(run, true, true))));
        }
        if self.handle.read(|conversation| conversation.queued_runs.len()) >= QUEUED_MAX {
            let words = format!("{QUEUED_MAX} compactions wait already; ask again when they are done");
            return Ok(Err(RuntimeError::Limited(words)));
        }
        let asked =
            self.handle.read(|conversation| request_manual(conversation, settings, instruction, tell, now));
        let Some(event) = asked else { return Ok(Ok(self.run_under_way(tell))) };
        if let Err(error) = self.commit(vec![event]).await? {
            return Ok(Err(RuntimeError::Store(error)));
        }
        // Queued runs of people come before all others, so that the id can be told already.
        let (n_queued, run) = self.handle.read(|conversation| {
            let n_queued = conversation.queued_runs.len() as u64;
            (n_queued, RunId::from(format!("r{}", conversation.runs + n_queued)))
        });
        let ticket = self.ticket(run, n_queued > 0, false);
        self.handle.tell_compactor(CompactorMsg::Look);
        Ok(Ok(Compaction::Run(ticket)))
    }

    fn ticket(&self, run: RunId, queued: bool, joined: bool) -> RunTicket {
        let ended = self.handle.subscribers.join_run(&run);
        RunTicket { run, queued, joined, ended }
    }

    fn run_under_way(&mut self, tell: bool) -> Compaction {
        let run = self.handle.read(|conversation| conversation.run.as_ref().map(|run| run.id.clone()));
        let Some(run) = run else { return self.nothing() };
        if tell {
            self.told_of.insert(run.clone());
        }
        Compaction::Run(self.ticket(run, false, true))
    }

    async fn make_room(&mut self) -> Result<Result<Compaction, RuntimeError>, Fault> {
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let conversation = self.handle.snapshot();
        let events = self.handle.engine.compact(&conversation, &settings, MakeRoom::Manual, now);
        drop(conversation);
        let made = events.iter().find_map(|event| match event {
            Event::Compaction(CompactionEvent::WindowSlid {
                messages, tokens_before, tokens_after, ..
            }) => Some(RoomMade {
                messages: *messages,
                tokens_before: *tokens_before,
                tokens_after: *tokens_after,
            }),
            _ => None,
        });
        if let Err(error) = self.commit(events).await? {
            return Ok(Err(RuntimeError::Store(error)));
        }
        Ok(Ok(made.map_or_else(|| self.nothing(), Compaction::Made)))
    }

    fn nothing(&self) -> Compaction {
        let settings = &self.handle.settings();
        let why = self.handle.read(|conversation| NothingToCompact::of(conversation, settings));
        Compaction::Nothing(why)
    }

    /// Archives everything and starts a new conversation.
    pub(super) async fn new_generation(&mut self) -> Result<Result<Generation, RuntimeError>, Fault> {
        if self.unsaved.is_some() {
            self.try_again().await?;
        }
        if let Some(closing) = &self.unsaved {
            tracing::debug!(channel = %self.handle.id, turn = %closing.turn(), "the store is not well yet");
            return Ok(Err(RuntimeError::Interrupted(self.handle.id.clone())));
        }
        // Nothing new begins between the end of this generation and the next.
        let was_draining = std::mem::replace(&mut self.draining, true);
        let result = self.archive_all().await;
        self.draining = was_draining;
        let generation = result?;
        self.go_on().await?;
        Ok(generation)
    }

    async fn archive_all(&mut self) -> Result<Result<Generation, RuntimeError>, Fault> {
        if let Err(error) = self.stop_open_turn().await? {
            return Ok(Err(RuntimeError::Store(error)));
        }
        let (now, settings) = (self.shared.now(), self.handle.settings());
        let (cancelled, generation) = self.handle.read(|conversation| {
            let reason = "a new generation began";
            let cancelled = give_up(conversation, &settings, RunOutcome::Cancelled, reason, now);
            (cancelled, Generation(conversation.generation.0 + 1))
        });
        let mut events: Vec<Event> = cancelled.into_iter().collect();
        events.push(Event::Turn(TurnEvent::SessionStarted { generation }));
        if let Err(error) = self.commit(events).await? {
            return Ok(Err(RuntimeError::Store(error)));
        }
        self.handle.subscribers.forget_runs();
        self.handle.read(|conversation| self.handle.engine.reset(conversation));
        self.handle.tell_compactor(CompactorMsg::Look);
        tracing::info!(channel = %self.handle.id, generation = generation.0, "a new generation began");
        Ok(Ok(generation))
    }

    /// Stops the open turn; the next pending message follows.
    pub(super) async fn stop_turn(&mut self) -> Result<Result<bool, RuntimeError>, Fault> {
        Ok(self.stop_open_turn().await?.map_err(RuntimeError::Store))
    }
}

/// The run that the same was asked of before, and that has not begun yet.
fn queued_already(conversation: &Conversation, instruction: &Option<String>) -> Option<RunId> {
    let is_same =
        |queued: &RunRequest| queued.trigger == Trigger::Manual && queued.instruction == *instruction;
    let idx = conversation.queued_runs.iter().position(is_same)?;
    Some(RunId::from(format!("r{}", conversation.runs + idx as u64 + 1)))
}
