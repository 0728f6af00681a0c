//! The daemon behind the binary `cairn`: configuration, command line, admin API, wiring.

pub mod adapters;
pub mod admin;
pub mod agent_registry;
pub mod background;
mod bar;
pub mod chat_commands;
pub mod cli;
mod forward;
mod http_server;
pub mod meters;
mod models;
pub mod networks;
mod node;
mod page;
pub mod pairing_store;
pub mod records;
pub mod reload;
pub mod restart_handle;
pub mod retention_job;
pub mod service;
pub mod socket;
pub mod systemd;
pub mod telemetry;
mod text;
pub mod tool_registry;
mod webhooks;
pub mod wiring;
