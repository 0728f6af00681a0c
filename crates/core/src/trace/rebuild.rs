//! A request of the past, made again from what the journal has: the same conversation, the same settings, the same
//! assembler. What is not there any more is named.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::{AgentSettings, WindowSize, WindowSource};
use crate::compaction::identifiers::Mask;
use crate::compaction::{Beside, Brief, earlier_summary, request_tokens};
use crate::conversation::Conversation;
use crate::engine;
use crate::retention::ranges;
use crate::settings::{
    CompactionSettings, MemorySettings, PruningSettings, ResultGuardSettings, WindowGuard,
};
use crate::trust::TrustSettings;
use crate::window::{Quoted, Tail};
use cairn_types::event::{Run, RunWork};
use cairn_types::ids::{MemoryId, Seq, SummaryId};
use cairn_types::memory::Memory;
use cairn_types::message::{EXPIRED_TEXT, Entry, Part};
use cairn_types::model::{ChatMessage, ChatRequest};
use cairn_types::summary::{Marker, Summary, marker_tokens};
use cairn_types::tool::defs::{ToolDef, ToolDefs};
use cairn_types::trace::{CallFrame, CallTrace, RunCall};
use cairn_types::wire::format::WireFormat;

/// What a request is made of again.
pub struct Inputs<'a> {
    /// The conversation as it was after [`CallTrace::at_n`].
    pub conversation: Conversation,
    /// Its entries, or those of the run's range, as they are shown now: without words that have expired since, or were
    /// deleted.
    pub shown: &'a [Arc<Entry>],
    /// The model, by its id in the configuration.
    pub model: &'a str,
    pub trace: &'a CallTrace,
    pub frame: &'a CallFrame,
    /// The system prompt, where it is there.
    pub prompt: Option<&'a str>,
    /// What the operator wants of summaries, where it is there.
    pub instructions: Option<&'a str>,
    /// The tools as a JSON list, where they are there.
    pub tools: Option<&'a str>,
    /// Of a run: what its talk with the model had come to.
    pub talk: Vec<ChatMessage>,
    /// The memories that were recalled, as they were then.
    pub memories: &'a [Memory],
    /// The entries of which parts were quoted, as they are shown now.
    pub quoted: &'a [Arc<Entry>],
}

/// A request made again.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    pub request: ChatRequest,
    pub estimated_tokens: u64,
    /// What stood in it and is not there any more.
    pub gaps: Vec<Gap>,
}

/// What cannot be made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "gap", rename_all = "snake_case")]
pub enum Gap {
    /// The call is of an earlier version, which kept no trace.
    NoTrace,
    /// A text that the trace names is not in the journal.
    Text { what: String },
    /// Words of entries have expired.
    Expired { entries: Vec<(Seq, Seq)> },
    /// People deleted messages after the call.
    Deleted { entries: Vec<(Seq, Seq)> },
    /// A person was erased, and words of entries with them.
    Erased { entries: Vec<(Seq, Seq)> },
    /// The words of a summary have expired.
    Summary { id: SummaryId },
    /// Words of what an emergency left out have expired.
    Marker { from_seq: Seq, to_seq: Seq },
    /// A memory was forgotten since.
    Memory { id: MemoryId },
    /// The journal was changed after the call, by the erasure of a person.
    Rewritten,
    /// The body is not the one that was sent, and nothing of the above tells why.
    Other { made_by: String },
    /// The request cannot be made at all.
    Impossible { why: String },
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |entries: &[(Seq, Seq)]| -> String {
            let one = |(from, to): &(Seq, Seq)| match from == to {
                true => from.to_string(),
                false => format!("{from}-{to}"),
            };
            entries.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::NoTrace => f.write_str("the journal has no trace of this call: an earlier version made it"),
            Self::Text { what } => write!(f, "the {what} of that time is not in the journal"),
            Self::Expired { entries } => write!(f, "the words of entries {} have expired", list(entries)),
            Self::Deleted { entries } => write!(f, "entries {} were deleted since", list(entries)),
            Self::Erased { entries } => {
                write!(f, "the words of entries {} were erased with their person", list(entries))
            }
            Self::Summary { id } => write!(f, "the words of summary {id} have expired"),
            Self::Marker { from_seq, to_seq } => {
                write!(f, "the digest of entries {from_seq}-{to_seq} has expired")
            }
            Self::Memory { id } => write!(f, "memory {id} was forgotten since"),
            Self::Rewritten => f.write_str("a person was erased since, and what others said of them"),
            Self::Other { made_by } if made_by == env!("CARGO_PKG_VERSION") => {
                f.write_str("its bytes are not those that were sent, and nothing tells why; please report it")
            }
            Self::Other { made_by } => write!(
                f,
                "it is made otherwise by this version ({}) than by the one that sent it ({made_by})",
                env!("CARGO_PKG_VERSION")
            ),
            Self::Impossible { why } => f.write_str(why),
        }
    }
}

