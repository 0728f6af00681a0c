//! Compares two configurations key by key.

use cairn_api::records::KeyChange;
use std::collections::{BTreeMap, BTreeSet};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use cairn_config::{Loaded, NetworkKind};

/// Shown for a secret, and for values that differ only in a secret.
const HIDDEN: &str = "(hidden)";

/// The value of a key.
#[derive(PartialEq)]
struct Held {
    /// For comparison only: it may contain secrets.
    real: Value,
    shown: Value,
}

type Keys = BTreeMap<String, Held>;

/// All differences, sorted by key. A change in `[defaults]` is left out where it appears at an agent.
pub fn changes(old: &Loaded, new: &Loaded) -> Vec<KeyChange> {
    let (mut old_keys, mut new_keys) = (keys_of(old), keys_of(new));
    join_lone(&mut old_keys, &new_keys);
    join_lone(&mut new_keys, &old_keys);
    let all: BTreeSet<&String> = old_keys.keys().chain(new_keys.keys()).collect();
    let differs = |key: &&String| old_keys.get(*key) != new_keys.get(*key);
    let shown = |keys: &Keys, key: &str| keys.get(key).map_or(Value::Null, |held| held.shown.clone());
    let change = |key: &String| {
        let (from, to) = (shown(&old_keys, key), shown(&new_keys, key));
        let (from, to) = if from == to { (json!(HIDDEN), json!(HIDDEN)) } else { (from, to) };
        KeyChange { key: key.clone(), from, to }
    };
    let differing: Vec<&String> = all.into_iter().filter(differs).collect();
    let at_agents: BTreeSet<&str> =
        differing.iter().filter(|key| key.starts_with("agents[")).filter_map(|key| below(key)).collect();
    let shows = |key: &str| key.strip_prefix("defaults.").is_some_and(|rest| at_agents.contains(rest));
    let mut out: Vec<_> = differing.into_iter().filter(|key| !shows(key)).map(change).collect();
    out.extend(hidden(old, new));
    out
}

/// An agent's key without the agent: `agents[main].max_rounds` → `max_rounds`.
fn below(key: &str) -> Option<&str> {
    key.split_once("].").map(|(_, rest)| rest)
}

/// Joins the keys of an agent, model, server or network that exists on one side only into one change.
fn join_lone(keys: &mut Keys, others: &Keys) {
    let owner = |key: &str| match key.split_once("].") {
        Some((owner, _)) => Some(format!("{owner}]")),
        None => key.split_once('.').map(|(table, _)| table.to_owned()),
    };
    let there: BTreeSet<String> = others.keys().filter_map(|key| owner(key)).collect();
    let lone = |key: &str| owner(key).filter(|owner| !there.contains(owner));
    let joined: BTreeSet<String> = keys.keys().filter_map(|key| lone(key)).collect();
    keys.retain(|key, _| lone(key).is_none());
    keys.extend(joined.into_iter().map(|owner| (owner, open("(configured)"))));
}

/// A value that contains no secret.
fn open(text: &str) -> Held {
    Held { real: json!(text), shown: json!(text) }
}

fn keys_of(loaded: &Loaded) -> Keys {
    let mut out = Keys::new();
    let real = serde_json::to_value(&loaded.config).unwrap_or_default();
    if let Value::Object(tables) = loaded.to_json() {
        for (name, table) in tables {
            let real = &real[&name];
            match (NetworkKind::of_table(&name), table) {
                (None, table) => spread(&name, table, real, &mut out),
                // A bot's keys start with its platform.
                (Some(kind), Value::Array(bots)) => {
                    for (idx, bot) in bots.into_iter().enumerate() {
                        spread(&kind.platform(bot["name"].as_str()), bot, &real[idx], &mut out);
                    }
                }
                (Some(kind), bot) => spread(&kind.platform(bot["name"].as_str()), bot, real, &mut out),
            }
        }
    }
    out.retain(|key, _| !key.ends_with(".prompt_text"));
    // The order of agents is compared by the first one, which is the default.
    let first = loaded.config.default_agent();
    out.insert("agents".to_owned(), open(&format!("`{first}` first")));
    out
}

/// Adds a value and everything below it. `real`: the unmasked value.
fn spread(key: &str, shown: Value, real: &Value, out: &mut Keys) {
    match shown {
        Value::Object(table) => {
            for (name, shown) in table {
                spread(&format!("{key}.{name}"), shown, &real[&name], out);
            }
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(|item| item["id"].is_string()) => {
            for (idx, shown) in items.into_iter().enumerate() {
                let id = shown["id"].as_str().unwrap_or_default().to_owned();
                spread(&format!("{key}[{id}]"), shown, &real[idx], out);
            }
        }
        shown => drop(out.insert(key.to_owned(), Held { real: real.clone(), shown })),
    }
}

/// Differences outside the configuration's text: rendered prompts, keys, tokens.
fn hidden(old: &Loaded, new: &Loaded) -> Vec<KeyChange> {
    let mut out = Vec::new();
    let mut note = |key: String, from: Value, to: Value| out.push(KeyChange { key, from, to });
    for agent in &new.config.agents {
        let Some(before) = old.config.agent(agent.id.as_str()) else { continue };
        let mut compare = |what: &str, from: &str, to: &str| {
            if from != to {
                let size = |text: &str| json!(format!("{} characters", text.chars().count()));
                note(format!("agents[{}].the text of {what}", agent.id), size(from), size(to));
            }
        };
        compare("prompt", &before.system_prompt, &agent.system_prompt);
        compare("compactor_prompt", &before.compaction_prompt, &agent.compaction_prompt);
        if before.languages != agent.languages && before.language == agent.language {
            note(format!("agents[{}].the texts of language", agent.id), json!("as before"), json!("changed"));
        }
    }
    let exposed = |secret: Option<&SecretString>| secret.map(|secret| secret.expose_secret().to_owned());
    let shown = |secret: &Option<String>| secret.as_ref().map_or(Value::Null, |_| json!(HIDDEN));
    let mut compare = |key: String, from: Option<&SecretString>, to: Option<&SecretString>| {
        let (from, to) = (exposed(from), exposed(to));
        if from != to {
            note(key, shown(&from), shown(&to));
        }
    };
    for model in &new.config.models {
        compare(format!("models[{}].key", model.id), old.api_key(&model.id), new.api_key(&model.id));
        let before = old.config.model(&model.id).map(|model| old.headers(model)).unwrap_or_default();
        for (name, value) in new.headers(model) {
            if model.extra_headers_from_env.contains_key(&name) {
                let from = before.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
                compare(format!("models[{}].extra_headers_from_env.{name}", model.id), from, Some(&value));
            }
        }
    }
    for platform in new.config.bots().map(|bot| bot.platform()) {
        // A token that cannot be read now is reported by a warning.
        if let Some(token) = new.token(&platform) {
            compare(format!("{platform}.token"), old.token(&platform), Some(token));
        }
    }
    for server in &new.config.mcp {
        let (before, now) = (old.mcp_secrets(&server.id), new.mcp_secrets(&server.id));
        for (table, before, now) in [("env", before.env, now.env), ("headers", before.headers, now.headers)] {
            for (name, value) in &now {
                compare(format!("mcp[{}].{table}.{name}", server.id), before.get(name), Some(value));
            }
        }
    }
    if let Some(password) = new.password() {
        compare("store.password".to_owned(), old.password(), Some(password));
    }
    out
}
