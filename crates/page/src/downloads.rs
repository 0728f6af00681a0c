//! Files of conversations: what people sent with messages, and what they were handed, with links to its bytes.

use axum::extract::{Path, State};
use cairn_api::records::{EntryRecord, FileRecord, PartRecord};
use cairn_api::text::{bytes, counted, one_line, plain};
use cairn_server::api::Shared;
use cairn_server::api::files::{self, Download};
use cairn_types::ids::{ChannelId, Seq};
use maud::{Markup, html};

use crate::error::PageError;
use crate::links::{artifact_path, file_path};

/// `GET /channels/{channel}/entries/{seq}/files/{n}`: a file that people were handed.
pub(super) async fn of_entry(
    State(admin): State<Shared>,
    Path((channel, seq, n)): Path<(String, u64, usize)>,
) -> Result<Download, PageError> {
    Ok(files::of_entry(&admin, &admin.resolve(&channel)?, Seq(seq), n).await?)
}

/// `GET /channels/{channel}/artifacts/{id}`: a whole result or message.
pub(super) async fn of_artifact(
    State(admin): State<Shared>,
    Path((channel, id)): Path<(String, String)>,
) -> Result<Download, PageError> {
    Ok(files::of_artifact(&admin, &admin.resolve(&channel)?, &id).await?)
}

/// The files that people were handed with entries.
pub(super) fn handed(channel: &ChannelId, records: &[&EntryRecord]) -> Markup {
    let mut files = Vec::new();
    for record in records {
        let Some(seq) = record.seq else { continue };
        files.extend(record.files.iter().enumerate().map(|(n, file)| (file_path(channel, seq, n), file)));
    }
    html! {
        @if !files.is_empty() {
            ul.files aria-label="Files" { @for (path, file) in &files { li { (one(path, file)) } } }
        }
    }
}

fn one(path: &str, FileRecord { file, gone }: &FileRecord) -> Markup {
    let name = one_line(&file.name);
    // What is no picture by its first bytes is downloaded all the same.
    let is_picture = files::is_image_type(&file.media_type);
    html! {
        @if *gone { (name) " (" (size(file.bytes)) ", no longer there)" }
        @else {
            @if is_picture { img src=(path) alt=(one_line(file.alt.as_deref().unwrap_or(&file.name))) loading="lazy"; }
            a href=(path) download=(name) { (name) } " (" (one_line(&file.media_type)) ", " (size(file.bytes)) ")"
        }
        @if let Some(alt) = &file.alt { div.note { (plain(alt)) } }
    }
}

fn size(n: u64) -> String {
    if n < 1 << 10 { counted(n, "byte", "bytes") } else { bytes(n) }
}

/// The files that came with a message: names, and the text that was read from them folded.
pub(super) fn attached(record: &EntryRecord) -> Markup {
    let parts: Vec<&PartRecord> = record.parts.iter().filter(|part| part.kind != "text").collect();
    html! {
        @if !parts.is_empty() {
            ul.files aria-label="Attached files" {
                @for part in parts {
                    @let name = one_line(part.name.as_deref().unwrap_or("unnamed"));
                    li {
                        @if let Some(text) = &part.text {
                            details { summary { (part.kind) ": " (name) } pre.said tabindex="0" { (plain(text)) } }
                        } @else { (part.kind) ": " (name) }
                    }
                }
            }
        }
    }
}

/// A link to the whole of a result or message of which the transcript has a part.
pub(super) fn whole(channel: &ChannelId, record: &EntryRecord) -> Markup {
    html! {
        @if let Some(id) = &record.artifact {
            p.note { a href=(artifact_path(channel, id)) download={ (id) ".txt" } { "Download the whole text" } }
        }
    }
}
