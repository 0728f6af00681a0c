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
use jiff::Timestamp;

use crate::chat::paint::{ROWS, paint};
use crate::chat::{CommandError, Runner};
use cairn_api::records::ReminderRecord;
use cairn_api::show::Show as _;
use cairn_api::text::{counted, day, quoted};

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
        if let Some(query) = query {
            let filter =
                MemoryFilter { query: Some(query.to_owned()), limit: ROWS, ..MemoryFilter::default() };
            let found = self.deps.store.memories(&agent, &reach, filter).await?;
            return Ok(match found.is_empty() {
                true => format!("Nothing is remembered here about “{}”.", quoted(query)),
                false => format!("Best matches:\n\n{}", paint(&found.show(), ROWS)),
            });
        }
        // One more shows whether there are others.
        let found = self.deps.store.newest_memories(&agent, &reach, ROWS + 1).await?;
        let newest = paint(&found.show(), ROWS);
        Ok(match found.len() {
            0 => "Nothing is remembered here yet.".to_owned(),
            n if n > ROWS => {
                format!("The newest {ROWS} memories here:\n\n{newest}\n\n`/memory QUERY` searches them all.")
            }
            n => format!("{} here, the newest first:\n\n{newest}", counted(n as u64, "memory", "memories")),
        })
    }

    /// `/remember TEXT`.
    pub(super) async fn remember(&self, call: &CommandCall, text: &str) -> Result<String, CommandError> {
        if text.chars().count() > TEXT_MAX {
            return Err(CommandError::Told(format!(
                "That is too long: a memory has at most {TEXT_MAX} characters."
            )));
        }
        if text.contains('\0') {
            return Err(CommandError::Told(
                "That cannot be remembered: it has a NUL character in it.".to_owned(),
            ));
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
            (Share::Agent, _) => "for everybody who talks to me",
            (_, Scope::User { .. }) => "for you alone",
            (Share::Person, _) if follows => "for everybody in this chat, and for you in private",
            _ => "for everybody in this chat",
        };
        Ok(format!("Remembered, {whose} (`{id}`). {}", self.undone_by(call, &id)))
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
                [] => "Nothing is private: I may save memories from this chat and from your messages. `/private on` and \
                       `/private me on` change that."
                    .to_owned(),
                lines => lines.join("\n"),
            });
        };
        let chat = (!me).then(|| call.channel.chat().to_owned());
        self.deps.people.set_private(call.caller.id.clone(), chat, on).await?;
        Ok(match (me, on) {
            (true, true) => "From now on I save no memories from your messages, in any chat. `/private me off` ends this; I will \
                             not learn later from what you write until then. Existing memories are kept: `/export` shows them, \
                             `/forgetme` deletes them."
                .to_owned(),
            (false, true) => "This chat is now private: I save no memories from it. `/private off` ends this; I will not learn \
                              later from what is written until then. Existing memories and the history are kept."
                .to_owned(),
            (true, false) => {
                "I may learn from your messages again, but not from those that you sent in the meantime.".to_owned()
            }
            (false, false) => "This chat is no longer private. I still do not learn from messages sent in the meantime."
                .to_owned(),
        })
    }

    /// A line for what is private of the caller and of the chat.
    pub(super) fn privacy(&self, call: &CommandCall) -> Vec<String> {
        let (person, chat) = self.deps.people.private_since(&call.caller.id, &call.channel);
        let chat = chat
            .map(|since| format!("- this chat is private since {}: nothing is learnt from it", day(since)));
        let person =
            person.map(|since| format!("- you are private since {}: nothing is learnt from you", day(since)));
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
    fn undone_by(&self, call: &CommandCall, id: &MemoryId) -> String {
        let loaded = self.deps.config.now();
        let commands = &loaded.config.commands;
        let may = |operator| commands.forget.allows(call.direct, operator);
        match () {
            () if may(commands.is_operator(&call.caller.id)) => format!("`/forget {id}` undoes this."),
            () if may(true) && !commands.operators.is_empty() => {
                format!("Operators can undo this with `/forget {id}`.")
            }
            () => format!("My operator can undo this with `cairn memory forget {id}`."),
        }
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
            [] => Err(CommandError::Told(format!(
                "No memory here has all the words “{}”; `/memory` lists them.",
                quoted(what)
            ))),
            [memory] => {
                self.journal(vec![Event::Memory(MemoryEvent::Forgotten {
                    id: memory.id.clone(),
                    wished: true,
                })])
                .await?;
                Ok(format!("Forgotten: {}", quoted(&memory.text)))
            }
            several => Err(CommandError::Told(format!(
                "{} have these words. Which one? Give its id: `/forget ID`\n\n{}",
                counted(several.len() as u64, "memory", "memories"),
                paint(&several.iter().copied().rev().cloned().collect::<Vec<_>>().show(), ROWS)
            ))),
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
        let mut lines = vec![format!("What I have stored about {who}:"), String::new(), summary(&said)];
        lines.extend(match self.deps.people.standing(&call.caller.id) {
            PairingStatus::Paired => Some("- you are approved to write to me privately".to_owned()),
            PairingStatus::Waiting => Some("- you have a code and wait for approval".to_owned()),
            PairingStatus::Revoked => Some("- your approval to write to me privately was revoked".to_owned()),
            PairingStatus::Banned | PairingStatus::Stranger => None,
        });
        lines.extend(self.privacy(call));
        if memories.is_empty() {
            lines.push("- no memories".to_owned());
        } else {
            lines.push(format!("- {}:", counted(memories.len() as u64, "memory", "memories")));
            lines.push(String::new());
            lines.push(paint(&memories.values().cloned().collect::<Vec<_>>().show(), EXPORTED));
        }
        if memories.len() > EXPORTED {
            lines.push(format!("\nThese are the first {EXPORTED}; my operator can give you all of them."));
        }
        let reminders = self.reminders_of(&call.caller.id).await?;
        if !reminders.is_empty() {
            lines.push(format!("\n{}:\n", counted(reminders.len() as u64, "reminder", "reminders")));
            let records: Vec<ReminderRecord> = reminders.into_iter().map(ReminderRecord::from).collect();
            lines.push(paint(&records.show(), EXPORTED));
        }
        lines.push(
            "\nYour messages are in the archive of each conversation. `/forgetme` forgets the memories and cancels the \
             reminders."
                .to_owned(),
        );
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
        let n = counted(memories.len() as u64, "memory", "memories");
        let set = counted(reminders.len() as u64, "reminder", "reminders");
        if memories.is_empty() && reminders.is_empty() {
            return Ok("There are no memories about you here, and no reminders of yours. Your messages stay in the archive \
                       of the conversation; my operator can erase them."
                .to_owned());
        }
        if !confirmed {
            let also = match reminders.len() {
                0 => String::new(),
                _ => format!(" It also cancels {set} that you set."),
            };
            return Ok(format!(
                "This forgets {n} about you or by you: from here, from your private chats with me, and what you said \
                 about yourself elsewhere. They do not come back on their own.{also} `/export` shows them. Your messages stay in the archive of the conversation; my operator can erase them.\n\nSay \
                 `/forgetme yes` to confirm."
            ));
        }
        let events =
            memories.into_keys().map(|id| Event::Memory(MemoryEvent::Forgotten { id, wished: true }));
        self.journal(events.collect()).await?;
        let caller = call.caller.id.as_str();
        for (channel, reminder) in &reminders {
            self.deps.runtime.cancel_reminder(channel, &reminder.id, caller, Some(caller)).await?;
        }
        Ok(match reminders.len() {
            0 => format!("Done: {n} forgotten."),
            _ => format!("Done: {n} forgotten, {set} cancelled."),
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

fn summary(said: &Messages) -> String {
    match (said.first, said.last) {
        (Some(first), Some(last)) => format!(
            "- {} in this conversation, from {} to {}",
            counted(said.messages, "message", "messages"),
            day(first),
            day(last)
        ),
        _ => "- no messages in this conversation".to_owned(),
    }
}
