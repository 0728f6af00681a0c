//! The scene: servers, channels and people; what they do, and what the bot did.

use serde_json::{Value, json};

use super::gateway::session::intent;
use super::world::{Act, Sent, kind};
use super::{FakeDiscord, Route, Say, State, shapes};
use crate::clock::wall_time;
use crate::watched::GIVE_UP_AFTER;

/// What a message of an answer shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub content: String,
    pub flags: u64,
    pub embeds: Vec<Value>,
    pub files: Vec<String>,
    pub pinged: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Followup {
    pub ephemeral: bool,
    pub shown: Shown,
}

/// How a slash command or a press was answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The number of the first answer's kind; none: there is none yet.
    pub kind: Option<u64>,
    /// First it was said that an answer follows.
    pub deferred: bool,
    /// Flags of the first answer, or of the word that one follows.
    pub flags: u64,
    pub ephemeral: bool,
    pub shown: Option<Shown>,
    pub followups: Vec<Followup>,
}

impl Answer {
    /// All words of it, its messages joined by line breaks.
    pub fn words(&self) -> String {
        let followups = self.followups.iter().map(|followup| followup.shown.content.as_str());
        let first = self.shown.iter().map(|shown| shown.content.as_str());
        first.chain(followups).collect::<Vec<&str>>().join("\n")
    }
}

impl FakeDiscord {
    pub fn guild(&self, id: u64) {
        self.shared.update(|state| {
            state.world.guilds.insert(id, format!("server-{id}"));
            let data = shapes::guild(&state.world, id, &format!("server-{id}"));
            state.dispatch("GUILD_CREATE", intent::GUILDS, data);
        });
    }

    /// A text channel of a server, named after its id.
    pub fn channel(&self, guild: u64, id: u64) {
        self.channel_named(guild, id, &format!("channel-{id}"));
    }

    pub fn channel_named(&self, guild: u64, id: u64, name: &str) {
        self.add("CHANNEL_CREATE", id, |state| state.world.add_channel(id, kind::TEXT, Some(guild), name));
    }

    /// The text channel of a server by its name, which is made on first use. Its id is the same at every start.
    pub fn channel_of(&self, guild: u64, name: &str) -> u64 {
        let id = 200_000_000_000_000_000 + super::world::id_of(name);
        if !self.shared.state.lock().world.channels.contains_key(&id) {
            self.channel_named(guild, id, name);
        }
        id
    }

    /// The thread of a channel by its name, which is made on first use. Its id is the same at every start.
    pub fn thread_of(&self, parent: u64, name: &str) -> u64 {
        let id = 300_000_000_000_000_000 + super::world::id_of(&format!("{parent}/{name}"));
        if !self.shared.state.lock().world.channels.contains_key(&id) {
            self.thread(parent, id);
        }
        id
    }

    pub fn forum(&self, guild: u64, id: u64) {
        self.add("CHANNEL_CREATE", id, |state| {
            state.world.add_channel(id, kind::FORUM, Some(guild), &format!("forum-{id}"));
        });
    }

    /// A thread of a channel, or a post in a forum.
    pub fn thread(&self, parent: u64, id: u64) {
        self.add("THREAD_CREATE", id, |state| {
            let guild = state.world.channel(parent).guild;
            state.world.add_channel(id, kind::THREAD, guild, &format!("thread-{id}"));
            state.world.channel(id).parent = Some(parent);
        });
    }

    fn add(&self, event: &'static str, id: u64, make: impl FnOnce(&mut State)) {
        self.shared.update(|state| {
            make(state);
            let mut data =
                state.world.channels.get(&id).map_or(Value::Null, |one| shapes::channel(&state.world, one));
            if event == "THREAD_CREATE" {
                data["newly_created"] = true.into();
            }
            state.dispatch(event, intent::GUILDS, data);
        });
    }

    /// The id of a user, who is made on first use.
    pub fn user(&self, name: &str) -> u64 {
        self.shared.update(|state| state.world.user(name))
    }

    /// The private chat of a user with the bot, which is made on first use.
    pub fn dm(&self, user: &str) -> u64 {
        self.shared.update(|state| {
            let user = state.world.user(user);
            state.world.dm(user)
        })
    }

