//! What a commit causes beside deliveries: events for watchers, logs, metrics, a hint to the compactor, a snapshot.

use cairn_core::awake;
use cairn_core::thrashing::Thrashing;
use cairn_core::window::{Gauge, measure};
use cairn_types::event::{
    ApprovalEvent, CompactionEvent, Event, MemoryEvent, MessageEvent, PruneCause, Record, Run, RunEnd,
    TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{MessageId, TurnId};
use cairn_types::ports::OutboxItem;
use cairn_types::tier::Tier;
use cairn_types::tool::ToolUse;

use super::state::ChannelState;
use super::turns::answer_of;
use crate::events::RuntimeEventKind;
use crate::messages::{CompactorMsg, RouterMsg};
use crate::telemetry;

/// Records after which a snapshot is saved, so that a wake has little to read.
const SNAPSHOT_EVERY: usize = 512;

impl ChannelState {
    /// Reports records that were just folded in.
    pub(super) fn notify_watchers(&mut self, records: &[Record]) {
        self.count_overheard(records);
        self.reported_at = records.last().map_or(self.reported_at, |record| record.at);
        let moves = |event: &Event| {
            !matches!(event, Event::Message(MessageEvent::Accepted(_)))
                && OutboxItem::named_by(event).is_none()
        };
        if !records.iter().any(|record| moves(&record.event)) {
            return;
        }
        let settings = &self.handle.settings();
        let gauge = self.handle.read(|conversation| measure(conversation, settings));
        let mut taken = None;
        for record in records {
            match &record.event {
                Event::Turn(event) => self.report_turn_event(record, event, &mut taken, &gauge),
                Event::Compaction(event) => self.report_compaction(record, event, &gauge),
                Event::Memory(MemoryEvent::Saved(_)) => telemetry::memories(&self.handle.id, "tool", 1),
                Event::Approval(ApprovalEvent::Asked { approval }) => {
                    self.notify(RuntimeEventKind::ApprovalAsked { approval: approval.clone() });
                }
                Event::Approval(ApprovalEvent::Settled { id, outcome, .. }) => {
                    let (approval, outcome) = (id.clone(), *outcome);
                    self.notify(RuntimeEventKind::ApprovalSettled { approval, outcome });
                }
                Event::Message(_)
                | Event::Artifact(_)
                | Event::Memory(_)
                | Event::Delivery(_)
                | Event::Reminder(_)
                | Event::Registry(_)
                | Event::Maintenance(_) => {}
            }
        }
        self.report_tier(&gauge);
        let ends_a_run =
            |record: &Record| matches!(record.event, Event::Compaction(CompactionEvent::RunEnded(_)));
        let ends_a_turn = |record: &Record| matches!(record.event, Event::Turn(TurnEvent::Ended(_)));
        if records.iter().any(|record| ends_a_run(record) || ends_a_turn(record)) {
            self.handle.update_size();
            self.shared.directory.tell_router(RouterMsg::SizeChanged);
        }
        if records.iter().any(ends_a_run) || self.handle.since_snapshot() > SNAPSHOT_EVERY {
            self.save_snapshot();
        }
    }

    /// Counts overheard messages as memory: they end no turn after which the channel's size would be estimated.
    fn count_overheard(&self, records: &[Record]) {
        let overheard = records.iter().filter_map(|record| match &record.event {
            Event::Message(MessageEvent::Accepted(pending)) if !pending.addressed => Some(pending),
            _ => None,
        });
        let bytes: u64 = overheard.map(awake::pending_bytes).sum();
        if bytes > 0 {
            self.handle.add_bytes(bytes);
            self.shared.directory.tell_router(RouterMsg::SizeChanged);
        }
    }

    /// `taken`: the messages of the turn that started in the same batch.
    fn report_turn_event<'a>(
        &mut self,
        record: &Record,
        event: &'a TurnEvent,
        taken: &mut Option<&'a Vec<MessageId>>,
        gauge: &Gauge,
    ) {
        match event {
            TurnEvent::Started { turn, messages, .. } => {
                *taken = Some(messages);
                if !self.importing {
                    self.report_turn_start(turn, messages);
                }
            }
            TurnEvent::Reopened { turn, messages } => self.report_turn_start(turn, messages),
            TurnEvent::UsageReported { model, usage, .. } => {
                self.shared.budgets.count_usage(&self.handle.id, self.authors(), model, *usage, record.at);
            }
            TurnEvent::Ended(end) => {
                if let (TurnOutcome::Unanswered, Some(messages)) = (&end.outcome, taken) {
                    let answer = |message: &MessageId| answer_of(message, end, String::new(), None, None);
                    self.handle.subscribers.end(messages, answer);
                }
                if !self.importing {
                    self.report_turn(end, gauge);
                    let thrashing = self.thrashing.turn(gauge.tier, record.at);
                    self.report_thrashing(thrashing, gauge);
                    self.handle.tell_compactor(CompactorMsg::Look);
                }
            }
            TurnEvent::ToolUsed(used) => self.report_tool(used),
            TurnEvent::Joined { messages, .. } => self.handle.subscribers.joined(messages),
            TurnEvent::EntryAdded { .. }
            | TurnEvent::Interrupted { .. }
            | TurnEvent::Undone { .. }
            | TurnEvent::SessionStarted { .. }
            | TurnEvent::ModelChosen { .. }
            | TurnEvent::HistoryWithheld { .. }
            | TurnEvent::ModelLearnt(_) => {}
        }
    }

    fn report_compaction(&mut self, record: &Record, event: &CompactionEvent, gauge: &Gauge) {
        match event {
            CompactionEvent::RunStarted { run } => self.report_start(run),
            CompactionEvent::RunEnded(end) => {
                self.report_end(end);
                self.asked_for.remove(&end.run);
                let usable = self.handle.settings().window.usable_tokens();
                let thrashing = self.thrashing.run(end, usable, record.at);
                self.report_thrashing(thrashing, gauge);
            }
            CompactionEvent::ResultsPruned { cause, results, scanned, tokens_before, tokens_after } => {
                self.report_pruned(*cause, results.len() as u64, *scanned, *tokens_before, *tokens_after);
            }
            CompactionEvent::WindowSlid { messages, tokens_before, tokens_after, .. } => {
                self.report_slide(*messages, *tokens_before, *tokens_after);
            }
            CompactionEvent::EmergencyApplied { messages, tokens_before, tokens_after, .. } => {
                self.report_emergency(*messages, *tokens_before, *tokens_after);
                // If no summary follows in time, the chat is told.
                self.expect_loss();
            }
            CompactionEvent::RunQueued { .. }
            | CompactionEvent::RunAttemptFailed { .. }
            | CompactionEvent::RunCheckpointed { .. }
            | CompactionEvent::StackRetired { .. }
            | CompactionEvent::UsageSpent { .. } => {}
        }
    }

    fn notify(&self, kind: RuntimeEventKind) {
        self.shared.directory.notify(self.reported_at, &self.handle.id, kind);
    }

    fn report_turn_start(&self, turn: &TurnId, messages: &[MessageId]) {
        let (turn, messages) = (turn.clone(), messages.to_vec());
        self.notify(RuntimeEventKind::TurnStarted { turn, messages });
    }

    fn report_tier(&mut self, gauge: &Gauge) {
        if gauge.tier == self.tier {
            return;
        }
        let from = std::mem::replace(&mut self.tier, gauge.tier);
        let channel = &self.handle.id;
        tracing::debug!(%channel, from = from.name(), to = gauge.tier.name(), "the tier changed");
        let (tokens, usage_ratio) = (gauge.tokens, gauge.usage_ratio);
        self.notify(RuntimeEventKind::TierChanged { from, to: gauge.tier, tokens, usage_ratio });
    }

    fn report_turn(&self, end: &TurnEnd, gauge: &Gauge) {
        let outcome = match &end.outcome {
            TurnOutcome::Answered { .. } => "answered",
            TurnOutcome::Unanswered => "unanswered",
            TurnOutcome::Silent => "silent",
            TurnOutcome::Failed { .. } => "failed",
            TurnOutcome::Stopped => "stopped",
            TurnOutcome::DeadLettered => "dead_lettered",
        };
        let time = self.turn_time();
        let duration_ms = time.as_millis() as u64;
        telemetry::turn(&self.handle.id, outcome, self.turn_times(), gauge.usage_ratio);
        let (channel, model) = (&self.handle.id, end.model.as_deref().unwrap_or("none"));
        if let TurnOutcome::Failed { code, message } = &end.outcome {
            telemetry::error("turn", code);
            tracing::debug!(%channel, turn = %end.turn, message, "what a turn failed with");
            tracing::warn!(%channel, agent = %channel.agent(), turn = %end.turn, code, model, window_tokens = gauge.tokens,
                usage_ratio = gauge.usage_ratio, tier = gauge.tier.name(), duration_ms, "turn failed");
        } else {
            tracing::info!(%channel, agent = %channel.agent(), turn = %end.turn, outcome, model,
                input_tokens = end.usage.input_tokens, output_tokens = end.usage.output_tokens,
                window_tokens = gauge.tokens, usage_ratio = gauge.usage_ratio, tier = gauge.tier.name(),
                duration_ms, "turn ended");
        }
        self.notify(RuntimeEventKind::TurnEnded {
            turn: end.turn.clone(),
            outcome: end.outcome.clone(),
            usage: end.usage,
            tokens: gauge.tokens,
            usage_ratio: gauge.usage_ratio,
            tier: gauge.tier,
            duration_ms,
        });
    }

    fn report_tool(&self, used: &ToolUse) {
        let (channel, outcome) = (&self.handle.id, used.outcome.name());
        let tool = telemetry::tool(&self.handle.settings().tools, &used.tool);
        telemetry::tool_call(&tool, used);
        tracing::info!(%channel, turn = %used.turn, tool, outcome, effect = used.effect.name(),
            duration_ms = used.duration_ms, bytes = used.bytes, "tool call ended");
        self.notify(RuntimeEventKind::ToolEnded {
            turn: used.turn.clone(),
            call: used.call.clone(),
            tool: used.tool.clone(),
            outcome: used.outcome,
            duration_ms: used.duration_ms,
        });
    }

    fn report_start(&mut self, run: &Run) {
        self.run_tier = Some(run.tier);
        let (channel, trigger) = (&self.handle.id, run.trigger.name());
        let tier = run.tier.name();
        metrics::counter!("cairn_runs_started_total", "trigger" => trigger, "tier" => tier).increment(1);
        tracing::info!(%channel, run = %run.id, trigger, tier, from_seq = run.from_seq.0,
            to_seq = run.to_seq.0, messages = run.messages, "compaction run started");
        self.notify(RuntimeEventKind::RunStarted {
            run: run.id.clone(),
            trigger,
            tier: run.tier,
            from_seq: run.from_seq.0,
            to_seq: run.to_seq.0,
            messages: run.messages,
            tokens_before: run.tokens_before,
        });
    }

    fn report_end(&mut self, end: &RunEnd) {
        let tier = self.run_tier.take().map_or("unknown", Tier::name);
        let (channel, trigger, outcome) = (&self.handle.id, end.trigger.name(), end.outcome.name());
        telemetry::run(&self.handle.id, tier, end);
        let made_by = end.summary.as_ref().map(|summary| summary.made_by.clone());
        tracing::debug!(%channel, run = %end.run, reason = end.reason.as_deref(), "why a run ended so");
        tracing::info!(%channel, run = %end.run, trigger, tier, outcome,
            made_by = made_by.as_deref(), messages = end.messages, memories = end.memories.len(),
            tokens_before = end.tokens_before, tokens_after = end.tokens_after, duration_ms = end.duration_ms,
            "compaction run ended");
        self.handle.subscribers.end_run(end);
        self.notify(RuntimeEventKind::RunEnded {
            run: end.run.clone(),
            trigger,
            outcome: end.outcome,
            reason: end.reason.clone(),
            made_by,
            messages: end.messages,
            memories: end.memories.len() as u64,
            tokens_before: end.tokens_before,
            tokens_after: end.tokens_after,
            duration_ms: end.duration_ms,
        });
    }

    fn report_pruned(
        &self,
        cause: PruneCause,
        results: u64,
        scanned: u64,
        tokens_before: u64,
        tokens_after: u64,
    ) {
        let channel = &self.handle.id;
        let tokens_won = tokens_before.saturating_sub(tokens_after);
        metrics::counter!("cairn_pruned_results_total", "cause" => cause.name()).increment(results);
        metrics::counter!("cairn_pruned_tokens_total", "cause" => cause.name()).increment(tokens_won);
        let what = match cause {
            PruneCause::Message => {
                "a message is larger than the window: only its beginning and end are sent; all of it is kept"
            }
            _ => "tool results are sent shortened from now on",
        };
        let cause = cause.name();
        tracing::info!(%channel, cause, scanned, results, tokens_won, tokens_before, tokens_after, "{what}");
        self.notify(RuntimeEventKind::Pruned { cause, results, scanned, tokens_before, tokens_after });
    }

    fn report_thrashing(&self, thrashing: Option<Thrashing>, gauge: &Gauge) {
        let Some(thrashing) = thrashing else { return };
        let kind = thrashing.name();
        metrics::counter!("cairn_thrashing_total", "kind" => kind).increment(1);
        tracing::warn!(channel = %self.handle.id, kind, window_tokens = gauge.tokens,
            usage_ratio = gauge.usage_ratio, "{}", thrashing.remedy());
    }

    fn report_emergency(&self, messages: u64, tokens_before: u64, tokens_after: u64) {
        let channel = &self.handle.id;
        let compaction = &self.handle.settings().compaction;
        metrics::counter!("cairn_emergencies_total", "agent" => telemetry::agent(&self.handle.id))
            .increment(1);
        tracing::warn!(%channel, messages, tokens_before, tokens_after,
            background_threshold = compaction.background_threshold,
            aggressive_threshold = compaction.aggressive_threshold,
            "emergency: the oldest messages left the window before a run had summarised them; a run will summarise \
             them; lower background_threshold and aggressive_threshold of this agent");
        self.notify(RuntimeEventKind::Emergency { messages, tokens_before, tokens_after });
    }

    fn report_slide(&self, messages: u64, tokens_before: u64, tokens_after: u64) {
        let channel = &self.handle.id;
        metrics::counter!("cairn_slides_total").increment(1);
        tracing::info!(%channel, messages, tokens_before, tokens_after,
            "the oldest turns were dropped from the window; they stay in the history");
        self.notify(RuntimeEventKind::WindowSlid { messages, tokens_before, tokens_after });
    }
}
