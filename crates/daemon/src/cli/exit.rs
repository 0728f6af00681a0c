//! Exit codes; a promise to scripts.

/// Done.
pub const DONE: u8 = 0;
/// Failed.
pub const FAILED: u8 = 1;
/// Wrong usage or configuration.
pub const USAGE: u8 = 2;
/// The state is in use by another daemon.
pub const IN_USE: u8 = 3;
/// No such channel, memory, range, code, person, delivery, artifact, server, tool or request.
pub const NOT_FOUND: u8 = 4;
/// The store is damaged.
pub const DAMAGED: u8 = 5;
/// Something in the daemon hung, mostly because the disk does not answer: it is to be started again.
pub const HUNG: u8 = 6;
