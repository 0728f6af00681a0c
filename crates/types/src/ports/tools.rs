//! Ports of tools that are not built in.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::ids::ChannelId;
use crate::tool::defs::ToolDef;
use crate::tool::result_class::ResultClass;
use crate::tool::{Effect, ToolFailure, ToolOutput};

/// A tool that agents' models may call, besides the built-in ones. The content of its results counts as text of tools.
pub trait Tool: Send + Sync + 'static {
    /// As models see it. Its name is unique.
    fn def(&self) -> ToolDef;

    /// How its results are treated where the configuration names no class for it.
    fn class(&self) -> ResultClass {
        ResultClass::Auto
    }

    /// What calling it does. By default it may change something.
    fn effect(&self) -> Effect {
        Effect::Changes
    }

    /// Whether it is marked as destructive. `always_allow` then skips its approval only if it names this tool exactly.
    fn is_destructive(&self) -> bool {
        false
    }

    /// Longest that a call may take; `None`: as long as the configuration allows all tools.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Calls it, with arguments that fit its schema. Dropping the future cancels the call, and a server that runs it is told
    /// so.
    ///
    /// # Errors
    /// What went wrong, for the model.
    fn call(
        &self,
        channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>>;
}

/// Checks the arguments of calls before they are made, of built-in tools and of others alike.
pub trait ArgumentCheck: Send + Sync + 'static {
    /// Whether a call may be made with these arguments. `null` counts as no arguments at all, and is to be given to the tool
    /// as an empty object.
    ///
    /// # Errors
    /// Which arguments are wrong, and what is expected; for the model, and short whatever they hold.
    fn check(&self, def: &ToolDef, arguments: &Value) -> Result<(), String>;
}

/// The tools besides the built-in ones, as they are now: they come and go with what an operator approves.
pub trait Toolset: Send + Sync + 'static {
    /// A tool by the name that models know it by.
    fn get(&self, name: &str) -> Option<Arc<dyn Tool>>;

    /// Why there is no tool of that name, and what an operator can do about it; `None`: there is nothing more to say.
    fn why_not(&self, _name: &str) -> Option<String> {
        None
    }
}

impl Toolset for Vec<Arc<dyn Tool>> {
    fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.iter().find(|tool| tool.def().name == name).cloned()
    }
}
