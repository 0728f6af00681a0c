//! Explains a past turn: what happened in it, and its requests, rebuilt from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use cairn_api::error::ApiError;
use cairn_core::conversation::Conversation;
use cairn_core::excerpt;
use cairn_core::store_port::Store as _;
use cairn_core::trace::{
    Gap, Inputs, Rebuilt, Story, StoryCall, Told, TurnRecords, WhichTurn, rebuild, story,
};
use cairn_store::{Store, matched_words};
use cairn_types::event::RunWork;
use cairn_types::ids::{ChannelId, MemoryId, TextId};
use cairn_types::memory::{Memory, Quote};
use cairn_types::message::{Entry, Role};
use cairn_types::model::{ChatMessage, Usage};
use cairn_types::trace::{CallFrame, CallTrace};
use cairn_types::wire::format::WireFormat;
use serde::Deserialize;

use crate::api::shared::{Admin, Channel, Params, Shared};
use cairn_api::records::{
    CallOf, CallRecord, Explanation, PromptDiff, PromptRecord, QuoteRecord, RecalledRecord, RegionRecord,
    SaidRecord, StageRecord, ToolCallRecord, prompt_diff, regions, stands, turn_outcome,
};

/// How many earlier turns are searched for a request to compare with; not every turn has one.
const BEFORE_MAX: usize = 64;

/// A past turn: its records and its story.
struct Past {
    records: TurnRecords,
    story: Story,
}

#[derive(Debug, Deserialize)]
pub struct CallParams {
    pub call: Option<usize>,
}

/// `GET /v1/channels/{C}/turns/{T}/explain`. The turn is an id, `last`, `at:TIME` or `message:ID`.
pub async fn explain(
    State(admin): State<Shared>,
    Channel(channel, which): Channel<String>,
) -> Result<Json<Explanation>, ApiError> {
    let past = past(&admin, &channel, &which).await?;
    explanation(&admin, channel, past).await.map(Json)
}

/// `GET /v1/channels/{C}/turns/{T}/prompt`: the request of call number `call`, by default the last one.
pub async fn prompt(
    State(admin): State<Shared>,
    Channel(channel, which): Channel<String>,
    Params(CallParams { call }): Params<CallParams>,
) -> Result<Json<PromptRecord>, ApiError> {
    let past = past(&admin, &channel, &which).await?;
    let idx = index(&past, call, past.story.calls.len())?;
    let mut made = prompts(&admin, &channel, &[(&past, idx)]).await?;
    made.pop().map(Json).ok_or_else(|| no_calls(&past))
}

/// `GET /v1/channels/{C}/turns/{T}/diff`: the request of call number `call`, by default the first one of the turn,
/// compared with the previous request.
pub async fn diff(
    State(admin): State<Shared>,
    Channel(channel, which): Channel<String>,
    Params(CallParams { call }): Params<CallParams>,
) -> Result<Json<PromptDiff>, ApiError> {
    let past = past(&admin, &channel, &which).await?;
    let idx = index(&past, call, 1)?;
    if idx > 0 {
        let made = prompts(&admin, &channel, &[(&past, idx - 1), (&past, idx)]).await?;
        return prompt_diff(made).map(Json).ok_or_else(|| no_calls(&past));
    }
    let before = turn_before(&admin, &channel, &past).await?;
    let asked: Vec<(&Past, usize)> = match &before {
        Some(before) => vec![(before, before.story.calls.len() - 1), (&past, idx)],
        None => vec![(&past, idx)],
    };
    let made = prompts(&admin, &channel, &asked).await?;
    prompt_diff(made).map(Json).ok_or_else(|| no_calls(&past))
}

/// The last turn before this one that called a model.
async fn turn_before(admin: &Admin, channel: &ChannelId, past: &Past) -> Result<Option<Past>, ApiError> {
    let mut before = past.records.before.clone();
    for _ in 0..BEFORE_MAX {
        let Some(turn) = before else { return Ok(None) };
        let found = self::past(admin, channel, turn.as_str()).await?;
        if !found.story.calls.is_empty() {
            return Ok(Some(found));
        }
        before = found.records.before.clone();
    }
    Ok(None)
}

