//! A terminal: line editing, streamed replies, what was recalled, commands.

use std::ops::ControlFlow;
use std::sync::Arc;

use cairn_core::approval::{Approval, reads_as, shown_arguments};
use cairn_core::memory::Memory;
use cairn_core::ports::Reply;
use console::style;
use futures::StreamExt;
use parking_lot::Mutex;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::{Value, json};

use super::{NoAnswer, Piece, Talk};
use crate::cli::client::{CallError, encode};
use crate::cli::connect::channel_path;
use crate::cli::failure::Failure;
use crate::cli::{channel, draw, out};
use crate::records::{CompactRecord, ContextRecord, NewGenerationRecord};
use crate::text::{Wrap, one_line, plain};

/// Behind a lock of its own: a line is read on a thread that blocks.
type Editor = Arc<Mutex<DefaultEditor>>;

const HELP: &str = "\
/context                what is in the window
/compact [instruction]  compact now
/new                    archive the conversation and start again
/quit                   leave (or press Ctrl-D)
/help                   this list
Ctrl-C stops an answer. To send a line that begins with /, write //.";

/// Reads, sends and prints until the person leaves.
pub(super) async fn talk(talk: &Talk) -> Result<(), Failure> {
    let greeting = format!("{} as {}; /help lists the commands", talk.channel, talk.user);
    out::line(&style(greeting).dim().to_string())?;
    let editor = DefaultEditor::new().map_err(|error| terminal_failure(&error))?;
    let editor = Arc::new(Mutex::new(editor));
    loop {
        let line = match read_line(Arc::clone(&editor), "> ").await? {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal_failure(&error)),
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let flow = match line.strip_prefix('/') {
            Some(rest) if rest.starts_with('/') => send(talk, &editor, rest).await,
            Some(command) => run_command(talk, command).await,
            None => send(talk, &editor, line).await,
        };
        match flow {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(NoAnswer::Refused(error)) => {
                out::note(&format!("{} {}", style("error:").red(), error.message));
                out::note(&format!("hint: {}", error.hint));
            }
            Err(NoAnswer::Lost(failure)) => return Err(failure),
        }
    }
}

/// Waits for a line on a thread of its own: the editor blocks.
async fn read_line(editor: Editor, prompt: &'static str) -> Result<Result<String, ReadlineError>, Failure> {
    let read = move || {
        let mut editor = editor.lock();
        let line = editor.readline(prompt)?;
        editor.add_history_entry(line.as_str())?;
        Ok(line)
    };
    tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| Failure::failed(format!("the line editor broke: {error}"), "pipe the input instead"))
}

fn terminal_failure(error: &ReadlineError) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"), "pipe the input instead")
}

async fn send(talk: &Talk, editor: &Editor, text: &str) -> Result<ControlFlow<()>, NoAnswer> {
    let mut pieces = talk.say(text).await?;
    let mut wrap = Wrap::new(out::width());
    let mut streamed = false;
    loop {
        let piece = tokio::select! {
            piece = pieces.next() => piece,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(|error| NoAnswer::Lost(error.into()))?;
                stop(talk).await?;
                continue;
            }
        };
        match piece.transpose()? {
            Some(Piece::Delta(text)) => {
                streamed = true;
                print(&wrap.feed(&plain(&text)))?;
            }
            Some(Piece::Restarted) => {
                (wrap, streamed) = (Wrap::new(out::width()), false);
                print(&style("\n(asking the model again)\n").dim().to_string())?;
            }
            Some(Piece::Tool { name, state }) => aside(&mut wrap, &format!("{name}: {state}"))?,
            Some(Piece::Waiting(why)) => aside(&mut wrap, &why)?,
            Some(Piece::Approval(approval)) => {
                print(&wrap.finish())?;
                wrap = Wrap::new(out::width());
                ask(talk, editor, &approval).await?;
            }
            Some(Piece::Reply(reply)) => {
                if !streamed {
                    print(&wrap.feed(&plain(&reply.reply)))?;
                }
                print(&wrap.finish())?;
                print("\n")?;
                if let Some(notice) = &reply.notice {
                    print(&style(format!("  {}\n", one_line(notice))).dim().to_string())?;
                }
                return recalled(talk, &reply).await;
            }
            Some(Piece::Failed(detail)) => {
                print(&wrap.finish())?;
                print("\n")?;
                return Err(NoAnswer::Refused(detail));
            }
            None => return Err(CallError::Broken("it ended before the answer did".to_owned()).into()),
        }
    }
}

