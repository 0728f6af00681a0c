//! A terminal: line editing, streamed replies, what was recalled, commands.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairn_api::error::ErrorDetail;
use cairn_api::message::IncomingFile;
use cairn_types::command::COMMANDS;
use cairn_types::memory::Memory;
use cairn_types::ports::Reply;
use cairn_types::texts::Texts;
use cairn_types::tool::approval::{Approval, reads_as, shown_arguments};
use console::{Term, style};
use futures::StreamExt;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, FilenameCompleter};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Cmd, Context, Editor, Helper, KeyCode, KeyEvent, Modifiers};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind};
use tokio::time::{Instant, interval_at};

use super::files::Attached;
use crate::client::{CallError, encode};
use crate::commands::chat::{Line, NoAnswer, Piece, Talk, decide};
use crate::connect::{channel_path, listen};
use crate::failure::{Failure, exit};
use crate::log::HeldLog;
use crate::out;
use cairn_api::records::StatusRecord;
use cairn_api::text::{Wrap, grouped, one_line, plain};
use cairn_config::OFFLINE;

/// Lines of earlier starts that are kept.
const HISTORY_MAX: usize = 1_000;

/// Behind a lock of its own: a line is read on a thread that blocks.
type SharedEditor = Arc<Mutex<Editor<CommandNames, FileHistory>>>;

/// Error code of a turn that somebody stopped.
const STOPPED: &str = "stopped";

const HELP: &str = "
Also in `cairn chat`:
- `/file PATH`: attach a file to the next message; without PATH: detach all
- `/quit`: exit (or press Ctrl-D)

Ctrl-C stops an answer; what you type during an answer is sent after it. Alt-Enter starts a new line.
To send a line that starts with /, write //.";

/// Reads, sends and prints until the person leaves. `history`: the file of the lines that were typed before.
pub(super) async fn talk(
    talk: &Talk,
    history: Option<PathBuf>,
    mut attached: Attached,
) -> Result<(), Failure> {
    let editor = editor(history.as_deref()).map_err(|error| terminal_failure(&error))?;
    let editor = Arc::new(Mutex::new(editor));
    // Before the terminal is changed: whatever ends the program puts it back first.
    let mut signals = Signals::listen()?;
    let unechoed = Unechoed::begin();
    let log = HeldLog::begin();
    for line in banner(talk).await? {
        out::line(&style(line).dim().to_string())?;
    }
    if !attached.is_empty() {
        out::line(&style(attached.shown()).dim().to_string())?;
    }
    let mut ahead = TypedAhead::default();
    loop {
        log.release();
        let line = match ahead.next_line() {
            Some(line) => {
                out::line(&style(format!("> {}", one_line(&line))).dim().to_string())?;
                line
            }
            None => match signals.until_end(read_line(&editor, ahead.begun(), history.clone())).await {
                None => return Ok(()),
                Some(read) => match read? {
                    Ok(line) => line,
                    Err(ReadlineError::Interrupted) => continue,
                    Err(ReadlineError::Eof) => return Ok(()),
                    Err(error) => return Err(terminal_failure(&error)),
                },
            },
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let flow = match Line::read(line) {
            Line::Message(text) => {
                let said = (text, attached.take());
                send(talk, &mut signals, &unechoed, &mut ahead, said).await
            }
            Line::File(path) => attach(&mut attached, path).await,
            Line::Command(command) => run_command(talk, &mut signals, command).await,
        };
        match flow {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(NoAnswer::Refused(error)) => refused(&error),
            Err(NoAnswer::Lost(failure)) => return lost(failure),
        }
    }
}

/// Sends one message and prints its answer as it comes.
pub(super) async fn once(talk: &Talk, text: &str, mut attached: Attached) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let unechoed = Unechoed::begin();
    let _log = HeldLog::begin();
    let said = (text, attached.take());
    match send(talk, &mut signals, &unechoed, &mut TypedAhead::default(), said).await {
        Ok(ControlFlow::Continue(())) => Ok(()),
        Ok(ControlFlow::Break(())) => Err(Failure::Silent(exit::FAILED)),
        Err(NoAnswer::Refused(error)) => {
            refused(&error);
            Err(Failure::Silent(exit::FAILED))
        }
        Err(NoAnswer::Lost(failure)) => lost(failure),
    }
}

