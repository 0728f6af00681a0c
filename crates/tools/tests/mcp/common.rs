//! A server in the shell, and how it is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_testkit::clock::TestClock;
use cairn_tools::mcp::{Reach, ServerSettings, Servers, Surroundings};
use cairn_types::ids::ChannelId;
use cairn_types::ports::Toolset as _;
use cairn_types::tool::ToolOutput;
use cairn_types::tool::mcp::ServerPin;
use cairn_types::tool::mcp::pins::Pins;
use secrecy::SecretString;
use serde_json::{Value, json};

/// Time after which something does not happen any more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The tools of the server in the shell.
pub(crate) const TOOLS: [&str; 8] = ["ask", "changed", "die", "echo", "hang", "large", "last", "wrong"];

/// A folder with what the server reads and leaves.
pub(crate) struct Traces(pub(crate) tempfile::TempDir);

impl Traces {
    pub(crate) fn new() -> Self {
        let traces = Self(tempfile::tempdir().unwrap());
        traces.write("version", "1.0");
        traces.describe("tools", "Does it.");
        traces
    }

    /// The tools, one of them (`echo`) with this description.
    pub(crate) fn describe(&self, file: &str, echo: &str) {
        let tool = |name: &&str| {
            let description = if *name == "echo" { echo } else { "Does it." };
            json!({ "name": name, "description": description, "inputSchema": { "type": "object" },
                "annotations": { "readOnlyHint": *name == "echo" } })
        };
        self.write(file, &Value::from_iter(TOOLS.iter().map(tool)).to_string());
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.path().join(file), format!("{text}\n")).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.path().join(file)).unwrap_or_default()
    }

    /// Waits until a file has this many lines, and gives it.
    pub(crate) async fn until(&self, file: &str, n_lines: usize) -> String {
        let waited = tokio::time::timeout(PATIENCE, async {
            while self.read(file).lines().count() < n_lines {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("`{file}` has too few lines: {}", self.read(file)));
        self.read(file)
    }

    pub(crate) fn starts(&self) -> usize {
        self.read("starts").lines().count()
    }

    /// The server in the shell, that leaves its traces here.
    pub(crate) fn settings(&self) -> ServerSettings {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.sh");
        settings(Reach::Stdio {
            command: "sh".to_owned(),
            args: vec![script.to_owned(), self.0.path().display().to_string()],
            env: BTreeMap::from([
                ("TOKEN".to_owned(), SecretString::from("s3cret-value")),
                ("MODE".to_owned(), SecretString::from("read-write")),
            ]),
            cwd: self.0.path().join("work/shell"),
            own_cwd: false,
            memory_mib: 0,
            open_files: 0,
        })
    }
}

pub(crate) fn settings(reach: Reach) -> ServerSettings {
    ServerSettings {
        id: "shell".to_owned(),
        reach,
        secrets: vec![SecretString::from("s3cret-value"), SecretString::from("Bearer s3cret-token")],
        start_timeout: PATIENCE,
        call_timeout: PATIENCE,
        message_bytes_max: 100_000,
        sends_files: true,
        restart_base: Duration::from_millis(1),
        restart_max: PATIENCE,
    }
}

pub(crate) fn servers(settings: ServerSettings, pin: Option<ServerPin>) -> Servers {
    servers_at(settings, pin, Arc::new(TestClock::default()))
}

pub(crate) fn servers_at(settings: ServerSettings, pin: Option<ServerPin>, clock: Arc<TestClock>) -> Servers {
    let pins = Pins(pin.into_iter().map(|pin| (pin.server.clone(), pin)).collect());
    Servers::new(
        vec![settings],
        pins,
        Surroundings { clock, path: Some("/usr/bin:/bin".into()), launcher: None },
    )
}

/// The same, after an operator has approved what it shows.
pub(crate) async fn approved(settings: ServerSettings) -> Servers {
    approved_at(settings, Arc::new(TestClock::default())).await
}

pub(crate) async fn approved_at(settings: ServerSettings, clock: Arc<TestClock>) -> Servers {
    let servers = servers_at(settings, None, clock);
    let pin = servers.inspect("shell").await.unwrap().pin;
    servers.set_pin("shell", Some(pin));
    servers
}

/// Calls a tool by its name at the server.
pub(crate) async fn call(servers: &Servers, tool: &str) -> Result<String, String> {
    call_with(servers, tool, Value::Null).await.map(|output| output.words())
}

pub(crate) async fn call_with(servers: &Servers, tool: &str, arguments: Value) -> Result<ToolOutput, String> {
    let tool = servers.get(&format!("shell__{tool}")).expect("an approved tool");
    let channel: ChannelId = "main/local/test".parse().unwrap();
    let called = tokio::time::timeout(PATIENCE, tool.call(channel, arguments)).await.expect("an end");
    called.map_err(|failure| failure.message)
}
