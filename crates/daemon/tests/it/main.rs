//! The real binary from outside: what users, scripts and chats rely on.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod artifacts;
mod bridges;
mod browser;
mod chats;
mod compaction;
mod discord;
mod e2e;
mod faults;
mod forget;
mod nodes;
mod openai;
mod page;
mod service;
mod sight;
mod soak;
mod structure;
mod telegram;
mod tools;

use std::path::Path;

use cairn_testkit::home::Home;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

/// An empty home of the binary.
fn home() -> Home {
    Home::of(CAIRN)
}

/// An empty home of the binary with the testkit's tools, one of which panics; `cargo test` builds it beside the tests.
fn home_with_tools() -> Home {
    let built = Path::new(CAIRN).with_file_name("examples").join("cairn-with-tools");
    assert!(built.exists(), "build it: cargo build --workspace --examples");
    Home::of(built.to_str().unwrap())
}
