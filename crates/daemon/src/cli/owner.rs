//! Root at work in the state of a service: commands that open it are carried out as the user whose it is, so that no file
//! is left that the service cannot read, and nothing in there has root do anything.

mod way;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::failure::Failure;
use super::store::StoreCommand;
use super::{Command, Global, Known};
use crate::config::{Config, ProcessEnvironment, state_dir};

/// User and group whose the state is.
#[derive(Debug, Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Those of a folder that is not root's.
    fn of(dir: &Path) -> Option<Self> {
        let found = std::fs::metadata(dir).ok()?;
        (found.uid() != 0).then(|| Self { uid: found.uid(), gid: found.gid() })
    }
}

/// Goes on as the owner of the state, where root gives the command and the state is another's. To be called before there is
/// any other thread: on Linux each has a user of its own.
///
/// The configuration is read before that: what root may read and the owner may not (keys, a file in root's home) is meant all
/// the same.
///
/// # Errors
/// The system refuses, or the owner cannot get to the state.
pub(super) fn become_owner(command: &Command, global: &mut Global) -> Result<(), Failure> {
    if !opens_the_state(command) || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // Where there is none, the command says so.
    let Ok(mut state) = state_dir(global.state.as_deref(), &ProcessEnvironment) else { return Ok(()) };
    let Some(owner) = Owner::of(&state.path) else { return Ok(()) };
    let loaded = Config::load(global.config.as_deref(), &ProcessEnvironment).map(Arc::new);
    state.path = way::open(&state.path, owner)?;
    global.known = Some(Known { loaded, state });
    step_down(owner).map_err(|error| {
        Failure::failed(
            format!("cannot go on as the owner of the state (user {}): {error}", owner.uid),
            "run it as that user; as root it would leave files that the service cannot read",
        )
    })
}

/// For good: real, effective and saved ids are the owner's, other groups and all capabilities are gone.
fn step_down(owner: Owner) -> std::io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(std::io::Error::other("other threads run already"));
    }
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Commands at work in the state. `store restore` reads what may be root's alone, and hands over what it writes; `doctor` writes nothing.
pub(super) fn opens_the_state(command: &Command) -> bool {
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