/// Ends the line of a half answer before the error.
fn lost(failure: Failure) -> Result<(), Failure> {
    out::line("")?;
    Err(failure)
}

/// Attaches the file of a line `/file`, and names what goes with the next message.
async fn attach(attached: &mut Attached, path: &str) -> Result<ControlFlow<()>, NoAnswer> {
    attached.line(path).await.map_err(NoAnswer::Refused)?;
    print(&style(format!("({})\n", attached.shown())).dim().to_string())?;
    Ok(ControlFlow::Continue(()))
}

fn not_sent(talk: &Talk) -> ErrorDetail {
    ErrorDetail {
        code: "not_sent".to_owned(),
        message: "stopped before it was accepted".to_owned(),
        hint: format!("`cairn history {}` shows whether it was sent after all", talk.channel),
    }
}

/// Says why there is no answer. A stop that somebody asked for is no error.
fn refused(error: &ErrorDetail) {
    if error.code == STOPPED {
        return out::note(&style("(stopped)").dim().to_string());
    }
    out::note(&format!("{} {}", style("error:").red(), error.message));
    out::note(&format!("hint: {}", error.hint));
}

/// What answers here, and what to know first.
async fn banner(talk: &Talk) -> Result<[String; 2], Failure> {
    let status: StatusRecord = talk.client.get("/v1/status").await.map_err(Failure::from)?;
    let agent = status.agents.into_iter().find(|agent| agent.id == talk.channel.agent());
    let (who, keys) =
        (format!("{} as {}", talk.channel, talk.user), "/help lists the commands, Ctrl-D exits");
    Ok(match agent {
        Some(agent) if agent.model == OFFLINE => [
            format!(
                "{who}: the built-in offline model answers by quoting the conversation, without a network"
            ),
            format!("`cairn init` configures a real model; {keys}"),
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
    editor.set_helper(Some(CommandNames(FilenameCompleter::new())));
    // Terminals send Alt-Enter as Escape and Enter.
    editor.bind_sequence(KeyEvent::new('\r', Modifiers::ALT), Cmd::Newline);
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
    if let Some(file) = history.filter(|file| file.exists())
        && let Err(error) = editor.load_history(file)
    {
        tracing::debug!(%error, "lines of earlier starts cannot be read");
    }
    Ok(editor)
}

/// Completes the names of commands, and the paths of files.
struct CommandNames(FilenameCompleter);

impl Completer for CommandNames {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        if line.starts_with("/file ") {
            let (start, paths) = self.0.complete(line, pos, context)?;
            return Ok((start, paths.into_iter().map(|path| path.replacement).collect()));
        }
        let Some(begun) = line[..pos].strip_prefix('/') else { return Ok((pos, Vec::new())) };
        let names = COMMANDS.iter().map(|command| command.name).chain(["file", "quit"]);
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

fn broken_editor(error: &tokio::task::JoinError) -> Failure {
    Failure::failed(format!("the line editor failed: {error}"), "pipe the input instead")
}

fn terminal_failure(error: &ReadlineError) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"), "pipe the input instead")
}

/// What ends the program, or stops what is under way.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        let hangup = listen(SignalKind::hangup())?;
        Ok(Self { interrupt: listen(interrupt)?, terminate: listen(terminate)?, hangup })
    }

    /// Waits for somebody to end the program, or for Ctrl-C. True: it was Ctrl-C.
    async fn come(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
            _ = self.hangup.recv() => false,
        }
    }

    /// What comes of some work; none: the program is to end.
    async fn until_end<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Some(done),
                // The editor reads Ctrl-C as a key, and takes the signal for itself while it reads.
                interrupted = self.come() => if !interrupted { return None },
            }
        }
    }
}

/// While it lasts, what is typed during an answer waits for the next prompt, unseen and without a limit on a line's length.
struct Unechoed {
    before: Option<Termios>,
}

impl Unechoed {
    fn begin() -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        let unechoed = Self { before };
        unechoed.set(false);
        unechoed
    }

    /// Has what is typed shown, a line at a time, or not.
    fn set(&self, shown: bool) {
        let Some(before) = &self.before else { return };
        let mut modes = before.clone();
        if !shown {
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            // Else Ctrl-C would discard what was typed before it.
            modes.local_modes.insert(LocalModes::NOFLSH);
            // As the editor has it, for which Enter and the end of a line are different keys.
            modes.input_modes.remove(InputModes::ICRNL);
        }
        // Where the terminal is gone there is nothing to change.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Drain, &modes);
    }
}