    /// Somebody says something; its id. More than words by [`FakeDiscord::post`].
    pub fn say(&self, channel: u64, user: &str, text: &str) -> u64 {
        self.post(channel, user, text).send()
    }

    pub fn post(&self, channel: u64, user: &str, text: &str) -> Say<'_> {
        Say::new(self, channel, user, text)
    }

    /// The gateway tells of the messages that were held: in order, or the last one first.
    pub fn release(&self, reversed: bool) {
        self.shared.update(|state| {
            let mut held = std::mem::take(&mut state.held);
            if reversed {
                held.reverse();
            }
            held.iter().for_each(|event| state.gateway.dispatch(event));
        });
    }

    /// The author gives a message other words.
    pub fn edit(&self, channel: u64, message: u64, text: &str) {
        self.change(channel, message, |found| {
            text.clone_into(&mut found.content);
            found.mentions = super::say::mentioned(text);
            found.edited = Some(wall_time());
        });
    }

    /// Discord adds the preview of a link to a message, which is no edit.
    pub fn unfurl(&self, channel: u64, message: u64, url: &str) {
        let embed = json!({"type": "link", "url": url, "title": "A page", "description": "What is on it"});
        self.change(channel, message, |found| found.embeds.push(embed));
    }

    fn change(&self, channel: u64, message: u64, change: impl FnOnce(&mut super::world::Message)) {
        let origin = self.shared.origin();
        self.shared.update(|state| {
            let found = state.world.channel(channel).messages.get_mut(&message);
            let found = found.unwrap_or_else(|| panic!("there is no message {message} in {channel}"));
            change(found);
            let found = found.clone();
            let event = state.message_event(&origin, "MESSAGE_UPDATE", &found);
            if !state.is_hidden(channel) {
                state.gateway.dispatch(&event);
            }
        });
    }

    /// Somebody reacts to a message, or takes a reaction back, as the gateway tells it
    /// (<https://docs.discord.com/developers/events/gateway-events#message-reaction-add>): a member and the message's author
    /// with one that was added alone.
    pub fn react(&self, channel: u64, user: &str, message: u64, emoji: &str, removed: bool) {
        self.shared.update(|state| {
            let user = state.world.user(user);
            let place = state.world.channel(channel);
            let author = place.messages.get(&message).map(|message| message.author);
            let author = author.unwrap_or_else(|| panic!("there is no message {message} in {channel}"));
            let guild = place.guild;
            let mut data = json!({
                "user_id": user.to_string(), "channel_id": channel.to_string(), "message_id": message.to_string(),
                "emoji": {"id": null, "name": emoji}, "burst": false, "type": 0,
            });
            if let Some((name, id)) = emoji.split_once(':') {
                data["emoji"] = json!({"id": id, "name": name});
            }
            if let Some(guild) = guild {
                data["guild_id"] = guild.to_string().into();
            }
            if !removed {
                data["message_author_id"] = author.to_string().into();
                if guild.is_some() {
                    data["member"] = shapes::member_of(&state.world, user);
                }
            }
            let name = if removed { "MESSAGE_REACTION_REMOVE" } else { "MESSAGE_REACTION_ADD" };
            let intent = match guild {
                Some(_) => intent::GUILD_MESSAGE_REACTIONS,
                None => intent::DIRECT_MESSAGE_REACTIONS,
            };
            state.dispatch(name, intent, data);
        });
    }

    /// The bot's reactions to a message, in order: those that it took away with a minus.
    pub fn reactions(&self, channel: u64, message: u64) -> Vec<String> {
        let state = self.shared.state.lock();
        let marks = state.world.reactions.get(&(channel, message)).into_iter().flatten();
        marks.map(|(emoji, is_on)| if *is_on { emoji.clone() } else { format!("-{emoji}") }).collect()
    }

    /// Somebody takes messages away: one by one, or as moderators do, at once.
    pub fn delete(&self, channel: u64, messages: &[u64]) {
        self.shared.update(|state| {
            let place = state.world.channel(channel);
            messages.iter().for_each(|id| drop(place.messages.remove(id)));
            place.deleted_last = place.deleted_last.max(messages.iter().max().copied());
            let mut data = json!({"channel_id": channel.to_string()});
            if let Some(guild) = place.guild {
                data["guild_id"] = guild.to_string().into();
            }
            let intent = state.messages_intent(channel);
            if let [message] = messages {
                data["id"] = message.to_string().into();
                state.dispatch("MESSAGE_DELETE", intent, data);
            } else {
                data["ids"] = messages.iter().map(u64::to_string).collect();
                state.dispatch("MESSAGE_DELETE_BULK", intent, data);
            }
        });
    }

    /// Somebody gives a slash command, which must be registered, with its options. The interaction's id.
    pub fn slash(&self, channel: u64, user: &str, command: &str, options: &[(&str, &str)]) -> u64 {
        self.shared.update(|state| {
            let user = state.world.user(user);
            let known = state.world.commands.iter().find(|known| known["name"] == command);
            let known = known.unwrap_or_else(|| panic!("no command `{command}` is registered")).clone();
            for option in known["options"].as_array().into_iter().flatten() {
                let given = options.iter().any(|(name, _)| option["name"] == *name);
                assert!(given || option["required"] != true, "`{command}` needs `{}`", option["name"]);
            }
            let id = state.world.next_id();
            let token = format!("aW50ZXJhY3Rpb246{id}");
            let options: Vec<Value> = options
                .iter()
                .map(|(name, value)| json!({"name": name, "type": 3, "value": value}))
                .collect();
            let mut given = json!({"id": known["id"], "name": known["name"], "type": 1});
            if !options.is_empty() {
                given["options"] = options.into();
            }
            let data = shapes::interaction(&state.world, 2, (id, &token), user, channel, given);
            state.call(id, token, channel, None, data);
            id
        })
    }

    /// How an interaction was answered so far.
    pub fn answer(&self, interaction: u64) -> Answer {
        self.shared
            .state
            .lock()
            .interactions
            .get(&interaction)
            .map(|one| one.answer.clone())
            .unwrap_or_default()
    }

    /// Waits until an interaction has words for an answer.
    pub async fn wait_answer(&self, interaction: u64) -> Answer {
        let what = format!("the answer of interaction {interaction} ({GIVE_UP_AFTER:?} at most)");
        self.wait_until(&what, |discord| !discord.answer(interaction).words().is_empty()).await;
        self.answer(interaction)
    }

    /// The commands that the bot registered.
    pub fn commands(&self) -> Vec<Value> {
        self.shared.state.lock().world.commands.clone()
    }

    /// What the bot sent to a channel, in order. Answers of slash commands are not among them.
    pub fn sent(&self, channel: u64) -> Vec<Sent> {
        let state = self.shared.state.lock();
        state.world.sent.iter().filter(|sent| sent.channel == channel).cloned().collect()
    }

    /// All that the bot sent, in order.
    pub fn all_sent(&self) -> Vec<Sent> {
        self.shared.state.lock().world.sent.clone()
    }

    pub(super) fn n_sent(&self, channel: u64) -> usize {
        self.shared.state.lock().world.sent.iter().filter(|sent| sent.channel == channel).count()
    }

    /// What the bot did in a channel, in order.
    pub fn acts(&self, channel: u64) -> Vec<Act> {
        self.shared.state.lock().world.channels.get(&channel).map(|one| one.acts.clone()).unwrap_or_default()
    }

    /// Whether people see the bot typing: it began, and has sent nothing since.
    pub fn is_typing(&self, channel: u64) -> bool {
        let acts = self.acts(channel);
        let telling = acts.iter().rev().find(|act| matches!(act, Act::Typing | Act::Sent(_)));
        telling == Some(&Act::Typing)
    }

    /// Whether a channel has a message of that id.
    pub fn is_said(&self, channel: u64, message: u64) -> bool {
        self.shared.state.lock().world.message(channel, message).is_some()
    }

    pub fn channels(&self) -> Vec<u64> {
        self.shared.state.lock().world.channels.keys().copied().collect()
    }

    pub fn interactions(&self) -> Vec<u64> {
        self.shared.state.lock().interactions.keys().copied().collect()
    }

    /// Requests of a route so far, held ones and failed ones included.
    pub fn arrived(&self, route: Route) -> usize {
        self.shared.state.lock().arrived.get(&route).copied().unwrap_or_default()
    }

    pub fn fetched(&self) -> usize {
        self.shared.state.lock().world.fetches.values().sum()
    }
}
