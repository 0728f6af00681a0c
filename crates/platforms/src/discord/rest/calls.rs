//! The REST calls of the adapter.

use std::fmt::Write as _;
use std::sync::Arc;

use cairn_types::ports::FilePart;
use serde::Deserialize;
use serde_json::{Value, json};
use serenity::all::{
    ApplicationId, BotGateway, ChannelId, CreateCommand, CreateInteractionResponse,
    CreateInteractionResponseFollowup, CreateMessage, EditMessage, GuildId, InteractionId, MessageId, UserId,
};
use serenity::http::{LightMethod, Request, Route};

use super::{Rest, RestError, as_json, with_body};
use crate::multipart::Multipart;

/// A text as a segment of a path.
fn in_path(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => out.push(char::from(byte)),
            // Writing to a string does not fail.
            byte => drop(write!(out, "%{byte:02X}")),
        }
        out
    })
}

/// A sent message, as far as the answer is read.
#[derive(Deserialize)]
struct Sent {
    id: MessageId,
}

/// Most messages that Discord returns per request.
pub(crate) const PAGE: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    After(u64),
    Before(u64),
    /// The newest messages.
    Newest,
}

impl Rest {
    /// The gateway address and the remaining session starts. Also checks the token.
    pub(crate) async fn gateway(&self) -> Result<BotGateway, RestError> {
        self.get(Route::GatewayBot, None).await
    }

    pub(crate) async fn me(&self) -> Result<Value, RestError> {
        self.get(Route::UserMe, None).await
    }

    /// The bot's application, with its flags.
    pub(crate) async fn application(&self) -> Result<Value, RestError> {
        self.get(Route::Oauth2ApplicationCurrent, None).await
    }

    /// The servers that the bot is in, 200 at most, with its rights in each.
    pub(crate) async fn servers(&self) -> Result<Vec<Value>, RestError> {
        self.get(Route::UserMeGuilds, None).await
    }

    /// A member of a server, with their roles.
    pub(crate) async fn member(&self, guild_id: GuildId, user_id: UserId) -> Result<Value, RestError> {
        self.get(Route::GuildMember { guild_id, user_id }, None).await
    }

    /// A channel as Discord describes it.
    pub(crate) async fn channel(&self, channel_id: ChannelId) -> Result<Value, RestError> {
        self.get(Route::Channel { channel_id }, None).await
    }

    /// Messages of a channel, newest first.
    pub(crate) async fn messages(&self, channel_id: ChannelId, page: Page) -> Result<Vec<Value>, RestError> {
        let mut params = vec![("limit", PAGE.to_string())];
        match page {
            Page::After(id) => params.push(("after", id.to_string())),
            Page::Before(id) => params.push(("before", id.to_string())),
            Page::Newest => {}
        }
        self.get(Route::ChannelMessages { channel_id }, Some(params)).await
    }

    pub(crate) async fn send(
        &self,
        channel_id: ChannelId,
        message: &CreateMessage,
    ) -> Result<MessageId, RestError> {
        let route = Route::ChannelMessages { channel_id };
        self.write::<Sent>(route, LightMethod::Post, message).await.map(|sent| sent.id)
    }

    /// Sends a message with files: a form whose part `payload_json` is the message, and whose parts `files[N]` are the
    /// attachments that it names by their numbers ("Uploading Files" in Discord's documentation).
    pub(crate) async fn send_files(
        &self,
        channel_id: ChannelId,
        message: &CreateMessage,
        files: &[FilePart],
    ) -> Result<MessageId, RestError> {
        let mut payload = as_json(message)?;
        payload["attachments"] = files
            .iter()
            .enumerate()
            .map(|(n, FilePart { file, .. })| {
                let mut attachment = json!({ "id": n, "filename": file.name });
                if let Some(alt) = &file.alt {
                    attachment["description"] = alt.clone().into();
                }
                attachment
            })
            .collect();
        let mut form = Multipart::new();
        form.field("payload_json", Some("application/json"), &payload.to_string());
        for (n, FilePart { file, data }) in files.iter().enumerate() {
            form.file(&format!("files[{n}]"), &file.name, &file.media_type, Arc::clone(data));
        }
        let route = Route::ChannelMessages { channel_id };
        self.write_form::<Sent>(route, form).await.map(|sent| sent.id)
    }

    pub(crate) async fn edit(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        message: &EditMessage,
    ) -> Result<(), RestError> {
        let route = Route::ChannelMessage { channel_id, message_id };
        self.write::<Sent>(route, LightMethod::Patch, message).await.map(drop)
    }

    /// Adds a reaction of the bot: an emoji, or `name:id` of a custom one.
    pub(crate) async fn react(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        emoji: &str,
    ) -> Result<(), RestError> {
        let reaction = &in_path(emoji);
        let route = Route::ChannelMessageReactionMe { channel_id, message_id, reaction };
        self.tell(Request::new(route, LightMethod::Put)).await
    }

    /// Takes a reaction of the bot away.
    pub(crate) async fn unreact(
        &self,
        channel_id: ChannelId,
        message_id: MessageId,
        emoji: &str,
    ) -> Result<(), RestError> {
        let reaction = &in_path(emoji);
        let route = Route::ChannelMessageReactionMe { channel_id, message_id, reaction };
        self.tell(Request::new(route, LightMethod::Delete)).await
    }

    /// Shows for ten seconds that the bot is typing.
    pub(crate) async fn typing(&self, channel_id: ChannelId) -> Result<(), RestError> {
        self.tell(Request::new(Route::ChannelTyping { channel_id }, LightMethod::Post)).await
    }

    /// The commands that Discord knows of the bot.
    pub(crate) async fn commands(&self, application_id: ApplicationId) -> Result<Vec<Value>, RestError> {
        self.get(Route::Commands { application_id }, None).await
    }

    /// Replaces all commands of the bot.
    pub(crate) async fn set_commands(
        &self,
        application_id: ApplicationId,
        commands: &[CreateCommand],
    ) -> Result<(), RestError> {
        let route = Route::Commands { application_id };
        self.tell(with_body(route, LightMethod::Put, &commands)?).await
    }

    pub(crate) async fn respond(
        &self,
        interaction_id: InteractionId,
        token: &str,
        response: &CreateInteractionResponse,
    ) -> Result<(), RestError> {
        let route = Route::InteractionResponse { interaction_id, token };
        self.tell(with_body(route, LightMethod::Post, response)?).await
    }

    /// Replaces a deferred answer.
    pub(crate) async fn edit_response(
        &self,
        application_id: ApplicationId,
        token: &str,
        response: &Value,
    ) -> Result<(), RestError> {
        let route = Route::WebhookOriginalInteractionResponse { application_id, token };
        self.tell(with_body(route, LightMethod::Patch, response)?).await
    }

    /// Deletes a deferred answer.
    pub(crate) async fn drop_response(
        &self,
        application_id: ApplicationId,
        token: &str,
    ) -> Result<(), RestError> {
        let route = Route::WebhookOriginalInteractionResponse { application_id, token };
        self.tell(Request::new(route, LightMethod::Delete)).await
    }

    pub(crate) async fn follow_up(
        &self,
        application_id: ApplicationId,
        token: &str,
        response: &CreateInteractionResponseFollowup,
    ) -> Result<(), RestError> {
        let route = Route::WebhookWithToken { webhook_id: application_id.get().into(), token };
        self.tell(with_body(route, LightMethod::Post, response)?).await
    }

    /// Sends a request and ignores the answer's body.
    async fn tell(&self, request: Request<'_>) -> Result<(), RestError> {
        self.execute(request).await.map(drop)
    }
}
