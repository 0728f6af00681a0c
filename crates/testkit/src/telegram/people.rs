//! What people do: who they are, where they talk, what they do to the bot.

use serde_json::{Value, json};

use super::send::shallow;
use super::world::{Ban, Chat, ChatKind, Person, State, Stored, Topic};
use super::{Act, FakeTelegram, Say, What, now};

/// Ids of people begin here: beyond 32 bits, as today's do.
const FIRST_PERSON: i64 = 5_100_000_001;

/// Ids of supergroups are below this.
const SUPERGROUPS: i64 = -1_002_000_000_000;

const GROUPS: i64 = -4_000_000_000;

impl FakeTelegram {
    /// A new person; their username is their name in lower case where it can be one.
    pub fn person(&self, name: &str) -> Person {
        let username = name.to_lowercase();
        let fits = username.len() >= 3 && username.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        self.person_as(name, fits.then_some(username.as_str()))
    }

    /// A new person with this username, or none.
    pub fn person_as(&self, name: &str, username: Option<&str>) -> Person {
        self.shared.update(|state| {
            let id = FIRST_PERSON + i64::try_from(state.people.len()).unwrap_or(0);
            let username = username.map(str::to_owned);
            let person = Person { id, name: name.to_owned(), username, is_bot: false };
            state.people.insert(id, person.clone());
            person
        })
    }

    /// A new group with the bot in it; its id.
    pub fn group(&self, title: &str) -> i64 {
        self.shared.update(|state| new_chat(state, ChatKind::Group, title))
    }

    /// A new supergroup with the bot in it; its id.
    pub fn supergroup(&self, title: &str) -> i64 {
        self.shared.update(|state| new_chat(state, ChatKind::Supergroup, title))
    }

    /// A new supergroup with topics; its id.
    pub fn forum(&self, title: &str) -> i64 {
        self.shared.update(|state| new_chat(state, ChatKind::Forum, title))
    }

    /// A new topic of a forum, made by a person; its id. The bot is told.
    pub fn topic(&self, forum: i64, by: &Person, name: &str) -> i64 {
        let fields = json!({ "forum_topic_created": { "name": name, "icon_color": 7_322_096 } });
        let now = now();
        self.shared.update(|state| {
            let id = state.new_message_id(forum);
            state.chat(forum).topics.insert(id, Topic { closed: false });
            let mut json = header(state, forum, by, id, now);
            merge(&mut json, &fields);
            json["message_thread_id"] = id.into();
            json["is_topic_message"] = true.into();
            keep(state, forum, id, Some(id), &json);
            state.push_update("message", json);
            id
        })
    }

    /// A person gives a topic another name. The bot is told.
    pub fn rename_topic(&self, forum: i64, topic: i64, by: &Person, name: &str) {
        let fields = json!({
            "forum_topic_edited": { "name": name }, "message_thread_id": topic, "is_topic_message": true,
        });
        self.service(forum, by, &fields);
    }

    /// Nobody can write to the topic any more, the bot included.
    pub fn close_topic(&self, forum: i64, topic: i64) {
        self.shared.update(|state| {
            if let Some(topic) = state.chat(forum).topics.get_mut(&topic) {
                topic.closed = true;
            }
        });
    }

    /// A person says something in a chat (a private one has the person's id); the message's id.
    pub fn say(&self, chat: i64, who: &Person, what: impl Into<Say>) -> i64 {
        let what = what.into();
        let now = now();
        let reads_all = self.shared.builder.reads_all;
        self.shared.update(|state| {
            let id = state.new_message_id(chat);
            let mut json = header(state, chat, who, id, now - what.age_secs);
            merge(&mut json, &what.content(state));
            if what.bot {
                json["from"]["is_bot"] = true.into();
            }
            place(&mut json, state.chat(chat), &what);
            merge(&mut json, &what.extra);
            let thread = json.get("message_thread_id").and_then(Value::as_i64);
            keep(state, chat, id, thread, &json);
            state.acts.push(Act { chat, thread: what.topic, what: What::Said(id) });
            if reads_all || state.chat(chat).is_private() || concerns(state, &json) {
                state.push_update("message", json);
            }
            id
        })
    }

