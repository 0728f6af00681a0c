//! `cairn chat`: talking to an agent, on a terminal or through a pipe.

mod files;
mod piped;
mod terminal;

use std::io::IsTerminal;
use std::path::PathBuf;

use axum::http::StatusCode;
use cairn_api::error::{ErrorBody, ErrorDetail};
use cairn_api::message::{CommandReply, CommandRequest, IncomingFile, MessageRequest};
use cairn_types::ids::{ApprovalId, ChannelId};
use cairn_types::ports::Reply;
use cairn_types::tool::approval::Approval;
use cairn_types::wire::sse::ServerEvent;
use clap::Args;
use futures::{Stream, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use self::files::Attached;
use crate::args::Global;
use crate::client::{CallError, Client, encode};
use crate::commands::channel;
use crate::connect::{Connector, channel_path};
use crate::failure::Failure;
use crate::{args, draw, out};
use cairn_api::records::{CompactRecord, ContextRecord, NewGenerationRecord};
use cairn_config::chat_history;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn chat                                talk; /help lists the commands
  cairn chat --channel ops --user ann
  cairn chat 'What did we decide?'          ask once
  cat questions.txt | cairn chat            one message per line, in order
  cairn chat --file plan.pdf 'Summarise it'
  echo 'What is this?' | cairn chat --file a.png

A line that starts with / is a command, as in chats: /help lists them. To send
a message that starts with /, write //. The line /file PATH attaches a file to
the next message.

Without a terminal, tool calls that need approval are denied, since nobody can
be asked. The exit code is 1 if that happened, or if a command or a turn
failed. With --json each reply is one line of JSON, and so is each error:
{\"error\": {\"code\": …, \"message\": …, \"hint\": …}, \"line\": 3}.")]
pub struct ChatArgs {
    /// The message: send it, print the answer and exit
    message: Option<String>,
    /// The agent to talk to [default: the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// The channel to talk in
    #[arg(long, value_name = "C", default_value = "main")]
    channel: String,
    /// Your name
    #[arg(long, value_name = "U", default_value = "user", value_parser = args::name)]
    user: String,
    /// A file to send with the message, or with the first line; repeatable
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
}

/// A conversation as its user sees it.
pub struct Talk {
    client: Client,
    channel: ChannelId,
    user: String,
    json: bool,
}

pub async fn chat(global: Global, args: ChatArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let mut attached = Attached::at_home(connector.env.var("HOME").map(PathBuf::from));
    for file in args.files {
        let added = attached.add(file).await;
        added.map_err(|error| Failure::usage(error.message, error.hint))?;
    }
    if let Some(Line::Command(_) | Line::File(_)) = args.message.as_deref().map(Line::read)
        && !attached.is_empty()
    {
        return Err(Failure::usage(
            "`--file` goes with a message, not with a command",
            "leave one of them out",
        ));
    }
    let channel = connector.channel(&args.channel, args.agent.as_deref())?;
    let connection = connector.changing().await?;
    let talk = Talk { client: connection.client.clone(), channel, user: args.user, json: global.json };
    let asks = std::io::stdin().is_terminal();
    // On a terminal Ctrl-C stops an answer, not the program.
    match args.message {
        Some(message) => match Line::read(&message) {
            Line::Message(text) if asks && std::io::stdout().is_terminal() && !talk.json => {
                connection.finish(Box::pin(terminal::once(&talk, text, attached)).await).await
            }
            Line::Message(_) | Line::Command(_) | Line::File(_) => {
                connection.carry_out(Box::pin(piped::once(&talk, &message, attached))).await
            }
        },
        None if asks => {
            let history = chat_history(connector.env.as_ref());
            connection.finish(Box::pin(terminal::talk(&talk, history, attached)).await).await
        }
        None => connection.carry_out(Box::pin(piped::talk(&talk, tokio::io::stdin(), attached))).await,
    }
}

#[derive(Debug)]
pub enum Piece {
    Delta(String),
    Restarted,
    Tool {
        name: String,
        /// `started`, `done`, `failed`.
        state: String,
    },
    /// A tool call waits for approval.
    Approval(Box<Approval>),
    /// No model answers, and the turn waits: why.
    Waiting(String),
    /// The whole answer; nothing more comes.
    Reply(Reply),
    Failed(ErrorDetail),
}

pub enum NoAnswer {
    /// It was refused or its turn failed; the next message may do better.
    Refused(ErrorDetail),
    Lost(Failure),
}

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Api { body, .. } => Self::Refused(body.error),
            error @ CallError::Broken(_) => Self::Lost(error.into()),
        }
    }
}

