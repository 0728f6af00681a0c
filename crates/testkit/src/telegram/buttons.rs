//! Buttons under messages: keyboards, presses by people, and what they are told.

use serde_json::{Value, json};

use super::FakeTelegram;
use super::methods::Ctx;
use super::rules::Rule;
use super::send::{edit, editable};
use super::wire::{Params, Refusal};
use super::world::{Person, Stored};

/// Most bytes that a button carries.
const DATA_MAX_BYTES: usize = 64;

const BUTTONS_MAX: usize = 100;

/// Longest text that is told to a presser, in characters.
const TOLD_MAX_CHARS: usize = 200;

/// What somebody was told after a press.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The words; empty: none.
    pub text: String,
    /// In a window that they have to close.
    pub alert: bool,
}

/// The inline keyboard of a request, checked; none where it has no buttons.
pub(super) fn keyboard(ctx: &mut Ctx<'_>, params: &Params) -> Result<Option<Value>, Refusal> {
    let Some(markup) = params.json("reply_markup") else { return Ok(None) };
    match check(&markup) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(markup)),
        Err((description, fault)) => {
            ctx.violate(Rule::Keyboard, format!("{fault}: {markup}"));
            Err(Refusal::bad(description))
        }
    }
}

/// How many buttons a keyboard has, or what Telegram says of it and why.
fn check(markup: &Value) -> Result<usize, (&'static str, &'static str)> {
    let unread = "can't parse inline keyboard button";
    let rows = markup.get("inline_keyboard").and_then(Value::as_array);
    let rows = rows.ok_or(("object expected as reply markup", "no inline keyboard"))?;
    let mut count = 0;
    for row in rows {
        let row = row.as_array().ok_or((unread, "a row is no list"))?;
        for button in row {
            let text = button.get("text").and_then(Value::as_str).unwrap_or_default();
            if text.trim().is_empty() {
                return Err((unread, "a button says nothing"));
            }
            let data = button.get("callback_data").and_then(Value::as_str);
            let data = data
                .ok_or(("Text buttons are unallowed in the inline keyboard", "a button carries nothing"))?;
            if !(1..=DATA_MAX_BYTES).contains(&data.len()) {
                return Err(("BUTTON_DATA_INVALID", "a button carries too much, or nothing"));
            }
            if button.as_object().is_none_or(|fields| fields.len() != 2) {
                return Err((unread, "a button does more than one thing"));
            }
            count += 1;
        }
    }
    if count > BUTTONS_MAX {
        return Err(("REPLY_MARKUP_TOO_LONG", "too many buttons"));
    }
    Ok(count)
}

/// Gives a message this keyboard, or none.
pub(super) fn put(json: &mut Value, keyboard: Option<Value>) {
    match (keyboard, json.as_object_mut()) {
        (Some(keyboard), _) => json["reply_markup"] = keyboard,
        (None, Some(fields)) => drop(fields.remove("reply_markup")),
        (None, None) => {}
    }
}

pub(super) fn edit_message_reply_markup(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let (chat, id) = editable(ctx, params)?;
    let keyboard = keyboard(ctx, params)?;
    edit(ctx, chat, id, |json| put(json, keyboard))
}

pub(super) fn answer_callback_query(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let id = params.text("callback_query_id").unwrap_or_default();
    let text = params.text("text").unwrap_or_default();
    let chars = text.chars().count();
    if chars > TOLD_MAX_CHARS {
        ctx.violate(Rule::Callback, format!("{chars} characters"));
        return Err(Refusal::bad("MESSAGE_TOO_LONG"));
    }
    let gone = "query is too old and response timeout expired or query ID is invalid";
    let Some(told) = ctx.state.presses.get_mut(&id) else {
        ctx.violate(Rule::Callback, format!("there was no press `{id}`"));
        return Err(Refusal::bad(gone));
    };
    if told.is_some() {
        return Err(Refusal::bad(gone));
    }
    let alert = params.get("show_alert").and_then(Value::as_bool).unwrap_or(false);
    *told = Some(Told { text, alert });
    Ok(true.into())
}

impl Stored {
    /// The buttons under it: what they say and what they carry.
    pub(super) fn buttons(&self) -> Vec<(String, String)> {
        let rows = self.json.pointer("/reply_markup/inline_keyboard").and_then(Value::as_array);
        let buttons = rows.into_iter().flatten().filter_map(Value::as_array).flatten();
        let field = |button: &Value, name: &str| button[name].as_str().unwrap_or_default().to_owned();
        buttons.map(|button| (field(button, "text"), field(button, "callback_data"))).collect()
    }
}

impl FakeTelegram {
    /// Somebody presses a button, which is called by its words. The id of the press; the bot is told of it if it asks
    /// for such updates.
    pub fn press(&self, chat: i64, message: i64, label: &str, by: &Person) -> String {
        let found =
            self.shared.state.lock().chats.get(&chat).and_then(|chat| chat.messages.get(&message).cloned());
        let stored = found.unwrap_or_else(|| panic!("no message {message} in chat {chat}"));
        let button = stored.buttons().into_iter().find(|(text, _)| text == label);
        let (_, data) = button.unwrap_or_else(|| panic!("message {message} has no button `{label}`"));
        self.press_as_seen(&stored.json, &data, by)
    }

    /// Somebody presses a button under a message as their client still shows it: the server may know better by now.
    pub fn press_as_seen(&self, message: &Value, data: &str, by: &Person) -> String {
        self.shared.update(|state| {
            let id = format!("{}", 4_382_000_000_000_000_001_u64 + state.presses.len() as u64);
            let json = json!({
                "id": id, "from": by.json(), "message": message, "chat_instance": "-3141592653589793238",
                "data": data,
            });
            state.presses.insert(id.clone(), None);
            state.push_update("callback_query", json);
            id
        })
    }

    /// A message as clients show it now.
    pub fn seen(&self, chat: i64, message: i64) -> Value {
        let state = self.shared.state.lock();
        let stored = state.chats.get(&chat).and_then(|chat| chat.messages.get(&message));
        stored.unwrap_or_else(|| panic!("no message {message} in chat {chat}")).json.clone()
    }

    /// What somebody was told after a press; none: nothing yet.
    pub fn told(&self, press: &str) -> Option<Told> {
        self.shared.state.lock().presses.get(press)?.clone()
    }

    /// Waits until somebody is told something after a press.
    pub async fn wait_told(&self, press: &str) -> Told {
        let what = format!("an answer to press {press}");
        self.wait_until(&what, |fake| fake.told(press).is_some()).await;
        self.told(press).unwrap_or_else(|| panic!("{what} was there"))
    }
}
