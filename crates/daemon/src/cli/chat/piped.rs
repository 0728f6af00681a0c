//! Piped input: one message a line, replies on stdout in order.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

use super::Talk;
use super::turn::NoAnswer;
use crate::cli::failure::Failure;
use crate::cli::text::plain;
use crate::cli::{exit, out};

/// Bytes of a line that are kept; one more than any limit of a message may be, so that the daemon refuses it.
const LINE_MAX_BYTES: usize = (64 << 20) + 1;

/// Sends each line and prints each reply. A line that cannot be answered is told on stderr, and the next one follows.
pub(super) async fn talk(talk: &Talk, input: impl AsyncRead + Unpin) -> Result<(), Failure> {
    let mut input = BufReader::new(input);
    let mut line_no = 0_u64;
    let mut all_answered = true;
    while let Some(line) = read_line(&mut input).await? {
        line_no += 1;
        let Ok(text) = String::from_utf8(line) else {
            all_answered = false;
            out::note(&format!("error: line {line_no} is not UTF-8; it was not sent"));
            out::note("hint: convert the input to UTF-8");
            continue;
        };
        match talk.ask(&text).await {
            Ok(reply) if talk.json => out::json_line(&reply)?,
            Ok(reply) => {
                out::line(&reply.reply)?;
                if let Some(notice) = &reply.notice {
                    out::note(&plain(notice));
                }
            }
            Err(NoAnswer::Refused(error)) => {
                all_answered = false;
                out::note(&format!("error: line {line_no}: {}", error.message));
                out::note(&format!("hint: {}", error.hint));
            }
            Err(NoAnswer::Lost(failure)) => return Err(failure),
        }
    }
    if all_answered { Ok(()) } else { Err(Failure::Silent(exit::FAILED)) }
}

/// The next line without its end (LF or CRLF); `None` after the last. What is beyond the limit is dropped.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let chunk = input
            .fill_buf()
            .await
            .map_err(|error| Failure::failed(format!("cannot read the input: {error}"), ""))?;
        if chunk.is_empty() {
            break;
        }
        any = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let content = &chunk[..end.unwrap_or(chunk.len())];
        let room = LINE_MAX_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&content[..content.len().min(room)]);
        let n_used = end.map_or(chunk.len(), |end| end + 1);
        input.consume(n_used);
        if end.is_some() {
            break;
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(any.then_some(line))
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
