//! Piped input: one message a line, replies on stdout in order.

use cairn_api::error::ErrorDetail;
use cairn_types::tool::shown_name;
use serde_json::json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

use super::files::Attached;
use crate::commands::chat::{Heard, Line, NoAnswer, Talk};
use crate::failure::{Failure, exit};
use crate::out;
use cairn_api::text::one_line;

/// Sends each line and prints each reply. A line that cannot be answered is reported on stderr, and the next one follows; so
/// is a call that was denied because it needs approval.
pub(super) async fn talk(
    talk: &Talk,
    input: impl AsyncRead + Unpin,
    mut attached: Attached,
) -> Result<(), Failure> {
    let mut input = BufReader::new(input);
    let mut n_lines = 0_u64;
    let mut all_answered = true;
    while let Some(line) = read_line(&mut input).await? {
        n_lines += 1;
        let line_no = Some(n_lines);
        all_answered &= match String::from_utf8(line) {
            Ok(text) => answer(talk, &text, line_no, &mut attached).await?,
            Err(_) => {
                let message = "the line is not UTF-8, and was not sent".to_owned();
                let hint = "convert the input to UTF-8".to_owned();
                refused(talk, line_no, &ErrorDetail { code: "bad_text".to_owned(), message, hint })?
            }
        };
    }
    // They need no words.
    if !attached.is_empty() {
        all_answered &= answer(talk, "", None, &mut attached).await?;
    }
    if all_answered { Ok(()) } else { Err(Failure::Silent(exit::FAILED)) }
}

/// Sends one message with its files, or runs one command.
pub(super) async fn once(talk: &Talk, message: &str, mut attached: Attached) -> Result<(), Failure> {
    let answered = answer(talk, message, None, &mut attached).await?;
    if answered { Ok(()) } else { Err(Failure::Silent(exit::FAILED)) }
}

/// What an error begins with.
fn place(line_no: Option<u64>) -> String {
    line_no.map_or_else(String::new, |line_no| format!("line {line_no}: "))
}

/// Sends a message with what is attached and prints its reply, or runs a command. False: it failed, or a call was denied.
/// `line_no`: its line of the input, for what is told of it.
async fn answer(
    talk: &Talk,
    line: &str,
    line_no: Option<u64>,
    attached: &mut Attached,
) -> Result<bool, Failure> {
    let mut calls = Vec::new();
    let said = match Line::read(line) {
        Line::Command(command) => return command_answer(talk, command, line_no).await,
        Line::File(path) => {
            return attached
                .line(path)
                .await
                .map_or_else(|error| refused(talk, line_no, &error), |()| Ok(true));
        }
        Line::Message(text) => {
            let asked = talk.ask(text, attached.take(), |heard| match heard {
                Heard::Denied(approval) => calls.push(denied(&approval.tool, talk.channel.agent().as_str())),
                Heard::Waiting(why) => out::note(&one_line(why)),
            });
            asked.await
        }
    };
    for call in &calls {
        refused(talk, line_no, call)?;
    }
    match said {
        Ok(reply) if talk.json => out::json_line(&reply)?,
        Ok(reply) => {
            out::line(&reply.reply)?;
            if let Some(notice) = &reply.notice {
                out::note(&one_line(notice));
            }
        }
        Err(NoAnswer::Refused(error)) => return refused(talk, line_no, &error),
        Err(NoAnswer::Lost(failure)) => return Err(failure),
    }
    Ok(calls.is_empty())
}

/// Runs a command and prints what it answers. False: it was not carried out.
async fn command_answer(talk: &Talk, command: &str, line_no: Option<u64>) -> Result<bool, Failure> {
    match talk.command(command).await.map_err(NoAnswer::from) {
        Ok((words, done)) if talk.json => {
            out::json_line(&json!({ "command": command, "words": words, "failed": !done }))?;
            Ok(done)
        }
        Ok((words, true)) => out::line(words.trim_end()).map(|()| true),
        Ok((words, false)) => {
            out::note(&format!("error: {}{}", place(line_no), words.trim_end()));
            Ok(false)
        }
        Err(NoAnswer::Refused(error)) => refused(talk, line_no, &error),
        Err(NoAnswer::Lost(failure)) => Err(failure),
    }
}

/// Says why a line was not answered. False, for who goes on with the next.
fn refused(talk: &Talk, line_no: Option<u64>, error: &ErrorDetail) -> Result<bool, Failure> {
    if talk.json {
        out::json_line(&json!({ "error": error, "line": line_no }))?;
    } else {
        out::note(&format!("error: {}{}", place(line_no), error.message));
        out::note(&format!("hint: {}", error.hint));
    }
    Ok(false)
}

/// Which call was denied, and how to allow it.
fn denied(tool: &str, agent: &str) -> ErrorDetail {
    let tool = one_line(&shown_name(tool));
    ErrorDetail {
        code: "needs_approval".to_owned(),
        message: format!(
            "{tool} was not called: it needs approval, and nobody can be asked without a terminal"
        ),
        hint: format!(
            "to allow it always, set always_allow = [\"{tool}\"] in [agents.trust] of the agent `{agent}` or in \
             [defaults.trust]; to be asked, run `cairn chat` on a terminal"
        ),
    }
}

/// The next line without its end (LF or CRLF); `None` after the last.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let read = input.read_until(b'\n', &mut line).await;
    let n = read.map_err(|error| Failure::failed(format!("cannot read the input: {error}"), ""))?;
    line.pop_if(|byte| *byte == b'\n');
    line.pop_if(|byte| *byte == b'\r');
    Ok((n > 0).then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_end_with_lf_crlf_or_the_input() {
        let mut input = BufReader::with_capacity(2, b"one\r\n\ntwo".as_slice());
        let mut lines = Vec::new();
        while let Ok(Some(line)) = read_line(&mut input).await {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one", "", "two"]);
    }
}
