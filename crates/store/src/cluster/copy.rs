//! The copy of the journal in a node's state folder: marked as such, compared with the database at a start, and brought up to
//! it, or rebuilt.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::event::{ArtifactEvent, Event};
use cairn_types::ids::{ArtifactId, ChannelId};
use cairn_types::ports::StoreError;
use tokio_postgres::Row;

use super::append::Following;
use super::database::Database;
use super::errors::failed;
use super::marker::{LastLease, Marker, place};
use crate::files::artifacts::Artifacts;
use crate::files::disk::{Layout, RealDisk, io_error, make_dir, remove_dir, remove_file, sync_dir};
use crate::files::lock::StateLock;
use crate::journal::line::read_number;
use crate::journal::open::{self, Checkpoint, Start, Tail, ViewState};
use crate::journal::segment::{self, Lines, Piece, Position};
use crate::journal::{Copied, Writer, line};
use crate::options::StoreOptions;
use crate::store::Store;
use crate::upkeep::erasure::{resume, swap};

/// What is known to be wrong with a copy is kept in folders that begin so; an erasure removes them.
const ASIDE: &str = "before-copy-";

/// So many of them are kept.
const MOST_ASIDE: usize = 3;

/// Channels that an error about lost records names.
const NAMED: usize = 5;

/// Rows that are fetched together: so many, and no more than begin within so many bytes.
pub(super) const PAGE: &str = "SELECT n, follows, substr(body, 2) FROM (SELECT n, follows, body, \
     sum(octet_length(body)) OVER (ORDER BY n) - octet_length(body) AS before \
     FROM (SELECT n, follows, body FROM cairn_event WHERE n > $1 ORDER BY n LIMIT 2000) page) sized \
     WHERE before < 524288 ORDER BY n";

/// The head of the journal in the database.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) next: i64,
    pub(super) generation: i64,
}

/// The copy, while nobody else writes it: its folder is locked, and no store is open on it.
pub(crate) struct Copy {
    pub(super) dir: PathBuf,
    layout: Layout,
    pub(super) options: StoreOptions,
    pub(super) database: Arc<Database>,
    pub(super) marker: Marker,
    /// What the database has lost, for people.
    lost: Option<String>,
}

impl Copy {
    /// Compares the state folder with the database. Blocks, as all functions of this type do.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`]: the folder has another journal. Or the database does not answer.
    pub(crate) fn of(options: StoreOptions, database: Arc<Database>) -> Result<Self, StoreError> {
        let (dir, layout) = (options.dir.clone(), Layout::of(&options.dir));
        let head = read_head(&database)?;
        let marker = match Marker::read(&dir)? {
            Some(marker) if marker.journal == head.id => marker,
            Some(_) => {
                let message = format!(
                    "{} has a copy of another database's journal; name another folder with --state, or the url of that database",
                    dir.display()
                );
                return Err(StoreError::Elsewhere { message });
            }
            None if layout.journal.is_dir() && !segment::list(&layout.journal)?.is_empty() => {
                let message = format!(
                    "{} has a journal of its own, and the database has another one; `cairn store move --to-database` moves a \
                     journal into an empty database, --state names another folder",
                    dir.display()
                );
                return Err(StoreError::Elsewhere { message });
            }
            None => {
                let marker = Marker::new(head.id, head.generation);
                marker.write(&dir)?;
                marker
            }
        };
        make_dir(&layout.journal)?;
        Ok(Self { dir, layout, options, database, marker, lost: None })
    }

