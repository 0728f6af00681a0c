//! What the bot may say: words, mentions, links, nonces.

use serde_json::Value;

use super::components;
use super::refusal::Refusal;
use crate::discord::{Rule, State};

/// Most characters of a message.
const MAX_CHARS: usize = 2_000;

/// Most characters of a nonce.
const MAX_NONCE_CHARS: usize = 25;

/// The flag for a message whose links have no preview.
const SUPPRESS_EMBEDS: u64 = 1 << 2;

/// The flag for a message that only one person sees.
pub(super) const EPHEMERAL: u64 = 1 << 6;

/// The words of a message, checked.
pub(super) struct Words {
    pub(super) content: String,
    pub(super) flags: u64,
    pub(super) embeds: Vec<Value>,
    /// None where the request says nothing of them.
    pub(super) components: Option<Vec<Value>>,
    pub(super) allowed_mentions: Value,
    pub(super) pinged: Vec<String>,
}

/// What a message was that is changed.
pub(super) struct Old {
    pub(super) content: String,
    pub(super) flags: u64,
}

/// Reads the words of a message, new or changed: of one that is changed what is not said stays.
pub(super) fn words(
    state: &mut State,
    body: &Value,
    files: &[String],
    old: Option<Old>,
) -> Result<Words, Refusal> {
    let kept = old.as_ref().filter(|_| body.get("content").is_none()).map(|old| old.content.clone());
    let content = kept.unwrap_or_else(|| body["content"].as_str().unwrap_or_default().trim().to_owned());
    if !body["content"].is_null() && !body["content"].is_string() {
        state.violation(Rule::Shape, "`content` is no text".to_owned());
        return Err(Refusal::form("content", "BASE_TYPE_BAD_TYPE", "Could not interpret value as string."));
    }
    let embeds = body["embeds"].as_array().cloned().unwrap_or_default();
    let chars = content.chars().count();
    if chars > MAX_CHARS {
        state.violation(Rule::Length, format!("a message of {chars} characters"));
        return Err(Refusal::form("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length."));
    }
    if content.is_empty() && embeds.is_empty() && files.is_empty() {
        state.violation(Rule::Length, "an empty message".to_owned());
        return Err(Refusal::empty());
    }
    let allowed_mentions = body["allowed_mentions"].clone();
    let none = allowed_mentions["parse"].as_array().is_some_and(Vec::is_empty);
    let named = ["users", "roles"]
        .iter()
        .any(|key| allowed_mentions[*key].as_array().is_some_and(|ids| !ids.is_empty()));
    if !none || named {
        let text = format!("a message whose `allowed_mentions` is {allowed_mentions}");
        state.violation(Rule::Mentions, text);
    }
    let flags = body["flags"].as_u64().or(old.map(|old| old.flags)).unwrap_or_default();
    if flags & SUPPRESS_EMBEDS == 0 && has_preview(&content) {
        state.violation(Rule::Preview, "a message with a link that would have a preview".to_owned());
    }
    let components = components::read(state, body)?;
    let pinged = pinged(&content, &allowed_mentions);
    Ok(Words { content, flags, embeds, components, allowed_mentions, pinged })
}

/// Whether a link stands there without angle brackets around it.
fn has_preview(content: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| content.match_indices(scheme).any(|(at, _)| !content[..at].ends_with('<')))
}

/// Whom these words would call: user ids, `&ROLE`, `everyone`.
fn pinged(content: &str, allowed: &Value) -> Vec<String> {
    let parsed = |what: &str| {
        allowed.is_null()
            || allowed["parse"].as_array().is_some_and(|parse| parse.iter().any(|one| one == what))
    };
    let mut out = Vec::new();
    if parsed("everyone") && (content.contains("@everyone") || content.contains("@here")) {
        out.push("everyone".to_owned());
    }
    for piece in content.split("<@").skip(1) {
        let Some((id, _)) = piece.split_once('>') else { continue };
        let (what, list) = if id.starts_with('&') { ("roles", "roles") } else { ("users", "users") };
        let bare = id.trim_start_matches(['&', '!']);
        let named = allowed[list].as_array().is_some_and(|ids| ids.iter().any(|one| one == bare));
        if bare.parse::<u64>().is_ok() && (parsed(what) || named) {
            out.push(id.trim_start_matches('!').to_owned());
        }
    }
    out
}

/// The nonce of a message, as text.
pub(super) fn nonce(state: &mut State, body: &Value) -> Result<Option<String>, Refusal> {
    let nonce = match &body["nonce"] {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    if nonce.is_empty() || nonce.chars().count() > MAX_NONCE_CHARS {
        state.violation(Rule::Nonce, format!("a nonce of {} characters", nonce.chars().count()));
        return Err(Refusal::form("nonce", "NONCE_TYPE_TOO_LONG", "Must be 25 or fewer in length."));
    }
    Ok(Some(nonce))
}
