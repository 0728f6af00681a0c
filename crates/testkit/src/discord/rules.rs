//! Routes, and the rules that requests must keep.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    /// `GET /gateway`, `GET /gateway/bot`.
    Gateway,
    /// `GET /users/@me`.
    Me,
    /// `GET /applications/@me`, `GET /oauth2/applications/@me`.
    Application,
    /// `GET /users/@me/guilds`, `GET /guilds/…`.
    Guild,
    /// `POST /users/@me/channels`.
    OpenDm,
    /// `GET /channels/C`.
    Channel,
    /// `POST /channels/C/messages`.
    Send,
    /// `PATCH /channels/C/messages/M`.
    Edit,
    /// `DELETE /channels/C/messages/M`.
    Delete,
    /// `GET /channels/C/messages`, `GET /channels/C/messages/M`.
    Fetch,
    /// `POST /channels/C/typing`.
    Typing,
    /// `PUT`, `DELETE` of `/channels/C/messages/M/reactions/E/@me`.
    React,
    /// `GET`, `PUT` of `/applications/A/commands`.
    Commands,
    /// `POST /interactions/I/TOKEN/callback`.
    Callback,
    /// `/webhooks/A/TOKEN…`: the answer of an interaction.
    Webhook,
    /// `GET /attachments/…`.
    File,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Requests are of a known form, with a known path, and name their client in Discord's way.
    Shape,
    /// Messages have words, and no more than fit.
    Length,
    /// Every message says that nobody is to be mentioned.
    Mentions,
    Preview,
    /// A nonce is short, and used for one message.
    Nonce,
    /// Only its own messages are edited.
    Foreign,
    /// After a 429 the client waits.
    RateLimit,
    /// No more than one identify in five seconds, and none without budget.
    Identify,
    Gateway,
    /// An interaction is answered once, and before it is followed up.
    Interaction,
    /// Buttons stand in rows, with words and an id of their own each.
    Components,
    /// The token goes to the API alone.
    Leak,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rule {:?} is broken: {}", self.rule, self.text)
    }
}
