//! A standby: it copies what the leader appends, with views and index behind it, and leads when the lease is free.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_types::ports::StoreError;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::{Session, answer};
use super::copy::{Copy, PAGE, copied, expired};
use super::database::Database;
use super::errors::failed;
use super::lease::{Lease, Name, sign_off};
use crate::files::disk::blocking;
use crate::files::lock::StateLock;
use crate::options::{DatabaseOptions, StoreOptions};
use crate::store::Store;
use cairn_types::ports::Node;

/// How often a follower looks, whatever it is told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Names the work in the error when it panics.
const COPYING: &str = "copying the journal";

const STATE: &str = "SELECT j.id::text, j.next, j.generation, l.node, l.address, \
     greatest(0, extract(epoch FROM l.expires_at - clock_timestamp()))::float8, j.moved_to \
     FROM cairn_journal j LEFT JOIN cairn_lease l ON l.name = 'leader'";

/// The progress of a standby.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StandbyStatus {
    /// The leader; none: no node leads now.
    pub leader: Option<Node>,
    /// Number of the last record in the copy.
    pub n: u64,
    /// Number of the last record in the database, as far as this node knows.
    pub last_n: u64,
    /// Why copying fails now; none: it does not.
    pub error: Option<StoreError>,
}

/// A store that copies another node's until it leads. Dropping it stops it.
pub struct Standby {
    status: watch::Receiver<StandbyStatus>,
    store: watch::Receiver<Option<Store>>,
    instruction: watch::Sender<Instruction>,
    task: Option<JoinHandle<Result<Option<Store>, StoreError>>>,
}

/// What a follower is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instruction {
    Follow,
    /// Lead as soon as it may.
    Lead,
    End,
}

impl Drop for Standby {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Standby {
    pub(crate) fn begin(options: StoreOptions, lock: Arc<StateLock>) -> Result<Self, StoreError> {
        let database = connect(&options)?;
        let copy = Copy::of(options, database.clone())?;
        let (tell, status) = watch::channel(StandbyStatus::default());
        let (instruction, instructions) = watch::channel(Instruction::Follow);
        let (show, store) = watch::channel(None);
        let handle = database.handle();
        let follower = Follower {
            database,
            lock,
            copy: Arc::new(Mutex::new(copy)),
            status: tell,
            instruction: instructions,
            session: None,
            is_compared: false,
            seen_at: None,
            name: Name::default(),
            store: show,
            put_off: None,
        };
        let task = Some(handle.spawn(follower.run()));
        Ok(Self { status, store, instruction, task })
    }

    /// The copy as a store to read from; none while it is built.
    pub fn store(&self) -> watch::Receiver<Option<Store>> {
        self.store.clone()
    }

    pub fn status(&self) -> watch::Receiver<StandbyStatus> {
        self.status.clone()
    }

    /// Leads as soon as the lease is free, or has run out, and everything is copied.
    ///
    /// # Errors
    /// It cannot follow any more: the state folder or the database cannot be used.
    pub async fn lead(&mut self) -> Result<Store, StoreError> {
        self.end_with(Instruction::Lead).await?.ok_or(StoreError::Closed)
    }

    /// Waits until the copy is up to date, and returns it.
    ///
    /// # Errors
    /// The copy cannot be brought up to date now.
    pub async fn opened(&mut self) -> Result<Store, StoreError> {
        let (mut store, mut status) = (self.store(), self.status());
        tokio::select! {
            opened = store.wait_for(Option::is_some) => {
                if let Some(store) = opened.ok().and_then(|store| store.clone()) {
                    return Ok(store);
                }
            }
            failed = status.wait_for(|status| status.error.is_some()) => {
                if let Some(error) = failed.ok().and_then(|status| status.error.clone()) {
                    return Err(error);
                }
            }
        }
        // It has ended by itself.
        self.end_with(Instruction::End).await.and(Err(StoreError::Closed))
    }

    /// Stops following, and closes views and index cleanly.
    pub async fn close(mut self) {
        match self.end_with(Instruction::End).await {
            // It began to lead in the same moment.
            Ok(Some(store)) => drop(store.close().await),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "this node was not replicating when it was stopped"),
        }
    }

