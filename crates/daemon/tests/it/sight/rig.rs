//! A daemon with all that talks to it: two chat networks, a model that repeats what it is asked, a tool server that writes
//! what it knows to its standard error.

use std::path::Path;
use std::time::Duration;

use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::home::Home;
use cairn_testkit::mcp::{OverStdio, Script};
use cairn_testkit::model::{Answer, FakeModel, Kind, Seen, text_of};
use cairn_testkit::rig::{Rig, model_table};
use cairn_testkit::telegram::FakeTelegram;

use crate::CAIRN;

/// A word of all that is said, saved, named and called.
pub(crate) const WORD: &str = "quagga";

pub(crate) const KEY: &str = "sk-canary-7d1f0a93c2";

/// What the tool server gets in a variable.
pub(crate) const SECRET: &str = "canary-of-the-server-55e0b1";

pub(crate) const GUILD: u64 = 100;
pub(crate) const ROOM: u64 = 101;

/// A daemon and its chat networks.
pub(crate) struct Scene {
    pub(crate) rig: Rig,
    pub(crate) telegram: FakeTelegram,
    pub(crate) discord: FakeDiscord,
    _server: OverStdio,
}

/// The model refuses with the status that somebody's words name, and repeats the request and the key; so it does with all that
/// is to be summarised.
fn echo(seen: &Seen) -> Option<Answer> {
    let messages = seen.body["messages"].as_array().cloned().unwrap_or_default();
    let asked = messages.iter().rfind(|message| message["role"] == "user").map(text_of).unwrap_or_default();
    let key = seen.authorization.clone().unwrap_or_default();
    let refuse = |status| Answer::error(status, &format!("no: {asked} {key} {}", seen.body));
    if seen.kind == Kind::Compaction {
        return Some(refuse(400));
    }
    let (_, rest) = asked.rsplit_once("refuse with ")?;
    rest.get(..3)?.parse().ok().map(refuse)
}

impl Scene {
    /// In that home, with that log; the tool server is approved.
    pub(crate) async fn start(home: Home, log: &str) -> Self {
        let model = FakeModel::builder().lenient().respond(echo).start().await;
        let telegram = FakeTelegram::start().await;
        let discord = FakeDiscord::builder().identify_every(Duration::ZERO).start().await;
        discord.guild(GUILD);
        discord.channel_named(GUILD, ROOM, &format!("room-{WORD}"));
        home.secret("model.key", KEY);
        home.secret("telegram.token", telegram.token());
        home.secret("discord.token", discord.token());
        home.secret("server.secret", SECRET);
        let server = Script::default().over_stdio(&home.path(""), "files");
        let fake = Path::new(CAIRN).with_file_name("fake-mcp");
        assert!(fake.exists(), "build it: cargo test --workspace --test tools --no-run");
        let says = format!("echo {WORD} \"$TOKEN\" >&2; exec \"$0\" \"$@\"");
        let args: Vec<String> =
            ["-c".to_owned(), says, fake.display().to_string()].into_iter().chain(server.args()).collect();
        let text = format!(
            "[log]\n{log}\n\n[limits]\nmodel_attempts = 1\nturn_timeout_secs = 20\n\n\
             [defaults.compaction]\nretry_base_ms = 1\nmax_attempts = 1\n\n\
             {}api_key_file = \"model.key\"\n\n\
             [[agents]]\nid = \"main\"\nmodels = [\"fake\"]\ntools = [\"files/*\"]\n\n\
             [agents.trust]\ntrusted = [\"local/anna\"]\n\n\
             [[mcp]]\nid = \"files\"\ncommand = \"/bin/sh\"\nargs = {args:?}\nenv_from_file = {{ TOKEN = \"server.secret\" }}\n\n\
             [discord]\ntoken_file = \"discord.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\ngateway_url = \"{}\"\nservers = [{GUILD}]\n\n\
             [telegram]\ntoken_file = \"telegram.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\ndirect = \"open\"\n",
            model_table("fake", &model.base_url(), 32_000),
            discord.api_url(),
            discord.gateway_url(),
            telegram.api_url(),
        );
        let rig = Rig::start(home, model, &text).await;
        discord.wait_ready().await;
        rig.cairn(&["mcp", "approve", "files", "--yes"]).ended(0);
        Self { rig, telegram, discord, _server: server }
    }

    /// Anna says something in a channel; the status of the answer.
    pub(crate) async fn say(&self, channel: &str, text: &str) -> u16 {
        self.rig.client().say(channel, text).await.unwrap().0.as_u16()
    }

    /// Stops the daemon; all that it has written.
    pub(crate) async fn stop(mut self) -> String {
        self.rig.stop().await;
        self.rig.log() + &std::fs::read_to_string(self.rig.state().join("daemon.out")).unwrap()
    }
}
