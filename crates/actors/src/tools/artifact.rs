//! `artifact_read`: reading on in a result that is kept outside of the window.

use cairn_core::artifact::{PAGE_FRAME_BYTES, READ_TOOL, page, readable};
use cairn_core::event::Event;
use cairn_core::model::ToolDef;
use cairn_core::ports::LineRange;
use cairn_core::provenance::Provenance;
use cairn_core::result_guard::Room;
use cairn_core::settings::ResultGuardSettings;
use serde_json::{Value, json};

use super::call::Found;
use super::{Toolbox, text_argument};

pub(super) const NAME: &str = READ_TOOL;

pub(super) fn definition() -> ToolDef {
    ToolDef {
        name: NAME.to_owned(),
        description:
            "Read on in a large result of a tool, or a large message, that is not shown whole: the note in it names \
             the artifact and the line to read on from."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "the artifact, such as a1" },
                "from": { "type": "integer", "minimum": 1, "description": "first line; 1 when left out" },
                "count": { "type": "integer", "minimum": 1, "description": "most lines; as many as fit when left out" },
                "offset": { "type": "integer", "minimum": 0, "description": "bytes of the first line to pass over" }
            },
            "required": ["id"]
        }),
    }
}

impl Toolbox {
    pub(super) async fn artifact_read(
        &self,
        arguments: &Value,
        settings: &ResultGuardSettings,
        room: &Room,
    ) -> Result<Found, String> {
        let id = text_argument(arguments, "id")?;
        let number = |name: &str, least: u64, default: u64| match arguments.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => value
                .as_u64()
                .filter(|n| *n >= least)
                .ok_or_else(|| format!("`{name}` is not a whole number from {least} on")),
        };
        let (from, count) = (number("from", 1, 1)?, number("count", 1, u64::MAX)?);
        let offset = number("offset", 0, 0)?;
        let artifact = self.handle.read(|conversation| readable(conversation, &id, from));
        let artifact = artifact.map_err(|error| error.to_string())?;
        let max_bytes = settings.max_bytes.saturating_sub(PAGE_FRAME_BYTES).max(PAGE_FRAME_BYTES);
        let range = LineRange { from, offset, count, max_bytes };
        let found = self.shared.deps.store.artifact_lines(&self.handle.id, &artifact.id, range).await;
        let Some(found) = found.map_err(|error| error.to_string())? else {
            tracing::error!(channel = %self.handle.id, artifact = %artifact.id,
                "the file of an artifact is missing; its words are lost (`cairn store verify` lists what is)");
            let other = match artifact.message {
                Some(seq) => format!("read message {seq} with history_read"),
                None => "call the tool again".to_owned(),
            };
            return Err(format!("the words of artifact {} are lost; {other}", artifact.id));
        };
        let used = Event::ArtifactUsed { id: artifact.id.clone() };
        let text = page(&artifact, from, &found, room);
        let provenance = match artifact.message {
            Some(seq) => self.handle.read(|conversation| {
                let said = conversation.live.iter().find(|entry| entry.seq == seq);
                said.map_or_else(Provenance::of_strangers, |entry| Provenance::of_entry(entry))
            }),
            // Whoever wrote what the tool returned then.
            None => Provenance::of_tools(),
        };
        Ok(Found { text, provenance, events: vec![used] })
    }
}
