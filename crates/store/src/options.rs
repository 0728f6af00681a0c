//! What a store is opened with.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_types::ports::{Embedder, Reranker};

use crate::files::progress::Progress;

/// What a store is opened with.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The state folder; made when it is not there.
    pub dir: PathBuf,
    /// A journal segment of at least this many bytes is followed by a new one.
    pub segment_bytes: u64,
    /// Most bytes of sled's cache; half as many are taken for the last entries of channels, which the index needs again.
    pub sled_cache_bytes: u64,
    /// Bytes of journal, of rows and of index that every start checks. The rest, if it was there at the last stop, is left to
    /// [`Store::check`](crate::Store::check).
    pub checked_at_start_bytes: u64,
    /// Progress of opening, and of checks and changes of a state that is not open.
    pub progress: Progress,
    /// The database that holds the journal; the state folder then has a copy. None: the journal is in the state folder alone.
    pub database: Option<DatabaseOptions>,
    /// The model that makes vectors of what is said, for searches; none: they go by words alone.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// The model that orders the best search results again; none: they stay in the order that was found.
    pub reranker: Option<Arc<dyn Reranker>>,
}

impl StoreOptions {
    /// The usual sizes: segments of 64 MiB, 8 MiB of cache, 4 MiB checked.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 64 << 20,
            sled_cache_bytes: 8 << 20,
            checked_at_start_bytes: 4 << 20,
            progress: Progress::default(),
            database: None,
            embedder: None,
            reranker: None,
        }
    }
}

/// A journal in a database: where it is, and how this node identifies itself.
#[derive(Clone)]
pub struct DatabaseOptions {
    /// `postgres://…`: a secret, for the password in it.
    pub url: Arc<str>,
    /// The name of this node, unique among the nodes of the database.
    pub node: String,
    /// The address at which people and other nodes reach this node.
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
