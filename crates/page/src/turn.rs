//! A turn of the past: what was asked, what the model knew and did, what it took.

use crate::links::turn_path;
use std::sync::Arc;

use axum::extract::{Path, State};
use cairn_core::spend::money;
use maud::{Markup, html};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, path, run_path, summary_path};
use crate::pieces::{command, facts, said, table, text, time};
use crate::visitor::Visitor;
use cairn_api::records::{
    CallRecord, Explanation, RecalledRecord, SaidRecord, StandsRecord, ToolCallRecord, cut_words,
};
use cairn_api::text::{counted, grouped, one_line, percent};
use cairn_server::api::{Channel, Shared, explain};

/// `GET /channels/{channel}/turns/{turn}`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, which)): Path<(String, String)>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let told = explain::explain(State(Arc::clone(&admin)), Channel(channel.clone(), which)).await?.0;
    let turn = told.turn.as_str();
    let body = html! {
        (about(&told))
        @for missing in &told.missing { p.note { (one_line(missing)) } }
        section aria-labelledby="question" { h2 #question { "Question" } @for said in &told.question { (spoken(said)) } }
        section aria-labelledby="answer" {
            h2 #answer { "Answer" }
            @if let Some(failure) = &told.failure { p.trouble { (one_line(failure)) } }
            @match &told.answer { Some(said) => (spoken(said)), None => p { "There is none." } }
        }
        (calls(&told))
        (recalled("recalled", "Memories that it was given", &told.recalled))
        (recalled("near", "Memories that almost came in", &told.near))
        (stands(&told))
        (tools(&told.tools))
        (times(&told))
        (neighbours(&told))
    };
    let title = format!("Turn {turn}");
    let command = command(&["explain", &channel.to_string(), turn]);
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

fn about(told: &Explanation) -> Markup {
    let usage = told.usage;
    let mut rows = vec![
        ("channel", channel_link(&told.channel)),
        ("outcome", text(outcome(told))),
        ("began", time(told.started_at)),
        ("ended", told.ended_at.map_or_else(|| text("-"), time)),
        (
            "tokens sent",
            text(format!("{}, {} from the cache", grouped(usage.input_tokens), grouped(usage.cached_tokens))),
        ),
        ("tokens of the answer", text(grouped(usage.output_tokens))),
        ("cost", text(told.cost.map_or_else(|| "-".to_owned(), money))),
    ];
    if let Some(at) = told.delivered_at {
        rows.push(("delivered", time(at)));
    }
    if let Some((from, to)) = told.entries {
        rows.push(("saw in full", text(format!("entries {from} to {to}"))));
    }
    facts(&rows)
}

fn outcome(told: &Explanation) -> String {
    let undone = if told.undone { ", undone since" } else { "" };
    let cut = match told.interruptions {
        0 => String::new(),
        n => format!(
            ", {} by a stop of the daemon",
            counted(u64::from(n), "time interrupted", "times interrupted")
        ),
    };
    format!("{}{undone}{cut}", told.outcome.replace('_', " "))
}

fn spoken(words: &SaidRecord) -> Markup {
    let who = words
        .author
        .as_ref()
        .map_or_else(|| "the model".to_owned(), |author| format!("{} ({})", author.name, author.id));
    html! {
        article.entry id={ "e" (words.seq) } {
            p.head {
                (words.seq) " · " (one_line(&who)) " · " (time(words.at))
                @if let Some(why) = cut_words(words.finish) { " · " span.trouble { (why) } }
            }
            (said(&words.text))
        }
    }
}

fn calls(told: &Explanation) -> Markup {
    let of_turn = turn_path(&told.channel, &told.turn);
    let number = |call: &CallRecord| {
        html! {
            (call.call) " "
            a href={ (of_turn) "/prompt?call=" (call.call) } { "prompt" } " "
            a href={ (of_turn) "/diff?call=" (call.call) } { "diff" }
        }
    };
    let rows: Vec<_> = told.calls.iter().map(|call| call_row(call, number(call))).collect();
    let run = |call: &CallRecord| match call.trace.as_ref().and_then(|trace| trace.work.as_ref()) {
        Some(work) => html! { a href=(run_path(&told.channel, &work.run)) { (one_line(work.run.as_str())) } },
        None => text(call.call),
    };
    let beside: Vec<_> = told.beside.iter().map(|call| call_row(call, run(call))).collect();
    html! {
        section aria-labelledby="calls" {
            h2 #calls { "Calls of models" }
            @if rows.is_empty() { p { "No model was called." } } @else { (table("Calls of models", &CALL_COLUMNS, &rows)) }
            @if !beside.is_empty() {
                h3 { "Compactions beside it" }
                (table("Calls of compactions beside it", &CALL_COLUMNS, &beside))
            }
        }
    }
}

pub(super) const CALL_COLUMNS: [(&str, &str); 9] = [
    ("call", ""),
    ("model", ""),
    ("tokens sent", "number"),
    ("cached", "number wide"),
    ("answer", "number wide"),
    ("first word", "number wide"),
    ("whole", "number"),
    ("cost", "number wide"),
    ("outcome", ""),
];

pub(super) fn call_row(call: &CallRecord, number: Markup) -> Vec<Markup> {
    let trace = call.trace.as_ref();
    let ms = |ms: Option<u64>| text(ms.map_or_else(|| "-".to_owned(), |ms| format!("{} ms", grouped(ms))));
    let about = if call.is_estimate { " (estimated)" } else { "" };
    vec![
        number,
        html! { (one_line(&call.model)) @if let Some(why) = &call.why { span.note { ": " (one_line(why)) } } },
        text(format!("{}{about}", grouped(call.usage.input_tokens))),
        text(percent(call.cached_share)),
        text(grouped(call.usage.output_tokens)),
        ms(trace.and_then(|trace| trace.first_ms)),
        ms(trace.map(|trace| trace.total_ms)),
        text(trace.and_then(|trace| trace.cost).map_or_else(|| "-".to_owned(), money)),
        html! {
            @match trace.and_then(|trace| trace.failure.as_ref()) {
                Some(failure) => span.trouble { (one_line(failure)) },
                None => @match cut_words(call.finish) { Some(why) => span.trouble { (why) }, None => "answered" },
            }
            @for tried in &call.tried {
                br;
                span.note { "before: " (one_line(&tried.model)) " " (one_line(&tried.error)) " × " (tried.n) }
            }
        },
    ]
}

fn recalled(id: &str, title: &str, memories: &[RecalledRecord]) -> Markup {
    if memories.is_empty() {
        return html! {};
    }
    let row = |memory: &RecalledRecord| {
        vec![
            html! { a href=(path(&["memories", memory.id.as_str()])) { (one_line(memory.id.as_str())) } },
            html! {
                @match &memory.text { Some(text) => (one_line(text)), None => span.note { "forgotten since" } }
                @if memory.changed && memory.text.is_some() { span.note { " (says something else now)" } }
            },
            text(if memory.words.is_empty() { "-".to_owned() } else { memory.words.join(", ") }),
            text(memory.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"))),
        ]
    };
    let rows: Vec<_> = memories.iter().map(row).collect();
    let columns = [("memory", "wide"), ("text", ""), ("by the words", ""), ("score", "number")];
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (table(title, &columns, &rows)) } }
}

