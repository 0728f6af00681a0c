//! Piped input: one message a line, replies on stdout in order.

use cairn_api::error::ErrorDetail;
use cairn_types::tool::shown_name;
use serde_json::json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

use crate::commands::chat::{Heard, Line, NoAnswer, Talk};
use crate::failure::{Failure, exit};
use crate::out;
use cairn_api::text::one_line;

/// Sends each line and prints each reply. A line that cannot be answered is reported on stderr, and the next one follows; so
/// is a call that was denied because it needs approval.
pub(super) async fn talk(talk: &Talk, input: impl AsyncRead + Unpin) -> Result<(), Failure> {
    let mut input = BufReader::new(input);
    let mut line_no = 0_u64;
    let mut all_answered = true;
    while let Some(line) = read_line(&mut input).await? {
        line_no += 1;
        all_answered &= match String::from_utf8(line) {
            Ok(text) => answer(talk, &text, &format!("line {line_no}: ")).await?,
            Err(_) => {
                out::note(&format!("error: line {line_no} is not UTF-8; it was not sent"));
                out::note("hint: convert the input to UTF-8");
                false
            }
        };
    }
    if all_answered { Ok(()) } else { Err(Failure::Silent(exit::FAILED)) }
}

/// Sends one message, or runs one command.
pub(super) async fn once(talk: &Talk, message: &str) -> Result<(), Failure> {
    if answer(talk, message, "").await? { Ok(()) } else { Err(Failure::Silent(exit::FAILED)) }
}

/// Sends a message and prints its reply, or runs a command. False: it failed, or a call was denied. `place` begins what is told
/// of it.
async fn answer(talk: &Talk, line: &str, place: &str) -> Result<bool, Failure> {
    let mut n_denied = 0;
    let said = match Line::read(line) {
        Line::Command(command) => return command_answer(talk, command, place).await,
        Line::Message(text) => {
            let asked = talk.ask(text, |heard| match heard {
                Heard::Denied(approval) => {
                    n_denied += 1;
                    note_denied(place, &approval.tool, talk.channel.agent().as_str());
                }
                Heard::Waiting(why) => out::note(&one_line(why)),
            });
            asked.await
        }
    };
    match said {
        Ok(reply) if talk.json => out::json_line(&reply)?,
        Ok(reply) => {
            out::line(&reply.reply)?;
            if let Some(notice) = &reply.notice {
                out::note(&one_line(notice));
            }
        }
        Err(NoAnswer::Refused(error)) => return Ok(refused(place, &error)),
        Err(NoAnswer::Lost(failure)) => return Err(failure),
    }
    Ok(n_denied == 0)
}

/// Runs a command and prints what it answers. False: it was not carried out.
async fn command_answer(talk: &Talk, command: &str, place: &str) -> Result<bool, Failure> {
    match talk.command(command).await.map_err(NoAnswer::from) {
        Ok((words, done)) if talk.json => {
            out::json_line(&json!({ "command": command, "words": words, "failed": !done }))?;
            Ok(done)
        }
        Ok((words, true)) => out::line(words.trim_end()).map(|()| true),
        Ok((words, false)) => {
            out::note(&format!("error: {place}{}", words.trim_end()));
            Ok(false)
        }
        Err(NoAnswer::Refused(error)) => Ok(refused(place, &error)),
        Err(NoAnswer::Lost(failure)) => Err(failure),
    }
}

/// Says why a line was not answered. False, for who goes on with the next.
fn refused(place: &str, error: &ErrorDetail) -> bool {
    out::note(&format!("error: {place}{}", error.message));
    out::note(&format!("hint: {}", error.hint));
    false
}

/// Says which call was denied, and how to allow it.
fn note_denied(place: &str, tool: &str, agent: &str) {
    let tool = one_line(&shown_name(tool));
    out::note(&format!(
        "error: {place}{tool} was not called: it needs approval, and nobody can be asked without a terminal"
    ));
    out::note(&format!(
        "hint: to allow it always, set always_allow = [\"{tool}\"] in [agents.trust] of the agent `{agent}` or in \
         [defaults.trust]; to be asked, run `cairn chat` on a terminal"
    ));
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
