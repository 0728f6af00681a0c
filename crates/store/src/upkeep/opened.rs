//! A store that a command opens to read it, or to rebuild what derives from its journal: it never leads a database's nodes.

use cairn_types::ports::StoreError;
use tokio::runtime::Handle;

use crate::cluster::Standby;
use crate::options::StoreOptions;
use crate::store::Store;

/// A store that was opened to be read, or to have what derives from its journal made again.
pub(crate) struct OpenedStore {
    pub(crate) store: Store,
    /// What follows the database whose journal it has a copy of: this node does not lead for it.
    standby: Option<Standby>,
}

impl OpenedStore {
    /// Blocks.
    pub(crate) fn open(options: StoreOptions) -> Result<Self, StoreError> {
        if options.database.is_none() {
            return Ok(Self { store: Store::open(options)?, standby: None });
        }
        let mut standby = Store::stand_by(options)?;
        let store = Handle::current().block_on(standby.opened())?;
        Ok(Self { store, standby: Some(standby) })
    }

    pub(crate) async fn close(self) {
        match self.standby {
            Some(standby) => standby.close().await,
            None => drop(self.store.close().await),
        }
    }
}
