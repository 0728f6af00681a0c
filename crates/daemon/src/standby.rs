//! A standby: a node that shares a database with others and follows until it leads.

use crate::changing::{answered, changing, figures, uptime};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cairn_api::error::ApiError;
use cairn_store::{Standby, StandbyStatus, Store, StoreOptions, Totals};
use cairn_types::ports::StoreError;
use sd_notify::NotifyState;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::wiring;
use crate::wiring::{StartError, Tools, blocking};
use cairn_api::records::{Identity, NodeStatus, Reloaded, STANDBY, StatusRecord, StoreStatus};
use cairn_config::{Loaded, StateDir};
use cairn_server::api::daemon::not_reloaded;
use cairn_server::http::socket::Socket;
use cairn_server::parts::systemd;
use cairn_server::reload::Source;

/// What a node needs to follow and to answer requests.
pub(crate) struct Candidate {
    pub(crate) options: StoreOptions,
    /// The configuration, which may be reloaded before this node leads.
    pub(crate) source: Source,
    pub(crate) state: StateDir,
    pub(crate) tools: Tools,
    pub(crate) identity: Identity,
    pub(crate) socket: Socket,
    /// If true, an unreachable database is an error, like any mistake in the configuration. Otherwise the node waits
    /// for it.
    pub(crate) is_first: bool,
    /// Whether this node has just handed over, so that another one should lead first.
    pub(crate) is_drained: bool,
}

impl Candidate {
    fn loaded(&self) -> Arc<Loaded> {
        self.source.live.now()
    }

    fn name(&self) -> &str {
        self.options.database.as_ref().map(|database| database.node.as_str()).unwrap_or_default()
    }
}

/// The state of a standby, for its socket.
struct Following {
    of: Arc<Candidate>,
    status: watch::Receiver<StandbyStatus>,
    /// Its copy of the state; `None` while it is created.
    copy: watch::Receiver<Option<Store>>,
    /// The routes that read the copy, as last built.
    reading: Mutex<Option<Reading>>,
}

/// The routes that read the copy, with the configuration and the last record for which they were built.
struct Reading {
    loaded: Arc<Loaded>,
    copy: watch::Receiver<Option<Store>>,
    n: u64,
    router: Router,
}

/// Waits until this node leads. Meanwhile it follows: its socket tells who leads, and answers reading requests from the
/// copy. [`StoreError::Closed`]: `stop` was cancelled.
///
/// # Errors
/// The state folder or the database cannot be used, or the socket's path is taken.
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
    let ((tell, status), (tell_copy, copy)) =
        (watch::channel(StandbyStatus::default()), watch::channel(None));
    let following = Following { of: Arc::clone(&candidate), status, copy, reading: Mutex::default() };
    let following = Arc::new(following);
    drop(show.send_replace(Some(at_address(Arc::clone(&following)))));
    if let Err(error) = candidate.socket.serve(router(following)).await {
        if let Ok(standby) = first {
            standby.close().await;
        }
        return Err(error.into());
    }
    let store = lead_at_last(&candidate, stop, first, (&tell, &tell_copy)).await;
    // No request reads the copy after this.
    let left = candidate.socket.serve(changing(&candidate.identity)).await;
    let store = store?;
    if let Err(error) = left {
        store.close().await;
        return Err(error.into());
    }
    metrics::gauge!("cairn_node_leads").set(1.0);
    Ok(store)
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
                        // The database may still list this node's own lease.
                        let other = |status: &StandbyStatus| {
                            status.leader.as_ref().is_some_and(|leader| leader.name != candidate.name())
                        };
                        drop(tokio::time::timeout(DRAINED, leader.wait_for(other)).await);
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
                    tracing::warn!(%error, "this node cannot replicate at the moment; trying again");
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

/// How long a node that has handed over lets others lead first.
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

/// Pause between two attempts to reach the database.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Reports the standby's status to the socket and to systemd, for which the start is complete once a leader is known.
async fn pass_on(
    mut from: watch::Receiver<StandbyStatus>,
    tell: &watch::Sender<StandbyStatus>,
) -> Infallible {
    loop {
        let now = from.borrow_and_update().clone();
        let state = following(&now);
        // A long first copy is not a failed start.
        let start = if now.leader.is_some() { NotifyState::Ready } else { systemd::MORE_TIME };
        systemd::tell(&[start, NotifyState::Status(&state), NotifyState::Watchdog]);
        tell.send_replace(now);
        // Feeds the watchdog even without changes.
        drop(tokio::time::timeout(TELL_EVERY, from.changed()).await);
    }
}

