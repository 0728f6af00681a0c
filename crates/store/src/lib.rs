//! Durability: the journal, which is the truth, and what derives from it: sled views and the search index.
//!
//! [`Store`] implements the port [`Store`](cairn_core::ports::Store). An append is durable when it returns; the views follow
//! behind it on a thread of their own, and every read waits until they show all that was durable when it was asked.

mod artifacts;
mod backup;
mod calls;
mod clean;
mod disk;
mod erasure;
mod format;
mod index;
mod journal;
mod lock;
mod options;
mod ports;
mod recall;
mod retain;
mod store;
#[cfg(test)]
mod tests;
mod verify;
mod views;

pub use backup::swap::is_begun;
pub use backup::{BackupError, BackupReport, RestoreReport, restore_dir};
pub use erasure::{erase_dir, erasures_dir};
pub use options::StoreOptions;
pub use retain::{Expired, Needs, Shrunk};
pub use store::{Store, StoreStats, Stuck, StuckPart, check_free};
pub use verify::{JournalReport, VerifyReport, ViewsReport, rebuild_dir, verify_dir};
