//! A daemon under a fake systemd, with a fake model, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::gate::Gate;
use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::systemd::Systemd;
use hyper::StatusCode;
use serde_json::Value;
use tokio::task::JoinHandle;

pub(crate) const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) model: FakeModel,
    pub(crate) systemd: Systemd,
    pub(crate) daemon: Daemon,
}

fn model_keys(id: &str, base_url: &str) -> String {
    format!(
        "[[models]]\nid = \"{id}\"\nbase_url = \"{base_url}\"\nmodel = \"{id}\"\ncontext_window = 32000\n\
         max_output_tokens = 1024\n\n"
    )
}

/// A configuration: `top` before all tables, `agent` in the agent's, `more` after it.
pub(crate) fn config(model: &FakeModel, top: &str, agent: &str, more: &str) -> String {
    let (first, second) = (model_keys("first", &model.base_url()), model_keys("second", &model.base_url()));
    format!("{top}\n{first}{second}[[agents]]\nid = \"main\"\nmodels = [\"first\"]\n{agent}\n{more}\n")
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with("", &[]).await
    }

    /// With keys before all tables, and variables.
    pub(crate) async fn with(top: &str, vars: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let model = FakeModel::builder().expect_stable_prefix(false).start().await;
        let file = dir.path().join("config.toml");
        std::fs::write(&file, config(&model, top, "", "")).unwrap();
        let state = dir.path().join("state");
        let systemd = Systemd::of(&state).unwrap();
        let started = Daemon::start_under(&systemd, vars, Path::new(CAIRN), &state, Some(&file)).await;
        Self { dir, model, systemd, daemon: started.unwrap() }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path("config.toml")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub(crate) fn client(&self) -> Client {
        self.daemon.client()
    }

    /// Writes the configuration again, as an editor does: beside it, then renamed.
    pub(crate) fn write(&self, text: &str) {
        let beside = self.path("config.toml.new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, self.file()).unwrap();
    }

    pub(crate) fn configure(&self, top: &str, agent: &str, more: &str) {
        self.write(&config(&self.model, top, agent, more));
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("daemon.log")).unwrap()
    }

    /// Runs a command beside the daemon: exit code, stdout, stderr.
    pub(crate) async fn cairn(&self, args: &[&str]) -> (i32, String, String) {
        cairn_on(self.dir.path(), args).await
    }

    pub(crate) async fn context(&self) -> Value {
        self.client().get("/v1/channels/main/context").await.unwrap()
    }

    /// Waits until the context of `main` fits.
    pub(crate) async fn until(&self, fits: impl Fn(&Value) -> bool) {
        let found = self.client().until("/v1/channels/main/context", fits).await;
        found.unwrap_or_else(|error| panic!("{error}\n{}", self.log()));
    }

    /// A turn whose model waits at the gate; what becomes of it, when the gate is open.
    pub(crate) async fn open_turn(&self, text: &'static str) -> (Gate, JoinHandle<(StatusCode, Value)>) {
        let gate = self.model.hold(Kind::Reply);
        let client = self.client();
        let open = tokio::spawn(async move { client.say("main", text).await.unwrap() });
        self.model.wait_for(Kind::Reply, 1).await;
        (gate, open)
    }

    /// Says something; the answer of the daemon.
    pub(crate) async fn say(&self, text: &str) -> Value {
        let (status, answer) = self.client().say("main", text).await.unwrap();
        assert_eq!(status, 200, "{answer}\n{}", self.log());
        answer
    }
}

/// Runs a command on the state and config in a folder.
pub(crate) async fn cairn_on(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = tokio::process::Command::new(CAIRN)
        .args(args)
        .env_clear()
        .env("CAIRN_STATE", dir.join("state"))
        .env("CAIRN_CONFIG", dir.join("config.toml"))
        .env("HOME", dir)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}
