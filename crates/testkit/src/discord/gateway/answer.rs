//! What the gateway does with a payload of its client.

use std::time::Instant;

use serde_json::{Value, json};

use super::session::{End, Shard, intent};
use crate::discord::{BOT_ID, Rule, Shared, State, shapes};

/// Takes a payload: its answers go into the connection's outbox.
pub(super) fn take(shared: &Shared, id: u64, payload: &Value) {
    let data = &payload["d"];
    shared.update(|state| {
        let verdict = match payload["op"].as_u64() {
            Some(1) => heartbeat(state, id, data),
            Some(2) => identify(shared, state, id, data),
            Some(3 | 4 | 8 | 31) => known(state, id),
            Some(6) => resume(shared, state, id, data),
            Some(_) => Err((4001, "an unknown opcode".to_owned())),
            None => Err((4002, "a payload that is too large, or no JSON with `op`".to_owned())),
        };
        if let Err((code, text)) = verdict {
            // What an operator must mend is no fault of the bot's.
            if !matches!(code, 4004 | 4011 | 4014) {
                state.violation(Rule::Gateway, format!("{text} (closed with {code})"));
            }
            end(state, id, End::Close(code));
        }
    });
}

/// The client has closed the connection.
pub(super) fn left(shared: &Shared, id: u64, code: Option<u16>) {
    // These two end the session, too.
    if matches!(code, Some(1000 | 1001)) {
        shared.update(|state| {
            if let Some(session) = state.gateway.connections.get(&id).and_then(|one| one.session.clone()) {
                state.gateway.sessions.remove(&session);
            }
        });
    }
}

type Verdict = Result<(), (u16, String)>;

pub(super) fn end(state: &mut State, id: u64, end: End) {
    if let Some(connection) = state.gateway.connections.get_mut(&id) {
        connection.end = Some(end);
    }
}

fn session_of(state: &State, id: u64) -> Option<&str> {
    state.gateway.connections.get(&id)?.session.as_deref()
}

fn known(state: &State, id: u64) -> Verdict {
    session_of(state, id).map(|_| ()).ok_or((4003, "a payload before identify".to_owned()))
}

fn heartbeat(state: &mut State, id: u64, data: &Value) -> Verdict {
    let seq = session_of(state, id).and_then(|session| state.gateway.sessions.get(session));
    if let (Some(session), Some(seen)) = (seq, data.as_u64())
        && seen > session.seq
    {
        return Err((4007, format!("a heartbeat with {seen}, which was never dispatched")));
    }
    state.gateway.heartbeats += 1;
    state.gateway.tell(id, &json!({"op": 11, "d": null, "t": null, "s": null}));
    Ok(())
}

fn authentic(shared: &Shared, data: &Value) -> bool {
    let token = data["token"].as_str().unwrap_or_default();
    token.strip_prefix("Bot ").unwrap_or(token) == shared.builder.token
}

fn identify(shared: &Shared, state: &mut State, id: u64, data: &Value) -> Verdict {
    if session_of(state, id).is_some() {
        return Err((4005, "identified twice on one connection".to_owned()));
    }
    if !authentic(shared, data) || state.revoked {
        return Err((4004, "a wrong token".to_owned()));
    }
    if !data["properties"].is_object() {
        return Err((4002, "an identify without `properties`".to_owned()));
    }
    let intents = data["intents"].as_u64().filter(|intents| intents & !intent::ALL == 0);
    let intents = intents.ok_or((4013, format!("unknown intents: {}", data["intents"])))?;
    let privileged = intent::GUILD_MEMBERS | intent::GUILD_PRESENCES | intent::MESSAGE_CONTENT;
    let allowed = if state.content_allowed { intent::MESSAGE_CONTENT } else { 0 };
    if intents & privileged & !allowed != 0 {
        return Err((4014, "a privileged intent that is not granted".to_owned()));
    }
    let shard = shard_in(data).ok_or((4010, format!("shard {}", data["shard"])))?;
    if shard.of < u64::from(state.shards_min) {
        return Err((4011, format!("{} shards", shard.of)));
    }
    let now = Instant::now();
    let bucket = |shard: Shard| shard.id % u64::from(shared.builder.max_concurrency);
    let same = state.gateway.identified.iter().rev().find(|(other, _)| bucket(*other) == bucket(shard));
    if let Some((_, last)) = same.filter(|(_, last)| now < *last + shared.builder.identify_every) {
        let text = format!("{shard:?} identified {:?} after the last one of its bucket", now - *last);
        state.violation(Rule::Identify, text);
        state.gateway.tell(id, &json!({"op": 9, "d": false, "t": null, "s": null}));
        return Ok(());
    }
    let Some(left) = state.identify_budget.checked_sub(1) else {
        state.violation(Rule::Identify, "identified without budget".to_owned());
        return Err((4004, "identified without budget".to_owned()));
    };
    state.identify_budget = left;
    state.gateway.identified.push((shard, now));
    begin(shared, state, id, shard, intents);
    Ok(())
}