/// Makes the request again.
///
/// # Errors
/// Nothing can be made of it: the prompt is larger than the window by the measure of today.
pub fn rebuild(inputs: Inputs<'_>) -> Result<Rebuilt, Gap> {
    if let Some(work) = &inputs.trace.work {
        return rebuild_of_run(inputs, work);
    }
    let Inputs { mut conversation, shown, model, trace, frame, prompt, tools, memories, quoted, .. } = inputs;
    let mut gaps = Vec::new();
    hide(&mut conversation, shown, &mut gaps);
    let system_prompt = prompt.map(str::to_owned).unwrap_or_else(|| {
        gaps.push(Gap::Text { what: "system prompt".to_owned() });
        String::new()
    });
    if conversation.client_system.as_ref().is_some_and(|system| system.text.is_empty()) {
        gaps.push(Gap::Text { what: "system message of the client".to_owned() });
    }
    let tools = known_tools(frame, tools, &mut gaps);
    let mut recalled = Vec::with_capacity(conversation.recalled.len());
    for id in &conversation.recalled {
        match memories.iter().find(|memory| memory.id == *id) {
            Some(memory) => recalled.push(memory.clone()),
            None => gaps.push(Gap::Memory { id: id.clone() }),
        }
    }
    let zone = jiff::tz::TimeZone::get(&frame.timezone).unwrap_or(jiff::tz::TimeZone::UTC);
    let quotes = quotes(&conversation, quoted, &mut gaps);
    let tail = Tail { now: trace.asked_at, zone, recalled, quotes, last_call: trace.last_call };
    let settings = settings(&conversation, model, frame, system_prompt, tools);
    let engine = engine::by_name(&frame.engine)
        .ok_or_else(|| Gap::Impossible { why: format!("there is no context engine `{}`", frame.engine) })?;
    let assembled = engine
        .assemble(&conversation, &settings, &tail)
        .map_err(|error| Gap::Impossible { why: error.to_string() })?;
    Ok(Rebuilt { request: assembled.request, estimated_tokens: assembled.estimated_tokens, gaps })
}

/// What was quoted of entries that had left the window, where their words are still there.
fn quotes(conversation: &Conversation, shown: &[Arc<Entry>], gaps: &mut Vec<Gap>) -> Vec<Quoted> {
    let mut quotes = Vec::with_capacity(conversation.quotes.len());
    for quote in &conversation.quotes {
        let entries = vec![(quote.seq, quote.seq)];
        match shown.iter().find(|entry| entry.seq == quote.seq) {
            Some(entry) if entry.is_deleted() => gaps.push(Gap::Deleted { entries }),
            Some(entry) if is_erased(entry) => gaps.push(Gap::Erased { entries }),
            Some(entry) if !entry.is_expired() => {
                quotes.push(Quoted { entry: Arc::clone(entry), quote: quote.clone() })
            }
            Some(_) | None => gaps.push(Gap::Expired { entries }),
        }
    }
    quotes
}

fn known_tools(frame: &CallFrame, tools: Option<&str>, gaps: &mut Vec<Gap>) -> ToolDefs {
    match (&frame.tools, tools.map(serde_json::from_str::<Vec<ToolDef>>)) {
        (None, _) => ToolDefs::default(),
        (Some(_), Some(Ok(tools))) => tools.into(),
        (Some(_), _) => {
            gaps.push(Gap::Text { what: "list of tools".to_owned() });
            ToolDefs::default()
        }
    }
}

