//! Work over the whole state: backup, restore, checks, repair, retention, erasure.

pub(crate) mod background_check;
pub(crate) mod backup;
pub(crate) mod erasure;
pub(crate) mod opened;
pub(crate) mod read_only;
pub(crate) mod retain;
pub(crate) mod upgrade;
pub(crate) mod verify;
pub(crate) mod view_state;
