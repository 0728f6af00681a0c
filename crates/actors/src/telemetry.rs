//! Metrics and log spans of turns, runs and tools. Labels have few values: only what is configured or fixed in the program,
//! never a channel, a person, a message or a name that a model made up. Spans have the level `error`, so that they exist at
//! every log level.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_types::event::RunEnd;
use cairn_types::ids::{ChannelId, RunId, TurnId};
use cairn_types::model::{Finish, Usage};
use cairn_types::ports::OutboxItem;
use cairn_types::tool::ToolUse;
use cairn_types::tool::defs::ToolDef;
use tokio::time::Instant;
use tracing::{Span, error_span};

/// Label for a tool that is not configured.
const OTHER: &str = "other";

#[derive(Debug, Default)]
pub(crate) struct Times {
    model: AtomicU64,
    others: AtomicU64,
}

impl Times {
    /// Runs work, and counts its time as the model's.
    pub(crate) async fn of_model<T>(&self, work: impl Future<Output = T>) -> T {
        counted(&self.model, work).await
    }

    /// Runs work, and counts its time as that of tools and people.
    pub(crate) async fn of_others<T>(&self, work: impl Future<Output = T>) -> T {
        counted(&self.others, work).await
    }
}

/// Adds up microseconds, also of work that is dropped before its end.
async fn counted<T>(sum: &AtomicU64, work: impl Future<Output = T>) -> T {
    struct Clock<'a>(&'a AtomicU64, Instant);
    impl Drop for Clock<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(self.1.elapsed().as_micros() as u64, Ordering::Relaxed);
        }
    }
    let _clock = Clock(sum, Instant::now());
    work.await
}

/// Counts a turn's end, with its times and the usage of the window.
pub(crate) fn turn(
    channel: &ChannelId,
    outcome: &'static str,
    times: Option<(Duration, &Times)>,
    usage_ratio: f64,
) {
    let agent = agent(channel);
    metrics::counter!("cairn_turns_total", "agent" => agent.clone(), "outcome" => outcome).increment(1);
    metrics::histogram!("cairn_usage_ratio", "agent" => agent.clone()).record(usage_ratio);
    // A turn without a task took no time.
    let Some((total, times)) = times else { return };
    let sum = |part: &AtomicU64| Duration::from_micros(part.load(Ordering::Relaxed));
    let (model, others) = (sum(&times.model), sum(&times.others));
    let own = total.saturating_sub(model + others);
    metrics::histogram!("cairn_turn_seconds", "agent" => agent.clone()).record(total.as_secs_f64());
    metrics::histogram!("cairn_turn_model_seconds", "agent" => agent.clone()).record(model.as_secs_f64());
    metrics::histogram!("cairn_turn_own_seconds", "agent" => agent).record(own.as_secs_f64());
}

/// Counts tokens of a model, by its id in the configuration.
pub(crate) fn usage(model: &str, usage: Usage) {
    let kinds = [
        ("input", usage.input_tokens),
        ("output", usage.output_tokens),
        ("cached", usage.cached_tokens),
        ("cache_write", usage.cache_write_tokens),
    ];
    for (kind, tokens) in kinds {
        metrics::counter!("cairn_tokens_total", "model" => model.to_owned(), "kind" => kind)
            .increment(tokens);
    }
    if usage.input_tokens > 0 {
        let share = usage.cached_tokens as f64 / usage.input_tokens as f64;
        metrics::histogram!("cairn_cached_ratio", "model" => model.to_owned()).record(share);
    }
}

/// Counts and logs an answer that the model did not finish itself.
pub(crate) fn ended(model: &str, finish: Finish) {
    if finish.is_whole() {
        return;
    }
    let reason = finish.name();
    metrics::counter!("cairn_answers_cut_total", "model" => model.to_owned(), "reason" => reason)
        .increment(1);
    tracing::info!(model, reason, "an answer was cut short or refused");
}

