//! A summary beside what it was made of, with what it leaves out marked there.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use cairn_api::error::ApiError;
use cairn_types::ids::Seq;
use cairn_types::message::Role;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{path, summary_path};
use crate::marks::marked;
use crate::paint::paint;
use crate::pieces::{command, said, table, text, time};
use crate::visitor::Visitor;
use cairn_api::records::{EntryRecord, LeftOutRecord, SummaryView};
use cairn_api::show::Show as _;
use cairn_api::text::{counted, grouped, one_line};
use cairn_server::api::{Channel, Params, Shared, history, summaries};

/// Entries of the source that are shown at a time.
const ENTRIES: u64 = 100;

/// Of what is left out, what is listed at once; marks show all of it.
const LEFT_OUT: usize = 200;

#[derive(Deserialize)]
pub(super) struct SummaryQuery {
    /// The entry that the source is shown from.
    from: Option<u64>,
}

/// `GET /channels/{channel}/summaries/{id}`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path((name, id)): Path<(String, String)>,
    Query(query): Query<SummaryQuery>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let shown = summaries::show(State(Arc::clone(&admin)), Channel(channel.clone(), id)).await?.0;
    let Seq(first) = shown.line.from_seq;
    let Seq(last) = shown.line.to_seq;
    let from = query.from.unwrap_or(first).clamp(first, last);
    let to = last.min(from + ENTRIES - 1);
    let params = history::HistoryParams {
        from: Some(from),
        to: Some(to),
        limit: Some(ENTRIES as usize),
        ..Default::default()
    };
    let entries = history::history(State(admin), Channel(channel.clone(), ()), Params(params)).await?.items;
    // Of long texts there are fewer on a page.
    let to = entries.last().and_then(|entry| entry.seq).map_or(to, |Seq(shown)| shown);
    // Thousands of words are looked for in each text: that keeps no thread from others' answers.
    let (shown, body) = tokio::task::spawn_blocking(move || {
        let body = html! {
            (paint(&shown.show()))
            (left_out(&shown))
            div.beside {
                section aria-labelledby="summary" { h2 #summary { "What the model sees" } (said(&shown.text)) (identifiers(&shown)) }
                section aria-labelledby="source" {
                    h2 #source { "Source messages" }
                    p.note { mark { "Marked" } ": details that the summary does not contain exactly." }
                    @for entry in &entries { (entry_said(entry, &shown.left_out)) }
                    (pages(&shown, from, to))
                }
            }
        };
        (shown, body)
    })
    .await
    .map_err(|error| ApiError::internal(&error))?;
    let id = shown.line.id.as_str();
    let title = format!("Summary {id}");
    let command = command(&["summary", "show", &channel.to_string(), id]);
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

fn left_out(shown: &SummaryView) -> Markup {
    let all = &shown.left_out;
    let row = |one: &LeftOutRecord| {
        let place =
            format!("{}?from={}#e{}", summary_path(&shown.channel, shown.line.id.as_str()), one.seq, one.seq);
        vec![
            text(&one.text),
            text(&one.kind),
            html! { a href=(place) { (one.seq) } },
            text(grouped(one.entries)),
        ]
    };
    let rows: Vec<_> = all.iter().take(LEFT_OUT).map(row).collect();
    let columns = [("left out", ""), ("kind", ""), ("first said in entry", "number"), ("entries", "number")];
    html! {
        section aria-labelledby="left-out" {
            h2 #left-out { "Left out" }
            @if all.is_empty() { p.well { "The summary has all identifiers, numbers and names found in its source, or the source text has expired." } }
            @else {
                details open[all.len() <= 12] {
                    summary { (counted(all.len() as u64, "identifier, number or name", "identifiers, numbers and names")) }
                    (table("Exact details of the source that the summary leaves out", &columns, &rows))
                    @if all.len() > LEFT_OUT { p.note { "and " (grouped((all.len() - LEFT_OUT) as u64)) " more" } }
                }
            }
        }
    }
}

fn identifiers(shown: &SummaryView) -> Markup {
    html! {
        @if !shown.identifiers.is_empty() {
            h3 { "Exact identifiers" }
            (said(&shown.identifiers.join("\n")))
        }
    }
}

/// An entry of the source.
fn entry_said(entry: &EntryRecord, left_out: &[LeftOutRecord]) -> Markup {
    let seq = entry.seq.unwrap_or(Seq(0));
    let words: Vec<&str> = left_out.iter().map(|one| one.text.as_str()).collect();
    html! {
        article.entry id={ "e" (seq) } {
            p.head { (seq) " · " (marked(&speaker(entry), &words)) " · " (time(entry.at)) }
            @let text = entry.text();
            @if !text.is_empty() { div.said dir="auto" { (marked(&text, &words)) } }
            @for call in &entry.tool_calls { p.note { "calls " code { (one_line(&call.name)) } " " code { (one_line(&call.arguments.to_string())) } } }
        }
    }
}

/// Who said it.
pub(super) fn speaker(entry: &EntryRecord) -> String {
    match (&entry.author, entry.role) {
        (Some(author), _) => one_line(&author.name),
        (None, Role::Assistant) => "the model".to_owned(),
        (None, Role::Tool) => "a tool".to_owned(),
        (None, Role::User) => "somebody".to_owned(),
    }
}

fn pages(shown: &SummaryView, from: u64, to: u64) -> Markup {
    let (Seq(first), Seq(last)) = (shown.line.from_seq, shown.line.to_seq);
    let itself = path(&["channels", &shown.channel.to_string(), "summaries", shown.line.id.as_str()]);
    html! {
        nav.pages aria-label="Entries" {
            @if from > first { a rel="prev" href={ (itself) "?from=" (from.saturating_sub(ENTRIES).max(first)) "#source" } { "Earlier entries" } }
            @if to < last { a rel="next" href={ (itself) "?from=" (to + 1) "#source" } { "Later entries" } }
        }
    }
}
