//! What a load run came to.

use std::collections::BTreeMap;
use std::fmt;

use cairn_types::model::Usage;
use serde_json::Value;

use super::{CacheRule, Kind, Plan, Stack};
use crate::estimate::{self, Errors};
use cairn_testkit::model::{FakeModel, Kind as Purpose, Used};

/// Text of a kind on which the estimate is measured, in bytes.
const SAMPLE_BYTES: usize = 60_000;

#[derive(Debug, Clone)]
pub struct Report {
    pub rule: CacheRule,
    /// Turns that were answered; all of them.
    pub turns: usize,
    /// The window, in tokens.
    pub window: u64,
    pub replies: Used,
    pub runs: Used,
    /// Share of the replies' requests that a cache held, 0 to 1.
    pub cached_share: f64,
    /// Billed-equivalent tokens of a turn at the provider's prices, runs included.
    pub billed_per_turn: f64,
    /// Of these, those of answers, of what was written and read of requests, and of runs.
    pub billed_parts: [f64; 4],
    /// Of these, what the first half of the turns took.
    pub first_half: Used,
    /// What the stack of summaries came to.
    pub stack: Stack,
    pub emergencies: u64,
    /// Runs by trigger and outcome.
    pub outcomes: BTreeMap<String, u64>,
    pub seconds: f64,
    /// The correction at the end: what estimates were multiplied with.
    pub correction: f64,
    /// Errors of the estimate by kind of text.
    pub errors: Vec<KindErrors>,
}

/// Errors of the estimate over a kind of text.
#[derive(Debug, Clone)]
pub struct KindErrors {
    pub kind: Kind,
    pub turns: usize,
    /// The errors, in percent.
    pub errors: Errors,
}

impl Report {
    #[expect(clippy::too_many_arguments, reason = "each is a figure of its own")]
    pub(super) fn new(
        plan: &Plan,
        model: &FakeModel,
        ends: &BTreeMap<String, String>,
        emergencies: u64,
        stack: Stack,
        first_half: Used,
        context: &Value,
        seconds: f64,
        sampled: &[(Kind, String)],
    ) -> Self {
        let (replies, runs) = (model.used(Purpose::Reply), model.used(Purpose::Compaction));
        let billing = model.billing(plan.rule.wire());
        let per_turn = |usage: Usage| billing.billed(usage) / plan.n_turns.max(1) as f64;
        let fresh = Usage {
            cached_tokens: 0,
            output_tokens: 0,
            input_tokens: replies.usage.input_tokens - replies.usage.cached_tokens,
            ..replies.usage
        };
        let read = Usage {
            input_tokens: replies.usage.cached_tokens,
            cached_tokens: replies.usage.cached_tokens,
            ..Usage::default()
        };
        let said = Usage { output_tokens: replies.usage.output_tokens, ..Usage::default() };
        let billed_parts = [said, fresh, read, runs.usage].map(per_turn);
        let mut outcomes = BTreeMap::new();
        for end in ends.values() {
            *outcomes.entry(end.clone()).or_insert(0) += 1;
        }
        Self {
            rule: plan.rule,
            turns: plan.n_turns,
            window: plan.window,
            replies,
            runs,
            cached_share: model.cached_share(),
            billed_per_turn: billed_parts.iter().sum(),
            billed_parts,
            first_half,
            stack,
            emergencies,
            outcomes,
            seconds,
            correction: context["correction"]["ratio"].as_f64().unwrap_or(1.0),
            errors: Kind::ALL.into_iter().map(|kind| measured(kind, sampled)).collect(),
        }
    }
}

fn measured(kind: Kind, sampled: &[(Kind, String)]) -> KindErrors {
    let of_kind = || sampled.iter().filter(|(other, _)| *other == kind);
    let mut text = String::new();
    for (_, words) in of_kind() {
        if text.len() > SAMPLE_BYTES {
            break;
        }
        text.push_str(words);
        text.push('\n');
    }
    let sample = estimate::Kind { name: kind.name().to_owned(), text };
    let errors = estimate::errors(&sample, tiktoken_rs::o200k_base_singleton());
    KindErrors { kind, turns: of_kind().count(), errors }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = |used: &Used| used.usage.input_tokens as f64 / used.requests.max(1) as f64;
        let mut second_half = self.replies;
        second_half.requests -= self.first_half.requests;
        second_half.usage.input_tokens -= self.first_half.usage.input_tokens;
        let [said, fresh, read, runs] = self.billed_parts;
        writeln!(
            f,
            "turns                    {} at a window of {}, none over it, with {}",
            self.turns,
            self.window,
            self.rule.name()
        )?;
        writeln!(
            f,
            "requests                 {} for replies, {} for runs",
            self.replies.requests, self.runs.requests
        )?;
        writeln!(
            f,
            "context, tokens          mean {:.0}, most {}; mean of the first half {:.0}, of the second {:.0}",
            mean(&self.replies),
            self.replies.most_input,
            mean(&self.first_half),
            mean(&second_half)
        )?;
        writeln!(f, "cached share             {:.1} % (aim: 90)", self.cached_share * 100.0)?;
        writeln!(f, "billed tokens a turn     {:.0} at its prices (aim: under 4,900)", self.billed_per_turn)?;
        writeln!(
            f,
            "  of these               answers {said:.0}, fresh {fresh:.0}, cached {read:.0}, runs {runs:.0}"
        )?;
        let Stack { rewrites, share, without_summary, provisional } = self.stack;
        writeln!(f, "most rewrites of a text  {rewrites} (aim: 4 and the logarithm of the entries)")?;
        writeln!(
            f,
            "summaries                {:.1} % of the window at most (aim: their share)",
            share * 100.0
        )?;
        writeln!(f, "entries without summary  {without_summary} (aim: 0)")?;
        writeln!(f, "digests not made again   {provisional} (aim: 0)")?;
        writeln!(f, "emergencies              {} (aim: 0)", self.emergencies)?;
        let outcomes: Vec<String> = self.outcomes.iter().map(|(name, n)| format!("{n} {name}")).collect();
        writeln!(f, "runs                     {}", outcomes.join(", "))?;
        writeln!(f, "correction at the end    x {:.3}", self.correction)?;
        writeln!(f, "seconds                  {:.1}", self.seconds)?;
        writeln!(f, "estimate                 turns   pieces of 400     bias   corrected   shortfall")?;
        for KindErrors { kind, turns, errors } in &self.errors {
            writeln!(
                f,
                "  {:<22} {turns:>5} {:>13.1} % {:>+6.1} % {:>9.1} % {:>9.1} %",
                kind.name(),
                errors.pieces,
                errors.bias,
                errors.corrected,
                errors.shortfall
            )?;
        }
        Ok(())
    }
}