/// Counts and logs a usage report that is not believed. `is_known`: the one before was not believed either.
pub(crate) fn disbelieved(model: &str, reported: Usage, ours: Usage, is_known: bool) {
    metrics::counter!("cairn_usage_disbelieved_total", "model" => model.to_owned()).increment(1);
    let (reported_input, estimated_input) = (reported.input_tokens, ours.input_tokens);
    let (reported_output, estimated_output) = (reported.output_tokens, ours.output_tokens);
    if is_known {
        tracing::debug!(model, reported_input, estimated_input, "another report that is not believed");
        return;
    }
    tracing::warn!(
        model,
        reported_input,
        reported_output,
        estimated_input,
        estimated_output,
        "the model's server reports usage that cannot be true, or leaves part of the request out; Cairn uses its \
         own estimate; check the server"
    );
}

/// Counts and logs that a model's server read only part of a request. `window_tokens`: the window that is assumed from now
/// on, if it leaves room for a conversation.
pub(crate) fn cut(model: &str, reported: u64, estimated: u64, window_tokens: Option<u64>) {
    metrics::counter!("cairn_requests_cut_total", "model" => model.to_owned()).increment(1);
    tracing::error!(
        model,
        reported,
        estimated,
        window_tokens,
        "the model's server silently cut a request to its window; from now on Cairn sends less; give the server a \
         larger window (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile), then set context_window of the \
         model to that size"
    );
}

pub(crate) fn run(channel: &ChannelId, tier: &'static str, end: &RunEnd) {
    let (trigger, outcome) = (end.trigger.name(), end.outcome.name());
    metrics::counter!("cairn_runs_total", "tier" => tier, "trigger" => trigger, "outcome" => outcome)
        .increment(1);
    metrics::histogram!("cairn_run_seconds", "tier" => tier, "outcome" => outcome)
        .record(end.duration_ms as f64 / 1000.0);
    memories(channel, "run", end.memories.len() as u64);
}

/// Counts memories saved by a run or by a tool.
pub(crate) fn memories(channel: &ChannelId, by: &'static str, n: u64) {
    metrics::counter!("cairn_memories_saved_total", "agent" => agent(channel), "by" => by).increment(n);
}

pub(crate) fn tool_call(tool: &str, used: &ToolUse) {
    let (tool, outcome) = (tool.to_owned(), used.outcome.name());
    metrics::counter!("cairn_tool_calls_total", "tool" => tool.clone(), "outcome" => outcome, "effect" => used.effect.name())
        .increment(1);
    metrics::histogram!("cairn_tool_seconds", "tool" => tool).record(used.duration_ms as f64 / 1000.0);
}

/// Counts an error by its place and code.
pub(crate) fn error(place: &'static str, code: &str) {
    metrics::counter!("cairn_errors_total", "kind" => format!("{place}_{code}")).increment(1);
}

/// The agent as a label. It is configured, since its channel is awake.
pub(crate) fn agent(channel: &ChannelId) -> String {
    channel.agent().to_string()
}

/// A tool's name as a label, if the agent has the tool. A model may make up any other.
pub(crate) fn tool(known: &[ToolDef], name: &str) -> String {
    let is_known = known.iter().any(|tool| tool.name == name);
    if is_known { name.to_owned() } else { OTHER.to_owned() }
}

/// The span of a turn: its task, its tools, its drafts.
pub(crate) fn turn_span(channel: &ChannelId, turn: &TurnId) -> Span {
    error_span!("turn", %turn, %channel, agent = %channel.agent())
}

pub(crate) fn run_span(channel: &ChannelId, run: &RunId) -> Span {
    error_span!("run", %run, %channel, agent = %channel.agent())
}

/// The span of a delivery, with the turn that it answers.
pub(crate) fn delivery_span(item: &OutboxItem) -> Span {
    let (turn, channel) = (&item.turn, &item.channel);
    error_span!("delivery", delivery = %item.id, %turn, %channel, agent = %channel.agent())
}

/// The span of a tool call. `tool` must be a known tool.
pub(crate) fn tool_span(tool: &str) -> Span {
    error_span!("tool", tool)
}
