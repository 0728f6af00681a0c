//! Files that people attach.

use cairn_core::message::Part;

use super::wire::Attached;

/// Reads attachments.
pub(super) struct Files;

impl Files {
    /// A file as a part of a message.
    pub(super) async fn part(&self, attached: &Attached, _pictures: bool) -> Part {
        Part::File {
            name: super::text::name(&attached.filename),
            media_type: attached.content_type.clone(),
            text: None,
        }
    }
}
