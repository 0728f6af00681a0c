//! The checkup of a Telegram bot: its token, name, privacy mode, webhook, and its rights in the configured chats. It
//! does not poll, so a running daemon is not disturbed.

use std::collections::BTreeSet;
use std::time::Duration;

use cairn_types::people::access::Respond;
use serde_json::Value;
use teloxide::payloads::{GetChat, GetChatMember, GetMe, GetWebhookInfo};
use teloxide::types::{ChatId, UserId};

use super::api::{Api, CallError};
use super::webhook::{Webhook, WebhookOwner, trouble};
use super::{BadSettings, TelegramSettings};
use crate::checkup::{Checked, shown};

const LIMIT: Duration = Duration::from_secs(15);

/// Checks a bot's account on Telegram. A refused or unreachable token ends the checkup early.
///
/// # Errors
/// The token or an address is invalid, or the HTTP client cannot be built.
pub async fn checkup(settings: &TelegramSettings) -> Result<Vec<Checked>, BadSettings> {
    let api = Api::new(settings)?;
    let wanted = Webhook::of(settings)?;
    let me = match api.call(&GetMe::new(), LIMIT).await {
        Ok(me) => me,
        Err(error) => return Ok(vec![unusable(&error)]),
    };
    let name = match me["username"].as_str() {
        Some(name) => format!("@{}", shown(name)),
        None => me["first_name"].as_str().map(shown).unwrap_or_default(),
    };
    let mut out = vec![Checked::fine(format!("the token is good: the bot is {name}"))];
    out.extend(me["username"].as_str().into_iter().flat_map(links));
    out.push(webhook(&api, wanted.as_ref()).await);
    let access = &settings.chat.access;
    let of_places = access.places.iter().filter_map(|place| place.chat.clone());
    let chats: BTreeSet<String> = access.chats.iter().cloned().chain(of_places).collect();
    if !chats.is_empty() {
        let all = access.respond == Respond::All
            || access.places.iter().any(|place| place.respond == Some(Respond::All));
        out.push(privacy(me["can_read_all_group_messages"].as_bool() == Some(true), all));
    }
    let id = me["id"].as_u64().unwrap_or_default();
    for chat in &chats {
        out.push(place(&api, chat, id).await);
    }
    Ok(out)
}

/// Where a person writes to the bot, and adds it to a group of theirs (<https://core.telegram.org/api/links#bot-links>).
fn links(username: &str) -> [Checked; 2] {
    let name: String = username.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    [
        Checked::leading("to write to the bot, open this link", format!("https://t.me/{name}")),
        Checked::leading(
            "to add it to a group, open this link",
            format!("https://t.me/{name}?startgroup=true"),
        ),
    ]
}

fn unusable(error: &CallError) -> Checked {
    match error {
        CallError::Api { code: 401 | 404, description, .. } => Checked::bad(
            format!("Telegram does not know this token ({description})"),
            "copy the token again from @BotFather; if it was revoked, the new one is there",
        ),
        CallError::Api { .. } => Checked::bad(error.to_string(), "look at the bot in @BotFather"),
        CallError::Connect(_) | CallError::Broken(_) | CallError::Garbled { .. } => {
            Checked::bad(error.to_string(), "is the network up, and `api_url` right?")
        }
    }
}

/// A delivery error that is older, in seconds, is not reported.
const LATELY_SECS: i64 = 3_600;

