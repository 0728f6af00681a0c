//! The tools of a channel's model, built in or given to the runtime: whether a call may be made, and making it. Every error
//! is reported to the model.

mod builtin;
pub(crate) mod files;
pub(crate) mod guard;

use cairn_core::builtin_tools::{MEMORY_FORGET, MEMORY_SAVE};
use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::result_guard::ResultRoom;
use cairn_core::settings::ResultGuardSettings;
use cairn_types::event::Event;
use cairn_types::memory::SpokenWords;
use cairn_types::message::{Provenance, ToolCall};
use cairn_types::ports::{Tool, Toolset};
use cairn_types::texts::{Key, Saying};
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::result_class::ResultClass;
use cairn_types::tool::{Effect, NAME_MAX, ToolOutcome, ToolOutput, is_name};
use serde_json::Value;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::client_tools::ClientTools;
use crate::handle::ChannelHandle;
use crate::live::Live;
use crate::ports::Ports;
use crate::tasks::{Ended, Tasks};
use crate::telemetry;
use builtin::{Builtin, Output};
use cairn_core::builtin_tools::{builtin_tools, effect_of_builtin, is_builtin};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTool {
    /// Two tools have this name, or a built-in one does.
    #[error("there are two tools of the name `{0}`; give one of them another name")]
    Twice(String),
    /// Model servers would refuse this name.
    #[error("`{0}` is no name for a tool: it has 1 to 64 of the characters A-Z a-z 0-9 _ -")]
    Name(String),
}

/// Definitions of the built-in tools and the others. They are sorted, so that their order is the same at every start.
///
/// # Errors
/// A name is taken, or no model server would accept it.
pub fn all_tools(others: &[Arc<dyn Tool>]) -> Result<Vec<ToolDef>, BadTool> {
    let mut tools = builtin_tools();
    let mut names: BTreeSet<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    let mut more: Vec<ToolDef> = others.iter().map(|tool| tool.def()).collect();
    more.sort_by(|a, b| a.name.cmp(&b.name));
    for tool in &more {
        if !is_name(&tool.name) {
            return Err(BadTool::Name(tool.name.chars().take(NAME_MAX).collect()));
        }
        if !names.insert(tool.name.clone()) {
            return Err(BadTool::Twice(tool.name.clone()));
        }
    }
    tools.extend(more);
    Ok(tools)
}

/// Whether a call may be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ready,
    /// Needs an approval, but this entry of `always_allow` permits it.
    Allowed(String),
    /// Needs an approval, for this reason.
    Asks(Saying),
    /// Is not made, for this reason.
    Refused(String),
}

pub(crate) struct CallResult {
    /// The whole result; for a failed call, the error.
    pub(crate) output: ToolOutput,
    pub(crate) outcome: ToolOutcome,
    pub(crate) error: Option<String>,
    pub(crate) provenance: Provenance,
    /// Events to journal with the result.
    pub(crate) events: Vec<Event>,
}

impl CallResult {
    pub(crate) fn not_made(outcome: ToolOutcome, reason: String) -> Self {
        Self::failed(outcome, reason, Provenance::default())
    }

    pub(crate) fn failed(outcome: ToolOutcome, error: String, provenance: Provenance) -> Self {
        let output = ToolOutput::text(format!("error: {error}"));
        Self { output, outcome, error: Some(error), provenance, events: Vec::new() }
    }
}

pub(crate) struct Toolbox {
    builtin: Builtin,
    live: Arc<Live>,
    tasks: Tasks,
    /// The tools of the client that waits for the turn.
    client: Option<Arc<ClientTools>>,
}

impl Toolbox {
    /// `live` limits how long a call may take; `tasks` runs the tools that are not built in.
    pub(crate) fn new(
        ports: Arc<Ports>,
        live: Arc<Live>,
        tasks: Tasks,
        handle: Arc<ChannelHandle>,
        client: Option<Arc<ClientTools>>,
    ) -> Self {
        Self { builtin: Builtin::new(ports, handle), live, tasks, client }
    }

    /// A tool of the client, unless the agent has one of that name.
    fn of_client(&self, name: &str, settings: &AgentSettings) -> Option<(&ClientTools, &ToolDef)> {
        let client = self.client.as_deref().filter(|_| settings.tools.iter().all(|own| own.name != name))?;
        Some((client, client.get(name)?))
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.builtin.ports
    }

    pub(crate) fn handle(&self) -> &ChannelHandle {
        &self.builtin.handle
    }

    pub(crate) fn is_of_client(&self, name: &str) -> bool {
        self.of_client(name, &self.handle().settings()).is_some()
    }

    fn other(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.ports().tools.get(name)
    }

    /// The class of a tool's results: from the configuration, else from the tool.
    pub(crate) fn class(&self, name: &str, settings: &ResultGuardSettings) -> ResultClass {
        let own = || self.other(name).map_or(ResultClass::Auto, |tool| tool.class());
        settings.class(name).unwrap_or_else(own)
    }