async fn past(admin: &Admin, channel: &ChannelId, which: &str) -> Result<Past, ApiError> {
    let parsed: WhichTurn = which.parse().map_err(ApiError::malformed)?;
    // Reports an unknown channel as such, not as an unknown turn.
    admin.conversation(channel).await?;
    let no_such_turn = || {
        ApiError::not_found(
            "no_such_turn",
            format!("no turn `{which}` in {channel}"),
            "`cairn history C` shows the turns; a turn is named by its id, `last`, `at:TIME` or `message:ID`",
        )
    };
    let records = admin.store.turn_records(channel, parsed).await?.ok_or_else(no_such_turn)?;
    let story = story(&records.turn, &records.records).ok_or_else(no_such_turn)?;
    Ok(Past { records, story })
}

/// The index of the call with number `call`, which counts from 1.
fn index(past: &Past, call: Option<usize>, otherwise: usize) -> Result<usize, ApiError> {
    let n_calls = past.story.calls.len();
    if n_calls == 0 {
        return Err(no_calls(past));
    }
    let call = call.unwrap_or(otherwise);
    if (1..=n_calls).contains(&call) {
        return Ok(call - 1);
    }
    Err(ApiError::not_found(
        "no_such_call",
        format!("turn {} has no call {call}: it has {n_calls}", past.story.turn),
        "model calls are counted from 1",
    ))
}

fn no_calls(past: &Past) -> ApiError {
    ApiError::not_found(
        "no_call",
        format!("no model was called in turn {}, as far as the journal knows", past.story.turn),
        "`cairn explain` shows what happened in it",
    )
}

async fn explanation(admin: &Admin, channel: ChannelId, past: Past) -> Result<Explanation, ApiError> {
    let Past { records, story } = past;
    let mut missing = Vec::new();
    let said = entries_of(admin, &channel, &story).await?;
    let asked: Vec<SaidRecord> =
        said.iter().filter(|entry| entry.role == Role::User).map(|entry| said_record(entry)).collect();
    let of_model = |entry: &&Arc<Entry>| entry.role == Role::Assistant && !entry.text().is_empty();
    let answer = said.iter().rev().find(of_model).map(|entry| said_record(entry));
    if said.iter().any(|entry| entry.is_expired()) {
        missing.push("text of this turn has expired".to_owned());
    }
    let question: Vec<&str> = asked.iter().map(|said| said.text.as_str()).collect();
    let (recalled, near) = recalled(admin, &story, &question.join("\n")).await?;
    let quotes = quotes(admin, &channel, &story).await?;
    let conversations = at_calls(admin, &channel, &records, &story).await?;
    let mut calls = Vec::with_capacity(story.calls.len());
    for (idx, call) in story.calls.iter().enumerate() {
        calls.push(call_record(admin, idx, call, conversations.get(idx)).await?);
    }
    let mut beside = Vec::with_capacity(story.beside.len());
    for (idx, call) in story.beside.iter().enumerate() {
        beside.push(call_record(admin, idx, call, None).await?);
    }
    if story.calls.iter().any(|call| call.trace.is_none()) {
        missing.push(Gap::NoTrace.to_string());
    }
    if story.recalled.as_ref().is_some_and(|told| told.memories.iter().any(|(_, score)| score.is_none())) {
        missing.push("the version of that time did not keep the memories' scores".to_owned());
    }
    let first = conversations.first();
    let end = story.end.as_ref().map(|(_, end)| &end.outcome);
    let (outcome, failure) = turn_outcome(end);
    let costs = || calls.iter().filter_map(|call| call.trace.as_ref()?.cost);
    let chat_name = admin.chat_name(&channel).await;
    Ok(Explanation {
        chat_name,
        turn: story.turn.clone(),
        before: records.before,
        after: records.after,
        started_at: story.started_at,
        ended_at: story.end.as_ref().map(|(at, _)| *at),
        outcome: outcome.to_owned(),
        failure,
        undone: story.undone,
        interruptions: story.interruptions,
        delivered_at: story.delivered_at,
        question: asked,
        answer,
        recalled,
        near,
        quotes,
        stands: first.map(stands).unwrap_or_default(),
        entries: first.and_then(|conversation| {
            conversation.live.front().zip(conversation.live.back()).map(|(from, to)| (from.seq, to.seq))
        }),
        tools: story.tools.iter().map(ToolCallRecord::of).collect(),
        times: story
            .stages()
            .into_iter()
            .map(|stage| StageRecord { part: stage.name.to_owned(), ms: stage.ms })
            .collect(),
        usage: story.calls.iter().fold(Usage::default(), |sum, call| sum + call.usage),
        cost: costs().next().map(|_| costs().sum()),
        currency: admin.agent_registry.loaded().config.limits.currency.clone(),
        calls,
        beside,
        missing,
        channel,
    })
}

