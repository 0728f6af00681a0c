//! The checkup of a Discord bot: its token, its name, the privileged intent, and its rights in the configured places.
//! It uses REST only and starts no gateway session, so a running daemon is not disturbed.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;
use serenity::all::{ChannelId, GuildId, UserId};

use super::gateway::bad_token;
use super::rest::{Rest, RestError};
use super::rights::{ADMINISTRATOR, ATTACH, HISTORY, SEND, SEND_IN_THREADS, VIEW, within};
use super::wire::ChannelInfo;
use super::{BadSettings, DiscordSettings, bot_rest};
use crate::checkup::{Checked, shown};

/// The page with the settings for intents and tokens.
const PORTAL: &str = "https://discord.com/developers/applications";

/// The permissions that a bot is invited with. Files are sent where the model's tools return some.
const INVITED: u64 = VIEW | SEND | SEND_IN_THREADS | ATTACH | HISTORY;

/// Application flags for the Message Content intent: granted, and granted to a bot in few servers.
const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;

/// Below this many remaining session starts the checkup warns.
const FEW_SESSIONS: u64 = 20;

/// The channel types that are threads.
const THREADS: [u64; 3] = [10, 11, 12];

/// Checks a bot's account on Discord. A refused or unreachable token ends the checkup early.
///
/// # Errors
/// The token or an address is invalid, or the HTTP client cannot be built.
pub async fn checkup(settings: &DiscordSettings) -> Result<Vec<Checked>, BadSettings> {
    let addresses = settings.addresses()?;
    let rest = bot_rest(settings, &addresses)?;
    let mut out = Vec::new();
    let gateway = match rest.gateway().await {
        Ok(gateway) => gateway,
        Err(error) => return Ok(vec![unusable(&error)]),
    };
    let me = match rest.me().await {
        Ok(me) => me,
        Err(error) => return Ok(vec![unusable(&error)]),
    };
    let name = me["username"].as_str().map_or_else(|| "a bot without a name".to_owned(), shown);
    out.push(Checked::fine(format!("the token is good: the bot is {name}")));
    let left = gateway.session_start_limit.remaining;
    if left < FEW_SESSIONS {
        out.push(Checked::doubtful(
            format!("Discord lets the bot begin {left} more sessions today"),
            "something restarts it often; look at the log of `cairn run`",
        ));
    }
    let application = rest.application().await;
    out.push(intent(application.as_ref()));
    out.extend(application.ok().as_ref().and_then(invitation));
    let servers = match rest.servers().await {
        Ok(servers) => servers,
        Err(error) => {
            out.push(Checked::doubtful(
                format!("the servers of the bot cannot be listed: {error}"),
                "try again",
            ));
            return Ok(out);
        }
    };
    let bot = BotRights { rest, servers: rights(&servers), me: number(&me["id"]).unwrap_or_default() };
    let access = &settings.chat.access;
    let of_places = access.places.iter();
    let wanted: BTreeSet<&String> =
        access.servers.iter().chain(of_places.clone().filter_map(|place| place.server.as_ref())).collect();
    for server in wanted {
        out.push(in_server(&bot.servers, server));
    }
    let named = of_places.flat_map(|place| [place.chat.as_ref(), place.thread.as_ref()]).flatten();
    let chats: BTreeSet<&String> = access.chats.iter().chain(named).collect();
    for chat in chats {
        out.push(bot.channel(chat).await);
    }
    Ok(out)
}

fn unusable(error: &RestError) -> Checked {
    match error {
        RestError::Unauthorized => {
            let failure = bad_token();
            Checked::bad(failure.reason, failure.hint)
        }
        RestError::Limited { .. } => Checked::doubtful(error.to_string(), "wait a little, then ask again"),
        RestError::Unreachable(_) | RestError::Unknown(_) | RestError::Refused { .. } => {
            Checked::bad(error.to_string(), "is the network up, and `api_url` right?")
        }
    }
}

/// The link by which a person lets the bot into a server of theirs
/// (<https://docs.discord.com/developers/topics/oauth2#bot-authorization-flow>).
fn invitation(application: &Value) -> Option<Checked> {
    let id = number(&application["id"])?;
    Some(Checked::leading(
        "to let the bot into a server, open this link",
        format!(
            "https://discord.com/oauth2/authorize?client_id={id}&scope=bot+applications.commands&permissions={INVITED}"
        ),
    ))
}

