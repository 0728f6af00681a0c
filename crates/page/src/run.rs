//! A compaction run of the past: what started it, what it read, which models it called, what it came to.

use crate::links::run_path;
use std::sync::Arc;

use axum::extract::{Path, State};
use cairn_core::spend::money;
use cairn_types::event::RunOutcome;
use cairn_types::ids::SummaryId;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, summary_path};
use crate::pieces::{command, facts, table, text, time};
use crate::turn::{CALL_COLUMNS, call_row};
use crate::visitor::Visitor;
use cairn_api::records::{CallRecord, FailedAttempt, RunExplanation};
use cairn_api::text::{counted, grouped, one_line};
use cairn_server::api::{Channel, Shared, explain_run};

/// `GET /channels/{channel}/runs/{run}`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, run)): Path<(String, String)>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let told = explain_run::explain(State(Arc::clone(&admin)), Channel(channel.clone(), run)).await?.0;
    let body = html! {
        (about(&told))
        @for missing in &told.missing { p.note { (one_line(missing)) } }
        @if let Some(reason) = &told.reason { p.note { (one_line(reason)) } }
        (calls(&told))
        (failed(&told.failed))
    };
    let title = format!("Run {}", told.run);
    let command = command(&["explain", &channel.to_string(), "--run", told.run.as_str()]);
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

fn about(told: &RunExplanation) -> Markup {
    let summary = |id: &SummaryId| {
        html! { a href=(summary_path(&told.channel, id.as_str())) { (one_line(id.as_str())) } }
    };
    let after = told.tokens_after.map_or_else(|| "?".to_owned(), grouped);
    let usage = told.usage;
    let mut rows = vec![
        ("channel", channel_link(&told.channel)),
        ("outcome", text(told.outcome.map_or("under way", RunOutcome::name))),
        ("started by", text(told.trigger.name())),
        ("began", time(told.started_at)),
        ("ended", told.ended_at.map_or_else(|| text("-"), time)),
        (
            "works on",
            text(format!(
                "entries {} to {}, {}",
                told.from_seq,
                told.to_seq,
                counted(told.messages, "message", "messages")
            )),
        ),
        ("window", text(format!("{} → {after} tokens", grouped(told.tokens_before)))),
        ("tokens sent", text(grouped(usage.input_tokens))),
        ("tokens of the answers", text(grouped(usage.output_tokens))),
        ("cost", text(told.cost.map_or_else(|| "-".to_owned(), money))),
        ("memories", text(grouped(told.memories))),
    ];
    if !told.sources.is_empty() {
        rows.push(("merges", html! { @for id in &told.sources { (summary(id)) " " } }));
    }
    if let Some(id) = &told.summary {
        rows.push(("summary", summary(id)));
    }
    if let Some(wish) = &told.instruction {
        rows.push(("asked to attend to", text(one_line(wish))));
    }
    if told.chunks > 0 {
        rows.push(("chunks finished on the way", text(grouped(told.chunks))));
    }
    facts(&rows)
}

fn calls(told: &RunExplanation) -> Markup {
    let at = run_path(&told.channel, &told.run);
    let number = |call: &CallRecord| {
        let work = call.trace.as_ref().and_then(|trace| trace.work.as_ref());
        let range = work.and_then(|work| work.entries);
        html! {
            (call.call) " "
            a href={ (at) "/prompt?call=" (call.call) } { "prompt" }
            @if let Some((from, to)) = range { br; span.note { "entries " (from) " to " (to) } }
            @if let Some(work) = work.filter(|work| work.round > 1) { br; span.note { "round " (work.round) " of the talk" } }
        }
    };
    let rows: Vec<_> = told.calls.iter().map(|call| call_row(call, number(call))).collect();
    html! {
        section aria-labelledby="calls" {
            h2 #calls { "Calls of models" }
            @if rows.is_empty() { p { "No model was called." } } @else { (table("Calls of models", &CALL_COLUMNS, &rows)) }
        }
    }
}

fn failed(attempts: &[FailedAttempt]) -> Markup {
    if attempts.is_empty() {
        return html! {};
    }
    let row =
        |failed: &FailedAttempt| vec![text(failed.attempt), time(failed.at), text(one_line(&failed.reason))];
    let rows: Vec<_> = attempts.iter().map(row).collect();
    let columns = [("attempt", "number"), ("at", ""), ("why", "")];
    html! {
        section aria-labelledby="failed" { h2 #failed { "Attempts that failed" } (table("Attempts that failed", &columns, &rows)) }
    }
}
