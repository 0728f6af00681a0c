//! The nodes that share a database, and what a database reports about itself.

use cairn_types::ports::{Node, NodeRow};
use std::sync::Arc;

use cairn_types::ports::StoreError;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::client::{Connector, answer};
use super::database::Database;
use crate::options::DatabaseOptions;

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

/// The version and settings of a database, and its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseReport {
    /// Version of the server, such as `15.18`.
    pub version: String,
    /// Major version of the server.
    pub major: u32,
    pub encoding: String,
    /// Whether a commit waits until it is on a disk.
    pub is_synced: bool,
    /// Whether this account may create tables there.
    pub may_create: bool,
    /// The nodes; none: the database has no tables of Cairn yet.
    pub nodes: Option<Vec<NodeRow>>,
}

/// Reads version, settings and nodes of a database. Changes nothing.
///
/// # Errors
/// The url is wrong, the database does not answer, or it refuses the user.
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

impl Database {
    /// All nodes that lead or follow, or did.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn nodes(self: &Arc<Self>) -> Result<Vec<NodeRow>, StoreError> {
        Ok(node_rows(&self.ask("list the nodes", NODES, Vec::new()).await?))
    }
}
