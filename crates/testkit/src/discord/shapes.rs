//! Discord's JSON objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{Access, BOT_ID, Channel, File, Message, User, World, id_at, kind, time_of};

pub(super) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

pub(super) fn user(user: &User) -> Value {
    let shown = if user.bot { Value::Null } else { user.name.as_str().into() };
    let mut body = json!({
        "id": user.id.to_string(), "username": user.name.to_lowercase(), "global_name": shown, "discriminator": "0",
        "avatar": null, "avatar_decoration_data": null, "banner": null, "accent_color": null, "collectibles": null,
        "clan": null, "primary_guild": null, "public_flags": 0, "flags": 0,
    });
    if user.bot {
        body["bot"] = true.into();
        body["discriminator"] = "4242".into();
    }
    body
}

/// The bot as `/users/@me` and READY show it.
pub(super) fn me(world: &World) -> Value {
    let mut body = world.users.get(&BOT_ID).map_or(Value::Null, user);
    for (name, value) in [("verified", json!(true)), ("mfa_enabled", json!(true)), ("email", Value::Null)] {
        body[name] = value;
    }
    body
}

pub(super) fn member() -> Value {
    json!({
        "nick": null, "avatar": null, "banner": null, "roles": [], "joined_at": "2024-05-01T10:00:00.000000+00:00",
        "premium_since": null, "deaf": false, "mute": false, "flags": 0, "pending": false,
        "communication_disabled_until": null, "unusual_dm_activity_until": null,
    })
}

pub(super) fn member_of(world: &World, id: u64) -> Value {
    let mut body = member();
    body["user"] = world.users.get(&id).map_or(Value::Null, user);
    body
}

pub(super) fn channel(world: &World, channel: &Channel) -> Value {
    // "may not point to an existing or valid message" ("Channel Object" in Discord's documentation): it goes on naming the last
    // message after that is deleted.
    let last =
        channel.messages.keys().next_back().copied().max(channel.deleted_last).map(|id| id.to_string());
    let mut body =
        json!({"id": channel.id.to_string(), "type": channel.kind, "last_message_id": last, "flags": 0});
    if let Some(recipient) = channel.recipient {
        body["recipients"] = json!([world.users.get(&recipient).map(user)]);
        return body;
    }
    let rest = json!({
        "name": channel.name, "parent_id": channel.parent.map(|id| id.to_string()), "rate_limit_per_user": 0,
        "guild_id": channel.guild.map(|id| id.to_string()),
    });
    merge(&mut body, rest);
    let more = if channel.kind == kind::THREAD {
        json!({
            "owner_id": BOT_ID.to_string(), "message_count": channel.messages.len(), "member_count": 2,
            "total_message_sent": channel.messages.len(), "thread_metadata": {
                "archived": false, "archive_timestamp": "2026-01-01T00:00:00.000000+00:00", "auto_archive_duration": 4320,
                "locked": channel.access == Access::ReadOnly, "create_timestamp": "2026-01-01T00:00:00.000000+00:00",
            },
        })
    } else {
        let rules = match channel.access {
            // Send Messages is refused to the bot.
            Access::ReadOnly => json!([{"id": BOT_ID.to_string(), "type": 1, "allow": "0", "deny": "2048"}]),
            Access::NoHistory => {
                json!([{"id": BOT_ID.to_string(), "type": 1, "allow": "0", "deny": "65536"}])
            }
            Access::Hidden => json!([{"id": BOT_ID.to_string(), "type": 1, "allow": "0", "deny": "1024"}]),
            _ => json!([]),
        };
        json!({"topic": null, "position": 0, "permission_overwrites": rules, "nsfw": false, "last_pin_timestamp": null})
    };
    merge(&mut body, more);
    body
}

