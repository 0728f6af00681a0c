//! A daemon with a bridge `meadow` and a fake model, in a folder of its own.

use std::path::{Path, PathBuf};

use cairn_testkit::daemon::{Client, Daemon, Events, PATIENCE};
use cairn_testkit::home::{Run, write_secret};
use cairn_testkit::model::{FakeModel, Kind};
use hyper::StatusCode;
use serde_json::{Value, json};

pub(super) const TOKEN: &str = "the-token-of-the-meadow";

const CALLS: &str = "/v1/bridges/meadow";

pub(super) struct Rig {
    folder: tempfile::TempDir,
    config: PathBuf,
    pub(super) model: FakeModel,
    daemon: Option<Daemon>,
}

/// What a bridge says of a network with edits and files.
pub(super) fn hello() -> Value {
    json!({
        "protocol": 1, "software": "fake 1", "me": "bot", "name": "Rowan", "limit": 200, "unit": "characters",
        "markup": "html", "edits": true, "file_bytes": 1_000_000, "typing": true,
    })
}

/// A message of ann in her private chat.
pub(super) fn said(id: &str, text: &str) -> Value {
    json!({ "id": id, "chat": "dm-ann", "direct": true, "author": { "id": "ann", "name": "Ann" }, "text": text })
}

impl Rig {
    /// Nothing runs yet. `keys`: more lines of the bridge's table.
    pub(super) async fn build(keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = FakeModel::builder().window(8_000).start().await;
        write_secret(&folder.path().join("token"), TOKEN).unwrap();
        let config = folder.path().join("config.toml");
        let text = format!(
            "[[models]]\nid = \"main\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"fake\"\n\
             context_window = 8000\nmax_output_tokens = 1000\n\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n\n\
             [[bridges]]\nname = \"meadow\"\ntoken_file = \"token\"\ngather_ms = 0\n{keys}\n",
            model.base_url(),
        );
        std::fs::write(&config, text).unwrap();
        Self { folder, config, model, daemon: None }
    }

    /// With the daemon, in which everybody may write privately.
    pub(super) async fn start(keys: &str) -> Self {
        let mut rig = Self::build(&format!("direct = \"open\"\n{keys}")).await;
        rig.run().await;
        rig
    }

    pub(super) async fn run(&mut self) {
        let cairn = Path::new(env!("CARGO_BIN_EXE_cairn"));
        self.daemon = Some(Daemon::start(cairn, &self.state(), Some(&self.config)).await.unwrap());
        // Until the adapter runs, calls are put off, and a bridge repeats them.
        self.until_link(|link| link["state"] != "connecting").await;
    }

    /// Kills the daemon as a power cut does.
    pub(super) async fn kill(&mut self) {
        self.daemon.take().unwrap().kill().await.unwrap();
    }

    pub(super) async fn stop(&mut self) {
        assert!(self.daemon.take().unwrap().stop().await.unwrap().success());
    }

    pub(super) fn state(&self) -> PathBuf {
        let state = self.folder.path().join("state");
        std::fs::create_dir_all(&state).unwrap();
        state
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("daemon.log")).unwrap()
    }

    pub(super) fn client(&self) -> Client {
        self.daemon.as_ref().unwrap().client()
    }

    /// A call of the bridge.
    pub(super) async fn call(&self, call: &str, body: &Value) -> (StatusCode, Value) {
        self.client().with_token(TOKEN).ask("POST", &format!("{CALLS}/{call}"), body).await.unwrap()
    }

    /// A call that must be answered.
    pub(super) async fn called(&self, call: &str, body: &Value) -> Value {
        let (status, answer) = self.call(call, body).await;
        assert_eq!(status, StatusCode::OK, "{call} {body}: {answer}\n{}", self.log());
        answer
    }

    /// Says hello and opens the stream, as a bridge does at its start.
    pub(super) async fn connect(&self) -> Stream {
        self.connect_as(&hello()).await
    }

    pub(super) async fn connect_as(&self, hello: &Value) -> Stream {
        self.called("hello", hello).await;
        let events = self.client().with_token(TOKEN).stream(&format!("{CALLS}/deliveries")).await.unwrap();
        let mut stream = Stream { events };
        assert_eq!(stream.next("ready").await, json!({ "protocol": 1 }));
        stream
    }

    /// Acknowledges a delivery as sent under this id.
    pub(super) async fn sent(&self, delivery: &Value, message: &str) {
        self.acknowledge(delivery, &json!({ "outcome": "sent", "message": message })).await;
    }

    pub(super) async fn acknowledge(&self, delivery: &Value, ack: &Value) {
        let id = delivery["id"].as_str().unwrap();
        let (status, answer) = self.call(&format!("deliveries/{id}"), ack).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{answer}\n{}", self.log());
    }

    /// How the bridge is, in the daemon's status, once that holds.
    pub(super) async fn until_link(&self, holds: impl Fn(&Value) -> bool) -> Value {
        let status =
            self.client().until("/v1/status", |status| holds(&status["platforms"][0])).await.unwrap();
        status["platforms"][0].clone()
    }

    /// Waits until no delivery is owed.
    pub(super) async fn settled(&self) {
        self.client().until("/v1/outbox", |owed| owed == &json!([])).await.unwrap();
    }

    /// Runs a command beside the daemon.
    pub(super) async fn cairn(&self, args: &[&str]) -> Run {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_cairn"));
        command.args(args).arg("--config").arg(&self.config).arg("--state").arg(self.state());
        command.env_remove("RUNTIME_DIRECTORY").kill_on_drop(true).output().await.unwrap().into()
    }

    pub(super) fn requests(&self) -> Vec<String> {
        let requests = self.model.requests_of(Kind::Reply);
        requests.iter().map(|request| request["messages"].to_string()).collect()
    }

    pub(super) fn assert_clean(&self) {
        self.model.assert_clean();
        let log = self.log();
        assert!(!log.contains(TOKEN) && !log.contains("panicked"), "{log}");
    }
}

/// The events of a connection. Dropping it is a bridge that leaves.
pub(super) struct Stream {
    events: Events,
}

impl Stream {
    /// The next event, which must have that name; typing is passed over.
    pub(super) async fn next(&mut self, name: &str) -> Value {
        let next = async {
            loop {
                let (found, data) = self.events.next().await.unwrap().expect("the stream goes on");
                if found == name {
                    return data;
                }
                assert_eq!(found, "typing", "{data}");
            }
        };
        tokio::time::timeout(PATIENCE, next).await.unwrap_or_else(|_late| panic!("no event `{name}`"))
    }

    /// Waits for the end of the stream.
    pub(super) async fn closed(mut self) {
        let end = async { while self.events.next().await.is_ok_and(|event| event.is_some()) {} };
        tokio::time::timeout(PATIENCE, end).await.unwrap();
    }
}
