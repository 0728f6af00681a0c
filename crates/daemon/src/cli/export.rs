//! `cairn history C --export DIR`: the whole history as files, one for each day.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use cairn_core::ids::{ChannelId, Seq};
use serde::{Deserialize, Serialize};

use super::client::{Client, with_params};
use super::connect::channel_path;
use super::failure::Failure;
use crate::records::EntryRecord;
use crate::text::{counted, day};

const PAGE: usize = 10_000;

const DIALOG: &str = "dialog";

const OWNER: &str = "export.json";

/// What a folder of an export says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    channel: ChannelId,
}

#[derive(Debug, Serialize)]
pub(crate) struct Exported {
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
    pub(crate) fn drawn(&self) -> String {
        let lines = self.files.iter().map(|file| {
            let path = self.dir.join(&file.file);
            format!("{}  {}\n", path.display(), counted(file.entries, "entry", "entries"))
        });
        let files = counted(self.files.len() as u64, "file", "files");
        let all = format!("{} of {} in {files}\n", counted(self.entries, "entry", "entries"), self.channel);
        lines.chain([all]).collect()
    }
}

/// Writes the history of a channel, all generations in order, and what waits behind it.
///
/// Each file is written beside its place and put there when it is whole: whoever reads meanwhile sees the export before or
/// after, day by day. A second export of the same channel brings the files up to date.
pub(crate) async fn export(client: &Client, channel: &ChannelId, dir: &Path) -> Result<Exported, Failure> {
    // An unknown channel is told before anything is written.
    let first = page(client, channel, Seq(1)).await?;
    let trouble = |error: io::Error| {
        Failure::failed(
            format!("cannot write the export to {}: {error}", dir.display()),
            "make room, or name a folder that you may write to",
        )
    };
    claim(dir, channel)?;
    let mut days = Days::in_folder(&dir.join(DIALOG));
    let mut records = first;
    loop {
        let last = records.iter().rev().find_map(|record| record.seq);
        let is_full = records.len() >= PAGE;
        // What waits comes again behind the last entry.
        let kept = records.iter().filter(|record| !is_full || record.seq.is_some());
        for record in kept {
            days.write(record).map_err(trouble)?;
        }
        match last.filter(|_| is_full) {
            Some(last) => records = page(client, channel, last.next()).await?,
            None => break,
        }
    }
    let files = days.finish().map_err(trouble)?;
    let entries = files.iter().map(|file| file.entries).sum();
    Ok(Exported { channel: channel.clone(), dir: dir.to_owned(), files, entries })
}

async fn page(client: &Client, channel: &ChannelId, from: Seq) -> Result<Vec<EntryRecord>, Failure> {
    let params = [("from", Some(from.to_string())), ("limit", Some(PAGE.to_string()))];
    let path = with_params(&channel_path(channel, "history"), &params);
    client.get(&path).await.map_err(Failure::from)
}

/// Makes the folder the export of that channel, unless it is something else's.
fn claim(dir: &Path, channel: &ChannelId) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::failed(
            format!("cannot use {} for an export: {error}", dir.display()),
            "name a folder that you may write to; it is made where it is not there",
        )
    };
    let taken = |whose: String| {
        Failure::failed(
            format!("{} holds {whose}; nothing was written", dir.display()),
            "name another folder for this one",
        )
    };
    fs::create_dir_all(dir.join(DIALOG)).map_err(failed)?;
    let owner = dir.join(OWNER);
    match fs::read(&owner) {
        Ok(bytes) => match serde_json::from_slice::<Owner>(&bytes) {
            Ok(known) if known.channel == *channel => return Ok(()),
            Ok(known) => return Err(taken(format!("the export of {}", known.channel))),
            Err(_) => return Err(taken(format!("an {OWNER} that is of no export"))),
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

/// Writes a file beside its place, and puts it there when it is whole and durable.
fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
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
            // What an export that was cut short has left is restarted.
            let is_new = !self.counts.contains_key(&day);
            options.create(true).write(true).truncate(is_new).append(!is_new);
            self.open = Some((day.clone(), BufWriter::new(options.open(self.beside(&day))?)));
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
