//! Memories: searched, traced to the message they come from, edited, forgotten and made one; several at once.

use crate::links::memory_path;
use axum::Form;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use cairn_api::error::ApiError;
use cairn_core::store_port::Store as _;
use cairn_types::ids::MemoryId;
use cairn_types::memory::{LikelySource, Memory, MemoryKind, likely_sources};
use cairn_types::message::Role;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{encoded, seen_again, turn_link};
use crate::paint::{list, paint};
use crate::pieces::{command, said, text, time};
use crate::visitor::Visitor;
use cairn_api::show::Show as _;
use cairn_api::text::{cut, one_line};
use cairn_server::api::memories::{EditBody, ListParams};
use cairn_server::api::{Admin, Body, Page, Params, Segment, Shared, memories};

/// Memories on a page.
const LINES: usize = 100;

/// Entries of a source's range in which its messages are looked for.
const RANGE_MAX: usize = 2_000;

/// Messages that are shown as the source.
const SOURCES: usize = 3;

/// Characters of a memory in the list.
const TEXT_SHOWN: usize = 300;

const HERE: &str = "/memories";

#[derive(Default, Deserialize)]
pub(super) struct MemoriesQuery {
    q: Option<String>,
    agent: Option<String>,
    scope: Option<String>,
    kind: Option<String>,
    subject: Option<String>,
    after: Option<String>,
}

