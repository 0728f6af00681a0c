//! What the server knows: people, chats, messages, updates that wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::fault::Plan;
use super::hook::Hook;
use super::{Act, Call, Told, Violation};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// Their id; also that of their private chat.
    pub id: i64,
    pub name: String,
    /// Their name behind `@`, where they have one.
    pub username: Option<String>,
    pub is_bot: bool,
}

impl Person {
    pub(super) fn json(&self) -> Value {
        let mut json = json!({ "id": self.id, "is_bot": self.is_bot, "first_name": self.name });
        if let Some(username) = &self.username {
            json["username"] = username.clone().into();
        }
        if !self.is_bot {
            json["language_code"] = "en".into();
        }
        json
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatKind {
    Private,
    Group,
    Supergroup,
    Forum,
}

/// Why the bot may not write to a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ban {
    Blocked,
    Kicked,
    Muted,
}

pub(super) struct Topic {
    pub(super) closed: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) mine: bool,
    pub(super) thread: Option<i64>,
    pub(super) json: Value,
    /// Texts that it was changed to, in order.
    pub(super) edits: Vec<String>,
}

impl Stored {
    pub(super) fn text(&self) -> &str {
        self.json.get("text").and_then(Value::as_str).unwrap_or_default()
    }
}

pub(super) struct Chat {
    pub(super) id: i64,
    pub(super) kind: ChatKind,
    pub(super) title: String,
    pub(super) person: Option<Person>,
    pub(super) topics: BTreeMap<i64, Topic>,
    pub(super) messages: BTreeMap<i64, Stored>,
    pub(super) ban: Option<Ban>,
    pub(super) migrated_to: Option<i64>,
    /// The next send is refused with 429 for so many seconds.
    pub(super) flood: Option<u64>,
    /// A 429 holds until then.
    pub(super) quiet_until: Option<Instant>,
    pub(super) sent_at: VecDeque<Instant>,
}

impl Chat {
    pub(super) fn new(id: i64, kind: ChatKind, title: &str, person: Option<Person>) -> Self {
        Self {
            id,
            kind,
            title: title.to_owned(),
            person,
            topics: BTreeMap::new(),
            messages: BTreeMap::new(),
            ban: None,
            migrated_to: None,
            flood: None,
            quiet_until: None,
            sent_at: VecDeque::new(),
        }
    }

    pub(super) fn is_private(&self) -> bool {
        self.kind == ChatKind::Private
    }

    pub(super) fn json(&self) -> Value {
        match (self.kind, &self.person) {
            (ChatKind::Private, person) => {
                let name = person.as_ref().map_or(self.title.as_str(), |person| &person.name);
                let mut json = json!({ "id": self.id, "first_name": name, "type": "private" });
                if let Some(username) = person.as_ref().and_then(|person| person.username.as_ref()) {
                    json["username"] = username.clone().into();
                }
                json
            }
            (ChatKind::Group, _) => json!({
                "id": self.id, "title": self.title, "type": "group", "all_members_are_administrators": true,
            }),
            (ChatKind::Supergroup, _) => json!({ "id": self.id, "title": self.title, "type": "supergroup" }),
            (ChatKind::Forum, _) => {
                json!({ "id": self.id, "title": self.title, "type": "supergroup", "is_forum": true })
            }
        }
    }
}

pub(super) struct File {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) bytes: Vec<u8>,
}

/// An update that was not confirmed yet.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) id: i64,
    pub(super) json: Value,
}

