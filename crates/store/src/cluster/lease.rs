//! The lease by which one node leads: taken, renewed and left by the database's clock, and counted out by this node's own.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use cairn_types::ports::StoreError;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::types::ToSql;

use super::client::{CALL, Connector, Session, answer};
use super::database::{Database, Param, new_id};
use super::errors::{failed, refused};
use crate::journal::Durable;
use crate::options::DatabaseOptions;
use cairn_types::ports::Node;

/// How often the lease is renewed; it lasts 10 s in the database.
const RENEW_EVERY: Duration = Duration::from_secs(2);

/// So long after its last renewal was sent a node does not count on its lease any more. The rest is for two clocks that do
/// not run alike, and for what is on its way.
const COUNTED_OUT: Duration = Duration::from_secs(6);

/// One attempt to renew it.
const ATTEMPT: Duration = Duration::from_millis(1500);

/// How long a node may take to tell others that it is there.
const SEEN: Duration = Duration::from_millis(500);

/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(200);

const LEAD: &str =
    "SELECT epoch, leader, leader_address FROM cairn_lead($1::text::uuid, $2::text::uuid, $3, $4)";

/// A node that stops in order is not listed any more; one that stands by then is again at once.
const LEAVE: &str = "WITH gone AS (DELETE FROM cairn_node WHERE name = $2 AND address = $3) \
     SELECT cairn_leave($1::text::uuid)";

const SIGN_OFF: &str = "DELETE FROM cairn_node WHERE name = $1 AND address = $2";

/// A name belongs to the process that was heard of by it, until nothing was heard of that for so long.
const TELL: &str = "SELECT cairn_seen($1, $2, $3, $4) WHERE NOT EXISTS (SELECT FROM cairn_node \
     WHERE name = $1 AND address <> $2 AND seen_at > clock_timestamp() - interval '5 seconds')";

/// Longer than a name belongs to a process that has ended.
const NAMED_WITHIN: Duration = Duration::from_secs(8);

/// Whether this node leads, and for how long it is sure of it.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseState {
    /// False for good: another node leads, or may.
    pub held: bool,
    /// How often any node has begun to lead.
    pub epoch: u64,
    /// Why it could not be renewed the last time.
    pub error: Option<StoreError>,
    /// When this node counts itself out.
    out_at_ms: u64,
}

impl LeaseState {
    /// Whether no other node can lead at this moment. A process that slept has not been told yet.
    pub fn holds(&self) -> bool {
        self.held && Sent::now().boot_ms < self.out_at_ms
    }
}

/// The lease, as long as this node leads.
pub(crate) struct Lease {
    id: String,
    state: watch::Sender<LeaseState>,
    renewal: parking_lot::Mutex<Option<AbortHandle>>,
    /// How far this node is, once its store is open.
    durable: OnceLock<watch::Receiver<Durable>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
    }
}

impl Lease {
    /// Takes the lease, and renews it from then on. `previous`: what the process held that wrote this state before. To be
    /// called on the database's thread.
    ///
    /// # Errors
    /// [`StoreError::Led`]: another node leads.
    pub(crate) async fn take(database: &Database, previous: Option<String>) -> Result<Arc<Self>, StoreError> {
        let session = database.connector.connect().await?;
        let id = new_id()?;
        let DatabaseOptions { node, address, .. } = &database.options;
        let sent = Sent::now();
        let params: [&(dyn ToSql + Sync); 4] = [&id, &previous, node, address];
        let row = session.client.query_one(LEAD, &params);
        let row = match timeout(CALL, row).await {
            Ok(Ok(row)) => row,
            Ok(Err(error)) if error.code().is_some_and(|code| code.code() == "CN003") => {
                let why = error.as_db_error().map_or_else(String::new, |error| error.message().to_owned());
                return Err(StoreError::Elsewhere {
                    message: format!("this database is used no more: {why}"),
                });
            }
            Ok(Err(error)) => return Err(refused("take the lease", &error)),
            Err(_) => return Err(failed("take the lease", "it does not answer")),
        };
        let Some(epoch) = row.get::<_, Option<i64>>(0) else {
            return Err(StoreError::Led { node: row.get(1), address: row.get(2) });
        };
        let state = LeaseState { held: true, epoch: epoch as u64, error: None, out_at_ms: sent.out_at_ms() };
        let (state, _) = watch::channel(state);
        let lease =
            Arc::new(Self { id, state, renewal: parking_lot::Mutex::default(), durable: OnceLock::new() });
        let renewal = Renewal {
            connector: database.connector.clone(),
            of: Arc::downgrade(&lease),
            id: lease.id.clone(),
            node: Node { name: node.clone(), address: address.clone() },
            name: Name::default(),
        };
        let task = tokio::spawn(renewal.run(session, sent));
        *lease.renewal.lock() = Some(task.abort_handle());
        tracing::info!(node, epoch, "this node is the leader");
        Ok(lease)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.subscribe()
    }

