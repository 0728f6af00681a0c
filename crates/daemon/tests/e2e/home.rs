//! A home of its own for each test: state, config and working directory; and the binary run in it.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cairn_testkit::daemon::Daemon;
use serde_json::Value;

/// The binary under test.
pub(crate) const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

/// A user whom nobody knows.
const STRANGER: u32 = 12_345;

/// Where a test lives.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Its output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended with that code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// The state folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// A file of that content.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A config file that is found in the working directory.
    pub(crate) fn config(&self, text: &str) -> PathBuf {
        self.file("config.toml", text)
    }

    /// Runs the binary.
    pub(crate) fn cairn(&self, args: &[&str]) -> Run {
        self.cairn_with(args, b"")
    }

    /// Runs the binary with that input.
    pub(crate) fn cairn_with(&self, args: &[&str], input: &[u8]) -> Run {
        let mut child = Command::new(CAIRN)
            .args(args)
            .env_clear()
            .env("CAIRN_STATE", self.state())
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A command that does not read its input closes it; that is no fault of the test.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the binary as somebody else, who may enter this home. None where only root could, or where the binary lies
    /// closed to others.
    pub(crate) fn cairn_of_a_stranger(&self, args: &[&str]) -> Option<Run> {
        std::fs::set_permissions(self.dir.path(), Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(CAIRN)
            .args(args)
            .env_clear()
            .env("CAIRN_STATE", self.state())
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .uid(STRANGER)
            .gid(STRANGER)
            .output();
        let output = match output {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
            output => output.unwrap(),
        };
        Some(Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        })
    }

    /// Starts `cairn run` here.
    pub(crate) async fn daemon(&self, config: Option<&Path>) -> Daemon {
        Daemon::start(Path::new(CAIRN), &self.state(), config).await.unwrap()
    }
}

/// A configuration with one model, at that address.
pub(crate) fn one_model(base_url: &str) -> String {
    format!(
        "[[models]]\nid = \"fake\"\nprovider = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"fake\"\n\
         context_window = 32000\nmax_output_tokens = 1024\n\n[[agents]]\nid = \"main\"\nmodels = [\"fake\"]\n"
    )
}
