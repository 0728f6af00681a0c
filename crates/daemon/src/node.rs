//! One of several machines that share a database: it stands by until it leads, and sends nothing once it no longer does.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use cairn_core::ids::{ChannelId, MessageId};
use cairn_core::ports::{
    Clock as _, Platform, PlatformStatus, PlatformTraits, SendError, SendPart, StoreError,
};
use cairn_platforms::local::ApiError;
use cairn_store::{Standby, StandbyStatus, Store, StoreOptions};
use futures::future::BoxFuture;
use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::clock::SystemClock;
use crate::config::{Loaded, StateDir};
use crate::meters::{Meters, installed};
use crate::records::{Identity, NodeStatus, StatusRecord, StoreStatus};
use crate::socket::{self, SocketMode};
use crate::systemd;
use crate::wiring::{self, SOCKET_GRACE, StartError, Tools, blocking};

/// The code of every answer of a node that follows.
pub(crate) const STANDBY: &str = "standby";

/// What a call to a chat network answers on a node that no longer leads: another one makes it.
const NO_LONGER: &str = "this node no longer leads";

/// A chat network as a node reaches it that leads by a lease: nothing is sent once the lease may have run out.
pub(crate) struct Fenced {
    platform: Arc<dyn Platform>,
    store: Store,
}

impl Fenced {
    /// The platform itself where there is no lease.
    pub(crate) fn of(platform: Arc<dyn Platform>, store: &Store) -> Arc<dyn Platform> {
        match store.lease() {
            Some(_) => Arc::new(Self { platform, store: store.clone() }),
            None => platform,
        }
    }

    fn check(&self) -> Result<(), SendError> {
        if self.store.leads() {
            return Ok(());
        }
        Err(SendError::Later { after: None, reason: NO_LONGER.to_owned() })
    }
}

impl Platform for Fenced {
    fn name(&self) -> &'static str {
        self.platform.name()
    }

    fn traits(&self) -> PlatformTraits {
        self.platform.traits()
    }

    fn split(&self, words: &str) -> Vec<String> {
        self.platform.split(words)
    }

    fn first_part(&self, words: &str) -> Option<String> {
        self.platform.first_part(words)
    }

    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>> {
        Box::pin(async move {
            self.check()?;
            self.platform.send(part).await
        })
    }

    fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        words: String,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            self.check()?;
            self.platform.edit(channel, message, words).await
        })
    }

    fn typing(&self, channel: ChannelId) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            self.check()?;
            self.platform.typing(channel).await
        })
    }

    fn status(&self) -> PlatformStatus {
        self.platform.status()
    }
}

/// What a node needs to follow, and to show what it has.
pub(crate) struct Candidate {
    pub(crate) options: StoreOptions,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) state: StateDir,
    pub(crate) tools: Tools,
    pub(crate) identity: Identity,
    pub(crate) mode: SocketMode,
    /// A database that cannot be reached is told as an error, as every other mistake of a configuration is; later it is
    /// waited for.
    pub(crate) is_first: bool,
    /// It has just handed over: another one leads first.
    pub(crate) is_drained: bool,
}

/// A node that follows, as its socket shows it.
struct Following {
    of: Arc<Candidate>,
    status: watch::Receiver<StandbyStatus>,
    /// Its copy; none while it is made.
    copy: watch::Receiver<Option<Store>>,
    /// What reads in the copy, and up to which record it knows the copy.
    reading: tokio::sync::Mutex<Option<(u64, Router)>>,
}

/// Waits until this node leads. Meanwhile it follows, its socket says who leads, and whatever only reads is answered from its
/// copy. [`StoreError::Closed`]: it was to `stop`.
///
/// # Errors
/// The state folder or the database cannot be used, or something is in the place of the socket.
pub(crate) async fn lead(
    candidate: Candidate,
    stop: &CancellationToken,
    show: &watch::Sender<Option<Router>>,
) -> Result<Store, StartError> {
    metrics::gauge!("cairn_node_leads").set(0.0);
    let candidate = Arc::new(candidate);
    let first = systemd::with_time("starting: reaching the database", follow(&candidate.options)).await;
    if candidate.is_first
        && let Err(error) = first
    {
        return Err(error.into());
    }
    let (path, mode) = (candidate.identity.socket.clone().unwrap_or_default(), candidate.mode);
    let ((tell, status), (tell_copy, copy)) =
        (watch::channel(StandbyStatus::default()), watch::channel(None));
    let following =
        Following { of: Arc::clone(&candidate), status, copy, reading: tokio::sync::Mutex::default() };
    let following = Arc::new(following);
    drop(show.send_replace(Some(at_address(Arc::clone(&following)))));
    let socket = match socket::serve(path, mode, router(following)).await {
        Ok(socket) => socket,
        Err(error) => {
            if let Ok(standby) = first {
                standby.close().await;
            }
            return Err(error.into());
        }
    };
    let store = lead_at_last(&candidate, stop, first, (&tell, &tell_copy)).await;
    socket.close(SOCKET_GRACE).await;
    metrics::gauge!("cairn_node_leads").set(1.0);
    Ok(store?)
}

