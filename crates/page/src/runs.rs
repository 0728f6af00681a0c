//! The compaction runs of a channel: what started each, what it made of the window, and what it took.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use cairn_core::conversation::Conversation;
use cairn_core::limits::Price;
use cairn_core::spend::amount;
use cairn_types::event::{Run, RunEnd, RunOutcome, Trigger};
use cairn_types::ids::{ChannelId, RunId, SummaryId};
use cairn_types::model::Usage;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{Tab, run_path, summary_link, tabs, try_path};
use crate::pieces::{command, currency, facts, is_poll, live, table, text, time};
use crate::visitor::Visitor;
use cairn_api::text::{counted, grouped, percent, seconds};
use cairn_server::api::Shared;

/// Runs that are listed.
const LINES: usize = 200;

/// An ended run, as far as it is known.
struct Ended {
    run: RunId,
    at: Option<Timestamp>,
    trigger: Trigger,
    outcome: RunOutcome,
    reason: Option<String>,
    /// With its level.
    summary: Option<(SummaryId, u32)>,
    messages: u64,
    memories: u64,
    tokens: [u64; 2],
    duration_ms: u64,
    attempts: u32,
    spent: BTreeMap<String, Usage>,
}

/// The prices of models, and their currency.
type Prices<'p> = (&'p BTreeMap<String, Price>, &'p str);

/// `GET /channels/{C}/runs`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let (conversation, _awake) = admin.conversation(&channel).await?;
    let (prices, currency) = (admin.agent_registry.loaded().config.prices(), currency(&admin));
    let prices = (&prices, currency.as_str());
    let now = live("run", &under_way(&conversation, prices));
    if is_poll(&headers, "run") {
        return Ok(now);
    }
    let ended = ended(&conversation, admin.store.summaries(channel.clone()).await?);
    let (n_runs, shown) = (ended.len(), ended.len().min(LINES));
    let rows: Vec<_> = ended[..shown].iter().map(|run| row(&channel, run, prices)).collect();
    let body = html! {
        (tabs(&channel, Tab::Runs))
        p { "A run summarises the oldest part of the window beside the conversation; a merge makes \
            one summary of several. " a href=(try_path(&channel)) { "Try other thresholds" } "." }
        (now)
        @if rows.is_empty() { p { "There are no finished runs yet." } }
        @else { (table("Finished runs, newest first", &COLUMNS, &rows)) }
        @if n_runs > shown { p.note { (grouped((n_runs - shown) as u64)) " older ones are not shown." } }
        p.note {
            "Runs that made no summary are kept for a while, those that did for good. Of runs from before this version attempts and \
             cost are not known."
        }
    };
    let name = channel.to_string();
    let command = command(&["context", &name]);
    let title = format!("Runs of {name}");
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

/// All that is known of ended runs, newest first.
fn ended(conversation: &Conversation, committed: Vec<(Timestamp, RunEnd)>) -> Vec<Ended> {
    let mut runs: BTreeMap<u64, Ended> = BTreeMap::new();
    for report in &conversation.outcomes {
        let run = Ended {
            run: report.run.clone(),
            at: report.ended_at,
            trigger: report.trigger,
            outcome: report.outcome,
            reason: report.reason.clone(),
            summary: None,
            messages: report.messages,
            memories: report.memories,
            tokens: [report.tokens_before, report.tokens_after],
            duration_ms: report.duration_ms,
            attempts: report.attempts,
            spent: report.spent.clone(),
        };
        runs.insert(number(&report.run), run);
    }
    for (at, end) in committed {
        let run = Ended {
            at: Some(at),
            trigger: end.trigger,
            outcome: end.outcome,
            reason: end.reason,
            summary: end.summary.map(|summary| (summary.id, summary.level)),
            messages: end.messages,
            memories: end.memories.len() as u64,
            tokens: [end.tokens_before, end.tokens_after],
            duration_ms: end.duration_ms,
            attempts: end.attempts,
            spent: end.spent,
            run: end.run,
        };
        runs.insert(number(&run.run), run);
    }
    runs.into_values().rev().collect()
}