/// The current entries of a turn.
async fn entries_of(admin: &Admin, channel: &ChannelId, story: &Story) -> Result<Vec<Arc<Entry>>, ApiError> {
    let seqs = || story.asked.iter().map(|(seq, _)| *seq).chain(story.said.iter().map(|entry| entry.seq));
    let (Some(from), Some(to)) = (seqs().min(), seqs().max()) else { return Ok(Vec::new()) };
    let mut entries = admin.store.entries(channel, from, to, usize::MAX).await?;
    entries.retain(|entry| entry.turn == story.turn);
    Ok(entries)
}

/// The memories in the turn's window and those that narrowly missed it, as they were then.
async fn recalled(
    admin: &Admin,
    story: &Story,
    question: &str,
) -> Result<(Vec<RecalledRecord>, Vec<RecalledRecord>), ApiError> {
    let Some(told) = &story.recalled else { return Ok((Vec::new(), Vec::new())) };
    let all = told.memories.iter().map(|(id, _)| id).chain(told.near.iter().map(|(id, _)| id));
    let ids: Vec<MemoryId> = all.cloned().collect();
    let then = admin.store.memories_at(ids.clone(), told.n, told.at).await?;
    let mut now: BTreeMap<MemoryId, String> = BTreeMap::new();
    for id in ids {
        let memory = admin.store.memory(&id).await?;
        now.extend(memory.map(|memory| (id, memory.text)));
    }
    let record = |id: &MemoryId, score: Option<f64>| {
        let memory: Option<&Memory> = then.iter().find(|memory| memory.id == *id);
        RecalledRecord {
            id: id.clone(),
            kind: memory.map(|memory| memory.kind.name().to_owned()),
            subject: memory.and_then(|memory| memory.subject.clone()),
            created_at: memory.map(|memory| memory.created_at),
            score,
            words: memory.map(|memory| matched_words(question, memory)).unwrap_or_default(),
            changed: memory.is_some_and(|memory| now.get(id) != Some(&memory.text)),
            text: memory.map(|memory| memory.text.clone()),
        }
    };
    let near = told.near.iter().map(|(id, score)| record(id, Some(*score))).collect();
    Ok((told.memories.iter().map(|(id, score)| record(id, *score)).collect(), near))
}

/// The entries of quotes, as they are shown now.
async fn quoted(
    store: &Store,
    channel: &ChannelId,
    quotes: impl Iterator<Item = &Quote>,
) -> Result<Vec<Arc<Entry>>, ApiError> {
    let mut entries = Vec::new();
    for quote in quotes {
        entries.extend(store.entries(channel, quote.seq, quote.seq, 1).await?);
    }
    Ok(entries)
}

/// What was quoted in the turn's window, in its words of now.
async fn quotes(admin: &Admin, channel: &ChannelId, story: &Story) -> Result<Vec<QuoteRecord>, ApiError> {
    let quotes = story.recalled.iter().flat_map(|told| &told.quotes);
    let entries = quoted(&admin.store, channel, quotes.clone()).await?;
    let record = |quote: &Quote| {
        let entry = entries.iter().find(|entry| entry.seq == quote.seq);
        QuoteRecord {
            seq: quote.seq,
            at: entry.map(|entry| entry.at),
            author: entry.and_then(|entry| entry.author.clone()),
            score: quote.score,
            text: entry.map(|entry| excerpt::shown(&entry.text(), (quote.from, quote.to))),
        }
    };
    Ok(quotes.map(record).collect())
}

/// The conversation at each call of the turn. Without a trace, as it was when the turn started.
async fn at_calls(
    admin: &Admin,
    channel: &ChannelId,
    records: &TurnRecords,
    story: &Story,
) -> Result<Vec<Conversation>, ApiError> {
    let begun = records.records.iter().find(|record| record.at >= story.started_at && is_start(record));
    let begun = begun.map_or(1, |record| record.n);
    let at = story.calls.iter().map(|call| call.trace.as_ref().map_or(begun, |trace| trace.at_n));
    let mut at: Vec<u64> = at.collect();
    if at.is_empty() {
        at.push(begun);
    }
    // Already sorted, except for turns of versions without traces whose clock was changed.
    at.sort_unstable();
    Ok(admin.store.conversations_at(channel, at).await?)
}

