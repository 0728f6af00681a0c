//! Fakes and builders for tests. Never part of the daemon.

use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

pub mod clock;
pub mod daemon;
pub mod discord;
pub mod disk;
pub mod documents;
pub mod gate;
pub mod home;
pub mod mcp;
pub mod model;
pub mod multipart;
pub mod postgres;
pub mod proxy;
pub mod random;
pub mod ranking;
pub mod rig;
pub mod runtime;
pub mod search;
pub mod speech;
pub mod systemd;
pub mod telegram;
pub mod terminal;
pub mod tools;
pub mod watched;

/// Below the ports that the system itself gives to connections, so nobody else takes one of these by chance.
const PORTS: Range<u16> = 20_000..32_000;

/// Has no factor in common with the number of ports, and puts processes with neighbouring ids far apart.
const STRIDE: u64 = 7_417;

/// An address of this machine that was free just now; nobody listens there. Each call tries other ports.
///
/// # Panics
/// All ports are taken.
pub fn free_address() -> SocketAddr {
    static TRIED: AtomicU64 = AtomicU64::new(0);
    let first = u64::from(std::process::id()) * STRIDE;
    let mut addresses = PORTS.map(|_| {
        let n = (first + TRIED.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u64;
        SocketAddr::from(([127, 0, 0, 1], PORTS.start + n as u16))
    });
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a port is free")
}

/// A fake by hand: serves with the arguments of this process. What is wrong is told with the help.
pub fn program(help: &str, serve: impl AsyncFnOnce(&[String]) -> Result<(), String>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{help}");
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string());
    let served = runtime.and_then(|runtime| {
        let served = runtime.block_on(serve(&arguments));
        // A read of the keyboard cannot be stopped.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}\n\n{help}");
            ExitCode::from(2)
        }
    }
}