fn intent(application: Result<&Value, &RestError>) -> Checked {
    match application {
        Ok(application) if application["flags"].as_u64().unwrap_or_default() & MESSAGE_CONTENT != 0 => {
            Checked::fine("the Message Content Intent is on")
        }
        Ok(_) => Checked::bad(
            "the Message Content Intent is off: Discord shows the bot no words",
            format!("switch it on under Bot, Privileged Gateway Intents, at {PORTAL}"),
        ),
        Err(error) => {
            Checked::doubtful(format!("cannot tell whether the intents are on: {error}"), "try again")
        }
    }
}

struct ServerRights {
    name: String,
    /// `None`: the list does not say.
    rights: Option<u64>,
}

/// The servers of the bot and its rights in each.
struct BotRights {
    rest: Rest,
    servers: BTreeMap<u64, ServerRights>,
    me: u64,
}

fn rights(servers: &[Value]) -> BTreeMap<u64, ServerRights> {
    let read = |server: &Value| {
        let name = server["name"].as_str().map(shown).unwrap_or_default();
        Some((number(&server["id"])?, ServerRights { name, rights: number(&server["permissions"]) }))
    };
    servers.iter().filter_map(read).collect()
}

impl BotRights {
    async fn channel(&self, id: &str) -> Checked {
        let Some(channel_id) = id.parse().ok().filter(|id| *id != 0) else {
            return Checked::bad(format!("{id} is no channel's id"), "correct `chats`");
        };
        let channel = match self.rest.channel(ChannelId::new(channel_id)).await {
            Ok(channel) => channel,
            Err(error) => {
                return Checked::bad(
                    format!("the channel {id}: {error}"),
                    "mend that in Discord, or correct `chats`",
                );
            }
        };
        let is_thread = channel["type"].as_u64().is_some_and(|kind| THREADS.contains(&kind));
        // A thread uses the permission overwrites of its channel.
        let parent = match number(&channel["parent_id"]).filter(|id| is_thread && *id != 0) {
            Some(parent) => self.rest.channel(ChannelId::new(parent)).await.ok(),
            None => None,
        };
        let name = channel["name"].as_str().map_or_else(|| "private".to_owned(), shown);
        let what = format!("the channel {name} ({id})");
        let guild = number(&channel["guild_id"]);
        let Some((guild, base)) = guild.and_then(|id| Some((id, self.servers.get(&id)?.rights?))) else {
            return Checked::fine(format!("{what} is there"));
        };
        let roles = self.roles(guild).await;
        let info = serde_json::from_value::<ChannelInfo>(parent.unwrap_or(channel)).ok();
        let rules = info.map(|info| info.permission_overwrites).unwrap_or_default();
        let rights = within(base, guild, self.me, &roles, &rules);
        graded(&what, rights, if is_thread { SEND_IN_THREADS } else { SEND })
    }

    /// The bot's roles in a server; empty if Discord does not tell.
    async fn roles(&self, guild: u64) -> HashSet<u64> {
        if guild == 0 || self.me == 0 {
            return HashSet::new();
        }
        let member = self.rest.member(GuildId::new(guild), UserId::new(self.me)).await.unwrap_or_default();
        let roles = member["roles"].as_array().map(Vec::as_slice).unwrap_or_default();
        roles.iter().filter_map(number).collect()
    }
}

/// Whether the bot is in a server, and what it may do there.
fn in_server(servers: &BTreeMap<u64, ServerRights>, id: &str) -> Checked {
    match id.parse().ok().and_then(|id: u64| servers.get(&id)) {
        Some(ServerRights { name, rights: None }) => Checked::fine(format!(
            "the bot is in the server {name} ({id}); Discord does not say what it may do there"
        )),
        None => Checked::bad(
            format!("the bot is not in the server {id}"),
            format!(
                "invite it: OAuth2, URL Generator at {PORTAL}, scopes bot and applications.commands; or correct `servers`"
            ),
        ),
        Some(ServerRights { name, rights: Some(rights) }) => {
            graded(&format!("the server {name} ({id})"), *rights, SEND | SEND_IN_THREADS)
        }
    }
}

