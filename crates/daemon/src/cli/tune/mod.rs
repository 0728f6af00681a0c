//! `cairn tune`: simulates a conversation with candidate settings, without any model.

mod candidate;
mod report;
mod source;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::tune::{self, Billing, ConversationSizes, Runs, TuneCandidate, TuneOutcome};
use clap::{Args, ValueEnum};

use super::args::Global;
use super::connect::{Connector, no_such_agent};
use super::failure::Failure;
use super::out;
use crate::config::{AgentConfig, Config, Provider};
use crate::text::counted;
use report::TuneRecord;
use source::Source;

/// Fewest turns that say anything.
const TURNS_MIN: usize = 2;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn tune main                          the history of the channel `main`
  cairn tune talk.jsonl                    a file as for `cairn replay`
  cairn tune main --candidate 'background_threshold=0.7,reserve_ratio=0.2'
  cairn tune main --prices anthropic --json

The first candidate is the current configuration. The figures come from a
simulation with the runtime's own decisions: no model is called and nothing is
changed. Runs take as long, and summaries are as large, as the last ones of
the channel; without any, the output says what is assumed. billed: tokens of a
turn, answer and runs included, in units of a plain input token, by the
model's prices or those of its wire format. kept: how much of what was said a
window still holds, recent messages counting more. The best candidate is the
cheapest that keeps as much as now (within 2 %) with no more emergencies.

