//! The binary `cairn`: connects the parts, runs standby nodes, and has the commands about this machine.

mod changing;
pub mod commands;
mod inside;
mod service;
mod standby;
pub mod wiring;
