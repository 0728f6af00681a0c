//! Erases people from the copy and from the database, before the node leads.

use std::sync::Arc;

use cairn_types::ports::StoreError;
use jiff::Timestamp;
use tokio_postgres::Row;

use super::copy::{Copy, read_head};
use super::errors::failed;
use super::lease::Lease;
use super::orders::ORDERS;
use super::push::{fetch_all, push};
use crate::files::artifacts::Artifacts;
use crate::upkeep::erasure::resume;

impl Copy {
    /// Brings the copy up to the database for this node, which holds the lease, and erases everybody who is to be. Returns why
    /// that failed: whoever leads next tries again. While the lease is held the copy is as before then, and the node may lead.
    /// Blocks.
    ///
    /// # Errors
    /// The database does not answer, or the copy cannot be written.
    pub(super) fn ready(&mut self, lease: &Arc<Lease>) -> Result<Option<StoreError>, StoreError> {
        let orders = self.database.ask_blocking("look for erasures", ORDERS, Vec::new())?;
        if !orders.is_empty() {
            // Nothing goes to the database but what it has, and what the erasure makes of it: the copy is rebuilt.
            self.marker.is_rewritten = true;
            self.marker.write(&self.dir)?;
        }
        self.catch_up()?;
        let error = match self.erase(&orders, lease) {
            Ok(()) => return Ok(None),
            Err(error) if error == StoreError::Stopped => return Err(error),
            Err(error) => error,
        };
        resume::tell_failed(&error);
        if error == StoreError::Fenced {
            lease.lose();
        }
        if !lease.is_held() {
            return Ok(Some(error));
        }
        self.catch_up()?;
        // It may be only the last answer that was lost.
        let left = self.database.ask_blocking("look for erasures", ORDERS, Vec::new())?;
        Ok((!left.is_empty()).then_some(error))
    }

    /// Erases everybody who is to be, here and in the database; until it is there the copy counts for nothing. No store is
    /// open on the copy.
    fn erase(&mut self, orders: &[Row], lease: &Arc<Lease>) -> Result<(), StoreError> {
        let (database, dir) = (self.database.clone(), self.dir.clone());
        let progress = self.options.progress.clone();
        for row in orders {
            let (person, at): (String, String) = (row.get(0), row.get(1));
            let asked_at: Timestamp = at.parse().map_err(|error| failed("read an erasure", error))?;
            self.marker.is_rewritten = true;
            self.marker.write(&dir)?;
            fetch_all(&database, &Artifacts::of(&dir, Some(database.clone())), &progress)?;
            resume::carry_out(&dir, &person, asked_at, &progress)?;
            let (of, from, id) = (database.clone(), dir.clone(), lease.id().to_owned());
            let progress = progress.clone();
            database.wait(async move { push(&of, &from, Some((&id, &person)), &progress).await })?;
            self.marker.generation = read_head(&database)?.generation;
            self.marker.is_rewritten = false;
            self.marker.write(&dir)?;
        }
        Ok(())
    }
}
