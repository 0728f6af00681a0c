//! The one function that makes a request from a conversation.

use std::collections::HashSet;
use std::sync::Arc;

use super::fit::{self, RequestDraft};
use super::measure::{leaves_room, stack_tokens, system_tokens};
use super::render::{guide_text, tail_text};
use super::{Assembled, Tail};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::message::{Entry, Part, Role, text_of, user_parts};
use crate::model::{ChatMessage, ChatRequest, Purpose};
use crate::summary::{LookupTools, StackItem, marker_text, summary_text};
use crate::text::escape_result;

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

/// Assembles the request for the open turn. It always fits: when it would not, recalled memories are left out, tool
/// results are shortened, largest first, then the turn is reduced to its latest user message, cut in the middle
/// if need be.
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
    let frame = system_tokens(agent) + agent.tools.tokens();
    if !leaves_room(correction.apply(frame), usable) {
        return Err(AssembleError::NoRoom { needed: correction.apply(frame), usable });
    }
    let lookup = LookupTools::of(&agent.tools);
    let items = conversation.stack.items().iter();
    let mut draft = RequestDraft {
        frame,
        stack: items.map(|item| (render_item(item, lookup), item.tokens())).collect(),
        stack_overhead: stack_tokens(conversation, agent) - conversation.stack.tokens(),
        entries: sent(conversation),
        tail: tail.clone(),
        shortened: Vec::new(),
    };
    fit::fit(&mut draft, conversation, &correction, usable);
    let estimated_tokens = draft.tokens();
    let messages = messages(&draft.entries, &draft.tail);
    let mut system = vec![agent.system_prompt.clone()];
    if !draft.stack.is_empty() {
        system.push(guide_text(lookup));
        system.extend(draft.stack.into_iter().map(|(text, _tokens)| text));
    }
    let request = ChatRequest {
        channel: conversation.channel.clone(),
        purpose: Purpose::Reply { question: question(conversation) },
        system,
        messages,
        tools: agent.tools.clone(),
        last_call: tail.last_call,
        max_output_tokens: agent.window.output_reserve_tokens,
    };
    Ok(Assembled {
        request,
        estimated_tokens,
        tokens: correction.apply(estimated_tokens),
        shortened: draft.shortened,
    })
}

/// The live entries as they are sent. An answer that was cut short, and whose turn was opened again for another one, is left
/// out, from then on and for good.
fn sent(conversation: &Conversation) -> Vec<Arc<Entry>> {
    let live = &conversation.live;
    let open = conversation.open_turn.as_ref().map(|open| &open.id);
    let is_void = |idx: usize, entry: &Entry| {
        let goes_on = || live.get(idx + 1).map(|next| &next.turn) == Some(&entry.turn);
        entry.role == Role::Assistant
            && entry.tool_calls.is_empty()
            && (open == Some(&entry.turn) || goes_on())
    };
    let standing = live.iter().enumerate().filter(|(idx, entry)| !is_void(*idx, entry));
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
    let Some(open) = &conversation.open_turn else { return String::new() };
    let asked = conversation.live.iter().filter(|entry| entry.turn == open.id && entry.role == Role::User);
    asked.map(|entry| text_of(&entry.parts)).collect::<Vec<_>>().join("\n")
}

/// Entries as messages. A call and its results are never parted: a call without a result gets a stand-in, a result
/// without its call is left out.
fn messages(entries: &[Arc<Entry>], tail: &Tail) -> Vec<ChatMessage> {
    let mut out = Vec::with_capacity(entries.len() + 1);
    let mut owed: Vec<Owed> = Vec::new();
    for entry in entries {
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
                let mut ids = HashSet::new();
                let tool_calls: Vec<_> =
                    entry.tool_calls.iter().filter(|call| ids.insert(&call.id)).cloned().collect();
                let text = text_of(&entry.parts);
                if text.is_empty() && tool_calls.is_empty() {
                    continue;
                }
                owed =
                    tool_calls.iter().map(|call| Owed { call_id: call.id.clone(), result: None }).collect();
                out.push(ChatMessage::Assistant { text, tool_calls });
            }
        }
    }
    settle(&mut out, &mut owed);
    out.push(ChatMessage::Context { text: tail_text(tail) });
    out
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