/// The shard that identifies; without one it is the only one.
fn shard_in(data: &Value) -> Option<Shard> {
    let Some(named) = data.get("shard") else { return Some(Shard { id: 0, of: 1 }) };
    let (id, of) = serde_json::from_value(named.clone()).ok()?;
    (id < of).then_some(Shard { id, of })
}

fn begin(shared: &Shared, state: &mut State, id: u64, shard: Shard, intents: u64) {
    let world = &state.world;
    let heard = world.guilds.iter().filter(|(id, _)| shard.hears(Some(**id)));
    let guilds: Vec<Value> = heard.map(|(id, name)| shapes::guild(world, *id, name)).collect();
    let away: Vec<Value> = guilds.iter().map(|one| json!({"id": one["id"], "unavailable": true})).collect();
    let me = shapes::me(world);
    let resume_url = state.foreign_gateway.clone().unwrap_or_else(|| shared.gateway_url());
    let flags = state.application_flags();
    let (session_id, session) = state.gateway.begin(id, shard, intents);
    let ready = json!({
        "v": 10, "user": me, "guilds": away, "session_id": session_id, "resume_gateway_url": resume_url,
        "shard": [shard.id, shard.of], "application": {"id": BOT_ID.to_string(), "flags": flags}, "session_type": "normal",
        "private_channels": [], "relationships": [], "presences": [], "user_settings": {}, "user_settings_proto": "",
        "guild_join_requests": [], "auth": {}, "geo_ordered_rtc_regions": [], "game_relationships": [],
        "_trace": ["[\"gateway-prd\",{\"micros\":1}]"],
    });
    session.push("READY", ready);
    if intents & intent::GUILDS != 0 {
        guilds.into_iter().for_each(|guild| session.push("GUILD_CREATE", guild));
    }
}

fn resume(shared: &Shared, state: &mut State, id: u64, data: &Value) -> Verdict {
    if session_of(state, id).is_some() {
        return Err((4005, "resumed on a connection with a session".to_owned()));
    }
    if !authentic(shared, data) || state.revoked {
        return Err((4004, "a wrong token".to_owned()));
    }
    let name = data["session_id"].as_str().unwrap_or_default().to_owned();
    let seq = data["seq"].as_u64();
    let gateway = &mut state.gateway;
    let Some(session) = gateway.sessions.get_mut(&name) else {
        gateway.tell(id, &json!({"op": 9, "d": false, "t": null, "s": null}));
        return Ok(());
    };
    let Some(seq) = seq.filter(|seq| *seq <= session.seq) else {
        return Err((4007, format!("resumed from {}, which was never dispatched", data["seq"])));
    };
    session.push("RESUMED", json!({"_trace": ["[\"gateway-prd\",{\"micros\":1}]"]}));
    for other in gateway.connections.values_mut().filter(|one| one.session.as_deref() == Some(&name)) {
        other.session = None;
        other.end = Some(End::Close(4000));
    }
    if let Some(connection) = gateway.connections.get_mut(&id) {
        connection.session = Some(name);
        connection.upto = seq;
    }
    gateway.resumed += 1;
    Ok(())
}
