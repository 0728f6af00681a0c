//! The REST side: what a path asks for, who may ask, and how often.

mod commands;
pub(super) mod components;
mod content;
mod interactions;
mod messages;
mod places;
pub(super) mod refusal;

use hyper::Method;
use serde_json::{Value, json};

use super::serve::{Answered, Call, odd};
use super::world::Upload;
use super::{Route, Rule, Shared};
use crate::multipart;
use refusal::{Refusal, json_answer};

/// What a request asks for, and the numbers in its path.
pub(super) struct Path {
    pub(super) route: Route,
    /// The channel, server, interaction or application.
    major: u64,
    minor: u64,
    /// What else the path says: the token of an interaction, what of a server.
    rest: String,
}

impl Path {
    pub(super) fn of(call: &Call) -> Self {
        let path = |route, major: &str, minor: &str, rest: &str| {
            let number = |text: &str| text.parse().unwrap_or_default();
            Self { route, major: number(major), minor: number(minor), rest: rest.to_owned() }
        };
        let segments: Vec<&str> = call.path.split('/').skip(1).collect();
        let segments = match segments.as_slice() {
            ["api", "v10", rest @ ..] => rest,
            ["attachments", channel, file, name] if call.method == Method::GET => {
                return path(Route::File, channel, file, name);
            }
            _ => return path(Route::Unknown, "", "", ""),
        };
        match (call.method.as_str(), segments) {
            ("GET", ["gateway"]) => path(Route::Gateway, "", "", ""),
            ("GET", ["gateway", "bot"]) => path(Route::Gateway, "", "", "bot"),
            ("GET", ["users", "@me"]) => path(Route::Me, "", "", ""),
            ("GET", ["users", "@me", "guilds"]) => path(Route::Guild, "", "", "all"),
            ("POST", ["users", "@me", "channels"]) => path(Route::OpenDm, "", "", ""),
            ("GET", ["applications", "@me"] | ["oauth2", "applications", "@me"]) => {
                path(Route::Application, "", "", "")
            }
            ("GET", ["guilds", guild]) => path(Route::Guild, guild, "", "whole"),
            ("GET", ["guilds", guild, "members", user]) => path(Route::Guild, guild, user, "member"),
            ("GET", ["guilds", guild, "channels"]) => path(Route::Guild, guild, "", "channels"),
            ("GET", ["guilds", guild, "threads", "active"]) => path(Route::Guild, guild, "", "threads"),
            ("GET", ["channels", channel]) => path(Route::Channel, channel, "", ""),
            ("GET", ["channels", channel, "messages"]) => path(Route::Fetch, channel, "", "many"),
            ("POST", ["channels", channel, "messages"]) => path(Route::Send, channel, "", ""),
            ("GET", ["channels", channel, "messages", message]) => path(Route::Fetch, channel, message, ""),
            ("PATCH", ["channels", channel, "messages", message]) => path(Route::Edit, channel, message, ""),
            ("DELETE", ["channels", channel, "messages", message]) => {
                path(Route::Delete, channel, message, "")
            }
            (
                method @ ("PUT" | "DELETE"),
                ["channels", channel, "messages", message, "reactions", emoji, "@me"],
            ) => path(Route::React, channel, message, &format!("{method} {emoji}")),
            ("POST", ["channels", channel, "typing"]) => path(Route::Typing, channel, "", ""),
            ("GET" | "PUT", ["applications", app, "commands"]) => path(Route::Commands, app, "", ""),
            ("GET" | "PUT", ["applications", app, "guilds", guild, "commands"]) => {
                path(Route::Commands, app, guild, "")
            }
            ("POST", ["interactions", id, token, "callback"]) => path(Route::Callback, id, "", token),
            ("POST", ["webhooks", app, token]) => path(Route::Webhook, app, "", token),
            ("GET" | "PATCH" | "DELETE", ["webhooks", app, token, "messages", "@original"]) => {
                path(Route::Webhook, app, "1", token)
            }
            _ => path(Route::Unknown, "", "", ""),
        }
    }
}

/// What a request gets: a status and JSON, or a refusal.
type Outcome = Result<(u16, Value), Refusal>;