A line of a file may also be an answer {\"role\": \"assistant\", \"text\": …} or
a tool result {\"role\": \"tool\", \"text\": …}; a file without answers is
simulated with answers of --answer-tokens.")]
pub(crate) struct TuneArgs {
    /// A file of JSON lines as for `cairn replay` (- for stdin), or a channel
    #[arg(value_name = "FILE|CHANNEL")]
    source: String,
    /// The agent whose settings are tried and whose channel it is [default: the channel's, else the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// One more candidate: keys of [agents.compaction] and context_window, such as background_threshold=0.7,fan_out=8
    #[arg(long = "candidate", value_name = "KEY=VALUE,…")]
    candidates: Vec<String>,
    /// Cache rules and prices to apply [default: those of the agent's model]
    #[arg(long, value_name = "FORMAT")]
    prices: Option<Prices>,
    /// Tokens of an answer, for a file without answers
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    answer_tokens: u32,
    /// Seconds between two messages of a file that have no `at`
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    gap_secs: u32,
}

/// Wire formats with cache rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Prices {
    /// Anthropic messages
    Anthropic,
    /// OpenAI chat completions
    Openai,
}

pub(crate) async fn tune(global: Global, args: TuneArgs) -> Result<(), Failure> {
    let connector = Connector::configured(&global)?;
    let config = &connector.loaded.config;
    let source = match file_of(&args.source)? {
        Some(path) => {
            let channel = connector.channel("main", args.agent.as_deref())?;
            let script = source::of_file(&path, &args, config.limits.max_message_bytes)?;
            Source { script, agent: channel.agent(), model: None, window: None, runs: Vec::new() }
        }
        None => source::of_channel(&connector, &args.source, args.agent.as_deref()).await?,
    };
    let agent = config.agent(source.agent.as_str());
    let known = config.agents.iter().map(|agent| &agent.id);
    let agent = agent.ok_or_else(|| no_such_agent(source.agent.as_str(), known))?;
    let n_turns = source.script.turns().len();
    if n_turns < TURNS_MIN {
        let turns = counted(n_turns as u64, "turn", "turns");
        return Err(Failure::failed(
            format!("{} has too little to tune on: {turns}", args.source),
            "settings differ only once a conversation outgrows the window; try a longer one",
        ));
    }
    let (current, billing, prices) = current(config, agent, &source, &args);
    let runs = Runs::of(&source.runs, &current);
    let resize = |tokens: u64| resize(config, &current, tokens);
    let mut candidates = tune::presets(&current, resize);
    for text in &args.candidates {
        candidates.push(candidate::parse(text, &current, resize)?);
    }
    let (script, agent) = (source.script, agent.id.to_string());
    // A simulation of a long conversation takes its time, and may not hold up the runtime's threads.
    let simulated = tokio::task::spawn_blocking(move || {
        let rows = simulate(&script, candidates, &billing, &runs)?;
        Ok(TuneRecord::new(args.source, agent, prices, runs, script.tokens(), &rows))
    });
    let record = simulated.await.unwrap_or_else(|error| {
        Err(Failure::failed(format!("the simulation panicked: {error}"), "please report it"))
    })?;
    let file = connector.loaded.file.as_deref();
    out::record(global.json, &record, |record| record.text(out::width(), file))
}

/// The file that is named, if it is one. What looks like a file name but is no file is an error, not a channel.
fn file_of(source: &str) -> Result<Option<PathBuf>, Failure> {
    let path = Path::new(source);
    if source == "-" || path.is_file() {
        return Ok(Some(path.to_owned()));
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let looks_like_a_file =
        path.is_dir() || path.is_absolute() || ["jsonl", "json", "txt"].contains(&extension);
    if looks_like_a_file {
        let what = if path.is_dir() { "is a folder" } else { "is not there" };
        return Err(Failure::failed(
            format!("cannot read {source}: it {what}"),
            "name a file of JSON lines, - for stdin, or a channel",
        ));
    }
    Ok(None)
}

/// The settings in force on the model that answers, with its cache rules and prices, and what these are called.
fn current(
    config: &Config,
    agent: &AgentConfig,
    source: &Source,
    args: &TuneArgs,
) -> (AgentSettings, Billing, String) {
    let model = source.model.as_deref().filter(|model| config.model(model).is_some());
    let model = model.unwrap_or(agent.model());
    let mut current = config.settings(agent, model, None, cairn_actors::builtin_tools());
    if let Some(window) = source.window {
        current.window = window;
    }
    let (billing, prices) = billing(config, model, args.prices);
    current.cache_ttl_secs = billing.ttl_secs;
    (current, billing, prices)
}

fn simulate(
    script: &ConversationSizes,
    candidates: Vec<TuneCandidate>,
    billing: &Billing,
    runs: &Runs,
) -> Result<Vec<(TuneCandidate, TuneOutcome)>, Failure> {
    let simulate = |candidate: TuneCandidate| match tune::simulate(script, &candidate.settings, billing, runs)
    {
        Ok(outcome) => Ok((candidate, outcome)),
        Err(error) => {
            let message = format!("candidate `{}`: {error}", candidate.name);
            Err(Failure::failed(message, "raise context_window"))
        }
    };
    candidates.into_iter().map(simulate).collect()
}

/// The window of an agent that sets that size: never above the model's own, with room beside the answer.
fn resize(config: &Config, current: &AgentSettings, tokens: u64) -> Option<WindowSize> {
    let model = config.model(&current.model);
    let most = model.and_then(|model| model.max_output_tokens);
    let own = model.and_then(|model| model.context_window);
    let size = WindowSize::resolve(Some(tokens), own, None, config.default_window(), most);
    let fits = size.output_reserve_tokens * 2 <= size.window_tokens;
    (fits && (own.is_some() || tokens <= current.window.window_tokens)).then_some(size)
}

/// Cache rules and prices, and what they are called.
fn billing(config: &Config, model: &str, named: Option<Prices>) -> (Billing, String) {
    let found = config.model(model);
    let provider = found.map_or(Provider::Offline, |model| model.provider);
    let (format, name) = match (named, provider) {
        (Some(Prices::Anthropic), _) | (None, Provider::Anthropic) => (Billing::anthropic(), "anthropic"),
        (Some(Prices::Openai), _) | (None, Provider::Openai | Provider::Offline) => {
            (Billing::openai(), "openai")
        }
    };
    let Some(found) = found.filter(|_| named.is_none() && provider != Provider::Offline) else {
        return (format, format!("list prices of {name}"));
    };
    let price = found.price();
    let billing = Billing { ttl_secs: found.cache_ttl_secs, ..format.priced(&price) };
    let own = if price.input > 0.0 {
        format!("prices of model {model}, {name}'s cache")
    } else {
        format!("list prices of {name}")
    };
    (billing, own)
}
