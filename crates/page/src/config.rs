//! The configuration in force and where each value comes from; what a conversation would come to under other thresholds.

use crate::links::TRY;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use cairn_api::error::ApiError;
use cairn_core::agent::AgentSettings;
use cairn_core::store_port::Store as _;
use cairn_core::tune::{Runs, TuneCandidate, TuneOutcome};
use cairn_types::ids::{ChannelId, Seq};
use maud::{Markup, html};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{runs_path, seen_again};
use crate::pieces::{command, facts, table, text};
use crate::visitor::Visitor;
use cairn_api::records::EntryRecord;
use cairn_api::text::{counted, grouped, one_line, percent};
use cairn_config::what_if::{self, ChannelScript, NotSimulated, Source, candidate};
use cairn_config::{KeyInForce, Loaded, Origin};
use cairn_server::api::channels::list;
use cairn_server::api::{Admin, ListParams, Page, Params, Shared, daemon};

const HERE: &str = "/config";

/// Channels that are offered by name.
const OFFERED: usize = 100;

/// Entries that are read at a time.
const PAGE: usize = 2_000;

/// `GET /config`.
pub(super) async fn view(State(admin): State<Shared>, visitor: Visitor) -> Result<Markup, PageError> {
    let loaded = admin.agent_registry.loaded();
    let keys = loaded.keys_in_force();
    let (set, built_in): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.origin != Origin::BuiltIn);
    let body = html! {
        p { (file_of(&loaded)) ". " a href=(TRY) { "Try other thresholds" } " on a conversation before you set them." }
        @if !loaded.warnings.is_empty() {
            ul.troubles aria-label="Warnings" { @for warning in &loaded.warnings { li { (text(warning)) } } }
        }
        section aria-labelledby="set" {
            h2 #set { "Set in the file" }
            @if set.is_empty() { p { "Nothing: all keys have their built-in defaults." } }
            @else { (keys_table("Keys of the file", &set)) }
        }
        section aria-labelledby="built-in" {
            h2 #built-in { "Built-in defaults" }
            @for group in built_in.chunk_by(|a, b| a.table == b.table) {
                details {
                    summary { (table_name(&group[0].table)) " " span.note { (counted(group.len() as u64, "key", "keys")) } }
                    (keys_table(&format!("Defaults of {}", group[0].table), group))
                }
            }
        }
        @if visitor.may_operate() && admin.reloader.is_some() {
            section aria-labelledby="reload" {
                h2 #reload { "Read the file again" }
                p { "As " code { "cairn reload" } ": an invalid file is refused, and nothing changes." }
                form method="post" action="/config/reload" { button { "Reload" } }
            }
        }
    };
    let command = command(&["config", "show", "--sources"]);
    Ok(layout(&Frame { title: "Configuration", section: Section::Config, visitor, command }, &body))
}

fn file_of(loaded: &Loaded) -> Markup {
    match &loaded.file {
        Some(file) => html! { "Read from " code { (text(file.display())) } },
        None => html! { "No config file was found: these are the built-in defaults" },
    }
}

fn table_name(table: &str) -> String {
    if table.is_empty() { "above all tables".to_owned() } else { format!("[{}]", one_line(table)) }
}

fn keys_table(caption: &str, keys: &[&KeyInForce]) -> Markup {
    let row = |key: &&KeyInForce| {
        let name = if key.table.is_empty() { key.key.clone() } else { format!("{}.{}", key.table, key.key) };
        vec![html! { code { (text(name)) } }, html! { code { (text(&key.value)) } }, text(key.origin.told())]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    table(caption, &[("key", ""), ("value", ""), ("from", "")], &rows)
}

/// `POST /config/reload`.
pub(super) async fn reload(State(admin): State<Shared>, visitor: Visitor) -> Result<Response, PageError> {
    let reloaded = daemon::reload(State(admin)).await?.0;
    if reloaded.changed.is_empty() && reloaded.needs_restart.is_empty() {
        return Ok(seen_again(HERE));
    }
    let changes = |title: &'static str, changes: &[cairn_api::records::KeyChange]| {
        html! {
            @if !changes.is_empty() {
                h2 { (title) }
                ul {
                    @for change in changes {
                        li { code { (text(&change.key)) } ": " (text(&change.from)) " → " (text(&change.to)) }
                    }
                }
            }
        }
    };
    let body = html! {
        (changes("Now in force", &reloaded.changed))
        (changes("In force after a restart", &reloaded.needs_restart))
        p { a href=(HERE) { "Configuration" } }
    };
    let command = command(&["reload"]);
    let page = layout(
        &Frame { title: "Configuration read again", section: Section::Config, visitor, command },
        &body,
    );
    Ok(axum::response::IntoResponse::into_response(page))
}

