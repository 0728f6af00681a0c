//! Slash commands: registered with Discord, put off within its three seconds, run by the runtime, answered. Presses of
//! buttons come the same way.

use std::collections::BTreeMap;

use cairn_core::access::Verdict;
use cairn_core::command::{COMMANDS, Command, CommandAnswer, CommandCall};
use cairn_core::ids::MessageId as HouseMessage;
use cairn_core::pairing_store::Standing;
use serde_json::{Value, json};
use serenity::all::{
    ApplicationId, CommandOptionType, CommandType, CreateCommand, CreateCommandOption,
    CreateInteractionResponse, CreateInteractionResponseFollowup, CreateInteractionResponseMessage,
    InstallationContext, InteractionContext, InteractionResponseFlags, MessageFlags,
};

use super::InboundHandler;
use super::take::{author_of, code_words, house_channel};
use crate::discord::outbox::nobody;
use crate::discord::places::ChannelRef;
use crate::discord::rest::{ALREADY_ANSWERED, RestError, UNKNOWN_INTERACTION};
use crate::discord::wire::{Interaction, InteractionData, Person, time_of};
use crate::markup::discord as markup;

const A_COMMAND: u64 = 2;

const A_PRESS: u64 = 3;

/// The place in the status for commands.
const PLACE: &str = "commands";

/// Where the bot is installed for its commands to be there: in a server, not with a person.
const INSTALLED: [u64; 1] = [0];

/// Where commands may be given: in servers, and in private messages to the bot.
const GIVEN: [u64; 2] = [0, 1];

/// A command as it is compared: description, and argument with its description and whether it must be given.
type Shape = (String, Option<(String, String, bool)>);

impl InboundHandler {
    /// Has Discord know the commands; says nothing when it does.
    pub(super) async fn register_commands(&self, application: ApplicationId) {
        let registered = async {
            let known = self.rest.patiently(|| self.rest.commands(application)).await?;
            if shapes_of(&known) == Some(wanted()) {
                return Ok(false);
            }
            let commands: Vec<CreateCommand> = COMMANDS.iter().map(command).collect();
            self.rest.patiently(|| self.rest.set_commands(application, &commands)).await?;
            Ok::<bool, RestError>(true)
        };
        match registered.await {
            Ok(changed) => {
                self.link.clear(PLACE);
                if changed {
                    tracing::info!(
                        platform = "discord",
                        n_commands = COMMANDS.len(),
                        "commands were registered"
                    );
                }
            }
            Err(error) => {
                self.link.trouble(PLACE, &format!("could not be registered: {error}"));
                tracing::warn!(platform = "discord", %error, "the commands could not be registered; they are again with the next session");
            }
        }
    }

    pub(super) async fn answer(&self, interaction: Interaction) {
        match (interaction.kind, &interaction.data) {
            (A_COMMAND, Some(data)) => self.given(&interaction, data).await,
            (A_PRESS, Some(data)) => self.pressed(&interaction, data).await,
            _ => {}
        }
    }

    async fn given(&self, interaction: &Interaction, data: &InteractionData) {
        let words = data.options.first().map(|option| words_of(&option.value)).unwrap_or_default();
        let Some(command) = Command::parse(&data.name, &words) else {
            return self.refuse(interaction, "I no longer know this command.").await;
        };
        // What is wrong with a command is for whoever gave it.
        let secret = command.as_ref().map_or(true, Command::is_private);
        let call = match self.call(interaction, command).await {
            Ok(call) => call,
            Err(words) => return self.refuse(interaction, &words).await,
        };
        let direct = call.direct;
        let hidden = !direct && secret;
        if !self.put_off(interaction, hidden).await {
            return;
        }
        match self.ports.chat_commands.run(call).await {
            Some(answer) => self.give(interaction, &answer, hidden, direct).await,
            None => tracing::debug!(platform = "discord", "a command came again; it was run before"),
        }
    }

