//! A bound on what the system's allocator keeps.
//!
//! glibc gives every thread that allocates an arena of its own, up to eight for each core, and hands little of them
//! back: with a thousand channels that doubled the daemon's memory. The bound can only be set in the environment that
//! a process begins with, so the daemon begins once more with it. Other allocators pass the variable over.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::config::Environment;

/// The variable that glibc reads at the start of a process.
const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// Arenas of a daemon, unless its environment says otherwise.
const ARENAS: &str = "2";

/// Begins the process anew, under the same id, with a bound on its arenas, unless there is one already. Returns only
/// when that is so, or with the reason why it could not be done, which is no reason not to go on.
pub fn bound(env: &dyn Environment) -> Option<std::io::Error> {
    if env.var(VARIABLE).is_some() {
        return None;
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Some(error),
    };
    let mut args = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    Some(command.args(args).env(VARIABLE, ARENAS).exec())
}
