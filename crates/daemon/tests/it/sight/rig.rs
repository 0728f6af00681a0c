//! A daemon with all that talks to it: two chat networks, a model that repeats what it is asked, a tool server that writes
//! what it knows to its standard error.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::discord::FakeDiscord;
use cairn_testkit::mcp::{OverStdio, Script};
use cairn_testkit::model::{Answer, FakeModel, Kind, Seen, text_of};
use cairn_testkit::telegram::FakeTelegram;
use serde_json::Value;

/// A word of all that is said, saved, named and called.
pub(crate) const WORD: &str = "quagga";

pub(crate) const KEY: &str = "sk-canary-7d1f0a93c2";

/// What the tool server gets in a variable.
pub(crate) const SECRET: &str = "canary-of-the-server-55e0b1";

pub(crate) const GUILD: u64 = 100;
pub(crate) const ROOM: u64 = 101;

pub(crate) fn cairn() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_cairn"))
}

/// The real binary with the testkit's tools, one of which panics.
pub(crate) fn with_tools() -> PathBuf {
    let built = cairn().with_file_name("examples").join("cairn-with-tools");
    assert!(built.exists(), "build it: cargo build --workspace --examples");
    built
}

pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) model: FakeModel,
    pub(crate) telegram: FakeTelegram,
    pub(crate) discord: FakeDiscord,
    pub(crate) daemon: Daemon,
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

impl Rig {
    pub(crate) async fn start(binary: &Path, log: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = FakeModel::builder().lenient().respond(echo).start().await;
        let telegram = FakeTelegram::builder().start().await;
        let discord = FakeDiscord::builder().identify_every(std::time::Duration::ZERO).start().await;
        discord.guild(GUILD);
        discord.channel_named(GUILD, ROOM, &format!("room-{WORD}"));
        let secret = |name: &str, value: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, value).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        secret("model.key", KEY);
        secret("telegram.token", telegram.token());
        secret("discord.token", discord.token());
        secret("server.secret", SECRET);
        let server = Script::default().over_stdio(folder.path(), "files");
        let fake = cairn().with_file_name("fake-mcp");
        assert!(fake.exists(), "build it: cargo test --workspace --test tools --no-run");
        let says = format!("echo {WORD} \"$TOKEN\" >&2; exec \"$0\" \"$@\"");
        let args: Vec<String> =
            ["-c".to_owned(), says, fake.display().to_string()].into_iter().chain(server.args()).collect();
        let text = format!(
            "[log]\n{log}\n\n[limits]\nmodel_attempts = 1\nturn_timeout_secs = 20\n\n[defaults.compaction]\nretry_base_ms = 1\nmax_attempts = 1\n\n\
             [[models]]\nid = \"fake\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"fake\"\napi_key_file = \"model.key\"\n\
             context_window = 32000\nmax_output_tokens = 1000\n\n[[agents]]\nid = \"main\"\nmodels = [\"fake\"]\ntools = [\"files/*\"]\n\n\
             [agents.trust]\ntrusted = [\"local/anna\"]\n\n\
             [[mcp]]\nid = \"files\"\ncommand = \"/bin/sh\"\nargs = {args:?}\nenv_from_file = {{ TOKEN = \"server.secret\" }}\n\n\
             [discord]\ntoken_file = \"discord.token\"\napi_url = \"{}\"\ngateway_url = \"{}\"\nservers = [{GUILD}]\n\n\
             [telegram]\ntoken_file = \"telegram.token\"\napi_url = \"{}\"\ndirect = \"open\"\n\n{more}\n",
            model.base_url(),
            discord.api_url(),
            discord.gateway_url(),
            telegram.api_url(),
        );
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
        let config = folder.path().join("config.toml");
        let daemon = Daemon::start(binary, &folder.path().join("state"), Some(&config)).await.unwrap();
        discord.wait_ready().await;
        Self { folder, model, telegram, discord, daemon, _server: server }
    }

    pub(crate) fn client(&self) -> Client {
        self.daemon.client()
    }

    /// A command of the binary, which must succeed.
    pub(crate) fn run(&self, args: &[&str]) {
        let output = Command::new(cairn())
            .args(args)
            .args([Path::new("--state"), &self.folder.path().join("state")])
            .args([Path::new("--config"), &self.folder.path().join("config.toml")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    /// Says something; the status of the answer.
    pub(crate) async fn say(&self, channel: &str, text: &str) -> u16 {
        self.client().say(channel, text).await.unwrap().0.as_u16()
    }

    /// Waits until what a path of the socket answers fits; that answer.
    pub(crate) async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let found = self.client().until(path, fits).await;
        found.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Stops the daemon; all that it has written.
    pub(crate) async fn stop(self) -> String {
        assert!(self.daemon.stop().await.unwrap().success());
        output(self.folder.path())
    }
}

fn output(folder: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(folder.join("state").join(name)).unwrap();
    read("daemon.log") + &read("daemon.out")
}
