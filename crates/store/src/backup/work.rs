//! The copying itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cairn_core::event::{ArtifactEvent, Event, Record};
use cairn_core::ids::{ArtifactId, ChannelId};
use cairn_core::ports::StoreError;
use jiff::Timestamp;

use super::manifest::{self, Item, Manifest};
use super::pass::{Pass, Passed};
use super::place::Place;
use super::{BackupError, BackupReport};
use crate::disk::{io_error, make_dir, sync_dir};
use crate::format;
use crate::journal::open::{Tail, last_n};
use crate::store::{Inner, Layout};

/// Artifacts that are named and not expired, by channel.
type Named = BTreeMap<ChannelId, BTreeSet<ArtifactId>>;

/// Copies the state of an open store to `dir`. The caller holds the lease.
pub(super) fn back_up(inner: &Inner, dir: &Path, at: Timestamp) -> Result<BackupReport, BackupError> {
    let state = &inner.options.dir;
    let place = Place::prepare(dir, state)?;
    // From here on no artifact's file goes: all that the durable prefix names are there until they are copied.
    let _held = inner.artifacts.hold();
    let tail = inner.appender.durable().borrow().tail;
    let mut copy = Copy { state, to: &place.partial, items: Vec::new(), named: Named::new(), records: 0 };
    let made = copy.all(inner, &tail, at).and_then(|report| place.finish().map(|()| report));
    match made {
        Ok(report) => Ok(BackupReport { dir: dir.to_owned(), ..report }),
        Err(error) => {
            place.give_up();
            Err(error)
        }
    }
}

struct Copy<'a> {
    state: &'a Path,
    to: &'a Path,
    items: Vec<Item>,
    named: Named,
    records: u64,
}

impl Copy<'_> {
    fn all(&mut self, inner: &Inner, tail: &Tail, at: Timestamp) -> Result<BackupReport, BackupError> {
        self.journal(inner, tail)?;
        let segments = self.items.len() as u64;
        let missing = self.artifacts(inner)?;
        let artifacts = self.items.len() as u64 - segments;
        self.file(format::FILE)?;
        let items = std::mem::take(&mut self.items);
        let report = BackupReport {
            dir: PathBuf::new(),
            created_at: at,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            last_record: tail.n,
            records: self.records,
            segments,
            artifacts,
            files: items.len() as u64,
            bytes: items.iter().map(|item| item.bytes).sum(),
            missing,
        };
        let path = self.to.join(manifest::FILE);
        let bytes = Manifest::new(at, tail.n, items).encode().map_err(|error| StoreError::Io {
            action: "encode",
            path: path.display().to_string(),
            message: error.to_string(),
        })?;
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(&bytes)?;
            file.sync_all()
        };
        write().map_err(io_error("write", &path))?;
        Ok(report)
    }

    /// The segments up to the tail, each line checked.
    fn journal(&mut self, inner: &Inner, tail: &Tail) -> Result<(), BackupError> {
        let (from, into) = (Layout::of(self.state).journal, self.to.join("journal"));
        make_dir(&into)?;
        let mut last = 0;
        for (first, name) in segments(&from)? {
            if tail.n == 0 || first > tail.segment {
                continue;
            }
            inner.goes_on()?;
            let end = (first == tail.segment).then_some(tail.len);
            let pass = Pass::open(&from.join(&name), end, Some(&into.join(&name)))?;
            let passed = pass.records(|record| {
                follows(record, last)?;
                last = last_n(&record.event, record.n);
                self.records += 1;
                note(&mut self.named, record);
                Ok(())
            })?;
            self.add(format!("journal/{name}"), passed);
        }
        if last != tail.n {
            return Err(StoreError::Io {
                action: "copy",
                path: from.display().to_string(),
                message: format!("it ends with record {last}, and record {} is durable", tail.n),
            }
            .into());
        }
        Ok(sync_dir(&into).map_err(io_error("sync", &into))?)
    }

    /// The artifacts that the copied journal names. Returns those that are gone.
    fn artifacts(&mut self, inner: &Inner) -> Result<Vec<String>, BackupError> {
        let into = self.to.join("artifacts");
        make_dir(&into)?;
        let mut missing = Vec::new();
        for (channel, ids) in std::mem::take(&mut self.named) {
            for id in ids {
                inner.goes_on()?;
                let from = inner.artifacts.file(&channel, &id);
                let Ok(within) = from.strip_prefix(self.state) else { continue };
                let (to, name) = (self.to.join(within), within.display().to_string());
                if matches!(fs::metadata(&from), Err(error) if error.kind() == io::ErrorKind::NotFound) {
                    missing.push(format!("channel {channel}: artifact {id} ({}) is missing", from.display()));
                    continue;
                }
                if let Some(folder) = to.parent() {
                    make_dir(folder)?;
                }
                let passed = Pass::open(&from, None, Some(&to))?.bytes()?;
                self.add(name, passed);
            }
        }
        let sync = || {
            for folder in fs::read_dir(&into)? {
                sync_dir(&folder?.path())?;
            }
            sync_dir(&into)
        };
        sync().map_err(io_error("sync", &into))?;
        Ok(missing)
    }

    fn file(&mut self, name: &str) -> Result<(), BackupError> {
        let passed = Pass::open(&self.state.join(name), None, Some(&self.to.join(name)))?.bytes()?;
        self.add(name.to_owned(), passed);
        Ok(())
    }

    fn add(&mut self, path: String, passed: Passed) {
        self.items.push(Item { path, bytes: passed.bytes, sha256: passed.sha256 });
    }
}

/// Numbers are whole: none is missing before a record, and none comes twice.
pub(super) fn follows(record: &Record, last: u64) -> Result<(), String> {
    match record.n {
        n if n == last + 1 => Ok(()),
        n if n <= last => Err(format!("number {n} came before")),
        n => {
            Err(format!("records {} to {} are missing before it; see `cairn store verify`", last + 1, n - 1))
        }
    }
}

fn note(named: &mut Named, record: &Record) {
    let Some(channel) = &record.channel else { return };
    match &record.event {
        Event::Artifact(ArtifactEvent::Stored { artifact }) => {
            named.entry(channel.clone()).or_default().insert(artifact.id.clone());
        }
        Event::Artifact(ArtifactEvent::Expired { ids }) => {
            let there = named.entry(channel.clone()).or_default();
            ids.iter().for_each(|id| {
                there.remove(id);
            });
        }
        _ => {}
    }
}

/// First numbers and names of all segments of a journal, plain or compressed, in order. Of one that is there both ways
/// the plain one counts.
pub(super) fn segments(dir: &Path) -> Result<Vec<(u64, String)>, StoreError> {
    let fail = io_error("list", dir);
    let mut found: BTreeMap<u64, String> = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(&fail)? {
        let Ok(name) = entry.map_err(&fail)?.file_name().into_string() else { continue };
        let plain = name.strip_suffix(".jsonl");
        let stem = plain.or_else(|| name.strip_suffix(".jsonl.gz"));
        if let Some(first) = stem.and_then(|stem| stem.parse::<u64>().ok())
            && (plain.is_some() || !found.contains_key(&first))
        {
            found.insert(first, name);
        }
    }
    Ok(found.into_iter().collect())
}

/// Makes a file or a folder durable.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