fn file(origin: &str, channel: u64, file: &File) -> Value {
    let url =
        format!("{origin}/attachments/{channel}/{}/{}?ex=6a1f0000&is=6a1d0000&hm=00ff&", file.id, file.name);
    let mut body = json!({
        "id": file.id.to_string(), "filename": file.name, "size": file.size, "url": url, "proxy_url": url,
        "content_type": file.content_type, "content_scan_version": 0,
    });
    // A voice message: <https://discord.com/developers/docs/resources/message#attachment-object>.
    if file.name == "voice-message.ogg" {
        merge(&mut body, json!({"duration_secs": 2.5, "waveform": "FzYACgAAAAAAACQAAAAAAAA="}));
    }
    if file.content_type.starts_with("image/") {
        merge(
            &mut body,
            json!({"width": 64, "height": 64, "placeholder": "ZggGJoSVp3doeXhwh5aHgHhgBg==", "placeholder_version": 1}),
        );
    }
    body
}

/// A message as REST shows it: without server and member.
pub(super) fn message(world: &World, origin: &str, message: &Message, depth: u8) -> Value {
    let author = match world.users.get(&message.author) {
        Some(author) => {
            let mut author = user(author);
            if message.webhook {
                author["bot"] = true.into();
                author["discriminator"] = "0000".into();
            }
            author
        }
        None => Value::Null,
    };
    let mentions: Vec<Value> =
        message.mentions.iter().filter_map(|id| world.users.get(id)).map(user).collect();
    let files: Vec<Value> = message.files.iter().map(|one| file(origin, message.channel, one)).collect();
    let mut body = json!({
        "id": message.id.to_string(), "channel_id": message.channel.to_string(), "type": message.kind, "author": author,
        "content": message.content, "timestamp": stamp(time_of(message.id)),
        "edited_timestamp": message.edited.map(stamp), "tts": false, "mention_everyone": message.everyone,
        "mentions": mentions, "mention_roles": [], "attachments": files, "embeds": message.embeds, "pinned": false,
        "flags": message.flags, "components": message.components,
    });
    if let Some(nonce) = &message.nonce {
        body["nonce"] = nonce.clone();
    }
    if message.webhook {
        body["webhook_id"] = message.author.to_string().into();
    }
    if let Some(replied) = message.reply_to {
        let guild = world.channels.get(&message.channel).and_then(|channel| channel.guild);
        body["message_reference"] = json!({
            "type": 0, "message_id": replied.to_string(), "channel_id": message.channel.to_string(),
        });
        if let Some(guild) = guild {
            body["message_reference"]["guild_id"] = guild.to_string().into();
        }
        if depth > 0 {
            let replied = world.message(message.channel, replied);
            body["referenced_message"] =
                replied.map_or(Value::Null, |replied| self::message(world, origin, replied, 0));
        }
    }
    body
}

/// A message as MESSAGE_CREATE and MESSAGE_UPDATE show it.
pub(super) fn message_event(world: &World, origin: &str, one: &Message) -> Value {
    let mut body = message(world, origin, one, 1);
    let place = world.channels.get(&one.channel);
    if let Some(guild) = place.and_then(|channel| channel.guild) {
        body["guild_id"] = guild.to_string().into();
        if !one.webhook {
            body["member"] = member();
        }
        if let Some(mentions) = body["mentions"].as_array_mut() {
            mentions.iter_mut().for_each(|mention| mention["member"] = member());
        }
    }
    body["channel_type"] = place.map_or(kind::TEXT, |channel| channel.kind).into();
    body
}

/// A message without what only bots with the intent for message content see.
pub(super) fn without_content(body: &mut Value) {
    body["content"] = "".into();
    for name in ["embeds", "attachments", "components"] {
        body[name] = json!([]);
    }
}

