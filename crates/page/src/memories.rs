//! Memories: searched, traced to the message they come from, edited, forgotten and made one; several at once.

use crate::links::memory_path;
use axum::Form;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use cairn_api::error::ApiError;
use cairn_core::store_port::Store as _;
use cairn_types::ids::{ChannelId, MemoryId};
use cairn_types::memory::{LikelySource, Memory, MemoryKind, likely_sources};
use cairn_types::message::Role;
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, encoded, seen_again, summary_link, turn_link, turns_path};
use crate::pieces::{command, facts, said, table, text, time};
use crate::visitor::Visitor;
use cairn_api::records::{MemoryStep, MemoryUse, MemoryView, turn_outcome};
use cairn_api::text::{counted, cut, grouped, one_line};
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
    let rows: Vec<_> = items.iter().map(|memory| row(memory, visitor)).collect();
    let kept: String =
        query.filters().iter().map(|(name, value)| format!("&{name}={}", encoded(value))).collect();
    let caption = if query.value("q").is_empty() { "Oldest first" } else { "Best first" };
    let body = html! {
        (filter(&query))
        @if rows.is_empty() { p { "No memory fits." } }
        @else {
            form method="get" action="/memories/chosen" {
                (table(caption, &COLUMNS, &rows))
                @if visitor.may_operate() { p { button { "Unite or forget those that are ticked" } } }
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

const COLUMNS: [(&str, &str); 7] = [
    ("memory", ""),
    ("kind", ""),
    ("about", "wide"),
    ("scope", "wide"),
    ("importance", "number wide"),
    ("used", "number"),
    ("made", "wide"),
];

fn row(memory: &Memory, visitor: Visitor) -> Vec<Markup> {
    let id = memory.id.as_str();
    vec![
        html! {
            @if visitor.may_operate() {
                input type="checkbox" name="id" value=(id) aria-label={ "Choose " (text(id)) }; " "
            }
            a href=(memory_path(&memory.id)) { (text(cut(&one_line(&memory.text), TEXT_SHOWN))) }
        },
        text(memory.kind.name()),
        text(memory.subject.as_deref().unwrap_or("-")),
        text(&memory.scope),
        text(format!("{:.1}", memory.importance)),
        text(grouped(memory.uses.into())),
        time(memory.created_at),
    ]
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
    let never = || text("never");
    let body = html! {
        (said(&memory.text))
        (facts(&[
            ("kind", text(memory.kind.name())),
            ("about", text(memory.subject.as_deref().unwrap_or("-"))),
            ("seen by", text(format!("agent {}, {}", memory.agent, memory.scope))),
            ("importance", text(format!("{:.2}", memory.importance))),
            ("trust", text(view.whose())),
            ("found in", text(counted(memory.sightings.into(), "place", "places"))),
            ("said", time(memory.said_at())),
            ("made", time(memory.created_at)),
            ("changed", time(memory.updated_at)),
            ("used", text(counted(memory.uses.into(), "time", "times"))),
            ("last used", memory.recalled_at.map_or_else(never, time)),
        ]))
        (provenance(memory, &sources))
        (became(&view.history))
        (uses(&view))
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

fn provenance(memory: &Memory, sources: &[LikelySource]) -> Markup {
    let source = &memory.source;
    let by = source.by.as_ref().map(|by| format!("{} ({})", by.name, by.id));
    let mut rows = vec![("written by", text(&source.model))];
    rows.extend(by.map(|by| ("whose word", text(by))));
    if let Some(channel) = &source.channel {
        rows.push(("channel", channel_link(channel)));
        if let Some(summary) = &source.summary {
            rows.push(("with summary", summary_link(channel, summary)));
        }
        if let (Some(from), Some(to)) = (source.from_seq, source.to_seq) {
            let range = if from == to { format!("entry {from}") } else { format!("entries {from} to {to}") };
            rows.push(("out of", html! { a href=(turns_path(channel, to)) { (text(range)) } }));
        }
    }
    html! {
        section aria-labelledby="from" {
            h2 #from { "Where it comes from" }
            (facts(&rows))
            @if let (Some(channel), false) = (&source.channel, sources.is_empty()) {
                h3 { "Messages that share most of its words" }
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

/// How it became what it is: each text that it had.
fn became(steps: &[MemoryStep]) -> Markup {
    let row = |step: &MemoryStep| {
        let place = |channel: &ChannelId| match step.to_seq.or(step.from_seq) {
            Some(seq) => html! { a href=(turns_path(channel, seq)) { (text(channel)) ", entry " (seq) } },
            None => channel_link(channel),
        };
        vec![
            time(step.at),
            text(step.what.name()),
            step.channel.as_ref().map_or_else(|| text("-"), place),
            text(step.by.as_ref().map_or_else(|| "-".to_owned(), |by| one_line(&by.name))),
            text(step.text.as_deref().map_or_else(|| "as before".to_owned(), one_line)),
        ]
    };
    let columns = [("when", ""), ("what", ""), ("where", "wide"), ("by", "wide"), ("it said", "")];
    let left_out: u64 = steps.iter().map(|step| step.left_out).sum();
    html! {
        section aria-labelledby="became" {
            h2 #became { "How it became so" }
            (table("What became of the memory, oldest first", &columns, &steps.iter().map(row).collect::<Vec<_>>()))
            @if left_out > 0 { p.note { (counted(left_out, "step", "steps")) " in between are not listed." } }
        }
    }
}

/// The turns that had it in their window.
fn uses(view: &MemoryView) -> Markup {
    let row = |used: &MemoryUse| {
        let (outcome, why) = turn_outcome(Some(&used.outcome));
        let why = why.map(|why| format!(": {}", one_line(&why))).unwrap_or_default();
        vec![
            html! { (channel_link(&used.channel)) ", " (turn_link(&used.channel, &used.turn)) },
            time(used.at),
            text(format!("{outcome}{why}")),
        ]
    };
    let rows: Vec<_> = view.used_in.iter().rev().map(row).collect();
    html! {
        section aria-labelledby="uses" {
            h2 #uses { "Turns that had it" }
            @if rows.is_empty() { p { "None yet." } }
            @else { (table("Turns that had the memory, newest first", &[("turn", ""), ("ended", ""), ("outcome", "")], &rows)) }
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
            "the memory was changed since you loaded it",
            "go back, load it again, and make your change there",
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
        let none = ApiError::malformed("no memory is chosen: go back and tick some");
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
                    h2 #unite { "Make one of them" }
                    form.stack method="post" action="/memories/unite" {
                        (ids)
                        fieldset {
                            legend { "Which one is kept, with its history" }
                            @for memory in &chosen {
                                p {
                                    label {
                                        input type="radio" name="keep" value=(memory.id) checked[memory.id == first.id] required;
                                        " " (text(cut(&one_line(&memory.text), TEXT_SHOWN)))
                                    }
                                }
                            }
                        }
                        p { label for="text" { "Its text from now on" } textarea #text name="text" rows="3" cols="72" required { (first.text) } }
                        p { button { "Unite" } " " span.note { "The others are forgotten and do not come back by themselves." } }
                    }
                }
            }
            section aria-labelledby="forget" {
                h2 #forget { @if chosen.len() > 1 { "Forget them all" } @else { "Forget it" } }
                p { "What is forgotten is not recalled again and does not come back by itself. What was said stays in the history." }
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
    for memory in chosen_of(&admin, &fields).await? {
        let _forgotten =
            memories::forget(State(Shared::clone(&admin)), Segment(memory.id.to_string())).await?;
    }
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
    let kept = kept.ok_or_else(|| ApiError::malformed("say which of the memories is kept"))?;
    let text = field("text").unwrap_or_default().replace("\r\n", "\n");
    let kept = kept.id.clone();
    let others = chosen.into_iter().map(|memory| memory.id).collect();
    let body = memories::UniteBody { others, text: Some(text) };
    let _united = memories::unite(State(admin), Segment(kept.to_string()), Body(body)).await?;
    Ok(seen_again(&memory_path(&kept)))
}
