//! The answers to slash commands and to presses of buttons.

use std::time::Duration;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::{Outcome, Path, content, messages};
use crate::discord::people::{Followup, Shown};
use crate::discord::serve::Call;
use crate::discord::state::Interaction;
use crate::discord::{BOT_ID, Rule, Shared, State, shapes};

/// How long an interaction can be followed up.
const TOKEN_LIFE: Duration = Duration::from_secs(15 * 60);

pub(super) fn callback(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    let (body, files) = super::read(shared, call)?;
    let origin = shared.origin();
    shared.update(|state| {
        let known = state.interactions.get(&path.major).filter(|one| one.token == path.rest);
        let Some(found) = known else { return Err(Refusal::unknown_interaction()) };
        if found.acknowledged {
            state.violation(Rule::Interaction, format!("interaction {} was answered twice", path.major));
            return Err(Refusal::acknowledged());
        }
        if found.at.elapsed() > shared.builder.answer_within {
            return Err(Refusal::unknown_interaction());
        }
        let (question, channel) = (found.question, found.channel);
        let (kind, data) = (body["type"].as_u64(), &body["data"]);
        let shown = match (kind, question) {
            (Some(4), _) => Some(words(state, data, &files)?),
            (Some(5), _) | (Some(6), Some(_)) => None,
            (Some(7), Some(question)) => {
                update(state, &origin, (channel, question), data, &files)?;
                None
            }
            _ => {
                state.violation(Rule::Interaction, format!("an answer of type {}", body["type"]));
                return Err(Refusal::form("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5, 6, 7}."));
            }
        };
        let flags = data["flags"].as_u64().unwrap_or_default();
        let ephemeral = flags & content::EPHEMERAL != 0;
        if let Some(found) = state.interactions.get_mut(&path.major) {
            found.acknowledged = true;
            found.answer.kind = kind;
            found.answer.deferred = matches!(kind, Some(5 | 6));
            found.answer.flags = flags;
            found.answer.ephemeral = ephemeral;
            found.answer.shown = shown;
        }
        if call.query.contains("with_response=true") {
            return Ok((200, json!({"interaction": {"id": path.major.to_string(), "type": 2}})));
        }
        Ok((204, Value::Null))
    })
}

/// Changes the message with the button.
fn update(
    state: &mut State,
    origin: &str,
    (channel, question): (u64, u64),
    data: &Value,
    files: &[String],
) -> Result<(), Refusal> {
    let message = state.world.message(channel, question).cloned().ok_or_else(Refusal::unknown_message)?;
    messages::change(state, origin, message, data, files).map(drop)
}

fn words(state: &mut State, data: &Value, files: &[String]) -> Result<Shown, Refusal> {
    let words = content::words(state, data, files, None)?;
    Ok(Shown {
        content: words.content,
        flags: words.flags,
        embeds: words.embeds,
        files: files.to_vec(),
        pinged: words.pinged,
    })
}

pub(super) fn webhook(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    let bodied = call.method != hyper::Method::GET && call.method != hyper::Method::DELETE;
    let (body, files) = if bodied { super::read(shared, call)? } else { (Value::Null, Vec::new()) };
    let origin = shared.origin();
    shared.update(|state| {
        let known = state.interactions.values().find(|one| one.token == path.rest);
        let Some(found) = known.filter(|one| path.major == BOT_ID && one.at.elapsed() < TOKEN_LIFE) else {
            return Err(Refusal::unknown_webhook());
        };
        let (id, acknowledged) = (found.id, found.acknowledged);
        // The original answer of a press that was answered by a change, now or later, is the message with the button.
        let changes = matches!(found.answer.kind, Some(6 | 7));
        let question = found.question.filter(|_| changes).map(|question| (found.channel, question));
        if !acknowledged {
            state.violation(
                Rule::Interaction,
                format!("interaction {id} was followed up before it was answered"),
            );
            return Err(Refusal::unknown_webhook());
        }
        match (call.method.as_str(), path.minor) {
            ("PATCH", _) if let Some(question) = question => {
                update(state, &origin, question, &body, &files)?;
            }
            ("PATCH", _) => {
                let shown = words(state, &body, &files)?;
                change(state, id, |one| one.answer.shown = Some(shown));
            }
            ("POST", _) => {
                let shown = words(state, &body, &files)?;
                let ephemeral = body["flags"].as_u64().unwrap_or_default() & content::EPHEMERAL != 0;
                change(state, id, |one| one.answer.followups.push(Followup { ephemeral, shown }));
            }
            ("DELETE", _) => {
                change(state, id, |one| one.answer.shown = None);
                return Ok((204, Value::Null));
            }
            _ => {}
        }
        Ok((200, message(state, id)))
    })
}

fn change(state: &mut State, id: u64, change: impl FnOnce(&mut Interaction)) {
    if let Some(found) = state.interactions.get_mut(&id) {
        change(found);
    }
}

/// The message that shows an answer.
fn message(state: &mut State, id: u64) -> Value {
    let new = state.world.next_id();
    let Some(found) = state.interactions.get(&id) else { return Value::Null };
    let last = found.answer.followups.last().map(|followup| &followup.shown).or(found.answer.shown.as_ref());
    let flags = if found.answer.ephemeral { content::EPHEMERAL } else { 0 };
    json!({
        "id": new.to_string(), "channel_id": found.channel.to_string(), "type": 20, "webhook_id": BOT_ID.to_string(),
        "application_id": BOT_ID.to_string(), "author": shapes::me(&state.world),
        "content": last.map(|shown| shown.content.as_str()), "flags": flags | last.map_or(0, |shown| shown.flags),
        "timestamp": shapes::stamp(crate::discord::world::time_of(new)), "edited_timestamp": null, "tts": false,
        "mention_everyone": false, "mentions": [], "mention_roles": [], "attachments": [], "embeds": [],
        "components": [], "pinned": false,
    })
}
