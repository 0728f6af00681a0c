//! `/memory`, `/remember`, `/forget`: the memories that may be read in this chat; `/export` and `/forgetme`: what is stored
//! about the caller.

use std::collections::{BTreeMap, BTreeSet};

use cairn_core::store_port::Store as _;
use cairn_types::command::CommandCall;
use cairn_types::event::{Event, MemoryEvent, NewRecord};
use cairn_types::ids::{AgentId, ChannelId, MemoryId};
use cairn_types::memory::{
    Memory, MemoryKind, MemorySave, Reach, Replaces, Scope, Share, Source, TYPED, TYPED_BY_MEMBER, mint_id,
    subject_of,
};
use cairn_types::message::Author;
use cairn_types::people::pairing::PairingStatus;
use cairn_types::ports::{MemoryFilter, PairingStore};
use cairn_types::reminder::Reminder;
use cairn_types::texts::{Key, Saying, Value};
use jiff::Timestamp;

use crate::chat::paint::{ROWS, paint};
use crate::chat::{CommandError, Runner};
use cairn_api::records::ReminderRecord;
use cairn_api::show::Show as _;
use cairn_api::text::{day, quoted};

/// Most memories that are searched.
const SEARCHED_MAX: usize = 10_000;

/// Longest text that is remembered at a command, in characters: a memory is a sentence or two.
const TEXT_MAX: usize = 1_000;

/// Importance of what a person asks to be remembered.
const IMPORTANCE: f64 = 0.8;

impl Runner {
    /// `/memory [QUERY]`.
    pub(super) async fn memory(
        &self,
        call: &CommandCall,
        query: Option<&str>,
    ) -> Result<String, CommandError> {
        let (agent, reach) = (call.channel.agent(), self.reach(call));
        let texts = self.texts(call);
        if let Some(query) = query {
            let filter =
                MemoryFilter { query: Some(query.to_owned()), limit: ROWS, ..MemoryFilter::default() };
            let found = self.deps.store.memories(&agent, &reach, filter).await?;
            return Ok(match found.is_empty() {
                true => texts.say(Key::MemoryNotFound.with("query", quoted(query))),
                false => {
                    format!("{}\n\n{}", texts.say(Key::MemoryFound), paint(&found.show(), ROWS, &texts))
                }
            });
        }
        // One more shows whether there are others.
        let found = self.deps.store.newest_memories(&agent, &reach, ROWS + 1).await?;
        let newest = paint(&found.show(), ROWS, &texts);
        Ok(match found.len() {
            0 => texts.say(Key::MemoryNone),
            n if n > ROWS => {
                let head = texts.say(Key::MemoryNewest.with("n", ROWS));
                format!("{head}\n\n{newest}\n\n{}", texts.say(Key::MemorySearch))
            }
            n => {
                let all = Key::MemoryAll.with("memories", Key::CountMemories.count(n as u64));
                format!("{}\n\n{newest}", texts.say(all))
            }
        })
    }