impl MemoriesQuery {
    /// The filters that are set, by name.
    fn filters(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("q", &self.q),
            ("agent", &self.agent),
            ("scope", &self.scope),
            ("kind", &self.kind),
            ("subject", &self.subject),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, given(value.as_deref())?))).collect()
    }

    fn value(&self, name: &str) -> &str {
        self.filters().into_iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    fn command(&self) -> String {
        let filters = self.filters();
        let words = filters.iter().find(|(name, _)| *name == "q").map(|(_, words)| *words);
        let mut args = match words {
            Some(words) => vec!["memory".to_owned(), "search".to_owned(), words.to_owned()],
            None => vec!["memory".to_owned(), "list".to_owned()],
        };
        for (name, value) in filters.iter().filter(|(name, _)| *name != "q") {
            args.extend([format!("--{name}"), (*value).to_owned()]);
        }
        command(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

fn given(value: Option<&str>) -> Option<&str> {
    value.map(str::trim).filter(|value| !value.is_empty())
}

/// `GET /memories`.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(query): Query<MemoriesQuery>,
) -> Result<Markup, PageError> {
    let own = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
    let params = ListParams {
        agent: own(&query.agent),
        scope: own(&query.scope),
        kind: own(&query.kind),
        subject: own(&query.subject),
        q: own(&query.q),
        limit: Some(LINES),
        after: own(&query.after),
    };
    let begins = params.after.is_none();
    let Page { items, next } = memories::list(State(admin), Params(params)).await?;
    let ticked = |n: usize| html! { @if visitor.may_operate() { (tick(&items[n])) } };
    let kept: String =
        query.filters().iter().map(|(name, value)| format!("&{name}={}", encoded(value))).collect();
    let caption = if query.value("q").is_empty() { "Oldest first" } else { "Best first" };
    let body = html! {
        (filter(&query))
        @if items.is_empty() { p { "No memory matches." } }
        @else {
            form method="get" action="/memories/chosen" {
                (list(caption, &items.show(), ticked))
                @if visitor.may_operate() { p { button { "Combine or forget the selected ones" } } }
            }
        }
        nav.pages aria-label="Pages" {
            @if !begins { a href={ (HERE) "?" (kept.trim_start_matches('&')) } { "First page" } }
            @if let Some(next) = &next { a rel="next" href={ (HERE) "?after=" (encoded(next)) (kept) } { "Next page" } }
        }
    };
    let command = query.command();
    Ok(layout(&Frame { title: "Memories", section: Section::Memories, visitor, command }, &body))
}

fn filter(query: &MemoriesQuery) -> Markup {
    let field = |name: &'static str, label: &'static str| {
        html! { p { label for=(name) { (label) } input id=(name) name=(name) value=(query.value(name)); } }
    };
    html! {
        form.filter method="get" action=(HERE) role="search" {
            p { label for="q" { "Words" } input #q name="q" type="search" value=(query.value("q")); }
            p { label for="kind" { "Kind" } (kinds("kind", "any", query.value("kind"))) }
            (field("scope", "Scope"))
            (field("subject", "About"))
            (field("agent", "Agent"))
            p { button { "Search" } }
        }
    }
}

/// A choice of kinds; `nothing` names what stands for none.
fn kinds(id: &str, nothing: &str, chosen: &str) -> Markup {
    html! {
        select id=(id) name="kind" {
            @if !nothing.is_empty() { option value="" { (nothing) } }
            @for kind in MemoryKind::ALL {
                option value=(kind.name()) selected[kind.name() == chosen] { (kind.name()) }
            }
        }
    }
}

/// Lets a memory be chosen beside others.
fn tick(memory: &Memory) -> Markup {
    html! { input type="checkbox" name="id" value=(memory.id) aria-label={ "Choose " (text(&memory.id)) }; " " }
}

/// `GET /memories/{id}`: where it comes from, down to the message, and what can be done with it.
pub(super) async fn one(
    State(admin): State<Shared>,
    visitor: Visitor,
    Segment(id): Segment,
) -> Result<Markup, PageError> {
    let view = memories::show(State(Shared::clone(&admin)), Segment(id)).await?.0;
    let memory = &view.memory;
    let sources = sources(&admin, memory).await?;
    let body = html! {
        (paint(&view.show()))
        (likely(memory, &sources))
        @if visitor.may_operate() { (changes(memory)) }
    };
    let command = command(&["memory", "show", memory.id.as_str()]);
    let title = format!("Memory {}", memory.id);
    Ok(layout(&Frame { title: &title, section: Section::Memories, visitor, command }, &body))
}

/// The messages of its range that share most of its words.
async fn sources(admin: &Admin, memory: &Memory) -> Result<Vec<LikelySource>, PageError> {
    let source = &memory.source;
    let (Some(channel), Some(from)) = (&source.channel, source.from_seq) else { return Ok(Vec::new()) };
    let to = source.to_seq.unwrap_or(from);
    let entries = admin.store.entries(channel, from, to, RANGE_MAX).await?;
    Ok(likely_sources(&memory.text, &entries, SOURCES))
}

fn likely(memory: &Memory, sources: &[LikelySource]) -> Markup {
    html! {
        @if let (Some(channel), false) = (&memory.source.channel, sources.is_empty()) {
            section aria-labelledby="from" {
                h2 #from { "Messages that share most of its words" }
                @for LikelySource { entry, .. } in sources {
                    article.item {
                        p.note {
                            (turn_link(channel, &entry.turn)) ", entry " (entry.seq) " · "
                            (text(speaker(entry))) " · " (time(entry.at))
                        }
                        (said(&entry.text()))
                    }
                }
            }
        }
    }
}

fn speaker(entry: &cairn_types::message::Entry) -> String {
    match (entry.role, &entry.author) {
        (Role::User, Some(author)) => author.name.clone(),
        (Role::User, None) => "somebody".to_owned(),
        (Role::Assistant, _) => "the model".to_owned(),
        (Role::Tool, _) => "a tool".to_owned(),
    }
}

fn changes(memory: &Memory) -> Markup {
    let itself = memory_path(&memory.id);
    html! {
        section aria-labelledby="change" {
            h2 #change { "Change it" }
            form.stack method="post" action=(itself) {
                p { label for="text" { "Text" } textarea #text name="text" rows="3" cols="72" required { (memory.text) } }
                p { label for="kind" { "Kind" } (kinds("kind", "", memory.kind.name())) }
                p {
                    label for="importance" { "Importance, 0 to 1" }
                    input #importance name="importance" type="number" min="0" max="1" step="any" required
                        value=(memory.importance);
                }
                input type="hidden" name="shown" value=(memory.updated_at.to_string());
                p { button { "Save" } }
            }
            form method="get" action="/memories/chosen" {
                input type="hidden" name="id" value=(memory.id);
                p { button.grave { "Forget it …" } }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Edit {
    text: String,
    kind: String,
    importance: f64,
    /// When what the form shows was changed last.
    shown: Timestamp,
}

/// `POST /memories/{id}`.
pub(super) async fn edit(
    admin: State<Shared>,
    Segment(id): Segment,
    Form(Edit { text, kind, importance, shown }): Form<Edit>,
) -> Result<Response, PageError> {
    let before = admin.memory(&id.as_str().into()).await?;
    if before.updated_at != shown {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "changed_meanwhile",
            "the memory has changed since you loaded it",
            "go back, reload it, and repeat your change",
        )
        .into());
    }
    // Browsers send line breaks of their own.
    let text = text.replace("\r\n", "\n");
    let body = EditBody {
        text: (text.trim() != before.text).then_some(text),
        kind: (kind != before.kind.name()).then_some(kind),
        importance: (importance.to_bits() != before.importance.to_bits()).then_some(importance),
    };
    let changes = body.text.is_some() || body.kind.is_some() || body.importance.is_some();
    if changes {
        let _edited = memories::edit(admin, Segment(id), Body(body)).await?;
    }
    Ok(seen_again(&memory_path(&before.id)))
}

/// Names and values, in which a name may come several times.
type Fields = Vec<(String, String)>;

fn all(fields: &Fields, name: &str) -> Vec<MemoryId> {
    let found = fields.iter().filter(|(known, _)| known == name);
    found.map(|(_, value)| MemoryId::from(value.as_str())).collect()
}

async fn chosen_of(admin: &Admin, fields: &Fields) -> Result<Vec<Memory>, PageError> {
    let mut chosen = Vec::new();
    for id in all(fields, "id") {
        chosen.push(admin.memory(&id).await?);
    }
    if chosen.is_empty() {
        let none = ApiError::malformed("no memory is selected: go back and select some");
        return Err(none.into());
    }
    Ok(chosen)
}

/// `GET /memories/chosen`: several, before they are forgotten or made one.
pub(super) async fn chosen(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(fields): Query<Fields>,
) -> Result<Markup, PageError> {
    let chosen = chosen_of(&admin, &fields).await?;
    let ids = html! { @for memory in &chosen { input type="hidden" name="id" value=(memory.id); } };
    let first = &chosen[0];
    let body = html! {
        ul {
            @for memory in &chosen {
                li { a href=(memory_path(&memory.id)) { (text(&memory.text)) } " " span.note { (text(&memory.scope)) } }
            }
        }
        @if visitor.may_operate() {
            @if chosen.len() > 1 {
                section aria-labelledby="unite" {
                    h2 #unite { "Combine them" }
                    form.stack method="post" action="/memories/unite" {
                        (ids)
                        fieldset {
                            legend { "Keep this one, with its history" }
                            @for memory in &chosen {
                                p {
                                    label {
                                        input type="radio" name="keep" value=(memory.id) checked[memory.id == first.id] required;
                                        " " (text(cut(&one_line(&memory.text), TEXT_SHOWN)))
                                    }
                                }
                            }
                        }
                        p { label for="text" { "Its new text" } textarea #text name="text" rows="3" cols="72" required { (first.text) } }
                        p { button { "Combine" } " " span.note { "The others are forgotten and will not be extracted again." } }
                    }
                }
            }
            section aria-labelledby="forget" {
                h2 #forget { @if chosen.len() > 1 { "Forget them all" } @else { "Forget it" } }
                p { "A forgotten memory is not recalled and not extracted again. The messages stay in the history." }
                form method="post" action="/memories/forget" { (ids) button.grave { "Forget" } }
            }
        }
    };
    let command = command(&["memory", "forget", first.id.as_str()]);
    let title =
        if chosen.len() == 1 { "One memory".to_owned() } else { format!("{} memories", chosen.len()) };
    Ok(layout(&Frame { title: &title, section: Section::Memories, visitor, command }, &body))
}

/// `POST /memories/forget`.
pub(super) async fn forget(admin: State<Shared>, Form(fields): Form<Fields>) -> Result<Response, PageError> {
    memories::forget_all(&admin, &chosen_of(&admin, &fields).await?).await?;
    Ok(seen_again(HERE))
}

/// `POST /memories/unite`.
pub(super) async fn unite(
    State(admin): State<Shared>,
    Form(fields): Form<Fields>,
) -> Result<Response, PageError> {
    let chosen = chosen_of(&admin, &fields).await?;
    let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let kept = field("keep").and_then(|id| chosen.iter().find(|memory| memory.id.as_str() == id));
    let kept = kept.ok_or_else(|| ApiError::malformed("choose which memory to keep"))?;
    let text = field("text").unwrap_or_default().replace("\r\n", "\n");
    let kept = kept.id.clone();
    let others = chosen.into_iter().map(|memory| memory.id).collect();
    let body = memories::UniteBody { others, text: Some(text) };
    let _united = memories::unite(State(admin), Segment(kept.to_string()), Body(body)).await?;
    Ok(seen_again(&memory_path(&kept)))
}