/// A server as GUILD_CREATE shows it.
pub(super) fn guild(world: &World, id: u64, name: &str) -> Value {
    let inside = world.channels.values().filter(|channel| channel.guild == Some(id));
    // Bots are told of channels that they may not see, too; of threads only of those that they may.
    let told = inside.filter(|channel| channel.kind != kind::THREAD || channel.access != Access::Hidden);
    let (threads, channels): (Vec<&Channel>, Vec<&Channel>) =
        told.partition(|channel| channel.kind == kind::THREAD);
    let show = |list: Vec<&Channel>| list.into_iter().map(|one| channel(world, one)).collect::<Vec<Value>>();
    let everyone = json!({
        "id": id.to_string(), "name": "@everyone", "permissions": "2248473465835073", "position": 0, "color": 0,
        "hoist": false, "managed": false, "mentionable": false, "icon": null, "unicode_emoji": null, "flags": 0,
        "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null},
    });
    let mut body = json!({
        "id": id.to_string(), "name": name, "icon": null, "splash": null, "discovery_splash": null,
        "owner_id": "800000000000009999", "afk_channel_id": null, "afk_timeout": 300, "verification_level": 1,
        "default_message_notifications": 1, "explicit_content_filter": 2, "roles": [everyone], "emojis": [],
        "features": [], "mfa_level": 0, "application_id": null, "system_channel_id": null, "system_channel_flags": 0,
        "rules_channel_id": null, "max_members": 25_000_000, "vanity_url_code": null, "description": null,
        "banner": null, "premium_tier": 0, "premium_subscription_count": 0, "preferred_locale": "en-US",
        "public_updates_channel_id": null, "max_video_channel_users": 25, "max_stage_video_channel_users": 50,
        "nsfw_level": 0, "nsfw": false, "stickers": [], "premium_progress_bar_enabled": false,
        "safety_alerts_channel_id": null, "hub_type": null, "incidents_data": null, "region": "deprecated",
    });
    let live = json!({
        "joined_at": stamp(time_of(id_at(Timestamp::constant(1_767_225_600, 0)))), "large": false, "unavailable": false,
        "member_count": world.users.len(), "voice_states": [], "members": [member_of(world, BOT_ID)],
        "channels": show(channels), "threads": show(threads), "presences": [], "stage_instances": [],
        "guild_scheduled_events": [], "soundboard_sounds": [], "lazy": true, "version": 1,
    });
    merge(&mut body, live);
    body
}

/// Somebody in a channel wants something of the bot: `kind` 2 is a command, 3 a button, `data` what of it.
pub(super) fn interaction(
    world: &World,
    kind: u64,
    (id, token): (u64, &str),
    by: u64,
    place: u64,
    data: Value,
) -> Value {
    let place = world.channels.get(&place).unwrap_or_else(|| panic!("there is no channel {place}"));
    let mut body = json!({
        "id": id.to_string(), "application_id": BOT_ID.to_string(), "type": kind, "data": data, "token": token,
        "channel_id": place.id.to_string(), "channel": channel(world, place), "version": 1, "locale": "en-US",
        "app_permissions": "2248473465835073", "entitlements": [], "attachment_size_limit": 10_485_760,
        "authorizing_integration_owners": {"0": place.guild.unwrap_or_default().to_string()},
        "context": if place.guild.is_some() { 0 } else { 1 },
    });
    body["channel"]["permissions"] = "2248473465835073".into();
    match place.guild {
        Some(guild) => {
            body["guild_id"] = guild.to_string().into();
            body["guild"] = json!({"id": guild.to_string(), "locale": "en-US", "features": []});
            body["guild_locale"] = "en-US".into();
            body["member"] = member_of(world, by);
            body["member"]["permissions"] = "2248473465835073".into();
        }
        None => body["user"] = world.users.get(&by).map_or(Value::Null, user),
    }
    body
}

/// The application, as `/applications/@me` shows it; `flags` tell which privileged intents it may use.
pub(super) fn application(world: &World, flags: u64) -> Value {
    json!({
        "id": BOT_ID.to_string(), "name": "cairn-test", "icon": null, "description": "", "summary": "", "type": null,
        "bot": me(world), "bot_public": false, "bot_require_code_grant": false, "verify_key": "00", "flags": flags,
        "owner": {"id": "800000000000009999", "username": "operator", "discriminator": "0", "avatar": null,
            "global_name": "Operator", "public_flags": 0}, "team": null, "redirect_uris": [],
        "interactions_endpoint_url": null, "approximate_guild_count": world.guilds.len(),
        "integration_types_config": {"0": {}}, "is_monetized": false, "hook": true,
    })
}

pub(super) fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