    /// A person gives a command, `/context` or `/remember that`; in groups it is addressed to the bot.
    pub fn command(&self, chat: i64, who: &Person, command: &str) -> i64 {
        self.command_in(chat, None, who, command)
    }

    pub fn command_in(&self, chat: i64, topic: Option<i64>, who: &Person, command: &str) -> i64 {
        let is_private = self.shared.update(|state| state.chat(chat).is_private());
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let at = if is_private { String::new() } else { format!("@{}", self.username()) };
        let mut say = Say::text(format!("{name}{at} {rest}").trim_end().to_owned());
        say.topic = topic;
        self.say(chat, who, say)
    }

    /// A person changes a message's words.
    pub fn edit(&self, chat: i64, message: i64, text: &str) {
        let now = now();
        self.shared.update(|state| {
            let content = Say::text(text).content(state);
            let stored = state.chat(chat).messages.get_mut(&message);
            let stored = stored.unwrap_or_else(|| panic!("no message {message} in chat {chat}"));
            if let Some(fields) = stored.json.as_object_mut() {
                fields.remove("entities");
                let caption = fields.contains_key("caption");
                fields.insert(if caption { "caption" } else { "text" }.to_owned(), text.into());
            }
            if let Some(entities) = content.get("entities") {
                stored.json["entities"] = entities.clone();
            }
            stored.json["edit_date"] = now.into();
            let json = stored.json.clone();
            state.push_update("edited_message", json);
        });
    }

    /// A message is deleted; the API tells bots nothing of it.
    pub fn delete(&self, chat: i64, message: i64) {
        self.shared.update(|state| state.chat(chat).messages.remove(&message));
    }

    pub fn join(&self, chat: i64, who: &Person) {
        let user = who.json();
        let fields = json!({
            "new_chat_participant": user, "new_chat_member": user, "new_chat_members": [user],
        });
        self.service(chat, who, &fields);
    }

    /// A service message with these fields; its id.
    pub fn service(&self, chat: i64, who: &Person, fields: &Value) -> i64 {
        let now = now();
        self.shared.update(|state| {
            let id = state.new_message_id(chat);
            let mut json = header(state, chat, who, id, now);
            merge(&mut json, fields);
            keep(state, chat, id, None, &json);
            state.push_update("message", json);
            id
        })
    }

    /// A group becomes a supergroup; the new id. The bot is told in both.
    pub fn migrate(&self, group: i64, by: &Person) -> i64 {
        let now = now();
        self.shared.update(|state| {
            let title = state.chat(group).title.clone();
            let new = new_chat(state, ChatKind::Supergroup, &title);
            let id = state.new_message_id(group);
            let mut before = header(state, group, by, id, now);
            before["migrate_to_chat_id"] = new.into();
            state.push_update("message", before);
            state.chat(group).migrated_to = Some(new);
            let anonymous =
                json!({ "id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot" });
            let id = state.new_message_id(new);
            let mut after = header(state, new, by, id, now);
            after["sender_chat"] = after["chat"].clone();
            after["from"] = anonymous;
            after["migrate_from_chat_id"] = group.into();
            keep(state, new, id, None, &after);
            state.push_update("message", after);
            new
        })
    }

    /// A person has these reactions to a message now, who had others. The bot is told in private chats and where it is an
    /// administrator (<https://core.telegram.org/bots/api#update>).
    pub fn react(&self, chat: i64, who: &Person, message: i64, had: &[&str], has: &[&str]) {
        let now = now();
        let list = |emoji: &[&str]| -> Value {
            emoji.iter().map(|emoji| json!({ "type": "emoji", "emoji": emoji })).collect()
        };
        self.shared.update(|state| {
            let place = state.chat(chat);
            assert!(place.messages.contains_key(&message), "no message {message} in chat {chat}");
            if !place.is_private() && !state.administered.contains(&chat) {
                return;
            }
            let update = json!({
                "chat": state.chat(chat).json(), "message_id": message, "user": who.json(), "date": now,
                "old_reaction": list(had), "new_reaction": list(has),
            });
            state.push_update("message_reaction", update);
        });
    }

