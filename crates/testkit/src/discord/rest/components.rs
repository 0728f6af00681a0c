//! Buttons under messages, and presses of them.

use serde_json::{Value, json};

use super::refusal::Refusal;
use crate::discord::{FakeDiscord, Rule, State, shapes};

/// Most rows of a message, and most buttons of a row.
const ROWS_MAX: usize = 5;
const ROW_MAX: usize = 5;

/// Most characters that a button carries, and that it says.
const ID_MAX: usize = 100;
const LABEL_MAX: usize = 80;

/// The components of a request, checked; none where it says nothing of them.
pub(super) fn read(state: &mut State, body: &Value) -> Result<Option<Vec<Value>>, Refusal> {
    let Some(components) = body.get("components").filter(|components| !components.is_null()) else {
        return Ok(None);
    };
    let rows = components.as_array().map_or(&[][..], Vec::as_slice);
    let fault = if components.is_array() { check(rows) } else { Err(("BASE_TYPE_BAD_TYPE", "no list")) };
    match fault {
        Ok(()) => Ok(Some(rows.to_vec())),
        Err((code, fault)) => {
            state.violation(Rule::Components, format!("{fault}: {components}"));
            Err(Refusal::form("components", code, fault))
        }
    }
}

fn check(rows: &[Value]) -> Result<(), (&'static str, &'static str)> {
    let bad_length = |fault| Err(("BASE_TYPE_BAD_LENGTH", fault));
    if rows.len() > ROWS_MAX {
        return bad_length("more than 5 rows");
    }
    let mut ids: Vec<&str> = Vec::new();
    for row in rows {
        let buttons = row["components"].as_array().filter(|_| row["type"] == 1);
        let buttons = buttons.ok_or(("UNION_TYPE_CHOICES", "not a row"))?;
        if !(1..=ROW_MAX).contains(&buttons.len()) {
            return bad_length("a row without buttons, or with more than 5");
        }
        for button in buttons {
            if button["type"] != 2 || !matches!(button["style"].as_u64(), Some(1..=4)) {
                return Err(("UNION_TYPE_CHOICES", "not a button that tells the bot"));
            }
            let label = button["label"].as_str().unwrap_or_default().chars().count();
            let id = button["custom_id"].as_str().unwrap_or_default();
            if !(1..=LABEL_MAX).contains(&label) {
                return bad_length("a button says nothing, or too much");
            }
            if !(1..=ID_MAX).contains(&id.chars().count()) {
                return bad_length("a button carries nothing, or too much");
            }
            if ids.contains(&id) {
                return Err(("COMPONENT_CUSTOM_ID_DUPLICATED", "two buttons carry the same"));
            }
            ids.push(id);
        }
    }
    Ok(())
}

pub(crate) fn buttons(rows: &[Value]) -> Vec<(String, String)> {
    let buttons = rows.iter().filter_map(|row| row["components"].as_array()).flatten();
    let field = |button: &Value, name: &str| button[name].as_str().unwrap_or_default().to_owned();
    buttons.map(|button| (field(button, "label"), field(button, "custom_id"))).collect()
}

impl FakeDiscord {
    /// Somebody presses a button, which is called by its words. The interaction's id.
    pub fn press(&self, channel: u64, message: u64, label: &str, user: &str) -> u64 {
        let seen = self.seen(channel, message);
        let rows = seen["components"].as_array().map_or(&[][..], Vec::as_slice);
        let button = buttons(rows).into_iter().find(|(words, _)| words == label);
        let (_, id) = button.unwrap_or_else(|| panic!("message {message} has no button `{label}`"));
        self.press_as_seen(channel, &seen, &id, user)
    }

    /// Somebody presses a button under a message as their client still shows it: the server may know better by now.
    pub fn press_as_seen(&self, channel: u64, message: &Value, custom_id: &str, user: &str) -> u64 {
        self.shared.update(|state| {
            let by = state.world.user(user);
            let id = state.world.next_id();
            let token = format!("aW50ZXJhY3Rpb246{id}");
            let pressed = json!({"component_type": 2, "custom_id": custom_id, "id": 2});
            let mut data = shapes::interaction(&state.world, 3, (id, &token), by, channel, pressed);
            data["message"] = message.clone();
            let question = message["id"].as_str().and_then(|id| id.parse().ok());
            state.call(id, token, channel, question, data);
            id
        })
    }

    /// A message as clients show it now.
    pub fn seen(&self, channel: u64, message: u64) -> Value {
        let origin = self.shared.origin();
        let state = self.shared.state.lock();
        let found = state.world.message(channel, message);
        let found = found.unwrap_or_else(|| panic!("there is no message {message} in {channel}"));
        shapes::message(&state.world, &origin, found, 1)
    }

    /// The gateway tells of an interaction once more.
    pub fn repeat_interaction(&self, interaction: u64) {
        self.shared.update(|state| {
            let found = state.interactions.get(&interaction);
            let data = found.unwrap_or_else(|| panic!("no interaction {interaction}")).data.clone();
            state.dispatch("INTERACTION_CREATE", 0, data);
        });
    }

    /// Waits until an interaction has its first answer, of any kind.
    pub async fn wait_answered(&self, interaction: u64) -> crate::discord::Answer {
        let what = format!("an answer of any kind to interaction {interaction}");
        self.wait_until(&what, |discord| discord.answer(interaction).kind.is_some()).await;
        self.answer(interaction)
    }
}
