//! The request of a call of a turn or a run, region by region, and how that of a turn differs from the one before.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use cairn_types::ids::{ChannelId, TurnId};
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, run_path, summary_path, turn_path};
use crate::pieces::{command, differing, facts, said, text};
use crate::visitor::Visitor;
use cairn_api::records::{CallOf, Change, PromptDiff, PromptRecord, RegionDiff, RegionRecord};
use cairn_api::text::{bytes, counted, grouped, one_line};
use cairn_server::api::{Channel, Params, Shared, explain, explain_run};

/// Lines of a region beyond which it is folded.
const OPEN_LINES: usize = 12;

#[derive(Deserialize)]
pub(super) struct PromptQuery {
    call: Option<usize>,
}

/// `GET /channels/{channel}/turns/{turn}/prompt`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, which)): Path<(String, String)>,
    Query(PromptQuery { call }): Query<PromptQuery>,
) -> Result<Markup, PageError> {
    Ok(shown(visitor, &prompt(&admin, &name, which, call).await?))
}

/// `GET /channels/{channel}/runs/{run}/prompt`.
pub(super) async fn of_run(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, run)): Path<(String, String)>,
    Query(PromptQuery { call }): Query<PromptQuery>,
) -> Result<Markup, PageError> {
    Ok(shown(visitor, &run_prompt(&admin, &name, run, call).await?))
}

fn shown(visitor: Visitor, made: &PromptRecord) -> Markup {
    let (channel, number) = (made.channel.to_string(), made.call.to_string());
    let (what, at, command) = match &made.of {
        CallOf::Turn(turn) => {
            let command = command(&["explain", &channel, turn.as_str(), "--prompt", "--call", &number]);
            ("turn", turn_path(&made.channel, turn), command)
        }
        CallOf::Run(run) => {
            let command =
                command(&["explain", &channel, "--run", run.as_str(), "--prompt", "--call", &number]);
            ("run", run_path(&made.channel, run), command)
        }
    };
    let body = html! {
        (facts(&[
            ("channel", channel_link(&made.channel)),
            (what, html! { a href=(at) { (one_line(&made.of.to_string())) } }),
            ("call", text(format!("{} of {}", made.call, made.calls))),
            ("model", text(&made.model)),
            ("size", text(bytes(made.body.len() as u64))),
        ]))
        (exactness(made.exact, &made.why_not, "This is the request as it was sent, byte for byte: its hash matches the stored one."))
        p {
            a href={ (at) "/body?call=" (made.call) } { "The exact bytes" }
            @if what == "turn" { " · " a href={ (at) "/diff?call=" (made.call) } { "Differences from the previous request" } }
        }
        (regions(&made.channel, &made.regions))
    };
    let title = format!("Prompt of call {} in {what} {}", made.call, made.of);
    layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body)
}

/// `GET /channels/{channel}/turns/{turn}/body`: the request as it was sent, as plain text.
pub(super) async fn body(
    State(admin): State<Shared>,
    Path((name, which)): Path<(String, String)>,
    Query(PromptQuery { call }): Query<PromptQuery>,
) -> Result<Response, PageError> {
    let made = prompt(&admin, &name, which, call).await?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], made.body).into_response())
}

/// `GET /channels/{channel}/runs/{run}/body`.
pub(super) async fn body_of_run(
    State(admin): State<Shared>,
    Path((name, run)): Path<(String, String)>,
    Query(PromptQuery { call }): Query<PromptQuery>,
) -> Result<Response, PageError> {
    let made = run_prompt(&admin, &name, run, call).await?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], made.body).into_response())
}

async fn run_prompt(
    admin: &Shared,
    name: &str,
    run: String,
    call: Option<usize>,
) -> Result<PromptRecord, PageError> {
    let (state, channel) = (State(Arc::clone(admin)), Channel(admin.resolve(name)?, run));
    Ok(explain_run::prompt(state, channel, Params(explain::CallParams { call })).await?.0)
}

async fn prompt(
    admin: &Shared,
    name: &str,
    which: String,
    call: Option<usize>,
) -> Result<PromptRecord, PageError> {
    let (state, channel) = (State(Arc::clone(admin)), Channel(admin.resolve(name)?, which));
    Ok(explain::prompt(state, channel, Params(explain::CallParams { call })).await?.0)
}

