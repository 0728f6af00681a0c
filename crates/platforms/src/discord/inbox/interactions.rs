//! Interactions: slash commands, which are deferred within Discord's three seconds, run, and answered; and the buttons
//! under a question, which is edited to show its answer.

use std::time::Duration;

use cairn_types::command::{Command, CommandAnswer};
use cairn_types::ids::MessageId as RuntimeMessage;
use cairn_types::texts::Key;
use serde_json::{Map, Value, json};
use serenity::all::{
    CreateInteractionResponse, CreateInteractionResponseFollowup, CreateInteractionResponseMessage,
    EditMessage, InteractionResponseFlags, MessageFlags,
};

use super::InboundHandler;
use super::messages::sender;
use crate::discord::outbox::nobody;
use crate::discord::places::ChannelRef;
use crate::discord::rest::{ALREADY_ANSWERED, RestError, UNKNOWN_INTERACTION};
use crate::discord::wire::{Interaction, InteractionData, Message, time_of};
use crate::inbound::{Admitted, ButtonPress, PressOutcome};
use crate::markup::{discord as markup, split_aside};

const A_COMMAND: u64 = 2;
const A_BUTTON: u64 = 3;

/// How long a button's command may take before the press is acknowledged. Discord waits three seconds.
const AT_ONCE: Duration = Duration::from_millis(1500);

impl InboundHandler {
    pub(super) async fn answer(&self, interaction: Interaction) {
        match (interaction.kind, &interaction.data) {
            (A_COMMAND, Some(data)) => self.given(&interaction, data).await,
            (A_BUTTON, Some(data)) => self.pressed(&interaction, data).await,
            _ => {}
        }
    }

    async fn given(&self, interaction: &Interaction, data: &InteractionData) {
        let words = data.options.first().map(|option| words_of(&option.value)).unwrap_or_default();
        let Some(command) = Command::parse(&data.name, &words) else {
            return self.refuse(interaction, &self.say(Key::CommandGone)).await;
        };
        // An error in a command is shown only to its caller.
        let secret = command.as_ref().map_or(true, Command::is_private);
        let admitted = match self.admit(interaction, command.as_ref().ok()).await {
            Ok(admitted) => admitted,
            Err(words) => return self.refuse(interaction, &words).await,
        };
        let direct = admitted.direct;
        let hidden = !direct && secret;
        if !self.put_off(interaction, hidden).await {
            return;
        }
        let (id, at) = (RuntimeMessage::new(interaction.id.to_string()), time_of(interaction.id.get()));
        match self.path.run(&admitted, id, at, command).await {
            Some(answer) => self.give(interaction, &answer, hidden, direct).await,
            None => {
                tracing::debug!(platform = self.link.platform(), "a command came again; it was run before")
            }
        }
    }

    /// A text in a place that cannot be told.
    fn say(&self, key: Key) -> String {
        self.path.chat.get().own_texts().say(key)
    }

    /// The person and the channel of an interaction, if they are admitted; otherwise the text to show them.
    async fn admit(&self, interaction: &Interaction, command: Option<&Command>) -> Result<Admitted, String> {
        let member = interaction.member.as_ref();
        let person = member.and_then(|member| member.user.as_deref()).or(interaction.user.as_ref());
        let person = person.ok_or_else(|| self.say(Key::UnknownCaller))?;
        if interaction.is_among_others() {
            return Err(self.say(Key::AmongOthers));
        }
        let channel_ref = self.channel_ref_of(interaction).await;
        let channel_ref = channel_ref.ok_or_else(|| self.say(Key::UnknownPlace))?;
        let shown = member.and_then(|member| member.nick.as_deref());
        let shown = shown.unwrap_or_else(|| person.display_name());
        let sender = sender(person, shown, person.bot, *self.me.lock());
        self.path.admit(&sender, &(&channel_ref).into(), command).await
    }

    /// The channel of an interaction: from the event, or looked up.
    async fn channel_ref_of(&self, interaction: &Interaction) -> Option<ChannelRef> {
        let (room, guild) = (interaction.channel.as_ref(), interaction.guild_id);
        let told = room.and_then(|room| ChannelRef::of_room(room, guild));
        if told.is_some() {
            return told;
        }
        let channel = room.map(|room| room.id).or(interaction.channel_id)?;
        self.channel_ref(channel, guild).await
    }

