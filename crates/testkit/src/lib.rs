//! Fakes and builders for tests. Never part of the daemon.

use std::net::{SocketAddr, TcpListener};

pub mod clock;
pub mod daemon;
pub mod discord;
pub mod disk;
pub mod gate;
pub mod home;
pub mod mcp;
pub mod model;
pub mod postgres;
pub mod proxy;
pub mod random;
pub mod rig;
pub mod runtime;
pub mod systemd;
pub mod telegram;
pub mod terminal;
pub mod tools;
pub mod watched;

/// An address of this machine that was free just now; nobody listens there.
pub fn free_address() -> SocketAddr {
    let taken = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    taken.expect("a port is free")
}