/// Runs of a channel are numbered.
fn number(run: &RunId) -> u64 {
    run.as_str().trim_start_matches('r').parse().unwrap_or(0)
}

const COLUMNS: [(&str, &str); 12] = [
    ("run", ""),
    ("ended", "wide"),
    ("started by", "wide"),
    ("outcome", ""),
    ("window", "number"),
    ("messages", "number wide"),
    ("summary", ""),
    ("memories", "number wide"),
    ("attempts", "number wide"),
    ("took", "number wide"),
    ("tokens", "number wide"),
    ("cost", "number"),
];

fn row(channel: &ChannelId, run: &Ended, prices: Prices<'_>) -> Vec<Markup> {
    let [before, after] = run.tokens;
    vec![
        html! { a href=(run_path(channel, &run.run)) { (text(&run.run)) } },
        run.at.map_or_else(|| text("-"), time),
        text(run.trigger.name()),
        html! {
            span class={ "outcome " (run.outcome.name()) } { (run.outcome.name()) }
            @if let Some(reason) = &run.reason { div.note { (text(reason)) } }
        },
        html! { (grouped(before)) " → " (grouped(after)) },
        text(grouped(run.messages)),
        match &run.summary {
            Some((id, level)) => {
                html! { span.keep { (summary_link(channel, id)) " " span.note { "level " (level) } } }
            }
            None => text("-"),
        },
        text(grouped(run.memories)),
        text(if run.attempts == 0 { "-".to_owned() } else { grouped(run.attempts.into()) }),
        text(seconds(run.duration_ms)),
        text(tokens(&run.spent)),
        text(cost(&run.spent, prices).unwrap_or_else(|| "-".to_owned())),
    ]
}

/// What it costs; none where a model has no price.
fn cost(spent: &BTreeMap<String, Usage>, (prices, currency): Prices<'_>) -> Option<String> {
    let costs: Option<Vec<f64>> =
        spent.iter().map(|(model, usage)| Some(prices.get(model)?.of(*usage))).collect();
    costs.filter(|costs| !costs.is_empty()).map(|costs| amount(costs.iter().sum(), currency))
}

fn tokens(spent: &BTreeMap<String, Usage>) -> String {
    match spent.values().map(|usage| usage.input_tokens + usage.output_tokens).sum() {
        0 => "-".to_owned(),
        tokens => grouped(tokens),
    }
}

fn under_way(conversation: &Conversation, prices: Prices<'_>) -> Markup {
    let Some(run) = &conversation.run else {
        return html! { p { "No run is active." } };
    };
    let Run { id, trigger, from_seq, to_seq, messages, started_at, attempt, retry_at, tokens_before, .. } =
        run;
    let done = run.checkpoint.as_ref().map(|checkpoint| checkpoint.to_seq.0.saturating_sub(from_seq.0) + 1);
    let whole = (to_seq.0.saturating_sub(from_seq.0) + 1) as f64;
    let mut rows = vec![
        ("run", html! { a href=(run_path(&conversation.channel, id)) { (text(id)) } }),
        ("started by", text(trigger.name())),
        ("since", time(*started_at)),
        (
            "works on",
            text(format!("{} to {}, {}", from_seq.0, to_seq.0, counted(*messages, "message", "messages"))),
        ),
        ("window before", text(format!("{} tokens", grouped(*tokens_before)))),
        ("attempt", text(attempt)),
        ("tokens so far", text(tokens(&run.spent))),
        ("cost so far", text(cost(&run.spent, prices).unwrap_or_else(|| "-".to_owned()))),
    ];
    if let Some(done) = done {
        rows.push(("done", text(percent(done as f64 / whole))));
    }
    if let Some(at) = retry_at {
        rows.push(("next attempt", time(*at)));
    }
    if let Some(failure) = &run.failure {
        rows.push(("last failure", text(failure)));
    }
    html! {
        section aria-labelledby="under-way" { h2 #under-way { "Active run" } (facts(&rows)) }
    }
}
