//! The state folder and its files: durable writes, the lock, the format marker, artifacts. Nothing here imports anything else
//! of this crate.

pub(crate) mod artifacts;
pub(crate) mod disk;
pub(crate) mod format;
pub(crate) mod lock;
pub(crate) mod progress;
