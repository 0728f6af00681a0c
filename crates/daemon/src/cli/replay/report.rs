//! The report: what became of the messages and of the conversation.

use std::collections::BTreeMap;

use cairn_core::event::RunOutcome;
use cairn_core::ids::{ChannelId, RunId};
use cairn_core::memory::{Memory, Scope};
use serde::Serialize;

use crate::cli::client::{Client, with_params};
use crate::cli::failure::Failure;
use crate::records::GaugeRecord;
use crate::text::{counted, grouped};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ReplayRecord {
    pub(super) messages: u64,
    pub(super) skipped: u64,
    pub(super) turns: u64,
    pub(super) failed: u64,
    /// Runs that ended meanwhile, by outcome.
    pub(super) runs: BTreeMap<&'static str, u64>,
    pub(super) emergencies: u64,
    /// Memories of the channel's chat at the end.
    pub(super) memories: u64,
    /// Summaries in the window at the end.
    pub(super) summaries: u64,
    pub(super) seconds: f64,
}

/// Counts while the replay goes on.
pub(super) struct Tally {
    messages: u64,
    pub(super) skipped: u64,
    pub(super) turns: u64,
    pub(super) failed: u64,
    /// Runs that had ended before, and their like: not counted.
    before: BTreeMap<RunId, RunOutcome>,
    emergencies_before: u64,
    ended: BTreeMap<RunId, RunOutcome>,
    pub(super) gauge: Option<GaugeRecord>,
}

impl Tally {
    /// Begins to count, from the gauge as it is before the first message.
    pub(super) fn new(messages: u64, gauge: Option<GaugeRecord>) -> Self {
        let before = gauge.as_ref().map(outcomes).unwrap_or_default();
        let emergencies_before = gauge.as_ref().map_or(0, |gauge| gauge.emergencies);
        let ended = BTreeMap::new();
        Self { messages, skipped: 0, turns: 0, failed: 0, before, emergencies_before, ended, gauge }
    }

    /// Takes in a gauge. Its last outcomes overlap with those of the one before, as one turn ends few runs.
    pub(super) fn observe(&mut self, gauge: Option<GaugeRecord>) {
        if let Some(gauge) = gauge {
            let new = outcomes(&gauge).into_iter().filter(|(run, _)| !self.before.contains_key(run));
            self.ended.extend(new);
            self.gauge = Some(gauge);
        }
    }

    pub(super) fn n_done(&self) -> u64 {
        self.skipped + self.turns + self.failed
    }

    pub(super) fn n_runs(&self) -> u64 {
        self.ended.len() as u64
    }

    pub(super) fn n_emergencies(&self) -> u64 {
        let now = self.gauge.as_ref().map_or(0, |gauge| gauge.emergencies);
        now.saturating_sub(self.emergencies_before)
    }

    pub(super) fn report(&self, memories: u64, seconds: f64) -> ReplayRecord {
        let all = [
            RunOutcome::Committed,
            RunOutcome::Rejected,
            RunOutcome::Failed,
            RunOutcome::Superseded,
            RunOutcome::Cancelled,
        ];
        let count = |outcome| self.ended.values().filter(|ended| **ended == outcome).count() as u64;
        ReplayRecord {
            messages: self.messages,
            skipped: self.skipped,
            turns: self.turns,
            failed: self.failed,
            runs: all.into_iter().map(|outcome| (outcome.name(), count(outcome))).collect(),
            emergencies: self.n_emergencies(),
            memories,
            summaries: self.gauge.as_ref().map_or(0, |gauge| gauge.summaries),
            seconds,
        }
    }
}

impl ReplayRecord {
    pub(super) fn drawn(&self) -> String {
        let runs: Vec<_> = self
            .runs
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(name, n)| format!("{} {name}", grouped(*n)))
            .collect();
        let runs = if runs.is_empty() { "none".to_owned() } else { runs.join(", ") };
        format!(
            "{}: {} answered, {} answered before, {} failed\nruns: {runs}\n{}, {} in the window, {}\n{:.1} s\n",
            counted(self.messages, "message", "messages"),
            grouped(self.turns),
            grouped(self.skipped),
            grouped(self.failed),
            counted(self.emergencies, "emergency", "emergencies"),
            counted(self.summaries, "summary", "summaries"),
            counted(self.memories, "memory", "memories"),
            self.seconds,
        )
    }
}

fn outcomes(gauge: &GaugeRecord) -> BTreeMap<RunId, RunOutcome> {
    gauge.outcomes.iter().map(|end| (end.run.clone(), end.outcome)).collect()
}

pub(super) async fn n_memories(client: &Client, channel: &ChannelId) -> Result<u64, Failure> {
    let scope = Scope::learnt_in(channel, None);
    let params = [
        ("agent", Some(channel.agent().to_string())),
        ("scope", Some(scope.to_string())),
        ("limit", Some("10000".to_owned())),
    ];
    let memories: Vec<Memory> = client.get(&with_params("/v1/memories", &params)).await?;
    Ok(memories.len() as u64)
}
