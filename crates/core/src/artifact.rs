//! Artifacts: large tool results and messages, kept outside of the window and referred to by id.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;
use crate::result_guard::{ResultRoom, beginning};
use crate::settings::ResultGuardSettings;
use cairn_types::event::ArtifactEvent;
use cairn_types::ids::{ArtifactId, MessageId, Seq};
use cairn_types::message::Artifact;
use cairn_types::ports::ArtifactLines;
use cairn_types::text::checksum::checksum;
use cairn_types::text::escape::short_date;

#[cfg(test)]
mod tests;

/// Most bytes of the lines around a page.
pub const PAGE_FRAME_BYTES: usize = 300;

/// Why an artifact cannot be read, in words for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoArtifact {
    /// This channel never had it. Artifacts of other channels do not count.
    #[error("there is no artifact `{id}` in this channel; {known}")]
    Unknown { id: String, known: String },
    #[error("artifact {id} expired on {on}, {}; call the tool again for its result", why_expired(*days))]
    Expired { id: ArtifactId, on: String, days: i64 },
    /// It was a copy of a message that has left the window.
    #[error(
        "artifact {id} was a copy of message {seq}, which has left the window; read that with history_read"
    )]
    Left { id: ArtifactId, seq: Seq },
    /// Its file is missing or damaged.
    #[error("the words of artifact {id} are lost; {instead}")]
    Lost { id: ArtifactId, instead: String },
    #[error("artifact {id} has {lines} lines: there is no line {from}")]
    PastItsEnd { id: ArtifactId, lines: u64, from: u64 },
}

/// The error for an artifact whose file is lost, with another way to get at the text.
pub fn lost(artifact: &Artifact) -> NoArtifact {
    let instead = match artifact.message {
        Some(seq) => format!("read message {seq} with history_read"),
        None => "call the tool again".to_owned(),
    };
    NoArtifact::Lost { id: artifact.id.clone(), instead }
}

/// Folds an event into its artifact.
pub fn note(artifact: &mut Artifact, at: Timestamp, event: &ArtifactEvent) {
    match event {
        ArtifactEvent::Stored { artifact: stored } => artifact.clone_from(stored),
        ArtifactEvent::Used { .. } => artifact.used_at = at,
        ArtifactEvent::Expired { lost, .. } => {
            artifact.expired_at = Some(at);
            artifact.lost = *lost;
        }
    }
}

/// No artifact expires by its age within a day of being read.
fn why_expired(days: i64) -> String {
    match days {
        0 => "since newer ones of this channel needed its room".to_owned(),
        1 => "a day after it was last read".to_owned(),
        days => format!("{days} days after it was last read"),
    }
}

/// Folds an event into the artifacts of a channel.
pub fn fold(artifacts: &mut BTreeMap<ArtifactId, Artifact>, at: Timestamp, event: &ArtifactEvent) {
    if let ArtifactEvent::Stored { artifact } = event {
        artifacts.insert(artifact.id.clone(), artifact.clone());
    }
    for id in event.ids() {
        if let Some(artifact) = artifacts.get_mut(id) {
            note(artifact, at, event);
        }
    }
}

/// The number in an id.
pub(crate) fn ordinal(id: &ArtifactId) -> Option<u64> {
    id.as_str().strip_prefix('a')?.parse().ok()
}

/// The id of the artifact that is stored after `before` others which are not journalled yet. None is ever used twice.
pub fn next_id(conversation: &Conversation, before: usize) -> ArtifactId {
    // An entry may name one whose own record was lost.
    let named = conversation.live.iter().filter_map(|entry| entry.artifact.as_ref());
    let last = named.filter_map(ordinal).max().unwrap_or(0).max(conversation.newest_artifact);
    ArtifactId::from(format!("a{}", last + 1 + before as u64))
}

/// The id of a recording that came with a message, `before` others of it. A message that comes again gives the same ids, so
/// that nothing is stored twice; the message's own id, which may name a person, is not to be read from it.
pub fn recording_id(message: &MessageId, before: usize) -> ArtifactId {
    let hash = &checksum(message.as_str().as_bytes())[..10];
    ArtifactId::from(if before == 0 { format!("r{hash}") } else { format!("r{hash}.{}", before + 1) })
}

/// The id that somebody meant, however they wrote it.
pub fn named(id: &str) -> ArtifactId {
    ArtifactId::from(id.trim())
}

