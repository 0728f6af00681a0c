//! What there is of a person in the journal: who they are called, who else there is, where they talked.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::mask::{Mask, answered_name, forwarded_name, lowered, parts, quoted_names};
use cairn_types::event::{
    ApprovalEvent, CompactionEvent, Event, MaintenanceEvent, MemoryEvent, MessageEvent, Record,
    RegistryEvent, ReminderEvent, TurnEvent,
};
use cairn_types::ids::{ChannelId, LOCAL_PLATFORM, MessageId};
use cairn_types::memory::{MemorySave, Scope};
use cairn_types::message::{Author, Entry, Part, Pending, Role};

/// What the journal has of a person.
#[derive(Debug, Clone)]
pub struct Survey {
    person: String,
    names: BTreeSet<String>,
    /// Their names and id as messages that quote them may write them, in lower case.
    called: BTreeSet<String>,
    /// Names whom messages of others quote or forward, in lower case, and where.
    quoted: HashMap<String, HashSet<ChannelId>>,
    /// Ids and names of others, and the words of those, in lower case.
    others: HashSet<String>,
    known: bool,
    /// Messages that no turn has taken up yet; true: of theirs.
    pending: HashMap<(ChannelId, MessageId), bool>,
    /// Channels in which they may have taken part in a turn.
    took_part: HashSet<ChannelId>,
    private: BTreeSet<ChannelId>,
    named_after_them: BTreeSet<ChannelId>,
    /// Those of them in which others were heard, too.
    heard_others: HashSet<ChannelId>,
    /// Channels in which they gave instructions for a summary.
    pub(super) instructed: HashSet<ChannelId>,
    erasures: u64,
    ids: HashSet<String>,
}

impl Survey {
    /// Of the person of that id, `PLATFORM/USER`.
    pub fn new(person: &str) -> Self {
        let bare = person.split_once('/').map_or(person, |(_, bare)| bare);
        Self {
            person: person.to_owned(),
            names: BTreeSet::new(),
            called: BTreeSet::from([lowered(bare)]),
            quoted: HashMap::new(),
            others: HashSet::new(),
            known: false,
            pending: HashMap::new(),
            took_part: HashSet::new(),
            private: BTreeSet::new(),
            named_after_them: BTreeSet::new(),
            heard_others: HashSet::new(),
            instructed: HashSet::new(),
            erasures: 0,
            ids: HashSet::new(),
        }
    }

    pub(super) fn person(&self) -> &str {
        &self.person
    }

    pub fn is_known(&self) -> bool {
        self.known
    }

    pub(super) fn is_theirs(&self, author: &Author) -> bool {
        author.id == self.person
    }

    /// A tool gave their words back, as those that read the history do, or an answer quotes the history: it may hold all that
    /// they said there.
    pub(super) fn is_quoted(&self, entry: &Entry) -> bool {
        (entry.role == Role::Tool || quotes_lines(entry)) && entry.provenance.people.contains(&self.person)
    }

    /// A message of theirs that no turn has taken up.
    pub(super) fn waits(&self, channel: &ChannelId, message: &MessageId) -> bool {
        self.pending.get(&(channel.clone(), message.clone())).is_some_and(|theirs| *theirs)
    }

    /// Whether anything that was said in a channel may be theirs, quotes them, or answers them.
    pub(super) fn took_part(&self, channel: &ChannelId) -> bool {
        let is_quoted = |name| self.quoted.get(name).is_some_and(|channels| channels.contains(channel));
        self.took_part.contains(channel) || self.called.iter().any(is_quoted)
    }

    /// Whether a channel is a private one with them, or nobody but them was heard in one that is named after them.
    pub(super) fn is_private(&self, channel: &ChannelId) -> bool {
        self.private.contains(channel)
            || (self.named_after_them.contains(channel) && !self.heard_others.contains(channel))
    }

    /// The person's id without its platform.
    pub(super) fn bare(&self) -> &str {
        self.person.split_once('/').map_or(self.person.as_str(), |(_, bare)| bare)
    }

    pub(super) fn platform(&self) -> &str {
        self.person.split_once('/').map_or("", |(platform, _)| platform)
    }

    /// What stands in the place of their id from now on; it names nobody else.
    pub(super) fn pseudonym(&self) -> String {
        let mut n = self.erasures + 1;
        loop {
            let pseudonym = format!("{}/erased-{n}", self.platform());
            if !self.ids.contains(&pseudonym) {
                return pseudonym;
            }
            n += 1;
        }
    }

