//! Durability: the journal, which is the truth, and what derives from it: views in sled and the search index.
//!
//! [`Store`] implements the port [`Store`](cairn_core::store_port::Store). An append is durable when it returns; the views follow
//! behind it on a thread of their own, and every read waits until they show all that was durable when it was asked.

mod cluster;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod journal;
mod open;
mod options;
mod past;
mod ports;
mod ranking;
mod store;
#[cfg(test)]
mod tests;
mod upkeep;
mod views;

pub use cluster::{DatabaseReport, LeaseState, Moved, Standby, StandbyStatus, move_from, move_to, report_on};
pub use files::disk::can_start_threads;
pub use files::progress::Progress;
pub use index::search::SearchPlace;
pub use open::check_free;
pub use options::{DatabaseOptions, StoreOptions};
pub use past::matched_words;
pub use ports::Found;
pub use store::{Embedded, Store, StoreStats, Stuck, StuckPart};
pub use upkeep::background_check::keep_checked;
pub use upkeep::backup::restore::{is_there, restore_dir};
pub use upkeep::backup::{BackupError, BackupReport, RestoreReport};
pub use upkeep::erasure::erase_dir;
pub use upkeep::read_only::ReadOnlyState;
pub use upkeep::retain::Needs;
pub use upkeep::verify::{
    JournalReport, VerifyReport, ViewsReport, rebuild_dir, verify_dir, verify_dir_quick,
};
pub use views::history::HistoryPage;
pub use views::lists::{MadeAt, Totals};
pub use views::rows::Speaker;