    /// `/remember TEXT`.
    pub(super) async fn remember(&self, call: &CommandCall, text: &str) -> Result<String, CommandError> {
        if text.chars().count() > TEXT_MAX {
            return Err(CommandError::Told(Key::RememberTooLong.with("max", TEXT_MAX)));
        }
        if text.contains('\0') {
            return Err(CommandError::Told(Key::RememberNul.into()));
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
                said_at: None,
                told_by: None,
            },
            sighting: format!("{}/command/{}", call.channel, call.message),
            explicit: true,
            replaces: Replaces::default(),
        };
        let id = mint_id(&save.fingerprint());
        self.journal(vec![Event::Memory(MemoryEvent::Saved(save))]).await?;
        let follows = self.deps.store.memory(&id).await?.is_some_and(|memory| memory.follows().is_some());
        let whose = match (self.share(call), scope) {
            (Share::Agent, _) => Key::ForEverybody,
            (_, Scope::User { .. }) => Key::ForYou,
            (Share::Person, _) if follows => Key::ForChatAndYou,
            _ => Key::ForChat,
        };
        let told = Key::Remembered.with("whose", whose).with("id", id.as_str());
        Ok(self.texts(call).say(told.with("undo", self.undone_by(call, &id))))
    }

    /// `/private [me] [on|off]`.
    pub(super) async fn set_private(
        &self,
        call: &CommandCall,
        me: bool,
        on: Option<bool>,
    ) -> Result<String, CommandError> {
        let Some(on) = on else {
            let lines = self.privacy(call);
            return Ok(match lines.as_slice() {
                [] => self.texts(call).say(Key::PrivateNone),
                lines => lines.join("\n"),
            });
        };
        let chat = (!me).then(|| call.channel.chat().to_owned());
        self.deps.people.set_private(call.caller.id.clone(), chat, on).await?;
        let key = match (me, on) {
            (true, true) => Key::PrivateMeOn,
            (false, true) => Key::PrivateChatOn,
            (true, false) => Key::PrivateMeOff,
            (false, false) => Key::PrivateChatOff,
        };
        Ok(self.texts(call).say(key))
    }

    /// A line for what is private of the caller and of the chat.
    pub(super) fn privacy(&self, call: &CommandCall) -> Vec<String> {
        let (person, chat) = self.deps.people.private_since(&call.caller.id, &call.channel);
        let texts = self.texts(call);
        let line = |key: Key, since| format!("- {}", texts.say(key.with("day", day(since))));
        let chat = chat.map(|since| line(Key::PrivateChatSince, since));
        let person = person.map(|since| line(Key::PrivateMeSince, since));
        chat.into_iter().chain(person).collect()
    }

    /// The people who are known in the chat of a command: authors in the window, and of its memories.
    async fn known(&self, call: &CommandCall, scope: &Scope) -> Result<Vec<Author>, CommandError> {
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

    /// Who can forget a memory again, and how.
    fn undone_by(&self, call: &CommandCall, id: &MemoryId) -> Saying {
        let loaded = self.deps.config.now();
        let commands = &loaded.config.commands;
        let may = |operator| commands.forget.allows(call.direct, operator);
        let key = match () {
            () if may(commands.is_operator(&call.caller.id)) => Key::ForgetByYou,
            () if may(true) && !commands.operators.is_empty() => Key::ForgetByOperators,
            () => Key::ForgetByShell,
        };
        key.with("id", id.as_str())
    }

    /// `/forget WHAT`: a memory by its id, or by words that only one has.
    pub(super) async fn forget(&self, call: &CommandCall, what: &str) -> Result<String, CommandError> {
        let mut reach = self.reach(call);
        // What everybody who talks to the agent reads is the operators' own, and so is what was said in other chats.
        if !self.deps.config.now().config.commands.is_operator(&call.caller.id) {
            reach = Reach::of(&call.channel, direct_with(call), Share::Person);
            reach.retain(|one| *one != Reach::Scope(Scope::Agent));
        }
        let filter = MemoryFilter { limit: SEARCHED_MAX, ..MemoryFilter::default() };
        let all = self.deps.store.memories(&call.channel.agent(), &reach, filter).await?;
        let meant: Vec<&Memory> = match all.iter().find(|memory| memory.id.as_str() == what.trim_matches('`'))
        {
            Some(memory) => vec![memory],
            None => all.iter().filter(|memory| has_words(&memory.text, what)).collect(),
        };
        match meant.as_slice() {
            [] => Err(CommandError::Told(Key::ForgetNotFound.with("words", quoted(what)))),
            [memory] => {
                self.journal(vec![Event::Memory(MemoryEvent::Forgotten {
                    id: memory.id.clone(),
                    wished: true,
                })])
                .await?;
                Ok(self.texts(call).say(Key::Forgotten.with("text", quoted(&memory.text))))
            }
            several => {
                let list: Vec<Memory> = several.iter().copied().rev().cloned().collect();
                let list = paint(&list.show(), ROWS, &self.texts(call));
                let n = Key::CountMemories.count(several.len() as u64);
                Err(CommandError::Listed(Key::ForgetWhich.with("memories", n), list))
            }
        }
    }

    /// Journals changes of memories and waits until they can be seen.
    pub(super) async fn journal(&self, events: Vec<Event>) -> Result<(), CommandError> {
        let at = self.deps.clock.now();
        let records = events.into_iter().map(|event| NewRecord { channel: None, at, event }).collect();
        self.deps.store.append(records).await?;
        self.deps.store.settle().await?;
        Ok(())
    }

    /// All memories of an agent within reach.
    pub(super) async fn memories_in(
        &self,
        agent: &AgentId,
        reach: &[Reach],
    ) -> Result<Vec<Memory>, CommandError> {
        let filter = MemoryFilter { limit: SEARCHED_MAX, ..MemoryFilter::default() };
        Ok(self.deps.store.memories(agent, reach, filter).await?)
    }
}

