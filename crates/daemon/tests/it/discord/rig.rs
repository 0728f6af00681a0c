//! A daemon with a fake Discord and a fake model, in a folder of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cairn_testkit::daemon::{Client, Daemon, PATIENCE};
use cairn_testkit::discord::{self, FakeDiscord};
use cairn_testkit::home::{Run, write_secret};
use cairn_testkit::model::{self, FakeModel, Kind};
use serde_json::{Value, json};

/// The server of all tests, with two channels and a thread of the first.
pub(crate) const SERVER: u64 = 100;
pub(crate) const ROOM: u64 = 101;
pub(crate) const OTHER_ROOM: u64 = 102;
pub(crate) const THREAD: u64 = 111;

/// The window of the model, in tokens.
const WINDOW: u64 = 8_000;

pub(crate) const OPERATOR: &str = "operator";

pub(crate) struct Setup {
    pub(crate) discord: discord::Builder,
    pub(crate) model: model::Builder,
    /// More lines of `[discord]`.
    pub(crate) keys: String,
    pub(crate) tables: String,
    /// What the bot is configured with.
    pub(crate) token: String,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            // Restarts may follow each other as quickly as they like.
            // A slow machine may take its time for a command, too.
            discord: FakeDiscord::builder().identify_every(Duration::ZERO).answer_within(PATIENCE),
            model: FakeModel::builder().window(WINDOW),
            keys: String::new(),
            tables: String::new(),
            token: discord::TOKEN.to_owned(),
        }
    }
}

impl Setup {
    /// With more lines of `[discord]`.
    pub(crate) fn keys(mut self, keys: &str) -> Self {
        keys.clone_into(&mut self.keys);
        self
    }

    /// The people, the places and the model; no daemon yet.
    pub(crate) async fn build(self) -> Rig {
        // A slow machine must not turn an answer into a draft with edits.
        let drafts = if self.keys.contains("drafts") { "" } else { "drafts = false\n" };
        let folder = tempfile::tempdir().unwrap();
        let discord = self.discord.start().await;
        discord.guild(SERVER);
        discord.channel(SERVER, ROOM);
        discord.channel(SERVER, OTHER_ROOM);
        discord.thread(ROOM, THREAD);
        let model = self.model.start().await;
        write_secret(&folder.path().join("token"), &self.token).unwrap();
        let config = folder.path().join("config.toml");
        let text = format!(
            "[defaults.compaction]\nretry_base_ms = 1\n\n[[models]]\nid = \"main\"\nprovider = \"openai\"\n\
             base_url = \"{}\"\nmodel = \"fake\"\ncontext_window = {WINDOW}\nmax_output_tokens = 1000\n\n\
             [[agents]]\nid = \"main\"\nmodels = [\"main\"]\n\n\
             [discord]\ntoken_file = \"token\"\ngather_ms = 0\napi_url = \"{}\"\ngateway_url = \"{}\"\nservers = [{SERVER}]\n{drafts}{}\n\n\
             [commands]\noperators = [\"discord/{}\"]\n\n{}\n",
            model.base_url(),
            discord.api_url(),
            discord.gateway_url(),
            self.keys,
            discord.user(OPERATOR),
            self.tables,
        );
        std::fs::write(&config, text).unwrap();
        Rig { folder, discord, model, config, daemon: None }
    }

    pub(crate) async fn start(self) -> Rig {
        let mut rig = self.build().await;
        rig.run().await;
        rig.discord.wait_ready().await;
        rig
    }
}