/// The keys that can be moved, with what they are called and the steps of their fields.
const MOVED: [(&str, &str, &str); 6] = [
    ("background_threshold", "Background from", "0.01"),
    ("aggressive_threshold", "Aggressive from", "0.01"),
    ("emergency_threshold", "Emergency from", "0.01"),
    ("background_fraction", "Share summarised by a run", "0.01"),
    ("fan_out", "Summaries merged at a time", "1"),
    (candidate::WINDOW, "Window, in tokens", "1"),
];

/// A trial reads a whole conversation and computes for seconds: one at a time.
static TRIALS: Semaphore = Semaphore::const_new(1);

fn one_trial() -> Result<SemaphorePermit<'static>, ApiError> {
    TRIALS.try_acquire().map_err(|_busy| {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "busy",
            "another simulation is running",
            "wait a few seconds, then reload the page",
        )
    })
}

/// `GET /config/try`.
pub(super) async fn attempt(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(fields): Query<Vec<(String, String)>>,
) -> Result<Markup, PageError> {
    let field = |name: &str| {
        let found = fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
        found.filter(|value| !value.is_empty())
    };
    let Page { items, .. } =
        list(State(Shared::clone(&admin)), Params(ListParams { limit: Some(OFFERED), after: None })).await?;
    let names: Vec<String> = items.iter().map(|record| record.channel.to_string()).collect();
    let asked = field("channel");
    let channel = asked.map(|name| admin.resolve(name)).transpose()?;
    let mut title = "Try other thresholds".to_owned();
    let (form, shown, command_line) = match &channel {
        None => {
            (chooser(&names, ""), html! {}, command(&["tune", names.first().map_or("main", String::as_str)]))
        }
        Some(channel) => {
            let name = channel.to_string();
            title = format!("Try other thresholds on {name}");
            let known = {
                let _permit = one_trial()?;
                Known::of(&admin, channel).await?
            };
            let wanted = known.differing(&field);
            let line = match wanted.as_str() {
                "" => command(&["tune", &name]),
                wanted => command(&["tune", &name, "--candidate", wanted]),
            };
            let form = known.form(&name, &field);
            let shown = known.tried(&wanted, &admin).await;
            (form, shown.unwrap_or_else(|bad| refusal(&bad)), line)
        }
    };
    let body = html! {
        p { "The whole conversation is replayed by sizes under these settings, with the runtime's own decisions. No model is called \
            and nothing is changed." }
        @if let Some(channel) = &channel { p { a href=(runs_path(channel)) { "Its actual runs" } } }
        (form)
        (shown)
    };
    Ok(layout(&Frame { title: &title, section: Section::Config, visitor, command: command_line }, &body))
}

fn refusal(bad: &NotSimulated) -> Markup {
    html! { p.trouble role="alert" { (text(&bad.message)) } p { (text(&bad.hint)) } }
}

fn chooser(names: &[String], chosen: &str) -> Markup {
    html! {
        form.filter method="get" action=(TRY) {
            p {
                label for="channel" { "Channel" }
                input #channel name="channel" list="channels" required value=(chosen);
                datalist #channels { @for name in names { option value=(one_line(name)) {} } }
            }
            p { button { "Show" } }
        }
    }
}

/// A conversation, and the settings in force there.
struct Known {
    source: Source,
    current: AgentSettings,
    loaded: Arc<Loaded>,
}

impl Known {
    async fn of(admin: &Admin, channel: &ChannelId) -> Result<Self, PageError> {
        let (conversation, settings) = admin.with_settings(channel).await?;
        let correction = conversation.correction(&settings.model);
        let mut script = ChannelScript::default();
        let mut from = Seq(1);
        loop {
            let entries = admin.store.entries(channel, from, Seq(u64::MAX), PAGE).await?;
            let Some(last) = entries.last() else { break };
            from = Seq(last.seq.0 + 1);
            for entry in entries.iter() {
                let record = EntryRecord::of(entry, &conversation, &correction);
                record.in_script().iter().for_each(|entry| script.add(entry));
            }
        }
        let source = Source {
            script: script.finish(),
            agent: channel.agent(),
            model: Some(settings.model.clone()),
            window: Some(settings.window),
            runs: conversation.outcomes.iter().cloned().collect(),
        };
        Ok(Self { source, current: AgentSettings::clone(&settings), loaded: admin.agent_registry.loaded() })
    }

    /// What a key is now.
    fn now(&self, key: &str) -> String {
        match key {
            candidate::WINDOW => self.current.window.window_tokens.to_string(),
            key => candidate::keys(&self.current.compaction)
                .get(key)
                .map(ToString::to_string)
                .unwrap_or_default(),
        }
    }

