//! A terminal: line editing, streamed replies, what was recalled, commands.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairn_core::approval::{Approval, reads_as, shown_arguments};
use cairn_core::command::COMMANDS;
use cairn_core::memory::Memory;
use cairn_core::ports::Reply;
use console::{Term, style};
use futures::StreamExt;
use parking_lot::Mutex;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Cmd, Context, DefaultEditor, Editor, Helper, KeyCode, KeyEvent, Modifiers};
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};

use super::{Line, NoAnswer, Piece, Talk};
use crate::cli::client::{CallError, encode};
use crate::cli::connect::channel_path;
use crate::cli::failure::Failure;
use crate::cli::out;
use crate::config::OFFLINE;
use crate::records::StatusRecord;
use crate::text::{Wrap, grouped, one_line, plain};

/// Lines of earlier starts that are kept.
const HISTORY_MAX: usize = 1_000;

/// Behind a lock of its own: a line is read on a thread that blocks.
type SharedEditor = Arc<Mutex<Editor<CommandNames, FileHistory>>>;

const HELP: &str = "
Here besides:
- `/quit`: leave (or press Ctrl-D)

Ctrl-C stops an answer. Alt-Enter begins a new line. To send a line that begins with /, write //.";

/// Reads, sends and prints until the person leaves. `history`: the file of the lines that were typed before.
pub(super) async fn talk(talk: &Talk, history: Option<PathBuf>) -> Result<(), Failure> {
    let _unechoed = Unechoed::begin();
    for line in banner(talk).await? {
        out::line(&style(line).dim().to_string())?;
    }
    let editor = Arc::new(Mutex::new(editor(history.as_deref()).map_err(|error| terminal_failure(&error))?));
    let mut ahead = TypedAhead::default();
    loop {
        let line = match ahead.next_line() {
            Some(line) => line,
            None => match read_line(&editor, ahead.begun(), history.clone()).await? {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(terminal_failure(&error)),
            },
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let flow = match Line::read(line) {
            Line::Message(text) => send(talk, &mut ahead, text).await,
            Line::Command(command) => run_command(talk, command).await,
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

/// What answers here, and what to know first.
async fn banner(talk: &Talk) -> Result<[String; 2], Failure> {
    let status: StatusRecord = talk.client.get("/v1/status").await.map_err(Failure::from)?;
    let agent = status.agents.into_iter().find(|agent| agent.id == talk.channel.agent());
    let (who, keys) =
        (format!("{} as {}", talk.channel, talk.user), "/help lists the commands, Ctrl-D leaves");
    Ok(match agent {
        Some(agent) if agent.model == OFFLINE => [
            format!("{who}: the embedded offline model answers by quoting what was said, without a network"),
            format!("`cairn init` asks for a real model and writes it into config.toml; {keys}"),
        ],
        Some(agent) => {
            let window = grouped(agent.window_tokens);
            [
                format!("{who}: the model `{}` answers, with a window of {window} tokens", agent.model),
                keys.to_owned(),
            ]
        }
        None => [who, keys.to_owned()],
    })
}

fn editor(history: Option<&Path>) -> Result<Editor<CommandNames, FileHistory>, ReadlineError> {
    let config = rustyline::Config::builder().max_history_size(HISTORY_MAX)?.auto_add_history(false).build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(CommandNames));
    // Terminals send Alt-Enter as Escape and Enter.
    editor.bind_sequence(KeyEvent::new('\r', Modifiers::ALT), Cmd::Newline);
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    if let Some(file) = history.filter(|file| file.exists()) {
        editor.load_history(file)?;
    }
    Ok(editor)
}

/// Completes the names of commands.
struct CommandNames;

impl Completer for CommandNames {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let Some(begun) = line[..pos].strip_prefix('/') else { return Ok((pos, Vec::new())) };
        let names = COMMANDS.iter().map(|command| command.name).chain(["quit"]);
        Ok((1, names.filter(|name| name.starts_with(begun)).map(str::to_owned).collect()))
    }
}

impl Hinter for CommandNames {
    type Hint = String;
}

impl Highlighter for CommandNames {}

impl Validator for CommandNames {}

impl Helper for CommandNames {}

/// Waits for a line on a thread of its own: the editor blocks. `begun`: what stands in it already.
async fn read_line(
    editor: &SharedEditor,
    begun: String,
    history: Option<PathBuf>,
) -> Result<Result<String, ReadlineError>, Failure> {
    let editor = Arc::clone(editor);
    let read = move || {
        let mut editor = editor.lock();
        let line = editor.readline_with_initial("> ", (&begun, ""))?;
        if editor.add_history_entry(line.as_str())?
            && let Some(file) = history
            && let Err(error) = kept(&mut editor, &file)
        {
            tracing::debug!(%error, "the line is not kept for the next start");
        }
        Ok(line)
    };
    tokio::task::spawn_blocking(read).await.map_err(|error| broken_editor(&error))
}

/// Writes the newest line to the file of lines, which only its owner may read.
fn kept(editor: &mut Editor<CommandNames, FileHistory>, file: &Path) -> Result<(), ReadlineError> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)?;
    }
    editor.append_history(file)
}

/// Asks for one line beside the editor, whose next lines may be pasted already.
async fn ask_apart(prompt: &'static str) -> Result<Result<String, ReadlineError>, Failure> {
    let read = move || DefaultEditor::new()?.readline(prompt);
    tokio::task::spawn_blocking(read).await.map_err(|error| broken_editor(&error))
}

