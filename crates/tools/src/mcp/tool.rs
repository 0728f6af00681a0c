//! A tool of a server, as the turn knows tools.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::ids::ChannelId;
use cairn_core::model::ToolDef;
use cairn_core::ports::Tool;
use cairn_core::tool::{Effect, ToolFailure, ToolOutput};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use super::server::Server;
use super::settings::Reach;
use super::status::McpError;

/// A tool of an approved server, from its pin.
pub(super) struct RemoteTool {
    pub server: Arc<Server>,
    pub name: String,
    pub def: ToolDef,
    pub effect: Effect,
    /// Its server marks it as destroying something.
    pub destructive: bool,
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

    /// That of a call; where the server may have to be started for it, or its session begun again, with the time of a start.
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
