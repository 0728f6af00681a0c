//! `/memory`, `/remember`, `/forget`: the memories that may be read in this place.

use cairn_core::command::CommandCall;
use cairn_core::event::{Event, MemoryEvent, NewRecord};
use cairn_core::ids::{AgentId, MemoryId};
use cairn_core::memory::{
    Memory, MemoryKind, MemorySave, Reach, Scope, Share, Source, TYPED, TYPED_BY_MEMBER, mint_id, subject_of,
};
use cairn_core::message::Author;
use cairn_core::ports::{MemoryFilter, Store as _};

use super::words::quoted;
use super::{DaemonDesk, Trouble};
use crate::text::{counted, day};

const SHOWN: usize = 10;

/// Memories that are looked through.
pub(super) const LOOKED_THROUGH: usize = 10_000;

/// Longest text that is remembered at a command, in characters: a memory is a sentence or two.
const TEXT_MAX: usize = 1_000;

/// Importance of what a person asks to be remembered.
const IMPORTANCE: f64 = 0.8;

impl DaemonDesk {
    /// `/memory [QUERY]`.
    pub(super) async fn memory(&self, call: &CommandCall, query: Option<&str>) -> Result<String, Trouble> {
        let limit = if query.is_some() { SHOWN } else { LOOKED_THROUGH };
        let filter = MemoryFilter { query: query.map(str::to_owned), limit, ..MemoryFilter::default() };
        let found = self.deps.store.memories(&call.channel.agent(), &self.reach(call), filter).await?;
        if found.is_empty() {
            return Ok(match query {
                Some(query) => format!("Nothing is remembered here about “{}”.", quoted(query)),
                None => "Nothing is remembered here yet.".to_owned(),
            });
        }
        if query.is_some() {
            return Ok(format!("What fits best:\n\n{}", listed(found.iter())));
        }
        let n = counted(found.len() as u64, "memory", "memories");
        let newest = listed(found.iter().rev().take(SHOWN));
        let rest = if found.len() > SHOWN { "\n\n`/memory QUERY` searches them all." } else { "" };
        Ok(format!("{n} here, the newest first:\n\n{newest}{rest}"))
    }

    /// `/remember TEXT`.
    pub(super) async fn remember(&self, call: &CommandCall, text: &str) -> Result<String, Trouble> {
        if text.chars().count() > TEXT_MAX {
            return Err(Trouble::Said(format!(
                "That is too long: a memory has {TEXT_MAX} characters at most."
            )));
        }
        if text.contains('\0') {
            return Err(Trouble::Said("That cannot be remembered: it has a NUL character in it.".to_owned()));
        }
        let agent = call.channel.agent();
        let scope = Scope::learnt_in(&call.channel, direct_with(call));
        let operator = self.deps.config.now().config.commands.is_operator(&call.caller.id);
        let save = MemorySave {
            agent: agent.clone(),
            scope: scope.clone(),
            kind: MemoryKind::Fact,
            text: text.to_owned(),
            subject: subject_of(text, &call.caller, &self.known(call, &scope).await?),
            importance: IMPORTANCE,
            source: Source {
                channel: Some(call.channel.clone()),
                from_seq: None,
                to_seq: None,
                summary: None,
                model: if operator { TYPED } else { TYPED_BY_MEMBER }.to_owned(),
                by: Some(call.caller.clone()),
            },
            sighting: format!("{}/command/{}", call.channel, call.message),
            explicit: true,
        };
        let id = mint_id(&save.fingerprint());
        self.journal(vec![Event::Memory(MemoryEvent::Saved(save))]).await?;
        let follows = self.deps.store.memory(&id).await?.is_some_and(|memory| memory.follows().is_some());
        let whose = match (self.share(call), scope) {
            (Share::Agent, _) => "for everybody who talks to me",
            (_, Scope::User { .. }) => "for you alone",
            (Share::Person, _) if follows => "for everybody in this chat, and for you in private",
            _ => "for everybody in this chat",
        };
        Ok(format!("Remembered, {whose} (`{id}`). {}", self.taken_back(call, &id)))
    }

    /// Who is known where a command was given: whom the window shows, and whose word is remembered there.
    async fn known(&self, call: &CommandCall, scope: &Scope) -> Result<Vec<Author>, Trouble> {
        let found = self.deps.runtime.conversation(&call.channel).await?;
        let live = found.iter().flat_map(|(conversation, _awake)| conversation.live.iter());
        let mut known: Vec<Author> = live.filter_map(|entry| entry.author.clone()).collect();
        let memories = self.memories_in(&call.channel.agent(), &[Reach::Scope(scope.clone())]).await?;
        known.extend(memories.into_iter().filter_map(|memory| memory.source.by));
        Ok(known)
    }