    /// Brings the copy up to what the database has now. One that is not as the database says is rebuilt: where events were
    /// rewritten, or it is damaged, or the database has lost what had been acknowledged, which is said and kept.
    ///
    /// # Errors
    /// The database does not answer, or the copy cannot be written.
    pub(crate) fn catch_up(&mut self) -> Result<(), StoreError> {
        let head = read_head(&self.database)?;
        if head.generation != self.marker.generation || self.marker.is_rewritten {
            tracing::info!(
                "the journal was rewritten in the database, or its copy is damaged; the copy is rebuilt"
            );
            if head.generation != self.marker.generation {
                self.lost = None;
                // What was kept aside may have words of somebody who was erased.
                swap::remove_quarantined(&self.dir, &self.layout)?;
            }
            self.remove_derived()?;
            remove_dir(&self.layout.journal)?;
            make_dir(&self.layout.journal)?;
            // They are fetched again when they are asked for.
            remove_dir(&self.dir.join("artifacts"))?;
            resume::forget(&self.dir)?;
            self.marker.generation = head.generation;
            self.marker.is_rewritten = false;
            self.marker.write(&self.dir)?;
        }
        let tail = match self.end() {
            Ok(tail) => tail,
            Err(error @ StoreError::Damaged { .. }) => {
                self.set_damaged_aside(&error)?;
                Tail::default()
            }
            Err(error) => return Err(error),
        };
        let tail = match self.lost(&tail, &head)? {
            None => tail,
            Some(lost) => {
                let kept = self.set_aside()?;
                metrics::counter!("cairn_records_lost_total").increment(lost.to_n + 1 - lost.from_n);
                tracing::error!(
                    from_n = lost.from_n,
                    to_n = lost.to_n,
                    channels = lost.channels,
                    kept = %kept.display(),
                    "the database lacks records that were acknowledged, as after a failover to a server that had \
                     not received them; this node's copy, which has them, is kept, and a new copy is made from the \
                     database"
                );
                self.lost = Some(format!(
                    "the database lacks records {} to {}, which were acknowledged; {} has them",
                    lost.from_n,
                    lost.to_n,
                    kept.display()
                ));
                Tail::default()
            }
        };
        self.fetch(tail, head.next)
    }

    /// Opens the store on a copy that is brought up. One that turns out to be damaged is rebuilt.
    ///
    /// # Errors
    /// The rebuilt copy is damaged, too, or a file cannot be read or written.
    pub(super) fn open(&mut self, lock: &Arc<StateLock>) -> Result<Store, StoreError> {
        let open = |copy: &Self| {
            let (options, database) = (copy.options.clone(), copy.database.clone());
            Store::open_locked(options, Arc::new(RealDisk), lock.clone(), Some(database))
        };
        let store = match open(self) {
            Err(error @ StoreError::Damaged { .. }) => {
                self.set_damaged_aside(&error)?;
                self.catch_up()?;
                open(self)
            }
            opened => opened,
        }?;
        store.inner.damage.lock().extend(self.lost.clone());
        Ok(store)
    }

    /// Where the copy ends, without what a crash has left there. Only the last segment is read: the others are as long as they
    /// were when they were closed. One in which a crash has left nothing goes: the one before it is the last then.
    fn end(&self) -> Result<Tail, StoreError> {
        loop {
            let last = segment::list(&self.layout.journal)?.pop();
            let from = last
                .map(|segment| Checkpoint { n: segment, position: Position { segment, offset: 0, len: 0 } });
            let start = Start { from: from.unwrap_or_default(), most_bytes: u64::MAX };
            let tail = open::open(&self.layout.journal, &self.layout, &start, &ViewState::default())?;
            match last {
                Some(segment) if tail.len == 0 => remove_file(&segment::path(&self.layout.journal, segment))?,
                _ => return Ok(tail),
            }
        }
    }

    /// Whether a folder without a marker has just what the database has.
    pub(super) fn is_of(dir: &Path, database: &Arc<Database>, tail: &Tail) -> Result<bool, StoreError> {
        let (layout, head) = (Layout::of(dir), read_head(database)?);
        let marker = Marker::new(head.id.clone(), head.generation);
        let (dir, options) = (dir.to_owned(), StoreOptions::new(dir));
        let copy = Self { dir, layout, options, database: database.clone(), marker, lost: None };
        Ok(tail.n + 1 == head.next as u64 && copy.fits_head(tail, &head)?)
    }

    /// Whether the last record of the copy is in the database, so that all before it are.
    pub(super) fn fits(&self, tail: &Tail) -> Result<bool, StoreError> {
        self.fits_head(tail, &read_head(&self.database)?)
    }

    fn fits_head(&self, tail: &Tail, head: &Head) -> Result<bool, StoreError> {
        if tail.n == 0 {
            return Ok(true);
        }
        if tail.n >= head.next as u64 {
            return Ok(false);
        }
        let path = segment::path(&self.layout.journal, tail.segment);
        let Some(last) = Lines::open(&path, 0, Some(tail.len))?.last()? else { return Ok(false) };
        let (n, _) = line::number(&last).map_err(|why| segment::damaged(&path, tail.len, why))?;
        self.has(n, &last)
    }

