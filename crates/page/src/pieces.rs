//! What views are made of.
//!
//! Text of people, models and tools comes in as `&str` and is escaped by `html!`; nothing here takes markup from data.

use std::fmt::Display;

use axum::http::HeaderMap;
use cairn_api::records::{Change, LineDiff};
use cairn_api::text::{counted, minute, one_line, plain};
use cairn_server::api::Admin;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

/// Lines around a change that are shown with it.
const AROUND: usize = 3;

/// A command line that can be pasted into a shell.
pub(super) fn command(args: &[&str]) -> String {
    let plain = |arg: &str| {
        !arg.is_empty() && arg.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:,=@".contains(&b))
    };
    let quoted = args.iter().map(|arg| match plain(arg) {
        true => (*arg).to_owned(),
        false => format!("'{}'", one_line(arg).replace('\'', r"'\''")),
    });
    ["cairn".to_owned()].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}

/// A time to the minute, UTC.
pub(super) fn time(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (minute(at)) } }
}

/// Words of somebody, with their line breaks.
pub(super) fn said(text: &str) -> Markup {
    html! { div.said dir="auto" { (plain(text)) } }
}

/// A table that scrolls by itself where it is too wide. `columns`: name and class (`number`: to the right; `wide`: left out
/// on a phone). The first cell heads its row.
pub(super) fn table(caption: &str, columns: &[(&str, &str)], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for (name, class) in columns { th scope="col" class=(class) { (name) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (idx, (cell, (_, class))) in row.iter().zip(columns).enumerate() {
                                @if idx == 0 { th scope="row" class=(class) { (cell) } }
                                @else { td class=(class) { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Names and what they are.
pub(super) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, fact) in facts { div { dt { (name) } dd { (fact) } } } } }
}

/// The currency of the models' prices; empty where the configuration does not say.
pub(super) fn currency(admin: &Admin) -> String {
    admin.agent_registry.loaded().config.limits.currency.clone()
}

pub(super) fn text(text: impl Display) -> Markup {
    html! { (one_line(&text.to_string())) }
}

/// Whether a script asks for that live part alone.
pub(super) fn is_poll(headers: &HeaderMap, id: &str) -> bool {
    headers.get("hx-target").is_some_and(|target| target == id)
}

/// A part that is loaded again every few seconds where scripts run; it must hold nothing that is typed into. `id` is unique
/// on the view.
pub(super) fn live(id: &str, part: &Markup) -> Markup {
    live_every(5, id, part)
}

/// Seconds after which what shows a channel is loaded again. One that sleeps is restored for each look, and changes when it wakes.
pub(super) fn live_secs(awake: bool) -> u32 {
    if awake { 5 } else { 60 }
}

/// A part that is loaded again every so many seconds.
pub(super) fn live_every(secs: u32, id: &str, part: &Markup) -> Markup {
    let itself = format!("#{id}");
    html! {
        div id=(id) hx-get="" hx-trigger={ "every " (secs) "s" } hx-select=(itself) hx-target=(itself) hx-swap="outerHTML" { (part) }
    }
}

/// The lines of a comparison that differ, with a few around them.
pub(super) fn differing(lines: &[LineDiff]) -> Markup {
    let near = |at: usize| {
        let around = at.saturating_sub(AROUND)..(at + AROUND + 1).min(lines.len());
        lines[around].iter().any(|line| line.change != Change::Same)
    };
    let shown: Vec<_> = lines.iter().enumerate().map(|(at, line)| near(at).then_some(line)).collect();
    html! {
        div.diff dir="auto" {
            @for run in shown.chunk_by(|a, b| a.is_none() && b.is_none()) {
                @match run.first() {
                    Some(Some(line)) => (diff_line(line)),
                    _ => div.left-out { (counted(run.len() as u64, "line", "lines")) " unchanged" },
                }
            }
        }
    }
}

fn diff_line(line: &LineDiff) -> Markup {
    let words = format!("{}{}", line.mark(), plain(&line.text));
    match line.change {
        Change::Added => html! { ins { (words) } },
        Change::Removed => html! { del { (words) } },
        Change::Same | Change::Changed => html! { div { (words) } },
    }
}

/// JSON as it is read, with what is hidden escaped.
pub(super) fn json(value: &Value) -> Markup {
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { pre.said tabindex="0" { (plain(&pretty)) } }
}
