//! What happens, as it happens: the newest events, and a stream of those to come.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use cairn_actors::{RuntimeEvent, RuntimeEventKind};
use cairn_api::error::ApiError;
use cairn_types::event::TurnOutcome;
use cairn_types::ids::ChannelId;
use futures::StreamExt as _;
use futures::future::ready;
use maud::{Markup, html};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio_stream::wrappers::BroadcastStream;

use crate::asset::File;
use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_link, encoded, turn_link};
use crate::pieces::{command, text};
use crate::visitor::Visitor;
use cairn_api::text::{counted, grouped, percent};
use cairn_server::api::{Admin, Shared};

/// Events that the view shows; older ones are forgotten.
const KEPT: usize = 200;

/// Streams that are served at once: the address has places for others, too.
const STREAMS: usize = 16;

/// Silence after which a comment keeps a stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const HERE: &str = "/events";

/// The newest events. They are taken out of the runtime's own bounded queue when somebody looks.
pub(super) struct Recent {
    kept: Mutex<Kept>,
    places: Arc<Semaphore>,
}

struct Kept {
    queue: Option<Receiver<RuntimeEvent>>,
    newest: VecDeque<RuntimeEvent>,
}

impl Recent {
    /// From here on; nothing happens without a runtime.
    pub(super) fn of(admin: &Admin) -> Arc<Self> {
        let queue = admin.runtime.as_ref().map(cairn_actors::Runtime::notices);
        let kept = Mutex::new(Kept { queue, newest: VecDeque::new() });
        Arc::new(Self { kept, places: Arc::new(Semaphore::new(STREAMS)) })
    }

    /// Newest first, of one channel or of all.
    fn newest(&self, channel: Option<&ChannelId>) -> Vec<RuntimeEvent> {
        let mut kept = self.kept.lock();
        kept.take();
        let wanted = |event: &&RuntimeEvent| channel.is_none_or(|channel| event.channel == *channel);
        kept.newest.iter().rev().filter(wanted).cloned().collect()
    }
}