    /// Tells others from here on how far this node is.
    pub(crate) fn tells(&self, durable: watch::Receiver<Durable>) {
        self.durable.get_or_init(|| durable);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.state.borrow().holds()
    }

    /// The database has answered something else than a renewal.
    pub(crate) fn answered(&self) {
        self.state.send_if_modified(|state| state.error.take().is_some());
    }

    /// Waits so long, or until it is lost.
    pub(crate) async fn lost_within(&self, limit: Duration) {
        let mut state = self.state.subscribe();
        drop(timeout(limit, state.wait_for(|state| !state.held)).await);
    }

    /// This node does not lead any more, whatever the database says.
    pub(crate) fn lose(&self) {
        self.state.send_if_modified(|state| std::mem::replace(&mut state.held, false));
        self.end();
    }

    fn end(&self) {
        if let Some(task) = self.renewal.lock().take() {
            task.abort();
        }
    }

    /// Leaves it, so that another node leads at once. When this fails it runs out.
    pub(crate) async fn leave(&self, database: &Arc<Database>) {
        if !self.is_held() {
            return;
        }
        self.lose();
        let DatabaseOptions { node, address, .. } = &database.options;
        let params: Vec<Param> =
            vec![Box::new(self.id.clone()), Box::new(node.clone()), Box::new(address.clone())];
        if let Err(error) = database.ask("leave the lease", LEAVE, params).await {
            tracing::warn!(%error, "the lease could not be released; another node can lead when it expires");
        }
    }
}

/// The task that renews the lease.
struct Renewal {
    connector: Connector,
    of: Weak<Lease>,
    id: String,
    node: Node,
    name: Name,
}

impl Renewal {
    /// Runs until the lease is lost. `sent`: when it was taken, or renewed.
    async fn run(mut self, session: Session, mut sent: Sent) {
        let mut session = Some(session);
        loop {
            let out_at = sent.at + COUNTED_OUT;
            tokio::time::sleep_until(sent.at + RENEW_EVERY).await;
            let renewed = timeout_at(out_at, self.renew(&mut session)).await;
            match renewed {
                Ok(Some(at)) => {
                    self.renewed(at);
                    sent = at;
                }
                Ok(None) => {
                    tracing::warn!("another node is the leader; this node stops writing");
                    break;
                }
                Err(_) => {
                    tracing::warn!(
                        "the lease could not be renewed for {} s; this node is no longer the leader",
                        COUNTED_OUT.as_secs()
                    );
                    break;
                }
            }
        }
    }

    fn renewed(&self, sent: Sent) {
        metrics::gauge!("cairn_database_up").set(1.0);
        if let Some(lease) = self.of.upgrade() {
            // Nobody is woken where it is held as before.
            lease.state.send_if_modified(|state| {
                state.out_at_ms = sent.out_at_ms();
                state.error.take().is_some()
            });
        }
    }

    fn failed(&self, error: StoreError) {
        metrics::gauge!("cairn_database_up").set(0.0);
        if let Some(lease) = self.of.upgrade() {
            lease.state.send_modify(|state| state.error = Some(error));
        }
    }

    /// Tries until the database answers. Returns when what it answered was sent; `None`: another node leads.
    async fn renew(&mut self, session: &mut Option<Session>) -> Option<Sent> {
        let mut is_told = false;
        loop {
            let at = Sent::now();
            let error = match timeout(ATTEMPT, self.attempt(session)).await {
                Ok(Ok(true)) => return Some(at),
                Ok(Ok(false)) => return None,
                Ok(Err(error)) => error,
                Err(_) => failed("renew the lease", "it does not answer"),
            };
            *session = None;
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(%error, "the lease could not be renewed; trying again");
            }
            self.failed(error);
            sleep(AGAIN).await;
        }
    }

    async fn attempt(&mut self, place: &mut Option<Session>) -> Result<bool, StoreError> {
        let session = match place {
            Some(session) => session,
            None => place.insert(self.connector.connect().await?),
        };
        let params: [&(dyn ToSql + Sync); 1] = [&self.id];
        let renewed = session.client.query_one("SELECT cairn_renew($1::text::uuid)", &params);
        let renewed = answer("renew the lease", renewed).await?.get(0);
        let lease = self.of.upgrade();
        if let Some(durable) = lease.as_ref().and_then(|lease| lease.durable.get()) {
            let n = durable.borrow().tail.n;
            let told = timeout(SEEN, self.name.seen(session, &self.node, n)).await;
            if !matches!(told, Ok(Ok(()))) {
                // The lease is renewed all the same.
                *place = None;
            }
        }
        Ok(renewed)
    }
}

