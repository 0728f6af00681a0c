//! The one function that makes a request from a conversation.

use std::collections::HashSet;
use std::sync::Arc;

use super::fit::{self, RequestDraft};
use super::measure::{leaves_room, system_tokens};
use super::place::Place;
use super::render::{guide_text, guide_tokens, last_call_text, tail_text};
use super::{Assembled, Tail};
use crate::agent::AgentSettings;
use crate::conversation::{Conversation, OpenTurn};
use cairn_types::message::{Author, Entry, Part, Role, text_of, user_parts};
use cairn_types::model::{Attempt, ChatMessage, ChatRequest, Purpose};
use cairn_types::provider_state::drop_unbound;
use cairn_types::summary::{LookupTools, StackItem, marker_text, summary_text};
use cairn_types::text::escape::escape_result;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// Prompt and tools alone do not fit.
    #[error(
        "system prompt and tools take {needed} of {usable} usable tokens: no room for a conversation; raise \
         context_window or shorten the prompt"
    )]
    NoRoom {
        /// What prompt and tools take, after correction.
        needed: u64,
        usable: u64,
    },
}

/// The result of a tool call that never got one: an interrupted or stopped turn.
const NO_RESULT: &str = "[no result: the call was interrupted]";

/// Assembles the request for the open turn. It always fits: when it would not, a digest takes the place of the oldest of the
/// stack and of the oldest closed turns; then recalled memories are left out, tool results are shortened, largest first, and
/// the turn is reduced to its latest user message, cut in the middle if need be.
///
/// # Errors
/// System prompt and tools alone do not fit.
pub fn assemble(
    conversation: &Conversation,
    agent: &AgentSettings,
    tail: &Tail,
) -> Result<Assembled, AssembleError> {
    let correction = conversation.correction(&agent.model);
    let usable = agent.window.usable_tokens();
    let place = Place::of(conversation);
    let frame = system_tokens(agent) + place.tokens() + agent.tools.tokens();
    if !leaves_room(correction.apply(frame), usable) {
        return Err(AssembleError::NoRoom { needed: correction.apply(frame), usable });
    }
    let lookup = LookupTools::of(&agent.tools);
    let items = conversation.stack.items().iter();
    let mut draft = RequestDraft {
        frame,
        stack: items.map(|item| (render_item(item, lookup), item.tokens())).collect(),
        stack_overhead: guide_tokens(lookup),
        entries: sent(conversation, &agent.model),
        tail: tail.clone(),
        reactions: conversation.reactions_text(),
        shortened: Vec::new(),
    };
    fit::fit(&mut draft, conversation, &correction, usable);
    let estimated_tokens = draft.tokens();
    let (messages, turn_from) =
        messages(&draft.entries, (&draft.tail, &draft.reactions), conversation.open_turn.as_ref());
    let mut system = vec![format!("{}\n\n{}", agent.system_prompt, place.text())];
    if !draft.stack.is_empty() {
        system.push(guide_text(lookup));
        system.extend(draft.stack.into_iter().map(|(text, _tokens)| text));
    }
    let mut request = ChatRequest {
        channel: conversation.channel.clone(),
        purpose: Purpose::Reply { question: question(conversation) },
        system,
        messages,
        turn_from,
        tools: agent.tools.clone(),
        last_call: tail.last_call,
        max_output_tokens: agent.window.output_reserve_tokens,
        attempt: Attempt::default(),
    };
    drop_unbound(&mut request);
    Ok(Assembled {
        request,
        estimated_tokens,
        tokens: correction.apply(estimated_tokens),
        shortened: draft.shortened,
    })
}

/// The live entries as they are sent to a model. An answer that was cut short, and whose turn was opened again for another one,
/// is left out, from then on and for good; so is what the model's server refuses.
fn sent(conversation: &Conversation, model: &str) -> Vec<Arc<Entry>> {
    let live = &conversation.live;
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let withheld = conversation.withheld.get(model);
    let is_withheld =
        |entry: &Entry| open != Some(&entry.turn) && withheld.is_some_and(|range| range.contains(entry.seq));
    let is_void = |idx: usize, entry: &Entry| {
        let goes_on = || live.get(idx + 1).map(|next| &next.turn) == Some(&entry.turn);
        entry.role == Role::Assistant
            && entry.tool_calls.is_empty()
            && (open == Some(&entry.turn) || goes_on())
    };
    let standing =
        live.iter().enumerate().filter(|(idx, entry)| !is_void(*idx, entry) && !is_withheld(entry));
    standing.map(|(_, entry)| conversation.sent(entry)).collect()
}

fn render_item(item: &StackItem, lookup: LookupTools) -> String {
    match item {
        StackItem::Summary(summary) => summary_text(summary),
        StackItem::Marker(marker) => marker_text(marker, lookup),
    }
}

