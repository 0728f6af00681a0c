//! One round of tool calls.

use cairn_core::message::ToolCall;
use cairn_core::ports::TurnFailure;

use super::Turn;
use crate::tools::{Guard, Toolbox};

impl Turn {
    /// Calls the tools one after the other and journals all results together, each as the result guard leaves it.
    pub(super) async fn use_tools(
        &self,
        tools: &Toolbox,
        model: &str,
        calls: Vec<ToolCall>,
    ) -> Result<(), TurnFailure> {
        let hub = &self.args.cell.hub;
        let mut guard = Guard::new(tools, &self.settings);
        let mut events = Vec::new();
        for (ordinal, call) in calls.into_iter().enumerate() {
            hub.tool(&call.name, "started");
            let used = tools.call(&call, model, ordinal, &guard.room).await;
            hub.tool(&call.name, if used.failed { "failed" } else { "done" });
            events.extend(guard.admit(call, used).await);
        }
        self.step(events).await
    }
}