impl Drop for Renewal {
    /// Nobody renews it any more, whatever ended the task.
    fn drop(&mut self) {
        if let Some(lease) = self.of.upgrade() {
            lease.state.send_if_modified(|state| std::mem::replace(&mut state.held, false));
        }
    }
}

/// When a renewal was sent. Who sends something may wake before the task that renews the lease, so the second clock is one that
/// goes on while the machine is suspended.
#[derive(Clone, Copy)]
struct Sent {
    at: Instant,
    /// By the clock that goes on while the machine is suspended, in milliseconds.
    boot_ms: u64,
}

impl Sent {
    fn now() -> Self {
        let boot = clock_gettime(ClockId::Boottime);
        Self { at: Instant::now(), boot_ms: boot.tv_sec as u64 * 1000 + boot.tv_nsec as u64 / 1_000_000 }
    }

    fn out_at_ms(self) -> u64 {
        self.boot_ms + COUNTED_OUT.as_millis() as u64
    }
}

const HAND_OVER: &str = "INSERT INTO cairn_handover (name, bytes) \
     SELECT $2, $3 FROM cairn_journal WHERE lease = $1::text::uuid \
     ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes RETURNING name";

const TAKE_OVER: &str = "DELETE FROM cairn_handover WHERE EXISTS (SELECT FROM cairn_journal WHERE lease = $1::text::uuid) \
     RETURNING name, bytes";

impl Database {
    /// Stores bytes under a name for the next leader.
    ///
    /// # Errors
    /// [`StoreError::Fenced`]; the database does not answer.
    pub(crate) async fn hand_over(
        self: &Arc<Self>,
        lease: &Lease,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        let params: Vec<Param> = vec![Box::new(lease.id.clone()), Box::new(name.to_owned()), Box::new(bytes)];
        let kept = self.ask("hand over", HAND_OVER, params).await?;
        if kept.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// Takes what the previous leader stored, as names and bytes.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn take_over(
        self: &Arc<Self>,
        lease: &Lease,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let taken = self.ask("take over", TAKE_OVER, vec![Box::new(lease.id.clone())]).await?;
        Ok(taken.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

/// The name of this node, which another process may have, too.
#[derive(Default)]
pub(super) struct Name {
    /// Since when another process has it.
    taken_at: Option<Instant>,
    is_told: bool,
}

impl Name {
    /// Tells other nodes that this one is there, unless another process is known by the same name.
    pub(super) async fn seen(&mut self, session: &Session, node: &Node, n: u64) -> Result<(), StoreError> {
        let (version, n) = (env!("CARGO_PKG_VERSION"), n as i64);
        let params: [&(dyn ToSql + Sync); 4] = [&node.name, &node.address, &version, &n];
        let is_ours = answer("tell of this node", session.client.execute(TELL, &params)).await? > 0;
        if is_ours {
            *self = Self::default();
        } else if self.taken_at.get_or_insert_with(Instant::now).elapsed() >= NAMED_WITHIN
            && !std::mem::replace(&mut self.is_told, true)
        {
            tracing::warn!(
                node = node.name,
                address = node.address,
                "another node has the same name; this one is not listed; set `node` under [store] on one of them"
            );
        }
        Ok(())
    }
}

/// This node stops: nobody waits for it to lead. One that cannot say so is not heard of any more.
pub(super) async fn sign_off(session: &Session, node: &Node) {
    let params: [&(dyn ToSql + Sync); 2] = [&node.name, &node.address];
    drop(timeout(SEEN, session.client.execute(SIGN_OFF, &params)).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_was_not_renewed_in_time_does_not_hold_before_anybody_is_told() {
        let now = Sent::now();
        let state = |held, out_at_ms| LeaseState { held, epoch: 1, error: None, out_at_ms };
        assert!(state(true, now.out_at_ms()).holds());
        assert!(!state(true, now.boot_ms).holds());
        assert!(!state(false, now.out_at_ms()).holds());
    }
}
