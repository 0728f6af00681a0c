//! What the store is opened with.

use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The state folder; made when it is not there.
    pub dir: PathBuf,
    /// A journal segment of at least this many bytes is followed by a new one.
    pub segment_bytes: u64,
    /// Most bytes of sled's cache.
    pub sled_cache_bytes: u64,
    /// Bytes of the search index's write buffer; tantivy takes no less than 15 MB.
    pub index_heap_bytes: usize,
}

impl StoreOptions {
    /// The usual sizes: segments of 64 MiB, 8 MiB of cache, the smallest write buffer.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            segment_bytes: 64 << 20,
            sled_cache_bytes: 8 << 20,
            index_heap_bytes: 15_000_000,
        }
    }
}
