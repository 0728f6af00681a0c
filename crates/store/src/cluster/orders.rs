//! Erasures that the database keeps until they are done: the node that leads next carries them out.

use std::sync::Arc;

use cairn_types::ports::StoreError;
use jiff::Timestamp;

use super::database::{Database, Param};
use super::lease::Lease;

/// People who are to be erased, in the order in which they were asked for.
pub(super) const ORDERS: &str = "SELECT person, at FROM cairn_erasure ORDER BY at, person";

impl Database {
    /// Has a person erased by whichever node leads next.
    ///
    /// # Errors
    /// [`StoreError::Fenced`]; the database does not answer.
    pub(crate) fn order_erasure(
        self: &Arc<Self>,
        lease: &Lease,
        person: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        const ORDER: &str = "INSERT INTO cairn_erasure (person, at) SELECT $1, $2 FROM cairn_journal \
             WHERE lease = $3::text::uuid ON CONFLICT (person) DO UPDATE SET at = excluded.at RETURNING at";
        let params: Vec<Param> =
            vec![Box::new(person.to_owned()), Box::new(at.to_string()), Box::new(lease.id().to_owned())];
        let rows = self.ask_blocking("ask for an erasure", ORDER, params)?;
        if rows.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// Whether somebody is to be erased.
    ///
    /// # Errors
    /// The database does not answer.
    pub(super) async fn has_orders(self: &Arc<Self>) -> Result<bool, StoreError> {
        Ok(!self.ask("look for erasures", ORDERS, Vec::new()).await?.is_empty())
    }
}