/// Checks that an artifact can be read from a line on. `found`: what the store has under that id; `newest`: see
/// [`Conversation::newest_artifact`].
///
/// # Errors
/// It cannot be read, with the reason and what to do instead.
pub fn readable(found: Option<Artifact>, newest: u64, id: &str, from: u64) -> Result<Artifact, NoArtifact> {
    let id = id.trim();
    let Some(artifact) = found else {
        let known = match newest {
            0 => "it has none".to_owned(),
            1 => "its only one is a1".to_owned(),
            n => format!("it has {n}, the newest is a{n}"),
        };
        return Err(NoArtifact::Unknown { id: id.chars().take(40).collect(), known });
    };
    if artifact.lost {
        return Err(lost(&artifact));
    }
    if let (Some(seq), Some(_)) = (artifact.message, artifact.expired_at) {
        return Err(NoArtifact::Left { id: artifact.id.clone(), seq });
    }
    if let Some(at) = artifact.expired_at {
        let days = at.duration_since(artifact.used_at).as_hours() / 24;
        return Err(NoArtifact::Expired { id: artifact.id.clone(), on: short_date(at), days });
    }
    if from > artifact.lines.max(1) {
        return Err(NoArtifact::PastItsEnd { id: artifact.id.clone(), lines: artifact.lines, from });
    }
    Ok(artifact)
}

/// The artifacts of a channel that expire now, sorted by id: those that nobody has read for `artifact_days`, and of the
/// rest, while they take more than `artifact_mib`, those that were read longest ago. Copies of messages stay while the
/// window shows the message: the history has the whole text anyway. Recordings are files like any other.
pub fn due(
    artifacts: &[Artifact],
    conversation: &Conversation,
    settings: &ResultGuardSettings,
    now: Timestamp,
) -> Vec<ArtifactId> {
    let kept = artifacts.iter().filter(|artifact| artifact.expired_at.is_none());
    let (copies, mut kept): (Vec<&Artifact>, Vec<&Artifact>) =
        kept.partition(|artifact| artifact.message.is_some() && artifact.file.is_none());
    kept.sort_by_key(|artifact| (artifact.used_at, ordinal(&artifact.id)));
    let age = SignedDuration::from_hours(24 * i64::from(settings.artifact_days));
    let most = match settings.artifact_mib {
        0 => u64::MAX,
        mib => mib.saturating_mul(1024 * 1024),
    };
    let mut bytes: u64 = kept.iter().map(|artifact| artifact.bytes).sum();
    let is_shown = |seq: Seq| conversation.pruned.contains_key(&seq);
    let left = copies.into_iter().filter(|artifact| !artifact.message.is_some_and(is_shown));
    let mut due: Vec<ArtifactId> = left.map(|artifact| artifact.id.clone()).collect();
    for artifact in kept {
        let is_old = settings.artifact_days > 0 && now.duration_since(artifact.used_at) >= age;
        if is_old || bytes > most {
            bytes -= artifact.bytes;
            due.push(artifact.id.clone());
        }
    }
    due.sort_by_key(ordinal);
    due
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOn {
    /// The line, counted from 1.
    pub from: u64,
    /// Bytes of that line that were read already.
    pub offset: u64,
}

/// Where to continue after `shown`, the beginning of what was found from line `from` on; `None` at the artifact's end.
pub fn read_on(artifact: &Artifact, from: u64, found: &ArtifactLines, shown: &str) -> Option<ReadOn> {
    let next = if shown.len() < found.text.len() {
        let breaks = shown.bytes().filter(|byte| *byte == b'\n').count() as u64;
        let in_line = shown.rfind('\n').map_or(shown.len(), |idx| shown.len() - idx - 1) as u64;
        let offset = if breaks == 0 { found.offset } else { 0 };
        ReadOn { from: from + breaks, offset: offset + in_line }
    } else if found.cut_bytes > 0 {
        ReadOn { from, offset: found.offset + found.text.len() as u64 }
    } else {
        ReadOn { from: from + found.lines, offset: 0 }
    };
    (next.from <= artifact.lines).then_some(next)
}

/// A page of an artifact, as a tool result that the result guard leaves as it is.
pub fn page(artifact: &Artifact, from: u64, found: &ArtifactLines, room: &ResultRoom) -> String {
    let shown = beginning(&found.text, room);
    let next = read_on(artifact, from, found, shown);
    let (id, lines) = (&artifact.id, artifact.lines);
    let first = match found.offset {
        0 => format!("line {from}"),
        offset => format!("line {from}, byte {offset}"),
    };
    let end = match next {
        None => format!("[end of artifact {id}]"),
        Some(ReadOn { from, offset: 0 }) => {
            format!("[artifact {id} goes on: call artifact_read with id = \"{id}\", from = {from}]")
        }
        Some(ReadOn { from, offset }) => format!(
            "[line {from} of artifact {id} goes on: call artifact_read with id = \"{id}\", from = {from}, offset = {offset}]"
        ),
    };
    // Cut after a line, its break is there already.
    let shown =
        shown.strip_suffix('\n').filter(|_| next.is_some_and(|next| next.offset == 0)).unwrap_or(shown);
    format!("[artifact {id} from {first}, of {lines} lines]\n{shown}\n{end}")
}
