//! `cairn tune`: simulates a conversation with candidate settings, without any model.

mod report;
mod source;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use cairn_core::tune::{self, Runs};
use clap::{Args, ValueEnum};

use crate::args::Global;
use crate::commands::tune::report::TuneRecord;
use crate::connect::{Connector, no_such_agent};
use crate::failure::Failure;
use crate::out;
use cairn_api::text::counted;
use cairn_config::Provider;
use cairn_config::what_if::{self, Source, candidate};

/// Fewest turns that say anything.
const TURNS_MIN: usize = 2;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn tune main                          the channel `main`
  cairn tune talk.jsonl                    Cairn's JSON lines (`cairn import`)
  cairn tune main --candidate 'background_threshold=0.7,reserve_ratio=0.2'
  cairn tune main --prices anthropic --json

The first candidate is the current configuration. The figures come from a
simulation with the runtime's own decisions: no model is called and nothing is
changed. Run times and summary sizes are those of the channel's last runs; if
there are none, the output lists the assumptions. billed: tokens per turn,
answer and runs included, in units of a plain input token, by the model's
prices or those of its wire format. kept: how much of the conversation the
window still holds, where recent messages count more. The best candidate is
the cheapest that keeps as much as now (within 2 %) with no more emergencies.

A line of a file may also be an answer {\"role\": \"assistant\", \"text\": …} or
a tool result {\"role\": \"tool\", \"text\": …}; a file without answers is
simulated with answers of --answer-tokens.")]
pub struct TuneArgs {
    /// A file of Cairn's JSON lines, as for `cairn import` (- for stdin), or a channel
    #[arg(value_name = "FILE|CHANNEL")]
    source: String,
    /// The agent that has the settings and the channel [default: the channel's, else the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// An additional candidate: keys of [agents.compaction] and context_window, such as background_threshold=0.7,fan_out=8
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

pub async fn tune(global: Global, args: TuneArgs) -> Result<(), Failure> {
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
            format!("{} is too short to tune: {turns}", args.source),
            "settings only matter once a conversation outgrows the window; try a longer one",
        ));
    }
    let format = args.prices.map(|prices| match prices {
        Prices::Anthropic => Provider::Anthropic,
        Prices::Openai => Provider::Openai,
    });
    let (current, billing, prices) =
        what_if::current(config, agent, &source, format, cairn_core::builtin_tools::builtin_tools());
    let runs = Runs::of(&source.runs, &current);
    let resize = |tokens: u64| what_if::resize(config, &current, tokens);
    let mut candidates = tune::presets(&current, resize);
    for text in &args.candidates {
        let parsed = candidate::parse(text, &current, resize);
        candidates
            .push(parsed.map_err(|bad| Failure::usage(format!("--candidate {}", bad.message), bad.hint))?);
    }
    let (script, agent) = (source.script, agent.id.to_string());
    // A simulation of a long conversation takes its time, and may not hold up the runtime's threads.
    let simulated = tokio::task::spawn_blocking(move || {
        let rows = what_if::simulate(&script, candidates, &billing, &runs)
            .map_err(|bad| Failure::failed(bad.message, bad.hint))?;
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
            "give a file of JSON lines, - for stdin, or a channel",
        ));
    }
    Ok(None)
}