    /// Notes whose lease it is that this process holds, so that the next one with this folder need not wait for its end.
    pub(super) fn hold(&mut self, lease: &str) -> Result<(), StoreError> {
        // It may have been doubted since it was read.
        self.marker.is_rewritten |= Marker::read(&self.dir)?.is_some_and(|marker| marker.is_rewritten);
        self.marker.lease = place(&self.dir).map(|place| LastLease { id: lease.to_owned(), place });
        self.marker.write(&self.dir)
    }

    /// The lease of the process that had this folder last, which has ended.
    pub(super) fn previous(&self) -> Option<String> {
        let held = self.marker.lease.as_ref().filter(|held| Some(&held.place) == place(&self.dir).as_ref());
        held.map(|held| held.id.clone())
    }

    /// What the copy has and the database does not.
    fn lost(&self, tail: &Tail, head: &Head) -> Result<Option<Lost>, StoreError> {
        if self.fits_head(tail, head)? {
            return Ok(None);
        }
        let (mut from_n, mut channels) = (None, BTreeSet::new());
        for segment in segment::list(&self.layout.journal)?.into_iter().rev() {
            let here = self.lines(segment, (segment == tail.segment).then_some(tail.len))?;
            // Everything before some record is there, and nothing from it on.
            let (mut low, mut high) = (0, here.len());
            while low < high {
                let middle = (low + high) / 2;
                let (n, line) = &here[middle];
                if self.has(*n, line)? { low = middle + 1 } else { high = middle }
            }
            from_n = here.get(low).map(|(n, _)| *n).or(from_n);
            let lost = here[low..].iter().filter_map(|(_, line)| line::parse(line).ok()?.channel);
            channels.extend(lost.map(|channel| channel.to_string()));
            if low > 0 {
                break;
            }
        }
        let Some(from_n) = from_n else { return Ok(None) };
        let named: Vec<&str> = channels.iter().take(NAMED).map(String::as_str).collect();
        let more = channels.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Ok(Some(Lost { from_n, to_n: tail.n, channels: format!("{}{more}", named.join(", ")) }))
    }

