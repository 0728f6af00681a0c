//! The store as the daemon uses it, on real files.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod amended;
mod appends;
mod archive;
mod artifacts;
mod backup;
mod canary;
mod checks;
mod common;
mod database;
mod formats;
mod journal;
mod lists;
mod lost;
mod memories;
mod past;
mod reminders;
mod retain;
mod search;
mod vectors;
mod views;
mod watched;
mod words;
