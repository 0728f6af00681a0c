//! The window of a channel: how full it is, what stands for all that was said, and what each turn took.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use cairn_core::conversation::Conversation;
use cairn_core::spend::amount;
use cairn_types::event::TurnOutcome;
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::message::Role;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{Tab, encoded, tabs, try_path, turn_path, window_path};
use crate::paint::{list, paint};
use crate::pieces::{command, currency, is_poll, live_every, live_secs, table, text, time};
use crate::visitor::Visitor;
use crate::{chart, ribbon, window_bar};
use cairn_api::records::{ContextRecord, EntryRecord, SummaryLine, cut_words, pending_records};
use cairn_api::show::{self, Show as _};
use cairn_api::text::{cut, grouped, one_line};
use cairn_server::api::{Channel, Params, Shared, channels, history, summaries};

/// Entries whose turns are shown at a time.
const ENTRIES: u64 = 100;

/// Characters of a question in a list.
const EXCERPT: usize = 140;

#[derive(Deserialize)]
pub(super) struct WindowQuery {
    /// The turns before this entry.
    before: Option<u64>,
}

/// `GET /channels/{channel}/window`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Path(name): Path<String>,
    headers: HeaderMap,
    Query(query): Query<WindowQuery>,
) -> Result<Markup, PageError> {
    let channel = admin.resolve(&name)?;
    let (conversation, awake) = admin.conversation(&channel).await?;
    let expired = admin.store.expired_ranges(channel.clone()).await?;
    let window = match channels::context(State(Arc::clone(&admin)), Channel(channel.clone(), ())).await {
        Ok(record) => window(&record.0),
        // Its agent is no longer configured: what was said is there all the same.
        Err(error) if error.status == StatusCode::NOT_FOUND => {
            html! { p.trouble { (one_line(&error.detail.message)) } }
        }
        Err(error) => return Err(error.into()),
    };
    let now = html! {
        (window)
        section aria-labelledby="coverage" {
            h2 #coverage { "How each message is kept" }
            (ribbon::drawn(&conversation, &expired))
        }
    };
    let now = live_every(live_secs(awake), "now", &now);
    if is_poll(&headers, "now") {
        return Ok(now);
    }
    let made = summaries::list(State(Arc::clone(&admin)), Channel(channel.clone(), ())).await?.0;
    let body = html! {
        (tabs(&channel, Tab::Window))
        (now)
        details { summary { "As a table" } (ribbon::listed(&conversation, &expired)) }
        (chart::section(&admin, &channel).await?)
        (turns(&admin, &conversation, query.before).await?)
        (summaries_section(&channel, &made))
    };
    let command = command(&["context", &channel.to_string()]);
    let title = format!("Window of {channel}");
    Ok(layout(&Frame { title: &title, section: Section::Channels, visitor, command }, &body))
}

/// The window with its figures, and the run that makes room in it.
fn window(record: &ContextRecord) -> Markup {
    html! {
        section aria-labelledby="window" {
            h2 #window { "Window" }
            (window_bar::drawn(record))
            (paint(&record.show()))
            p {
                a href=(try_path(&record.channel)) { "Try other thresholds" } " · "
                a href={ "/tools?channel=" (encoded(&record.channel.to_string())) } { "Tool calls" } " · "
                a href={ "/events?channel=" (encoded(&record.channel.to_string())) } { "Events" }
            }
        }
    }
}

/// A turn as the timeline has it: its entries, in order.
struct Turn<'r>(&'r [EntryRecord]);

