//! Root at work in the state of a service: commands that may write there are carried out as the user whose it is, so that
//! no file is left that the service cannot read.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process;

use super::failure::Failure;
use super::store::StoreCommand;
use super::{Command, Global};
use crate::config::{ProcessEnvironment, state_dir};

/// Begins the command anew as the owner of the state, where root gives it and the state is another's. Returns only when
/// that is not so.
///
/// # Errors
/// The system refuses.
pub(super) fn become_owner(command: &Command, global: &Global) -> Result<(), Failure> {
    if !opens_the_state(command) || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Some((uid, gid)) = state_dir(global.state.as_deref(), &ProcessEnvironment)
        .ok()
        .and_then(|state| other_owner(&state.path))
    else {
        return Ok(());
    };
    let program = std::env::current_exe().unwrap_or_else(|_| "cairn".into());
    let error = process::Command::new(program).args(std::env::args_os().skip(1)).uid(uid).gid(gid).exec();
    Err(Failure::failed(
        format!("cannot go on as the owner of the state (user {uid}): {error}"),
        "run it as that user; as root it would leave files that the service cannot read",
    ))
}

/// User and group of a folder that is not root's.
fn other_owner(dir: &Path) -> Option<(u32, u32)> {
    let owner = std::fs::metadata(dir).ok()?;
    (owner.uid() != 0).then(|| (owner.uid(), owner.gid()))
}

/// `store restore` reads what may be root's alone, and hands over what it writes; `doctor` writes nothing.
fn opens_the_state(command: &Command) -> bool {
    match command {
        Command::Run(_)
        | Command::Reload(_)
        | Command::Config(_)
        | Command::Doctor(_)
        | Command::Init(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Store(StoreCommand::Restore(_)) => false,
        Command::Chat(_)
        | Command::Replay(_)
        | Command::Status(_)
        | Command::Channels(_)
        | Command::Context(_)
        | Command::History(_)
        | Command::Search(_)
        | Command::Compact(_)
        | Command::Tune(_)
        | Command::New(_)
        | Command::Memory(_)
        | Command::Artifact(_)
        | Command::Mcp(_)
        | Command::Tools(_)
        | Command::Pair(_)
        | Command::ForgetUser(_)
        | Command::Outbox(_)
        | Command::Store(_) => true,
    }
}
