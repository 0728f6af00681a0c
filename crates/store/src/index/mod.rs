//! The search index: tantivy over entries, summaries and memories. Derived from journal and views, rebuildable.

mod documents;
mod indexer;
mod memories;
pub(crate) mod recall;
mod recents;
mod schema;
pub(crate) mod search;
mod search_index;
mod vectors;

pub(crate) use indexer::{Indexer, Task};
pub(crate) use search_index::{SearchIndex, reach};
pub(crate) use vectors::Embedding;
