//! Two tools: one that looks, with results of all sizes, and one that changes something, which is never done twice.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::ChannelId;
use cairn_types::ports::Tool;
use cairn_types::tool::defs::ToolDef;
use cairn_types::tool::{Effect, ToolFailure, ToolOutput};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::scene::Scene;
use super::words;

pub(super) struct SimTool {
    pub(super) scene: Arc<Scene>,
    pub(super) effect: Effect,
}

impl Tool for SimTool {
    fn def(&self) -> ToolDef {
        let name = if self.effect == Effect::Reads { "look" } else { "alter" };
        let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        ToolDef { name: name.to_owned(), description: "for tests".to_owned(), parameters }
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn call(
        &self,
        channel: ChannelId,
        arguments: Value,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        let (scene, effect) = (Arc::clone(&self.scene), self.effect);
        Box::pin(async move {
            let n = arguments["n"].as_u64().unwrap_or_default();
            if effect == Effect::Changes {
                scene.checks.lock().altered(&scene, n);
            }
            scene.step(|| format!("call {n} in {channel}")).await;
            let failure = |timed_out| Err(ToolFailure { message: "it failed".to_owned(), timed_out });
            match fastrand::u8(..12) {
                0 => failure(false),
                1 => {
                    tokio::time::sleep(Duration::from_secs(fastrand::u64(1..200))).await;
                    failure(true)
                }
                2 => Ok(ToolOutput::text(words(1_500))),
                _ => Ok(ToolOutput::text(words(20))),
            }
        })
    }
}
