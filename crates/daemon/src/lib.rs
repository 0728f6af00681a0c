//! The daemon behind the binary `cairn`: configuration, command line, admin API, wiring.

pub mod config;
