//! Chat commands over the socket.

use crate::http::body::read_body;
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use cairn_api::error::ApiError;
use cairn_api::message::{CommandReply, CommandRequest, read_object};
use cairn_config::nearest;
use cairn_types::command::{COMMANDS, Command, CommandCall};
use cairn_types::ids::{LOCAL_PLATFORM, MessageId};
use cairn_types::message::Author;

use super::LocalApi;
use super::take::{check_name, resolve};

pub(super) async fn post_command(
    State(api): State<LocalApi>,
    channel: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Json<CommandReply>, ApiError> {
    let Path(channel) = channel.map_err(|error| ApiError::malformed(error.body_text()))?;
    let request = take(&api, body).await?;
    Ok(Json(run(&api, &channel, request).await?))
}

/// Runs a command that somebody gives in a local channel.
///
/// # Errors
/// The command is malformed or unknown, the channel is not local, or a command with its id was run before.
pub async fn run(api: &LocalApi, channel: &str, request: CommandRequest) -> Result<CommandReply, ApiError> {
    let call = check(api, channel, request)?;
    let message = call.message.clone();
    let api = api.clone();
    // In its own task, which does not end if the client disconnects.
    let answered = tokio::spawn(async move { api.chat_commands.run(call).await }).await;
    match answered.map_err(|error| ApiError::internal(&error))? {
        Some(answer) => Ok(CommandReply { message, words: answer.words, failed: answer.failed }),
        None => Err(ApiError::new(
            StatusCode::CONFLICT,
            "already_run",
            format!("the command {message} was run before"),
            "leave `id` out to run it again",
        )),
    }
}

/// Commands of a shell for which there is none in chats.
const OF_A_SHELL: [&str; 11] = [
    "channels", "config", "doctor", "explain", "history", "reload", "search", "spend", "summary", "tools",
    "tune",
];

/// A longer name is no misspelt one.
const NAME_MAX: usize = 32;

/// The command that was probably meant by that name.
fn hint(name: &str) -> String {
    let name = if (1..=NAME_MAX).contains(&name.len()) { name } else { "-" };
    let meant = |known: &[&'static str]| {
        let begun = known.iter().copied().find(|command| command.starts_with(name));
        begun.or_else(|| nearest(name, known))
    };
    let commands: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    match (meant(&commands), meant(&OF_A_SHELL)) {
        (Some(command), _) => format!("did you mean `{command}`? `/help` lists the commands"),
        (None, Some(command)) => {
            format!("did you mean `cairn {command}`, in a shell? `/help` lists the commands of chats")
        }
        (None, None) => "`/help` lists the commands".to_owned(),
    }
}

async fn take(api: &LocalApi, body: Body) -> Result<CommandRequest, ApiError> {
    let bytes = read_body(body, api.max_text_bytes.saturating_mul(6).saturating_add(64 * 1024))
        .await?
        .ok_or_else(|| ApiError::too_large(api.max_text_bytes))?;
    read_object(&bytes).map_err(|why| {
        ApiError::malformed(format!(
            "the body is not a command: {why}; expected {{\"user\": \"…\", \"command\": \"status\"}} in UTF-8"
        ))
    })
}

fn check(api: &LocalApi, channel: &str, request: CommandRequest) -> Result<CommandCall, ApiError> {
    let channel = resolve(api, channel, request.agent.as_deref())?;
    check_name("user", &request.user)?;
    let (name, words) = request.command.split_once(char::is_whitespace).unwrap_or((&request.command, ""));
    let command = Command::parse(name, words).ok_or_else(|| {
        let message = format!("there is no command `{}`", name.escape_debug());
        ApiError::not_found("no_such_command", message, hint(name))
    })?;
    let now = api.clock.now();
    let message = match request.id {
        Some(id) => {
            check_name("id", &id)?;
            MessageId::from(id)
        }
        None => api.mint.next(now),
    };
    Ok(CommandCall {
        channel,
        message,
        caller: Author { id: format!("{LOCAL_PLATFORM}/{}", request.user), name: request.user },
        direct: false,
        at: now,
        command,
        language: None,
    })
}