fn broken_editor(error: &tokio::task::JoinError) -> Failure {
    Failure::failed(format!("the line editor broke: {error}"), "pipe the input instead")
}

fn terminal_failure(error: &ReadlineError) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"), "pipe the input instead")
}

/// While it lasts, what is typed during an answer waits for the next prompt, unseen and without a limit on a line's length.
struct Unechoed(Option<Termios>);

impl Unechoed {
    fn begin() -> Self {
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return Self(None) };
        let mut unechoed = before.clone();
        unechoed.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        Self(tcsetattr(&stdin, OptionalActions::Drain, &unechoed).is_ok().then_some(before))
    }
}

impl Drop for Unechoed {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // Where the terminal is gone there is nothing to put back.
            let _gone = tcsetattr(std::io::stdin(), OptionalActions::Drain, before);
        }
    }
}

/// What was typed before a question came that it does not answer.
#[derive(Default)]
struct TypedAhead(String);

impl TypedAhead {
    /// Takes what waits in the terminal, so that a question is answered only by what is typed after it.
    fn take(&mut self) -> std::io::Result<()> {
        let stdin = std::io::stdin();
        let waiting = usize::try_from(rustix::io::ioctl_fionread(&stdin)?).unwrap_or(0);
        let mut bytes = vec![0; waiting];
        // Not through the process's buffer: what it took too much would be lost to the editor.
        let n = if waiting > 0 { rustix::io::read(&stdin, &mut bytes)? } else { 0 };
        self.add(&String::from_utf8_lossy(&bytes[..n]));
        Ok(())
    }

    /// Adds what was typed, as an editor would have: without keys that write nothing.
    fn add(&mut self, typed: &str) {
        for c in console::strip_ansi_codes(typed).chars() {
            match c {
                '\r' | '\n' => self.0.push('\n'),
                '\x08' | '\x7f' if !self.0.ends_with('\n') => drop(self.0.pop()),
                c if c.is_control() => {}
                c => self.0.push(c),
            }
        }
    }

    fn next_line(&mut self) -> Option<String> {
        let (line, rest) = self.0.split_once('\n')?;
        let (line, rest) = (line.to_owned(), rest.to_owned());
        self.0 = rest;
        Some(line)
    }

    /// The line without its end.
    fn begun(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

/// Tells that an answer is being worked on, until its first piece comes.
struct Working {
    since: Instant,
    shown: bool,
}

impl Working {
    fn show(&mut self) -> Result<(), NoAnswer> {
        self.shown = true;
        let text = style(format!("(working, {} s)", self.since.elapsed().as_secs())).dim();
        out::raw(format!("\r{text}").as_bytes()).map_err(NoAnswer::Lost)
    }

    fn end(&mut self) -> Result<(), NoAnswer> {
        if std::mem::take(&mut self.shown) {
            out::raw(b"\r\x1b[2K").map_err(NoAnswer::Lost)?;
        }
        Ok(())
    }
}

async fn send(talk: &Talk, ahead: &mut TypedAhead, text: &str) -> Result<ControlFlow<()>, NoAnswer> {
    let mut working = Working { since: Instant::now(), shown: false };
    let second = Duration::from_secs(1);
    let mut seconds = interval_at(working.since + second, second);
    let mut pieces = talk.say(text).await?;
    let mut wrap = Wrap::new(out::width());
    let mut streamed = false;
    let mut waits = Term::stdout().is_term();
    loop {
        let piece = tokio::select! {
            piece = pieces.next() => piece,
            _ = seconds.tick(), if waits => {
                working.show()?;
                continue;
            }
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(|error| NoAnswer::Lost(error.into()))?;
                stop(talk).await?;
                continue;
            }
        };
        waits = false;
        working.end()?;
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
                ask(talk, ahead, &approval).await?;
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
async fn ask(talk: &Talk, ahead: &mut TypedAhead, approval: &Approval) -> Result<(), NoAnswer> {
    let arguments = plain(&shown_arguments(&approval.arguments)).replace('\n', "\n  ");
    let tool = style(one_line(&approval.tool)).bold();
    print(&format!(
        "\n{tool} may change something, and its arguments come in part from {}:\n  {arguments}\n",
        one_line(&approval.reason)
    ))?;
    ahead.take().map_err(|error| NoAnswer::Lost(error.into()))?;
    let answer = ask_apart("allow it? [y/N] ").await.map_err(NoAnswer::Lost)?;
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
    if matches!(command, "quit" | "exit") {
        return Ok(ControlFlow::Break(()));
    }
    let words = talk.command(command).await?;
    print(&format!("{}\n", words.trim_end()))?;
    if command == "help" {
        print(&format!("{}\n", HELP.trim_end()))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_ahead_comes_as_lines_and_the_line_that_was_begun() {
        let mut ahead = TypedAhead::default();
        ahead.add("one\rtwp\x7fo\n\x1b[Athr");
        ahead.add("ee");
        assert_eq!(ahead.next_line().as_deref(), Some("one"));
        assert_eq!(ahead.next_line().as_deref(), Some("two"));
        assert_eq!(ahead.next_line(), None);
        assert_eq!(ahead.begun(), "three");
    }
}
