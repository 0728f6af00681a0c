//! `cairn history`: the messages of a channel, printed or exported as files, one for each day.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cairn_core::spend::money;
use cairn_types::ids::{ChannelId, Seq, TurnId};
use cairn_types::message::Role;
use clap::Args;
use console::style;
use serde::{Deserialize, Serialize};

use crate::args::{ChannelArg, Global, SaidArgs};
use crate::client::{Client, with_params};
use crate::connect::{Connector, channel_path};
use crate::failure::Failure;
use crate::{args, out};
use cairn_api::lists::NEXT;
use cairn_api::records::{EndRecord, EntryRecord, cut_words, turn_outcome};
use cairn_api::text::{columns, counted, day, grouped, minute, one_line, plain};

/// Who is named where a message has no author.
pub const ASSISTANT: &str = "assistant";

/// Entries that are read at once; of long texts the daemon gives fewer.
const PAGE: usize = 1_000;

/// Entries that are shown unless asked otherwise.
const SHOWN: u64 = 100;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn history main                   the newest 100 entries, newest last
  cairn history main --tail 10
  cairn history main --since yesterday --user ann
  cairn history main --turn t17        all of one turn
  cairn history main --from 101        100 entries, from number 101 on
  cairn history main --limit 10000 --json
  cairn history main --export ~/main   all: ~/main/dialog/YYYY-MM-DD.jsonl

The margin of a turn's last entry shows the turn, the tokens and cost of its
calls, and how it ended; `cairn explain C TURN` shows more. Times are UTC, and
refer to when something was said, even if it arrived later.")]
pub struct HistoryArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// First entry, by its number (seq)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(0, u64::MAX))]
    from: Option<u64>,
    /// Last entry, by its number (seq)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(0, u64::MAX))]
    to: Option<u64>,
    /// Maximum number of entries, up to 10000: the newest, or with --from, --since or --turn the first [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::limit())]
    limit: Option<u64>,
    /// Only the newest N matching entries, up to 10000
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::limit(),
          conflicts_with = "limit")]
    tail: Option<u64>,
    #[command(flatten)]
    said: SaidArgs,
    /// Only the entries of this turn, such as t17
    #[arg(long, value_name = "ID")]
    turn: Option<String>,
    /// Write the whole history into this folder: one file per day (UTC), one JSON entry per line
    #[arg(long, value_name = "DIR",
          conflicts_with_all = ["from", "to", "limit", "tail", "since", "until", "user", "turn"])]
    export: Option<PathBuf>,
}

impl HistoryArgs {
    /// It goes on to newer entries; otherwise it is the newest of all that fit.
    fn is_forward(&self) -> bool {
        self.tail.is_none() && (self.from.is_some() || self.said.since.is_some() || self.turn.is_some())
    }
}

pub async fn history(global: Global, args: HistoryArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let channel = connector.channel(&args.channel.channel, None)?;
    let connection = connector.reading().await?;
    if let Some(dir) = &args.export {
        let exported = export(&connection.client, &channel, dir).await;
        return out::record(global.json, &connection.finish(exported).await?, Exported::text);
    }
    let found = collected(&connection.client, &channel, &args).await;
    let (records, next) = connection.finish(found).await?;
    let room = out::room();
    out::record(global.json, &records, |records| match records.as_slice() {
        [] => "nothing fits\n".to_owned(),
        records => records.iter().map(|record| shown_entry(record, room)).collect(),
    })?;
    if let (false, Some(next)) = (global.json, next) {
        let n = counted(records.len() as u64, "entry", "entries");
        out::note(&match args.is_forward() {
            true => format!("{n}; the next page: --from {next}"),
            false => format!("the newest {n}; older ones: --to {next}"),
        });
    }
    Ok(())
}