/// Longest time between two reports.
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
        .route("/v1/reload", post(reload))
        .route("/metrics", get(figures))
        .fallback(elsewhere)
        .with_state(following)
}

/// The routes of the admin address, which may be reachable by anyone: metrics, and who leads.
fn at_address(following: Arc<Following>) -> Router {
    let standing_by = async |State(at): State<Arc<Following>>| standing_by(&at);
    Router::new().route("/metrics", get(figures)).fallback(standing_by).with_state(following)
}

/// Answers reading requests from the copy, and refuses others with the name of the leader.
async fn elsewhere(State(at): State<Arc<Following>>, request: Request) -> Response {
    if request.method() == Method::GET
        && let Some(router) = reading(&at).await
    {
        let response = answered(router, request).await;
        // The copy cannot answer what needs a leading daemon.
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            return response;
        }
    }
    standing_by(&at).into_response()
}

/// The routes that read the copy. Rebuilt after each change of the copy, because they keep some of its state in memory.
async fn reading(at: &Following) -> Option<Router> {
    let mut made = at.reading.lock().await;
    let mut copy = at.copy.clone();
    let store = copy.borrow_and_update().clone()?;
    let (n, loaded) = (at.status.borrow().n, at.of.loaded());
    if let Some(made) = &*made
        && made.n == n
        && Arc::ptr_eq(&made.loaded, &loaded)
        && made.copy.has_changed().is_ok_and(|is_another| !is_another)
    {
        return Some(made.router.clone());
    }
    let Candidate { state, tools, .. } = &*at.of;
    match wiring::reading_routes(&store, &loaded, state, tools).await {
        Ok((router, _)) => {
            *made = Some(Reading { loaded, copy, n, router: router.clone() });
            Some(router)
        }
        Err(error) => {
            tracing::warn!(%error, "the local copy cannot be read at the moment");
            None
        }
    }
}

fn standing_by(at: &Following) -> ApiError {
    let status = at.status.borrow().clone();
    if let Some(error) = status.error {
        return error.into();
    }
    let hint = match &status.leader {
        Some(_) => "ask that one, on its machine; this one takes over when it stops",
        None => "try again in a few seconds; `cairn status` says more",
    };
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, STANDBY, format!("this node {}", following(&status)), hint)
}

/// `POST /v1/reload`: the configuration is used once this node leads.
async fn reload(State(at): State<Arc<Following>>) -> Result<Json<Reloaded>, ApiError> {
    let mut reloaded =
        at.of.source.renew_standing_by("cairn reload").await.map_err(|error| not_reloaded(&error))?;
    reloaded.warnings.push("this node stands by: it uses the configuration when it leads".to_owned());
    Ok(Json(reloaded))
}

/// The status from the copy, if there is one, and the list of nodes, if the database answers.
async fn status(State(at): State<Arc<Following>>) -> Json<StatusRecord> {
    let status = at.status.borrow().clone();
    let copy = at.copy.borrow().clone();
    let (mut nodes, mut totals) = (Vec::new(), Totals::default());
    let error = status.error.as_ref().map(ToString::to_string);
    let mut store = StoreStatus::unknown(error.clone());
    if let Some(copy) = &copy {
        let listed = async {
            if error.is_some() { Vec::new() } else { cairn_server::api::nodes::nodes_of(copy).await }
        };
        let (stats, counted, listed) = tokio::join!(copy.stats(), copy.totals(), listed);
        nodes = listed;
        totals = counted.unwrap_or_default();
        if let Ok(stats) = stats {
            let trouble = stats.trouble.as_ref().map(ToString::to_string);
            store = cairn_server::api::statuses::store_status(&stats, error.or(trouble));
        }
    }
    let node = NodeStatus {
        name: at.of.name().to_owned(),
        leads: false,
        leader: status.leader.as_ref().map(|leader| leader.name.clone()),
        nodes,
    };
    let identity = &at.of.identity;
    let Totals { channels, outbox, last_at } = totals;
    Json(StatusRecord {
        running: true,
        state: following(&status),
        uptime_seconds: uptime(identity),
        channels,
        outbox,
        last_at,
        node: Some(node),
        ..StatusRecord::of_stopped(
            identity,
            Vec::new(),
            StoreStatus { last: status.last_n, applied: status.n, ..store },
        )
    })
}

/// Waits until this node no longer leads. Never returns without a lease.
pub(crate) async fn led_no_longer(store: &Store) {
    let Some(mut lease) = store.lease() else { return std::future::pending().await };
    // An error means that the store is closed.
    drop(lease.wait_for(|lease| !lease.held).await);
}
