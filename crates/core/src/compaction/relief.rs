//! Making room at once: results are sent shorter first, and only when that is not enough do messages leave the window.

use std::borrow::Cow;

use jiff::Timestamp;

use super::condense::condense;
use super::{after, emergency, emergency_on_overflow};
use crate::agent::AgentSettings;
use crate::conversation::Conversation;
use crate::event::Event;
use crate::prune::{self, PruneCause};
use crate::settings::PruneMode;
use crate::tier::Tier;
use crate::window::measure;

/// What is due before a call of the model: the pruning of the agent's mode; at the emergency tier the stack keeps to its
/// share, results shrink, and when that is not enough the emergency follows. Empty when nothing is due, or nothing can be done.
pub fn relieve(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    let mut room = Room::new(conversation, agent);
    room.take(prune::before_call(conversation, agent, now));
    let prunes = agent.pruning.mode != PruneMode::Off;
    if room.is_full() {
        room.take(condense(&room.then, agent, now));
    }
    if prunes && room.is_full() {
        room.take(prune::shrink_seen(&room.then, agent, PruneCause::Emergency));
    }
    if room.is_full() {
        room.take(emergency(&room.then, agent));
        room.take(condense(&room.then, agent, now));
    }
    if prunes && room.is_full() {
        room.take(prune::clear_seen(&room.then, agent, PruneCause::Emergency));
    }
    room.events
}

/// What is due when the model has refused a request as too large, by settings whose window is as small as the refusal
/// says: results shrink; when that is not enough messages leave, whatever the usage by our own measure.
pub fn relieve_on_overflow(conversation: &Conversation, agent: &AgentSettings, now: Timestamp) -> Vec<Event> {
    let mut room = Room::new(conversation, agent);
    let most = prune::overflow_target(conversation, agent);
    room.take(condense(conversation, agent, now));
    room.take(prune::shrink_seen(&room.then, agent, PruneCause::Overflow));
    if measure(&room.then, agent).tokens > most {
        room.take(emergency_on_overflow(&room.then, agent, most));
        room.take(condense(&room.then, agent, now));
    }
    if room.is_full() {
        room.take(prune::clear_seen(&room.then, agent, PruneCause::Overflow));
    }
    room.events
}

struct Room<'a> {
    agent: &'a AgentSettings,
    /// The conversation as it would be after the events.
    then: Cow<'a, Conversation>,
    events: Vec<Event>,
}

impl<'a> Room<'a> {
    fn new(conversation: &'a Conversation, agent: &'a AgentSettings) -> Self {
        Self { agent, then: Cow::Borrowed(conversation), events: Vec::new() }
    }

    fn take(&mut self, events: impl IntoIterator<Item = Event>) {
        let events: Vec<Event> = events.into_iter().collect();
        if !events.is_empty() {
            self.then = Cow::Owned(after(&self.then, &events));
            self.events.extend(events);
        }
    }

    fn is_full(&self) -> bool {
        measure(&self.then, self.agent).tier == Tier::Emergency
    }
}