    /// Answers at once, visible only to the caller.
    pub(super) async fn refuse(&self, interaction: &Interaction, words: &str) {
        let message = CreateInteractionResponseMessage::new()
            .content(markup::render(words))
            .allowed_mentions(nobody())
            .flags(flags(true));
        let response = CreateInteractionResponse::Message(message);
        if let Err(error) = self.rest.respond(interaction.id, &interaction.token, &response).await {
            tracing::warn!(
                platform = self.link.platform(),
                error = error.in_brief(),
                "an interaction could not be refused"
            );
        }
    }

    /// Defers the answer. Returns false if it is too late to answer.
    async fn put_off(&self, interaction: &Interaction, hidden: bool) -> bool {
        let message = CreateInteractionResponseMessage::new().flags(flags(hidden));
        let response = CreateInteractionResponse::Defer(message);
        // No retries: after three seconds Discord takes no answer.
        match self.rest.respond(interaction.id, &interaction.token, &response).await {
            Ok(()) | Err(RestError::Refused { code: ALREADY_ANSWERED, .. }) => true,
            // It may have arrived, and then a deferred answer exists.
            Err(RestError::Unknown(_)) => true,
            Err(RestError::Refused { code: UNKNOWN_INTERACTION, .. }) => {
                tracing::warn!(
                    platform = self.link.platform(),
                    "a command was too old to be answered; it was not run"
                );
                false
            }
            Err(error) => {
                tracing::warn!(
                    platform = self.link.platform(),
                    error = error.in_brief(),
                    "a command could not be answered in time; it was not run"
                );
                false
            }
        }
    }

