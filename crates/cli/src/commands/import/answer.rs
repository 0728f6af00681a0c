//! `cairn import --answer`: sends what people said as if it were said now, one message after another, and waits for each answer.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use cairn_api::message::{ImportedMessage, MessageRequest};
use cairn_api::records::GaugeRecord;
use cairn_api::text::{counted, grouped, one_line};
use cairn_types::event::{RunOutcome, TurnOutcome};
use cairn_types::ids::{ChannelId, RunId, TurnId};
use cairn_types::memory::{Memory, Scope};
use cairn_types::message::Role;
use cairn_types::ports::Reply;
use cairn_types::tier::Tier;
use cairn_types::tool::shown_name;
use serde::Serialize;
use serde_json::json;

use super::{Talk, TalkRecord, progress_bar};
use crate::client::{CallError, Client, with_params};
use crate::commands::chat::{Heard, NoAnswer, pieces, unattended};
use crate::commands::history::Pages;
use crate::connect::channel_path;
use crate::failure::{Failure, exit};
use crate::out;

/// What came of answering, beside the counts of every import.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answered {
    pub(super) failed: u64,
    /// Tool calls that were denied, since they need approval, by tool.
    denied: BTreeMap<String, u64>,
    /// Runs that ended meanwhile, by outcome.
    runs: BTreeMap<&'static str, u64>,
    emergencies: u64,
    /// Memories of the channel's chat at the end.
    memories: u64,
    /// Summaries in the window at the end.
    summaries: u64,
    seconds: f64,
}

impl Answered {
    pub(super) fn text(&self) -> String {
        let runs = self.runs.iter().map(|(outcome, n)| format!("{} {outcome}", grouped(*n)));
        let runs = if self.runs.is_empty() { "none".to_owned() } else { runs.collect::<Vec<_>>().join(", ") };
        let denied = self.denied.iter().map(|(tool, n)| format!("{} of {}", grouped(*n), one_line(tool)));
        let denied = match denied.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => none,
            calls => format!("denied, since nobody can be asked for approval: {calls}\n"),
        };
        format!(
            "{denied}runs: {runs}\n{}, {} in the window, {}\n{:.1} s\n",
            counted(self.emergencies, "emergency", "emergencies"),
            counted(self.summaries, "summary", "summaries"),
            counted(self.memories, "memory", "memories"),
            self.seconds,
        )
    }
}

/// Sends a conversation, without what was answered before. `wait`: until runs are done, between messages and at the end.
///
/// # Errors
/// The daemon is gone or stops. A message that is refused is counted, and the next one follows.
pub(super) async fn answer(
    client: &Client,
    channel: &ChannelId,
    talk: Talk,
    wait: bool,
    record: &mut TalkRecord,
) -> Result<Answered, Failure> {
    let started = Instant::now();
    let done = done(client, channel).await?;
    let mut runs = Runs::new(gauge(client, channel, None).await?);
    let mut come = Answered::default();
    let bar = progress_bar(talk.messages.len() as u64);
    for request in requests(talk.messages) {
        let id = request.id.as_deref().unwrap_or_default();
        if done.contains(id) {
            record.known += 1;
            bar.inc(1);
            continue;
        }
        record.messages += 1;
        let heard = |heard: Heard<'_>| match heard {
            Heard::Denied(call) => *come.denied.entry(shown_name(&call.tool)).or_default() += 1,
            Heard::Waiting(why) => bar.suspend(|| out::note(&one_line(why))),
        };
        match send(client, channel, &request, heard).await {
            Ok(_reply) => record.answers += 1,
            Err(NoAnswer::Refused(error)) => {
                come.failed += 1;
                let why = format!("error: message {}: {}\nhint: {}", one_line(id), error.message, error.hint);
                bar.suspend(|| out::note(&why));
            }
            Err(NoAnswer::Lost(failure)) => return Err(failure),
        }
        runs.observe(gauge(client, channel, wait.then_some(Tier::Aggressive)).await?);
        bar.set_message(runs.text());
        bar.inc(1);
    }
    if wait {
        // Nothing is below calm: this returns when no run is under way or due.
        runs.observe(gauge(client, channel, Some(Tier::Calm)).await?);
    }
    bar.finish_and_clear();
    for outcome in runs.ended.values() {
        *come.runs.entry(outcome.name()).or_default() += 1;
    }
    come.emergencies = runs.n_emergencies();
    come.summaries = runs.gauge.map_or(0, |gauge| gauge.summaries);
    come.memories = n_memories(client, channel).await?;
    come.seconds = started.elapsed().as_secs_f64();
    Ok(come)
}

/// The messages of people, for a local channel: each has the author's name, or the id where somebody else has that name.
fn requests(messages: Vec<ImportedMessage>) -> impl Iterator<Item = MessageRequest> {
    let mut names: HashMap<String, String> = HashMap::new();
    messages.into_iter().filter_map(move |ImportedMessage { id, at, user, name, text }| {
        let author = user?;
        let user = match author.strip_prefix("local/") {
            Some(bare) => bare.to_owned(),
            None => name.unwrap_or_else(|| author.clone()),
        };
        let owner = names.entry(user.clone()).or_insert_with(|| author.clone());
        let user = if *owner == author { user } else { author };
        Some(MessageRequest { user, text, id: Some(id), agent: None, at, files: Vec::new() })
    })
}