impl Talk {
    /// Sends a message; its pieces end with a reply or a failure.
    pub async fn say(
        &self,
        text: &str,
        files: Vec<IncomingFile>,
    ) -> Result<impl Stream<Item = Result<Piece, CallError>> + Unpin + use<>, NoAnswer> {
        let request = MessageRequest {
            user: self.user.clone(),
            text: text.to_owned(),
            id: None,
            agent: None,
            at: None,
            files,
        };
        let path = channel_path(&self.channel, "messages");
        loop {
            match self.client.events(&path, &request).await {
                Ok(events) => return Ok(pieces(events)),
                // It was not accepted, so sending it again cannot double it. A wait until midnight is too long, though.
                Err(CallError::Api {
                    status: StatusCode::TOO_MANY_REQUESTS,
                    retry_after_secs: Some(secs),
                    ..
                }) if secs <= 60 => {
                    tokio::time::sleep(std::time::Duration::from_secs(secs.max(1))).await;
                }
                Err(CallError::Api { body, .. }) if !request.files.is_empty() => {
                    let ErrorDetail { code, message, hint } = body.error;
                    let hint = format!("{hint}; the files were not sent either");
                    return Err(NoAnswer::Refused(ErrorDetail { code, message, hint }));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Runs a command, `name` with the words behind it: what it has to say, and whether it was carried out.
    pub async fn command(&self, command: &str) -> Result<(String, bool), CallError> {
        let (name, words) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let said = match name.to_ascii_lowercase().as_str() {
            // What a chat shows in a code block, or tells when it is over, has a form of its own here.
            "context" => {
                let path = channel_path(&self.channel, "context");
                draw::context(&self.client.get::<ContextRecord>(&path).await?, out::width())
            }
            "compact" => {
                let body = json!({ "instruction": words.trim(), "wait": true });
                let path = channel_path(&self.channel, "compact");
                channel::compacted(&self.client.post::<CompactRecord>(&path, &body).await?)
            }
            "new" => {
                let path = channel_path(&self.channel, "new");
                channel::begun(&self.client.post::<NewGenerationRecord>(&path, &json!({})).await?)
            }
            _ => {
                let command = command.to_owned();
                let request = CommandRequest { user: self.user.clone(), command, id: None, agent: None };
                let path = channel_path(&self.channel, "commands");
                let CommandReply { words, failed, .. } = self.client.post(&path, &request).await?;
                return Ok((words, !failed));
            }
        };
        Ok((said, true))
    }

    /// Sends a message and waits for its whole answer, while nobody can be asked.
    async fn ask(
        &self,
        text: &str,
        files: Vec<IncomingFile>,
        heard: impl FnMut(Heard<'_>),
    ) -> Result<Reply, NoAnswer> {
        unattended(&self.client, self.say(text, files).await?, heard).await
    }
}

/// What is told of an answer that nobody attends.
pub enum Heard<'h> {
    /// A call that needs approval was denied.
    Denied(&'h Approval),
    Waiting(&'h str),
}

/// Waits for the whole answer. A call that needs approval is denied at once, since nobody can be asked.
pub async fn unattended(
    client: &Client,
    mut pieces: impl Stream<Item = Result<Piece, CallError>> + Unpin,
    mut heard: impl FnMut(Heard<'_>),
) -> Result<Reply, NoAnswer> {
    while let Some(piece) = pieces.next().await {
        match piece? {
            Piece::Reply(reply) => return Ok(reply),
            Piece::Failed(detail) => return Err(NoAnswer::Refused(detail)),
            Piece::Approval(approval) => {
                if decide(client, &approval.id, false).await? {
                    heard(Heard::Denied(&approval));
                }
            }
            Piece::Waiting(why) => heard(Heard::Waiting(&why)),
            Piece::Delta(_) | Piece::Restarted | Piece::Tool { .. } => {}
        }
    }
    Err(CallError::Broken("it ended before the answer did".to_owned()).into())
}

/// Approves or denies a call. False: it no longer waits.
async fn decide(client: &Client, id: &ApprovalId, approve: bool) -> Result<bool, CallError> {
    let path = format!("/v1/approvals/{}", encode(id.as_str()));
    match client.post::<serde_json::Value>(&path, &json!({ "approve": approve })).await {
        Ok(_) => Ok(true),
        Err(CallError::Api { status: StatusCode::NOT_FOUND, .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a line asks for.
pub enum Line<'l> {
    Message(&'l str),
    /// Without the slash.
    Command(&'l str),
    /// `/file`: the path behind it.
    File(&'l str),
}

impl<'l> Line<'l> {
    pub fn read(line: &'l str) -> Self {
        match line.strip_prefix('/') {
            Some(rest) if rest.starts_with('/') => Self::Message(rest),
            Some(command) => {
                let command = command.trim();
                let (name, path) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
                if name == "file" { Self::File(path.trim()) } else { Self::Command(command) }
            }
            None => Self::Message(line),
        }
    }
}

pub fn pieces(
    events: impl Stream<Item = Result<ServerEvent, CallError>>,
) -> impl Stream<Item = Result<Piece, CallError>> + Unpin {
    Box::pin(events.filter_map(|event| async move { event.and_then(|event| piece(&event)).transpose() }))
}

fn piece(event: &ServerEvent) -> Result<Option<Piece>, CallError> {
    #[derive(Deserialize)]
    struct Delta {
        text: String,
    }
    #[derive(Deserialize)]
    struct Tool {
        name: String,
        state: String,
    }
    #[derive(Deserialize)]
    struct Waiting {
        message: String,
    }
    Ok(match event.name.as_str() {
        "delta" => Some(Piece::Delta(read::<Delta>(event)?.text)),
        "restarted" => Some(Piece::Restarted),
        "tool" => {
            let Tool { name, state } = read(event)?;
            Some(Piece::Tool { name, state })
        }
        "approval" => Some(Piece::Approval(Box::new(read(event)?))),
        "waiting" => Some(Piece::Waiting(read::<Waiting>(event)?.message)),
        "reply" => Some(Piece::Reply(read(event)?)),
        "error" => Some(Piece::Failed(read::<ErrorBody>(event)?.error)),
        _ => None,
    })
}

fn read<T: DeserializeOwned>(event: &ServerEvent) -> Result<T, CallError> {
    serde_json::from_str(&event.data)
        .map_err(|error| CallError::Broken(format!("cannot read its event `{}`: {error}", event.name)))
}