/// `GET /channels/{channel}/turns/{turn}/diff`.
pub(super) async fn diff(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, which)): Path<(String, String)>,
    Query(PromptQuery { call }): Query<PromptQuery>,
) -> Result<Markup, PageError> {
    let channel = Channel(admin.resolve(&name)?, which);
    let made =
        explain::diff(State(Arc::clone(&admin)), channel, Params(explain::CallParams { call })).await?.0;
    let same = made.regions.iter().filter(|region| region.change == Change::Same).count();
    let body = html! {
        (facts(&[
            ("channel", channel_link(&made.channel)),
            ("turn", turn_link(&made.channel, &made.turn)),
            ("call", text(made.call)),
            ("compared with", against(&made)),
            ("the same", text(counted(same as u64, "region", "regions"))),
        ]))
        (exactness(made.exact, &made.why_not, "Both requests are as they were sent, byte for byte."))
        @for run in made.regions.chunk_by(|a, b| a.change == Change::Same && b.change == Change::Same) { (changed(&made.channel, run)) }
    };
    let (channel, number) = (made.channel.to_string(), made.call.to_string());
    let command = command(&["explain", &channel, made.turn.as_str(), "--diff", "--call", &number]);
    let title = format!("Differences in call {} of turn {}", made.call, made.turn);
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

fn turn_link(channel: &ChannelId, turn: &TurnId) -> Markup {
    html! { a href=(turn_path(channel, turn)) { (one_line(turn.as_str())) } }
}

fn against(made: &PromptDiff) -> Markup {
    match &made.against {
        Some((turn, call)) => html! { "call " (call) " of turn " (turn_link(&made.channel, turn)) },
        None => text("nothing: no earlier call is known"),
    }
}

fn exactness(exact: bool, why_not: &[String], words: &str) -> Markup {
    html! {
        @if exact { p.well { (words) } }
        @else {
            p.trouble { "This is not exactly the request that was sent." }
            ul { @for why in why_not { li { (one_line(why)) } } }
        }
    }
}

/// What a region is, and of which summary or call.
fn head(channel: &ChannelId, kind: &str, id: Option<&str>) -> Markup {
    html! {
        b { (one_line(kind)) }
        @match (kind, id) {
            ("summary", Some(id)) => { " " a href=(summary_path(channel, id)) { (one_line(id)) } },
            (_, Some(id)) => { " " (one_line(id)) },
            (_, None) => {},
        }
    }
}

/// The parts of a request, each folded, with links that open them.
fn regions(channel: &ChannelId, regions: &[RegionRecord]) -> Markup {
    let mut idx = 0;
    let parts: Vec<(usize, &[RegionRecord])> = regions
        .chunk_by(|a, b| part_name(&a.kind) == part_name(&b.kind))
        .map(|part| {
            idx += part.len();
            (idx - part.len(), part)
        })
        .collect();
    let size = |part: &[RegionRecord]| {
        let bytes = part.iter().map(|region| region.text.len() as u64).sum();
        format!("{}, {}", counted(part.len() as u64, "region", "regions"), counted(bytes, "byte", "bytes"))
    };
    html! {
        nav.jump aria-label="Parts of the request" {
            ul { @for (at, part) in &parts { li { a href={ "#part" (at) } { (part_name(&part[0].kind)) } " " span.note { (size(part)) } } } }
        }
        @for (at, part) in &parts {
            @if let [region] = part {
                div id={ "part" (at) } { (drawn(channel, *at, region)) }
            } @else {
                details.part {
                    summary { b { (part_name(&part[0].kind)) } " · " (size(part)) }
                    div id={ "part" (at) } { @for (n, region) in part.iter().enumerate() { (drawn(channel, at + n, region)) } }
                }
            }
        }
    }
}

/// What regions of that kind are together.
fn part_name(kind: &str) -> String {
    match kind {
        "system" | "guide" => "Instructions".to_owned(),
        "tools" => "Tools".to_owned(),
        "summary" | "marker" => "Summaries".to_owned(),
        "user" | "assistant" | "tool" => "Messages".to_owned(),
        kind => one_line(kind),
    }
}

fn drawn(channel: &ChannelId, idx: usize, region: &RegionRecord) -> Markup {
    let lines = region.text.lines().count();
    let size = format!("{}, {}", counted(lines as u64, "line", "lines"), bytes_of(&region.text));
    html! {
        section.region.(region_class(&region.kind)) id={ "r" (idx) } {
            details open[lines <= OPEN_LINES] {
                summary { b { (one_line(&region.kind)) } @if let Some(id) = &region.id { " " (one_line(id)) } " · " (size) }
                (said(&region.text))
                @if let ("summary", Some(id)) = (region.kind.as_str(), &region.id) {
                    p.note { a href=(summary_path(channel, id)) { "The summary beside its source" } }
                }
            }
        }
    }
}

fn bytes_of(text: &str) -> String {
    counted(text.len() as u64, "byte", "bytes")
}

/// The colour of a region: that of its part of the window.
fn region_class(kind: &str) -> &'static str {
    match kind {
        "system" | "guide" => "edge0",
        "tools" => "edge1",
        "summary" | "marker" => "edge2",
        "user" | "assistant" | "tool" => "edge4",
        _ => "edge5",
    }
}

/// Regions in a row that are the same, or one that is not.
fn changed(channel: &ChannelId, run: &[RegionDiff]) -> Markup {
    let Some(first) = run.first() else { return html! {} };
    if first.change == Change::Same {
        let kinds: Vec<&str> = run.iter().map(|region| region.kind.as_str()).collect();
        let what = format!(
            "{} unchanged: {}",
            counted(run.len() as u64, "region is", "regions are"),
            summed_up(&kinds)
        );
        return html! { p.note { (what) } };
    }
    html! {
        section.region.(region_class(&first.kind)) {
            p.head { (head(channel, &first.kind, first.id.as_deref())) " · " (name(first.change)) }
            (differing(&first.lines))
        }
    }
}

/// How many there are of each kind, in the order in which the kinds come first.
fn summed_up(kinds: &[&str]) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for kind in kinds {
        match counts.iter_mut().find(|(known, _)| known == kind) {
            Some((_, n)) => *n += 1,
            None => counts.push((kind, 1)),
        }
    }
    let told = counts
        .into_iter()
        .map(|(kind, n)| if n == 1 { kind.to_owned() } else { format!("{} × {kind}", grouped(n)) });
    told.collect::<Vec<_>>().join(", ")
}

fn name(change: Change) -> &'static str {
    match change {
        Change::Same => "the same",
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Changed => "changed",
    }
}
