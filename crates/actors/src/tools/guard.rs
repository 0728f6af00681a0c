//! The result guard: a result that is too large for the window becomes an artifact, which is durable before anything refers
//! to it.

use std::sync::Arc;

use cairn_core::agent::AgentSettings;
use cairn_core::artifact::next_id;
use cairn_core::result_guard::{ResultRoom, ResultVerdict, judge, shown, wanted};
use cairn_types::event::{ArtifactEvent, Event, TurnEvent};
use cairn_types::ids::{ArtifactId, Seq};
use cairn_types::message::{Artifact, Entry, Part, Role, ToolCall, text_of};
use cairn_types::ports::StoreError;
use cairn_types::text::checksum::checksum;
use cairn_types::text::edges::{FullTextAt, READ_TOOL, count_lines};
use cairn_types::tool::OutputFile;

use super::files::{self, Outgoing};
use super::{CallResult, Toolbox};
use crate::handle::ChannelHandle;
use crate::messages::draft_entry;
use crate::ports::Ports;

/// Guards the results of one round, which share the free window.
pub(crate) struct ResultGuard<'a> {
    tools: &'a Toolbox,
    settings: &'a AgentSettings,
    /// Room for the results that are still to come.
    pub(crate) room: ResultRoom,
    /// Calls of the round that have not ended.
    n_open: usize,
    /// Artifacts that are stored but not journalled yet.
    n_stored: usize,
    /// Bytes of pictures kept in this round, in base64.
    picture_bytes: usize,
}

/// Most bytes of pictures in one round, in base64: every later request includes them.
const PICTURE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most files that one result may send.
const FILES_MAX: usize = 10;

impl<'a> ResultGuard<'a> {
    /// A guard for a round of this many calls.
    pub(crate) fn new(tools: &'a Toolbox, settings: &'a AgentSettings, n_calls: usize) -> Self {
        let room = tools.handle().read(|conversation| ResultRoom::of(conversation, settings));
        Self { tools, settings, room, n_open: n_calls, n_stored: 0, picture_bytes: 0 }
    }

