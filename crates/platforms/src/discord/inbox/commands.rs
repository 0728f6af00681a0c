//! Registers the slash commands with Discord.

use std::collections::BTreeMap;

use cairn_types::command::COMMANDS;
use cairn_types::texts::Texts;
use serde_json::Value;
use serenity::all::{
    ApplicationId, CommandOptionType, CommandType, CreateCommand, CreateCommandOption, InstallationContext,
    InteractionContext,
};

use super::InboundHandler;
use crate::discord::rest::RestError;

/// The status entry for commands.
const PLACE: &str = "commands";

/// `integration_types` of a command: installed in a server, not for a user.
const INSTALLED: [u64; 1] = [0];

/// `contexts` of a command: servers, and private messages to the bot.
const GIVEN: [u64; 2] = [0, 1];

/// What is compared of a command: its description, and its argument with description and whether it is required.
type Shape = (String, Option<(String, String, bool)>);

impl InboundHandler {
    /// Registers the commands if Discord has others.
    pub(super) async fn register_commands(&self, application: ApplicationId) {
        let registered = async {
            let known = self.rest.patiently(|| self.rest.commands(application)).await?;
            let texts = self.path.chat.get().own_texts();
            if shapes_of(&known) == Some(wanted(&texts)) {
                return Ok(false);
            }
            let commands: Vec<CreateCommand> = COMMANDS.iter().map(|spec| command(spec, &texts)).collect();
            self.rest.patiently(|| self.rest.set_commands(application, &commands)).await?;
            Ok::<bool, RestError>(true)
        };
        match registered.await {
            Ok(changed) => {
                self.link.clear(PLACE);
                if changed {
                    tracing::info!(
                        platform = self.link.platform(),
                        n_commands = COMMANDS.len(),
                        "commands were registered"
                    );
                }
            }
            Err(error) => {
                self.link.trouble(PLACE, &format!("could not be registered: {error}"));
                tracing::warn!(platform = self.link.platform(), %error,
                    "the commands could not be registered; the next session tries again");
            }
        }
    }
}

fn command(spec: &cairn_types::command::CommandSpec, texts: &Texts) -> CreateCommand {
    // Without contexts Discord offers a command everywhere, also in private chats between other people.
    let command = CreateCommand::new(spec.name)
        .kind(CommandType::ChatInput)
        .description(texts.say(spec.description))
        .integration_types(vec![InstallationContext::Guild])
        .contexts(vec![InteractionContext::Guild, InteractionContext::BotDm]);
    match &spec.argument {
        Some(argument) => command.add_option(
            CreateCommandOption::new(
                CommandOptionType::String,
                argument.name,
                texts.say(argument.description),
            )
            .required(argument.required),
        ),
        None => command,
    }
}

fn wanted(texts: &Texts) -> BTreeMap<String, Shape> {
    let shape = |spec: &cairn_types::command::CommandSpec| {
        let argument = spec
            .argument
            .map(|argument| (argument.name.to_owned(), texts.say(argument.description), argument.required));
        (spec.name.to_owned(), (texts.say(spec.description), argument))
    };
    COMMANDS.iter().map(shape).collect()
}

/// The numbers under a key, sorted; empty if it is missing.
fn numbers(command: &Value, key: &str) -> Vec<u64> {
    let list = command.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut numbers: Vec<u64> = list.iter().filter_map(Value::as_u64).collect();
    numbers.sort_unstable();
    numbers
}

/// The commands that Discord has, by name. `None` if one of them could not come from this bot.
fn shapes_of(known: &[Value]) -> Option<BTreeMap<String, Shape>> {
    let text = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let mut shapes = BTreeMap::new();
    for command in known {
        if command.get("type").and_then(Value::as_u64).unwrap_or(1) != 1
            || numbers(command, "integration_types") != INSTALLED
            || numbers(command, "contexts") != GIVEN
        {
            return None;
        }
        let options = command.get("options").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let argument = match options {
            [] => None,
            [one] => {
                let required = one.get("required").and_then(Value::as_bool).unwrap_or(false);
                Some((text(one, "name")?, text(one, "description")?, required))
            }
            _ => return None,
        };
        shapes.insert(text(command, "name")?, (text(command, "description")?, argument));
    }
    Some(shapes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What Discord gives back of what was registered.
    fn registered() -> Vec<Value> {
        let commands = COMMANDS.iter().map(|spec| command(spec, Texts::english()));
        commands.map(|command| serde_json::to_value(command).expect("is JSON")).collect()
    }

    #[test]
    fn commands_that_discord_knows_are_not_registered_again() {
        assert_eq!(shapes_of(&registered()), Some(wanted(Texts::english())));
    }

    #[test]
    fn any_difference_is_seen() {
        let mut fewer = registered();
        fewer.pop();
        let mut renamed = registered();
        renamed[0]["description"] = json!("something else");
        let mut foreign = registered();
        foreign.push(json!({"name": "Quote", "description": "", "type": 3}));
        let mut everywhere = registered();
        everywhere[0]["contexts"] = json!([2, 1, 0]);
        let mut unsaid = registered();
        unsaid[0].as_object_mut().expect("is an object").remove("contexts");
        let mut with_people = registered();
        with_people[0]["integration_types"] = json!([0, 1]);
        for known in [fewer, renamed, foreign, everywhere, unsaid, with_people, Vec::new()] {
            assert_ne!(shapes_of(&known), Some(wanted(Texts::english())));
        }
    }
}