    /// Decides whether a call may be made, given the provenance of the window. `grounds`: what people and tools said in it.
    pub(crate) fn weigh(
        &self,
        call: &ToolCall,
        provenance: &Provenance,
        grounds: &SpokenWords,
    ) -> (Effect, Verdict) {
        let settings = self.handle().settings();
        if let Some((_, def)) = self.of_client(&call.name, &settings) {
            // The client decides what its tools do.
            let checked = self.ports().arguments.check(def, &call.arguments);
            return (Effect::Changes, checked.err().map_or(Verdict::Ready, Verdict::Refused));
        }
        let Some(def) = settings.tools.iter().find(|tool| tool.name == call.name) else {
            let names: Vec<_> = settings.tools.iter().map(|tool| tool.name.as_str()).collect();
            let name: String = call.name.chars().take(100).collect();
            let reason = match self.ports().tools.why_not(&name) {
                Some(why) => format!("`{name}` cannot be called: {why}"),
                None if names.is_empty() => "no tools can be called here; answer in words".to_owned(),
                None => format!("there is no tool `{name}`; the tools are {}", names.join(", ")),
            };
            return (Effect::Changes, Verdict::Refused(reason));
        };
        let effect = effect_of(&*self.ports().tools, &call.name);
        if let Err(reason) = self.ports().arguments.check(def, &call.arguments) {
            return (effect, Verdict::Refused(reason));
        }
        let objection = if call.name == MEMORY_SAVE {
            let field = |name: &str| call.arguments.get(name).and_then(Value::as_str).unwrap_or_default();
            grounds
                .is_from_tools(&format!("{} {}", field("subject"), field("text")))
                .then(|| Key::ReasonToolsMemory.into())
        } else if call.name == MEMORY_FORGET {
            // People ask for themselves; what others wrote, whom nobody knows, may ask in their name.
            let others = Provenance { people: BTreeSet::new(), ..provenance.clone() };
            settings.trust.objection(effect, &others)
        } else if is_builtin(&call.name) {
            None
        } else {
            settings.trust.objection(effect, provenance)
        };
        let verdict = match objection {
            None => Verdict::Ready,
            Some(reason) => match settings.trust.allowed_by(&call.name, self.must_be_named(&call.name)) {
                Some(entry) => Verdict::Allowed(entry.to_owned()),
                None => Verdict::Asks(reason),
            },
        };
        (effect, verdict)
    }

    /// Whether `always_allow` permits a tool only by its own name: it is destructive, or what it saves outlives the
    /// conversation.
    fn must_be_named(&self, tool: &str) -> bool {
        tool == MEMORY_SAVE
            || tool == MEMORY_FORGET
            || self.other(tool).is_some_and(|tool| tool.is_destructive())
    }

    /// Calls a tool. `room`: the space in the window for its result.
    pub(crate) async fn call(
        &self,
        call: &ToolCall,
        model: &str,
        ordinal: usize,
        room: &ResultRoom,
    ) -> CallResult {
        if let Some((client, _)) = self.of_client(&call.name, &self.handle().settings()) {
            return client.call(call).await;
        }
        let used = match self.other(&call.name).filter(|_| !is_builtin(&call.name)) {
            Some(tool) => self.call_other(tool, call).await,
            None => self.call_own(call, model, ordinal, room).await,
        };
        if let Some(error) = &used.error {
            tracing::debug!(channel = %self.handle().id, tool = call.name, error, "a tool call failed");
        }
        used
    }

    async fn call_own(&self, call: &ToolCall, model: &str, ordinal: usize, room: &ResultRoom) -> CallResult {
        let limit = self.live.limits().tool_timeout;
        match tokio::time::timeout(limit, self.builtin.call(call, model, ordinal, room)).await {
            Ok(Ok(Output { text, provenance, events })) => CallResult {
                output: ToolOutput::text(text),
                outcome: ToolOutcome::Done,
                error: None,
                provenance,
                events,
            },
            Ok(Err(error)) => CallResult::failed(ToolOutcome::Failed, error, Provenance::default()),
            Err(_) => {
                let error = format!("`{}` took longer than {} s", call.name, limit.as_secs());
                CallResult::failed(ToolOutcome::TimedOut, error, Provenance::default())
            }
        }
    }

    /// Calls a tool that is not built in, as a watched task. A panic in it is an error like any other, and at its time
    /// limit it is dropped.
    async fn call_other(&self, tool: Arc<dyn Tool>, call: &ToolCall) -> CallResult {
        let (name, limit) = (&call.name, tool.time_limit().unwrap_or(self.live.limits().tool_timeout));
        let (channel, arguments) = (self.handle().id.clone(), given(&call.arguments));
        let token = self.tasks.token();
        let _cancel = token.clone().drop_guard();
        let (told, done) = oneshot::channel();
        let work = async move { tool.call(channel, arguments).await };
        let work = work.instrument(telemetry::tool_span(name));
        self.tasks.watch(token, work, move |ended| drop(told.send(ended)));
        let failed = |outcome, error| CallResult::failed(outcome, error, Provenance::of_tools());
        match tokio::time::timeout(limit, done).await {
            Err(_) => {
                let error = format!("`{name}` took longer than {} s", limit.as_secs());
                failed(ToolOutcome::TimedOut, error)
            }
            Ok(Ok(Ended::Done(Ok(output)))) => CallResult {
                output,
                outcome: ToolOutcome::Done,
                error: None,
                provenance: Provenance::of_tools(),
                events: Vec::new(),
            },
            Ok(Ok(Ended::Done(Err(failure)))) => failed(failure.outcome(), failure.message),
            Ok(Ok(Ended::Panicked(_))) => {
                tracing::error!(channel = %self.handle().id, tool = name, "a tool panicked; please report it");
                metrics::counter!("cairn_tool_panics_total", "tool" => name.clone()).increment(1);
                failed(ToolOutcome::Failed, format!("`{name}` broke down; do without it"))
            }
            Ok(Ok(Ended::Cancelled) | Err(_)) => {
                failed(ToolOutcome::Stopped, format!("`{name}` was stopped"))
            }
        }
    }
}

/// Tools get an empty object instead of no arguments.
fn given(arguments: &Value) -> Value {
    if arguments.is_null() { Value::Object(serde_json::Map::new()) } else { arguments.clone() }
}

pub(crate) fn effect_of(tools: &dyn Toolset, name: &str) -> Effect {
    match name {
        name if is_builtin(name) => effect_of_builtin(name),
        name => tools.get(name).map_or(Effect::Changes, |tool| tool.effect()),
    }
}
