//! Everything that the fake Discord knows, behind one lock.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::fault::Faults;
use super::gateway::session::{Event, Gateway, intent};
use super::limits::Limits;
use super::rest::refusal::Refusal;
use super::world::{Access, BOT_ID, Message, User, World};
use super::{Answer, Builder, Route, Rule, Violation, shapes};

/// A slash command that somebody gave, or a button that somebody pressed.
#[derive(Debug)]
pub(super) struct Interaction {
    pub(super) id: u64,
    pub(super) token: String,
    pub(super) channel: u64,
    /// The message with the button; none for a command.
    pub(super) question: Option<u64>,
    pub(super) data: Value,
    pub(super) at: Instant,
    /// The bot has answered the call itself.
    pub(super) acknowledged: bool,
    pub(super) answer: Answer,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) world: World,
    pub(super) gateway: Gateway,
    pub(super) faults: Faults,
    pub(super) limits: Limits,
    pub(super) interactions: BTreeMap<u64, Interaction>,
    pub(super) violations: Vec<Violation>,
    /// How many requests of each route came.
    pub(super) arrived: BTreeMap<Route, usize>,
    pub(super) content_allowed: bool,
    /// The token is no longer good.
    pub(super) revoked: bool,
    /// Connections are closed as soon as they are made.
    pub(super) unreachable: bool,
    /// Connections that were closed as soon as they were made.
    pub(super) turned_away: usize,
    /// `fail_if_not_exists` is not heeded: replies to messages that are gone get this.
    pub(super) stray_replies: Option<Refusal>,
    /// The gateway that is named instead of the own one.
    pub(super) foreign_gateway: Option<String>,
    pub(super) identify_budget: u64,
    /// How many shards are recommended, and how many there must be.
    pub(super) shards: u32,
    pub(super) shards_min: u32,
    /// Events whose delivery the test holds back.
    pub(super) held: Vec<Event>,
}

impl State {
    pub(super) fn new(builder: &Builder) -> Self {
        let mut world = World::default();
        world.users.insert(BOT_ID, User { id: BOT_ID, name: "Cairn".to_owned(), bot: true });
        Self {
            world,
            gateway: Gateway::default(),
            faults: Faults::default(),
            limits: Limits::default(),
            interactions: BTreeMap::new(),
            violations: Vec::new(),
            arrived: BTreeMap::new(),
            content_allowed: builder.content_allowed,
            revoked: false,
            unreachable: false,
            turned_away: 0,
            stray_replies: None,
            foreign_gateway: None,
            identify_budget: 1_000,
            shards: builder.shards,
            shards_min: 1,
            held: Vec::new(),
        }
    }

    pub(super) fn violation(&mut self, rule: Rule, text: String) {
        self.violations.push(Violation { rule, text });
    }

    /// The application's flags: whether it may see what messages say.
    pub(super) fn application_flags(&self) -> u64 {
        if self.content_allowed { 1 << 18 } else { 0 }
    }

    /// The event of a message, made or changed.
    pub(super) fn message_event(&self, origin: &str, name: &'static str, message: &Message) -> Event {
        let place = self.world.channels.get(&message.channel);
        let in_guild = place.is_some_and(|channel| channel.guild.is_some());
        let to_bot = message.mentions.contains(&BOT_ID) || message.author == BOT_ID;
        Event {
            name,
            intent: if in_guild { intent::GUILD_MESSAGES } else { intent::DIRECT_MESSAGES },
            data: shapes::message_event(&self.world, origin, message),
            guarded: in_guild && !to_bot,
        }
    }

    /// The intent under which events of a channel's messages come.
    pub(super) fn messages_intent(&self, channel: u64) -> u64 {
        let guild = self.world.channels.get(&channel).and_then(|channel| channel.guild);
        if guild.is_some() { intent::GUILD_MESSAGES } else { intent::DIRECT_MESSAGES }
    }

    pub(super) fn is_hidden(&self, channel: u64) -> bool {
        self.world.channels.get(&channel).is_some_and(|channel| channel.access == Access::Hidden)
    }

    /// Tells all sessions of something.
    pub(super) fn dispatch(&mut self, name: &'static str, intent: u64, data: Value) {
        self.gateway.dispatch(&Event { name, intent, data, guarded: false });
    }

    /// Keeps an interaction and says so on the gateway.
    pub(super) fn call(&mut self, id: u64, token: String, channel: u64, question: Option<u64>, data: Value) {
        let (at, answer) = (Instant::now(), Answer::default());
        let kept =
            Interaction { id, token, channel, question, data: data.clone(), at, acknowledged: false, answer };
        self.interactions.insert(id, kept);
        self.dispatch("INTERACTION_CREATE", 0, data);
    }

    /// Stores a message and says so on the gateway.
    pub(super) fn post(&mut self, origin: &str, message: Message) {
        let event = self.message_event(origin, "MESSAGE_CREATE", &message);
        self.world.channel(message.channel).messages.insert(message.id, message);
        self.gateway.dispatch(&event);
    }
}
