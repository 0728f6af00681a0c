//! Frames: what many model calls have in common, kept once.

use cairn_types::ids::TextId;
use cairn_types::tool::defs::ToolDefs;
use cairn_types::trace::CallFrame;
use cairn_types::wire::format::{KeptText, Wire};

use crate::agent::AgentSettings;

/// The frame of a request with these settings: all texts that it refers to, including itself, and its id.
pub fn frame_of(
    settings: &AgentSettings,
    prompt: &str,
    instructions: Option<&str>,
    tools: &ToolDefs,
    wire: Wire,
) -> (Vec<KeptText>, TextId) {
    let prompt = KeptText::of(prompt);
    let instructions = instructions.map(KeptText::of);
    let tools = (!tools.is_empty()).then(|| tools.kept().clone());
    let frame = CallFrame {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        prompt: prompt.id.clone(),
        instructions: instructions.as_ref().map(|instructions| instructions.id.clone()),
        tools: tools.as_ref().map(|tools| tools.id.clone()),
        engine: settings.engine.clone(),
        timezone: settings.timezone.clone(),
        window_tokens: settings.window.window_tokens,
        reserve_tokens: settings.window.output_reserve_tokens,
        wire,
    };
    let frame = KeptText::of(&serde_json::to_string(&frame).unwrap_or_default());
    let id = frame.id.clone();
    (std::iter::once(prompt).chain(instructions).chain(tools).chain([frame]).collect(), id)
}
