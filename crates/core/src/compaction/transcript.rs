//! The request of a run: its prompt, its transcript, its one tool.

use std::collections::BinaryHeap;
use std::fmt::Write;
use std::sync::Arc;

use super::identifiers::Mask;
use super::save::{LIST_PROMPT, memory_save_tool};
use super::sections::{MergePlan, Sections, plan_merge};
use super::stages::{RequestRoom, next_chunk};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::prune::{FILE_BYTES, is_long_file};
use crate::settings::INSTRUCTION_MAX_CHARS;
use crate::silence;
use cairn_types::event::Run;
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::message::{Entry, Part, Role, ToolCall, text_of};
use cairn_types::model::{Attempt, ChatMessage, ChatRequest, Purpose};
use cairn_types::summary::Summary;
use cairn_types::text::escape::{cut_middle, escape_name, escape_text, short_date, short_time};
use cairn_types::tokens::estimate;
use cairn_types::tool::defs::ToolDefs;

/// What a transcript shows of a tool's result, in characters: its head and its tail, where outputs say how they ended.
const RESULT_CHARS: (usize, usize) = (350, 350);

/// What a transcript shows of a call's arguments, in characters: of all of them, and of each.
const CALL_CHARS: usize = 300;
const ARGUMENT_CHARS: usize = 150;

/// The earlier summary takes this part of the window at most: one in so many tokens.
const EARLIER_SHARE: u64 = 8;

/// Fewest tokens of an earlier summary that says something.
const EARLIER_LEAST: u64 = 64;

/// Tokens of what leads a text beside the transcript, roughly.
const BESIDE_TOKENS: u64 = 40;

/// Tokens of the frame of a request beside its texts, roughly.
const FRAME_TOKENS: u64 = 120;

/// Least room for a transcript, in tokens, with which a model can make a summary.
const ROOM_MIN: u64 = 64;

/// What all requests of a run share, on one model.
#[derive(Debug, Clone, Copy)]
pub struct Brief<'a> {
    pub channel: &'a ChannelId,
    pub run: &'a Run,
    /// The agent on the model that summarises.
    pub reader: &'a AgentSettings,
    pub tools: bool,
    /// How far its provider counts above our estimate.
    pub correction: f64,
    pub mask: Option<&'a Mask>,
}

/// What a request over entries has beside them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The summary of the chunks before.
    pub so_far: Option<&'a str>,
    /// The newest earlier summary of the stack, to be understood and not repeated.
    pub earlier: Option<&'a str>,
}

/// What the next request over entries takes of them, and what it has beside them.
pub struct Chunk<'a> {
    /// How many of the entries.
    pub n: usize,
    pub room: RequestRoom,
    pub script: Transcript,
    so_far: Option<&'a str>,
    earlier: Option<String>,
}

impl Chunk<'_> {
    pub fn beside(&self) -> Beside<'_> {
        Beside { so_far: self.so_far, earlier: self.earlier.as_deref() }
    }
}

/// A transcript: a line for each entry.
pub struct Transcript {
    lines: Vec<String>,
    sizes: Vec<u64>,
    left_out: Vec<Seq>,
}

impl Transcript {
    /// Tokens of the entries as the transcript has them; nothing for one without a line.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Entries among the first `n` that are left out for their size.
    pub fn left_out(&self, entries: &[Arc<Entry>], n: usize) -> Vec<Seq> {
        let within = entries[..n].last().map(|entry| entry.seq);
        self.left_out.iter().copied().filter(|seq| Some(*seq) <= within).collect()
    }
}

