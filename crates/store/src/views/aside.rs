//! Rows made in memory from the journal, beside sled, for as long as sled does not answer or lags far behind.

use std::path::Path;

use cairn_core::ports::StoreError;

use super::applier::apply_next;
use super::db::Db;
use super::rows::Meta;
use crate::journal::open::Tail;
use crate::journal::reader::Follower;

/// The rows, with how far they show the journal.
pub(crate) struct Aside {
    db: Db,
    meta: Meta,
    follower: Follower,
}

impl Aside {
    /// None yet.
    pub(crate) fn new(journal: &Path) -> Self {
        let meta = Meta::default();
        let follower = Follower::new(journal, meta.checkpoint());
        Self { db: Db::in_memory(), meta, follower }
    }

    /// The rows, which show the journal up to that end.
    ///
    /// # Errors
    /// The journal is damaged.
    pub(crate) fn up_to(&mut self, tail: &Tail) -> Result<&Db, StoreError> {
        while self.follower.checkpoint().n < tail.n {
            apply_next(&self.db, &mut self.follower, &mut self.meta, tail)?;
        }
        Ok(&self.db)
    }
}