    pub fn hear(&mut self, record: &Record) {
        if let Some(channel) = &record.channel
            && channel.platform() == self.platform()
            && channel.chat() == self.bare()
        {
            self.named_after_them.insert(channel.clone());
            self.known |= channel.platform() != LOCAL_PLATFORM;
        }
        let channel = record.channel.as_ref();
        match &record.event {
            Event::Message(event) => {
                channel.into_iter().for_each(|channel| self.hear_message(channel, event))
            }
            Event::Turn(TurnEvent::Started { messages, .. } | TurnEvent::Joined { messages, .. }) => {
                for (channel, message) in
                    channel.into_iter().flat_map(|of| messages.iter().map(move |id| (of, id)))
                {
                    // One that is not known was quarantined: it may have been theirs.
                    if self.pending.remove(&(channel.clone(), message.clone())).unwrap_or(true) {
                        self.took_part.insert(channel.clone());
                    }
                }
            }
            Event::Turn(TurnEvent::EntryAdded { entry }) => {
                let by_them = entry.author.as_ref().is_some_and(|author| self.meet(author));
                self.took_part.extend(channel.filter(|_| by_them || self.is_quoted(entry)).cloned());
                self.known |= by_them || entry.provenance.people.contains(&self.person);
            }
            Event::Turn(TurnEvent::ToolUsed(used)) => self.known |= used.caused_by.contains(&self.person),
            Event::Registry(RegistryEvent::PairingRequested { user, .. }) => drop(self.meet(user)),
            Event::Registry(
                RegistryEvent::PairingApproved { user }
                | RegistryEvent::PairingRevoked { user }
                | RegistryEvent::BanSet { user, .. }
                | RegistryEvent::PrivacySet { user, .. }
                | RegistryEvent::BanLifted { user },
            ) => {
                self.known |= *user == self.person;
            }
            Event::Memory(MemoryEvent::Saved(save)) => self.known |= self.is_of_them(save),
            Event::Compaction(CompactionEvent::RunEnded(end)) => {
                self.known |= end.memories.iter().any(|save| self.is_of_them(save));
            }
            Event::Approval(ApprovalEvent::Settled { by, .. }) => {
                self.known |= by.as_ref() == Some(&self.person)
            }
            Event::Reminder(ReminderEvent::Set(reminder)) => drop(self.meet(&reminder.by)),
            Event::Maintenance(MaintenanceEvent::PersonErased { pseudonym, .. }) => {
                self.erasures += u64::from(pseudonym.starts_with(&format!("{}/", self.platform())));
            }
            Event::Turn(_)
            | Event::Compaction(_)
            | Event::Artifact(_)
            | Event::Memory(_)
            | Event::Delivery(_)
            | Event::Approval(_)
            | Event::Reminder(_)
            | Event::Registry(_)
            | Event::Maintenance(_) => {}
        }
    }

    fn hear_message(&mut self, channel: &ChannelId, event: &MessageEvent) {
        match event {
            MessageEvent::Accepted(pending) => {
                let theirs = self.meet(&pending.author);
                self.pending.insert((channel.clone(), pending.message.clone()), theirs);
                if theirs {
                    if pending.direct && channel.platform() != LOCAL_PLATFORM {
                        self.private.insert(channel.clone());
                    }
                } else if self.named_after_them.contains(channel) {
                    self.heard_others.insert(channel.clone());
                }
                if !theirs {
                    self.hear_quotes(channel, pending);
                }
            }
            MessageEvent::CommandTaken { caller, command, .. } => {
                if self.meet(caller) && command == "compact" {
                    self.instructed.insert(channel.clone());
                }
            }
            MessageEvent::Edited { parts, .. } => self.note_quotes(channel, parts),
            MessageEvent::SystemSet { author, .. } | MessageEvent::Reacted { by: author, .. } => {
                self.meet(author);
            }
            MessageEvent::Deleted { .. } | MessageEvent::Refused { .. } => {}
        }
    }

    /// A message of somebody else may quote them. One that answers or forwards nobody else says what they were called then.
    fn hear_quotes(&mut self, channel: &ChannelId, pending: &Pending) {
        self.note_quotes(channel, &pending.parts);
        let of = &pending.provenance;
        let of_them = of.people.contains(&self.person);
        self.known |= of_them;
        let name = match of.strangers {
            false => answered_name(&pending.parts),
            true => forwarded_name(&pending.parts),
        };
        if let Some(name) = name.filter(|_| of_them && of.people.len() == 1) {
            self.call(name);
        }
    }

    fn note_quotes(&mut self, channel: &ChannelId, parts: &[Part]) {
        for name in quoted_names(parts) {
            self.quoted.entry(name).or_default().insert(channel.clone());
        }
    }

    /// They are called so.
    fn call(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.called.insert(lowered(name));
            self.called.extend(parts(name).map(str::to_lowercase));
        }
    }

    /// The memory is in their scope, or by them, or about their id.
    pub(super) fn is_of_them(&self, save: &MemorySave) -> bool {
        let own = matches!(&save.scope, Scope::User { platform, user } if platform == self.platform() && user == self.bare());
        let source = &save.source;
        let by_them = source.by.iter().chain(&source.told_by).any(|by| self.is_theirs(by));
        own || by_them || save.subject.as_ref() == Some(&self.person)
    }

    fn meet(&mut self, author: &Author) -> bool {
        let theirs = self.is_theirs(author);
        if theirs {
            self.known = true;
            self.call(&author.name);
        } else if self.ids.insert(author.id.clone()) || !self.is_other(&author.name) {
            let bare = author.id.split_once('/').map_or(author.id.as_str(), |(_, bare)| bare);
            self.others.extend(parts(&author.name).map(str::to_lowercase));
            self.others.extend([&author.id, bare, author.name.trim()].map(str::to_lowercase));
        }
        theirs
    }

    /// Takes what names them out of what stays, once all has been heard.
    pub(super) fn mask(&self) -> Mask {
        Mask::new(&self.person, &self.pseudonym(), &self.names, |word| self.is_other(word))
    }

    /// Somebody else's id or name, or a word of it that tells them by itself.
    pub(super) fn is_other(&self, subject: &str) -> bool {
        self.others.contains(&subject.trim().to_lowercase())
    }

    /// The memory is somebody else's: in their scope, by them, or about them.
    pub(super) fn is_of_others(&self, save: &MemorySave) -> bool {
        matches!(save.scope, Scope::User { .. })
            || save.source.by.is_some()
            || save.subject.as_ref().is_some_and(|subject| self.is_other(subject))
    }
}

/// An answer of the offline model has lines of others: quotations, or an extract. Its set phrases have none, and are marked the same.
pub(super) fn quotes_lines(entry: &Entry) -> bool {
    entry.role == Role::Assistant
        && entry.quotes
        && entry.text().lines().any(|line| line.starts_with("> ") || line.starts_with("- "))
}