    async fn end_with(&mut self, instruction: Instruction) -> Result<Option<Store>, StoreError> {
        self.instruction.send_replace(instruction);
        let Some(task) = &mut self.task else { return Ok(None) };
        task.await.unwrap_or_else(|error| Err(failed("follow", error)))
    }
}

/// Opens the store of a node that leads at once. Blocks.
///
/// # Errors
/// [`StoreError::Led`], [`StoreError::Damaged`], the database does not answer, or the state folder cannot be used.
pub(crate) fn open_leading(options: StoreOptions, lock: Arc<StateLock>) -> Result<Store, StoreError> {
    let database = connect(&options)?;
    let mut copy = Copy::of(options, database.clone())?;
    let (of, previous) = (database.clone(), copy.previous());
    let lease = database.wait(async move { Lease::take(&of, previous).await })?;
    let held = lease.clone();
    let ready = copy.hold(lease.id()).and_then(|()| copy.ready(&lease));
    let opened = ready.and_then(|put_off| {
        let store = match put_off {
            Some(error) if !lease.is_held() => return Err(error),
            put_off => open_without(&mut copy, &lock, put_off)?,
        };
        let (led, of) = (store.clone(), database.clone());
        database.wait(async move { led.begin_to_lead(of, held).await })?;
        Ok(store)
    });
    if opened.is_err() {
        let of = database.clone();
        database.wait(async move {
            lease.leave(&of).await;
            Ok(())
        })?;
    }
    opened
}

/// Opens the store that is to lead. `put_off`: why somebody who is to be erased is still there.
fn open_without(
    copy: &mut Copy,
    lock: &Arc<StateLock>,
    put_off: Option<StoreError>,
) -> Result<Store, StoreError> {
    let store = copy.open(lock)?;
    if let Some(error) = put_off {
        store.inner.erasure.put_off_for(error);
    }
    Ok(store)
}

fn connect(options: &StoreOptions) -> Result<Arc<Database>, StoreError> {
    let Some(database) = &options.database else { return Err(failed("follow", "no database is configured")) };
    Database::open(database)
}

/// What follows, on the database's thread.
struct Follower {
    database: Arc<Database>,
    lock: Arc<StateLock>,
    /// Used by one at a time, on threads that may block.
    copy: Arc<Mutex<Copy>>,
    status: watch::Sender<StandbyStatus>,
    instruction: watch::Receiver<Instruction>,
    session: Option<Session>,
    /// Whether the copy was compared with what the session leads to.
    is_compared: bool,
    /// When others were told last that this node is there.
    seen_at: Option<Instant>,
    name: Name,
    /// None while the copy is made.
    store: watch::Sender<Option<Store>>,
    /// Why an erasure failed: this node leads without it.
    put_off: Option<StoreError>,
}

/// How the journal in the database stands.
struct State {
    id: String,
    next: u64,
    generation: i64,
    leader: Option<Node>,
    /// For how long the lease holds if it is not renewed.
    held_for: Duration,
}

