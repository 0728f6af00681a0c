//! The journal in a PostgreSQL database, with a whole copy of it in the state folder of every node.
//!
//! The database is what puts events in order, and the fence: one node leads at a time, by a lease, and appends. The others
//! follow: they copy what is appended, and one of them leads when the lease is free. Whatever reads, reads the copy.

mod append;
mod artifacts;
mod client;
pub(crate) mod copy;
pub(crate) mod follow;
mod lease;
mod push;
mod requests;
mod schema;
mod tls;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use cairn_types::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

pub(crate) use append::{Batch, Sequencer};
use client::{Connector, Session, answer, failed};
pub use follow::{Standby, StandbyStatus};
pub(crate) use lease::Lease;
pub use lease::LeaseState;
pub use push::{Moved, move_from, move_to};
pub use requests::{Part, Reply, Request, Taken, Unanswered};

/// A question whose answer is short is given up after so long.
pub(crate) const CALL: Duration = Duration::from_secs(5);

/// Where the journal is, and as who this node writes it.
#[derive(Clone)]
pub struct DatabaseOptions {
    /// `postgres://…`: a secret, for the password in it.
    pub url: Arc<str>,
    /// The name of this node, which no other node has.
    pub node: String,
    /// Where people and other nodes reach it.
    pub address: String,
}

impl fmt::Debug for DatabaseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url: _, node, address } = self;
        f.debug_struct("DatabaseOptions")
            .field("node", node)
            .field("address", address)
            .finish_non_exhaustive()
    }
}

/// A node as others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub address: String,
}

/// A node that leads or follows, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    #[serde(flatten)]
    pub node: Node,
    /// Of its program.
    pub version: String,
    /// The last record that it has.
    pub n: u64,
    pub seen_at: Timestamp,
    /// How long ago that was, by the database's clock.
    pub silent_secs: u64,
    pub leads: bool,
}

const NODES: &str = "SELECT n.name, n.address, n.version, n.n, extract(epoch FROM n.seen_at)::float8, \
     extract(epoch FROM clock_timestamp() - n.seen_at)::float8, \
     coalesce(l.node = n.name AND l.expires_at > clock_timestamp(), false) \
     FROM cairn_node n LEFT JOIN cairn_lease l ON l.name = 'leader' ORDER BY n.name";

fn node_rows(rows: &[Row]) -> Vec<NodeRow> {
    let node = |row: &Row| NodeRow {
        node: Node { name: row.get(0), address: row.get(1) },
        version: row.get(2),
        n: row.get::<_, i64>(3) as u64,
        seen_at: Timestamp::from_millisecond((row.get::<_, f64>(4) * 1000.0) as i64)
            .unwrap_or(Timestamp::UNIX_EPOCH),
        silent_secs: row.get::<_, f64>(5).max(0.0) as u64,
        leads: row.get(6),
    };
    rows.iter().map(node).collect()
}

/// What a database says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseReport {
    /// Of the server, such as `15.18`.
    pub version: String,
    /// The major part of it.
    pub major: u32,
    pub encoding: String,
    /// Whether a commit waits until it is on a disk.
    pub is_synced: bool,
    /// Whether this account may create tables there.
    pub may_create: bool,
    /// None: it has no tables of Cairn's yet.
    pub nodes: Option<Vec<NodeRow>>,
}

/// Asks a database how it is, and changes nothing.
///
/// # Errors
/// The url is wrong, or it does not let this user in.
pub async fn report_on(options: &DatabaseOptions) -> Result<DatabaseReport, StoreError> {
    const ABOUT: &str = "SELECT current_setting('server_version'), current_setting('server_version_num')::int4 / 10000, \
         current_setting('server_encoding'), \
         current_setting('synchronous_commit') <> 'off' AND current_setting('fsync') = 'on', \
         to_regclass('cairn_node') IS NOT NULL, \
         coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)";
    let session = Connector::of(&options.url)?.connect().await?;
    let row = answer("ask how it is", session.client.query_one(ABOUT, &[])).await?;
    let nodes = if row.get(4) {
        Some(node_rows(&answer("list the nodes", session.client.query(NODES, &[])).await?))
    } else {
        None
    };
    Ok(DatabaseReport {
        version: row.get(0),
        major: row.get::<_, i32>(1) as u32,
        encoding: row.get(2),
        is_synced: row.get(3),
        may_create: row.get(5),
        nodes,
    })
}