fn stands(told: &Explanation) -> Markup {
    if told.stands.is_empty() {
        return html! {};
    }
    let row = |one: &StandsRecord| {
        vec![
            html! {
                @match &one.id {
                    Some(id) => a href=(summary_path(&told.channel, id.as_str())) { (one_line(id.as_str())) },
                    None => "marker",
                }
                @if one.provisional { span.note { " provisional" } }
            },
            text(one.level),
            text(format!("{} to {}", one.from_seq, one.to_seq)),
            text(grouped(u64::from(one.tokens))),
            text(&one.line),
        ]
    };
    let rows: Vec<_> = told.stands.iter().map(row).collect();
    let columns = [
        ("summary", ""),
        ("level", "number wide"),
        ("entries", "number"),
        ("tokens", "number wide"),
        ("says", ""),
    ];
    html! {
        section aria-labelledby="stands" {
            h2 #stands { "What stood for the older part" }
            (table("What stood for the older part", &columns, &rows))
        }
    }
}

fn tools(tools: &[ToolCallRecord]) -> Markup {
    if tools.is_empty() {
        return html! {};
    }
    let row = |call: &ToolCallRecord| {
        vec![
            text(&call.tool),
            html! { (one_line(&call.outcome)) @if let Some(error) = &call.error { ": " (one_line(error)) } },
            html! { code { (one_line(&call.arguments.to_string())) } },
            text(format!("{} ms", grouped(call.duration_ms))),
            text(grouped(call.bytes)),
        ]
    };
    let rows: Vec<_> = tools.iter().map(row).collect();
    let columns =
        [("tool", ""), ("outcome", ""), ("arguments", ""), ("took", "number"), ("bytes", "number wide")];
    html! { section aria-labelledby="tools" { h2 #tools { "Tools that it called" } (table("Tools that it called", &columns, &rows)) } }
}

fn times(told: &Explanation) -> Markup {
    if told.times.is_empty() {
        return html! {};
    }
    let rows: Vec<_> = told
        .times
        .iter()
        .map(|stage| vec![text(&stage.part), text(format!("{} ms", grouped(stage.ms)))])
        .collect();
    html! {
        section aria-labelledby="times" {
            h2 #times { "Where the time went" }
            (table("Where the time went", &[("part", ""), ("took", "number")], &rows))
        }
    }
}

fn neighbours(told: &Explanation) -> Markup {
    html! {
        nav.pages aria-label="Turns" {
            @if let Some(before) = &told.before { a rel="prev" href=(turn_path(&told.channel, before)) { "Turn before" } }
            @if let Some(after) = &told.after { a rel="next" href=(turn_path(&told.channel, after)) { "Turn after" } }
        }
    }
}
