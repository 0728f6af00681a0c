//! A store that a command opens to read it, or to rebuild what derives from its journal. With a journal in a database this node
//! follows, and does not lead.

use cairn_types::ports::StoreError;
use tokio::runtime::Handle;

use crate::cluster::Standby;
use crate::options::StoreOptions;
use crate::store::Store;

/// A store that is opened to read it, or to rebuild views and index.
pub(crate) struct OpenedStore {
    pub(crate) store: Store,
    /// The standby behind the store, when the journal is in a database.
    standby: Option<Standby>,
}

impl OpenedStore {
    /// Opens the store. Blocks; must be called within a tokio runtime.
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
