//! What is simulated: the history of a channel or a file, as a script of turns and their sizes.

use std::path::Path;

use cairn_core::agent::WindowSize;
use cairn_core::tune::{ConversationSizes, ScriptTurn, TuneStep};
use cairn_core::window::entry_tokens;
use cairn_types::ids::{ChannelId, Generation, Seq};
use cairn_types::message::{Author, Entry, Part, Role};
use jiff::{SignedDuration, Timestamp};

use crate::client::Client;
use crate::commands::history::Pages;
use crate::commands::tune::TuneArgs;
use crate::connect::{Connector, channel_path};
use crate::failure::{Failure, exit};
use crate::jsonl::{self, EXPECTED, Line};
use cairn_api::records::{ContextRecord, EntryRecord};
use cairn_config::what_if::{ChannelScript, Source, add_step};

/// The script of a channel's history, with what is known of its agent.
pub(super) async fn of_channel(
    connector: &Connector,
    name: &str,
    agent: Option<&str>,
) -> Result<Source, Failure> {
    let channel = connector.channel(name, agent)?;
    let connection = connector.reading().await?;
    let read = read_channel(&connection.client, &channel).await;
    let (context, script) = connection.finish(read).await.map_err(|failure| or_a_file(failure, name))?;
    let window = WindowSize {
        window_tokens: context.window_tokens,
        output_reserve_tokens: context.output_reserve_tokens,
        source: context.window_source,
    };
    let (model, window) = (Some(context.model), Some(window));
    Ok(Source { script, agent: channel.agent(), model, window, runs: context.outcomes })
}

async fn read_channel(
    client: &Client,
    channel: &ChannelId,
) -> Result<(ContextRecord, ConversationSizes), Failure> {
    let context = client.get(&channel_path(channel, "context")).await?;
    let mut script = ChannelScript::default();
    let mut pages = Pages::of(client, channel);
    while let Some(page) = pages.next().await? {
        page.iter().filter_map(EntryRecord::in_script).for_each(|entry| script.add(&entry));
    }
    Ok((context, script.finish()))
}

/// The name may have been meant as a file.
fn or_a_file(failure: Failure, name: &str) -> Failure {
    match failure {
        Failure::Said { code: exit::NOT_FOUND, message, hint } => Failure::Said {
            code: exit::NOT_FOUND,
            message,
            hint: format!("there is no file `{name}` either; {hint}"),
        },
        other => other,
    }
}

struct Weighed {
    role: Role,
    tokens: u32,
    calls: bool,
    at: Option<Timestamp>,
}

/// The script of a file, `-` for stdin: read and checked completely; of its texts only the sizes are kept.
pub(super) fn of_file(
    file: &Path,
    args: &TuneArgs,
    max_text_bytes: usize,
) -> Result<ConversationSizes, Failure> {
    let (shown, bytes) = (file.display(), jsonl::read(file)?);
    let lines = jsonl::each(&bytes, |_, line| weighed(line, max_text_bytes))
        .map_err(|why| Failure::failed(format!("{shown}, {why}"), EXPECTED))?;
    if lines.is_empty() {
        return Err(Failure::failed(format!("{shown} is empty"), EXPECTED));
    }
    Ok(file_script(&lines, args.answer_tokens, SignedDuration::from_secs(args.gap_secs.into())))
}

fn weighed(line: &[u8], max_text_bytes: usize) -> Result<Weighed, String> {
    let mut line = Line::read(line)?;
    let (role, words, at) = (line.role.unwrap_or(Role::User), line.words(), line.said_at()?);
    let silent = words.trim().is_empty() && line.tool_calls.is_empty();
    if silent && line.tokens.is_none() && role != Role::Tool {
        return Err("`text` is missing or empty".to_owned());
    }
    if role == Role::User && words.len() > max_text_bytes {
        return Err(format!(
            "`text` is longer than {max_text_bytes} bytes (`max_message_bytes` in `[limits]`)"
        ));
    }
    let calls: Vec<String> = line.tool_calls.iter().map(ToString::to_string).collect();
    let said = if calls.is_empty() { words } else { format!("{words}\n{}", calls.join("\n")) };
    let tokens = line.tokens.unwrap_or_else(|| weigh(role, &line.user.unwrap_or_default(), &said));
    Ok(Weighed { role, tokens, calls: !calls.is_empty(), at })
}

/// Tokens of an entry as the window would show it.
fn weigh(role: Role, user: &str, text: &str) -> u32 {
    let author = (role == Role::User).then(|| Author { id: format!("local/{user}"), name: user.to_owned() });
    let entry = Entry {
        role,
        author,
        parts: vec![Part::text(text)],
        ..Entry::lost(Seq(1), &"t1".into(), Generation::default(), Timestamp::UNIX_EPOCH)
    };
    entry_tokens(&entry)
}

/// The lines as turns. Without any answer in the file each message is a turn of its own, as with `cairn import --answer`.
fn file_script(lines: &[Weighed], answer_tokens: u32, gap: SignedDuration) -> ConversationSizes {
    let has_answers = lines.iter().any(|line| line.role == Role::Assistant);
    let mut turns: Vec<ScriptTurn> = Vec::new();
    let mut at = Timestamp::UNIX_EPOCH;
    let mut answered = true;
    for line in lines {
        let begins = line.role == Role::User && answered;
        if begins {
            at = line.at.unwrap_or_else(|| at.checked_add(gap).unwrap_or(at));
            turns.push(ScriptTurn { at, generation: Generation::default().0, steps: Vec::new() });
            answered = false;
        }
        let Some(turn) = turns.last_mut() else { continue };
        add_step(&mut turn.steps, line.role, line.tokens, line.calls);
        if !has_answers && line.role == Role::User {
            turn.steps.push(TuneStep::Answer { tokens: answer_tokens });
        }
        answered = matches!(turn.steps.last(), Some(TuneStep::Answer { .. }));
    }
    ConversationSizes::new(turns)
}