/// The words that the open turn is to answer.
pub fn question(conversation: &Conversation) -> String {
    asked(conversation).map(|entry| text_of(&entry.parts)).collect::<Vec<_>>().join("\n")
}

/// The people who said it.
pub fn asking(conversation: &Conversation) -> Vec<Author> {
    let mut people: Vec<Author> = asked(conversation).filter_map(|entry| entry.author.clone()).collect();
    people.sort_by(|a, b| a.id.cmp(&b.id));
    people.dedup_by(|a, b| a.id == b.id);
    people
}

/// The messages of the open turn.
fn asked(conversation: &Conversation) -> impl Iterator<Item = &Arc<Entry>> {
    let open = conversation.open_turn.as_ref();
    conversation.live.iter().filter(move |entry| {
        open.is_some_and(|open| entry.turn == open.id) && entry.role == Role::User && !entry.is_deleted()
    })
}

/// Entries as messages, and the index of the open turn's first. A call and its results are never parted: a call without a
/// result gets a stand-in, a result without its call is left out.
///
/// What is volatile stands at the end. Where an answer of the open turn is bound to the request that it answered, nothing of that
/// request may move: what is volatile stays behind the people's messages then, with the time of the turn's first call.
fn messages(
    entries: &[Arc<Entry>],
    (tail, reactions): (&Tail, &str),
    open: Option<&OpenTurn>,
) -> (Vec<ChatMessage>, usize) {
    let is_open = |entry: &Entry| open.is_some_and(|open| open.id == entry.turn);
    let is_bound = |entry: &Arc<Entry>| {
        is_open(entry) && entry.provider_state.as_ref().is_some_and(|state| state.is_bound_to_prefix())
    };
    let mut fixed = entries.iter().any(is_bound).then(|| first_tail(tail, reactions, open));
    let mut out = Vec::with_capacity(entries.len() + 1);
    let mut turn_from = None;
    let mut owed: Vec<Owed> = Vec::new();
    for entry in entries {
        if is_open(entry) && turn_from.is_none() {
            settle(&mut out, &mut owed);
            turn_from = Some(out.len());
        }
        match entry.role {
            Role::Tool => {
                let Some(call_id) = &entry.tool_call_id else { continue };
                let open = |owed: &&mut Owed| owed.call_id == *call_id && owed.result.is_none();
                if let Some(owed) = owed.iter_mut().find(open) {
                    owed.result = Some(entry);
                }
            }
            Role::User => {
                settle(&mut out, &mut owed);
                let parts = user_parts(entry.author.as_ref(), entry.at, &entry.parts);
                out.push(ChatMessage::User { parts });
            }
            Role::Assistant => {
                settle(&mut out, &mut owed);
                if is_open(entry) {
                    out.extend(fixed.take().map(|text| ChatMessage::Context { text }));
                }
                let mut ids = HashSet::new();
                let tool_calls: Vec<_> =
                    entry.tool_calls.iter().filter(|call| ids.insert(&call.id)).cloned().collect();
                let text = text_of(&entry.parts);
                if text.is_empty() && tool_calls.is_empty() {
                    continue;
                }
                owed =
                    tool_calls.iter().map(|call| Owed { call_id: call.id.clone(), result: None }).collect();
                let provider_state = entry.provider_state.clone();
                out.push(ChatMessage::Assistant { text, tool_calls, provider_state });
            }
        }
    }
    settle(&mut out, &mut owed);
    let turn_from = turn_from.unwrap_or(out.len());
    let is_fixed = out[turn_from..].iter().any(|message| matches!(message, ChatMessage::Context { .. }));
    if !is_fixed {
        out.push(ChatMessage::Context { text: tail_text(tail, reactions) });
    } else if tail.last_call {
        out.push(ChatMessage::Context { text: last_call_text() });
    }
    (out, turn_from)
}

/// What was volatile in the first request of the turn, as it stood there.
fn first_tail(tail: &Tail, reactions: &str, open: Option<&OpenTurn>) -> String {
    let now = open.and_then(|open| open.clock).unwrap_or(tail.now);
    tail_text(&Tail { now, last_call: false, ..tail.clone() }, reactions)
}

struct Owed<'e> {
    call_id: String,
    result: Option<&'e Entry>,
}

/// The results in the order of their calls, however they came in.
fn settle(out: &mut Vec<ChatMessage>, owed: &mut Vec<Owed<'_>>) {
    out.extend(owed.drain(..).map(|Owed { call_id, result }| match result {
        Some(entry) => {
            let images = entry.parts.iter().filter(|part| matches!(part, Part::Image { .. }));
            let text = escape_result(&text_of(&entry.parts)).into_owned();
            ChatMessage::Tool { call_id, text, images: images.cloned().collect() }
        }
        None => ChatMessage::Tool { call_id, text: NO_RESULT.to_owned(), images: Vec::new() },
    }));
}