pub(super) struct State {
    pub(super) bot: Person,
    pub(super) revoked: bool,
    /// `allow_sending_without_reply` is not heeded.
    pub(super) strict_replies: bool,
    pub(super) webhook: Option<Hook>,
    /// Where the hosts of webhooks are.
    pub(super) hosts: BTreeMap<String, SocketAddr>,
    /// How often an update was sent to a webhook, whatever came of it.
    pub(super) deliveries: usize,
    pub(super) people: BTreeMap<i64, Person>,
    pub(super) chats: BTreeMap<i64, Chat>,
    pub(super) files: BTreeMap<String, File>,
    pub(super) commands: BTreeMap<String, Vec<(String, String)>>,
    pub(super) queue: VecDeque<Waiting>,
    pub(super) next_update: i64,
    pub(super) restarts: i64,
    /// The offset that was confirmed last.
    pub(super) confirmed: i64,
    pub(super) allowed: Option<Vec<String>>,
    /// Rises with every poll; a poll that is not the newest ends.
    pub(super) newest_poll: u64,
    pub(super) other_pollers: usize,
    /// Updates stay here as long as somebody holds them.
    pub(super) holds: usize,
    /// Presses that the bot was told of, or would have been, and what it answered.
    pub(super) presses: BTreeMap<String, Option<Told>>,
    /// The bot's reactions to messages, in order; an empty one took it away.
    pub(super) reactions: BTreeMap<(i64, i64), Vec<String>>,
    /// Chats that allow no reactions.
    pub(super) no_reactions: BTreeSet<i64>,
    /// Groups in which the bot is an administrator.
    pub(super) administered: BTreeSet<i64>,
    pub(super) next_message: i64,
    pub(super) next_chat: i64,
    pub(super) next_file: u64,
    pub(super) plan: Plan,
    pub(super) calls: Vec<Call>,
    pub(super) done: BTreeMap<String, usize>,
    pub(super) violations: Vec<Violation>,
    pub(super) acts: Vec<Act>,
}

const FIRST_UPDATE: i64 = 412_000_001;

impl State {
    pub(super) fn new(bot: Person) -> Self {
        Self {
            bot,
            revoked: false,
            strict_replies: false,
            webhook: None,
            hosts: BTreeMap::new(),
            deliveries: 0,
            people: BTreeMap::new(),
            chats: BTreeMap::new(),
            files: BTreeMap::new(),
            commands: BTreeMap::new(),
            queue: VecDeque::new(),
            next_update: FIRST_UPDATE,
            restarts: 0,
            confirmed: 0,
            allowed: None,
            newest_poll: 0,
            other_pollers: 0,
            holds: 0,
            presses: BTreeMap::new(),
            reactions: BTreeMap::new(),
            no_reactions: BTreeSet::new(),
            administered: BTreeSet::new(),
            next_message: 1,
            next_chat: 1,
            next_file: 0,
            plan: Plan::default(),
            calls: Vec::new(),
            done: BTreeMap::new(),
            violations: Vec::new(),
            acts: Vec::new(),
        }
    }

    /// Whether updates of that kind are wanted by the bot.
    fn is_wanted(&self, kind: &str) -> bool {
        match self.allowed.as_deref() {
            Some([]) | None => !matches!(kind, "chat_member" | "message_reaction" | "message_reaction_count"),
            Some(kinds) => kinds.iter().any(|wanted| wanted == kind),
        }
    }

    /// Queues an update; its id. Nothing is queued when the bot does not want that kind.
    pub(super) fn push_update(&mut self, kind: &str, payload: Value) -> Option<i64> {
        if !self.is_wanted(kind) {
            return None;
        }
        let id = self.next_update;
        self.next_update += 1;
        let json = json!({ "update_id": id, kind: payload });
        self.queue.push_back(Waiting { id, json });
        Some(id)
    }

    /// A new message id of a chat: supergroups count for themselves, private chats and groups together.
    pub(super) fn new_message_id(&mut self, chat: i64) -> i64 {
        match self.chats.get(&chat) {
            Some(chat) if matches!(chat.kind, ChatKind::Supergroup | ChatKind::Forum) => {
                chat.messages.keys().next_back().copied().unwrap_or(0) + 1
            }
            _ => {
                self.next_message += 1;
                self.next_message - 1
            }
        }
    }

    /// The chat, made again where it is the private one of a person.
    pub(super) fn chat(&mut self, id: i64) -> &mut Chat {
        if !self.chats.contains_key(&id)
            && let Some(person) = self.people.get(&id)
        {
            let chat = Chat::new(id, ChatKind::Private, "", Some(person.clone()));
            self.chats.insert(id, chat);
        }
        self.chats.get_mut(&id).unwrap_or_else(|| panic!("no chat {id}"))
    }
}
