//! A home of its own for each test: state, config and working directory; and the real binary run in it.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::Daemon;

#[derive(Debug)]
pub struct Home {
    dir: TempDir,
    cairn: PathBuf,
}

#[derive(Debug)]
pub struct Run {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("what it says is UTF-8");
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Run {
    /// Its output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended with that code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// It ended with that code, an error with these words, and a hint.
    #[track_caller]
    pub fn told(self, code: i32, words: &[&str]) -> Self {
        assert!(self.stderr.contains("error: ") && self.stderr.contains("hint: "), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` in: {self:?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self.ended(code)
    }
}

/// Writes a file that only its owner may read, as those of keys and tokens.
pub fn write_secret(path: &Path, content: &str) -> io::Result<()> {
    std::fs::write(path, content)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
}

impl Home {
    /// An empty home, for that binary.
    pub fn of(cairn: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder can be made");
        Self { dir, cairn: PathBuf::from(cairn) }
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.cairn
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// A file of that content.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap_or_else(|error| panic!("cannot write {name}: {error}"));
        path
    }

    /// A config file, which is found in the working directory.
    pub fn config(&self, text: &str) -> PathBuf {
        self.file("config.toml", text)
    }

    /// A file of [`write_secret`].
    pub fn secret(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        write_secret(&path, content).unwrap_or_else(|error| panic!("cannot write {name}: {error}"));
        path
    }

    /// The log of the daemon that runs here, or ran last.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("daemon.log")).expect("a daemon ran here")
    }

    /// The binary, in this home, with nothing to read.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.cairn);
        command.args(args).env_clear().env("CAIRN_STATE", self.state()).env("HOME", self.dir.path());
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Runs the binary.
    pub fn cairn(&self, args: &[&str]) -> Run {
        self.command(args).output().expect("the binary can be started").into()
    }

    /// What a command that succeeds prints as JSON; `--json` is added.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        self.cairn(&[args, &["--json"]].concat()).ended(0).json()
    }

    /// What `cairn status --json` prints, whether or not a daemon runs.
    #[track_caller]
    pub fn status(&self) -> Value {
        let run = self.cairn(&["status", "--json"]);
        let status = run.json();
        run.ended(i32::from(status["running"] != true));
        status
    }

    /// Runs the binary with that input.
    pub fn cairn_with(&self, args: &[&str], input: &[u8]) -> Run {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be started");
        let stdin = child.stdin.take();
        let input = input.to_vec();
        // A command that does not read its input closes it; that is no fault of the test.
        let writer = std::thread::spawn(move || drop(stdin.map(|mut stdin| stdin.write_all(&input))));
        let output = child.wait_with_output().expect("the binary ends");
        writer.join().expect("its input is written");
        output.into()
    }

    /// Starts `cairn run` here.
    pub async fn daemon(&self, config: Option<&Path>) -> Daemon {
        let started = Daemon::start(&self.cairn, &self.state(), config).await;
        started.unwrap_or_else(|error| panic!("{error}"))
    }
}