    /// The lines of a segment up to `end`, with their numbers.
    fn lines(&self, segment: u64, end: Option<u64>) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let path = segment::path(&self.layout.journal, segment);
        let (mut lines, mut here) = (Lines::open(&path, 0, end)?, Vec::new());
        while let Piece::Line { offset, bytes } = lines.next()? {
            let (n, ..) = read_number(bytes, offset).map_err(|why| segment::damaged(&path, offset, why))?;
            here.push((n, bytes.to_vec()));
        }
        Ok(here)
    }

    /// Whether the database has that line as its record of that number.
    fn has(&self, n: u64, line: &[u8]) -> Result<bool, StoreError> {
        const BODY: &str = "SELECT substr(body, 2) FROM cairn_event WHERE n = $1";
        let rows = self.database.ask_blocking("read an event", BODY, vec![Box::new(n as i64)])?;
        Ok(rows.first().is_some_and(|row| line::body_of(line) == Some(row.get::<_, &str>(0).as_bytes())))
    }

    /// Copies what follows the end, up to a record before `next` at least.
    fn fetch(&self, tail: Tail, next: i64) -> Result<(), StoreError> {
        let progress = &self.options.progress;
        progress.begin("copy", next as u64);
        let artifacts = Artifacts::of(&self.dir, None);
        let disk = Arc::new(RealDisk);
        let nobody_waits = Box::new(|| {});
        let following = Box::new(Following::new(&self.dir));
        let mut writer = Writer::new(
            &self.layout.journal,
            disk,
            self.options.segment_bytes,
            tail,
            following,
            nobody_waits,
        );
        loop {
            let from = writer.tail().n as i64;
            let rows = self.database.ask_blocking("copy events", PAGE, vec![Box::new(from)])?;
            let Some(copied) = copied(&rows)? else { break };
            writer.copy(&copied)?;
            for (channel, id) in expired(&copied.lines) {
                remove_file(&artifacts.file(&channel, &id))?;
            }
            progress.reach(copied.last_n)?;
        }
        writer.sync_copy();
        Ok(())
    }

    fn set_damaged_aside(&self, error: &StoreError) -> Result<(), StoreError> {
        let kept = self.set_aside()?;
        tracing::error!(%error, kept = %kept.display(), "the copy of the journal is damaged; it is rebuilt from the database");
        Ok(())
    }

    /// Moves journal and artifacts out of the way, whole; returns where they are. Of those that were kept before the newest
    /// stay: each takes as much room as the copy.
    fn set_aside(&self) -> Result<PathBuf, StoreError> {
        self.remove_derived()?;
        let mut kept = self.aside()?;
        while kept.len() >= MOST_ASIDE {
            let (_, oldest) = kept.remove(0);
            tracing::warn!(
                folder = %oldest.display(),
                "removing the oldest saved copy of the journal"
            );
            remove_dir(&oldest)?;
        }
        let k = kept.last().map_or(1, |(k, _)| k + 1);
        let kept = self.dir.join(format!("{ASIDE}{k}"));
        fs::rename(&self.layout.journal, &kept).map_err(io_error("move aside", &self.layout.journal))?;
        // They are fetched again when they are asked for.
        let artifacts = self.dir.join("artifacts");
        match fs::rename(&artifacts, kept.join("artifacts")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("move aside", &artifacts)(error));
            }
            _ => {}
        }
        sync_dir(&self.dir).map_err(io_error("sync", &self.dir))?;
        make_dir(&self.layout.journal)?;
        Ok(kept)
    }

    /// The copies that were kept aside, with their numbers, the oldest first.
    fn aside(&self) -> Result<Vec<(u32, PathBuf)>, StoreError> {
        let fail = io_error("list", &self.dir);
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(&fail)? {
            let path = entry.map_err(&fail)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let k = name.and_then(|name| name.strip_prefix(ASIDE)?.parse().ok());
            kept.extend(k.map(|k| (k, path)));
        }
        kept.sort_unstable();
        Ok(kept)
    }

    /// Removes what derives from the journal: it is made again.
    fn remove_derived(&self) -> Result<(), StoreError> {
        remove_dir(&self.layout.views)?;
        remove_dir(&self.layout.index)?;
        remove_file(&self.layout.checked)
    }
}

/// Records that were acknowledged, and are gone.
struct Lost {
    from_n: u64,
    to_n: u64,
    channels: String,
}

/// Rows of events as they are in the copy; `None`: there are none.
pub(super) fn copied(rows: &[Row]) -> Result<Option<Copied>, StoreError> {
    let mut copied = Copied::default();
    for row in rows {
        let (n, follows, body): (i64, i32, &str) = (row.get(0), row.get(1), row.get(2));
        let at = copied.lines.len();
        line::frame(&mut copied.lines, n as u64, follows as u32, body);
        if copied.first_n == 0 {
            copied.first_n = n as u64;
        }
        let framed = &copied.lines[at..copied.lines.len() - 1];
        let (.., to_n, _, _) = read_number(framed, 0).map_err(|why| {
            let message = format!("event {n} in the database cannot be read: {why}");
            StoreError::Database { message }
        })?;
        copied.last_n = to_n;
    }
    Ok((!rows.is_empty()).then_some(copied))
}

/// The artifacts that lines say have expired: this node may have their files from when it led.
pub(super) fn expired(lines: &[u8]) -> Vec<(ChannelId, ArtifactId)> {
    let says_so = |line: &&[u8]| line::names(line, b"artifacts_expired\"");
    let mut found = Vec::new();
    for record in lines.split(|byte| *byte == b'\n').filter(says_so).flat_map(line::parse) {
        if let (Some(channel), Event::Artifact(ArtifactEvent::Expired { ids, .. })) =
            (record.channel, record.event)
        {
            found.extend(ids.into_iter().map(|id| (channel.clone(), id)));
        }
    }
    found
}

pub(super) const HEAD: &str = "SELECT id::text, next, generation FROM cairn_journal";

pub(super) fn read_head(database: &Arc<Database>) -> Result<Head, StoreError> {
    let rows = database.ask_blocking("read the head of the journal", HEAD, Vec::new())?;
    let row = rows.first().ok_or_else(|| failed("read the head of the journal", "there is none"))?;
    Ok(Head { id: row.get(0), next: row.get(1), generation: row.get(2) })
}