/// The turns before an entry, newest first; else the newest, with what waits.
async fn turns(
    admin: &Shared,
    conversation: &Conversation,
    before: Option<u64>,
) -> Result<Markup, PageError> {
    let channel = &conversation.channel;
    let end = before.unwrap_or(conversation.next_seq.0).min(conversation.next_seq.0);
    let begin = end.saturating_sub(ENTRIES).max(1);
    let records = if end > 1 {
        let params = history::HistoryParams {
            from: Some(begin),
            to: Some(end - 1),
            tail: Some(ENTRIES as usize),
            ..Default::default()
        };
        history::history(State(Arc::clone(admin)), Channel(channel.clone(), ()), Params(params)).await?.items
    } else {
        Vec::new()
    };
    // Of long texts there are fewer on a page.
    let begin = records.first().and_then(|record| record.seq).map_or(begin, |Seq(first)| first);
    let mut shown: Vec<Turn<'_>> = records.chunk_by(|a, b| a.turn == b.turn).map(Turn).collect();
    // The first of them may have begun before this page; the next page has it whole, unless it fills a page alone.
    let older = (begin > 1).then(|| {
        let begun = (shown.len() > 1).then(|| shown.remove(0));
        begun.and_then(|turn| turn.0.last()?.seq).map_or(begin, |Seq(last)| last + 1)
    });
    let correction = cairn_types::tokens::Correction::default();
    let pending = if before.is_none() { pending_records(conversation, &correction) } else { Vec::new() };
    let currency = currency(admin);
    let rows: Vec<_> = pending
        .iter()
        .rev()
        .map(|record| Turn(std::slice::from_ref(record)))
        .chain(shown.into_iter().rev())
        .map(|turn| turn.row(channel, &currency))
        .collect();
    Ok(html! {
        section aria-labelledby="turns" {
            h2 #turns { "Turns" }
            @if rows.is_empty() { p { "There are no messages here." } }
            @else { (table("Turns, newest first", &TURN_COLUMNS, &rows)) }
            nav.pages aria-label="Turns" {
                @if before.is_some() { a href={ (window_path(channel)) "#turns" } { "Newest" } }
                @if let Some(older) = older { a rel="next" href={ (window_path(channel)) "?before=" (older) "#turns" } { "Older" } }
            }
        }
    })
}

const TURN_COLUMNS: [(&str, &str); 7] = [
    ("question", ""),
    ("at", "wide"),
    ("outcome", ""),
    ("model", "wide"),
    ("tokens in", "number wide"),
    ("out", "number wide"),
    ("cost", "number"),
];

impl Turn<'_> {
    fn row(&self, channel: &ChannelId, currency: &str) -> Vec<Markup> {
        let Self(entries) = self;
        let first = asked(entries).or_else(|| entries.first());
        let end = entries.last().and_then(|entry| entry.end.as_ref());
        let is_pending = entries.iter().any(|entry| entry.seq.is_none());
        let outcome = match end.map(|end| &end.outcome) {
            None if is_pending => html! { "waiting" },
            None => html! { "running" },
            Some(TurnOutcome::Answered { .. }) => html! {
                "answered"
                @if let Some(why) = cut_words(entries.last().and_then(|entry| entry.finish)) { ", " span.trouble { (why) } }
            },
            Some(TurnOutcome::Unanswered) => html! { "no answer needed" },
            Some(TurnOutcome::Silent) => html! { "chose to say nothing" },
            Some(TurnOutcome::Stopped | TurnOutcome::DeadLettered | TurnOutcome::Failed { .. }) => {
                html! { span.trouble { (end.and_then(|end| end.why()).map(|why| excerpt(&why)).unwrap_or_default()) } }
            }
        };
        let usage = |tokens: fn(&cairn_types::model::Usage) -> u64| {
            text(end.map_or_else(|| "-".to_owned(), |end| grouped(tokens(&end.usage))))
        };
        let who = first
            .and_then(|entry| entry.author.as_ref())
            .map(|author| format!("{}: ", author.name))
            .unwrap_or_default();
        let said = first.map(EntryRecord::text).unwrap_or_default();
        let question = excerpt(&format!("{who}{said}"));
        let turn = entries[0].turn.clone();
        vec![
            html! {
                @for seq in entries.iter().filter_map(|entry| entry.seq) { span id={ "e" (seq) } {} }
                @if is_pending { span.question { (question) } } @else { a.question href=(turn_path(channel, &turn)) { (question) } }
            },
            first.map_or_else(|| html! {}, |entry| time(entry.at)),
            outcome,
            text(end.and_then(|end| end.model.as_deref()).unwrap_or("-")),
            usage(|usage| usage.input_tokens),
            usage(|usage| usage.output_tokens),
            text(end.and_then(|end| end.cost).map_or_else(|| "-".to_owned(), |cost| amount(cost, currency))),
        ]
    }
}

/// The message that a turn answers: the newest of those that it took up together.
fn asked(entries: &[EntryRecord]) -> Option<&EntryRecord> {
    let begun = entries.iter().take_while(|entry| entry.role == Role::User);
    begun.last().or_else(|| entries.iter().find(|entry| entry.role == Role::User))
}

/// The beginning of a text, on one line.
pub(super) fn excerpt(text: &str) -> String {
    cut(&one_line(text), EXCERPT)
}

fn summaries_section(channel: &ChannelId, made: &[SummaryLine]) -> Markup {
    html! {
        @if !made.is_empty() {
            section aria-labelledby="summaries" {
                h2 #summaries { "Summaries" }
                (list("Summaries, newest first", &show::summaries(channel, made.iter().rev()), |_| html! {}))
            }
        }
    }
}
