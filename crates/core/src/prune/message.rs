//! Messages that are sent by head and tail, while the whole is kept: those of the open turn that are larger than what the
//! window takes beside prompt, tools and the stack, and those with a long file, in which the model reads on.

use std::sync::Arc;

use super::form::{as_sent, words};
use super::plan::Batch;
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::result_guard::ResultRoom;
use crate::window::{Place, frame_tokens, measure, stack_tokens};
use cairn_types::event::{ArtifactEvent, Event, PruneCause, PruneForm, PrunedResult};
use cairn_types::ids::ArtifactId;
use cairn_types::message::{Artifact, Entry, Part, Role, entry_tokens};
use cairn_types::text::edges::READ_TOOL;
use cairn_types::tier::Tier;
use cairn_types::tokens::Correction;

/// Bytes of a shortened message at the least: the note with a few words before and after it. What has no room for that is
/// left to the last resort, which cuts the request.
const LEAST_BYTES: usize = 700;

/// Bytes of a token at the most: where the search for a size begins.
const TOKEN_BYTES: u64 = 16;

/// Share of their room that messages get which are larger than it: the rest is for what was said before, for results of
/// tools, and for reading on.
const SHOWN_SHARE: f64 = 0.5;

/// Share of what prompt and tools leave that messages have at the least, however full the rest is.
const ROOM_MIN: f64 = 0.25;

/// Longest text of a file that a request, or the transcript of a run, has whole, in bytes.
pub(crate) const FILE_BYTES: usize = 64 << 10;

/// Tokens, after correction, that a message with a longer file takes.
const FILE_TOKENS: u64 = 16_000;

/// A message that is to be sent shorter.
#[derive(Debug, Clone)]
pub struct LargeMessage {
    pub entry: Arc<Entry>,
    /// The artifact that holds the whole of it already.
    pub artifact: Option<ArtifactId>,
    /// Tokens, after correction, that it may take.
    limit: u64,
}

impl LargeMessage {
    /// All of its words, with those of its files: what its artifact holds.
    pub fn words(&self) -> String {
        words(&self.entry)
    }
}

/// The messages that are to be sent shorter: those with a long file, if the agent can read on in it; where there is none, those
/// of the open turn for which the emergency would not make enough room. With everything else gone but prompt, tools and a full
/// stack, they would still fill the window to its threshold.
pub fn too_large(conversation: &Conversation, agent: &AgentSettings) -> Vec<LargeMessage> {
    let Some(open) = &conversation.open_turn else { return Vec::new() };
    let with_files = with_long_files(conversation, agent);
    if !with_files.is_empty() {
        return with_files;
    }
    if measure(conversation, agent).tier < Tier::Emergency {
        return Vec::new();
    }
    let correction = conversation.correction(&agent.model);
    let of_turn: Vec<&Arc<Entry>> =
        conversation.live.iter().filter(|entry| entry.role == Role::User && entry.turn == open.id).collect();
    let weigh = |entry: &Arc<Entry>| correction.apply(conversation.weight(entry));
    let weights: Vec<u64> = of_turn.iter().map(|entry| weigh(entry)).collect();
    let room = room(conversation, agent, &correction);
    if weights.iter().sum::<u64>() <= room {
        return Vec::new();
    }
    let tokens = (room as f64 * SHOWN_SHARE) as u64;
    let limit = ResultRoom { tokens, correction }.share(&weights, 0).tokens;
    let larger = of_turn.into_iter().zip(weights).filter(|(_, weight)| *weight > limit);
    larger.map(|(entry, _)| large_message(conversation, entry, limit)).collect()
}

fn large_message(conversation: &Conversation, entry: &Arc<Entry>, limit: u64) -> LargeMessage {
    let artifact = conversation.artifact_of(entry.seq).filter(|artifact| artifact.expired_at.is_none());
    let artifact = artifact.map(|artifact| artifact.id.clone());
    LargeMessage { entry: Arc::clone(entry), artifact, limit }
}

