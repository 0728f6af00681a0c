//! Runs a server as a child process: start, limits, standard error and end.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, set_parent_process_death_signal, setrlimit,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// The first argument with which the daemon's binary becomes a server. The limits (see [`become_server`]), the program
/// and its arguments follow.
pub const LAUNCH: &str = "mcp-child";

/// Time to end after the input was closed, and again after the signal to terminate.
const END_WAIT: Duration = Duration::from_secs(2);

const MIB: u64 = 1024 * 1024;

/// Kept of standard error: the number of lines, the characters per line, and the bytes read per line, which leave room
/// for multi-byte characters and secrets.
const LINES_MAX: usize = 20;
const LINE_CHARS_MAX: usize = 500;
const LINE_BYTES_MAX: usize = 4 * LINE_CHARS_MAX;

/// Shorter secrets are not removed from texts.
const SECRET_MIN: usize = 6;

#[derive(Debug, Clone, Copy)]
pub(super) struct Launch<'s> {
    /// The program, as a path or a name.
    pub command: &'s str,
    pub args: &'s [String],
    pub env: &'s BTreeMap<String, SecretString>,
    pub cwd: &'s Path,
    /// Memory limit for its data, in MiB; 0: none.
    pub memory_mib: u64,
    /// Limit of open files; 0: none.
    pub open_files: u64,
    pub path: Option<&'s OsStr>,
    /// The binary that sets the limits and then becomes the server; `None`: no limits.
    pub launcher: Option<&'s Path>,
}

/// A child in its own process group. It is killed when dropped.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    server: String,
}

impl Process {
    /// Starts the server.
    ///
    /// # Errors
    /// The reason as text, with advice.
    pub(super) async fn start(
        server: &str,
        launch: Launch<'_>,
    ) -> Result<(Self, ChildStdin, ChildStdout, ChildStderr), String> {
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
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Self { child, group, server: server.to_owned() };
        match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((process, stdin, stdout, stderr)),
            _ => Err("it has no pipes".to_owned()),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the child to end, and describes how it ended.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("it ended with exit code {code}"),
                (None, Some(signal)) => format!("it was ended by signal {signal}"),
                (None, None) => "it ended".to_owned(),
            },
            Err(error) => format!("its end is not known: {error}"),
        }
    }

    /// Ends the child and its process group. Its input must be closed already; if it does not end, it is terminated,
    /// then killed.
    pub(super) async fn end(mut self) {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                tracing::info!(
                    server = self.server,
                    ?signal,
                    "a tool server does not exit; sending it a signal"
                );
                self.signal(signal);
            }
            if tokio::time::timeout(END_WAIT, self.child.wait()).await.is_ok() {
                break;
            }
        }
        // Kills whatever is left in its process group.
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let Some(group) = self.group else { return };
        match kill_process_group(group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                tracing::warn!(server = self.server, ?signal, %error, "cannot send a signal to a tool server");
            }
        }
    }
}

/// Sets the limits and replaces this process by the server, so that they hold for the server and all its children.
/// `args`: the memory limit in bytes, the limit of open files (0: none), the program and its arguments. Returns only on
/// failure, with the reason.
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
        // A limit cannot exceed the daemon's own.
        let value = getrlimit(resource).maximum.map_or(value, |most| value.min(most));
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        if wanted && let Err(error) = setrlimit(resource, limit) {
            eprintln!("cairn: the server runs without the limit {resource:?}: {error}");
        }
    }
    // The child is killed if the daemon dies.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("cairn: the server may outlive the daemon: {error}");
    }
    let error = std::process::Command::new(&program).args(args).exec();
    format!("`{}` cannot be run: {error}", program.display())
}

/// Creates the working folder, accessible only to its owner.
async fn make_folder(folder: &Path) -> Result<(), String> {
    if tokio::fs::metadata(folder).await.is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let mut builder = tokio::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let made = builder.create(folder).await;
    made.map_err(|error| format!("its working folder {} cannot be made: {error}", folder.display()))
}

/// Finds a program: a path is used as it is, a name is searched in the folders of `path`.
///
/// # Errors
/// It was not found; the text says what to do.
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

/// A server's secrets, which are removed from everything it says.
#[derive(Debug, Clone, Default)]
pub(super) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// Short values such as `true` are not treated as secrets.
    pub(super) fn of(values: &[SecretString]) -> Self {
        let long = values.iter().filter(|value| value.expose_secret().len() >= SECRET_MIN);
        Self(long.cloned().collect())
    }

    /// Replaces the secrets.
    pub(super) fn hide(&self, text: &mut String) {
        for secret in &self.0 {
            let bare = secret.expose_secret();
            let bare = bare.strip_prefix("Bearer ").unwrap_or(bare);
            if bare.len() >= SECRET_MIN && text.contains(bare) {
                *text = text.replace(bare, "***");
            }
        }
    }

    /// Replaces the secrets, cuts to `max` characters, and escapes control characters, including line breaks.
    pub(super) fn strike(&self, text: &str, max: usize) -> String {
        let mut text = text.to_owned();
        self.hide(&mut text);
        let mut out = String::new();
        for c in text.chars().take(max) {
            if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
        }
        out
    }
}

/// The last lines that a server's children wrote to standard error. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    /// All kept lines, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    /// The newest line.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().back().cloned()
    }

    /// Drops the lines of the previous child.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    fn keep(&self, line: String) {
        let mut lines = self.0.lock();
        lines.push_back(line);
        if lines.len() > LINES_MAX {
            lines.pop_front();
        }
    }

    /// Reads standard error to its end. Only a limited part of a line is kept in memory.
    pub(super) async fn read<R: AsyncRead + Unpin>(self, stderr: R, server: String, secrets: Secrets) {
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        loop {
            let chunk = reader.fill_buf().await.unwrap_or_default();
            if chunk.is_empty() {
                break;
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = LINE_BYTES_MAX.saturating_sub(line.len()).min(part.len());
            line.extend_from_slice(&part[..room]);
            let used = part.len() + usize::from(end.is_some());
            reader.consume(used);
            if end.is_some() {
                self.finish(&mut line, &server, &secrets);
            }
        }
        self.finish(&mut line, &server, &secrets);
    }

    fn finish(&self, line: &mut Vec<u8>, server: &str, secrets: &Secrets) {
        let words = secrets.strike(String::from_utf8_lossy(line.trim_ascii_end()).as_ref(), LINE_CHARS_MAX);
        line.clear();
        if words.is_empty() {
            return;
        }
        tracing::debug!(server, line = words, "a server's standard error");
        self.keep(words);
    }
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

    async fn read(bytes: Vec<u8>) -> Vec<String> {
        let secrets = [SecretString::from("s3cret-value")];
        let kept = LastLines::default();
        kept.clone().read(bytes.as_slice(), "files".to_owned(), Secrets::of(&secrets)).await;
        kept.lines()
    }

    #[tokio::test]
    async fn the_last_lines_are_kept_short_and_without_secrets_or_control_characters() {
        let many: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let lines = read(many.into_bytes()).await;
        assert_eq!((lines.len(), lines[0].as_str(), lines[19].as_str()), (20, "line 10", "line 29"));

        let lines = read(b"\x1b[31mred s3cret-value\r\n\n".to_vec()).await;
        assert_eq!(lines, ["\\u{1b}[31mred ***"]);

        let lines = read(vec![b'x'; 1_000_000]).await;
        assert_eq!(lines, ["x".repeat(500)]);
    }
}
