//! The command line of a daemon: the commands that ask it, how they reach it, and how they print what it answers.
//!
//! The binary hands in what opens a state where no daemon runs: see [`inside`].

pub mod args;
pub mod client;
pub mod commands;
pub mod connect;
pub mod draw;
pub mod failure;
pub mod inside;
pub mod jsonl;
pub mod log;
pub mod out;
pub mod owner;
pub mod pages;
pub mod paint;