/// A database, with the thread on which everything runs that talks to it.
pub(crate) struct Database {
    runtime: Option<Runtime>,
    pub(crate) options: DatabaseOptions,
    pub(crate) connector: Connector,
    /// For what is asked now and then.
    asked: tokio::sync::Mutex<Option<Session>>,
}

impl Drop for Database {
    fn drop(&mut self) {
        // The last of its holders may be a task: nobody waits there.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Database {
    /// Connects, and sets up a database that is empty. Blocks.
    ///
    /// # Errors
    /// The url is wrong, the database does not answer, or a newer version wrote it.
    pub(crate) fn open(options: &DatabaseOptions) -> Result<Arc<Self>, StoreError> {
        let connector = Connector::of(&options.url)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("database")
            .enable_all()
            .build()
            .map_err(|error| failed("start a thread for it", error))?;
        let database = Arc::new(Self {
            runtime: Some(runtime),
            options: options.clone(),
            connector,
            asked: tokio::sync::Mutex::default(),
        });
        let first = database.clone();
        database.wait(async move {
            let mut session = first.connector.connect().await?;
            schema::migrate(&mut session).await?;
            *first.asked.lock().await = Some(session);
            Ok(())
        })?;
        Ok(database)
    }

    pub(crate) fn handle(&self) -> Handle {
        match &self.runtime {
            Some(runtime) => runtime.handle().clone(),
            None => Handle::current(),
        }
    }

    /// Does something on the database's thread, and blocks until it is done: wherever the caller is.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, done) = sync_channel(1);
        self.handle().spawn(async move {
            // Nobody waits any more: no error.
            drop(tell.send(work.await));
        });
        done.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Asks something that may be asked twice, and whose answer is short.
    ///
    /// # Errors
    /// The database does not answer, or refuses.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        action: &'static str,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, StoreError> {
        self.try_ask(action, sql, params).await.map_err(|(error, _)| error)
    }

    /// Asks as [`Self::ask`] does. An error comes with whether it was sent: what it asks for may be done then.
    async fn try_ask(
        self: &Arc<Self>,
        action: &'static str,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, (StoreError, bool)> {
        let database = self.clone();
        // On the database's thread, whose connections they are.
        let asked = self.handle().spawn(async move {
            let mut place = database.asked.lock().await;
            // The connection may have broken since it was used last.
            for is_last in [false, true] {
                let session = match place.take().filter(|session| !session.client.is_closed()) {
                    Some(session) => session,
                    // The second time it was sent before.
                    None => database.connector.connect().await.map_err(|error| (error, is_last))?,
                };
                let params: Vec<_> = params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
                match answer(action, session.client.query(sql, &params)).await {
                    Err(_) if session.client.is_closed() && !is_last => {}
                    rows => {
                        if !session.client.is_closed() && rows.is_ok() {
                            *place = Some(session);
                        }
                        return rows.map_err(|error| (error, true));
                    }
                }
            }
            Err((failed(action, "the connection is lost"), true))
        });
        asked.await.unwrap_or(Err((StoreError::Closed, true)))
    }

    /// [`Self::ask`], for those who may block.
    pub(crate) fn ask_blocking(
        self: &Arc<Self>,
        action: &'static str,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, StoreError> {
        let database = self.clone();
        self.wait(async move { database.ask(action, sql, params).await })
    }

    /// All nodes that lead or follow, or did.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn nodes(self: &Arc<Self>) -> Result<Vec<NodeRow>, StoreError> {
        Ok(node_rows(&self.ask("list the nodes", NODES, Vec::new()).await?))
    }
}

/// What a question is asked with.
pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

/// A number that nothing else has, as the database writes it.
pub(crate) fn new_id() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| failed("make an id", error))?;
    let hex = crate::files::artifacts::hex(&bytes);
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}
