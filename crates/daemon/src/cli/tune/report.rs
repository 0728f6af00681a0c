//! The report: a table for people, a record for scripts, the TOML to paste.

use std::collections::BTreeMap;
use std::path::Path;

use cairn_core::tune::{Candidate, Choice, Outcome, Runs, choose};
use serde::Serialize;

use super::candidate::{WINDOW, keys};
use crate::cli::table::Table;
use crate::text::{counted, grouped, percent};

/// Widest table: it fits a terminal of 80 columns.
const WIDTH: usize = 80;

pub(super) struct Report {
    pub(super) source: String,
    pub(super) agent: String,
    pub(super) prices: String,
    pub(super) runs: Runs,
    /// Tokens of the conversation.
    pub(super) tokens: u64,
    /// Candidates, the settings in force first.
    pub(super) rows: Vec<(Candidate, Outcome)>,
    pub(super) choice: Choice,
}

#[derive(Debug, Serialize)]
pub(super) struct TuneRecord {
    source: String,
    agent: String,
    prices: String,
    runs: Runs,
    turns: usize,
    tokens: u64,
    candidates: Vec<CandidateRecord>,
    best: String,
    toml: String,
}

#[derive(Debug, Serialize)]
struct CandidateRecord {
    name: String,
    window_tokens: u64,
    output_reserve_tokens: u64,
    settings: BTreeMap<String, toml::Value>,
    mean_tokens: f64,
    max_tokens: u64,
    compactions: usize,
    merges: usize,
    prunings: usize,
    emergencies: usize,
    highest_level: Option<u32>,
    cached_share: f64,
    billed_per_turn: f64,
    billed_runs_per_turn: f64,
    retention: f64,
}

impl Report {
    pub(super) fn new(
        source: String,
        agent: String,
        prices: String,
        runs: Runs,
        tokens: u64,
        rows: Vec<(Candidate, Outcome)>,
    ) -> Self {
        let outcomes: Vec<Outcome> = rows.iter().map(|(_, outcome)| outcome.clone()).collect();
        let choice = choose(&outcomes).unwrap_or(Choice { best: 0, keeps_current: true });
        Self { source, agent, prices, runs, tokens, rows, choice }
    }

    pub(super) fn n_turns(&self) -> usize {
        self.rows.first().map_or(0, |(_, outcome)| outcome.turns)
    }

    /// The keys of a candidate that differ from those in force.
    fn changes(&self, candidate: &Candidate) -> (Option<u64>, Vec<(String, toml::Value)>) {
        let Some((current, _)) = self.rows.first() else { return (None, Vec::new()) };
        let (now, then) = (keys(&current.settings.compaction), keys(&candidate.settings.compaction));
        let changed = then.into_iter().filter(|(key, value)| now.get(key) != Some(value)).collect();
        let window = candidate.settings.window.window_tokens;
        ((window != current.settings.window.window_tokens).then_some(window), changed)
    }