/// The messages with a file that is longer than [`FILE_BYTES`] and is still sent whole.
fn with_long_files(conversation: &Conversation, agent: &AgentSettings) -> Vec<LargeMessage> {
    if !reads_on(agent) {
        return Vec::new();
    }
    let is_due = |entry: &&Arc<Entry>| {
        entry.role == Role::User
            && entry.parts.iter().any(is_long_file)
            && !conversation.pruned.contains_key(&entry.seq)
    };
    let correction = conversation.correction(&agent.model);
    let shown = room(conversation, agent, &correction) as f64 * SHOWN_SHARE;
    let due = conversation.live.iter().filter(is_due);
    due.map(|entry| large_message(conversation, entry, FILE_TOKENS.min(shown as u64)))
        // Beside its pictures there may be no room for any of its text.
        .filter(|message| shortened(message, &correction, None).is_some())
        .collect()
}

pub(crate) fn is_long_file(part: &Part) -> bool {
    matches!(part, Part::File { text: Some(text), .. } if text.len() > FILE_BYTES)
}

fn reads_on(agent: &AgentSettings) -> bool {
    agent.tools.iter().any(|tool| tool.name == READ_TOOL)
}

/// Tokens, after correction, that the messages of one turn can have.
fn room(conversation: &Conversation, agent: &AgentSettings, correction: &Correction) -> u64 {
    let usable = agent.window.usable_tokens() as f64;
    let frame = correction.apply(frame_tokens(agent) + Place::of(conversation).tokens()) as f64;
    let stack = correction.apply(stack_tokens(conversation, agent)) as f64;
    let stack = stack.max(agent.compaction.stack_share * usable);
    let most = agent.compaction.emergency_threshold * usable - frame - stack;
    most.max((usable - frame) * ROOM_MIN).max(0.0) as u64
}

/// Has these messages sent shorter. Each comes with the artifact that was stored for it just now, if one was; the note in it
/// names its artifact where the agent can read it. Empty: there is not even room for the notes.
pub fn shorten(
    conversation: &Conversation,
    agent: &AgentSettings,
    messages: Vec<(LargeMessage, Option<Artifact>)>,
) -> Vec<Event> {
    let correction = conversation.correction(&agent.model);
    let reads = reads_on(agent);
    let (mut pruned, mut events) = (Vec::new(), Vec::new());
    for (message, artifact) in messages {
        let stored = artifact.as_ref().map(|artifact| artifact.id.clone());
        let id = stored.or_else(|| message.artifact.clone()).filter(|_| reads);
        let Some(one) = shortened(&message, &correction, id) else { continue };
        pruned.push(one);
        events.extend(artifact.map(|artifact| Event::Artifact(ArtifactEvent::Stored { artifact })));
    }
    let scanned = pruned.len();
    events.extend(Batch::new(conversation, agent, PruneCause::Message).event(pruned, scanned));
    events
}

fn shortened(
    message: &LargeMessage,
    correction: &Correction,
    artifact: Option<ArtifactId>,
) -> Option<PrunedResult> {
    let whole_bytes = message.words().len();
    let mut bytes = whole_bytes.min(usize::try_from(message.limit * TOKEN_BYTES).unwrap_or(usize::MAX));
    while bytes >= LEAST_BYTES {
        let mut pruned = PrunedResult {
            seq: message.entry.seq,
            form: PruneForm::Shrunk { bytes },
            tokens: 0,
            tool: String::new(),
            whole_bytes: whole_bytes as u64,
            artifact: artifact.clone(),
        };
        pruned.tokens = entry_tokens(&as_sent(&message.entry, &pruned));
        let weight = correction.apply(u64::from(pruned.tokens));
        if weight <= message.limit {
            return Some(pruned);
        }
        let in_proportion = bytes as u64 * message.limit / weight.max(1);
        bytes = (in_proportion as usize).min(bytes * 15 / 16);
    }
    None
}