/// As many entries as are asked for, and where it goes on. A page may have less than it is asked for.
async fn collected(
    client: &Client,
    channel: &ChannelId,
    args: &HistoryArgs,
) -> Result<(Vec<EntryRecord>, Option<u64>), Failure> {
    let (is_forward, wanted) = (args.is_forward(), args.tail.or(args.limit).unwrap_or(SHOWN));
    let (mut from, mut to, mut records) = (args.from, args.to, Vec::new());
    loop {
        let left = Some((wanted - records.len() as u64).to_string());
        let mut params = vec![
            ("from", from.map(|seq| seq.to_string())),
            ("to", to.map(|seq| seq.to_string())),
            (if is_forward { "limit" } else { "tail" }, left),
            ("turn", args.turn.clone()),
        ];
        params.extend(args.said.params());
        let path = with_params(&channel_path(channel, "history"), &params);
        let (mut page, [next]) = client.get_with_headers::<Vec<EntryRecord>, 1>(&path, [NEXT]).await?;
        if is_forward {
            records.append(&mut page);
        } else {
            page.append(&mut records);
            records = page;
        }
        let next = next.and_then(|next| next.parse().ok());
        if next.is_none() || records.len() as u64 >= wanted {
            return Ok((records, next));
        }
        *(if is_forward { &mut from } else { &mut to }) = next;
    }
}

/// Where an entry's words begin.
const INDENT: &str = "        ";

/// An entry; `room`: the columns of a line, [`usize::MAX`] for a reader that takes any.
fn shown_entry(record: &EntryRecord, room: usize) -> String {
    let seq = record.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let who = match (&record.author, record.role) {
        (Some(author), _) => one_line(&author.name),
        (None, Role::Tool) => "tool".to_owned(),
        (None, _) => ASSISTANT.to_owned(),
    };
    let artifact = record.artifact.as_ref().map_or_else(String::new, |id| format!("  artifact {id}"));
    let shortened = if record.shortened { "  (the model sees head and tail)" } else { "" };
    let cut = cut_words(record.finish).map(|why| format!("  ({why})")).unwrap_or_default();
    let mut head =
        format!("{seq:>6}  {}  {who}  [{}]{artifact}{shortened}{cut}", minute(record.at), record.place);
    let margin = record.end.as_ref().map(|end| margin(&record.turn, end));
    let mut below = None;
    match margin {
        None => {}
        Some(margin) if room == usize::MAX => head.push_str(&format!("  {margin}")),
        Some(margin) if columns(&head) + columns(&margin) + 2 <= room => {
            head.push_str(&" ".repeat(room - columns(&head) - columns(&margin)));
            head.push_str(&style(margin).dim().to_string());
        }
        Some(margin) => below = Some(style(margin).dim().to_string()),
    }
    let calls = record.tool_calls.iter().map(|call| format!("calls {} {}", call.name, call.arguments));
    let mut lines: Vec<String> = plain(&record.text()).lines().map(str::to_owned).chain(calls).collect();
    let failure = record.end.as_ref().and_then(|end| turn_outcome(Some(&end.outcome)).1);
    lines.extend(failure.map(|why| format!("-- failed: {}", one_line(&why))));
    lines.extend(record.reactions_line().map(|line| style(format!("reactions: {line}")).dim().to_string()));
    lines.extend(below);
    let lines = lines.iter().map(|line| format!("{INDENT}{line}\n"));
    format!("{head}\n{}", lines.collect::<String>())
}

/// As in `t17  1,234 + 56 tokens of main, 0.0012  answered`.
fn margin(turn: &TurnId, end: &EndRecord) -> String {
    let (outcome, _) = turn_outcome(Some(&end.outcome));
    let Some(model) = &end.model else { return format!("{turn}  {outcome}") };
    let (asked, said) = (grouped(end.usage.input_tokens), grouped(end.usage.output_tokens));
    let money = end.cost.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    format!("{turn}  {asked} + {said} tokens of {}{money}  {outcome}", one_line(model))
}

/// Reads the whole history of a channel, page by page; what is pending comes last.
pub struct Pages<'a> {
    client: &'a Client,
    channel: &'a ChannelId,
    /// Where the next page starts, if there is one.
    next: Option<Seq>,
}

