//! Clients of the OpenAI-compatible endpoint send their whole list of messages with each request: what of it is stored, what is
//! new, and which turns the client has taken back.
//!
//! Messages have no ids there, so they are matched by their text. The start of the list may be under a summary, and a client
//! may have trimmed its list, so the two are laid beside each other where they agree for longest.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use cairn_types::event::{Event, MessageEvent, TurnEvent};
use cairn_types::ids::{ChannelId, Generation, MessageId};
use cairn_types::message::{Author, Entry, Gather, Inbound, Part, Provenance, Role, text_of};
use cairn_types::tokens::estimate;
use cairn_types::tool::defs::ToolDef;
use jiff::Timestamp;

use crate::conversation::Conversation;
use crate::import::{PastMessage, import};
use crate::turn::{Span, spans};

/// Most comparisons of two messages while a list is laid beside what is stored.
const COMPARED_MAX: usize = 4_000_000;

/// How the mark begins that stands behind an answer which was cut short.
pub const CUT_MARK: &str = "[cut short here: ";

/// Stands before the greeting of an agent in what a client's system message says.
const GREETED: &str = "You have opened the conversation with these words:\n";

/// A message of a client's list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// An answer of the agent; otherwise a message of the person.
    pub by_agent: bool,
    /// Never empty.
    pub parts: Vec<Part>,
}

/// What a client asks for: an answer to the last message of its list.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientList {
    pub channel: ChannelId,
    /// The id of the last message, and the start of those of the others. Never used before.
    pub message: MessageId,
    pub author: Author,
    pub at: Timestamp,
    /// The client's system message; empty: it sent none.
    pub system: String,
    /// What the agent said before anybody else, in a list that begins with that; empty: nothing. It is part of the scene that a
    /// client sets, and in a list that was trimmed no news.
    pub greeting: String,
    /// Tools that the client runs itself, for the turn that answers.
    pub tools: Vec<ToolDef>,
    /// The messages, oldest first, without answers in succession. The last one is the person's.
    pub listed: Vec<Listed>,
}

impl ClientList {
    /// The last message, which is to be answered.
    pub fn asked(&self) -> Inbound {
        Inbound {
            channel: self.channel.clone(),
            message: self.message.clone(),
            author: self.author.clone(),
            at: self.at,
            parts: self.listed.last().map(|last| last.parts.clone()).unwrap_or_default(),
            addressed: true,
            direct: false,
            chat_name: None,
            language: None,
            reply_to: None,
            provenance: Provenance::default(),
            spoken: false,
            recordings: Vec::new(),
            gather: Gather::default(),
        }
    }
}

/// A list laid beside a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Reconciled {
    /// Turns that the client has taken back, newest first.
    pub undone: Vec<Span>,
    /// The first message of the list that is not stored.
    pub new_from: usize,
    /// The list continues this conversation, as far as can be told.
    pub fits: bool,
}

/// A stored message.
struct Stored {
    /// Its turn, by its place among those of the person.
    turn: usize,
    by_agent: bool,
    text: Text,
    /// Its text is gone: it may be any.
    is_gone: bool,
    /// An answer that was cut short: the client has its beginning.
    is_cut: bool,
}

/// A text without regard to white space.
struct Text {
    words: String,
    hash: u64,
}

impl Text {
    fn of(text: &str) -> Self {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut hasher = DefaultHasher::new();
        words.hash(&mut hasher);
        Self { hash: hasher.finish(), words }
    }
}

impl Stored {
    fn of(entry: &Entry, turn: usize) -> Option<Self> {
        let by_agent = match entry.role {
            Role::User => false,
            Role::Assistant if entry.tool_calls.is_empty() => true,
            Role::Assistant | Role::Tool => return None,
        };
        let text = entry.text();
        let cut = text.rfind(CUT_MARK).filter(|_| by_agent);
        let text = Text::of(&text[..cut.unwrap_or(text.len())]);
        let is_gone = entry.is_expired() || entry.is_deleted();
        (!text.words.is_empty()).then_some(Self { turn, by_agent, text, is_gone, is_cut: cut.is_some() })
    }

    fn is(&self, by_agent: bool, text: &Text) -> bool {
        if self.by_agent != by_agent {
            return false;
        }
        if self.is_gone || self.text.hash == text.hash {
            return true;
        }
        // While tools are called a client is shown more than the answer, in front of it.
        by_agent
            && (text.words.ends_with(&self.text.words)
                || (self.is_cut && self.text.words.starts_with(&text.words)))
    }
}

/// A stretch in which both agree, from the start of one of the two.
struct Run {
    stored: usize,
    listed: usize,
    n: usize,
}

/// The turns of a person that stand in the window, and their messages and answers. A reminder's turn is none of them, nor one
/// that came by another way: clients do not know them.
fn own(conversation: &Conversation, person: &str) -> (Vec<Span>, Vec<Stored>) {
    let (mut turns, mut items) = (Vec::new(), Vec::new());
    let mut entries = conversation.live.iter();
    let is_own = |entry: &Entry| {
        entry.author.as_ref().is_some_and(|author| author.id == person)
            && entry.message.as_ref().is_some_and(|message| !message.is_correction())
    };
    for span in spans(conversation) {
        let of_turn: Vec<_> = entries.by_ref().take(span.messages as usize).collect();
        let mut said = of_turn.iter().filter(|entry| entry.role == Role::User).peekable();
        if said.peek().is_some() && said.all(|entry| is_own(entry)) {
            items.extend(of_turn.iter().filter_map(|entry| Stored::of(entry, turns.len())));
            turns.push(span);
        }
    }
    (turns, items)
}