fn is_start(record: &cairn_types::event::Record) -> bool {
    use cairn_types::event::{Event, TurnEvent};
    matches!(record.event, Event::Turn(TurnEvent::Started { .. }))
}

pub(super) async fn call_record(
    admin: &Admin,
    idx: usize,
    call: &StoryCall,
    conversation: Option<&Conversation>,
) -> Result<CallRecord, ApiError> {
    let frame = match &call.trace {
        Some(trace) => frame(admin, &trace.frame).await?,
        None => None,
    };
    let chosen = conversation.filter(|conversation| conversation.model.as_ref() == Some(&call.model));
    let cached = call.usage.cached_tokens as f64 / call.usage.input_tokens.max(1) as f64;
    Ok(CallRecord {
        call: idx + 1,
        model: call.model.clone(),
        why: chosen.and_then(|conversation| conversation.model_reason.clone()),
        ended_at: call.at,
        estimated: call.estimated,
        usage: call.usage,
        is_estimate: call.is_estimate,
        cached_share: cached,
        tools: call.tools,
        finish: call.finish,
        tried: call.trace.as_ref().map(|trace| trace.tried.clone()).unwrap_or_default(),
        trace: call.trace.as_deref().cloned(),
        frame,
    })
}

async fn frame(admin: &Admin, id: &TextId) -> Result<Option<CallFrame>, ApiError> {
    let text = admin.store.kept_text(id).await?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Rebuilds the requests of these calls, which must be in order. The channel is read once for all of them.
async fn prompts(
    admin: &Admin,
    channel: &ChannelId,
    asked: &[(&Past, usize)],
) -> Result<Vec<PromptRecord>, ApiError> {
    let at = asked.iter().filter_map(|(past, idx)| past.story.calls[*idx].trace.as_ref());
    let at: Vec<u64> = at.map(|trace| trace.at_n).collect();
    let mut conversations = admin.store.conversations_at(channel, at).await?.into_iter();
    let mut made = Vec::with_capacity(asked.len());
    for (past, idx) in asked {
        let (story, calls) = (&past.story, &past.story.calls);
        let conversation = calls[*idx].trace.as_ref().and_then(|_| conversations.next());
        let (of, told) = (CallOf::Turn(story.turn.clone()), story.recalled.as_ref());
        let one = Wanted { of, calls, idx: *idx, told, talk: Vec::new() };
        made.push(one_prompt(admin, channel, one, conversation).await?);
    }
    Ok(made)
}

/// A call whose request is rebuilt.
pub(super) struct Wanted<'a> {
    pub(super) of: CallOf,
    pub(super) calls: &'a [StoryCall],
    pub(super) idx: usize,
    /// For a turn: the memories that were recalled for it.
    pub(super) told: Option<&'a Told>,
    /// For a run: its exchange with the model up to this call.
    pub(super) talk: Vec<ChatMessage>,
}

pub(super) async fn one_prompt(
    admin: &Admin,
    channel: &ChannelId,
    wanted: Wanted<'_>,
    conversation: Option<Conversation>,
) -> Result<PromptRecord, ApiError> {
    let Wanted { of, calls, idx, told, talk } = wanted;
    let call = &calls[idx];
    let empty = PromptRecord {
        channel: channel.clone(),
        of,
        call: idx + 1,
        calls: calls.len(),
        model: call.model.clone(),
        exact: false,
        why_not: Vec::new(),
        gaps: Vec::new(),
        body: String::new(),
        regions: Vec::new(),
    };
    let without =
        |gap: Gap| PromptRecord { why_not: vec![gap.to_string()], gaps: vec![gap], ..empty.clone() };
    let (Some(trace), Some(conversation)) = (&call.trace, conversation) else {
        return Ok(without(Gap::NoTrace));
    };
    let Some(frame) = frame(admin, &trace.frame).await? else {
        return Ok(without(Gap::Text { what: "parameters".to_owned() }));
    };
    let unsent = unsent(&frame);
    let version = frame.version.clone();
    let material = Material::read(admin, channel, told, frame, conversation).await?;
    let (for_making, model) = (trace.clone(), call.model.clone());
    // The text may be long, and this thread serves other requests, too.
    let made = tokio::task::spawn_blocking(move || material.make(&model, &for_making, talk));
    let Made { body, regions, mut gaps } = match made.await.map_err(|error| ApiError::internal(&error))? {
        Ok(made) => made,
        Err(gap) => return Ok(without(gap)),
    };
    let exact = trace.body == Some(TextId::of(&body));
    let mut why_not: Vec<String> = Vec::new();
    if trace.body.is_none() {
        why_not.push(unsent.to_owned());
    } else if !exact && gaps.is_empty() {
        let erasures = admin.store.registry().await?.erasures;
        let is_erased = erasures.iter().any(|erasure| erasure.at >= call.at);
        gaps.push(if is_erased { Gap::Rewritten } else { Gap::Other { made_by: version } });
    }
    if !exact {
        why_not.extend(gaps.iter().map(ToString::to_string));
    }
    Ok(PromptRecord { exact, why_not, gaps, body, regions, ..empty })
}

