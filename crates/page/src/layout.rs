//! What all views share: the frame around them, and the pieces that they are made of.
//!
//! Text of people, models and tools comes in as `&str` and is escaped by `html!`; nothing here takes markup from data.

use std::fmt::Display;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cairn_api::error::ApiError;
use cairn_types::ids::ChannelId;
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::files::File;
use crate::guard::Visitor;
use crate::login;
use cairn_api::text::{minute, one_line, plain};

/// Nothing of htmx that a policy without inline styles and without eval would stop, and no copies of pages in the browser.
const HTMX: &str = r#"{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyCacheSize":0}"#;

/// The sections of the page, in the order of the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Channels,
    Memories,
    Tools,
    Outbox,
    Config,
    Events,
}

const MENU: [(Section, &str, &str); 7] = [
    (Section::Overview, "/", "Overview"),
    (Section::Channels, "/channels", "Channels"),
    (Section::Memories, "/memories", "Memories"),
    (Section::Tools, "/tools", "Tools"),
    (Section::Outbox, "/outbox", "Outbox"),
    (Section::Config, "/config", "Configuration"),
    (Section::Events, "/events", "Events"),
];

/// What is around a view.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) section: Section,
    pub(super) visitor: Visitor,
    /// The command that shows the same, as [`command`] writes it.
    pub(super) command: String,
}

/// A whole page.
pub(super) fn layout(frame: &Frame<'_>, view: &Markup) -> Markup {
    let menu = html! {
        nav aria-label="Sections" {
            ul {
                @for (section, path, name) in MENU {
                    li { a href=(path) aria-current=[(section == frame.section).then_some("page")] { (name) } }
                }
            }
        }
        form.visitor method="post" action=(login::LOGOUT) {
            @if !frame.visitor.may_operate() { span { "Looks only" } }
            button { "Log out" }
        }
    };
    let body = html! {
        h1 { (one_line(frame.title)) }
        (view)
        p.command { span { "The same in a terminal" } code { (frame.command) } }
    };
    document(frame.title, &menu, &body)
}

/// A page for whom nobody knows yet.
pub(super) fn bare(title: &str, view: Markup) -> Markup {
    document(title, &html! {}, &view)
}

fn document(title: &str, menu: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX);
                title { (one_line(title)) " · Cairn" }
                link rel="icon" href=(File::Icon.path());
                link rel="stylesheet" href=(File::Style.path());
                script src=(File::Htmx.path()) defer {}
                script src=(File::Script.path()) defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { a.name href="/" { "Cairn" } (menu) }
                p #lost hidden role="status" { "The daemon does not answer; what you see may be old." }
                main #main tabindex="-1" { (body) }
            }
        }
    }
}

/// A view that cannot be shown; what the admin API says of it.
#[derive(Debug)]
pub(super) struct PageError(ApiError);

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let ApiError { status, detail, .. } = self.0;
        let title = status.canonical_reason().unwrap_or("Error");
        let view = html! {
            h1 { (title) }
            p.trouble role="alert" { (plain(&detail.message)) }
            (said(&detail.hint))
            p { a href="/" { "Overview" } }
        };
        (status, bare(title, view)).into_response()
    }
}

pub(super) async fn no_such_view() -> PageError {
    PageError(ApiError::new(
        StatusCode::NOT_FOUND,
        "no_such_view",
        "there is no such page",
        "the menu has all views",
    ))
}

/// A path that is only read, or only changed.
pub(super) async fn not_so() -> PageError {
    PageError(ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this address takes no such request",
        "go back and load the page again",
    ))
}

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

/// A path of the page, each segment encoded.
pub(super) fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", encoded(segment))).collect()
}

/// For a path or a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

pub(super) fn channel_path(channel: &ChannelId) -> String {
    path(&["channels", &channel.to_string()])
}

pub(super) fn channel_link(channel: &ChannelId) -> Markup {
    html! { a href=(channel_path(channel)) { (one_line(&channel.to_string())) } }
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

/// A part that is loaded again every so many seconds.
pub(super) fn live_every(secs: u32, id: &str, part: &Markup) -> Markup {
    let itself = format!("#{id}");
    html! {
        div id=(id) hx-get="" hx-trigger={ "every " (secs) "s" } hx-select=(itself) hx-target=(itself) hx-swap="outerHTML" { (part) }
    }
}