    /// A command as the runtime gets it, if whoever gives it is heard there; otherwise what they are told.
    pub(super) async fn call(
        &self,
        interaction: &Interaction,
        command: Result<Command, String>,
    ) -> Result<CommandCall, String> {
        let person = interaction.member.as_ref().and_then(|member| member.user.as_deref());
        let person = person.or(interaction.user.as_ref()).ok_or("I cannot tell who you are.")?;
        if interaction.is_among_others() {
            return Err("I answer in servers and in private messages to me alone.".to_owned());
        }
        let channel_ref = self.spot_of(interaction).await;
        let channel_ref = channel_ref.ok_or("I cannot tell where this is; I may not see the channel.")?;
        let agent = match self.judge(person, person.bot, true, &channel_ref) {
            Verdict::Serve { agent, .. } => agent,
            Verdict::Pair => return Err(self.code_for(person, &channel_ref).await),
            Verdict::Ignore(why) => {
                tracing::debug!(platform = "discord", why, "a command was refused");
                return Err("I am not set up to answer you here.".to_owned());
            }
        };
        let channel = house_channel(&agent, &channel_ref).ok_or("I cannot tell what this belongs to.")?;
        let shown = interaction.member.as_ref().and_then(|member| member.nick.as_deref());
        Ok(CommandCall {
            channel,
            message: HouseMessage::new(interaction.id.to_string()),
            caller: author_of(person, shown.unwrap_or_else(|| person.display_name())),
            direct: channel_ref.is_direct(),
            at: time_of(interaction.id.get()),
            command,
        })
    }

    /// Where it was given: Discord says so with it, or is asked.
    async fn spot_of(&self, interaction: &Interaction) -> Option<ChannelRef> {
        let (room, guild) = (interaction.channel.as_ref(), interaction.guild_id);
        let told = room.and_then(|room| ChannelRef::of_room(room, guild));
        if told.is_some() {
            return told;
        }
        let channel = room.map(|room| room.id).or(interaction.channel_id)?;
        self.channel_ref(channel, guild).await
    }

    async fn code_for(&self, person: &Person, channel_ref: &ChannelRef) -> String {
        let user = author_of(person, person.display_name());
        let id = user.id.clone();
        match self.pairing_store.request_pairing(user, channel_ref.chat.to_string()).await {
            Ok(Some(code)) => code_words(&code),
            Ok(None) if self.pairing_store.standing(&id) == Standing::Waiting => {
                "I do not know you yet; you have been told a code.".to_owned()
            }
            Ok(None) => {
                "I do not know you yet, and too many others wait for a code; try again later.".to_owned()
            }
            Err(error) => {
                tracing::warn!(platform = "discord", %error, "a stranger could not be given a code");
                "I do not know you yet, and cannot give you a code at the moment.".to_owned()
            }
        }
    }

    /// Answers at once, for the caller's eyes alone.
    pub(super) async fn refuse(&self, interaction: &Interaction, words: &str) {
        let message = CreateInteractionResponseMessage::new()
            .content(markup::render(words))
            .allowed_mentions(nobody())
            .flags(flags(true));
        let response = CreateInteractionResponse::Message(message);
        if let Err(error) = self.rest.respond(interaction.id, &interaction.token, &response).await {
            tracing::warn!(
                platform = "discord",
                error = error.in_brief(),
                "an interaction could not be refused"
            );
        }
    }

    /// Tells Discord that the answer follows. False: it is too late for one.
    async fn put_off(&self, interaction: &Interaction, hidden: bool) -> bool {
        let message = CreateInteractionResponseMessage::new().flags(flags(hidden));
        let response = CreateInteractionResponse::Defer(message);
        // Not patiently: after three seconds nobody wants it any more.
        match self.rest.respond(interaction.id, &interaction.token, &response).await {
            Ok(()) | Err(RestError::Refused { code: ALREADY_ANSWERED, .. }) => true,
            // It may have arrived; then the answer has its place.
            Err(RestError::Unknown(_)) => true,
            Err(RestError::Refused { code: UNKNOWN_INTERACTION, .. }) => {
                tracing::warn!(platform = "discord", "a command was too old to be answered; it was not run");
                false
            }
            Err(error) => {
                tracing::warn!(
                    platform = "discord",
                    error = error.in_brief(),
                    "a command could not be answered in time; it was not run"
                );
                false
            }
        }
    }

