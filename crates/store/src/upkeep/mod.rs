//! Work over the whole state: backup, restore, checks, repair, retention, erasure.

pub(crate) mod background_check;
pub(crate) mod backup;
pub(crate) mod erasure;
pub(crate) mod retain;
pub(crate) mod verify;