impl Kept {
    fn take(&mut self) {
        let Some(queue) = &mut self.queue else { return };
        loop {
            match queue.try_recv() {
                Ok(event) => {
                    if self.newest.len() == KEPT {
                        self.newest.pop_front();
                    }
                    self.newest.push_back(event);
                }
                // Those would not be among the newest any more.
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct EventsQuery {
    channel: Option<String>,
}

impl EventsQuery {
    fn channel(self, admin: &Admin) -> Result<Option<ChannelId>, ApiError> {
        let name = self.channel.filter(|name| !name.trim().is_empty());
        name.map(|name| admin.resolve(name.trim())).transpose()
    }
}

/// `GET /events`.
pub(super) async fn view(
    State(admin): State<Shared>,
    Extension(recent): Extension<Arc<Recent>>,
    visitor: Visitor,
    Query(query): Query<EventsQuery>,
) -> Result<Markup, PageError> {
    let channel = query.channel(&admin)?;
    let events = recent.newest(channel.as_ref());
    let of = channel.as_ref().map(|channel| format!("?channel={}", encoded(&channel.to_string())));
    let stream = format!("{HERE}/stream{}", of.unwrap_or_default());
    let name = channel.as_ref().map(ToString::to_string).unwrap_or_default();
    let body = html! {
        form.filter method="get" action=(HERE) {
            p { label for="channel" { "Channel" } input #channel name="channel" value=(name); }
            p { button { "Show" } }
        }
        p { button #pause type="button" hidden { "Pause" } " " span #stream.note role="status" { "As of the time when the page was loaded." } }
        ol #events.events data-stream=(stream) data-most=(KEPT) { @for event in &events { (line(event)) } }
        p.note { "Shows the last " (KEPT) " events since the daemon started, newest first. The journal has the durable ones." }
        script src=(File::Events.path()) defer {}
    };
    let command = command(&["status"]);
    Ok(layout(&Frame { title: "Events", section: Section::Events, visitor, command }, &body))
}

/// `GET /events/stream`: a line of the view for each event.
pub(super) async fn stream(
    State(admin): State<Shared>,
    Extension(recent): Extension<Arc<Recent>>,
    Query(query): Query<EventsQuery>,
) -> Result<Response, PageError> {
    let channel = query.channel(&admin)?;
    let place = Arc::clone(&recent.places).try_acquire_owned().map_err(|_none| {
        let hint = "close another window that shows events";
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_streams",
            "too many browsers are watching the events",
            hint,
        )
    })?;
    let notices = BroadcastStream::new(admin.runtime()?.notices());
    let lines = notices.filter_map(move |notice| {
        // It is taken for as long as the stream lives.
        let _place = &place;
        let wanted =
            notice.as_ref().map_or(true, |event| channel.as_ref().is_none_or(|only| event.channel == *only));
        let shown = wanted.then(|| match notice {
            Ok(event) => line(&event),
            Err(missed) => html! { li.missed { (text(missed)) } },
        });
        ready(shown.map(|line| Ok::<_, Infallible>(Event::default().data(line.into_string()))))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// On one line, as an event of a stream has to be.
fn line(event: &RuntimeEvent) -> Markup {
    html! {
        li class=(event.name()) {
            time datetime=(event.at) { (text(event.at.strftime("%Y-%m-%d %H:%M:%S"))) } " " b { (event.name().replace('_', " ")) } " " (channel_link(&event.channel)) " " (told(event))
        }
    }
}

fn told(RuntimeEvent { channel, kind, .. }: &RuntimeEvent) -> Markup {
    let tokens = |before: &u64, after: &u64| format!("{} → {} tokens", grouped(*before), grouped(*after));
    match kind {
        RuntimeEventKind::TurnStarted { turn, messages } => {
            html! { (turn_link(channel, turn)) ", " (counted(messages.len() as u64, "message", "messages")) }
        }
        RuntimeEventKind::TurnEnded { turn, outcome, tokens, usage_ratio, tier, duration_ms, .. } => html! {
            (turn_link(channel, turn)) " " (ended(outcome)) " after " (grouped(*duration_ms)) " ms, window "
            (grouped(*tokens)) " tokens, " (percent(*usage_ratio)) ", " (tier.name())
        },
        RuntimeEventKind::ToolStarted { tool, .. } => text(tool),
        RuntimeEventKind::ToolEnded { turn, tool, outcome, duration_ms, .. } => {
            html! { (text(tool)) " " (outcome.name()) " after " (grouped(*duration_ms)) " ms, " (turn_link(channel, turn)) }
        }
        RuntimeEventKind::ApprovalAsked { approval } => html! {
            a href="/tools" { (text(&approval.tool)) } ", because of " (text(&approval.reason))
        },
        RuntimeEventKind::ApprovalSettled { approval, outcome } => {
            html! { (text(approval)) " " (outcome.name()) }
        }
        RuntimeEventKind::TierChanged { from, to, usage_ratio, .. } => {
            text(format!("{} → {}, {}", from.name(), to.name(), percent(*usage_ratio)))
        }
        RuntimeEventKind::RunStarted { run, trigger, from_seq, to_seq, .. } => {
            text(format!("{run} by {trigger}, entries {from_seq} to {to_seq}"))
        }
        RuntimeEventKind::RunEnded { run, outcome, reason, tokens_before, tokens_after, .. } => {
            let why = reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            text(format!("{run} {}{why}, {}", outcome.name(), tokens(tokens_before, tokens_after)))
        }
        RuntimeEventKind::Pruned { results, tokens_before, tokens_after, .. } => {
            let results = counted(*results, "result", "results");
            text(format!("{results} shortened, {}", tokens(tokens_before, tokens_after)))
        }
        RuntimeEventKind::WindowSlid { messages, tokens_before, tokens_after }
        | RuntimeEventKind::Emergency { messages, tokens_before, tokens_after } => {
            let messages = counted(*messages, "message", "messages");
            text(format!("{messages} left the window, {}", tokens(tokens_before, tokens_after)))
        }
    }
}

fn ended(outcome: &TurnOutcome) -> Markup {
    match outcome {
        TurnOutcome::Answered { .. } => text("answered"),
        TurnOutcome::Unanswered => text("ended without an answer"),
        TurnOutcome::Silent => text("ended in silence: the model chose to say nothing"),
        TurnOutcome::Failed { code, .. } => text(format!("failed ({code})")),
        TurnOutcome::Stopped => text("was stopped"),
        TurnOutcome::DeadLettered => text("was abandoned"),
    }
}