    /// Gives the answer in the place that was kept for it, what does not fit behind it.
    async fn give(&self, interaction: &Interaction, answer: &CommandAnswer, hidden: bool, direct: bool) {
        let (application, token) = (interaction.application_id, interaction.token.as_str());
        let private = hidden || (answer.private && !direct);
        let quiet = MessageFlags::SUPPRESS_EMBEDS;
        let mut parts = markup::split(&answer.words).into_iter();
        let given = async {
            if private && !hidden {
                // The place that was kept is for all to see.
                self.rest.patiently(|| self.rest.drop_response(application, token)).await?;
            } else if let Some(first) = parts.next() {
                // serenity's builder for this has no flags.
                let edit = json!({
                    "content": markup::render(&first),
                    "allowed_mentions": nobody(),
                    "flags": MessageFlags::SUPPRESS_EMBEDS.bits(),
                });
                self.rest.patiently(|| self.rest.edit_response(application, token, &edit)).await?;
            }
            for part in parts {
                let more = CreateInteractionResponseFollowup::new()
                    .content(markup::render(&part))
                    .allowed_mentions(nobody())
                    .flags(if private { quiet | MessageFlags::EPHEMERAL } else { quiet });
                self.rest.carefully(|| self.rest.follow_up(application, token, &more)).await?;
            }
            Ok::<(), RestError>(())
        };
        match given.await {
            Ok(()) => self.link.outbound(),
            Err(error) => {
                tracing::warn!(
                    platform = "discord",
                    error = error.in_brief(),
                    "a command's answer could not be given"
                )
            }
        }
    }
}

/// No preview of a link is shown, as with every message of the bot; `hidden`: for the caller's eyes alone.
fn flags(hidden: bool) -> InteractionResponseFlags {
    let quiet = InteractionResponseFlags::SUPPRESS_EMBEDS;
    if hidden { quiet | InteractionResponseFlags::EPHEMERAL } else { quiet }
}

/// An argument as it would be typed.
fn words_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn command(spec: &cairn_core::command::CommandSpec) -> CreateCommand {
    // Left unsaid, Discord takes a command to be for everywhere: for private chats of others, too.
    let command = CreateCommand::new(spec.name)
        .kind(CommandType::ChatInput)
        .description(spec.description)
        .integration_types(vec![InstallationContext::Guild])
        .contexts(vec![InteractionContext::Guild, InteractionContext::BotDm]);
    match &spec.argument {
        Some(argument) => command.add_option(
            CreateCommandOption::new(CommandOptionType::String, argument.name, argument.description)
                .required(argument.required),
        ),
        None => command,
    }
}

fn wanted() -> BTreeMap<String, Shape> {
    let shape = |spec: &cairn_core::command::CommandSpec| {
        let argument = spec
            .argument
            .map(|argument| (argument.name.to_owned(), argument.description.to_owned(), argument.required));
        (spec.name.to_owned(), (spec.description.to_owned(), argument))
    };
    COMMANDS.iter().map(shape).collect()
}

/// A list of numbers in order; empty when it is not there.
fn numbers(command: &Value, key: &str) -> Vec<u64> {
    let list = command.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut numbers: Vec<u64> = list.iter().filter_map(Value::as_u64).collect();
    numbers.sort_unstable();
    numbers
}

/// What Discord has; none when there is something that the bot would not have registered.
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
    use super::*;

    /// What Discord gives back of what was registered.
    fn registered() -> Vec<Value> {
        let commands = COMMANDS.iter().map(command);
        commands.map(|command| serde_json::to_value(command).expect("is JSON")).collect()
    }

    #[test]
    fn commands_that_discord_knows_are_not_registered_again() {
        assert_eq!(shapes_of(&registered()), Some(wanted()));
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
            assert_ne!(shapes_of(&known), Some(wanted()));
        }
    }

    #[test]
    fn an_argument_that_is_no_text_is_read_as_typed() {
        assert_eq!(words_of(&json!("some words")), "some words");
        assert_eq!(words_of(&json!(true)), "true");
        assert_eq!(words_of(&json!(null)), "");
    }
}
