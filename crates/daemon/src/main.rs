//! The binary `cairn`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cairn_daemon::commands::main(std::env::args_os())
}
