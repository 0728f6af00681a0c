//! A server that is a child process: how it is started, held within limits, and ended.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use super::launch::LAUNCH;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, prlimit};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Time to end by itself, once its input is closed; the same again after it was asked to by a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes.
const MIB: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct Launch<'s> {
    pub server: &'s str,
    /// The program, by path or by name.
    pub command: &'s str,
    pub args: &'s [String],
    pub env: &'s BTreeMap<String, SecretString>,
    pub cwd: &'s Path,
    /// Most memory for its data, in MiB; 0: no limit.
    pub memory_mib: u64,
    /// Most open files; 0: no limit.
    pub open_files: u64,
    pub path: Option<&'s OsStr>,
    /// The binary that sets the limits and then becomes the server; without it they are set just after the start.
    pub launcher: Option<&'s Path>,
}

pub(super) struct Streams {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// A child, in a process group of its own. Dropped, it is killed.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    server: String,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// Why it does not start, and what to look at.
    pub(super) async fn start(launch: Launch<'_>) -> Result<(Self, Streams), String> {
        make_folder(launch.cwd).await?;
        let program = find(launch.command, launch.path)?;
        let mut command = match launch.launcher {
            Some(launcher) => {
                let mut command = Command::new(launcher);
                let memory = launch.memory_mib.saturating_mul(MIB);
                command.arg(LAUNCH).arg(memory.to_string()).arg(launch.open_files.to_string()).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        command
            .args(launch.args)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value.expose_secret())))
            .current_dir(launch.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|error| format!("`{}` cannot be run: {error}", program.display()))?;
        let group = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = group.filter(|_| launch.launcher.is_none()) {
            hold(pid, &launch);
        }
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Self { child, group, server: launch.server.to_owned() };
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err("it has no pipes".to_owned());
        };
        Ok((process, Streams { stdin, stdout, stderr }))
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => in_words(status),
            Err(error) => format!("its end is not known: {error}"),
        }
    }

    /// Ends it and all that it started. Its input has to be closed by now; what does not end by that is told to, then killed.
    pub(super) async fn end(mut self) {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                tracing::info!(server = self.server, ?signal, "a server does not end; it is sent a signal");
                self.signal(signal);
            }
            if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_ok() {
                break;
            }
        }
        // What it left behind in its group goes with it.
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let Some(group) = self.group else { return };
        match kill_process_group(group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                tracing::warn!(server = self.server, ?signal, %error, "a server cannot be sent a signal");
            }
        }
    }
}

fn in_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

/// Sets the limits of a process that has just been started: its first moments are without them. Where the system does not
/// let us, it runs without.
fn hold(pid: Pid, launch: &Launch<'_>) {
    let memory = launch.memory_mib.saturating_mul(MIB);
    let limits = [
        (Resource::Data, memory, memory > 0),
        (Resource::Nofile, launch.open_files, launch.open_files > 0),
        (Resource::Core, 0, true),
    ];
    for (resource, value, wanted) in limits {
        // No more than the daemon itself may have.
        let value = getrlimit(resource).maximum.map_or(value, |most| value.min(most));
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        if wanted && let Err(error) = prlimit(Some(pid), resource, limit) {
            tracing::warn!(server = launch.server, ?resource, value, %error, "a server runs without this limit");
        }
    }
}

/// Makes the working folder, for its owner alone, when it is not there.
async fn make_folder(folder: &Path) -> Result<(), String> {
    if tokio::fs::metadata(folder).await.is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let mut builder = tokio::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let made = builder.create(folder).await;
    made.map_err(|error| format!("its working folder {} cannot be made: {error}", folder.display()))
}

/// The program: as it is when it names a path, otherwise the first of that name in the folders of `path`.
///
/// # Errors
/// There is none; in words that say what to do.
pub fn find(command: &str, path: Option<&OsStr>) -> Result<PathBuf, String> {
    if command.contains('/') {
        let program = PathBuf::from(command);
        return match program.metadata() {
            Err(error) if program.is_absolute() => Err(format!("`{command}` cannot be run: {error}")),
            _ => Ok(program),
        };
    }
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let candidates = folders.iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join(command));
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    candidates.into_iter().find(runs).ok_or_else(|| {
        format!(
            "there is no program `{command}` in the daemon's PATH; name it by its whole path in `command`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_in_the_path_and_a_path_is_taken_as_it_is() {
        let found = find("sh", Some(OsStr::new("/nonexistent:relative:/bin"))).unwrap();
        assert_eq!(found, Path::new("/bin/sh"));
        assert_eq!(find("./sh", None).unwrap(), Path::new("./sh"));
        for path in [None, Some(OsStr::new("")), Some(OsStr::new("/nonexistent"))] {
            assert!(find("sh", path).unwrap_err().contains("whole path"), "{path:?}");
        }
        assert!(find("passwd", Some(OsStr::new("/etc"))).is_err(), "a file that cannot be run");
    }
}
