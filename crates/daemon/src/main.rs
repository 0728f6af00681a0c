//! The binary `cairn`.

use std::process::ExitCode;

/// The system's allocator keeps an arena for each thread and gives little of it back: with it, a thousand channels took
/// twice the memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cairn_daemon::cli::main(std::env::args_os())
}