pub(super) fn answer(shared: &Shared, call: &Call, path: &Path) -> Answered {
    if path.route == Route::File {
        return places::file(shared, call, path);
    }
    let known = matches!(path.route, Route::Callback | Route::Webhook);
    let bearer = call.header("authorization");
    let authentic = bearer.strip_prefix("Bot ").is_some_and(|token| token == shared.builder.token);
    if !known && (!authentic || shared.state.lock().revoked) {
        return Refusal::unauthorized().answer();
    }
    if !call.header("user-agent").starts_with("DiscordBot (") {
        odd(shared, call, "its user agent does not begin with `DiscordBot (`");
    }
    let key = (path.route, if known { 0 } else { path.major });
    let (headers, wait) = shared.update(|state| {
        let (headers, wait) = state.limits.take(key, shared.builder.rate);
        if wait.is_some_and(|wait| wait.defiant) {
            state.violation(
                Rule::RateLimit,
                format!("{:?} of {} went on after a 429", path.route, path.major),
            );
        }
        (headers, wait)
    });
    let mut answered = match wait {
        Some(wait) => {
            let seconds = (wait.after.as_secs_f64() * 1000.0).ceil() / 1000.0;
            let text = "You are being rate limited.";
            json_answer(429, &json!({"message": text, "retry_after": seconds, "global": wait.global}))
        }
        None => match perform(shared, call, path) {
            Ok((status, body)) => json_answer(status, &body),
            Err(refusal) => refusal.answer(),
        },
    };
    if answered.status == 204 {
        answered.body.clear();
    }
    answered.headers.extend(headers);
    answered
}

fn perform(shared: &Shared, call: &Call, path: &Path) -> Outcome {
    match path.route {
        Route::Gateway | Route::Me | Route::Application | Route::Guild | Route::OpenDm | Route::Channel => {
            places::answer(shared, call, path)
        }
        Route::Send => messages::send(shared, call, path),
        Route::Edit => messages::edit(shared, call, path),
        Route::Delete => messages::delete(shared, path),
        Route::Fetch => messages::fetch(shared, call, path),
        Route::Typing => messages::typing(shared, path),
        Route::React => messages::react(shared, path),
        Route::Commands => commands::answer(shared, call, path),
        Route::Callback => interactions::callback(shared, call, path),
        Route::Webhook => interactions::webhook(shared, call, path),
        Route::File | Route::Unknown => {
            odd(shared, call, "there is no such path");
            Err(Refusal::not_found())
        }
    }
}

/// The body as JSON: whole, or the part `payload_json` of a form with files. The names of the files.
fn read(shared: &Shared, call: &Call) -> Result<(Value, Vec<String>), Refusal> {
    let content_type = call.header("content-type");
    let read = if content_type.starts_with("multipart/form-data") {
        form(content_type, &call.body)
            .map(|(body, files)| (body, files.into_iter().map(|file| file.name).collect()))
    } else if content_type.starts_with("application/json") {
        serde_json::from_slice(&call.body).map(|body| (body, Vec::new())).map_err(|error| error.to_string())
    } else {
        Err("its type is neither".to_owned())
    };
    read.map_err(|why| {
        odd(shared, call, &format!("its body is no JSON, nor a form with it (`{content_type}`): {why}"));
        Refusal::json()
    })
}

/// A form by the rules of "Uploading Files" in Discord's documentation: one part `payload_json`, and parts `files[N]` each of
/// which is an attachment that the payload names by `N`.
fn form(content_type: &str, body: &[u8]) -> Result<(Value, Vec<Upload>), String> {
    let parts = multipart::parse(content_type, body)?;
    let payload = parts.iter().find(|part| part.name == "payload_json").ok_or("there is no payload_json")?;
    let payload: Value = serde_json::from_slice(&payload.data).map_err(|error| error.to_string())?;
    let attachments = payload["attachments"].as_array().map_or(&[][..], Vec::as_slice);
    let mut files = Vec::new();
    for part in parts.into_iter().filter(|part| part.name != "payload_json") {
        let number =
            part.name.strip_prefix("files[").and_then(|rest| rest.strip_suffix(']')?.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("the field `{}`", part.name))?;
        let id = |attachment: &&Value| match &attachment["id"] {
            Value::String(id) => id.parse().ok() == Some(number),
            id => id.as_u64() == Some(number),
        };
        let named =
            attachments.iter().find(id).ok_or_else(|| format!("no attachment has the id {number}"))?;
        let name = part.file_name.filter(|name| !name.is_empty()).ok_or("a file without a name")?;
        if named["filename"].as_str().is_some_and(|other| other != name) {
            return Err(format!("the file `{name}` is named {} in the payload", named["filename"]));
        }
        let description = named["description"].as_str().map(str::to_owned);
        if description.as_ref().is_some_and(|text| text.chars().count() > 1024) {
            return Err("a description of more than 1,024 characters".to_owned());
        }
        let content_type = part.content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
        files.push(Upload { name, description, content_type, bytes: part.data });
    }
    if files.len() > 10 || files.len() != attachments.len() {
        return Err(format!("{} files and {} attachments", files.len(), attachments.len()));
    }
    Ok((payload, files))
}

/// The files of a request that [`read`] has read.
fn uploads(call: &Call) -> Vec<Upload> {
    form(call.header("content-type"), &call.body).map(|(_, files)| files).unwrap_or_default()
}