/// A remark in parentheses, on a line of its own within the answer.
fn aside(wrap: &mut Wrap, text: &str) -> Result<(), NoAnswer> {
    print(&wrap.finish())?;
    *wrap = Wrap::new(out::width());
    print(&style(format!("\n({})\n", one_line(text))).dim().to_string())
}

/// Asks for approval of a call. Every answer but yes denies it; Ctrl-C stops the whole turn.
async fn ask(talk: &Talk, editor: &Editor, approval: &Approval) -> Result<(), NoAnswer> {
    let arguments = plain(&shown_arguments(&approval.arguments)).replace('\n', "\n  ");
    let tool = style(one_line(&approval.tool)).bold();
    print(&format!(
        "\n{tool} may change something, and its arguments come in part from {}:\n  {arguments}\n",
        one_line(&approval.reason)
    ))?;
    let answer = read_line(Arc::clone(editor), "allow it? [y/N] ").await.map_err(NoAnswer::Lost)?;
    let approve = match answer {
        Ok(line) => reads_as(&line) == Some(true),
        Err(ReadlineError::Interrupted) => {
            return stop(talk).await;
        }
        Err(ReadlineError::Eof) => false,
        Err(error) => return Err(NoAnswer::Lost(terminal_failure(&error))),
    };
    if !talk.decide(&approval.id, approve).await? {
        print("(it was answered elsewhere, or the time was up)\n")?;
    }
    Ok(())
}

/// Shows the memories that were in the window.
async fn recalled(talk: &Talk, reply: &Reply) -> Result<ControlFlow<()>, NoAnswer> {
    for id in &reply.recalled {
        let path = format!("/v1/memories/{}", encode(id.as_str()));
        match talk.client.get::<Memory>(&path).await {
            Ok(memory) => {
                let line = format!("  recalled {id}: {}\n", one_line(&memory.text));
                print(&style(line).dim().to_string())?;
            }
            // Forgotten since.
            Err(CallError::Api { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ControlFlow::Continue(()))
}

async fn run_command(talk: &Talk, command: &str) -> Result<ControlFlow<()>, NoAnswer> {
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match name {
        "help" => print(&format!("{HELP}\n"))?,
        "context" => {
            let record: ContextRecord = talk.client.get(&channel_path(&talk.channel, "context")).await?;
            print(&draw::context(&record, out::width()))?;
        }
        "compact" => {
            let body = json!({ "instruction": rest.trim(), "wait": true });
            let path = channel_path(&talk.channel, "compact");
            let record: CompactRecord = talk.client.post(&path, &body).await?;
            print(&format!("{}\n", channel::compacted(&record)))?;
        }
        "new" => {
            let path = channel_path(&talk.channel, "new");
            let record: NewGenerationRecord = talk.client.post(&path, &json!({})).await?;
            print(&format!("{}\n", channel::begun(&record)))?;
        }
        "quit" | "exit" => return Ok(ControlFlow::Break(())),
        _ => print(&format!("there is no command /{}; /help lists them\n", one_line(name)))?,
    }
    Ok(ControlFlow::Continue(()))
}

async fn stop(talk: &Talk) -> Result<(), NoAnswer> {
    talk.client.post::<Value>(&channel_path(&talk.channel, "stop"), &json!({})).await?;
    Ok(())
}

fn print(text: &str) -> Result<(), NoAnswer> {
    out::text(text).map_err(NoAnswer::Lost)
}
