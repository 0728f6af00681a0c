//! The store of a journal in a database: what it does as every store, what several nodes do with one, and what goes wrong.

mod common;
mod copies;
mod erasure;
mod faults;
mod nodes;

// Each of these shows the same of a journal in the state folder.
#[path = "../appends.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests, of another store")]
mod appends;
#[path = "../archive.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests, of another store")]
mod archive;
#[path = "../lists.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests, of another store")]
mod lists;
#[path = "../memories.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests, of another store")]
mod memories;
#[path = "../past.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests, of another store")]
mod past;
#[path = "../search.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests, of another store")]
mod search;
