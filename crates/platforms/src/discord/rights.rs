//! Computes the bot's rights in a channel: those of its roles, then the channel's permission overwrites.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serenity::all::UserId;

use super::wire::{Overwrite, Role, Server, ServerMember};

/// Permission bits, as Discord numbers them.
pub(super) const ADMINISTRATOR: u64 = 1 << 3;
pub(super) const VIEW: u64 = 1 << 10;
pub(super) const SEND: u64 = 1 << 11;
pub(super) const ATTACH_FILES: u64 = 1 << 15;
pub(super) const HISTORY: u64 = 1 << 16;
pub(super) const MANAGE_THREADS: u64 = 1 << 34;
pub(super) const SEND_IN_THREADS: u64 = 1 << 38;

/// The roles of a server, and which of them the bot has.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ServerRights {
    server: u64,
    is_owner: bool,
    roles: HashMap<u64, u64>,
    /// The bot's roles; `None`: not known.
    own: Option<HashSet<u64>>,
    /// The bot is timed out by a moderator until then, and may only read.
    silenced_until: Option<Timestamp>,
}

impl ServerRights {
    pub(super) fn of(server: &Server, me: UserId) -> Self {
        let is_owner = server.owner_id == Some(me);
        let mut rights = Self { server: server.id.get(), is_owner, ..Self::default() };
        server.roles.iter().for_each(|role| rights.learn_role(role));
        server.members.iter().for_each(|member| rights.learn_member(member, me));
        rights
    }

    pub(super) fn learn_role(&mut self, role: &Role) {
        self.roles.insert(role.id.get(), role.permissions);
    }

    pub(super) fn forget_role(&mut self, role: u64) {
        self.roles.remove(&role);
    }

    /// Stores a member if it is the bot; others are ignored.
    pub(super) fn learn_member(&mut self, member: &ServerMember, me: UserId) {
        if member.user.as_ref().is_some_and(|user| user.id == me) {
            self.own = Some(member.roles.iter().map(|role| role.get()).collect());
            self.silenced_until = member.communication_disabled_until;
        }
    }

    /// The bot's rights in a channel with these overwrites; `None` if its roles are not known.
    pub(super) fn in_channel(&self, me: UserId, rules: &[Overwrite], now: Timestamp) -> Option<u64> {
        if self.is_owner {
            return Some(u64::MAX);
        }
        let own = self.own.as_ref()?;
        let has = |role: &u64| *role == self.server || own.contains(role);
        let base = self.roles.iter().filter(|(role, _)| has(role)).fold(0, |all, (_, rights)| all | rights);
        let rights = within(base, self.server, me.get(), own, rules);
        let is_silenced = self.silenced_until.is_some_and(|until| until > now) && rights & ADMINISTRATOR == 0;
        Some(if is_silenced { rights & (VIEW | HISTORY) } else { rights })
    }
}

/// The server-wide rights `base`, changed by the channel's overwrites for everybody, then for roles, then for the bot.
/// An administrator has all rights.
pub(super) fn within(base: u64, server: u64, me: u64, own: &HashSet<u64>, rules: &[Overwrite]) -> u64 {
    if base & ADMINISTRATOR != 0 {
        return u64::MAX;
    }
    let layers: [&dyn Fn(u64) -> bool; 3] =
        [&|id| id == server, &|id| id != server && own.contains(&id), &|id| id == me];
    layers.into_iter().fold(base, |rights, is_of| {
        let these = || rules.iter().filter(|rule| is_of(rule.id));
        let denied = these().fold(0, |all, rule| all | rule.deny);
        let allowed = these().fold(0, |all, rule| all | rule.allow);
        rights & !denied | allowed
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ME: UserId = UserId::new(99);

    fn server(everyone: u64) -> ServerRights {
        let server: Server = serde_json::from_value(json!({
            "id": "1",
            "roles": [{"id": "1", "permissions": everyone.to_string()}, {"id": "5", "permissions": "66560"},
                {"id": "6", "permissions": "8"}],
            "members": [{"user": {"id": "99"}, "roles": ["5"]}, {"user": {"id": "98"}, "roles": ["6"]}],
        }))
        .expect("is a server");
        ServerRights::of(&server, ME)
    }

    fn rights(server: &ServerRights, rules: &Value) -> u64 {
        let rules: Vec<Overwrite> = serde_json::from_value(rules.clone()).expect("are rules");
        server.in_channel(ME, &rules, Timestamp::UNIX_EPOCH).expect("its roles are known")
    }

    #[test]
    fn a_channels_rules_change_what_the_roles_give_in_discords_order() {
        let take = |id: &str| json!({"id": id, "allow": "0", "deny": "1024"});
        let give = |id: &str| json!({"id": id, "allow": "1024", "deny": "0"});
        let cases = [
            (json!([]), true),
            (json!([take("1")]), false),
            (json!([take("1"), give("5")]), true),
            (json!([give("1"), take("5")]), false),
            (json!([take("5"), give("99")]), true),
            (json!([give("5"), take("99")]), false),
            (json!([take("6"), take("98")]), true),
        ];
        for (rules, may_see) in cases {
            assert_eq!(rights(&server(0), &rules) & VIEW != 0, may_see, "{rules}");
            assert_eq!(rights(&server(8), &rules), u64::MAX, "an administrator");
        }
    }

    #[test]
    fn roles_come_and_go_and_a_silenced_bot_only_reads() {
        let (mut one, later) = (server(VIEW), Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(9));
        one.forget_role(5);
        assert_eq!(one.in_channel(ME, &[], later), Some(VIEW));
        let role = json!({"id": "5", "permissions": (SEND | VIEW).to_string()});
        one.learn_role(&serde_json::from_value(role).expect("is a role"));
        assert_eq!(one.in_channel(ME, &[], later), Some(VIEW | SEND));
        let member = json!({"user": {"id": "99"}, "roles": ["5"], "communication_disabled_until": "1970-01-01T00:00:08Z"});
        one.learn_member(&serde_json::from_value(member).expect("is a member"), ME);
        assert_eq!(one.in_channel(ME, &[], Timestamp::UNIX_EPOCH), Some(VIEW));
        assert_eq!(one.in_channel(ME, &[], later), Some(VIEW | SEND), "it is over");
        let unknown = ServerRights::default();
        assert_eq!(unknown.in_channel(ME, &[], later), None);
    }
}
