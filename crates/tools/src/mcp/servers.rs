//! All configured servers, and the tools that they offer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::ChannelId;
use cairn_types::ports::{Clock, Tool, Toolset};
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::mcp::pins::Pins;
use cairn_types::tool::mcp::{ServerPin, ServerSource};
use cairn_types::tool::{Effect, ToolFailure, ToolOutput};
use futures::future::BoxFuture;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::server::Server;
use super::settings::{Reach, ServerSettings};
use super::status::{McpError, Offered};
use cairn_types::tool::mcp::status::{Inspection, ServerStatus};

/// Longest time to end all servers; each may need a wait and a signal.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(12);

/// What servers need from the daemon.
#[derive(Clone)]
pub struct Surroundings {
    /// The time, for the status of pauses.
    pub clock: Arc<dyn Clock>,
    /// The daemon's `PATH`, which is searched for commands without a slash.
    pub path: Option<OsString>,
    /// The daemon's own binary, which starts children with limits ([`super::become_server`]); `None`: no limits.
    pub launcher: Option<PathBuf>,
}

/// The servers. Clones share them.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    servers: RwLock<Vec<Arc<Server>>>,
    around: Surroundings,
    tools: RwLock<BTreeMap<String, Arc<RemoteTool>>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl Servers {
    /// The configured servers with their approvals. Nothing is started.
    pub fn new(settings: Vec<ServerSettings>, pins: Pins, around: Surroundings) -> Self {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let (servers, tools) = (RwLock::default(), RwLock::default());
        let all = Self(Arc::new(Inner { servers, around, tools, tasks, closing }));
        all.add(settings, pins);
        all
    }

    /// Adds servers with their approvals. One whose id is there already stays as it is.
    pub fn add(&self, settings: Vec<ServerSettings>, mut pins: Pins) {
        let inner = &self.0;
        for settings in settings {
            if self.server(&settings.id).is_some() {
                continue;
            }
            let pin = pins.0.remove(&settings.id);
            let (tasks, closing) = (inner.tasks.clone(), inner.closing.clone());
            let server = Server::new(settings, pin, inner.around.clone(), tasks, closing);
            inner.servers.write().push(Arc::new(server));
        }
        self.offer();
    }

    /// The servers' ids, in the order of the configuration.
    pub fn ids(&self) -> Vec<String> {
        self.0.servers.read().iter().map(|server| server.id().to_owned()).collect()
    }

    /// The servers' states, in the order of the configuration.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.0.servers.read().iter().map(|server| server.status()).collect()
    }

    /// The approval of a server. `None`: there is none, or no such server.
    pub fn pin(&self, id: &str) -> Option<ServerPin> {
        self.server(id)?.pin()
    }

    /// How a server is reached. `None`: there is no such server.
    pub fn source(&self, id: &str) -> Option<ServerSource> {
        Some(self.server(id)?.settings.source())
    }

    /// Lists a server's tools as they are now, and starts it if necessary, approved or not. A server that is not
    /// approved is ended a minute later.
    ///
    /// # Errors
    /// There is no such server, or it does not start or answer.
    pub async fn inspect(&self, id: &str) -> Result<Inspection, McpError> {
        let server = self.server(id).ok_or_else(|| McpError::Unknown(id.to_owned()))?;
        Box::pin(server.inspect()).await
    }

    /// Sets a journalled approval, or removes it (`None`), with immediate effect: a server that is no longer approved
    /// is ended, and its calls fail. Unknown ids are ignored.
    pub fn set_pin(&self, id: &str, pin: Option<ServerPin>) {
        if let Some(server) = self.server(id) {
            server.set_pin(pin);
            self.offer();
        }
    }

    /// The approved tools of all servers, as pinned.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.tools.read().values().map(|tool| tool.clone() as Arc<dyn Tool>).collect()
    }

    /// The approved tools with their origins, ordered by offered name.
    pub fn offered(&self) -> Vec<Offered> {
        let offered = |tool: &Arc<RemoteTool>| Offered {
            server: tool.server.id().to_owned(),
            tool: tool.name.clone(),
            def: tool.def.clone(),
            effect: tool.effect,
        };
        self.0.tools.read().values().map(offered).collect()
    }

    /// The server and tool of an offered name, as used in allow lists.
    pub fn origin(&self, offered: &str) -> Option<(String, String)> {
        let tools = self.0.tools.read();
        tools.get(offered).map(|tool| (tool.server.id().to_owned(), tool.name.clone()))
    }

    /// Ends all servers with their children and sessions, within some seconds. Calls in progress fail, and nothing is
    /// started again.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.servers.read().iter().for_each(|server| server.stop());
        self.0.tasks.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.0.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = self.0.tasks.len(), "stopping the tool servers takes too long");
        }
    }

    fn server(&self, id: &str) -> Option<Arc<Server>> {
        self.0.servers.read().iter().find(|server| server.id() == id).cloned()
    }

    /// Rebuilds the offered tools from the approvals. If two have the same name, the first one is used.
    fn offer(&self) {
        let mut tools = BTreeMap::new();
        for server in self.0.servers.read().iter() {
            for pin in server.pin().into_iter().flat_map(|pin| pin.tools) {
                let Some(def) = pin.def(server.id()) else { continue };
                let name = def.name.clone();
                if tools.contains_key(&name) {
                    tracing::warn!(
                        server = server.id(),
                        tool = pin.name,
                        name,
                        "a tool is left out: another one has the same name"
                    );
                    continue;
                }
                let (effect, destructive) = (pin.effect(), pin.destructive == Some(true));
                let tool = RemoteTool { server: server.clone(), name: pin.name, def, effect, destructive };
                tools.insert(name, Arc::new(tool));
            }
        }
        *self.0.tools.write() = tools;
    }
}

impl Toolset for Servers {
    fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.0.tools.read().get(name).map(|tool| tool.clone() as Arc<dyn Tool>)
    }
}

/// A tool of an approved server, as pinned.
struct RemoteTool {
    server: Arc<Server>,
    name: String,
    def: ToolDef,
    effect: Effect,
    /// Whether its server marks it as destructive.
    destructive: bool,
}

impl Tool for RemoteTool {
    fn def(&self) -> ToolDef {
        self.def.clone()
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn is_destructive(&self) -> bool {
        self.destructive
    }

    /// The time limit of a call. The time of a start is added where the server may have to be started or its session
    /// renewed.
    fn time_limit(&self) -> Option<Duration> {
        let settings = &self.server.settings;
        let is_child = matches!(settings.reach, Reach::Stdio { .. });
        let start =
            if is_child && self.server.is_running() { Duration::ZERO } else { settings.start_timeout };
        Some(settings.call_timeout + start)
    }

    fn call(
        &self,
        _channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        let (server, name) = (self.server.clone(), self.name.clone());
        Box::pin(async move {
            let arguments = match arguments {
                Value::Object(fields) => fields,
                Value::Null => serde_json::Map::new(),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err("the arguments must be a JSON object".to_owned().into());
                }
            };
            let begun = Instant::now();
            let outcome = server.call(&name, arguments).await;
            metrics::histogram!("cairn_mcp_call_seconds", "server" => server.id().to_owned())
                .record(begun.elapsed().as_secs_f64());
            outcome.map_err(|error| ToolFailure {
                timed_out: matches!(error, McpError::TimedOut { .. }),
                message: error.to_string(),
            })
        })
    }
}