impl Brief<'_> {
    /// The room for a transcript beside everything else.
    pub fn room(&self, beside: &Beside<'_>) -> RequestRoom {
        let blocks: u64 = self.system(true).iter().map(|block| u64::from(estimate(block))).sum();
        let texts = [beside.so_far, beside.earlier];
        let texts: u64 =
            texts.into_iter().flatten().map(|text| u64::from(estimate(text)) + BESIDE_TOKENS).sum();
        let tool =
            if self.tools { u64::from(estimate(&memory_save_tool().parameters.to_string())) + 60 } else { 0 };
        RequestRoom::new(self.reader, blocks + texts + tool + FRAME_TOKENS, self.correction)
    }

    /// The prompt, and what the operator and a person want.
    fn system(&self, memories: bool) -> Vec<String> {
        let mut system = vec![self.reader.compactor_prompt.clone()];
        let bounded = |text: &str| text.trim().chars().take(INSTRUCTION_MAX_CHARS).collect::<String>();
        if let Some(wish) =
            self.reader.compaction.instructions.as_deref().filter(|text| !text.trim().is_empty())
        {
            system.push(format!("The operator wants every summary to attend to this: {}", bounded(wish)));
        }
        if let Some(wish) = self.run.instruction.as_deref().filter(|text| !text.trim().is_empty()) {
            let wish = bounded(wish).split_whitespace().collect::<Vec<_>>().join(" ");
            system.push(format!(
                "The person who asked for this summary wants it to attend to this: {}",
                escape_text(&wish)
            ));
        }
        if memories && !self.tools {
            system.push(LIST_PROMPT.to_owned());
        }
        system
    }

    /// The transcript of entries: as data, names escaped, tool mechanics left out. A message that the room cannot hold
    /// is left out, with a note in its place.
    pub fn script(&self, entries: &[Arc<Entry>], room: &RequestRoom) -> Transcript {
        let mut script = Transcript { lines: Vec::new(), sizes: Vec::new(), left_out: Vec::new() };
        for entry in entries {
            let mut text = line(entry).unwrap_or_default();
            let tokens = u64::from(estimate(&text));
            if room.leaves_out(tokens) {
                script.left_out.push(entry.seq);
                let (head, _) = text.split_once("] ").unwrap_or((&text, ""));
                text =
                    format!("{head}] [System: a message of {tokens} tokens is left out here for its size]");
            }
            if let Some(mask) = self.mask {
                text = mask.apply(&text);
            }
            script.sizes.push(if text.is_empty() { 0 } else { u64::from(estimate(&text)) + 1 });
            script.lines.push(text);
        }
        script
    }

    /// The chunk that the next request takes of these entries. `earlier`: the earlier summary, for the first chunk of a
    /// run. `extracts`: for the embedded model, which has no window. `None`: beside prompt and answer there is no room.
    pub fn chunk<'a>(
        &self,
        rest: &[Arc<Entry>],
        so_far: Option<&'a str>,
        earlier: Option<&str>,
        extracts: bool,
    ) -> Option<Chunk<'a>> {
        let read = |beside: &Beside<'_>| {
            let room = self.room(beside);
            (room.whole() >= ROOM_MIN || extracts).then(|| (room, self.script(rest, &room)))
        };
        let (mut room, mut script) = read(&Beside { so_far, earlier: None })?;
        let mut n = if extracts { rest.len() } else { next_chunk(rest, script.sizes(), &room) };
        // What goes in one request goes in one with the earlier summary, too.
        let taken: u64 = script.sizes().iter().sum();
        let spare = if n == rest.len() { room.whole().saturating_sub(taken) } else { u64::MAX };
        let earlier = earlier.filter(|_| so_far.is_none() && !extracts);
        let earlier = earlier.and_then(|text| earlier_within(text, self.reader, spare));
        if earlier.is_some() {
            (room, script) = read(&Beside { so_far, earlier: earlier.as_deref() })?;
            n = next_chunk(rest, script.sizes(), &room);
        }
        Some(Chunk { n, room, script, so_far, earlier })
    }

    /// The request for a merge into so many tokens, with what is copied beside it and the tokens that are left for the
    /// merged text; no request where all can be copied.
    pub fn merging(&self, sources: &[Summary], target_tokens: u64) -> (Option<ChatRequest>, Sections, u64) {
        let MergePlan { copied, asked } = plan_merge(sources, target_tokens);
        let left = target_tokens.saturating_sub(u64::from(estimate(&copied.render()))).max(1);
        let request = (!asked.is_empty()).then(|| self.merge(asked.into(), left));
        (request, copied, left)
    }

    /// Most tokens of the answer to a request, within the room that it was made for.
    pub fn answer_limit(reader: &AgentSettings, room: &RequestRoom, request: &ChatRequest) -> u64 {
        reader.window.output_reserve_tokens.min(room.answer(request_tokens(request))).max(1)
    }

    /// The request for a summary of the first `n` entries of the script, which are these. What is too large for the
    /// room in spite of all is shortened, the longest first.
    pub fn summarise(
        &self,
        entries: Arc<[Arc<Entry>]>,
        script: &Transcript,
        beside: &Beside<'_>,
        target_tokens: u64,
    ) -> ChatRequest {
        let lines = script.lines[..entries.len()].to_vec();
        let mut text = transcript_text(&entries, lines, self.room(beside).whole());
        if let Some(so_far) = beside.so_far {
            let _ = write!(
                text,
                "\n\n<summaries-so-far>\n{}\n</summaries-so-far>\n\nThe transcript continues from that summary. Update the \
                 summary section by section: keep word for word what still holds, change what the transcript changes, \
                 add what is new.",
                escape_text(so_far)
            );
        }
        if let Some(earlier) = beside.earlier {
            let earlier = self.mask.map_or_else(|| earlier.to_owned(), |mask| mask.apply(earlier));
            let _ = write!(
                text,
                "\n\n<summaries-earlier>\n{}\n</summaries-earlier>\n\nThat summary already covers what was said before the \
                 transcript. Use it to understand the transcript, and repeat nothing from it.",
                escape_text(&earlier)
            );
        }
        let save = if self.tools {
            "Save what should outlive this conversation with memory_save, then answer"
        } else {
            "Answer"
        };
        let behind = if self.tools { "" } else { ", followed by the list of memories" };
        let _ = write!(text, "\n\n{save} with the summary alone{behind}. {}", room_in_words(target_tokens));
        let tools = if self.tools { vec![memory_save_tool()].into() } else { ToolDefs::default() };
        self.request(Purpose::Summarise { entries, target_tokens }, self.system(true), text, tools)
    }

    /// The request for a merge of summaries.
    pub fn merge(&self, sources: Arc<[Summary]>, target_tokens: u64) -> ChatRequest {
        let mut text = merge_text(&sources, target_tokens);
        if let Some(mask) = self.mask {
            text = mask.apply(&text);
        }
        self.request(Purpose::Merge { sources, target_tokens }, self.system(false), text, ToolDefs::default())
    }

    fn request(&self, purpose: Purpose, system: Vec<String>, text: String, tools: ToolDefs) -> ChatRequest {
        ChatRequest {
            channel: self.channel.clone(),
            purpose,
            system,
            messages: vec![ChatMessage::User { parts: vec![Part::text(text)] }],
            turn_from: 0,
            tools,
            // Calls of tools and reasoning take their part of the answer, too: the size is asked for in words.
            last_call: false,
            max_output_tokens: self.reader.window.output_reserve_tokens,
            attempt: Attempt::default(),
        }
    }
}