impl<'a> Pages<'a> {
    pub fn of(client: &'a Client, channel: &'a ChannelId) -> Self {
        Self { client, channel, next: Some(Seq(1)) }
    }

    pub async fn next(&mut self) -> Result<Option<Vec<EntryRecord>>, Failure> {
        let Some(from) = self.next.take() else { return Ok(None) };
        let params = [("from", Some(from.to_string())), ("limit", Some(PAGE.to_string()))];
        let path = with_params(&channel_path(self.channel, "history"), &params);
        let (records, [next]) = self.client.get_with_headers::<Vec<EntryRecord>, 1>(&path, [NEXT]).await?;
        self.next = next.and_then(|next| next.parse().ok()).map(Seq);
        Ok(Some(records))
    }
}

const DIALOG: &str = "dialog";

const OWNER: &str = "export.json";

/// What a folder of an export says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    channel: ChannelId,
}

#[derive(Debug, Serialize)]
struct Exported {
    channel: ChannelId,
    dir: PathBuf,
    /// The files, oldest day first.
    files: Vec<DayFile>,
    entries: u64,
}

#[derive(Debug, Serialize)]
struct DayFile {
    file: String,
    entries: u64,
}

impl Exported {
    fn text(&self) -> String {
        let lines = self.files.iter().map(|file| {
            let path = self.dir.join(&file.file);
            format!("{}  {}\n", path.display(), counted(file.entries, "entry", "entries"))
        });
        let files = counted(self.files.len() as u64, "file", "files");
        let all = format!("{} of {} in {files}\n", counted(self.entries, "entry", "entries"), self.channel);
        lines.chain([all]).collect()
    }
}

/// Writes the history of a channel, all sessions in order, and what is pending after it.
///
/// Each file is written beside its place and renamed when it is complete. A second export of the same channel brings the
/// files up to date.
async fn export(client: &Client, channel: &ChannelId, dir: &Path) -> Result<Exported, Failure> {
    // An unknown channel is an error before anything is written.
    let mut pages = Pages::of(client, channel);
    let mut page = pages.next().await?;
    let trouble = |error: io::Error| {
        Failure::failed(
            format!("cannot write the export to {}: {error}", dir.display()),
            "free some disk space, or name a folder that you may write to",
        )
    };
    claim(dir, channel)?;
    let mut days = Days::in_folder(&dir.join(DIALOG));
    while let Some(records) = page {
        records.iter().try_for_each(|record| days.write(record)).map_err(trouble)?;
        page = pages.next().await?;
    }
    let files = days.finish().map_err(trouble)?;
    let entries = files.iter().map(|file| file.entries).sum();
    Ok(Exported { channel: channel.clone(), dir: dir.to_owned(), files, entries })
}

