//! `cairn import`: imports conversations from other programs, with their answers; or, with `--answer`, has them answered anew.

mod answer;
mod formats;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use cairn_api::message::{ImportRecord, ImportRequest, ImportedMessage};
use cairn_api::text::{counted, grouped, one_line};
use cairn_types::ids::{ChannelId, LOCAL_PLATFORM};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::Global;
use crate::client::Client;
use crate::connect::{Connector, channel_path};
use crate::failure::{Failure, exit};
use crate::{jsonl, out};
pub(super) use answer::n_memories;
use answer::{Answered, answer};
use formats::{Format, Roles, Talk, detect, read};

/// Most messages and bytes of text in one request.
const BATCH_MESSAGES: usize = 200;
const BATCH_BYTES: usize = 1 << 20;

/// Conversations that are listed where one has to be chosen.
const LISTED: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Reads result.json from Telegram Desktop, JSON from DiscordChatExporter,
conversations.json from ChatGPT and Claude, OpenClaw sessions, and Cairn's
own JSON lines. It answers nothing and sends nothing. Messages that do not
fit the window are summarised in the background. If you import a file again,
only new messages are added.

With --answer the agent answers: what people said is sent to a local channel,
message by message and in order, as if they said it now; their names and times
are kept. The file's answers are not sent. Tool calls that need approval are
denied, since nobody can be asked. Run it again to continue after Ctrl-C or a
failure: messages that were answered or imported before are skipped.