/// Sends a message and waits for its answer. Limits of the daemon are waited out; where it stops, no more is sent.
async fn send(
    client: &Client,
    channel: &ChannelId,
    message: &MessageRequest,
    heard: impl FnMut(Heard<'_>),
) -> Result<Reply, NoAnswer> {
    let path = channel_path(channel, "messages");
    let events = loop {
        match client.events(&path, message).await {
            Ok(events) => break events,
            Err(CallError::Api {
                status: StatusCode::TOO_MANY_REQUESTS,
                retry_after_secs: Some(secs),
                ..
            }) => tokio::time::sleep(Duration::from_secs(secs.clamp(1, 60))).await,
            Err(error @ CallError::Api { status: StatusCode::SERVICE_UNAVAILABLE, .. }) => {
                return Err(NoAnswer::Lost(error.into()));
            }
            Err(error) => return Err(error.into()),
        }
    };
    unattended(client, pieces(events), heard).await.map_err(|error| match error {
        NoAnswer::Refused(error) if error.code == "stopping" => {
            NoAnswer::Lost(Failure::failed(error.message, error.hint))
        }
        error => error,
    })
}

/// How full the window is, once it is calm enough. `None` for a channel in which nothing was said yet.
async fn gauge(
    client: &Client,
    channel: &ChannelId,
    below: Option<Tier>,
) -> Result<Option<GaugeRecord>, Failure> {
    match client.post(&channel_path(channel, "wait"), &json!({ "below": below })).await {
        Ok(gauge) => Ok(Some(gauge)),
        Err(CallError::Api { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The ids of messages whose turn ended with a reply, or without one since none was due, as those of imports.
async fn done(client: &Client, channel: &ChannelId) -> Result<HashSet<String>, Failure> {
    let mut turns: HashMap<TurnId, (Vec<String>, bool)> = HashMap::new();
    let mut pages = Pages::of(client, channel);
    loop {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            // The channel does not exist yet.
            Ok(None) | Err(Failure::Said { code: exit::NOT_FOUND, .. }) => break,
            Err(failure) => return Err(failure),
        };
        for entry in page.iter().filter(|entry| entry.seq.is_some()) {
            let (ids, done) = turns.entry(entry.turn.clone()).or_default();
            *done = match entry.role {
                Role::User => entry.end.as_ref().is_some_and(|end| end.outcome == TurnOutcome::Unanswered),
                // An answer that still calls tools does not end its turn.
                Role::Assistant => entry.tool_calls.is_empty(),
                Role::Tool => false,
            };
            ids.extend(entry.message.as_ref().map(ToString::to_string));
        }
    }
    Ok(turns.into_values().filter(|(_, done)| *done).flat_map(|(ids, _)| ids).collect())
}

/// The runs and emergencies since the first message was sent.
struct Runs {
    /// Had ended before: not counted.
    before: BTreeSet<RunId>,
    emergencies_before: u64,
    ended: BTreeMap<RunId, RunOutcome>,
    gauge: Option<GaugeRecord>,
}

impl Runs {
    /// From the gauge as it is before the first message.
    fn new(gauge: Option<GaugeRecord>) -> Self {
        let ended = gauge.iter().flat_map(|gauge| &gauge.outcomes);
        let before = ended.map(|end| end.run.clone()).collect();
        let emergencies_before = gauge.as_ref().map_or(0, |gauge| gauge.emergencies);
        Self { before, emergencies_before, ended: BTreeMap::new(), gauge }
    }

    /// Takes in a gauge. Its last outcomes overlap with those of the one before, as one turn ends few runs.
    fn observe(&mut self, gauge: Option<GaugeRecord>) {
        if let Some(gauge) = gauge {
            let new = gauge.outcomes.iter().filter(|end| !self.before.contains(&end.run));
            self.ended.extend(new.map(|end| (end.run.clone(), end.outcome)));
            self.gauge = Some(gauge);
        }
    }

    fn n_emergencies(&self) -> u64 {
        let now = self.gauge.as_ref().map_or(0, |gauge| gauge.emergencies);
        now.saturating_sub(self.emergencies_before)
    }

    /// For the progress bar.
    fn text(&self) -> String {
        let tier = self.gauge.as_ref().map_or(Tier::Calm, |gauge| gauge.tier);
        let under_way = self.gauge.as_ref().is_some_and(|gauge| gauge.run.is_some());
        let run = if under_way { ", 1 under way" } else { "" };
        let emergencies = match self.n_emergencies() {
            0 => String::new(),
            n => format!("  {}", counted(n, "emergency", "emergencies")),
        };
        format!("{}  {} runs{run}{emergencies}", tier.name(), self.ended.len())
    }
}

/// How many memories were learnt in a channel.
pub(in crate::commands) async fn n_memories(client: &Client, channel: &ChannelId) -> Result<u64, Failure> {
    let scope = Scope::learnt_in(channel, None);
    let params = [
        ("agent", Some(channel.agent().to_string())),
        ("scope", Some(scope.to_string())),
        ("limit", Some("10000".to_owned())),
    ];
    let memories: Vec<Memory> = client.get(&with_params("/v1/memories", &params)).await?;
    Ok(memories.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_apart_by_their_names_or_by_their_ids() {
        let said = |user: Option<&str>, name: &str| ImportedMessage {
            id: "m".to_owned(),
            at: None,
            user: user.map(str::to_owned),
            name: Some(name.to_owned()),
            text: "x".to_owned(),
        };
        let ids = ["local/ann", "telegram/7", "telegram/8", "telegram/7", "telegram/9"];
        let mut messages: Vec<_> = ids
            .into_iter()
            .zip(["ann", "Ann", "Ann", "Ann", "ann"])
            .map(|(id, name)| said(Some(id), name))
            .collect();
        messages.push(said(None, "Rook"));
        let users: Vec<_> = requests(messages).map(|request| request.user).collect();
        assert_eq!(users, ["ann", "Ann", "telegram/8", "Ann", "telegram/9"]);
    }
}