/// The request of a run: by the same functions, over the same range.
fn rebuild_of_run(inputs: Inputs<'_>, work: &RunCall) -> Result<Rebuilt, Gap> {
    let Inputs { mut conversation, shown, model, frame, prompt, instructions, tools, talk, .. } = inputs;
    let not_there = |what: &str| Gap::Text { what: what.to_owned() };
    let mut gaps = Vec::new();
    if work.target_tokens == 0 {
        return Err(Gap::NoTrace);
    }
    let run = conversation.run.take().filter(|run| run.id == work.run).ok_or_else(|| not_there("run"))?;
    let tools = known_tools(frame, tools, &mut gaps);
    let mut reader = settings(&conversation, model, frame, String::new(), ToolDefs::default());
    match prompt {
        Some(prompt) => prompt.clone_into(&mut reader.compactor_prompt),
        None => gaps.push(not_there("prompt")),
    }
    if frame.instructions.is_some() && instructions.is_none() {
        gaps.push(not_there("instructions for summaries"));
    }
    reader.compaction.instructions = instructions.map(str::to_owned);
    let mask = work.masked.then(|| Mask::new(&conversation.channel));
    let brief = Brief {
        channel: &conversation.channel,
        run: &run,
        reader: &reader,
        tools: !tools.is_empty() || work.tools_withdrawn,
        correction: conversation.correction(model).ratio,
        mask: mask.as_ref(),
    };
    let extracts = frame.wire.format == WireFormat::Offline;
    let (mut request, room) = match work.entries {
        Some((from, to)) => {
            let rest = entries_of_run(&conversation, &run, from, shown, &mut gaps);
            let earlier = earlier_summary(&conversation, &run);
            let so_far = run.checkpoint.as_ref().map(|done| done.text.as_str());
            if so_far.is_some_and(str::is_empty) {
                gaps.push(not_there("summary of the chunks before"));
            }
            let chunk = brief.chunk(&rest, so_far, earlier.as_deref(), extracts);
            let no_room = || Gap::Impossible { why: "its window has no room for it".to_owned() };
            let chunk = chunk.ok_or_else(no_room)?;
            // As many as it took then, whatever else is gone.
            let n = rest.partition_point(|entry| entry.seq <= to);
            let request =
                brief.summarise(rest[..n].into(), &chunk.script, &chunk.beside(), work.target_tokens);
            (request, chunk.room)
        }
        None => {
            let sources = sources_of_run(&conversation, &run, &mut gaps);
            let request = brief.merging(&sources, work.target_tokens).0;
            (request.ok_or_else(|| not_there("text of its sources"))?, brief.room(&Beside::default()))
        }
    };
    request.tools = tools;
    if work.round > 1 && talk.is_empty() {
        gaps.push(not_there("talk before this call"));
    }
    request.messages.extend(talk);
    if !extracts {
        request.max_output_tokens = Brief::answer_limit(&reader, &room, &request);
    }
    let estimated_tokens = request_tokens(&request);
    Ok(Rebuilt { request, estimated_tokens, gaps })
}

/// What the run reads from there on: of the window, or else of the archive.
fn entries_of_run(
    conversation: &Conversation,
    run: &Run,
    from: Seq,
    shown: &[Arc<Entry>],
    gaps: &mut Vec<Gap>,
) -> Vec<Arc<Entry>> {
    let mut entries = conversation.readable(run, conversation.live.iter().cloned());
    let is_archived = (entries.len() as u64) < run.messages;
    if is_archived {
        entries = conversation.readable(run, shown.iter().cloned());
    }
    entries.retain(|entry| entry.seq >= from);
    if is_archived {
        let is_since = |entry: &&Arc<Entry>| entry.is_deleted() && !conversation.deleted.contains(&entry.seq);
        let since = ranges(entries.iter().filter(is_since).map(|entry| entry.seq));
        gaps.extend((!since.is_empty()).then_some(Gap::Deleted { entries: since }));
    }
    hide_entries(entries.iter_mut(), shown, gaps);
    entries
}

