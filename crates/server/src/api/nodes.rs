//! The nodes that share a database, for the status.

use std::time::Duration;

use cairn_api::records::NodeStatus;
use cairn_config::Loaded;
use cairn_store::Store;
use cairn_types::ports::NodeRow;

/// The nodes in the database. Empty if it does not answer: the status must work then, too.
pub async fn nodes_of(store: &Store) -> Vec<NodeRow> {
    tokio::time::timeout(NODES_LIMIT, store.nodes()).await.unwrap_or(Ok(Vec::new())).unwrap_or_default()
}

/// The status of this node; `None` without a database.
pub async fn status_of(store: &Store, loaded: &Loaded) -> Option<NodeStatus> {
    let name = loaded.database().ok().flatten()?.node;
    let lease = store.lease()?;
    let leads = lease.borrow().held;
    let nodes = nodes_of(store).await;
    let leader = nodes.iter().find(|row| row.leads).map(|row| row.node.name.clone());
    Some(NodeStatus { name, leads, leader, nodes })
}

/// Longest wait for the database.
const NODES_LIMIT: Duration = Duration::from_secs(2);