A line of Cairn's own format; `at` and `id` are optional:
  {\"user\": \"ann\", \"text\": \"hello\", \"at\": \"2026-11-20T10:00:00Z\", \"id\": \"m1\"}
  {\"role\": \"assistant\", \"text\": \"hello Ann\"}

Examples:
  cairn import result.json --channel main/telegram/-1001234 --bot Rook
  cairn import conversations.json --chat \"Holiday plans\" --channel holidays
  cairn import conversations.json --all --user ann --dry-run
  gunzip -c talk.jsonl.gz | cairn import - --answer --channel talk")]
pub struct ImportArgs {
    /// The file; - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The agent that gets the channels [default: the first]
    #[arg(long, value_name = "A")]
    agent: Option<String>,
    /// The channel to import into: a new name, or a live chat as listed by
    /// `cairn channels` [default: derived from the conversation's title;
    /// `main` for Cairn's JSON lines]
    #[arg(long, value_name = "C", conflicts_with = "all")]
    channel: Option<String>,
    /// The conversation, by title or id, if the file has several
    #[arg(long, value_name = "TITLE", conflicts_with = "all")]
    chat: Option<String>,
    /// Import all conversations of the file, each into its own channel
    #[arg(long)]
    all: bool,
    /// The bot: its messages become the agent's answers; name or id (Telegram, Discord)
    #[arg(long, value_name = "WHO")]
    bot: Option<String>,
    /// The person who talked with a model (ChatGPT, Claude, OpenClaw)
    #[arg(long, value_name = "NAME", default_value = "user")]
    user: String,
    /// The file's format [default: detected from its content]
    #[arg(long, value_name = "F")]
    format: Option<Format>,
    /// Send each person's message as if it were said now, and wait for the
    /// answer; answers in the file are not sent
    #[arg(long)]
    answer: bool,
    /// Do not wait for compaction runs between messages and at the end
    #[arg(long, requires = "answer")]
    no_wait: bool,
    /// Show what would be imported or sent, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The result for one conversation.
#[derive(Debug, Serialize)]
struct TalkRecord {
    channel: String,
    title: String,
    /// Messages in the file.
    in_file: u64,
    /// Imported or sent messages from people.
    messages: u64,
    /// Imported answers, or those that the agent gave.
    answers: u64,
    /// Messages that the channel already had: with --answer, those that need no answer.
    known: u64,
    /// Service messages, messages without text, answers without a message before them or that are not to be sent.
    left_out: u64,
    /// Messages truncated to `max_message_bytes`.
    cut: u64,
    first_at: Option<String>,
    last_at: Option<String>,
    dry_run: bool,
    #[serde(flatten)]
    answered: Option<Answered>,
}

/// A conversation, its channel, and what is known of the result.
type Planned = (ChannelId, Talk, TalkRecord);

pub async fn import(global: Global, args: ImportArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let shown = args.file.display().to_string();
    let bytes = jsonl::read(&args.file)?;
    let format = args.format.or_else(|| detect(&bytes)).ok_or_else(|| {
        let hint =
            "`cairn import --help` lists the formats; with --format the error says where the file is broken";
        Failure::failed(format!("{shown} is in no known format"), hint)
    })?;
    let roles = Roles { bot: args.bot.clone(), user: args.user.clone() };
    let talks = read(format, &bytes, &roles).map_err(|why| {
        let hint = if format == Format::Lines { jsonl::EXPECTED } else { "is the file complete?" };
        Failure::failed(format!("{shown}, {why}"), format!("{hint}; nothing was imported or sent"))
    })?;
    drop(bytes);
    let talks = chosen(talks, &args, &shown)?;
    warn_of_bot(&talks, &roles, format);
    let mut names = BTreeSet::new();
    let planned = talks.into_iter().map(|talk| plan(&connector, &args, talk, &mut names));
    let planned = planned.collect::<Result<Vec<Planned>, Failure>>()?;
    let records = if args.dry_run {
        planned.into_iter().map(|(_, talk, record)| would_be(&talk, record)).collect()
    } else {
        let connection = connector.changing().await?;
        let client = connection.client.clone();
        connection.carry_out(Box::pin(import_all(client, planned, !args.no_wait))).await?
    };
    out::record(global.json, &records, |records| records.iter().map(text).collect())?;
    let has_failed = |record: &TalkRecord| record.answered.as_ref().is_some_and(|come| come.failed > 0);
    if records.iter().any(has_failed) { Err(Failure::Silent(exit::FAILED)) } else { Ok(()) }
}

/// The channel of a conversation, and what of it is imported or sent.
fn plan(
    connector: &Connector,
    args: &ImportArgs,
    mut talk: Talk,
    names: &mut BTreeSet<String>,
) -> Result<Planned, Failure> {
    let name = args.channel.clone().unwrap_or_else(|| channel_name(&talk, names));
    let channel = connector.channel(&name, args.agent.as_deref())?;
    if args.answer && channel.platform() != LOCAL_PLATFORM {
        return Err(Failure::usage(
            format!("--answer sends to local channels, and {channel} is one of {}", channel.platform()),
            "give another channel, such as `--channel talk`; without --answer it can be imported there",
        ));
    }
    let mut record = record_of(&talk, channel.to_string(), args.dry_run);
    if args.answer {
        talk.messages.retain(|message| message.user.is_some());
        record.left_out = record.in_file - talk.messages.len() as u64;
        record.answered = Some(Answered::default());
    }
    record.cut = cut(&mut talk.messages, connector.loaded.config.limits.max_message_bytes);
    Ok((channel, talk, record))
}

async fn import_all(client: Client, planned: Vec<Planned>, wait: bool) -> Result<Vec<TalkRecord>, Failure> {
    let mut records = Vec::new();
    for (channel, talk, mut record) in planned {
        if record.answered.is_some() {
            record.answered = Some(answer(&client, &channel, talk, wait, &mut record).await?);
        } else {
            import_one(&client, &channel, &talk, &mut record).await?;
        }
        records.push(record);
    }
    Ok(records)
}

async fn import_one(
    client: &Client,
    channel: &ChannelId,
    talk: &Talk,
    record: &mut TalkRecord,
) -> Result<(), Failure> {
    let path = channel_path(channel, "import");
    let bar = progress_bar(talk.messages.len() as u64);
    for batch in batches(&talk.messages) {
        let request = ImportRequest { messages: batch.to_vec(), direct: talk.direct };
        let came: ImportRecord = client.post(&path, &request).await?;
        record.messages += came.messages;
        record.answers += came.answers;
        record.known += came.known;
        record.left_out += came.orphaned;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// A progress bar on stderr, hidden when that is not a terminal.
fn progress_bar(n_messages: u64) -> ProgressBar {
    let bar = ProgressBar::new(n_messages);
    // A template that cannot be read leaves the default one in place.
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len}  {elapsed}  {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// What importing into a new channel would add.
fn would_be(talk: &Talk, mut record: TalkRecord) -> TalkRecord {
    record.answers = talk.messages.iter().filter(|message| message.user.is_none()).count() as u64;
    record.messages = talk.messages.len() as u64 - record.answers;
    record
}

/// The selected conversations.
fn chosen(talks: Vec<Talk>, args: &ImportArgs, shown: &str) -> Result<Vec<Talk>, Failure> {
    let mut talks: Vec<Talk> = talks.into_iter().filter(|talk| !talk.messages.is_empty()).collect();
    if let Some(chat) = &args.chat {
        talks.retain(|talk| talk.title == *chat || talk.id == *chat);
    }
    match talks.len() {
        0 => Err(match &args.chat {
            Some(chat) => Failure::failed(
                format!("{shown} has no conversation `{}`", one_line(chat)),
                "without --chat its conversations are listed",
            ),
            None => Failure::failed(format!("{shown} has no messages"), "is it the right file?"),
        }),
        1 => Ok(talks),
        _ if args.all => Ok(talks),
        n => {
            let mut lines: Vec<String> = talks
                .iter()
                .take(LISTED)
                .map(|talk| {
                    let n = counted(talk.messages.len() as u64, "message", "messages");
                    format!("  {} ({}), {n}", one_line(&talk.title), one_line(&talk.id))
                })
                .collect();
            if n > LISTED {
                lines.push(format!("  … and {} more", grouped((n - LISTED) as u64)));
            }
            let message = format!("{shown} has {} conversations:\n{}", grouped(n as u64), lines.join("\n"));
            Err(Failure::failed(message, "choose one with --chat TITLE, or use --all"))
        }
    }
}

/// Exports of chat networks do not say which user was the bot.
fn warn_of_bot(talks: &[Talk], roles: &Roles, format: Format) {
    let is_network = matches!(format, Format::Telegram | Format::Discord);
    let has_answers = talks.iter().flat_map(|talk| &talk.messages).any(|message| message.user.is_none());
    match &roles.bot {
        Some(bot) if is_network && !has_answers => {
            out::note(&format!(
                "warning: no user has the name or id `{}`, so no message counts as an answer",
                one_line(bot)
            ));
        }
        None if is_network => {
            out::note("note: without --bot WHO every message counts as a person's");
        }
        _ => {}
    }
}

fn record_of(talk: &Talk, channel: String, dry_run: bool) -> TalkRecord {
    TalkRecord {
        channel,
        title: talk.title.clone(),
        in_file: talk.messages.len() as u64 + talk.left_out,
        messages: 0,
        answers: 0,
        known: 0,
        left_out: talk.left_out,
        cut: 0,
        first_at: talk.messages.first().and_then(|message| message.at.clone()),
        last_at: talk.messages.last().and_then(|message| message.at.clone()),
        dry_run,
        answered: None,
    }
}

/// A channel name derived from the title, with a number if that name is taken.
fn channel_name(talk: &Talk, taken: &mut BTreeSet<String>) -> String {
    const NAME_CHARS: usize = 40;
    let slug = |text: &str| {
        let mut slug = String::new();
        for char in text.chars().flat_map(char::to_lowercase) {
            if char.is_ascii_alphanumeric() {
                slug.push(char);
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
            if slug.len() == NAME_CHARS {
                break;
            }
        }
        slug.trim_end_matches('-').to_owned()
    };
    let title = slug(&talk.title);
    let name = if title.is_empty() { slug(&talk.id) } else { title };
    let name = if name.is_empty() { "imported".to_owned() } else { name };
    let (mut free, mut n) = (name.clone(), 1);
    while !taken.insert(free.clone()) {
        n += 1;
        free = format!("{name}-{n}");
    }
    free
}

/// Truncates texts over `max` bytes; returns how many.
fn cut(messages: &mut [ImportedMessage], max: usize) -> u64 {
    const MARK: &str = " […]";
    let mut n = 0;
    for message in messages.iter_mut().filter(|message| message.text.len() > max) {
        let end = message.text.floor_char_boundary(max.saturating_sub(MARK.len()));
        message.text.truncate(end);
        message.text.push_str(MARK);
        n += 1;
    }
    n
}

/// Splits a conversation into requests. None starts with an answer to a message of the previous one.
fn batches(messages: &[ImportedMessage]) -> Vec<&[ImportedMessage]> {
    let (mut batches, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (idx, message) in messages.iter().enumerate() {
        let is_full = idx - from >= BATCH_MESSAGES || bytes + message.text.len() > BATCH_BYTES;
        if is_full && idx > from && message.user.is_some() {
            batches.push(&messages[from..idx]);
            (from, bytes) = (idx, 0);
        }
        bytes += message.text.len();
    }
    if from < messages.len() {
        batches.push(&messages[from..]);
    }
    batches
}

fn text(record: &TalkRecord) -> String {
    let messages = counted(record.messages, "message", "messages");
    let answers = counted(record.answers, "answer", "answers");
    let done = match (&record.answered, record.dry_run) {
        (None, false) => format!("imported {messages} and {answers}"),
        (None, true) => format!("would import {messages} and {answers}"),
        (Some(_), false) => format!("sent {messages}, got {answers}"),
        (Some(_), true) => format!("would send {messages}"),
    };
    let mut line = format!("{}: {done}", record.channel);
    let left_out = match record.answered {
        None => "skipped (service messages, no text, twice, or no message before an answer)",
        Some(_) => "skipped (answers in the file, service messages, no text, or twice)",
    };
    let more = [
        (record.answered.as_ref().map_or(0, |come| come.failed), "failed"),
        (record.known, "already there"),
        (record.left_out, left_out),
        (record.cut, "truncated to `max_message_bytes` of [limits]"),
    ];
    // Writing to a string does not fail.
    for (n, what) in more.into_iter().filter(|(n, _)| *n > 0) {
        let _ = write!(line, "; {} {what}", grouped(n));
    }
    if let (Some(first), Some(last)) = (&record.first_at, &record.last_at) {
        let day = |at: &str| at.get(..10).unwrap_or_default().to_owned();
        let _ = write!(line, "; {} to {}", day(first), day(last));
    }
    line.push('\n');
    match &record.answered {
        Some(come) if !record.dry_run => line + &come.text(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(user: Option<&str>, text: &str) -> ImportedMessage {
        let id = "m".to_owned();
        ImportedMessage { id, at: None, user: user.map(str::to_owned), name: None, text: text.to_owned() }
    }

    #[test]
    fn no_batch_separates_an_answer_from_its_question() {
        let mut messages: Vec<_> = (0..BATCH_MESSAGES).map(|_| message(Some("a"), "x")).collect();
        messages.extend([message(None, "y"), message(None, "z"), message(Some("a"), "x")]);
        let sizes: Vec<_> = batches(&messages).iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [BATCH_MESSAGES + 2, 1]);
        let long = "x".repeat(BATCH_BYTES / 2 + 1);
        let messages = vec![message(Some("a"), &long), message(Some("a"), &long), message(None, "y")];
        assert_eq!(batches(&messages).iter().map(|batch| batch.len()).collect::<Vec<_>>(), [1, 2]);
        assert!(batches(&[]).is_empty());
    }

    #[test]
    fn channel_names_derive_from_titles_and_are_unique() {
        let mut taken = BTreeSet::new();
        let mut name = |title: &str| {
            let talk = Talk {
                id: "c-9".to_owned(),
                title: title.to_owned(),
                direct: true,
                messages: Vec::new(),
                left_out: 0,
            };
            channel_name(&talk, &mut taken)
        };
        let names = [name("Holiday plans: 2026!"), name("holiday plans 2026"), name("旅行"), name("旅行")];
        assert_eq!(names, ["holiday-plans-2026", "holiday-plans-2026-2", "c-9", "c-9-2"]);
    }
}