impl Drop for Unechoed {
    fn drop(&mut self) {
        self.set(true);
    }
}

/// How long nothing more has to come of what was typed or pasted, which a terminal hands on in parts.
const QUIET: Duration = Duration::from_millis(100);

/// How often a line is looked for that is typed beside the editor.
const LOOK: Duration = Duration::from_millis(20);

/// What was typed before a question came that it does not answer.
#[derive(Default)]
struct TypedAhead(String);

impl TypedAhead {
    /// Takes what waits in the terminal, so that a question is answered only by what is typed after it.
    async fn take(&mut self) -> std::io::Result<()> {
        let mut typed = Vec::new();
        while let Some(bytes) = waiting()? {
            typed.extend(bytes);
            tokio::time::sleep(QUIET).await;
        }
        self.add(&String::from_utf8_lossy(&typed));
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

/// What can be read of the terminal at once, at the end of what is typed nothing. Not through the process's buffer: what it took
/// too much would be lost to the editor.
fn waiting() -> std::io::Result<Option<Vec<u8>>> {
    let stdin = std::io::stdin();
    let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
    if poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
        return Ok(None);
    }
    let mut bytes = vec![0; 4096];
    let n = rustix::io::read(&stdin, &mut bytes)?;
    bytes.truncate(n);
    Ok((n > 0).then_some(bytes))
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

async fn send(
    talk: &Talk,
    signals: &mut Signals,
    unechoed: &Unechoed,
    ahead: &mut TypedAhead,
    (text, files): (&str, Vec<IncomingFile>),
) -> Result<ControlFlow<()>, NoAnswer> {
    let mut working = Working { since: Instant::now(), shown: false };
    let second = Duration::from_secs(1);
    let mut seconds = interval_at(working.since + second, second);
    let mut pieces = tokio::select! {
        said = talk.say(text, files) => said?,
        interrupted = signals.come() => {
            return if interrupted { Err(NoAnswer::Refused(not_sent(talk))) } else { Ok(ControlFlow::Break(())) };
        }
    };
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
            interrupted = signals.come() => {
                if !interrupted {
                    return Ok(ControlFlow::Break(()));
                }
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
                if ask(talk, signals, unechoed, ahead, &approval).await?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
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
async fn ask(
    talk: &Talk,
    signals: &mut Signals,
    unechoed: &Unechoed,
    ahead: &mut TypedAhead,
    approval: &Approval,
) -> Result<ControlFlow<()>, NoAnswer> {
    let arguments = plain(&shown_arguments(&approval.arguments, Texts::english())).replace('\n', "\n  ");
    let tool = style(one_line(&approval.tool)).bold();
    ahead.take().await.map_err(|error| NoAnswer::Lost(error.into()))?;
    print(&format!(
        "\n{tool} may change something, and its arguments come partly from {}:\n  {arguments}\nallow it? [y/N] ",
        one_line(&approval.reason)
    ))?;
    unechoed.set(true);
    let answer = tokio::select! {
        answer = typed_line() => Some(answer),
        interrupted = signals.come() => {
            unechoed.set(false);
            if interrupted {
                stop(talk).await?;
            }
            return Ok(if interrupted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
        }
    };
    unechoed.set(false);
    let answer = answer.transpose().map_err(|error| NoAnswer::Lost(error.into()))?;
    let approve = answer.is_some_and(|line| reads_as(&line) == Some(true));
    if !decide(&talk.client, &approval.id, approve).await? {
        print("(somebody else answered it, or it expired)\n")?;
    }
    Ok(ControlFlow::Continue(()))
}

/// The next line that is typed, while the terminal hands on whole lines; empty at the end of what is typed.
async fn typed_line() -> std::io::Result<String> {
    loop {
        if let Some(bytes) = waiting()? {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        tokio::time::sleep(LOOK).await;
    }
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

async fn run_command(talk: &Talk, signals: &mut Signals, command: &str) -> Result<ControlFlow<()>, NoAnswer> {
    if matches!(command, "quit" | "exit") {
        return Ok(ControlFlow::Break(()));
    }
    let (words, _done) = tokio::select! {
        said = talk.command(command) => said?,
        interrupted = signals.come() => {
            print("(it may continue in the background; /status and /context show its state)\n")?;
            return Ok(if interrupted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
        }
    };
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