/// Grades the rights in a place. `send`: the bits that sending there requires.
fn graded(what: &str, rights: u64, send: u64) -> Checked {
    if rights & ADMINISTRATOR != 0 {
        return Checked::fine(format!("{what}: the bot is an administrator there"));
    }
    let lacks = |needed: u64| needed & !rights != 0;
    let mut missing = Vec::new();
    for (bit, name) in [
        (VIEW, "View Channel"),
        (SEND & send, "Send Messages"),
        (SEND_IN_THREADS & send, "Send Messages in Threads"),
        (HISTORY, "Read Message History"),
        (ATTACH, "Attach Files"),
    ] {
        if lacks(bit) {
            missing.push(name);
        }
    }
    let list = missing.join(", ");
    if lacks(VIEW | SEND & send) || (send == SEND_IN_THREADS && lacks(send)) {
        Checked::bad(format!("{what}: the bot lacks {list}"), format!("give it {list} there"))
    } else if !missing.is_empty() {
        Checked::doubtful(format!("{what}: the bot lacks {list}"), format!("give it {list} there"))
    } else {
        Checked::fine(format!("{what}: the bot may read and write"))
    }
}

/// A number that Discord writes as a number or as digits in quotes.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::Grade;

    #[test]
    fn a_server_is_known_where_the_list_does_not_say_what_the_bot_may_do() {
        let list = [
            serde_json::json!({"id": "1", "name": "Hut"}),
            serde_json::json!({"id": "2", "name": "Inn", "permissions": "8"}),
        ];
        let servers = rights(&list);
        let found = |id| (in_server(&servers, id).grade, in_server(&servers, id).found);
        assert!(matches!(found("1"), (Grade::Fine, found) if found.contains("is in the server Hut")));
        assert!(matches!(found("2"), (Grade::Fine, found) if found.contains("administrator")));
        assert!(matches!(found("3"), (Grade::Bad, found) if found.contains("is not in the server")));
    }

    #[test]
    fn the_invitation_asks_for_what_the_bot_needs_and_no_more() {
        let link = invitation(&serde_json::json!({"id": "800000000000000001"})).unwrap().link.unwrap();
        // View Channels, Send Messages, Attach Files, Read Message History, Send Messages in Threads:
        // https://docs.discord.com/developers/topics/permissions#permissions-bitwise-permission-flags
        let expected = 0x400 | 0x800 | 0x8000 | 0x10000 | 0x40_0000_0000_u64;
        assert_eq!(
            link,
            format!(
                "https://discord.com/oauth2/authorize?client_id=800000000000000001&scope=bot+applications.commands&permissions={expected}"
            )
        );
        assert_eq!(invitation(&serde_json::json!({"flags": 0})), None);
    }

    #[test]
    fn what_is_missing_is_named_and_graded() {
        let all = VIEW | SEND | HISTORY | ATTACH | SEND_IN_THREADS;
        for (rights, send, grade, word) in [
            (all, SEND, Grade::Fine, "read and write"),
            (ADMINISTRATOR, SEND, Grade::Fine, "administrator"),
            (all & !SEND_IN_THREADS, SEND, Grade::Fine, "read and write"),
            (all & !SEND_IN_THREADS, SEND | SEND_IN_THREADS, Grade::Doubtful, "in Threads"),
            (all & !SEND_IN_THREADS, SEND_IN_THREADS, Grade::Bad, "in Threads"),
            (all & !HISTORY, SEND, Grade::Doubtful, "Read Message History"),
            (all & !ATTACH, SEND, Grade::Doubtful, "lacks Attach Files"),
            (all & !SEND, SEND, Grade::Bad, "lacks Send Messages"),
            (0, SEND, Grade::Bad, "View Channel, Send Messages, Read Message History, Attach Files"),
        ] {
            let checked = graded("x", rights, send);
            assert_eq!(checked.grade, grade, "{checked:?}");
            assert!(checked.found.contains(word), "{checked:?}");
        }
    }
}
