//! The views: sled rows that are looked up by key, derived from the journal.

mod applier;
mod apply;
pub(crate) mod archive;
mod blocks;
mod changed;
pub(crate) mod changes;
pub(crate) mod codec;
pub(crate) mod db;
pub(crate) mod history;
pub(crate) mod lists;
pub(crate) mod memories;
mod messages;
pub(crate) mod opening;
pub(crate) mod registry_view;
mod reminders;
pub(crate) mod rows;
mod shared;
mod shrink;
pub(crate) mod topic;
pub(crate) mod trail;
pub(crate) mod vectors;

pub(crate) use applier::{Applier, JournalRows};
#[cfg(test)]
pub(crate) use applier::{STILL_READ, apply_next};
pub(crate) use changed::{Changed, ChangedMemory};
pub(crate) use rows::Meta;
pub(crate) use shared::{Applied, Command, KeptSnapshot, KeptVectors, PATIENCE, Views};