/// The newest summary of the stack that is older than the run.
pub fn earlier_summary(conversation: &Conversation, run: &Run) -> Option<String> {
    let earlier = conversation.stack.summaries().filter(|summary| summary.to_seq < run.from_seq).last()?;
    Some(earlier.text.clone())
}

/// The earlier summary as a request has room for it beside its transcript: of a very long one the ends, nothing where
/// next to nothing would be left. `spare`: what the transcript leaves free.
pub fn earlier_within(text: &str, reader: &AgentSettings, spare: u64) -> Option<String> {
    let most = (reader.window.window_tokens / EARLIER_SHARE).min(spare.saturating_sub(BESIDE_TOKENS));
    let tokens = u64::from(estimate(text)).max(1);
    if tokens <= most {
        return Some(text.to_owned());
    }
    // The note in its middle takes some, too.
    let cut = cut_middle(text, most as f64 / tokens as f64 * 0.9);
    (most >= EARLIER_LEAST && u64::from(estimate(&cut)) <= most).then_some(cut)
}

/// Estimated tokens of a request of a run.
pub fn request_tokens(request: &ChatRequest) -> u64 {
    let text_tokens = |text: &str| u64::from(estimate(text)) + 4;
    let blocks: u64 = request.system.iter().map(|block| text_tokens(block)).sum();
    let tools = request
        .tools
        .iter()
        .map(|tool| text_tokens(&tool.description) + text_tokens(&tool.parameters.to_string()));
    let messages = request.messages.iter().map(|message| match message {
        ChatMessage::User { parts } => text_tokens(&text_of(parts)),
        ChatMessage::Assistant { text, tool_calls, provider_state } => {
            let calls = tool_calls
                .iter()
                .map(|call| text_tokens(&call.name) + text_tokens(&call.arguments.to_string()));
            let state = provider_state.as_ref().map_or(0, |state| u64::from(state.tokens()));
            text_tokens(text) + calls.sum::<u64>() + state
        }
        ChatMessage::Tool { text, .. } | ChatMessage::Context { text } => text_tokens(text),
    });
    blocks + tools.sum::<u64>() + messages.sum::<u64>()
}

fn transcript_text(entries: &[Arc<Entry>], mut lines: Vec<String>, room: u64) -> String {
    let size = |(idx, line): (usize, &String)| (u64::from(estimate(line)) + 1, idx);
    let mut sizes: BinaryHeap<(u64, usize)> = lines.iter().enumerate().map(size).collect();
    let mut total: u64 = sizes.iter().map(|(size, _)| size).sum();
    while total > room {
        let Some((size, idx)) = sizes.pop().filter(|(size, _)| *size > 16) else { break };
        lines[idx] = cut_middle(&lines[idx], 0.5);
        let shorter = (u64::from(estimate(&lines[idx])) + 1).min(size - 1);
        total -= size - shorter;
        sizes.push((shorter, idx));
    }
    let (from, to) = match (entries.first(), entries.last()) {
        (Some(first), Some(last)) => (first.at, last.at),
        _ => return String::new(),
    };
    lines.retain(|line| !line.is_empty());
    format!(
        "<transcript from=\"{}\" to=\"{}\">\n{}\n</transcript>",
        short_date(from),
        short_date(to),
        lines.join("\n")
    )
}

