//! The daemon behind the binary `cairn`: configuration, command line, admin API, wiring.

pub mod adapters;
pub mod admin;
mod bar;
pub mod cli;
pub mod clock;
pub mod config;
pub mod desk;
pub mod keeper;
pub mod life;
pub mod meters;
mod models;
pub mod networks;
pub mod records;
pub mod registry;
pub mod reload;
pub mod roster;
pub mod service;
pub mod socket;
pub mod systemd;
pub mod telemetry;
mod text;
pub mod toolshed;
pub mod wiring;