/// Lays a client's list beside the conversation. No turn of it is open. The last message of the list counts as new, also where
/// it is stored: it is to be answered (again).
pub fn reconcile(conversation: &Conversation, list: &[Listed], person: &str) -> Reconciled {
    let last = list.len().saturating_sub(1);
    let new_from = |new_from| Reconciled { undone: Vec::new(), new_from, fits: true };
    let (turns, stored) = own(conversation, person);
    let is_summarised = !conversation.stack.items().is_empty();
    let has_earlier = is_summarised || conversation.generation > Generation::default();
    if stored.is_empty() {
        return new_from(if has_earlier { last } else { 0 });
    }
    let texts: Vec<Text> = list.iter().map(|listed| Text::of(&text_of(&listed.parts))).collect();
    let Some(run) = longest_run(&stored, list, &texts, (turns.len(), has_earlier)) else {
        return Reconciled { fits: false, ..new_from(if is_summarised { last } else { 0 }) };
    };
    let n = run.n.min(last - run.listed.min(last));
    let Some(differs) = stored.get(run.stored + n) else { return new_from(run.listed + n) };
    // A turn that differs anywhere is taken back as a whole.
    let first = stored.iter().position(|item| item.turn == differs.turn).unwrap_or(run.stored + n);
    let undone = turns[differs.turn..].iter().rev().cloned().collect();
    Reconciled { undone, new_from: run.listed + first.saturating_sub(run.stored), fits: true }
}

/// The longest stretch in which both agree, and of equals one that reaches the end of what is stored. A stretch counts if an
/// answer is in it: people say the same thing twice. Only where a single turn is stored, its message is enough.
fn longest_run(
    stored: &[Stored],
    list: &[Listed],
    texts: &[Text],
    (n_turns, has_earlier): (usize, bool),
) -> Option<Run> {
    let last = list.len() - 1;
    // From where their ends meet to where the list begins with what is stored last.
    let shifts = (0..stored.len()).map(|stored| (stored, 0)).chain((1..=last).map(|listed| (0, listed)));
    let (mut best, mut best_rank) = (None, (0, false));
    let mut compared = 0;
    for (from, at) in shifts {
        let pairs = stored[from..].iter().zip(&list[at..]).zip(&texts[at..]);
        let agree = |((stored, listed), text): &((&Stored, &Listed), &Text)| stored.is(listed.by_agent, text);
        let n = pairs.take_while(agree).count();
        let has_answer = stored[from..from + n].iter().any(|item| item.by_agent);
        // Behind a summary only where the client shows that it has more, and asks for this very message again.
        let is_beside = if has_earlier { at > 0 && at + n == list.len() } else { at == 0 };
        let is_only = n > 0 && from == 0 && n_turns == 1 && is_beside;
        let rank = (n, from + n == stored.len());
        if (has_answer || is_only) && rank > best_rank {
            (best, best_rank) = (Some(Run { stored: from, listed: at, n }), rank);
        }
        compared += n + 1;
        if compared > COMPARED_MAX {
            break;
        }
    }
    best
}

/// The events that bring a conversation to where the client stands, short of the message that is to be answered.
pub fn catch_up(conversation: &Conversation, list: &ClientList, reconciled: &Reconciled) -> Vec<Event> {
    let undo = |span: &Span| {
        let (turn, from_seq, to_seq) = (span.turn.clone(), span.from_seq, span.to_seq);
        Event::Turn(TurnEvent::Undone { turn, from_seq, to_seq })
    };
    let mut events: Vec<Event> = reconciled.undone.iter().map(undo).collect();
    let known = conversation.client_system.as_ref().map_or("", |system| &*system.text);
    let begins = conversation.live.is_empty() && conversation.stack.items().is_empty();
    let system = match format!("{GREETED}{}", list.greeting) {
        greeted if !list.greeting.is_empty() && (begins || known.ends_with(&greeted)) => {
            [list.system.as_str(), &greeted].join("\n\n").trim_start().to_owned()
        }
        _ => list.system.clone(),
    };
    if known != system {
        let tokens = if system.is_empty() { 0 } else { estimate(&system).max(1) };
        let (author, text) = (list.author.clone(), system);
        events.push(Event::Message(MessageEvent::SystemSet { author, text, tokens }));
    }
    let missed = list.listed.len().saturating_sub(1);
    let missed = list.listed.get(reconciled.new_from..missed).unwrap_or_default();
    let said = |(idx, listed): (usize, &Listed)| PastMessage {
        message: MessageId::from(format!("{}.{idx}", list.message)),
        at: list.at,
        author: (!listed.by_agent).then(|| list.author.clone()),
        text: text_of(&listed.parts),
        direct: false,
    };
    let said: Vec<PastMessage> = missed.iter().enumerate().map(said).collect();
    events.extend(import(conversation, &said, &BTreeSet::new()).events);
    events
}

#[cfg(test)]
mod tests;
