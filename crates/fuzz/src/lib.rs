//! What strangers send, read by what reads it: one target for each kind of bytes, which asserts what must hold of whatever
//! they say. The tests replay the seeds and changes of them; `.ci/soak fuzz` has libFuzzer search for more.

mod answer;
mod config;
mod fetched;
mod gateway;
mod journal;
mod markdown;
mod mcp;
mod model;
mod sse;
mod summary;
mod text;

pub use answer::answer_text;
pub use config::config;
pub use fetched::{attachment, page};
pub use gateway::{discord_frame, telegram_update};
pub use journal::{journal_line, journal_segment};
pub use markdown::{markdown_discord, markdown_telegram};
pub use mcp::{mcp_message, tool_schema};
pub use model::{anthropic_answer, openai_answer, refusal, responses_answer};
pub use sse::sse;
pub use summary::summary;
pub use text::{digest, words};

/// Takes any bytes; panics where something does not hold.
pub type Target = fn(&[u8]);

/// All targets by their names, which are those of their folders of seeds and of libFuzzer's programs.
pub const TARGETS: [(&str, Target); 20] = [
    ("answer_text", answer_text),
    ("anthropic_answer", anthropic_answer),
    ("attachment", attachment),
    ("config", config),
    ("digest", digest),
    ("discord_frame", discord_frame),
    ("journal_line", journal_line),
    ("journal_segment", journal_segment),
    ("markdown_discord", markdown_discord),
    ("markdown_telegram", markdown_telegram),
    ("mcp_message", mcp_message),
    ("openai_answer", openai_answer),
    ("page", page),
    ("refusal", refusal),
    ("responses_answer", responses_answer),
    ("sse", sse),
    ("summary", summary),
    ("telegram_update", telegram_update),
    ("tool_schema", tool_schema),
    ("words", words),
];

/// The first byte says how long the pieces are in which the rest arrives.
fn in_pieces(data: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let Some((width, rest)) = data.split_first() else { return (data, Vec::new()) };
    (rest, rest.chunks(usize::from(*width % 61) + 1).collect())
}

/// Bytes as text, as far as they are.
fn lossy(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}