pub(crate) struct Rig {
    folder: tempfile::TempDir,
    pub(crate) discord: FakeDiscord,
    pub(crate) model: FakeModel,
    config: PathBuf,
    daemon: Option<Daemon>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Setup::default().start().await
    }

    fn cairn() -> &'static Path {
        Path::new(env!("CARGO_BIN_EXE_cairn"))
    }

    /// A secret beside the configuration.
    pub(crate) fn secret(&self, name: &str, text: &str) {
        write_secret(&self.folder.path().join(name), text).unwrap();
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// With more lines of the model, before the daemon starts.
    pub(crate) fn with_model_keys(self, keys: &str) -> Self {
        let text = std::fs::read_to_string(&self.config).unwrap();
        let text = text.replacen("[[models]]\n", &format!("[[models]]\n{keys}\n"), 1);
        std::fs::write(&self.config, text).unwrap();
        self
    }

    /// Changes the configuration while no daemon runs, or before a reload.
    pub(crate) fn configure(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        std::fs::write(&self.config, text.replacen(from, to, 1)).unwrap();
    }

    pub(crate) async fn run(&mut self) {
        let daemon = Daemon::start(Self::cairn(), &self.state(), Some(&self.config)).await.unwrap();
        self.daemon = Some(daemon);
    }

    /// Kills the daemon as a power cut does.
    pub(crate) async fn kill(&mut self) {
        self.daemon.take().unwrap().kill().await.unwrap();
        self.discord.wait_until("the end of the connection", |discord| !discord.is_ready()).await;
    }

    /// Stops the daemon as systemd does.
    pub(crate) async fn stop(&mut self) {
        let status = self.daemon.take().unwrap().stop().await.unwrap();
        assert!(status.success(), "a clean stop ends with {status}");
        self.discord.wait_until("the end of the connection", |discord| !discord.is_ready()).await;
    }

    /// Starts the daemon again and waits until it is connected.
    pub(crate) async fn back(&mut self) {
        self.run().await;
        self.discord.wait_ready().await;
    }

    pub(crate) fn client(&self) -> Client {
        self.daemon.as_ref().unwrap().client()
    }

    /// Runs a command beside the daemon.
    pub(crate) async fn cairn_with(&self, args: &[&str]) -> Run {
        let mut command = tokio::process::Command::new(Self::cairn());
        command.args(args).arg("--config").arg(&self.config).arg("--state").arg(self.state());
        command.env_remove("RUNTIME_DIRECTORY").kill_on_drop(true).output().await.unwrap().into()
    }

    /// Runs a command that must succeed; its JSON.
    pub(crate) async fn json_of(&self, args: &[&str]) -> Value {
        self.cairn_with(&[args, &["--json"]].concat()).await.ended(0).json()
    }

    /// How Discord is, in the daemon's status.
    pub(crate) async fn platform(&self) -> Value {
        let status = self.client().get("/v1/status").await.unwrap();
        let platforms = status["platforms"].as_array().unwrap();
        platforms.iter().find(|one| one["platform"] == "discord").unwrap().clone()
    }

    /// Waits until the daemon's status says that of Discord.
    pub(crate) async fn wait_platform(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let asking = async {
            let mut tick = tokio::time::interval(Duration::from_millis(20));
            loop {
                let platform = self.platform().await;
                if holds(&platform) {
                    return platform;
                }
                tick.tick().await;
            }
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(platform) => platform,
            Err(_late) => panic!("never {what}: {}\n{}", self.platform().await, self.log()),
        }
    }

    /// Waits until a condition holds that only the daemon can tell.
    pub(crate) async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let asking = async {
            let mut tick = tokio::time::interval(Duration::from_millis(20));
            loop {
                if let Some(found) = ask().await {
                    return found;
                }
                tick.tick().await;
            }
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(found) => found,
            Err(_late) => panic!("never {what}\n{}", self.log()),
        }
    }

    /// The log of the daemon that runs, or ran last.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("daemon.log")).unwrap()
    }

    /// Waits until no delivery is owed.
    pub(crate) async fn delivered(&self) {
        self.client().until("/v1/outbox", |owed| *owed == json!([])).await.unwrap();
    }

    /// Waits until a message was passed over for this reason since the start of the daemon; catching up may see it again.
    pub(crate) async fn passed_over(&self, why: &str) {
        let line = format!("cairn_discord_passed_over_total{{why=\"{why}\"}} ");
        self.until("a message passed over", async || {
            let (_, text) = self.client().raw("GET", "/metrics", "text/plain", Vec::new()).await.unwrap();
            String::from_utf8_lossy(&text).contains(&line).then_some(())
        })
        .await;
    }

    /// Somebody says something to the bot in the server and gets the usual echo.
    pub(crate) async fn ask(&self, channel: u64, user: &str, text: &str) -> discord::Sent {
        let n = self.discord.sent(channel).len();
        let id = self.discord.post(channel, user, text).mention_bot().send();
        let sent = self.discord.wait_sent(channel, n + 1).await;
        assert_eq!(sent[n].content, format!("echo: {text}"), "{}", self.log());
        assert_eq!(sent[n].reply_to, Some(id));
        sent[n].clone()
    }

    pub(crate) async fn command(
        &self,
        channel: u64,
        user: &str,
        name: &str,
        options: &[(&str, &str)],
    ) -> discord::Answer {
        self.registered().await;
        let interaction = self.discord.slash(channel, user, name, options);
        self.discord.wait_answer(interaction).await
    }

    /// Waits until the commands are registered.
    pub(crate) async fn registered(&self) {
        self.discord.wait_until("the commands", |discord| !discord.commands().is_empty()).await;
    }

    /// The words of each request for a reply so far, as the model got them.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.model.requests_of(Kind::Reply);
        requests.iter().map(|request| request["messages"].to_string()).collect()
    }

    /// Nobody broke a rule, and the log gives nothing away.
    pub(crate) fn assert_clean(&self) {
        self.discord.assert_clean();
        self.model.assert_clean();
        let log = self.log();
        assert!(!log.contains(discord::TOKEN), "the token is in the log");
        assert!(!log.contains("panicked"), "{log}");
    }
}