/// Everything that a request is rebuilt from.
struct Material {
    conversation: Conversation,
    shown: Vec<Arc<Entry>>,
    frame: CallFrame,
    prompt: Option<String>,
    instructions: Option<String>,
    tools: Option<String>,
    memories: Vec<Memory>,
    quoted: Vec<Arc<Entry>>,
}

struct Made {
    body: String,
    regions: Vec<RegionRecord>,
    gaps: Vec<Gap>,
}

impl Material {
    async fn read(
        admin: &Admin,
        channel: &ChannelId,
        told: Option<&Told>,
        frame: CallFrame,
        conversation: Conversation,
    ) -> Result<Self, ApiError> {
        let store = &admin.store;
        // Only a run may read entries that have left the window.
        let sealed = conversation.run.as_ref().filter(|_| told.is_none());
        let sealed = sealed.filter(|run| !matches!(run.work, RunWork::Merge { .. })).map(|run| run.from_seq);
        let (first, last) = (conversation.live.front(), conversation.live.back());
        let from = first.map(|entry| entry.seq).into_iter().chain(sealed).min();
        let to = last.map(|entry| entry.seq).or(conversation.run.as_ref().map(|run| run.to_seq));
        let shown = match from.zip(to) {
            Some((from, to)) => store.entries(channel, from, to, usize::MAX).await?,
            None => Vec::new(),
        };
        let prompt = store.kept_text(&frame.prompt).await?;
        let (mut instructions, mut tools) = (None, None);
        if let Some(id) = &frame.instructions {
            instructions = store.kept_text(id).await?;
        }
        if let Some(id) = &frame.tools {
            tools = store.kept_text(id).await?;
        }
        let memories = match told {
            Some(told) => store.memories_at(conversation.recalled.clone(), told.n, told.at).await?,
            None => Vec::new(),
        };
        let quoted = quoted(store, channel, conversation.quotes.iter().filter(|_| told.is_some())).await?;
        Ok(Self { conversation, shown, frame, prompt, instructions, tools, memories, quoted })
    }

    fn make(self, model: &str, trace: &CallTrace, talk: Vec<ChatMessage>) -> Result<Made, Gap> {
        let Self { conversation, shown, frame, prompt, instructions, tools, memories, quoted } = self;
        let stack = trace.work.is_none().then(|| conversation.stack.clone());
        let Rebuilt { request, gaps, .. } = rebuild(Inputs {
            conversation,
            shown: &shown,
            model,
            trace,
            frame: &frame,
            prompt: prompt.as_deref(),
            instructions: instructions.as_deref(),
            tools: tools.as_deref(),
            talk,
            memories: &memories,
            quoted: &quoted,
        })?;
        let body = cairn_llm::body_of(&frame.wire, &request);
        let regions = regions(&request, &body, stack.as_ref());
        Ok(Made { body, regions, gaps })
    }
}

fn unsent(frame: &CallFrame) -> &'static str {
    match frame.wire.format {
        WireFormat::Offline => {
            "nothing is sent to the built-in model: this is its input, in the form that most servers get"
        }
        WireFormat::Openai | WireFormat::Responses | WireFormat::Anthropic => {
            "the call ended before anything was sent"
        }
    }
}

fn said_record(entry: &Entry) -> SaidRecord {
    let Entry { seq, at, author, message, finish, .. } = entry.clone();
    SaidRecord { seq, at, author, message, finish, text: entry.text() }
}