/// The person whom the chat of a call is with, when it is private.
fn direct_with(call: &CommandCall) -> Option<&str> {
    call.direct.then_some(call.caller.id.as_str())
}

/// All of the words are in the text, in whatever case.
fn has_words(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    let mut words = words.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| text.contains(&word.to_lowercase()))
}

/// Memories that an export shows; more would fill the chat.
const EXPORTED: usize = 200;

/// The messages of the caller in the channel of the call.
#[derive(Default)]
struct Messages {
    messages: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Names that the caller has had there.
    names: BTreeSet<String>,
    /// Names that others have had there.
    names_of_others: BTreeSet<String>,
}

impl Runner {
    /// `/export`.
    pub(super) async fn export(&self, call: &CommandCall) -> Result<String, CommandError> {
        let said = self.messages_of_caller(call).await?;
        let memories = self.about(call, &said).await?;
        let who = format!("**{}** (`{}`)", quoted(&call.caller.name), call.caller.id);
        let texts = self.texts(call);
        let item = |saying: Saying| format!("- {}", texts.say(saying));
        let head = texts.say(Key::Export.with("who", who));
        let mut lines = vec![head, String::new(), item(summary(&said))];
        lines.extend(match self.deps.people.standing(&call.caller.id) {
            PairingStatus::Paired => Some(item(Key::ExportPaired.into())),
            PairingStatus::Waiting => Some(item(Key::ExportWaiting.into())),
            PairingStatus::Revoked => Some(item(Key::ExportRevoked.into())),
            PairingStatus::Banned | PairingStatus::Stranger => None,
        });
        lines.extend(self.privacy(call));
        if memories.is_empty() {
            lines.push(item(Key::ExportNoMemories.into()));
        } else {
            lines.push(format!("{}:", item(Key::CountMemories.count(memories.len() as u64))));
            lines.push(String::new());
            lines.push(paint(&memories.values().cloned().collect::<Vec<_>>().show(), EXPORTED, &texts));
        }
        if memories.len() > EXPORTED {
            lines.push(format!("\n{}", texts.say(Key::ExportFirst.with("n", EXPORTED))));
        }
        let reminders = self.reminders_of(&call.caller.id).await?;
        if !reminders.is_empty() {
            let n = texts.say(Key::CountReminders.count(reminders.len() as u64));
            lines.push(format!("\n{n}:\n"));
            let records: Vec<ReminderRecord> = reminders.into_iter().map(ReminderRecord::from).collect();
            lines.push(paint(&records.show(), EXPORTED, &texts));
        }
        lines.push(format!("\n{}", texts.say(Key::ExportArchive)));
        Ok(lines.join("\n"))
    }

