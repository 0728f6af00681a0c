//! The fake Discord's own rules, asked over the wire.

mod client;
mod gateway;
mod interactions;
mod rest;

use super::*;
use client::{Rest, Socket};
use serde_json::json;
