//! The nodes that share a database, as the status shows them.

use std::time::Duration;

use cairn_api::records::NodeStatus;
use cairn_config::Loaded;
use cairn_store::Store;
use cairn_types::ports::NodeRow;

/// What the database does not tell now is left out: the status is asked for when something is wrong.
pub async fn nodes_of(store: &Store) -> Vec<NodeRow> {
    tokio::time::timeout(NODES_LIMIT, store.nodes()).await.unwrap_or(Ok(Vec::new())).unwrap_or_default()
}

/// This node as `cairn status` shows it; none where there is no database.
pub async fn status_of(store: &Store, loaded: &Loaded) -> Option<NodeStatus> {
    let name = loaded.database().ok().flatten()?.node;
    let lease = store.lease()?;
    let leads = lease.borrow().held;
    let nodes = nodes_of(store).await;
    let leader = nodes.iter().find(|row| row.leads).map(|row| row.node.name.clone());
    Some(NodeStatus { name, leads, leader, nodes })
}

/// How long a status waits for the database.
const NODES_LIMIT: Duration = Duration::from_secs(2);
