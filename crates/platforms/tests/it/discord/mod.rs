//! The Discord adapter against a fake Discord, over loopback sockets.

mod approvals;
mod commands;
mod gateway;
mod incoming;
mod missed;
mod runtime;
mod sending;
