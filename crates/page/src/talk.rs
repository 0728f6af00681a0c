//! Talking from the page: a local channel in the name that a visitor gives.

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Form};
use cairn_api::message::{CommandRequest, MessageRequest};
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM};
use maud::{Markup, html};
use serde::Deserialize;

use crate::asset::File;
use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_path, encoded, path, seen_again};
use crate::pieces::{command, said};
use crate::visitor::Visitor;
use cairn_server::api::Shared;
use cairn_server::messages::{self, LocalApi};

pub(super) const HERE: &str = "/talk";

#[derive(Deserialize)]
pub(super) struct TalkQuery {
    name: Option<String>,
    agent: Option<String>,
}

/// `GET /talk`: asks for a name; with one it leads to the channel of that name.
pub(super) async fn view(
    State(admin): State<Shared>,
    visitor: Visitor,
    Query(query): Query<TalkQuery>,
) -> Result<Response, PageError> {
    let name = query.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    if let Some(name) = name {
        let agent = query.agent.filter(|agent| !agent.is_empty()).map(AgentId::from);
        let agent = agent.as_ref().unwrap_or_else(|| admin.agent_registry.default_agent());
        let channel = ChannelId::local(agent, name).map_err(cairn_api::error::ApiError::from)?;
        return Ok(seen_again(&as_path(&channel, name)));
    }
    let loaded = admin.agent_registry.loaded();
    let agents: Vec<&str> = loaded.config.agents.iter().map(|agent| agent.id.as_str()).collect();
    let default = admin.agent_registry.default_agent().as_str();
    let body = html! {
        p { "This is a local channel named after you. Everybody with access to this page can read it." }
        @if !visitor.may_operate() { p.note { "This browser has read-only access: it can read the conversation but not send messages." } }
        form.filter method="get" action=(HERE) {
            p {
                label for="name" { "Your name" }
                input #name name="name" required maxlength="64" pattern="[A-Za-z0-9._\\-]+" title="letters, digits, and . _ -" autocomplete="nickname";
            }
            @if agents.len() > 1 {
                p { label for="agent" { "Agent" } select #agent name="agent" { @for agent in &agents { option value=(agent) selected[*agent == default] { (agent) } } } }
            }
            p { button { "Continue" } }
        }
    };
    let command = command(&["chat"]);
    Ok(layout(&Frame { title: "Talk", section: Section::Talk, visitor, command }, &body).into_response())
}

/// A channel, for somebody who talks there under a name.
fn as_path(channel: &ChannelId, name: &str) -> String {
    format!("{}?name={}", channel_path(channel), encoded(name))
}

pub(super) fn is_local(channel: &ChannelId) -> bool {
    channel.platform() == LOCAL_PLATFORM
}

/// What is being said, while scripts run, and the form to say something.
pub(super) fn form(channel: &ChannelId, name: Option<&str>, visitor: Visitor) -> Markup {
    html! {
        @if is_local(channel) && visitor.may_operate() {
            div #draft hidden { div.transcript { article.entry.agent { p.head { b { (channel.agent()) } " " span #doing role="status" {} } div #words.said dir="auto" tabindex="0" hidden {} } } }
            form #talk.talk method="post" action=(path(&["channels", channel.as_str(), "messages"])) {
                h2 { "Write a message" }
                p {
                    label for="name" { "Your name" }
                    input #name name="name" required maxlength="128" value=(name.unwrap_or_default()) autocomplete="nickname";
                }
                p {
                    label for="text" { "Message, or a command such as /help" }
                    textarea #text name="text" rows="3" required {}
                }
                p { button { "Send" } }
            }
            script src=(File::Talk.path()) defer {}
        }
    }
}

#[derive(Deserialize)]
pub(super) struct MessageForm {
    name: String,
    text: String,
}

/// `POST /channels/{channel}/messages`: takes a message and leads back; a script that asks for events gets the answer as it is written.
/// A command is answered at once.
pub(super) async fn say(
    State(admin): State<Shared>,
    Extension(local): Extension<LocalApi>,
    visitor: Visitor,
    Path(channel): Path<String>,
    headers: HeaderMap,
    Form(MessageForm { name, text }): Form<MessageForm>,
) -> Result<Response, PageError> {
    let channel = admin.resolve(&channel)?;
    let user = name.trim().to_owned();
    // Browsers send the line breaks of forms as two characters.
    let text = text.replace("\r\n", "\n");
    if let Some(given) = text.trim().strip_prefix('/') {
        let request = CommandRequest { user, command: given.to_owned(), id: None, agent: None };
        let reply = messages::run_command(&local, channel.as_str(), request).await?;
        let body = html! { div #reply { (said(&reply.words)) } p { a href=(as_path(&channel, name.trim())) { "Back to the conversation" } } };
        let title = format!("/{} in {channel}", given.split_whitespace().next().unwrap_or_default());
        let command = command(&["chat", channel.as_str()]);
        let frame = Frame { title: &title, section: Section::Talk, visitor, command };
        return Ok(layout(&frame, &body).into_response());
    }
    let request = MessageRequest { user, text, id: None, agent: None, at: None };
    let (message, admission) = messages::say(&local, channel.as_str(), request).await?;
    if messages::wants_events(&headers) {
        return Ok(messages::events(message, admission));
    }
    Ok(seen_again(&format!("{}#talk", as_path(&channel, name.trim()))))
}

/// A local channel in which nothing was said yet.
pub(super) fn empty(channel: &ChannelId, name: Option<&str>, visitor: Visitor) -> Markup {
    let title = channel.to_string();
    let body = html! { p { "There are no messages here yet." } (form(channel, name, visitor)) };
    let command = command(&["chat", channel.as_str()]);
    layout(&Frame { title: &title, section: Section::Talk, visitor, command }, &body)
}
