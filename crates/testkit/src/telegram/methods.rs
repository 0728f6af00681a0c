//! The methods by name, and the small ones.

use serde_json::{Value, json};

use super::buttons::{answer_callback_query, edit_message_reply_markup};
use super::hook;
use super::rules::{Rule, Violation};
use super::send::{edit_message_text, known, send_chat_action, send_message, writable};
use super::upload::{send_file, send_media_group};
use super::wire::{Params, Refusal};
use super::world::{Ban, State};

/// Largest file that a bot can have.
const FILE_MAX_BYTES: u64 = 20 << 20;

/// A request under way, with the state locked.
pub(super) struct Ctx<'a> {
    pub(super) state: &'a mut State,
    pub(super) n: usize,
    pub(super) method: &'a str,
    /// Seconds since 1970.
    pub(super) now: i64,
    pub(super) limit_rates: bool,
    pub(super) reads_all: bool,
}

impl Ctx<'_> {
    pub(super) fn violate(&mut self, rule: Rule, text: impl Into<String>) {
        let violation = Violation { n: self.n, method: self.method.to_owned(), rule, text: text.into() };
        self.state.violations.push(violation);
    }
}

/// Does what a request asks for; `getUpdates` is elsewhere.
pub(super) fn call(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    match ctx.method.to_lowercase().as_str() {
        "getme" => Ok(get_me(ctx)),
        "sendmessage" => send_message(ctx, params),
        "editmessagetext" => edit_message_text(ctx, params),
        "sendphoto" => send_file(ctx, "photo", params),
        "senddocument" => send_file(ctx, "document", params),
        "sendaudio" => send_file(ctx, "audio", params),
        "sendvoice" => send_file(ctx, "voice", params),
        "sendmediagroup" => send_media_group(ctx, params),
        "sendchataction" => send_chat_action(ctx, params),
        "setmycommands" => set_my_commands(ctx, params),
        "getmycommands" => Ok(get_my_commands(ctx, params)),
        "deletemycommands" => {
            let scope = scope(params);
            ctx.state.commands.remove(&scope);
            Ok(true.into())
        }
        "getfile" => get_file(ctx, params),
        "getchat" => get_chat(ctx, params),
        "getchatmember" => get_chat_member(ctx, params),
        "setwebhook" => hook::set(ctx, params),
        "deletewebhook" => Ok(hook::delete(ctx, params)),
        "getwebhookinfo" => Ok(hook::info(ctx)),
        "editmessagereplymarkup" => edit_message_reply_markup(ctx, params),
        "setmessagereaction" => set_message_reaction(ctx, params),
        "answercallbackquery" => answer_callback_query(ctx, params),
        _ => {
            ctx.violate(Rule::Shape, "there is no such method");
            Err(Refusal::new(404, "Not Found"))
        }
    }
}

/// The emoji that a bot may react with: <https://core.telegram.org/bots/api#reactiontypeemoji>.
const REACTIONS: &str = "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u{200d}🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 \
                         😈 😴 😭 🤓 👻 👨\u{200d}💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷\u{200d}♂ 🤷 🤷\u{200d}♀ 😡";

/// Sets the bot's reaction to a message: one at most, as bots are no premium users, and none to take it away
/// (<https://core.telegram.org/bots/api#setmessagereaction>).
fn set_message_reaction(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let chat = writable(ctx, params)?;
    let message = params.integer("message_id").unwrap_or_default();
    let list = match params.json("reaction") {
        None => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(_) => {
            ctx.violate(Rule::Reaction, "reaction is no list");
            return Err(Refusal::bad("can't parse reaction types JSON object"));
        }
    };
    let emoji = |kind: &Value| {
        let known = |emoji: &&str| REACTIONS.split_whitespace().any(|known| known == *emoji);
        kind["emoji"].as_str().filter(|_| kind["type"] == "emoji").filter(known).map(str::to_owned)
    };
    let known: Vec<String> = list.iter().filter_map(emoji).collect();
    if known.len() != list.len() || known.len() > 1 {
        ctx.violate(Rule::Reaction, format!("{list:?}"));
        return Err(Refusal::bad("REACTION_INVALID"));
    }
    if !ctx.state.chat(chat).messages.contains_key(&message) {
        return Err(Refusal::bad("message to react not found"));
    }
    if ctx.state.no_reactions.contains(&chat) {
        return Err(Refusal::bad("REACTION_INVALID"));
    }
    ctx.state.reactions.entry((chat, message)).or_default().extend(Some(known.concat()));
    Ok(true.into())
}