fn line(entry: &Entry) -> Option<String> {
    if entry.is_deleted() || silence::is_silent(entry) {
        return None;
    }
    let text = said(&entry.parts);
    let time = short_time(entry.at);
    match entry.role {
        Role::User => {
            let name = entry.author.as_ref().map_or_else(|| "somebody".to_owned(), |a| escape_name(&a.name));
            Some(format!("[{name} | {time}] {}", escape_text(&text)))
        }
        Role::Assistant => {
            let mut line = format!("[assistant | {time}] {}", escape_text(&text));
            for call in &entry.tool_calls {
                let _ = write!(line, " (called {})", called(call));
            }
            (!text.is_empty() || !entry.tool_calls.is_empty()).then_some(line)
        }
        Role::Tool => Some(format!("[tool | {time}] {}", result(&text))),
    }
}

/// The text of an entry as the transcript shows it: of a long file its head and its tail, as requests have it.
fn said(parts: &[Part]) -> String {
    if !parts.iter().any(is_long_file) {
        return text_of(parts);
    }
    let mut shown = parts.to_vec();
    for part in shown.iter_mut().filter(|part| is_long_file(part)) {
        if let Part::File { text: Some(text), .. } = part {
            *text = cut_middle(text, FILE_BYTES as f64 / text.len() as f64);
        }
    }
    text_of(&shown)
}

/// A call as the transcript shows it: its name and its arguments, on one line.
fn called(call: &ToolCall) -> String {
    let mut text = escape_name(&call.name);
    let fields = call.fields();
    let mut left = CALL_CHARS;
    for (idx, (key, value)) in fields.iter().enumerate() {
        let value = match ends(value, ARGUMENT_CHARS * 2 / 3, ARGUMENT_CHARS / 3) {
            Some((head, tail, _)) => format!("{head} … {tail}"),
            None => value.to_string(),
        };
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let chars = key.chars().count() + value.chars().count() + 4;
        if chars > left {
            let _ = write!(text, "; … {} more", fields.len() - idx);
            break;
        }
        left -= chars;
        let _ = match (idx, *key) {
            (0, "") => write!(text, ": {value}"),
            (0, key) => write!(text, ": {}={value}", escape_name(key)),
            (_, key) => write!(text, "; {}={value}", escape_name(key)),
        };
    }
    text
}

/// A result as the transcript shows it: whole when it is short, else its head and its tail.
fn result(text: &str) -> String {
    let (head, tail) = RESULT_CHARS;
    match ends(text, head, tail) {
        Some((head, tail, between)) => {
            format!("{}\n[… {between} characters …]\n{}", escape_text(head), escape_text(tail))
        }
        None => escape_text(text).into_owned(),
    }
}

/// Head and tail of a text that has more characters than both, and how many stand between them.
fn ends(text: &str, head: usize, tail: usize) -> Option<(&str, &str, usize)> {
    // A few more are not worth a note.
    let between =
        text.chars().count().checked_sub(head + tail).filter(|between| *between > (head + tail) / 10)?;
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    Some((&text[..at(head)], &text[at(head + between)..], between))
}

/// Words of a summary in so many estimated tokens, in any language that has spaces: six for ten tokens.
fn room_in_words(target_tokens: u64) -> String {
    format!("The summary may have at most {} words: use the room for facts.", target_tokens * 6 / 10)
}

fn merge_text(sources: &[Summary], limit: u64) -> String {
    let mut text = String::from("<summaries>\n");
    for summary in sources {
        let (from, to) = (short_date(summary.from_at), short_date(summary.to_at));
        let _ = write!(text, "[summary | {from} to {to}]\n{}\n\n", escape_text(&summary.text));
    }
    let _ = write!(
        text,
        "</summaries>\n\nThese summaries follow one another in time. Merge them into one, section by section, the older \
         first, in their own words. Say once what they repeat; where a later one changes an earlier one, keep what holds \
         now. Keep every fact, name, number, date, identifier and open commitment that still matters. Answer with the \
         merged summary alone. {}",
        room_in_words(limit)
    );
    text
}

#[cfg(test)]
mod tests;