    /// Fills the deferred answer; parts that do not fit follow as further messages.
    async fn give(&self, interaction: &Interaction, answer: &CommandAnswer, hidden: bool, direct: bool) {
        let (application, token) = (interaction.application_id, interaction.token.as_str());
        let private = hidden || (answer.private && !direct);
        let quiet = MessageFlags::SUPPRESS_EMBEDS;
        let mut parts = split_aside(&answer.words, markup::split).await.into_iter();
        let given = async {
            if private && !hidden {
                // The deferred answer would be visible to everybody.
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
                    platform = self.link.platform(),
                    error = error.in_brief(),
                    "a command's answer could not be sent"
                )
            }
        }
    }

    async fn pressed(&self, interaction: &Interaction, data: &InteractionData) {
        let me = *self.me.lock();
        let Some(question) = interaction.message.as_deref().filter(|message| Some(message.author.id) == me)
        else {
            return self.refuse(interaction, &self.say(Key::NoQuestion)).await;
        };
        let press = ButtonPress {
            id: RuntimeMessage::new(interaction.id.to_string()),
            data: data.custom_id.as_deref(),
            admitted: self.admit(interaction, None).await,
        };
        let mut run = std::pin::pin!(self.path.press(press));
        let (outcome, acknowledged) = match tokio::time::timeout(AT_ONCE, &mut run).await {
            Ok(outcome) => (outcome, false),
            Err(_) => {
                self.acknowledge(interaction).await;
                (run.await, true)
            }
        };
        let (content, beside) = match outcome {
            PressOutcome::Refused(words) | PressOutcome::Denied(words) => {
                return match acknowledged {
                    true => self.say_beside(interaction, &words, true).await,
                    false => self.refuse(interaction, &words).await,
                };
            }
            PressOutcome::Repeated if acknowledged => return,
            PressOutcome::Repeated => return self.acknowledge(interaction).await,
            PressOutcome::Stale(words) => (None, Some((words, true))),
            PressOutcome::Decided { outcome, .. } => match with_outcome(&question.content, &outcome) {
                Some(content) => (Some(content), None),
                None => (None, Some((outcome, false))),
            },
        };
        self.close(interaction, question, content, acknowledged).await;
        if let Some((words, alone)) = beside {
            self.say_beside(interaction, &words, alone).await;
        }
    }

    /// Acknowledges a press; the answer follows.
    async fn acknowledge(&self, interaction: &Interaction) {
        let response = CreateInteractionResponse::Acknowledge;
        if let Err(error) = self.rest.respond(interaction.id, &interaction.token, &response).await {
            tracing::debug!(platform = self.link.platform(), %error, "a press could not be acknowledged");
        }
    }

    /// Removes the buttons of a question, in the response to the press or, if `acknowledged`, after it. `content`: the
    /// question's new text; `None` keeps the text.
    async fn close(
        &self,
        interaction: &Interaction,
        question: &Message,
        content: Option<String>,
        acknowledged: bool,
    ) {
        let answered = if acknowledged {
            let mut edit = Map::from_iter([
                ("components".to_owned(), json!([])),
                ("allowed_mentions".to_owned(), json!(nobody())),
            ]);
            edit.extend(content.clone().map(|content| ("content".to_owned(), content.into())));
            let (edit, token) = (Value::Object(edit), interaction.token.as_str());
            self.rest.patiently(|| self.rest.edit_response(interaction.application_id, token, &edit)).await
        } else {
            let mut message =
                CreateInteractionResponseMessage::new().components(Vec::new()).allowed_mentions(nobody());
            if let Some(content) = &content {
                message = message.content(content);
            }
            let response = CreateInteractionResponse::UpdateMessage(message);
            self.rest.respond(interaction.id, &interaction.token, &response).await
        };
        let closed = match answered {
            Err(error) => {
                tracing::debug!(platform = self.link.platform(), %error, "a press is answered by an edit");
                self.edit_question(question, content).await
            }
            Ok(()) => Ok(()),
        };
        match closed {
            Ok(()) => self.link.outbound(),
            Err(error) => {
                tracing::warn!(
                    platform = self.link.platform(),
                    error = error.in_brief(),
                    "the buttons of an approval request could not be removed"
                );
            }
        }
    }

    /// Removes the buttons by editing the question, for when the press can no longer be answered.
    async fn edit_question(&self, question: &Message, content: Option<String>) -> Result<(), RestError> {
        let mut edit = EditMessage::new().components(Vec::new()).allowed_mentions(nobody());
        if let Some(content) = content {
            edit = edit.content(content);
        }
        self.rest.patiently(|| self.rest.edit(question.channel_id, question.id, &edit)).await
    }

    /// Sends a message after a press was answered or acknowledged. `alone`: visible only to the presser.
    async fn say_beside(&self, interaction: &Interaction, words: &str, alone: bool) {
        let quiet = MessageFlags::SUPPRESS_EMBEDS;
        let more = CreateInteractionResponseFollowup::new()
            .content(markup::render(words))
            .allowed_mentions(nobody())
            .flags(if alone { quiet | MessageFlags::EPHEMERAL } else { quiet });
        let token = interaction.token.as_str();
        let said =
            self.rest.carefully(|| self.rest.follow_up(interaction.application_id, token, &more)).await;
        if let Err(error) = said {
            tracing::debug!(platform = self.link.platform(), %error, "a press could not be answered in words");
        }
    }
}

/// Flags for a response: no link previews. `hidden`: visible only to the caller.
fn flags(hidden: bool) -> InteractionResponseFlags {
    let quiet = InteractionResponseFlags::SUPPRESS_EMBEDS;
    if hidden { quiet | InteractionResponseFlags::EPHEMERAL } else { quiet }
}

/// An argument's value as typed text.
pub(in crate::discord) fn words_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A question's text with the outcome added. `None` if it gets too long.
fn with_outcome(content: &str, outcome: &str) -> Option<String> {
    let content = format!("{content}\n\n{}", markup::literal(outcome));
    (content.chars().count() <= markup::LIMIT).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_added_as_words_where_it_fits() {
        let name = "— yes, @everyone <@1> *a* [b](https://c.example) ```, 12:03 UTC";
        let shown = with_outcome("May I?", name).expect("fits");
        assert!(
            shown.starts_with("May I?\n\n— yes, @\u{2060}everyone <\u{2060}@1> \\*a\\* [b]\u{2060}("),
            "{shown}"
        );
        assert!(!shown.contains("```"), "{shown}");
        assert_eq!(with_outcome(&"x".repeat(1990), "— yes, Ann, 12:03 UTC"), None);
    }

    #[test]
    fn an_argument_that_is_no_text_is_read_as_typed() {
        assert_eq!(words_of(&json!("some words")), "some words");
        assert_eq!(words_of(&json!(true)), "true");
        assert_eq!(words_of(&json!(null)), "");
    }
}