    /// The bot becomes an administrator of a group.
    pub fn promote(&self, chat: i64) {
        self.shared.update(|state| state.administered.insert(chat));
    }

    /// A chat allows no reactions.
    pub fn forbid_reactions(&self, chat: i64) {
        self.shared.update(|state| state.no_reactions.insert(chat));
    }

    /// A person blocks the bot: what it sends to them is refused with 403.
    pub fn block(&self, who: &Person) {
        self.ban(who.id, who, Some(Ban::Blocked));
    }

    pub fn unblock(&self, who: &Person) {
        self.ban(who.id, who, None);
    }

    pub fn kick(&self, chat: i64, by: &Person) {
        self.ban(chat, by, Some(Ban::Kicked));
    }

    /// The bot may no longer write in a group; it is not told.
    pub fn mute(&self, chat: i64) {
        self.shared.update(|state| state.chat(chat).ban = Some(Ban::Muted));
    }

    fn ban(&self, chat: i64, by: &Person, ban: Option<Ban>) {
        let now = now();
        self.shared.update(|state| {
            let bot = state.bot.json();
            let member = |is_in: bool| {
                if is_in {
                    json!({ "user": bot, "status": "member" })
                } else {
                    json!({ "user": bot, "status": "kicked", "until_date": 0 })
                }
            };
            state.chat(chat).ban = ban;
            let update = json!({
                "chat": state.chat(chat).json(), "from": by.json(), "date": now,
                "old_chat_member": member(ban.is_some()), "new_chat_member": member(ban.is_none()),
            });
            state.push_update("my_chat_member", update);
        });
    }
}

fn new_chat(state: &mut State, kind: ChatKind, title: &str) -> i64 {
    let n = state.next_chat;
    state.next_chat += 1;
    let id = if kind == ChatKind::Group { GROUPS - n } else { SUPERGROUPS - n };
    state.chats.insert(id, Chat::new(id, kind, title, None));
    id
}

fn header(state: &mut State, chat: i64, who: &Person, id: i64, date: i64) -> Value {
    let chat = state.chat(chat).json();
    json!({ "message_id": id, "from": who.json(), "chat": chat, "date": date })
}

/// Topic and reply. In a topic, what answers nothing answers the topic's first message; in a supergroup without
/// topics, what answers something has its root as a thread.
fn place(json: &mut Value, chat: &Chat, what: &Say) {
    if let Some(topic) = what.topic {
        json["message_thread_id"] = topic.into();
        json["is_topic_message"] = true.into();
    }
    let Some(replied) = what.reply_to.or(what.topic) else { return };
    let Some(message) = chat.messages.get(&replied) else { return };
    json["reply_to_message"] = shallow(&message.json);
    if chat.kind == ChatKind::Supergroup {
        json["message_thread_id"] = message.thread.unwrap_or(replied).into();
    }
}

fn keep(state: &mut State, chat: i64, id: i64, thread: Option<i64>, json: &Value) {
    let stored = Stored { mine: false, thread, json: json.clone(), edits: Vec::new() };
    state.chat(chat).messages.insert(id, stored);
}

pub(super) fn merge(json: &mut Value, fields: &Value) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        json[name] = value.clone();
    }
}

/// Whether a bot in privacy mode is told of a message in a group.
fn concerns(state: &State, json: &Value) -> bool {
    let own = format!("@{}", state.bot.username.as_deref().unwrap_or_default()).to_lowercase();
    let words = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default().to_lowercase();
    let replied = json.pointer("/reply_to_message/from/id").and_then(Value::as_i64) == Some(state.bot.id);
    let text = words("text") + &words("caption");
    replied || text.contains(&own) || text.starts_with('/')
}