    /// Divides the room among calls that ended at the same time.
    pub(crate) fn share<'r>(
        &mut self,
        ended: impl IntoIterator<Item = (&'r ToolCall, &'r CallResult)>,
    ) -> ResultRoom {
        let settings = &self.settings.result_guard;
        let wanted: Vec<u64> = ended
            .into_iter()
            .map(|(call, used)| {
                let class = self.tools.class(&call.name, settings);
                wanted(&used.output.words(), class, settings, &self.room)
            })
            .collect();
        self.n_open = self.n_open.saturating_sub(wanted.len());
        self.room.share(&wanted, self.n_open)
    }

    /// Notes that the results so far are journalled, and so are the ids of their artifacts.
    pub(crate) fn journalled(&mut self) {
        self.n_stored = 0;
    }

    /// The events for a result, which may take the room in `share`.
    pub(crate) async fn admit(&mut self, call: ToolCall, used: CallResult, share: &ResultRoom) -> Vec<Event> {
        let settings = &self.settings.result_guard;
        // A page of an artifact is bounded already and is not stored again.
        let (pictures, words): (Vec<Part>, Vec<Part>) =
            used.output.parts.into_iter().partition(|part| matches!(part, Part::Image { .. }));
        let words = text_of(&words);
        let verdict = if call.name == READ_TOOL {
            ResultVerdict::Whole
        } else {
            judge(&words, self.tools.class(&call.name, settings), settings, share)
        };
        let files = self.files(&call.name, used.output.files).await;
        let mut events = used.events;
        events.extend(files.stored.iter().cloned());
        let mut entry: Entry = draft_entry(Role::Tool, self.tools.ports().now());
        let text = if verdict.is_stored() {
            match self.store(&call.name, &words).await {
                Some(artifact) => {
                    let text = shown(&words, verdict, FullTextAt::Artifact(&artifact.id));
                    entry.artifact = Some(artifact.id.clone());
                    events.push(Event::Artifact(ArtifactEvent::Stored { artifact }));
                    text
                }
                None => shown(&words, verdict, FullTextAt::Lost),
            }
        } else {
            words
        };
        let lines: Vec<&str> =
            [text.as_str()].into_iter().chain(files.notes.iter().map(String::as_str)).collect();
        let text = lines.join("\n").trim_start_matches('\n').to_owned();
        self.room.take(&text);
        entry.parts = vec![Part::text(text)];
        entry.provenance = used.provenance;
        for picture in pictures {
            let bytes = match &picture {
                Part::Image { data, .. } => data.len(),
                Part::Text { .. } | Part::File { .. } => 0,
            };
            let shown = self.picture_bytes + bytes <= PICTURE_BYTES_MAX && self.room.take_picture();
            self.picture_bytes += if shown { bytes } else { 0 };
            entry.parts.push(if shown {
                picture
            } else {
                let name = text_of(std::slice::from_ref(&picture));
                Part::text(format!("{name} (left out: the window has no room for it)"))
            });
        }
        let mut sent = Vec::from_iter(files.delivery(self.tools.handle(), &call.id));
        let stay = |events| files::to_stay(&self.tools.handle().id, events);
        entry.files = [&mut events, &mut sent].into_iter().flat_map(stay).collect();
        entry.tool_call_id = Some(call.id);
        events.push(Event::Turn(TurnEvent::EntryAdded { entry }));
        events.extend(sent);
        events
    }

    /// Keeps the files of a result, and decides which of them are sent.
    async fn files(&mut self, tool: &str, given: Vec<OutputFile>) -> Outgoing {
        let (ports, handle) = (self.tools.ports(), self.tools.handle());
        let mut outgoing = Outgoing::default();
        let n_more = given.len().saturating_sub(FILES_MAX);
        for file in given.into_iter().take(FILES_MAX) {
            let (media_type, bytes, is_sent) = (file.media_type.clone(), file.data.len(), file.is_sent);
            let id = handle.read(|conversation| next_id(conversation, self.n_stored));
            match files::keep(ports, handle, id, tool, file).await {
                Ok(artifact) => {
                    self.n_stored += 1;
                    outgoing.add(ports, &handle.id, artifact, is_sent);
                }
                Err(error) => {
                    tracing::error!(channel = %handle.id, tool, bytes, %error,
                        "a tool's file could not be stored and is not sent");
                    outgoing
                        .notes
                        .push(format!("[a file ({media_type}, {bytes} bytes) could not be kept: not sent]"));
                }
            }
        }
        if n_more > 0 {
            outgoing.notes.push(format!("[{n_more} more files: not sent]"));
        }
        outgoing
    }

    /// Stores a result as an artifact. `None`: the store failed, and the turn continues without it.
    async fn store(&mut self, tool: &str, text: &str) -> Option<Artifact> {
        let (ports, handle) = (self.tools.ports(), self.tools.handle());
        let id = handle.read(|conversation| next_id(conversation, self.n_stored));
        match keep(ports, handle, id, Content::Result(tool), text).await {
            Ok(artifact) => {
                self.n_stored += 1;
                Some(artifact)
            }
            Err(error) => {
                tracing::error!(channel = %handle.id, tool, bytes = text.len(), %error,
                    "a large result could not be stored as an artifact; the part that the model does not see is \
                     lost");
                None
            }
        }
    }
}

/// The source of an artifact's text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    Result(&'a str),
    Message(Seq),
}

/// Stores a text as an artifact, which still has to be journalled.
pub(crate) async fn keep(
    ports: &Ports,
    handle: &ChannelHandle,
    id: ArtifactId,
    content: Content<'_>,
    text: &str,
) -> Result<Artifact, StoreError> {
    let (bytes, lines) = (text.len() as u64, count_lines(text));
    if let Err(error) = ports.store.put_artifact(&handle.id, &id, Arc::from(text.as_bytes())).await {
        metrics::counter!("cairn_artifacts_lost_total").increment(1);
        return Err(error);
    }
    tracing::info!(channel = %handle.id, artifact = %id, ?content, bytes, lines, "stored as an artifact");
    metrics::counter!("cairn_artifacts_stored_total").increment(1);
    metrics::counter!("cairn_artifact_bytes_total").increment(bytes);
    let now = ports.now();
    let (tool, message) = match content {
        Content::Result(tool) => (tool.to_owned(), None),
        Content::Message(seq) => (String::new(), Some(seq)),
    };
    Ok(Artifact {
        id,
        tool,
        message,
        sent_in: None,
        bytes,
        sha256: Some(checksum(text.as_bytes())),
        lines,
        stored_at: now,
        used_at: now,
        expired_at: None,
        lost: false,
        file: None,
    })
}