    /// What is wanted otherwise, as `cairn tune --candidate` takes it.
    fn differing<'f>(&self, field: &impl Fn(&str) -> Option<&'f str>) -> String {
        let wanted = MOVED.iter().filter_map(|(key, ..)| Some((key, field(key)?)));
        let pairs = wanted
            .filter(|(key, value)| self.now(key) != *value)
            .map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(",")
    }

    fn form<'f>(&self, channel: &str, field: &impl Fn(&str) -> Option<&'f str>) -> Markup {
        html! {
            form.filter method="get" action=(TRY) {
                input type="hidden" name="channel" value=(channel);
                @for (key, name, step) in MOVED {
                    p {
                        label for=(key) { (name) }
                        input id=(key) name=(key) type="number" min="0" step=(step) value=(field(key).map_or_else(|| self.now(key), str::to_owned));
                        br;
                        span.note { code { (key) } ", now " (self.now(key)) }
                    }
                }
                p { button { "Try" } }
            }
        }
    }

    /// What becomes of the conversation as things are, and as they are wanted.
    async fn tried(self, wanted: &str, admin: &Admin) -> Result<Markup, NotSimulated> {
        let config = &self.loaded.config;
        let agent = config.agent(self.source.agent.as_str()).ok_or_else(|| NotSimulated {
            message: format!("no agent `{}` is configured", self.source.agent),
            hint: "choose a channel of a configured agent".to_owned(),
        })?;
        let (current, billing, prices) =
            what_if::current(config, agent, &self.source, None, cairn_core::builtin_tools::builtin_tools());
        let runs = Runs::of(&self.source.runs, &current);
        let mut candidates = vec![TuneCandidate { name: "now".to_owned(), settings: current.clone() }];
        if !wanted.is_empty() {
            candidates.push(candidate::parse(wanted, &current, |tokens| {
                what_if::resize(config, &current, tokens)
            })?);
        }
        let script = self.source.script;
        // A browser that goes away ends no trial: the permit goes with it.
        let permit = one_trial()
            .map_err(|busy| NotSimulated { message: busy.detail.message, hint: busy.detail.hint })?;
        let simulated = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            what_if::simulate(&script, candidates, &billing, &runs)
        });
        let rows = simulated.await.map_err(|error| NotSimulated {
            message: format!("the simulation panicked: {error}"),
            hint: "please report it".to_owned(),
        })??;
        Ok(compared(&rows, &prices, agent.id.as_str(), &self.loaded, admin.reloader.is_some()))
    }
}

/// The outcomes side by side, and what to write into the file.
fn compared(
    rows: &[(TuneCandidate, TuneOutcome)],
    prices: &str,
    agent: &str,
    loaded: &Loaded,
    reloads: bool,
) -> Markup {
    type Figure = (&'static str, fn(&TuneOutcome) -> String);
    let figures: [Figure; 8] = [
        ("mean tokens of a request", |it| grouped(it.mean_tokens().round() as u64)),
        ("largest request", |it| grouped(it.max_tokens)),
        ("runs, merges included", |it| grouped((it.compactions + it.merges) as u64)),
        ("emergencies", |it| grouped(it.emergencies as u64)),
        ("cached share", |it| percent(it.cached_share())),
        ("billed per turn, in input tokens", |it| grouped(it.billed_per_turn().round() as u64)),
        ("conversation still visible", |it| percent(it.retention)),
        ("highest summary level", |it| {
            it.highest_level.map_or_else(|| "-".to_owned(), |level| level.to_string())
        }),
    ];
    let lines: Vec<Vec<Markup>> = figures
        .iter()
        .map(|(name, figure)| {
            [text(name)].into_iter().chain(rows.iter().map(|(_, outcome)| text(figure(outcome)))).collect()
        })
        .collect();
    let columns: &[(&str, &str)] = if rows.len() > 1 {
        &[("figure", ""), ("now", "number"), ("as tried", "number")]
    } else {
        &[("figure", ""), ("now", "number")]
    };
    html! {
        section aria-labelledby="outcome" {
            h2 #outcome { "Simulated result" }
            (table("The conversation under each setting", columns, &lines))
            (facts(&[("turns", text(rows[0].1.turns)), ("prices", text(prices))]))
            @if let [(now, _), (tried, _)] = rows {
                h2 { "To use it" }
                p {
                    "The daemon does not write its configuration: the file is yours, with its comments. Put these lines under the "
                    code { "[[agents]]" } " table of " code { (text(agent)) }
                    @match &loaded.file {
                        Some(file) => { " in " code { (text(file.display())) } }
                        None => { " in a file config.toml" }
                    }
                    @if reloads { ", then " a href={ (HERE) "#reload" } { "reload" } "." } @else { ", then restart." }
                }
                pre.said tabindex="0" { (text_lines(&candidate::toml(now, tried))) }
            }
        }
    }
}

fn text_lines(toml: &str) -> String {
    cairn_api::text::plain(toml)
}