    /// `/forgetme [yes]`.
    pub(super) async fn forget_me(
        &self,
        call: &CommandCall,
        confirmed: bool,
    ) -> Result<String, CommandError> {
        let memories = self.about(call, &self.messages_of_caller(call).await?).await?;
        let reminders = self.reminders_of(&call.caller.id).await?;
        let texts = self.texts(call);
        let n = Key::CountMemories.count(memories.len() as u64);
        let set = Key::CountReminders.count(reminders.len() as u64);
        if memories.is_empty() && reminders.is_empty() {
            return Ok(texts.say(Key::ForgetmeNone));
        }
        if !confirmed {
            let also: Value = match reminders.len() {
                0 => "".into(),
                _ => Key::ForgetmeAlso.with("reminders", set).into(),
            };
            return Ok(texts.say(Key::ForgetmeConfirm.with("memories", n).with("also", also)));
        }
        let events =
            memories.into_keys().map(|id| Event::Memory(MemoryEvent::Forgotten { id, wished: true }));
        self.journal(events.collect()).await?;
        let caller = call.caller.id.as_str();
        for (channel, reminder) in &reminders {
            self.deps.runtime.cancel_reminder(channel, &reminder.id, caller, Some(caller)).await?;
        }
        Ok(match reminders.len() {
            0 => texts.say(Key::ForgetmeDone.with("memories", n)),
            _ => texts.say(Key::ForgetmeDoneBoth.with("memories", n).with("reminders", set)),
        })
    }

    /// The reminders that a person has set, in whatever chat.
    async fn reminders_of(&self, person: &str) -> Result<Vec<(ChannelId, Reminder)>, CommandError> {
        let mut found = self.deps.runtime.reminders(None, usize::MAX).await?;
        found.retain(|(_, reminder)| reminder.by.id == person);
        Ok(found)
    }

    /// The memories about the caller that they may see: of their own scope and what they said of themselves elsewhere, with
    /// whichever agent, and those of this place that are about them or by them.
    async fn about(
        &self,
        call: &CommandCall,
        said: &Messages,
    ) -> Result<BTreeMap<MemoryId, Memory>, CommandError> {
        let mut found = BTreeMap::new();
        let platform = call.channel.platform();
        let bare = call.caller.id.strip_prefix(platform).and_then(|rest| rest.strip_prefix('/'));
        let user = bare.unwrap_or(&call.caller.id).to_owned();
        let said_elsewhere = Reach::Own(format!("{platform}/{user}"));
        let own = [Reach::Scope(Scope::User { platform: platform.to_owned(), user }), said_elsewhere];
        for agent in &self.deps.config.now().config.agents {
            let memories = self.memories_in(&agent.id, &own).await?;
            found.extend(memories.into_iter().map(|memory| (memory.id.clone(), memory)));
        }
        let agent: AgentId = call.channel.agent();
        // What everybody who talks to the agent reads is the operators' own: see `/forget`.
        let place = [Reach::Scope(Scope::learnt_in(&call.channel, None))];
        let memories = self.memories_in(&agent, &place).await?;
        let mine = memories.into_iter().filter(|memory| said.is_about_caller(memory, &call.caller.id));
        found.extend(mine.map(|memory| (memory.id.clone(), memory)));
        Ok(found)
    }

    /// The messages of the caller in the channel of the call, from the index of who has spoken there.
    async fn messages_of_caller(&self, call: &CommandCall) -> Result<Messages, CommandError> {
        let mut said = Messages::default();
        said.names.insert(call.caller.name.to_lowercase());
        for (person, speaker) in self.deps.store.speakers(&call.channel).await? {
            let names = speaker.names.iter().map(|name| name.to_lowercase());
            if person != call.caller.id {
                said.names_of_others.extend(names);
                continue;
            }
            said.messages = speaker.messages;
            (said.first, said.last) = (Some(speaker.first), Some(speaker.last));
            said.names.extend(names);
        }
        Ok(said)
    }
}

impl Messages {
    /// The caller said it, or it is about the caller: by their id, or by a name that nobody else has had there, so that nobody
    /// reaches the memories of another person by taking their name.
    fn is_about_caller(&self, memory: &Memory, caller: &str) -> bool {
        if memory.speaker() == Some(caller) {
            return true;
        }
        let Some(subject) = &memory.subject else { return false };
        let name = subject.to_lowercase();
        subject == caller || (self.names.contains(&name) && !self.names_of_others.contains(&name))
    }
}

fn summary(said: &Messages) -> Saying {
    match (said.first, said.last) {
        (Some(first), Some(last)) => {
            let n = Key::ExportMessages.with("messages", Key::CountMessages.count(said.messages));
            n.with("first", day(first)).with("last", day(last))
        }
        _ => Key::ExportNoMessages.into(),
    }
}
