//! The registry, folded from the journal: who is paired or banned, which access rules a platform had, which tool servers are
//! approved, where chats have moved, who was erased, and the tokens used on the current day.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::memory::PrivateSpans;
use cairn_types::event::{
    CompactionEvent, ErasureFigures, Event, MaintenanceEvent, Record, RegistryEvent, TurnEvent,
};
use cairn_types::message::Author;
use cairn_types::model::Usage;
use cairn_types::people::access::AccessPolicy;
use cairn_types::people::pairing::{Ban, Pairing, PairingStatus};
use cairn_types::tool::mcp::pins::Pins;

/// A stranger who writes again within this time is not sent the code again.
pub const TELL_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Most sets of rules that are remembered for a platform.
const ACCESS_KEPT: usize = 8;

/// How long a ban is remembered after its end: messages from that time are not accepted later.
const BAN_KEPT: SignedDuration = SignedDuration::from_hours(31 * 24);

/// Most strangers who wait at the same time. One more takes the place of the one who has waited longest. A person is told a code
/// once within [`TELL_AGAIN`], also when they lose their place, so that a few strangers cannot fill the journal.
pub const WAITING_MAX: usize = 64;

/// A platform's access rules, with their start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessSince {
    pub since: Timestamp,
    pub access: AccessPolicy,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RegistryState {
    /// By person (`PLATFORM/USER`).
    pub pairings: BTreeMap<String, Pairing>,
    /// By person (`PLATFORM/USER`).
    #[serde(default)]
    pub bans: BTreeMap<String, Ban>,
    /// The rules that a platform had, by platform, oldest first.
    #[serde(default)]
    pub access: BTreeMap<String, Vec<AccessSince>>,
    /// The previous ids of chats that moved, by `PLATFORM/NEW`.
    pub moved: BTreeMap<String, String>,
    /// Tool servers that operators approved.
    #[serde(default)]
    pub pins: Pins,
    /// When nothing is learnt from what people (`PLATFORM/USER`) say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub private_people: BTreeMap<String, PrivateSpans>,
    /// When nothing is learnt in chats (`PLATFORM/CHAT`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub private_chats: BTreeMap<String, PrivateSpans>,
    /// Erased people, oldest first.
    #[serde(default)]
    pub erasures: Vec<Erasure>,
}

/// The erasure of a person. The person is not named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Erasure {
    /// The pseudonym that replaces their id; empty for an erasure that was only estimated.
    pub pseudonym: String,
    #[serde(flatten)]
    pub figures: ErasureFigures,
    pub at: Timestamp,
}

fn pin(pins: &mut Pins, record: &Record) {
    match &record.event {
        Event::Registry(RegistryEvent::ServerApproved { pin }) => {
            drop(pins.0.insert(pin.server.clone(), pin.clone()));
        }
        Event::Registry(RegistryEvent::ServerRevoked { server }) => drop(pins.0.remove(server)),
        _ => {}
    }
}