    /// The TOML to paste for a candidate; empty when nothing differs.
    pub(super) fn toml(&self, candidate: &Candidate) -> String {
        let (window, changes) = self.changes(candidate);
        let mut text = String::new();
        if let Some(window) = window {
            text.push_str(&format!("{WINDOW} = {window}\n"));
        }
        if !changes.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str("[agents.compaction]\n");
            changes.iter().for_each(|(key, value)| text.push_str(&format!("{key} = {value}\n")));
        }
        text
    }

    pub(super) fn record(&self) -> TuneRecord {
        let candidate = |(candidate, outcome): &(Candidate, Outcome)| CandidateRecord {
            name: candidate.name.clone(),
            window_tokens: candidate.settings.window.window_tokens,
            output_reserve_tokens: candidate.settings.window.output_reserve_tokens,
            settings: keys(&candidate.settings.compaction).into_iter().collect(),
            mean_tokens: outcome.mean_tokens(),
            max_tokens: outcome.max_tokens,
            compactions: outcome.compactions,
            merges: outcome.merges,
            prunings: outcome.prunings,
            emergencies: outcome.emergencies,
            highest_level: outcome.highest_level,
            cached_share: outcome.cached_share(),
            billed_per_turn: outcome.billed_per_turn(),
            billed_runs_per_turn: outcome.billed_runs / outcome.turns.max(1) as f64,
            retention: outcome.retention,
        };
        let best = &self.rows[self.choice.best].0;
        TuneRecord {
            source: self.source.clone(),
            agent: self.agent.clone(),
            prices: self.prices.clone(),
            runs: self.runs,
            turns: self.n_turns(),
            tokens: self.tokens,
            candidates: self.rows.iter().map(candidate).collect(),
            best: best.name.clone(),
            toml: self.toml(best),
        }
    }

    /// The report for people, no line wider than `width`.
    pub(super) fn drawn(&self, width: usize, config: Option<&Path>) -> String {
        let width = width.min(WIDTH);
        let mut out = format!(
            "{}: {}, {} tokens; agent {}\nprices: {}\n{}\n",
            self.source,
            counted(self.n_turns() as u64, "turn", "turns"),
            grouped(self.tokens),
            self.agent,
            self.prices,
            self.runs_told()
        );
        out.push_str(&self.table().render(width));
        out.push_str(LEGEND);
        out.push_str(&self.verdict(config));
        out
    }

    /// What runs are taken to be like, and whether that was measured.
    fn runs_told(&self) -> String {
        let Runs { measured, run_ms, summaries, summary_share, merges, merge_share } = self.runs;
        let secs = match run_ms {
            0..1_000 => format!("{run_ms} ms"),
            _ => format!("{:.1} s", run_ms as f64 / 1_000.0),
        };
        let durations = match measured {
            0 => format!("assumed to take {secs}: the history has none"),
            n => format!("take {secs}, the median of the last {n}"),
        };
        let sizes = |n: usize, share: f64| match n {
            0 => "assumed as large as asked for".to_owned(),
            n => format!("{} of the size asked for (last {n})", percent(share)),
        };
        let (first, merged) = (sizes(summaries, summary_share), sizes(merges, merge_share));
        format!("runs: {durations}\nsummaries: {first}\nmerges: {merged}\n")
    }

    fn table(&self) -> Table {
        let heading = ["", "mean", "max", "runs", "emerg", "cached", "billed", "kept", "candidate"];
        let mut table = Table::new(&heading, &[1, 2, 3, 4, 5, 6, 7]).wrapped();
        for (idx, (candidate, outcome)) in self.rows.iter().enumerate() {
            table.row(vec![
                if idx == self.choice.best { "*" } else { "" }.to_owned(),
                grouped(outcome.mean_tokens().round() as u64),
                grouped(outcome.max_tokens),
                grouped((outcome.compactions + outcome.merges) as u64),
                grouped(outcome.emergencies as u64),
                tight(outcome.cached_share()),
                grouped(outcome.billed_per_turn().round() as u64),
                tight(outcome.retention),
                // With room to break a long one between its keys.
                candidate.name.split(',').map(str::trim).collect::<Vec<_>>().join(", "),
            ]);
        }
        table
    }

    fn verdict(&self, config: Option<&Path>) -> String {
        let quiet = |(_, outcome): &(Candidate, Outcome)| {
            outcome.compactions == 0 && outcome.emergencies == 0 && outcome.prunings == 0
        };
        if self.rows.iter().all(quiet) {
            return "nothing to choose: the conversation fits into every window as it is\n".to_owned();
        }
        let (current, best) = (&self.rows[0], &self.rows[self.choice.best]);
        if self.choice.keeps_current {
            return "best at equal retention: the settings as they are\n".to_owned();
        }
        let saved = 1.0 - best.1.billed_per_turn() / current.1.billed_per_turn();
        let place = match config {
            Some(file) => {
                format!("# in {}, under the [[agents]] table of `{}`:\n", file.display(), self.agent)
            }
            None => format!("[[agents]]\nid = \"{}\"\n", self.agent),
        };
        format!(
            "best at equal retention: {}, {} fewer tokens billed than now\n\n{place}{}",
            best.0.name,
            percent(saved),
            self.toml(&best.0)
        )
    }
}

const LEGEND: &str = "\
mean, max: tokens of a request. runs: with merges. cached: of the input tokens.
billed: input tokens that a turn's bill would buy, runs included. kept: share of
what was said that is in sight, whole or in summaries.

";

/// A share in percent, without a space: the table has none to spare.
fn tight(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
