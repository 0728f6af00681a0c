//! A daemon between a fake Telegram and a fake model, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::model::{FakeModel, Kind, text_of};
use cairn_testkit::telegram::{FakeTelegram, Person, Sent};
use serde_json::Value;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

/// A word in all that is said and in all names: no log line may have it.
pub(crate) const WORD: &str = "quokka";

/// The fakes, before there is a daemon.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) telegram: FakeTelegram,
    pub(crate) model: FakeModel,
    pub(crate) alice: Person,
    pub(crate) bob: Person,
}

pub(crate) struct Rig {
    world: World,
    pub(crate) config: PathBuf,
    daemon: Option<Daemon>,
    log_level: &'static str,
}

impl std::ops::Deref for Rig {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let telegram = FakeTelegram::start().await;
        let model = FakeModel::builder().expect_stable_prefix(false).start().await;
        let (alice, bob) = (telegram.person("Alice Quokka"), telegram.person("Bob Quokka"));
        Self { dir: tempfile::tempdir().unwrap(), telegram, model, alice, bob }
    }

    /// Starts a daemon; `keys` go into `[telegram]`, and whatever tables follow.
    pub(crate) async fn start(self, keys: &str) -> Rig {
        self.start_at("info", keys).await
    }

    /// The same with that level of the log.
    pub(crate) async fn start_at(self, log_level: &'static str, keys: &str) -> Rig {
        std::fs::write(self.dir.path().join("telegram.token"), self.telegram.token()).unwrap();
        let config = self.dir.path().join("config.toml");
        let wait = if keys.contains("gather_ms") { "" } else { "gather_ms = 0\n" };
        // A slow machine must not turn an answer into a draft with edits.
        let drafts = if keys.contains("drafts") { "" } else { "drafts = false\n" };
        let text = format!(
            "[log]\nlevel = \"{log_level}\"\n\n[[models]]\nid = \"fake\"\nprovider = \"openai\"\nbase_url = \"{}\"\n\
             model = \"fake\"\ncontext_window = 32000\nmax_output_tokens = 4096\n\n[[agents]]\nid = \"main\"\n\
             models = [\"fake\"]\n\n[telegram]\ntoken_file = \"telegram.token\"\napi_url = \"{}\"\n{wait}{drafts}{keys}\n",
            self.model.base_url(),
            self.telegram.api_url(),
        );
        std::fs::write(&config, text).unwrap();
        let mut rig = Rig { world: self, config, daemon: None, log_level };
        rig.restart().await;
        rig
    }
}

impl Rig {
    /// A daemon that everybody may write to privately.
    pub(crate) async fn open() -> Self {
        World::new().await.start("direct = \"open\"").await
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.world.dir.path().join("state")
    }

    /// Writes the configuration again, with `to` for `from`.
    pub(crate) fn rewrite(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        std::fs::write(&self.config, text.replace(from, to)).unwrap();
    }

    /// Starts a daemon again, after a kill or a stop.
    pub(crate) async fn restart(&mut self) {
        let started = Daemon::start(Path::new(CAIRN), &self.state(), Some(&self.config)).await;
        self.daemon = Some(started.unwrap());
    }

    /// Kills the daemon as a power cut does.
    pub(crate) async fn kill(&mut self) {
        self.daemon.take().unwrap().kill().await.unwrap();
        self.check_log();
    }

    /// Stops the daemon as systemd does.
    pub(crate) async fn stop(&mut self) {
        let status = self.daemon.take().unwrap().stop().await.unwrap();
        assert!(status.success(), "a clean stop ends with {status}\n{}", self.log());
        self.check_log();
    }

    /// Stops it, and looks whether all was well: no request was wrong, nothing that is secret is in the log.
    pub(crate) async fn end(mut self) -> World {
        self.stop().await;
        self.world.telegram.assert_clean();
        self.world.model.assert_clean();
        self.world
    }

    pub(crate) fn client(&self) -> Client {
        self.daemon.as_ref().unwrap().client()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("daemon.log")).unwrap()
    }

    /// The log tells neither the token nor what anybody said or is called.
    fn check_log(&self) {
        let log = self.log();
        let secret = self.telegram.token().split_once(':').unwrap().1;
        for line in log.lines() {
            assert!(!line.contains(secret), "the token is in the log: {line}");
            let tells = self.log_level == "info" && line.to_lowercase().contains(WORD);
            assert!(!tells, "words or names are in the log: {line}");
        }
    }

    /// Runs the command line beside the daemon: exit code and output.
    pub(crate) async fn cairn(&self, args: &[&str]) -> (i32, String) {
        let output = tokio::process::Command::new(CAIRN)
            .args(args)
            .env_clear()
            .env("CAIRN_STATE", self.state())
            .env("CAIRN_CONFIG", &self.config)
            .env("HOME", self.world.dir.path())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap_or(-1), text)
    }

    /// What the command line prints as JSON.
    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        let (code, text) = self.cairn(&args).await;
        assert_eq!(code, 0, "{args:?}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Waits until what a path of the daemon's socket answers fits; that answer.
    pub(crate) async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let found = self.client().until(path, fits).await;
        found.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Waits until Telegram's line in the status fits; that line.
    pub(crate) async fn status_until(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let line = |status: &Value| {
            let lines = status["platforms"].as_array().cloned().unwrap_or_default();
            lines.into_iter().find(|line| line["platform"] == "telegram").unwrap_or_default()
        };
        line(&self.until("/v1/status", |status| fits(&line(status))).await)
    }

    /// Waits until the outbox has so many deliveries in that state; the outbox.
    pub(crate) async fn outbox_until(&self, state: &str, n: usize) -> Vec<Value> {
        let count = |list: &Value| {
            let list = list.as_array().unwrap();
            list.iter().filter(|item| item["state"] == state).count()
        };
        self.until("/v1/outbox", |list| count(list) == n).await.as_array().unwrap().clone()
    }

    /// Waits until everything that was owed is there.
    pub(crate) async fn delivered(&self) {
        self.outbox_until("owed", 0).await;
    }

    /// A person says something privately; the first message of the bot after it.
    pub(crate) async fn ask(&self, who: &Person, text: &str) -> Sent {
        let before = self.telegram.sent(who.id).len();
        self.telegram.say(who.id, who, text);
        self.telegram.wait_sent(who.id, before + 1).await.swap_remove(before)
    }

    /// All words of the newest request for a reply.
    pub(crate) fn last_request(&self) -> String {
        let requests = self.model.requests_of(Kind::Reply);
        let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
        messages.iter().map(text_of).collect::<Vec<_>>().join("\n")
    }

    /// How many replies the model was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.model.tally(Kind::Reply).arrived
    }
}

pub(crate) fn texts(sent: &[Sent]) -> Vec<&str> {
    sent.iter().map(|sent| sent.text.as_str()).collect()
}
