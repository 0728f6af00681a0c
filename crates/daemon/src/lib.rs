//! The binary `cairn`: what puts the parts together, a node that stands by, and the commands about this machine.

mod changing;
pub mod commands;
mod inside;
mod service;
mod standby;
pub mod wiring;
