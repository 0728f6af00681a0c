//! Presses of the buttons under a question: the command that a button stands for is run, and the question says how it was
//! answered. Discord waits three seconds for a word on a press; where the runtime takes longer, it is told that one
//! follows.

use std::time::Duration;

use cairn_core::command::{CommandAnswer, Settled};
use serde_json::{Map, Value, json};
use serenity::all::{
    CreateInteractionResponse, CreateInteractionResponseFollowup, CreateInteractionResponseMessage,
    EditMessage, MessageFlags,
};

use super::InboundHandler;
use crate::buttons;
use crate::discord::outbox::nobody;
use crate::discord::rest::RestError;
use crate::discord::wire::{Interaction, InteractionData, Said};
use crate::markup::discord as markup;

/// How long the runtime may take before Discord is told that an answer follows.
const AT_ONCE: Duration = Duration::from_millis(1500);

/// A question whose buttons go away.
struct Closing<'a> {
    question: &'a Said,
    /// What it says then; none: what it said.
    content: Option<String>,
    /// What is said beside it, and whether to the presser alone.
    beside: Option<(String, bool)>,
}

impl InboundHandler {
    pub(super) async fn pressed(&self, interaction: &Interaction, data: &InteractionData) {
        let me = *self.me.lock();
        let own = |said: &&Said| Some(said.author.id) == me;
        let Some(question) = interaction.message.as_deref().filter(own) else {
            return self.refuse(interaction, "Nothing that I asked waits there any more.").await;
        };
        let Some((yes, command)) = data.custom_id.as_deref().and_then(buttons::read) else {
            return self.refuse(interaction, "I do not know this button.").await;
        };
        let call = match self.call(interaction, Ok(command)).await {
            Ok(call) => call,
            Err(words) => return self.refuse(interaction, &words).await,
        };
        let presser = call.caller.name.clone();
        let mut run = self.ports.chat_commands.run(call);
        let (answer, told) = match tokio::time::timeout(AT_ONCE, &mut run).await {
            Ok(answer) => (answer, false),
            Err(_) => {
                self.acknowledge(interaction).await;
                (run.await, true)
            }
        };
        let Some(CommandAnswer { words, settled, .. }) = answer else {
            // How it ended is not known here any more; another press tells, and takes the buttons away.
            tracing::debug!(platform = "discord", "a press came again; it was taken in before");
            if !told {
                self.acknowledge(interaction).await;
            }
            return;
        };
        let closing = match settled {
            None if told => return self.say_beside(interaction, &words, true).await,
            None => return self.refuse(interaction, &words).await,
            Some(Settled::Before) => Closing { question, content: None, beside: Some((words, true)) },
            Some(Settled::Now) => {
                let outcome = buttons::outcome(yes, &presser, self.pairing_store.clock().now());
                match with_outcome(&question.content, &outcome) {
                    Some(content) => Closing { question, content: Some(content), beside: None },
                    None => Closing { question, content: None, beside: Some((outcome, false)) },
                }
            }
        };
        self.close(interaction, closing, told).await;
    }

    /// Tells Discord that a word on a press follows.
    async fn acknowledge(&self, interaction: &Interaction) {
        let response = CreateInteractionResponse::Acknowledge;
        if let Err(error) = self.rest.respond(interaction.id, &interaction.token, &response).await {
            tracing::debug!(platform = "discord", %error, "a press could not be acknowledged");
        }
    }

    /// Takes the buttons of a question away: as the answer to the press where there is none yet, or after it.
    async fn close(&self, interaction: &Interaction, closing: Closing<'_>, told: bool) {
        let Closing { question, content, beside } = closing;
        let answered = if told {
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
                tracing::debug!(platform = "discord", %error, "a press is answered by an edit");
                self.edit_question(question, content).await
            }
            Ok(()) => Ok(()),
        };
        match closed {
            Ok(()) => self.link.outbound(),
            Err(error) => {
                tracing::warn!(
                    platform = "discord",
                    error = error.in_brief(),
                    "the buttons of a question could not be taken away"
                );
            }
        }
        if let Some((words, alone)) = beside {
            self.say_beside(interaction, &words, alone).await;
        }
    }

    /// The same without the press, for which it may be too late.
    async fn edit_question(&self, question: &Said, content: Option<String>) -> Result<(), RestError> {
        let mut edit = EditMessage::new().components(Vec::new()).allowed_mentions(nobody());
        if let Some(content) = content {
            edit = edit.content(content);
        }
        self.rest.patiently(|| self.rest.edit(question.channel_id, question.id, &edit)).await
    }

    /// Says something on a press that Discord has had a word on; `alone`: to the presser.
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
            tracing::debug!(platform = "discord", %error, "a press could not be answered in words");
        }
    }
}

/// The words of a question with what is added to them; none when that does not fit.
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
}
