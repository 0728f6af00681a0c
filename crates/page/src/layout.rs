//! The frame around all views.

use crate::links::LOGOUT;

use maud::{DOCTYPE, Markup, html};

use crate::asset::File;
use crate::visitor::Visitor;
use cairn_api::text::one_line;

/// Nothing of htmx that a policy without inline styles and without eval would stop, and no copies of pages in the browser.
const HTMX: &str = r#"{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyCacheSize":0}"#;

/// The sections of the page, in the order of the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Status,
    Talk,
    Channels,
    Search,
    Memories,
    People,
    Spend,
    Tools,
    Reminders,
    Outbox,
    Store,
    Config,
    Events,
    /// None of them.
    Nowhere,
}

const MENU: [(Section, &str, &str); 13] = [
    (Section::Status, "/", "Status"),
    (Section::Talk, "/talk", "Talk"),
    (Section::Channels, "/channels", "Channels"),
    (Section::Search, "/search", "Search"),
    (Section::Memories, "/memories", "Memories"),
    (Section::People, "/people", "People"),
    (Section::Spend, "/spend", "Spend"),
    (Section::Tools, "/tools", "Tools"),
    (Section::Reminders, "/reminders", "Reminders"),
    (Section::Outbox, "/outbox", "Outbox"),
    (Section::Store, "/store", "Store"),
    (Section::Config, "/config", "Configuration"),
    (Section::Events, "/events", "Events"),
];

/// What is around a view.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) section: Section,
    pub(super) visitor: Visitor,
    /// The command that shows the same, as [`crate::pieces::command`] writes it; empty where there is none.
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
        form.visitor method="post" action=(LOGOUT) {
            @if !frame.visitor.may_operate() { span { "Read-only" } }
            button { "Log out" }
        }
    };
    let body = html! {
        h1 { (one_line(frame.title)) }
        (view)
        p.command {
            @if !frame.command.is_empty() { span { "The same in a terminal" } code { (frame.command) } " " }
            span #zone { "Time zone: UTC" }
        }
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
                p #lost hidden role="status" { "The daemon does not respond; this page may be out of date." }
                main #main tabindex="-1" { (body) }
            }
        }
    }
}