async fn follow(options: &StoreOptions) -> Result<Standby, StoreError> {
    let options = options.clone();
    blocking(move || Store::stand_by(options)).await
}

async fn lead_at_last(
    candidate: &Candidate,
    stop: &CancellationToken,
    first: Result<Standby, StoreError>,
    (tell, tell_copy): (&watch::Sender<StandbyStatus>, &watch::Sender<Option<Store>>),
) -> Result<Store, StoreError> {
    let mut standby = first;
    loop {
        match standby {
            Ok(mut standby) => {
                let (status, copy, mut leader) = (standby.status(), standby.store(), standby.status());
                let lead = async {
                    if candidate.is_drained {
                        let leads = leader.wait_for(|status| status.leader.is_some());
                        drop(tokio::time::timeout(DRAINED, leads).await);
                    }
                    standby.lead().await
                };
                let led = tokio::select! {
                    store = lead => Some(store),
                    never = pass_on(status, tell) => match never {},
                    never = pass_on_copy(copy, tell_copy) => match never {},
                    () = stop.cancelled() => None,
                };
                drop(tell_copy.send_replace(None));
                let Some(store) = led else {
                    standby.close().await;
                    return Err(StoreError::Closed);
                };
                return store;
            }
            Err(error @ StoreError::Database { .. }) => {
                if tell.borrow().error.as_ref() != Some(&error) {
                    tracing::warn!(%error, "this node does not follow at the moment; trying again");
                }
                tell.send_modify(|status| status.error = Some(error));
                systemd::tell(&[NotifyState::Watchdog]);
                if tokio::time::timeout(AGAIN_AFTER, stop.cancelled()).await.is_ok() {
                    return Err(StoreError::Closed);
                }
            }
            Err(error) => return Err(error),
        }
        standby = follow(&candidate.options).await;
    }
}

/// For how long one that has handed over lets others lead first.
const DRAINED: Duration = Duration::from_secs(15);

async fn pass_on_copy(
    mut from: watch::Receiver<Option<Store>>,
    tell: &watch::Sender<Option<Store>>,
) -> Infallible {
    loop {
        tell.send_replace(from.borrow_and_update().clone());
        if from.changed().await.is_err() {
            std::future::pending::<Infallible>().await;
        }
    }
}

/// Between two attempts to reach the database.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Passes on how it goes, to the socket and to systemd: its start is over once it follows, however long that lasts.
async fn pass_on(
    mut from: watch::Receiver<StandbyStatus>,
    tell: &watch::Sender<StandbyStatus>,
) -> Infallible {
    loop {
        let now = from.borrow_and_update().clone();
        let state = following(&now);
        // A first copy may take long, and is no failure to start.
        let start = if now.leader.is_some() { NotifyState::Ready } else { systemd::MORE_TIME };
        systemd::tell(&[start, NotifyState::Status(&state), NotifyState::Watchdog]);
        tell.send_replace(now);
        // The watchdog is fed whether anything changes or not.
        drop(tokio::time::timeout(TELL_EVERY, from.changed()).await);
    }
}

/// How long nothing is told of at the most.
const TELL_EVERY: Duration = Duration::from_secs(5);

fn following(status: &StandbyStatus) -> String {
    let leader = match &status.leader {
        Some(leader) => format!("{} leads ({})", leader.name, leader.address),
        None => "no node leads at the moment".to_owned(),
    };
    let behind = status.last_n.saturating_sub(status.n);
    let behind = if behind == 0 { String::new() } else { format!(", {behind} records behind") };
    format!("stands by{behind}: {leader}")
}

