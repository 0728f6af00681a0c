//! Talking from the page: a local channel in the name that a visitor gives.

use std::convert::Infallible;

use axum::body::HttpBody as _;
use axum::extract::{FromRequest as _, Path, Query, Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Form};
use cairn_api::error::ApiError;
use cairn_api::message::{CommandRequest, FILES_MAX, IncomingFile, MESSAGE_BYTES_MAX, MessageRequest};
use cairn_types::ids::{AgentId, ChannelId, LOCAL_PLATFORM};
use futures::stream;
use maud::{Markup, html};
use multer::Multipart;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::asset::File;
use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::{channel_path, encoded, path, seen_again};
use crate::pieces::{command, said};
use crate::visitor::Visitor;
use cairn_server::api::Shared;
use cairn_server::http::body::read_body;
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
        let channel = ChannelId::local(agent, name).map_err(ApiError::from)?;
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
            form #talk.talk method="post" enctype="multipart/form-data" action=(path(&["channels", channel.as_str(), "messages"])) {
                h2 { "Write a message" }
                p {
                    label for="name" { "Your name" }
                    input #name name="name" required maxlength="128" value=(name.unwrap_or_default()) autocomplete="nickname";
                }
                p {
                    label for="text" { "Message, or a command such as /help" }
                    textarea #text name="text" rows="3" {}
                }
                p {
                    label for="files" { "Files and pictures (up to " (FILES_MAX) ", " (MESSAGE_BYTES_MAX >> 20) " MiB together)" }
                    input #files name="files" type="file" multiple;
                }
                p { button { "Send" } }
            }
            script src=(File::Talk.path()) defer {}
        }
    }
}

#[derive(Default, Deserialize)]
struct MessageForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    text: String,
    #[serde(skip)]
    files: Vec<IncomingFile>,
}

/// Messages up to this size are read at once.
const SMALL_BYTES: u64 = 64 * 1024;

/// Larger messages that are read at the same time.
static READING: Semaphore = Semaphore::const_new(2);

/// Reads a form, with files or without.
async fn read_form(request: Request) -> Result<MessageForm, ApiError> {
    // What is short waits for no large one.
    let is_large = request.body().size_hint().upper().is_none_or(|bytes| bytes > SMALL_BYTES);
    let reading = if is_large { Some(READING.acquire().await) } else { None };
    // It is never closed.
    let _reading = reading.transpose().map_err(|closed| ApiError::internal(&closed))?;
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let Ok(boundary) = multer::parse_boundary(kind) else {
        let form = Form::<MessageForm>::from_request(request, &()).await;
        return form.map(|Form(form)| form).map_err(|error| ApiError::malformed(error.body_text()));
    };
    let body = read_body(request.into_body(), MESSAGE_BYTES_MAX).await?;
    let body = body.ok_or_else(messages::too_large)?;
    let chunks = stream::iter([Ok::<_, Infallible>(body)]);
    parts_of_form(Multipart::new(chunks, boundary)).await
}

async fn parts_of_form(mut parts: Multipart<'_>) -> Result<MessageForm, ApiError> {
    let wrong = |error: multer::Error| ApiError::malformed(format!("the form cannot be read: {error}"));
    let mut form = MessageForm::default();
    while let Some(part) = parts.next_field().await.map_err(wrong)? {
        match part.name() {
            Some("name") => form.name = part.text().await.map_err(wrong)?,
            Some("text") => form.text = part.text().await.map_err(wrong)?,
            Some("files") => {
                let name = part.file_name().unwrap_or_default().to_owned();
                let media_type = part.content_type().map(ToString::to_string);
                let bytes = part.bytes().await.map_err(wrong)?.to_vec();
                // Without a file browsers send an empty one without a name.
                if !name.is_empty() || !bytes.is_empty() {
                    form.files.push(IncomingFile { name, media_type, bytes });
                }
                if form.files.len() > FILES_MAX {
                    return Err(ApiError::malformed(format!("a message may have {FILES_MAX} files at most")));
                }
            }
            _ => return Err(ApiError::malformed("the form has a field that is not taken")),
        }
    }
    Ok(form)
}

/// `POST /channels/{channel}/messages`: takes a message with its files and leads back; a script that asks for events gets the
/// answer as it is written. A command is answered at once.
pub(super) async fn say(
    State(admin): State<Shared>,
    Extension(local): Extension<LocalApi>,
    visitor: Visitor,
    Path(channel): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, PageError> {
    let channel = admin.resolve(&channel)?;
    // Before its body, which may be large.
    messages::check_channel(&local, &channel)?;
    let MessageForm { name, text, files } = read_form(request).await?;
    let user = name.trim().to_owned();
    // Browsers send the line breaks of forms as two characters.
    let text = text.replace("\r\n", "\n");
    if let Some(given) = text.trim().strip_prefix('/').filter(|_| files.is_empty()) {
        return command_given(&local, visitor, &channel, user, given).await;
    }
    let back = format!("{}#talk", as_path(&channel, &user));
    let request = MessageRequest { user, text, id: None, agent: None, at: None, files };
    let (message, admission) = messages::say(&local, channel.as_str(), request).await?;
    if messages::wants_events(&headers) {
        return Ok(messages::events(message, admission));
    }
    Ok(seen_again(&back))
}

async fn command_given(
    local: &LocalApi,
    visitor: Visitor,
    channel: &ChannelId,
    user: String,
    given: &str,
) -> Result<Response, PageError> {
    let back = as_path(channel, &user);
    let request = CommandRequest { user, command: given.to_owned(), id: None, agent: None };
    let reply = messages::run_command(local, channel.as_str(), request).await?;
    let body =
        html! { div #reply { (said(&reply.words)) } p { a href=(back) { "Back to the conversation" } } };
    let title = format!("/{} in {channel}", given.split_whitespace().next().unwrap_or_default());
    let command = command(&["chat", channel.as_str()]);
    let frame = Frame { title: &title, section: Section::Talk, visitor, command };
    Ok(layout(&frame, &body).into_response())
}

/// A local channel in which nothing was said yet.
pub(super) fn empty(channel: &ChannelId, name: Option<&str>, visitor: Visitor) -> Markup {
    let title = channel.to_string();
    let body = html! { p { "There are no messages here yet." } (form(channel, name, visitor)) };
    let command = command(&["chat", channel.as_str()]);
    layout(&Frame { title: &title, section: Section::Talk, visitor, command }, &body)
}