    fn share(&self, call: &CommandCall) -> Share {
        let loaded = self.deps.config.now();
        loaded.config.agent(call.channel.agent().as_str()).map_or(Share::Chat, |agent| agent.memory.share)
    }

    /// What may be read where the command was given.
    fn reach(&self, call: &CommandCall) -> Vec<Reach> {
        Reach::of(&call.channel, direct_with(call), self.share(call))
    }

    /// Who takes a memory back, and how.
    fn taken_back(&self, call: &CommandCall, id: &MemoryId) -> String {
        let loaded = self.deps.config.now();
        let commands = &loaded.config.commands;
        let may = |operator| commands.forget.allows(call.direct, operator);
        match () {
            () if may(commands.is_operator(&call.caller.id)) => format!("`/forget {id}` takes it back."),
            () if may(true) && !commands.operators.is_empty() => {
                format!("Operators take it back with `/forget {id}`.")
            }
            () => format!("Whoever runs me takes it back with `cairn memory forget {id}`."),
        }
    }

    /// `/forget WHAT`: a memory by its id, or by words that only one has.
    pub(super) async fn forget(&self, call: &CommandCall, what: &str) -> Result<String, Trouble> {
        let mut reach = self.reach(call);
        // What everybody who talks to the agent reads is the operators' own, and so is what was said in other chats.
        if !self.deps.config.now().config.commands.is_operator(&call.caller.id) {
            reach = Reach::of(&call.channel, direct_with(call), Share::Person);
            reach.retain(|one| *one != Reach::Scope(Scope::Agent));
        }
        let filter = MemoryFilter { limit: LOOKED_THROUGH, ..MemoryFilter::default() };
        let all = self.deps.store.memories(&call.channel.agent(), &reach, filter).await?;
        let meant: Vec<&Memory> = match all.iter().find(|memory| memory.id.as_str() == what.trim_matches('`'))
        {
            Some(memory) => vec![memory],
            None => all.iter().filter(|memory| has_words(&memory.text, what)).collect(),
        };
        match meant.as_slice() {
            [] => Err(Trouble::Said(format!(
                "No memory here has all the words “{}”; `/memory` shows what there is.",
                quoted(what)
            ))),
            [memory] => {
                self.journal(vec![Event::Memory(MemoryEvent::Forgotten { id: memory.id.clone() })]).await?;
                Ok(format!("Forgotten: {}", quoted(&memory.text)))
            }
            several => Err(Trouble::Said(format!(
                "{} have these words. Which one? Give its id: `/forget ID`\n\n{}",
                counted(several.len() as u64, "memory", "memories"),
                listed(several.iter().copied().rev().take(SHOWN))
            ))),
        }
    }

    /// Journals changes of memories and waits until they can be seen.
    pub(super) async fn journal(&self, events: Vec<Event>) -> Result<(), Trouble> {
        let at = self.deps.clock.now();
        let records = events.into_iter().map(|event| NewRecord { channel: None, at, event }).collect();
        self.deps.store.append(records).await?;
        self.deps.store.settle().await?;
        Ok(())
    }

    /// All memories of an agent within reach.
    pub(super) async fn memories_in(&self, agent: &AgentId, reach: &[Reach]) -> Result<Vec<Memory>, Trouble> {
        let filter = MemoryFilter { limit: LOOKED_THROUGH, ..MemoryFilter::default() };
        Ok(self.deps.store.memories(agent, reach, filter).await?)
    }
}

/// The person whom the chat of a call is with, when it is private.
pub(super) fn direct_with(call: &CommandCall) -> Option<&str> {
    call.direct.then_some(call.caller.id.as_str())
}

pub(super) fn listed<'m>(memories: impl Iterator<Item = &'m Memory>) -> String {
    let lines = memories.map(|memory| {
        let seen = match memory.sightings {
            0 | 1 => String::new(),
            n => format!(", seen {n} times"),
        };
        let said = memory.said_by().map(|name| format!(", said by {}", quoted(name))).unwrap_or_default();
        let (kind, at) = (memory.kind.name(), day(memory.created_at));
        format!("- {} ({kind}, {at}{said}{seen}, `{}`)", quoted(&memory.text), memory.id)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// All of the words are in the text, in whatever case.
fn has_words(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    let mut words = words.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| text.contains(&word.to_lowercase()))
}