impl RegistryState {
    /// Whether a person (`PLATFORM/USER`) is banned, or their pairing was revoked.
    pub fn is_shut_out(&self, person: &str, now: Timestamp) -> bool {
        let is_revoked = |pairing: &Pairing| pairing.revoked_at.is_some() && pairing.approved_at.is_none();
        self.bans.get(person).is_some_and(|ban| ban.holds(now))
            || self.pairings.get(person).is_some_and(is_revoked)
    }

    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::Registry(RegistryEvent::PairingRequested { user, chat, code }) => {
                self.request_pairing(user, chat, code, record.at);
            }
            Event::Registry(RegistryEvent::PairingApproved { user }) => {
                if let Some(pairing) = self.pairings.get_mut(user) {
                    pairing.approved_at = Some(record.at);
                    pairing.revoked_at = None;
                    pairing.displaced = false;
                }
            }
            Event::Registry(RegistryEvent::PairingRevoked { user }) => {
                if let Some(pairing) = self.pairings.get_mut(user) {
                    pairing.approved_at = None;
                    pairing.revoked_at = Some(record.at);
                }
            }
            Event::Registry(RegistryEvent::BanSet { user, reason, until, by }) => {
                let is_past = |until: Timestamp| record.at.duration_since(until) > BAN_KEPT;
                self.bans.retain(|_, ban| !ban.until.is_some_and(is_past));
                // One that still holds goes on: what was said under it stays unheard when the new one is lifted.
                let earlier = self.bans.get(user).filter(|ban| ban.holds(record.at)).map(|ban| ban.since);
                let since = earlier.unwrap_or(record.at);
                let (reason, until, by) = (reason.clone(), *until, by.clone());
                self.bans.insert(user.clone(), Ban { reason, since, until, by });
            }
            Event::Registry(RegistryEvent::BanLifted { user }) => {
                if let Some(ban) = self.bans.get_mut(user).filter(|ban| ban.holds(record.at)) {
                    ban.until = Some(record.at);
                }
            }
            Event::Registry(RegistryEvent::PrivacySet { user, chat, on }) => {
                let platform = user.split('/').next().unwrap_or_default();
                let spans = match chat {
                    Some(chat) => self.private_chats.entry(format!("{platform}/{chat}")),
                    None => self.private_people.entry(user.clone()),
                };
                spans.or_default().set(*on, record.at);
            }
            Event::Registry(RegistryEvent::AccessSet { platform, access }) => {
                let known = self.access.entry(platform.clone()).or_default();
                known.push(AccessSince { since: record.at, access: access.clone() });
                let too_many = known.len().saturating_sub(ACCESS_KEPT);
                known.drain(..too_many);
            }
            Event::Registry(RegistryEvent::ChatMigrated { platform, from, to }) => {
                self.migrate(platform, from, to)
            }
            Event::Registry(RegistryEvent::ServerApproved { .. } | RegistryEvent::ServerRevoked { .. }) => {
                pin(&mut self.pins, record)
            }
            Event::Maintenance(MaintenanceEvent::PersonErased { pseudonym, figures }) => {
                self.erasures.push(Erasure { pseudonym: pseudonym.clone(), figures: *figures, at: record.at })
            }
            _ => {}
        }
    }

    /// Somebody waits for an operator; where too many do, the oldest gives way.
    fn request_pairing(&mut self, user: &Author, chat: &str, code: &str, at: Timestamp) {
        let is_recent = |told: Timestamp| is_told_recently(told, at);
        self.pairings
            .retain(|_, pairing| !pairing.is_void(at) || (pairing.displaced && is_recent(pairing.told_at)));
        if self.pairings.get(&user.id).is_some_and(|pairing| pairing.displaced) {
            self.pairings.remove(&user.id);
        }
        if let Some(displaced) = self.displaced_by(&user.id, at).cloned()
            && let Some(pairing) = self.pairings.get_mut(&displaced)
        {
            pairing.displaced = true;
        }
        let pairing = self.pairings.entry(user.id.clone()).or_insert_with(|| Pairing {
            user: user.clone(),
            chat: chat.to_owned(),
            code: code.to_owned(),
            asked_at: at,
            told_at: at,
            approved_at: None,
            revoked_at: None,
            displaced: false,
        });
        // Only earlier versions sent a code to somebody who was revoked or refused.
        if pairing.revoked_at.take().is_some() {
            pairing.asked_at = at;
        }
        // The code was sent again. That does not prolong its life, and an approval stays.
        pairing.told_at = at;
        code.clone_into(&mut pairing.code);
    }

    /// Records that a chat moved. A chat that moves back to an earlier id is found under that id again.
    fn migrate(&mut self, platform: &str, from: &str, to: &str) {
        let mut way = Vec::new();
        let mut id = from.to_owned();
        while id != to {
            let key = format!("{platform}/{id}");
            let Some(before) = self.moved.get(&key).cloned() else {
                self.moved.insert(format!("{platform}/{to}"), from.to_owned());
                return;
            };
            way.push(key);
            id = before;
        }
        self.moved.retain(|to, _| !way.contains(to));
    }

    pub fn standing(&self, user: &str, now: Timestamp) -> PairingStatus {
        if self.bans.get(user).is_some_and(|ban| ban.holds(now)) {
            return PairingStatus::Banned;
        }
        match self.pairings.get(user) {
            Some(pairing) if pairing.approved_at.is_some() => PairingStatus::Paired,
            Some(pairing) if pairing.revoked_at.is_some() => PairingStatus::Revoked,
            Some(pairing) if !pairing.is_void(now) => PairingStatus::Waiting,
            _ => PairingStatus::Stranger,
        }
    }

    /// A person's standing when they sent a message that is read only now. Somebody who was paired since then, or whose ban
    /// was lifted since then, is treated as before.
    pub fn standing_at(&self, user: &str, at: Timestamp, now: Timestamp) -> PairingStatus {
        if self.bans.get(user).is_some_and(|ban| ban.since <= at && ban.holds(at)) {
            return PairingStatus::Banned;
        }
        let approved_at = self.pairings.get(user).and_then(|pairing| pairing.approved_at);
        match (self.standing(user, now), approved_at) {
            (PairingStatus::Paired, Some(since)) if since > at => PairingStatus::Waiting,
            (standing, _) => standing,
        }
    }

    /// The rules of a platform at a time; for a time before all that are remembered, the oldest rules.
    pub fn access_at(&self, platform: &str, at: Timestamp) -> Option<&AccessPolicy> {
        let known = self.access.get(platform)?;
        let then = known.iter().rev().find(|known| known.since <= at).or(known.first());
        then.map(|known| &known.access)
    }

    /// How many strangers wait for approval.
    pub fn n_waiting(&self, now: Timestamp) -> usize {
        self.pairings.values().filter(|pairing| pairing.waits(now)).count()
    }

    /// The person who loses their place when a stranger asks now: whoever has waited longest. `None`: there is room, or the
    /// stranger is known.
    pub fn displaced_by(&self, user: &str, now: Timestamp) -> Option<&String> {
        let is_known = self.pairings.get(user).is_some_and(|pairing| !pairing.is_void(now));
        if is_known || self.n_waiting(now) < WAITING_MAX {
            return None;
        }
        let waiting = self.pairings.iter().filter(|(_, pairing)| pairing.waits(now));
        waiting.min_by_key(|(_, pairing)| pairing.asked_at).map(|(user, _)| user)
    }

    /// Whether to send a code to a stranger who writes now: not if it was sent recently.
    pub fn tells_code(&self, user: &str, now: Timestamp) -> bool {
        match self.pairings.get(user) {
            Some(pairing) if pairing.approved_at.is_some() || pairing.revoked_at.is_some() => false,
            Some(pairing) => !is_told_recently(pairing.told_at, now),
            None => true,
        }
    }

    pub fn of_code(&self, code: &str, now: Timestamp) -> Option<&Pairing> {
        self.pairings
            .values()
            .filter(|pairing| pairing.waits(now))
            .find(|pairing| pairing.code.eq_ignore_ascii_case(code.trim()))
    }

    /// The first id of a chat, under which its conversations are kept.
    pub fn home_of(&self, platform: &str, chat: &str) -> String {
        let mut home = chat.to_owned();
        // No chat moves in a circle (see `migrate`); the bound is for a state that was edited by hand.
        for _ in 0..=self.moved.len() {
            match self.moved.get(&format!("{platform}/{home}")) {
                Some(before) => home.clone_from(before),
                None => break,
            }
        }
        home
    }

    /// The newest id of a chat.
    pub fn address_of(&self, platform: &str, chat: &str) -> String {
        let mut address = chat.to_owned();
        for _ in 0..=self.moved.len() {
            let next = self.moved.iter().find_map(|(to, from)| {
                (*from == address).then(|| to.strip_prefix(platform)?.strip_prefix('/')).flatten()
            });
            match next {
                Some(next) => next.clone_into(&mut address),
                None => break,
            }
        }
        address
    }
}