/// `wanted`: the configured webhook.
async fn webhook(api: &Api, wanted: Option<&Webhook>) -> Checked {
    let info = match api.call(&GetWebhookInfo::new(), LIMIT).await {
        Ok(info) => info,
        Err(error) => {
            return Checked::doubtful(format!("cannot tell whether a webhook is set: {error}"), "try again");
        }
    };
    let waits = match info["pending_update_count"].as_u64() {
        Some(1) => "; 1 update waits".to_owned(),
        Some(n) if n > 1 => format!("; {n} updates wait"),
        _ => String::new(),
    };
    match (WebhookOwner::of(&info), wanted) {
        (WebhookOwner::Anothers, _) => Checked::bad(
            "a webhook is set for this bot by another service, so it cannot be asked for updates",
            "switch off the service that set it, then call the Bot API's deleteWebhook with this token",
        ),
        (WebhookOwner::Nobodys, None) => Checked::fine(format!("no webhook is in the way{waits}")),
        (WebhookOwner::Cairns, None) => Checked::fine(format!(
            "the webhook that cairn had set still stands: the next `cairn run` deletes it and polls{waits}"
        )),
        (WebhookOwner::Nobodys, Some(_)) => {
            Checked::fine(format!("no webhook is set yet: `cairn run` sets it when it starts{waits}"))
        }
        (WebhookOwner::Cairns, Some(wanted)) if !wanted.is_that_of(&info) => Checked::doubtful(
            "the webhook that stands leads elsewhere than `webhook_url`",
            "restart `cairn run`: it sets the one that is configured",
        ),
        (WebhookOwner::Cairns, Some(_)) => {
            let now = api.server_now().map_or(i64::MAX, |now| now.as_second());
            match trouble(&info, now, LATELY_SECS) {
                None => Checked::fine(format!("the webhook is set{waits}")),
                Some(said) => Checked::bad(
                    format!("Telegram cannot deliver updates to the webhook: {}{waits}", shown(said)),
                    "does `cairn run` run, and does `webhook_url` lead to `webhook_listen`, by a certificate that \
                     Telegram takes?",
                ),
            }
        }
    }
}

/// `all`: in some group the bot should answer everything.
fn privacy(reads_all: bool, all: bool) -> Checked {
    let remedy = "@BotFather, /setprivacy, Disable; then take the bot out of each group and add it again";
    match (reads_all, all) {
        (true, _) => Checked::fine("privacy mode is off: the bot follows what is said in groups"),
        (false, true) => Checked::bad(
            "privacy mode is on: with respond = \"all\" the bot still gets only what is addressed to it",
            remedy,
        ),
        (false, false) => Checked::doubtful(
            "privacy mode is on: in groups the bot gets only what is addressed to it, without the rest as context",
            remedy,
        ),
    }
}

async fn place(api: &Api, chat: &str, me: u64) -> Checked {
    let Ok(id) = chat.parse().map(ChatId) else {
        return Checked::bad(format!("{chat} is no chat's id"), "correct `chats`");
    };
    let known = match api.call(&GetChat::new(id), LIMIT).await {
        Ok(known) => known,
        Err(CallError::Api { migrate_to: Some(new), .. }) => {
            return Checked::doubtful(
                format!("the group {chat} became a supergroup with the id {new}"),
                format!("write {new} into `chats` as well"),
            );
        }
        Err(error) => {
            return Checked::bad(
                format!("the chat {chat}: {error}"),
                "add the bot to the group, or correct `chats`",
            );
        }
    };
    let what = format!("the chat {} ({chat})", known["title"].as_str().map(shown).unwrap_or_default());
    match api.call(&GetChatMember::new(id, UserId(me)), LIMIT).await {
        Ok(member) => membership(&what, &member, &known),
        Err(error) => {
            Checked::doubtful(format!("{what}: cannot tell what the bot may do: {error}"), "try again")
        }
    }
}

fn membership(what: &str, member: &Value, chat: &Value) -> Checked {
    let may = |rights: &Value| rights["can_send_messages"].as_bool() != Some(false);
    let silent = || {
        Checked::bad(
            format!("{what}: the bot may not write there"),
            "let it send messages: the group's permissions, or make it an administrator",
        )
    };
    match member["status"].as_str().unwrap_or_default() {
        "creator" | "administrator" => Checked::fine(format!("{what}: the bot is an administrator there")),
        "member" if !may(&chat["permissions"]) => silent(),
        "member" => Checked::fine(format!("{what}: the bot may read and write")),
        "restricted" if may(member) => Checked::fine(format!("{what}: the bot may read and write")),
        "restricted" => silent(),
        _ => Checked::bad(
            format!("{what}: the bot is not in it"),
            "add the bot to the group, or take it out of `chats`",
        ),
    }
}
