//! The demo's home: a temporary folder with a configuration and a state, and a daemon that runs in it as a process of its own.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::client::Client;
use crate::failure::Failure;

/// How long a start or a stop may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a daemon that starts is asked whether it answers.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// Lines of the daemon's log that are shown when it does not start.
const LOG_LINES: usize = 5;

pub(super) struct Home {
    dir: TempDir,
    daemon: Option<Child>,
}

impl Home {
    /// A new folder, with that configuration.
    pub(super) fn new(config: &str) -> Result<Self, Failure> {
        let dir =
            tempfile::Builder::new().prefix("cairn-demo-").tempdir().map_err(|error| no_home(&error))?;
        std::fs::write(dir.path().join("config.toml"), config).map_err(|error| no_home(&error))?;
        Ok(Self { dir, daemon: None })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn config(&self) -> PathBuf {
        self.path().join("config.toml")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    pub(super) fn client(&self) -> Client {
        Client::Socket(self.state().join("cairn.sock"))
    }

    /// Starts `cairn run` and waits until it answers: its process, and how long that took.
    pub(super) async fn start(&mut self) -> Result<(u32, Duration), Failure> {
        let began = Instant::now();
        let cairn = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this program: {error}"), ""))?;
        let log = std::fs::File::create(self.log()).map_err(|error| no_home(&error))?;
        let mut command = Command::new(cairn);
        command.arg("run").arg("--config").arg(self.config()).arg("--state").arg(self.state());
        // Nothing of the visitor's own configuration, keys or service reaches it, and Ctrl-C reaches the demo alone.
        command.env_clear().env("HOME", self.path()).current_dir(self.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let child = command.spawn();
        let child =
            child.map_err(|error| Failure::failed(format!("cannot start the daemon: {error}"), ""))?;
        let pid = child.id().unwrap_or_default();
        self.daemon = Some(child);
        tokio::time::timeout(PATIENCE, self.ready())
            .await
            .unwrap_or_else(|_late| Err(self.not_started("it did not answer")))?;
        Ok((pid, began.elapsed()))
    }

    async fn ready(&mut self) -> Result<(), Failure> {
        let client = self.client();
        loop {
            if let Ok(health) = client.get::<serde_json::Value>("/v1/health").await
                && health["status"] == "ok"
            {
                return Ok(());
            }
            if let Some(Ok(Some(status))) = self.daemon.as_mut().map(Child::try_wait) {
                return Err(self.not_started(&format!("it ended: {status}")));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Kills the daemon as `kill -9` does: its process, and how it ended.
    pub(super) async fn kill(&mut self) -> Result<(u32, ExitStatus), Failure> {
        let Some(mut daemon) = self.daemon.take() else {
            return Err(Failure::failed("the demo's daemon is not running", ""));
        };
        let pid = daemon.id().unwrap_or_default();
        let ended = async {
            daemon.start_kill()?;
            Ok::<_, std::io::Error>((pid, daemon.wait().await?))
        };
        ended.await.map_err(|error| Failure::failed(format!("cannot kill the daemon: {error}"), ""))
    }

    /// Ends what runs, and removes the folder unless it is to be kept.
    pub(super) async fn close(mut self, keep: bool) -> Result<(), Failure> {
        if let Some(mut daemon) = self.daemon.take() {
            let pid = daemon.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
            // It may have ended by itself; what is left of it is killed when it is dropped.
            let _asked = pid.map(|pid| kill_process(pid, Signal::TERM));
            let _ended = tokio::time::timeout(PATIENCE, daemon.wait()).await;
        }
        if keep {
            let _kept = self.dir.keep();
            return Ok(());
        }
        let path = self.path().to_owned();
        self.dir.close().map_err(|error| {
            Failure::failed(format!("cannot remove {}: {error}", path.display()), "remove it yourself")
        })
    }

    fn log(&self) -> PathBuf {
        self.path().join("daemon.log")
    }

    fn not_started(&self, why: &str) -> Failure {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        Failure::failed(
            format!("the demo's daemon did not start: {why}\n{last}"),
            "name another folder by TMPDIR",
        )
    }
}

fn no_home(error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot make a temporary folder: {error}"), "set TMPDIR to another folder")
}

/// How a process ended, in words.
pub(super) fn end_of(status: ExitStatus) -> String {
    match status.signal() {
        Some(9) => "killed by SIGKILL".to_owned(),
        Some(signal) => format!("killed by signal {signal}"),
        None => status.to_string(),
    }
}
