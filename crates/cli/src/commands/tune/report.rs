//! The report: a record for scripts, and from it a table for people with the TOML to paste.

use std::collections::BTreeMap;
use std::path::Path;

use cairn_core::tune::{Choice, Runs, TuneCandidate, TuneOutcome, choose};
use serde::Serialize;

use crate::out::Table;
use cairn_api::text::{counted, grouped, percent};
use cairn_config::what_if::candidate::{keys, toml};

/// Widest table: it fits a terminal of 80 columns.
const WIDTH: usize = 80;

#[derive(Debug, Serialize)]
pub(super) struct TuneRecord {
    source: String,
    agent: String,
    prices: String,
    runs: Runs,
    turns: usize,
    /// Tokens of the conversation.
    tokens: u64,
    /// The settings in force first.
    candidates: Vec<CandidateRecord>,
    best: String,
    /// What to paste for the best one; empty when nothing differs.
    toml: String,
    #[serde(skip)]
    choice: Choice,
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

impl CandidateRecord {
    fn of((candidate, outcome): &(TuneCandidate, TuneOutcome)) -> Self {
        Self {
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
        }
    }
}

impl TuneRecord {
    /// `rows`: what became of each candidate, the settings in force first.
    pub(super) fn new(
        source: String,
        agent: String,
        prices: String,
        runs: Runs,
        tokens: u64,
        rows: &[(TuneCandidate, TuneOutcome)],
    ) -> Self {
        let outcomes: Vec<TuneOutcome> = rows.iter().map(|(_, outcome)| outcome.clone()).collect();
        let choice = choose(&outcomes).unwrap_or(Choice { best: 0, keeps_current: true });
        let best = &rows[choice.best].0;
        Self {
            source,
            agent,
            prices,
            runs,
            turns: outcomes[0].turns,
            tokens,
            candidates: rows.iter().map(CandidateRecord::of).collect(),
            best: best.name.clone(),
            toml: toml(&rows[0].0, best),
            choice,
        }
    }

    /// The report for people, no line wider than `width`. `config`: the config file, if there is one.
    pub(super) fn text(&self, width: usize, config: Option<&Path>) -> String {
        format!(
            "{}: {}, {} tokens; agent {}\nprices: {}\n{}\n{}{LEGEND}{}",
            self.source,
            counted(self.turns as u64, "turn", "turns"),
            grouped(self.tokens),
            self.agent,
            self.prices,
            self.runs_text(),
            self.table().render(width.min(WIDTH)),
            self.verdict(config)
        )
    }

    /// What is assumed of runs, and whether it was measured.
    fn runs_text(&self) -> String {
        let Runs { measured, run_ms, summaries, summary_share, merges, merge_share } = self.runs;
        let secs = match run_ms {
            0..1_000 => format!("{run_ms} ms"),
            _ => format!("{:.1} s", run_ms as f64 / 1_000.0),
        };
        let durations = match measured {
            0 => format!("assumed to take {secs}: the history has no runs"),
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
        for (idx, row) in self.candidates.iter().enumerate() {
            table.row(vec![
                if idx == self.choice.best { "*" } else { "" }.to_owned(),
                grouped(row.mean_tokens.round() as u64),
                grouped(row.max_tokens),
                grouped((row.compactions + row.merges) as u64),
                grouped(row.emergencies as u64),
                tight(row.cached_share),
                grouped(row.billed_per_turn.round() as u64),
                tight(row.retention),
                // With spaces, so that a long one can be broken between its keys.
                row.name.split(',').map(str::trim).collect::<Vec<_>>().join(", "),
            ]);
        }
        table
    }

    fn verdict(&self, config: Option<&Path>) -> String {
        let fits = |row: &CandidateRecord| row.compactions + row.emergencies + row.prunings == 0;
        if self.candidates.iter().all(fits) {
            return "nothing to choose: the conversation fits into every window\n".to_owned();
        }
        if self.choice.keeps_current {
            return "best at equal retention: the current settings\n".to_owned();
        }
        let (current, best) = (&self.candidates[0], &self.candidates[self.choice.best]);
        let saved = 1.0 - best.billed_per_turn / current.billed_per_turn;
        let place = match config {
            Some(file) => {
                format!("# in {}, under the [[agents]] table of `{}`:\n", file.display(), self.agent)
            }
            None => format!("[[agents]]\nid = \"{}\"\n", self.agent),
        };
        format!(
            "best at equal retention: {}, {} fewer tokens billed than now\n\n{place}{}",
            self.best,
            percent(saved),
            self.toml
        )
    }
}

const LEGEND: &str = "\
mean, max: tokens of a request. runs: with merges. cached: of the input tokens.
billed: input tokens that a turn costs, with its share of the runs. kept: share
of what was said that the window still holds, in full or in summaries.

";

/// A share in percent, without a space: the table has none to spare.
fn tight(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
