//! Who the bot is, where it is, and the files of its messages.

use serde_json::{Value, json};

use super::refusal::{Refusal, json_answer};
use super::{Outcome, Path};
use crate::discord::serve::{Answered, Call};
use crate::discord::world::{Access, BOT_ID, Channel, kind};
use crate::discord::{Route, Rule, Shared, State, shapes};

pub(super) fn answer(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    shared.update(|state| match path.route {
        Route::Gateway => Ok((200, gateway(shared, state, path))),
        Route::Me => Ok((200, shapes::me(&state.world))),
        Route::Application => Ok((200, shapes::application(&state.world, state.application_flags()))),
        Route::Guild => guild(state, path),
        Route::OpenDm => {
            let (body, _) = super::read(shared, call)?;
            let user = body["recipient_id"].as_str().and_then(|id| id.parse::<u64>().ok());
            let user = user.filter(|id| *id != BOT_ID && state.world.users.contains_key(id));
            let id = state.world.dm(user.ok_or_else(Refusal::unknown_user)?);
            Ok((
                200,
                shapes::channel(
                    &state.world,
                    state.world.channels.get(&id).ok_or_else(Refusal::unknown_channel)?,
                ),
            ))
        }
        _ => Ok((200, shapes::channel(&state.world, seen(state, path.major)?))),
    })
}

fn gateway(shared: &Shared, state: &State, path: &Path) -> Value {
    let url = state.foreign_gateway.clone().unwrap_or_else(|| shared.gateway_url());
    if path.rest.is_empty() {
        return json!({"url": url});
    }
    let limit = json!({
        "total": 1_000, "remaining": state.identify_budget, "reset_after": 14_400_000,
        "max_concurrency": shared.builder.max_concurrency,
    });
    json!({"url": url, "shards": state.shards, "session_start_limit": limit})
}

pub(super) fn seen(state: &State, id: u64) -> Result<&Channel, Refusal> {
    let channel = state.world.channels.get(&id).ok_or_else(Refusal::unknown_channel)?;
    if channel.access == Access::Hidden { Err(Refusal::missing_access()) } else { Ok(channel) }
}

fn guild(state: &State, path: &Path) -> Outcome {
    let world = &state.world;
    if path.rest == "all" {
        let list = world.guilds.iter().map(|(id, name)| {
            json!({"id": id.to_string(), "name": name, "icon": null, "banner": null, "owner": false,
                "permissions": "2248473465835073", "features": []})
        });
        return Ok((200, list.collect()));
    }
    let name = world.guilds.get(&path.major).ok_or_else(Refusal::unknown_guild)?;
    if path.rest == "whole" {
        return Ok((200, shapes::guild(world, path.major, name)));
    }
    if path.rest == "member" {
        let known = world.users.contains_key(&path.minor);
        return if known {
            Ok((200, shapes::member_of(world, path.minor)))
        } else {
            Err(Refusal::unknown_user())
        };
    }
    let threads = path.rest == "threads";
    let inside =
        world.channels.values().filter(|one| one.guild == Some(path.major) && one.access != Access::Hidden);
    let list: Vec<Value> = inside
        .filter(|one| (one.kind == kind::THREAD) == threads)
        .map(|one| shapes::channel(world, one))
        .collect();
    Ok((200, if threads { json!({"threads": list, "members": [], "has_more": false}) } else { list.into() }))
}

/// A file of a message, which needs no token, and must not get one.
pub(super) fn file(shared: &Shared, call: &Call, path: &Path) -> Answered {
    if !call.header("authorization").is_empty() {
        shared.violation(Rule::Leak, "the token was sent to the host of files".to_owned());
    }
    shared.update(|state| {
        let files = state.world.channels.get(&path.major).map(|channel| channel.messages.values());
        let found = files.and_then(|mut messages| {
            messages.find_map(|message| message.files.iter().find(|file| file.id == path.minor).cloned())
        });
        let Some(file) = found.filter(|file| file.name == path.rest) else {
            let mut gone = json_answer(404, &Value::Null);
            gone.content_type = "text/plain;charset=UTF-8".to_owned();
            gone.body = b"This content is no longer available.".to_vec();
            return gone;
        };
        *state.world.fetches.entry(file.id).or_default() += 1;
        let zeros = (file.bytes.is_empty() && file.size > 0).then_some(file.size);
        Answered {
            status: 200,
            content_type: file.content_type,
            headers: Vec::new(),
            body: file.bytes,
            zeros,
        }
    })
}
