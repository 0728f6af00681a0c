//! `cairn history`: the messages of a channel, printed or exported as files, one for each day.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cairn_core::ids::{ChannelId, Seq};
use cairn_core::message::Role;
use cairn_core::spend::money;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::args::{self, ChannelArg, Global};
use super::client::{Client, with_params};
use super::connect::{Connector, channel_path};
use super::failure::Failure;
use super::out;
use crate::records::{EndRecord, EntryRecord};
use crate::text::{counted, day, grouped, minute, one_line, plain};

/// Who is named where a message has no author.
pub(super) const ASSISTANT: &str = "assistant";

/// Entries that are read at once: the most that the API gives.
const PAGE: usize = 10_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cairn history main                   the first 100 entries
  cairn history main --from 101        the next page, from the last seq + 1 on
  cairn history main --limit 10000 --json
  cairn history main --export ~/main   all: ~/main/dialog/YYYY-MM-DD.jsonl")]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    channel: ChannelArg,
    /// First entry, by its seq
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(0, u64::MAX))]
    from: Option<u64>,
    /// Last entry, by its seq
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = args::number(0, u64::MAX))]
    to: Option<u64>,
    /// Most entries, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_negative_numbers = true,
          value_parser = args::limit())]
    limit: u64,
    /// Write the whole history into this folder: one file a day (UTC), one JSON entry a line
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to", "limit"])]
    export: Option<PathBuf>,
}

pub(crate) async fn history(global: Global, args: HistoryArgs) -> Result<(), Failure> {
    let connector = Connector::load(&global).await?;
    let channel = connector.channel(&args.channel.channel, None)?;
    if let Some(dir) = &args.export {
        let connection = connector.reading().await?;
        let exported = export(&connection.client, &channel, dir).await;
        return out::record(global.json, &connection.finish(exported).await?, Exported::text);
    }
    let params = [
        ("from", args.from.map(|from| from.to_string())),
        ("to", args.to.map(|to| to.to_string())),
        ("limit", Some(args.limit.to_string())),
    ];
    let path = with_params(&channel_path(&channel, "history"), &params);
    let records: Vec<EntryRecord> = connector.get(&path).await?;
    out::record(global.json, &records, |records| records.iter().map(shown_entry).collect())?;
    let last = records.last().and_then(|record| record.seq);
    if let (false, true, Some(last)) = (global.json, records.len() as u64 == args.limit, last) {
        let next = last.next();
        out::note(&format!("{}; the next page: --from {next}", counted(args.limit, "entry", "entries")));
    }
    Ok(())
}

fn shown_entry(record: &EntryRecord) -> String {
    let seq = record.seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let who = match (&record.author, record.role) {
        (Some(author), _) => one_line(&author.name),
        (None, Role::Tool) => "tool".to_owned(),
        (None, _) => ASSISTANT.to_owned(),
    };
    let artifact = record.artifact.as_ref().map_or_else(String::new, |id| format!("  artifact {id}"));
    let shortened = if record.shortened { "  (the model sees head and tail)" } else { "" };
    let mut block =
        format!("{seq:>6}  {}  {who}  [{}]{artifact}{shortened}\n", minute(record.at), record.place);
    let calls = record.tool_calls.iter().map(|call| format!("calls {} {}", call.name, call.arguments));
    for line in plain(&record.text()).lines().map(str::to_owned).chain(calls) {
        block.push_str(&format!("        {line}\n"));
    }
    if let Some((end, why)) = record.end.as_ref().and_then(|end| Some((end, end.why()?))) {
        block.push_str(&format!("        -- {}; {}\n", one_line(&why), cost(end)));
    }
    block
}

/// As in `1,234 + 56 tokens of main, 0.0012`.
fn cost(end: &EndRecord) -> String {
    let Some(model) = &end.model else { return "no model was called".to_owned() };
    let (asked, said) = (grouped(end.usage.input_tokens), grouped(end.usage.output_tokens));
    let money = end.cost.map(|cost| format!(", {}", money(cost))).unwrap_or_default();
    format!("{asked} + {said} tokens of {model}{money}")
}

/// Reads the whole history of a channel, page by page; what is pending comes last.
pub(super) struct Pages<'a> {
    client: &'a Client,
    channel: &'a ChannelId,
    /// Where the next page starts, if there is one.
    next: Option<Seq>,
}

impl<'a> Pages<'a> {
    pub(super) fn of(client: &'a Client, channel: &'a ChannelId) -> Self {
        Self { client, channel, next: Some(Seq(1)) }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<EntryRecord>>, Failure> {
        let Some(from) = self.next.take() else { return Ok(None) };
        let params = [("from", Some(from.to_string())), ("limit", Some(PAGE.to_string()))];
        let path = with_params(&channel_path(self.channel, "history"), &params);
        let mut records: Vec<EntryRecord> = self.client.get(&path).await?;
        if records.len() >= PAGE {
            // What is pending comes again after the last entry.
            records.retain(|record| record.seq.is_some());
            self.next = records.last().and_then(|record| record.seq).map(Seq::next);
        }
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