fn router(following: Arc<Following>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/metrics", get(figures))
        .fallback(elsewhere)
        .with_state(following)
}

/// What the admin address serves, which anybody may be able to reach: figures, and nothing of what was said.
fn at_address(following: Arc<Following>) -> Router {
    Router::new()
        .route("/metrics", get(figures))
        .fallback(async |State(at): State<Arc<Following>>| standing_by(&at))
        .with_state(following)
}

/// What a router answers that may become another one. Until there is one a request waits.
pub(crate) fn as_shown(shown: watch::Receiver<Option<Router>>) -> Router {
    Router::new().fallback(async move |request: Request| {
        let mut shown = shown.clone();
        let router = shown.wait_for(Option::is_some).await.ok().and_then(|router| router.clone());
        match router.unwrap_or_default().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    })
}

async fn figures() -> String {
    installed().map(Meters::render).unwrap_or_default()
}

/// What only reads is answered from the copy; what changes something, by the one that leads.
async fn elsewhere(State(at): State<Arc<Following>>, request: Request) -> Response {
    if request.method() == Method::GET
        && let Some(router) = reading(&at).await
    {
        return match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
    }
    standing_by(&at).into_response()
}

/// The routes that read, made anew where something was copied since: what they hold in memory is of when they were made.
async fn reading(at: &Following) -> Option<Router> {
    let store = at.copy.borrow().clone()?;
    let n = at.status.borrow().n;
    let mut made = at.reading.lock().await;
    if let Some((known, router)) = &*made
        && *known == n
    {
        return Some(router.clone());
    }
    let Candidate { loaded, state, tools, .. } = &*at.of;
    match wiring::reading_routes(&store, loaded, state, tools).await {
        Ok((router, _)) => {
            *made = Some((n, router.clone()));
            Some(router)
        }
        Err(error) => {
            tracing::warn!(%error, "the copy cannot be read at the moment");
            None
        }
    }
}

fn standing_by(at: &Following) -> ApiError {
    let status = at.status.borrow().clone();
    let hint = match &status.leader {
        Some(_) => "ask that one; this one takes over when it stops",
        None => "try again in a few seconds; `cairn status` says more",
    };
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, STANDBY, format!("this node {}", following(&status)), hint)
}

async fn status(State(at): State<Arc<Following>>) -> Json<StatusRecord> {
    let status = at.status.borrow().clone();
    let store = StoreStatus {
        journal_bytes: 0,
        segments: 0,
        views_bytes: 0,
        last: status.last_n,
        applied: status.n,
        indexed: 0,
        error: status.error.as_ref().map(ToString::to_string),
    };
    let node = NodeStatus {
        name: at.of.options.database.as_ref().map(|database| database.node.clone()).unwrap_or_default(),
        leads: false,
        leader: status.leader.as_ref().map(|leader| leader.name.clone()),
        nodes: Vec::new(),
    };
    let identity = &at.of.identity;
    let up = SystemClock.now().duration_since(identity.started_at);
    Json(StatusRecord {
        running: true,
        state: following(&status),
        uptime_seconds: u64::try_from(up.as_secs()).unwrap_or(0),
        node: Some(node),
        ..StatusRecord::of_stopped(identity, Vec::new(), store)
    })
}

/// Returns when this node does not lead any more; never where there is no lease.
pub(crate) async fn led_no_longer(store: &Store) {
    let Some(mut lease) = store.lease() else { return std::future::pending().await };
    // It is gone with the store.
    drop(lease.wait_for(|lease| !lease.held).await);
}

/// This node as `cairn status` shows it; none where there is no database.
pub(crate) async fn status_of(store: &Store, loaded: &Loaded) -> Option<NodeStatus> {
    let name = loaded.database().ok().flatten()?.node;
    let lease = store.lease()?;
    let leads = lease.borrow().held;
    // What the database does not tell now is left out: the status is asked for when something is wrong.
    let nodes = tokio::time::timeout(NODES_LIMIT, store.nodes()).await.ok()?.unwrap_or_default();
    let leader = nodes.iter().find(|row| row.leads).map(|row| row.node.name.clone());
    Some(NodeStatus { name, leads, leader, nodes })
}

/// A node that was heard of so long ago at most is there.
pub(crate) const AWAKE_SECS: u64 = 5;

/// How long a status waits for the database.
const NODES_LIMIT: Duration = Duration::from_secs(2);
