//! Slash commands, as the application registers them.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::{Outcome, Path};
use crate::discord::serve::Call;
use crate::discord::world::BOT_ID;
use crate::discord::{Rule, Shared, State};

pub(super) fn answer(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    if path.major != BOT_ID {
        return Err(Refusal::missing_access());
    }
    if call.method == hyper::Method::GET {
        return Ok((200, shared.state.lock().world.commands.clone().into()));
    }
    let (body, _) = super::read(shared, call)?;
    shared.update(|state| {
        let list = body.as_array().filter(|list| list.len() <= 100).cloned();
        let list = list.ok_or_else(|| wrong(state, "", "a list of at most 100 commands is expected"))?;
        let mut names = HashSet::new();
        let mut out = Vec::new();
        for (idx, mut command) in list.into_iter().enumerate() {
            check(&command).map_err(|(field, text)| wrong(state, &format!("{idx}.{field}"), &text))?;
            if !names.insert(command["name"].clone()) {
                return Err(wrong(state, &format!("{idx}.name"), "a name that is there twice"));
            }
            command["id"] = state.world.next_id().to_string().into();
            command["application_id"] = BOT_ID.to_string().into();
            command["version"] = command["id"].clone();
            for (name, value) in
                [("type", json!(1)), ("default_member_permissions", Value::Null), ("nsfw", json!(false))]
            {
                if command[name].is_null() {
                    command[name] = value;
                }
            }
            out.push(command);
        }
        state.world.commands.clone_from(&out);
        Ok((200, out.into()))
    })
}

fn wrong(state: &mut State, field: &str, text: &str) -> Refusal {
    state.violation(Rule::Shape, format!("commands: {field}: {text}"));
    Refusal::form(field, "APPLICATION_COMMAND_INVALID", text)
}

fn check(command: &Value) -> Result<(), (String, String)> {
    named(command).map_err(|(field, text)| (field.to_owned(), text))?;
    let options = command["options"].as_array().map_or(&[][..], Vec::as_slice);
    if options.len() > 25 {
        return Err(("options".to_owned(), "more than 25 options".to_owned()));
    }
    let mut optional = false;
    for (idx, option) in options.iter().enumerate() {
        let at = |field: &str| format!("options.{idx}.{field}");
        named(option).map_err(|(field, text)| (at(field), text))?;
        if !option["type"].as_u64().is_some_and(|kind| (1..=11).contains(&kind)) {
            return Err((at("type"), "an unknown type".to_owned()));
        }
        let required = option["required"] == true;
        if required && optional {
            return Err((at("required"), "a required option behind an optional one".to_owned()));
        }
        optional |= !required;
    }
    Ok(())
}

/// Name and description, of a command or an option.
fn named(thing: &Value) -> Result<(), (&'static str, String)> {
    let name = thing["name"].as_str().unwrap_or_default();
    let fits = |c: char| c.is_alphanumeric() && !c.is_uppercase() || matches!(c, '-' | '_' | '\'');
    if !(1..=32).contains(&name.chars().count()) || !name.chars().all(fits) {
        return Err(("name", format!("the name `{name}` has other than 1 to 32 lower-case letters")));
    }
    let chars = thing["description"].as_str().unwrap_or_default().chars().count();
    if !(1..=100).contains(&chars) {
        return Err(("description", format!("a description of {chars} characters")));
    }
    Ok(())
}