impl Follower {
    /// Runs until it leads, or is to end.
    async fn run(mut self) -> Result<Option<Store>, StoreError> {
        loop {
            let wait = match self.step().await {
                Ok(Step::Leads(store)) => return Ok(Some(store)),
                Ok(Step::Again) => Duration::ZERO,
                Ok(Step::Waits(limit)) => {
                    metrics::gauge!("cairn_database_up").set(1.0);
                    if self.status.borrow().error.is_some() {
                        tracing::info!("this node replicates again");
                        self.status.send_modify(|status| status.error = None);
                    }
                    limit.min(LOOK_EVERY)
                }
                Err(error) if may_pass(&error) => {
                    self.session = None;
                    if self.status.borrow().error.as_ref() != Some(&error) {
                        tracing::warn!(%error, "this node cannot replicate at the moment; trying again");
                    }
                    metrics::gauge!("cairn_database_up").set(0.0);
                    self.status.send_modify(|status| status.error = Some(error));
                    LOOK_EVERY
                }
                Err(error) => {
                    self.close().await;
                    return Err(error);
                }
            };
            if *self.instruction.borrow_and_update() == Instruction::End {
                let (session, node) = (self.session.take(), self.node());
                let signed_off = async {
                    if let Some(session) = &session {
                        sign_off(session, &node).await;
                    }
                };
                tokio::join!(signed_off, self.close());
                return Ok(None);
            }
            let hint = self.session.as_ref().map(|session| session.hint.clone());
            let hinted = async {
                match hint {
                    Some(hint) => hint.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = self.instruction.changed() => {}
                () = hinted => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn close(&mut self) {
        if let Some(store) = self.store.send_replace(None) {
            store.close().await;
        }
    }

    async fn step(&mut self) -> Result<Step, StoreError> {
        if self.session.as_ref().is_none_or(|session| session.client.is_closed()) {
            let session = self.database.connector.connect().await?;
            answer("listen", session.client.batch_execute("LISTEN cairn_journal")).await?;
            self.session = Some(session);
            self.is_compared = false;
        }
        let state = self.state().await?;
        let store = self.store.borrow().clone();
        let Some(store) = store else {
            self.open().await?;
            return Ok(Step::Again);
        };
        if !self.is_compared {
            // It may be another server, that lacks what this node has.
            let (copy, tail) = (self.copy.clone(), store.inner.durable().tail);
            if !blocking(COPYING, move || copy.lock().fits(&tail)).await? {
                self.close().await;
                return Ok(Step::Again);
            }
            self.is_compared = true;
        }
        if !self.belongs(&state, &store)? {
            self.close().await;
            return Ok(Step::Again);
        }
        self.copy_on(&store, state.next).await?;
        let n = store.inner.durable().tail.n;
        if self.seen_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            self.seen(n).await?;
            self.seen_at = Some(Instant::now());
        }
        self.tell(&state, n);
        let own = &self.database.options.node;
        let may_lead = state.leader.as_ref().is_none_or(|leader| leader.name == *own);
        if may_lead && *self.instruction.borrow() == Instruction::Lead {
            match self.lead(&store).await {
                Ok(Led::Leads) => return Ok(Step::Leads(store)),
                Ok(Led::Not) => return Ok(Step::Again),
                Ok(Led::Erases(lease)) => return self.erase_and_lead(lease).await,
                Err(StoreError::Led { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let wait = if state.leader.is_some() { state.held_for } else { LOOK_EVERY };
        Ok(Step::Waits(wait + Duration::from_millis(10)))
    }

    /// Brings the copy up to the database, and opens it.
    async fn open(&mut self) -> Result<(), StoreError> {
        let (copy, lock) = (self.copy.clone(), self.lock.clone());
        let open = move || {
            let mut copy = copy.lock();
            copy.catch_up()?;
            copy.open(&lock)
        };
        self.store.send_replace(Some(blocking(COPYING, open).await?));
        Ok(())
    }

    fn session(&self) -> Result<&Session, StoreError> {
        self.session.as_ref().ok_or(StoreError::Closed)
    }

    async fn state(&self) -> Result<State, StoreError> {
        let row = answer("look at the journal", self.session()?.client.query_one(STATE, &[])).await?;
        if let Some(to) = row.get::<_, Option<String>>(6) {
            let message = format!("this database is used no more: the journal was moved to {to}");
            return Err(StoreError::Elsewhere { message });
        }
        let held_for = Duration::from_secs_f64(row.get::<_, Option<f64>>(5).unwrap_or_default());
        let leader = row.get::<_, Option<String>>(3).filter(|_| !held_for.is_zero());
        Ok(State {
            id: row.get(0),
            next: row.get::<_, i64>(1) as u64,
            generation: row.get(2),
            leader: leader.map(|name| Node { name, address: row.get(4) }),
            held_for,
        })
    }

    /// Whether the copy is one of what the database has now.
    fn belongs(&self, state: &State, store: &Store) -> Result<bool, StoreError> {
        let marker = self.copy.lock().marker.clone();
        if marker.journal != state.id {
            let message =
                "the database has another journal than before; name another folder with --state".to_owned();
            return Err(StoreError::Elsewhere { message });
        }
        Ok(marker.generation == state.generation && store.inner.durable().tail.n < state.next)
    }

    async fn copy_on(&self, store: &Store, next: u64) -> Result<(), StoreError> {
        while store.inner.durable().tail.n + 1 < next {
            let from = store.inner.durable().tail.n as i64;
            let rows = answer("copy events", self.session()?.client.query(PAGE, &[&from])).await?;
            let Some(copied) = copied(&rows)? else { break };
            let expired = expired(&copied.lines);
            store.inner.appender.copy(copied).await?;
            for (channel, id) in expired {
                store.inner.artifacts.remove(&channel, &id).await?;
            }
        }
        Ok(())
    }

    fn tell(&self, state: &State, n: u64) {
        self.status.send_if_modified(|status| {
            if status.leader != state.leader {
                match &state.leader {
                    Some(leader) => {
                        tracing::info!(
                            leader = leader.name,
                            address = leader.address,
                            "this node is a standby and replicates the leader"
                        )
                    }
                    None => tracing::info!("no node leads at the moment"),
                }
            }
            let now = StandbyStatus {
                leader: state.leader.clone(),
                n,
                last_n: state.next.saturating_sub(1).max(n),
                error: status.error.clone(),
            };
            std::mem::replace(status, now.clone()) != now
        });
    }

    fn node(&self) -> Node {
        let DatabaseOptions { node, address, .. } = &self.database.options;
        Node { name: node.clone(), address: address.clone() }
    }

    async fn seen(&mut self, n: u64) -> Result<(), StoreError> {
        let node = self.node();
        let session = self.session.as_ref().ok_or(StoreError::Closed)?;
        self.name.seen(session, &node, n).await
    }

    /// Erases whom the one that led before was asked to, and leads then: whether that went well or not.
    async fn erase_and_lead(&mut self, lease: Arc<Lease>) -> Result<Step, StoreError> {
        self.close().await;
        let (copy, lock, held) = (self.copy.clone(), self.lock.clone(), lease.clone());
        let open = move || {
            let mut copy = copy.lock();
            match copy.ready(&held)? {
                Some(error) if !held.is_held() => Ok(Err(error)),
                put_off => open_without(&mut copy, &lock, put_off).map(Ok),
            }
        };
        let led = match blocking(COPYING, open).await {
            Ok(Ok(store)) => {
                self.store.send_replace(Some(store.clone()));
                store.begin_to_lead(self.database.clone(), lease.clone()).await.map(|()| Step::Leads(store))
            }
            // Whoever leads next tries it. This node does not lose the lease to it a second time.
            Ok(Err(error)) => {
                self.put_off = Some(error);
                Ok(Step::Again)
            }
            Err(error) => Err(error),
        };
        if !matches!(led, Ok(Step::Leads(_))) {
            lease.leave(&self.database).await;
        }
        led
    }

    /// Takes the lease, copies what was appended last, and leads.
    async fn lead(&self, store: &Store) -> Result<Led, StoreError> {
        let previous = self.copy.lock().previous();
        let lease = Lease::take(&self.database, previous).await?;
        let led = self.lead_by(store, lease.clone()).await;
        if !matches!(led, Ok(Led::Leads | Led::Erases(_))) {
            lease.leave(&self.database).await;
        }
        led
    }

    async fn lead_by(&self, store: &Store, lease: Arc<Lease>) -> Result<Led, StoreError> {
        let (copy, id) = (self.copy.clone(), lease.id().to_owned());
        blocking(COPYING, move || copy.lock().hold(&id)).await?;
        // Nobody else appends from here on.
        let state = self.state().await?;
        if !self.belongs(&state, store)? {
            return Ok(Led::Not);
        }
        if self.database.has_orders().await? {
            match &self.put_off {
                None => return Ok(Led::Erases(lease)),
                Some(error) => store.inner.erasure.put_off_for(error.clone()),
            }
        }
        self.copy_on(store, state.next).await?;
        store.begin_to_lead(self.database.clone(), lease).await?;
        Ok(Led::Leads)
    }
}

/// The outcome of an attempt to lead.
enum Led {
    Leads,
    /// The copy must be rebuilt first.
    Not,
    /// Somebody must be erased first.
    Erases(Arc<Lease>),
}

/// The outcome of one step of following.
enum Step {
    Leads(Store),
    /// Look again at once.
    Again,
    /// Nothing to do before so long, unless something is heard.
    Waits(Duration),
}

/// Whether an error may pass without a restart of this node.
fn may_pass(error: &StoreError) -> bool {
    matches!(error, StoreError::Database { .. } | StoreError::DiskFull { .. } | StoreError::View { .. })
}