/// Makes the folder the export of that channel, unless it holds something else.
fn claim(dir: &Path, channel: &ChannelId) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::failed(
            format!("cannot use {} for an export: {error}", dir.display()),
            "name a folder that you may write to; it is created if needed",
        )
    };
    let taken = |whose: String| {
        Failure::failed(
            format!("{} holds {whose}; nothing was written", dir.display()),
            "name another folder for this one",
        )
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.join(DIALOG)).map_err(failed)?;
    let owner = dir.join(OWNER);
    match fs::read(&owner) {
        Ok(bytes) => match serde_json::from_slice::<Owner>(&bytes) {
            Ok(known) if known.channel == *channel => return Ok(()),
            Ok(known) => return Err(taken(format!("the export of {}", known.channel))),
            Err(_) => return Err(taken(format!("an {OWNER} of unknown origin"))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let mut inside = fs::read_dir(dir.join(DIALOG)).map_err(failed)?;
    if inside.next().is_some() {
        return Err(taken(format!("a {DIALOG} of unknown origin")));
    }
    let written = serde_json::to_vec(&Owner { channel: channel.clone() }).map_err(io::Error::other);
    written.and_then(|bytes| put(&owner, |file| file.write_all(&bytes))).map_err(failed)
}

/// Opens a file that its owner alone may read, whatever the umask, and whoever might read what an export that was cut short
/// left there.
fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.create(true).mode(0o600).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Writes a file beside its place, and renames it when it is complete and durable.
fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = open_private(&beside, OpenOptions::new().write(true).truncate(true))?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// The files of the days, each beside its place until all is written.
struct Days {
    dir: PathBuf,
    counts: BTreeMap<String, u64>,
    /// The day that is being written; a history goes from day to day.
    open: Option<(String, BufWriter<File>)>,
}

impl Days {
    fn in_folder(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), counts: BTreeMap::new(), open: None }
    }

    fn beside(&self, day: &str) -> PathBuf {
        self.dir.join(format!("{day}.jsonl.new"))
    }

    fn write(&mut self, record: &EntryRecord) -> io::Result<()> {
        let day = day(record.at);
        if self.open.as_ref().is_none_or(|(open, _)| *open != day) {
            self.close()?;
            let mut options = OpenOptions::new();
            // An export that was cut short may have left a file: it is written again.
            let is_new = !self.counts.contains_key(&day);
            options.write(true).truncate(is_new).append(!is_new);
            let file = open_private(&self.beside(&day), &mut options)?;
            self.open = Some((day.clone(), BufWriter::new(file)));
        }
        if let Some((_, file)) = &mut self.open {
            serde_json::to_writer(&mut *file, record).map_err(io::Error::other)?;
            file.write_all(b"\n")?;
        }
        *self.counts.entry(day).or_default() += 1;
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some((_, file)) => file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all(),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> io::Result<Vec<DayFile>> {
        self.close()?;
        for day in self.counts.keys() {
            fs::rename(self.beside(day), self.dir.join(format!("{day}.jsonl")))?;
        }
        File::open(&self.dir)?.sync_all()?;
        let file = |(day, entries): (&String, &u64)| DayFile {
            file: format!("{DIALOG}/{day}.jsonl"),
            entries: *entries,
        };
        Ok(self.counts.iter().map(file).collect())
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::model::Usage;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn entry(outcome: serde_json::Value) -> EntryRecord {
        let mut end = json!({
            "model": "fast",
            "usage": Usage { input_tokens: 1_234, output_tokens: 56, ..Usage::default() },
            "cost": 0.0012,
        });
        end.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "seq": 4, "turn": "t2", "generation": 1, "at": "2026-11-23T07:15:00Z", "role": "assistant",
            "author": null, "message": null, "parts": [{ "type": "text", "text": "Yes.\nAt noon." }],
            "tool_calls": [], "tool_call_id": null, "tokens": 9, "place": "live", "end": end,
        }))
        .unwrap()
    }

    const HEAD: &str = "     4  2026-11-23 07:15  assistant  [live]";

    const MARGIN: &str = "t2  1,234 + 56 tokens of fast, 0.0012  answered";

    #[rstest]
    #[case::piped(usize::MAX, &format!("{HEAD}  {MARGIN}\n        Yes.\n        At noon.\n"))]
    #[case::wide(100, &format!("{HEAD}          {MARGIN}\n        Yes.\n        At noon.\n"))]
    #[case::just_wide_enough(92, &format!("{HEAD}  {MARGIN}\n        Yes.\n        At noon.\n"))]
    #[case::narrow(91, &format!("{HEAD}\n        Yes.\n        At noon.\n        {MARGIN}\n"))]
    fn a_margin_stands_beside_an_entry_or_below_it(#[case] room: usize, #[case] expected: &str) {
        assert_eq!(shown_entry(&entry(json!({ "outcome": "answered", "reply": 4 })), room), expected);
    }

    #[test]
    fn a_failure_says_why_below_the_words() {
        let failed = json!({ "outcome": "failed", "code": "model", "message": "no\u{1b}[2J answer" });
        let shown = shown_entry(&entry(failed), usize::MAX);
        assert!(shown.lines().next().unwrap().ends_with("  failed"), "{shown}");
        assert!(shown.ends_with("        -- failed: model: no\\u{1b}[2J answer\n"), "{shown}");
    }
}
