//! How a child begins within its limits: the daemon's own binary sets them for itself, then becomes the server. So they hold
//! from the server's first moment, and for all that it starts.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};

/// The first argument by which the binary is told so; then come the limits (see [`become_server`]), the program and its
/// arguments.
pub const LAUNCH: &str = "mcp-child";

/// Sets the limits for this process and becomes the server: `args` are the most memory for its data in bytes and the most open
/// files, 0 for no limit, then the program and its arguments. Returns only when that fails, with the reason in words.
pub fn become_server(mut args: impl Iterator<Item = OsString>) -> String {
    let mut number = || args.next().and_then(|arg| arg.to_str()?.parse::<u64>().ok());
    let (Some(memory), Some(files)) = (number(), number()) else {
        return format!(
            "`{LAUNCH}` is for the daemon alone: it takes two limits, a program and its arguments"
        );
    };
    let Some(program) = args.next() else { return format!("`{LAUNCH}` takes a program") };
    for (resource, value, wanted) in [
        (Resource::Data, memory, memory > 0),
        (Resource::Nofile, files, files > 0),
        (Resource::Core, 0, true),
    ] {
        // No more than the daemon itself may have.
        let value = getrlimit(resource).maximum.map_or(value, |most| value.min(most));
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        if wanted && let Err(error) = setrlimit(resource, limit) {
            eprintln!("cairn: the server runs without the limit {resource:?}: {error}");
        }
    }
    // A daemon that is killed takes it along.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("cairn: the server may outlive the daemon: {error}");
    }
    let error = Command::new(&program).args(args).exec();
    format!("`{}` cannot be run: {error}", program.display())
}