/// What a merge unites.
fn sources_of_run(conversation: &Conversation, run: &Run, gaps: &mut Vec<Gap>) -> Vec<Summary> {
    let RunWork::Merge { sources, .. } = &run.work else { return Vec::new() };
    let sources = sources.iter().filter_map(|id| conversation.stack.summary(id).cloned());
    let sources: Vec<Summary> = sources.collect();
    let gone = sources.iter().filter(|summary| summary.text.is_empty());
    gaps.extend(gone.map(|summary| Gap::Summary { id: summary.id.clone() }));
    sources
}

/// The settings as far as a request depends on them.
fn settings(
    conversation: &Conversation,
    model: &str,
    frame: &CallFrame,
    system_prompt: String,
    tools: ToolDefs,
) -> AgentSettings {
    AgentSettings {
        id: conversation.channel.agent(),
        system_prompt,
        compactor_prompt: String::new(),
        window: WindowSize {
            window_tokens: frame.window_tokens,
            output_reserve_tokens: frame.reserve_tokens,
            source: WindowSource::Learnt,
        },
        growth: None,
        compaction: CompactionSettings::default(),
        pruning: PruningSettings::default(),
        result_guard: ResultGuardSettings::default(),
        window_guard: WindowGuard::default(),
        engine: frame.engine.clone(),
        model: model.to_owned(),
        cache_ttl_secs: frame.wire.cache_ttl_secs,
        tools,
        trust: TrustSettings::default(),
        recall_limit: 0,
        quote_tokens: 0,
        memory: MemorySettings::default(),
        max_rounds: 1,
        mid_turn_messages: false,
        timezone: frame.timezone.clone(),
        languages: cairn_types::texts::Languages::default(),
    }
}

/// Takes the words out of a conversation of the past that nobody is shown any more, and names those that are gone.
fn hide(conversation: &mut Conversation, shown: &[Arc<Entry>], gaps: &mut Vec<Gap>) {
    let gone = hide_entries(conversation.live.iter_mut(), shown, gaps);
    conversation.pruned.retain(|seq, _| !gone.contains(seq));
    for summary in conversation.stack.summaries_mut().filter(|summary| summary.text.is_empty()) {
        EXPIRED_TEXT.clone_into(&mut summary.text);
        gaps.push(Gap::Summary { id: summary.id.clone() });
    }
    let markers = conversation.stack.markers();
    let is_shorter = |marker: &&Marker| marker.digest.is_empty() && marker.tokens > marker_tokens(marker);
    let gap = |marker: &Marker| Gap::Marker { from_seq: marker.from_seq, to_seq: marker.to_seq };
    gaps.extend(markers.filter(is_shorter).map(gap));
}

/// Takes the words out of entries that nobody is shown any more; returns those whose words have expired or were deleted.
fn hide_entries<'a>(
    entries: impl Iterator<Item = &'a mut Arc<Entry>>,
    shown: &[Arc<Entry>],
    gaps: &mut Vec<Gap>,
) -> Vec<Seq> {
    let shown: HashMap<Seq, &Arc<Entry>> = shown.iter().map(|entry| (entry.seq, entry)).collect();
    let (mut expired, mut deleted, mut erased) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        let now = shown.get(&entry.seq);
        if now.is_some_and(|now| now.is_expired()) {
            expired.push(entry.seq);
            *entry = Arc::new(entry.expired());
        } else if now.is_some_and(|now| now.is_deleted()) && !entry.is_deleted() {
            deleted.push(entry.seq);
            *entry = Arc::new(entry.deleted());
        } else if is_erased(entry) {
            erased.push(entry.seq);
        }
    }
    let gone = expired.iter().chain(&deleted).copied().collect();
    gaps.extend((!expired.is_empty()).then(|| Gap::Expired { entries: ranges(expired) }));
    gaps.extend((!deleted.is_empty()).then(|| Gap::Deleted { entries: ranges(deleted) }));
    gaps.extend((!erased.is_empty()).then(|| Gap::Erased { entries: ranges(erased) }));
    gone
}

fn is_erased(entry: &Entry) -> bool {
    matches!(entry.parts.as_slice(), [Part::Text { text }] if text == crate::erasure::ERASED)
}
