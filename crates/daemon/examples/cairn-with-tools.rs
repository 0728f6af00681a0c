//! The daemon with the tools of the testkit, for tests from outside.

use std::process::ExitCode;

use cairn_daemon::wiring::Tools;

fn main() -> ExitCode {
    cairn_daemon::commands::main_with(std::env::args_os(), Tools::new(cairn_testkit::tools::all()))
}
