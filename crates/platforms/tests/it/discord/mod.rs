//! The Discord adapter against a fake Discord, over loopback sockets.

mod approvals;
mod backfill;
mod commands;
mod gateway;
mod incoming;
mod runtime;
mod sending;