fn get_me(ctx: &Ctx<'_>) -> Value {
    let mut me = ctx.state.bot.json();
    me["can_join_groups"] = true.into();
    me["can_read_all_group_messages"] = ctx.reads_all.into();
    me["supports_inline_queries"] = false.into();
    me["can_connect_to_business"] = false.into();
    me["has_main_web_app"] = false.into();
    me
}

fn scope(params: &Params) -> String {
    let scope = params.json("scope").unwrap_or_else(|| json!({ "type": "default" }));
    let language = params.text("language_code").unwrap_or_default();
    let kind = scope["type"].as_str().unwrap_or_default().to_owned();
    let chat = scope.get("chat_id").map(|chat| format!(":{chat}")).unwrap_or_default();
    let language = if language.is_empty() { language } else { format!("@{language}") };
    format!("{kind}{chat}{language}")
}

fn set_my_commands(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let Some(Value::Array(list)) = params.json("commands") else {
        ctx.violate(Rule::Shape, "commands are no list");
        return Err(Refusal::bad("can't parse commands"));
    };
    let mut commands = Vec::new();
    for item in &list {
        let field = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, description) = (field("command"), field("description"));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !(1..=32).contains(&name.len()) || !name.chars().all(plain) {
            ctx.violate(Rule::Commands, format!("the name `{name}`"));
            return Err(Refusal::bad("BOT_COMMAND_INVALID"));
        }
        if !(1..=256).contains(&description.chars().count()) {
            ctx.violate(Rule::Commands, format!("the description of `{name}`"));
            return Err(Refusal::bad("BOT_COMMAND_DESCRIPTION_INVALID"));
        }
        commands.push((name, description));
    }
    if commands.len() > 100 {
        ctx.violate(Rule::Commands, format!("{} commands", commands.len()));
        return Err(Refusal::bad("BOT_COMMANDS_TOO_MUCH"));
    }
    let scope = scope(params);
    ctx.state.commands.insert(scope, commands);
    Ok(true.into())
}

fn get_my_commands(ctx: &Ctx<'_>, params: &Params) -> Value {
    let commands = ctx.state.commands.get(&scope(params)).cloned().unwrap_or_default();
    let item =
        |(name, description): &(String, String)| json!({ "command": name, "description": description });
    commands.iter().map(item).collect()
}

fn get_file(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let id = params.text("file_id").unwrap_or_default();
    let Some(file) = ctx.state.files.get(&id) else {
        return Err(Refusal::bad("wrong file_id or the file is temporarily unavailable"));
    };
    if file.size > FILE_MAX_BYTES {
        return Err(Refusal::bad("file is too big"));
    }
    Ok(json!({
        "file_id": id, "file_unique_id": unique(&id), "file_size": file.size, "file_path": file.path,
    }))
}

/// The id of a file that is the same for all bots.
pub(super) fn unique(file_id: &str) -> String {
    format!("u{}", &file_id[file_id.len().saturating_sub(10)..])
}

fn get_chat(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let id = known(ctx, params)?;
    let mut json = ctx.state.chat(id).json();
    json["accent_color_id"] = 0.into();
    json["max_reaction_count"] = 11.into();
    json["accepted_gift_types"] = json!({
        "unlimited_gifts": true, "limited_gifts": true, "unique_gifts": true, "premium_subscription": true,
        "gifts_from_channels": true,
    });
    Ok(json)
}

/// The bot in a chat; of others nothing is told.
fn get_chat_member(ctx: &mut Ctx<'_>, params: &Params) -> Result<Value, Refusal> {
    let id = known(ctx, params)?;
    let bot = ctx.state.bot.json();
    if params.integer("user_id") != bot["id"].as_i64() {
        return Err(Refusal::bad("user not found"));
    }
    Ok(match ctx.state.chat(id).ban {
        None => json!({ "user": bot, "status": "member" }),
        Some(Ban::Muted) => {
            json!({ "user": bot, "status": "restricted", "can_send_messages": false, "until_date": 0 })
        }
        Some(Ban::Kicked | Ban::Blocked) => json!({ "user": bot, "status": "kicked", "until_date": 0 }),
    })
}