/// Whether a code was sent so recently that it is not sent again. After a clock was set back it is unknown how long ago that was.
fn is_told_recently(told_at: Timestamp, now: Timestamp) -> bool {
    (SignedDuration::ZERO..TELL_AGAIN).contains(&now.duration_since(told_at))
}

/// Tokens used on one day (UTC), by model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageDay {
    /// `None` before the first use.
    pub day: Option<Date>,
    /// Sums by the models' ids in the configuration.
    pub models: BTreeMap<String, Usage>,
}

impl UsageDay {
    /// Folds a record in. The first use on a new day clears the old day.
    pub fn apply(&mut self, record: &Record) {
        let (model, usage) = match &record.event {
            Event::Turn(TurnEvent::UsageReported { model, usage, .. })
            | Event::Compaction(CompactionEvent::UsageSpent { model, usage, .. }) => (model, usage),
            _ => return,
        };
        // A call of the embedded model uses no tokens.
        if *usage == Usage::default() {
            return;
        }
        let day = day_of(record.at);
        if self.day != Some(day) {
            *self = Self { day: Some(day), models: BTreeMap::new() };
        }
        *self.models.entry(model.clone()).or_default() += *usage;
    }
}

/// The day of a moment, in UTC.
pub fn day_of(at: Timestamp) -> Date {
    at.to_zoned_datetime(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests;
