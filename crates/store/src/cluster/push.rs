//! A whole journal on its way into the database, or back: one that is moved, and one that an erasure has rewritten.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use cairn_types::event::NewRecord;
use cairn_types::ids::{ArtifactId, ChannelId};
use cairn_types::ports::StoreError;
use cairn_types::text::checksum::checksum;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;
use tokio_postgres::Row;

use super::client::{Session, refused};
use super::copy::{Copy, Marker};
use super::{Database, DatabaseOptions, Lease, failed};
use crate::files::artifacts::{Artifacts, Named, note_named};
use crate::files::disk::{Layout, blocking, io_error, remove_file, sync_dir, sync_folders};
use crate::files::progress::Progress;
use crate::journal::open::{self, Start};
use crate::journal::rewrite::records;
use crate::journal::{line, segment};
use crate::store::{Store, StoreOptions, lock};
use crate::upkeep::erasure;
use crate::upkeep::verify::shown;

/// What fails when it panics.
const MOVING: &str = "moving a journal";

/// Lines that are sent together: so many, or so many bytes.
const PAGE: usize = 2000;
const PAGE_BYTES: usize = 2 << 20;

const STAGE: &str = "CREATE TEMP TABLE pushed (n bigint PRIMARY KEY, follows integer NOT NULL, channel text, \
     body text NOT NULL) ON COMMIT DROP";

const ADD: &str = "INSERT INTO pushed SELECT n, follows, channel, '{' || body \
     FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[]) AS p (n, follows, channel, body)";

/// Makes the events those that were sent. What is the same stays as it is.
const REPLACE: &str = "ANALYZE pushed; \
     DELETE FROM cairn_event e WHERE NOT EXISTS (SELECT FROM pushed p WHERE p.n = e.n); \
     UPDATE cairn_event e SET follows = p.follows, channel = p.channel, body = p.body FROM pushed p \
         WHERE p.n = e.n AND (p.follows, p.channel, p.body) IS DISTINCT FROM (e.follows, e.channel, e.body); \
     INSERT INTO cairn_event SELECT p.* FROM pushed p WHERE NOT EXISTS (SELECT FROM cairn_event e WHERE e.n = p.n)";

const COUNT: &str = "SELECT count(*), coalesce(sum(octet_length(body) - 1), 0)::bigint FROM cairn_event";

/// What the artifacts in the database are.
const SUMS: &str = "SELECT channel, id, encode(sha256(string_agg(bytes, ''::bytea ORDER BY part)), 'hex') \
     FROM cairn_artifact GROUP BY channel, id";

const REMOVE_ARTIFACT: &str = "DELETE FROM cairn_artifact WHERE channel = $1 AND id = $2";

const PUT_ARTIFACT: &str = "INSERT INTO cairn_artifact (channel, id, part, bytes) \
     SELECT $1, $2, part, bytes FROM unnest($3::bytea[]) WITH ORDINALITY AS p (bytes, part)";

/// What was moved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub records: u64,
    /// Of the records.
    pub bytes: u64,
    pub artifacts: u64,
    /// Artifacts that the journal names and nobody has.
    pub missing: u64,
}

/// Moves the journal of a folder into a database that is empty. The folder has a copy of it then. What was cut short is taken
/// up again by the same call.
///
/// # Errors
/// The folder is in use or damaged, the database has a journal already, or one of them cannot be written: then nothing was
/// moved.
pub async fn move_to(
    options: StoreOptions,
    to: DatabaseOptions,
    progress: &Progress,
) -> Result<Moved, StoreError> {
    let progress = progress.clone();
    blocking(MOVING, move || {
        let dir = options.dir.clone();
        let _lock = lock(&dir)?;
        if Marker::read(&dir)?.is_some() {
            let message = format!("the journal in {} is a copy of one in a database already", dir.display());
            return Err(StoreError::Elsewhere { message });
        }
        // Nobody who is still to be erased is moved.
        erasure::resume_or_clear(&dir, &progress)?;
        let layout = Layout::of(&dir);
        // What proves that the journal has lost something is looked at first.
        let tail = open::open(&layout.journal, &layout, &Start::default(), &shown(&layout)?)?;
        let database = Database::open(&to)?;
        refuse_moved(&database)?;
        let head = super::copy::head(&database)?;
        if head.next > 1 {
            return if Copy::is_of(&dir, &database, &tail)? {
                Marker::new(head.id, head.generation).write(&dir)?;
                Ok(Moved { records: tail.n, ..Moved::default() })
            } else {
                let message = "the database has another journal; name one that is empty".to_owned();
                Err(StoreError::Elsewhere { message })
            };
        }
        let (of, from) = (database.clone(), dir.clone());
        let moved = database.wait(async move { push(&of, &from, None, &progress).await })?;
        let head = super::copy::head(&database)?;
        Marker::new(head.id, head.generation).write(&dir)?;
        Ok(moved)
    })
    .await
}

/// # Errors
/// [`StoreError::Elsewhere`]: the journal in the database went on elsewhere.
fn refuse_moved(database: &Arc<Database>) -> Result<(), StoreError> {
    const MOVED: &str = "SELECT moved_to FROM cairn_journal WHERE moved_to IS NOT NULL";
    let rows = database.ask_blocking("read the head of the journal", MOVED, Vec::new())?;
    let Some(row) = rows.first() else { return Ok(()) };
    let message = format!(
        "the journal in the database was moved to {}, and the database is used no more; name one that is empty",
        row.get::<_, &str>(0)
    );
    Err(StoreError::Elsewhere { message })
}

/// Makes the copy in a folder a journal of its own. The database is marked as moved away; nobody leads there any more.
///
/// # Errors
/// Another node leads, or something cannot be read or written: then nothing was moved.
pub async fn move_from(options: StoreOptions, progress: &Progress) -> Result<Moved, StoreError> {
    let dir = options.dir.clone();
    if let Some(moved) = already_here(&options).await? {
        return Ok(moved);
    }
    let store = blocking(MOVING, move || Store::open(options)).await?;
    let moved = match store.inner.erasure.put_off() {
        // Nobody who is still to be erased is moved.
        Some(error) => Err(error),
        None => take(&store, &dir, progress.clone()).await,
    };
    store.close().await;
    let moved = moved?;
    blocking(MOVING, move || Marker::remove(&dir)).await?;
    Ok(moved)
}

/// A move that was cut short behind its decision: all is here.
async fn already_here(options: &StoreOptions) -> Result<Option<Moved>, StoreError> {
    let options = options.clone();
    blocking(MOVING, move || {
        let Some(of) = &options.database else {
            return Err(failed("move the journal", "no database is named"));
        };
        let dir = &options.dir;
        let _lock = lock(dir)?;
        let Some(marker) = Marker::read(dir)? else {
            let message = format!("the journal in {} is one of its own already", dir.display());
            return Err(StoreError::Elsewhere { message });
        };
        let database = Database::open(of)?;
        let rows = database.ask_blocking(
            "read the head of the journal",
            "SELECT moved_to, next FROM cairn_journal WHERE id = $1::text::uuid",
            vec![Box::new(marker.journal)],
        )?;
        let Some(row) = rows.first() else { return Ok(None) };
        if row.get::<_, Option<&str>>(0) != Some(here(of, dir).as_str()) {
            return Ok(None);
        }
        Marker::remove(dir)?;
        Ok(Some(Moved { records: row.get::<_, i64>(1) as u64 - 1, ..Moved::default() }))
    })
    .await
}

/// How the database names this folder.
fn here(of: &DatabaseOptions, dir: &Path) -> String {
    format!("{} ({})", of.node, dir.display())
}

async fn take(store: &Store, dir: &Path, progress: Progress) -> Result<Moved, StoreError> {
    let Some((database, lease)) = store.inner.leading() else { return Err(StoreError::Fenced) };
    let (of, lease) = (database.clone(), lease.id().to_owned());
    let (inner, dir) = (store.inner.clone(), dir.to_owned());
    let mut moved = Moved { records: store.inner.durable().tail.n, ..Moved::default() };
    blocking(MOVING, move || {
        moved.artifacts = fetch_all(&of, &inner.artifacts, &progress)?;
        let journal = Layout::of(&dir).journal;
        for first in segment::list(&journal)? {
            let file = segment::file_of(&segment::path(&journal, first));
            moved.bytes += segment::bytes(&segment::path(&journal, first))?;
            File::open(&file).and_then(|file| file.sync_all()).map_err(io_error("sync", &file))?;
        }
        sync_folders(&dir).map_err(io_error("sync", &dir))?;
        // From here on it is decided.
        let rows = of.ask_blocking(
            "mark the journal as moved",
            "UPDATE cairn_journal SET moved_to = $1 WHERE lease = $2::text::uuid RETURNING next",
            vec![Box::new(here(&of.options, &dir)), Box::new(lease)],
        )?;
        if rows.is_empty() { Err(StoreError::Fenced) } else { Ok(moved) }
    })
    .await
}

/// Fetches every artifact, whatever this node has; returns how many there are. Blocks.
fn fetch_all(
    database: &Arc<Database>,
    artifacts: &Artifacts,
    progress: &Progress,
) -> Result<u64, StoreError> {
    const ALL: &str = "SELECT DISTINCT channel, id FROM cairn_artifact";
    let rows = database.ask_blocking("list artifacts", ALL, Vec::new())?;
    progress.begin("artifacts", rows.len() as u64);
    for (done, row) in rows.iter().enumerate() {
        let channel = row.get::<_, &str>(0).parse::<ChannelId>();
        let channel = channel.map_err(|error| failed("read an artifact", error))?;
        artifacts.fetch_again(&channel, &ArtifactId::from(row.get::<_, &str>(1)))?;
        progress.reach(done as u64 + 1)?;
    }
    Ok(rows.len() as u64)
}

/// People who are to be erased, in the order in which they were asked for.
pub(super) const ORDERS: &str = "SELECT person, at FROM cairn_erasure ORDER BY at, person";

impl Database {
    /// Has a person erased by whichever node leads next.
    ///
    /// # Errors
    /// [`StoreError::Fenced`]; the database does not answer.
    pub(crate) fn order_erasure(
        self: &Arc<Self>,
        lease: &Lease,
        person: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        const ORDER: &str = "INSERT INTO cairn_erasure (person, at) SELECT $1, $2 FROM cairn_journal \
             WHERE lease = $3::text::uuid ON CONFLICT (person) DO UPDATE SET at = excluded.at RETURNING at";
        let params: Vec<super::Param> =
            vec![Box::new(person.to_owned()), Box::new(at.to_string()), Box::new(lease.id().to_owned())];
        let rows = self.ask_blocking("ask for an erasure", ORDER, params)?;
        if rows.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// Whether somebody is to be erased.
    ///
    /// # Errors
    /// The database does not answer.
    pub(super) async fn has_orders(self: &Arc<Self>) -> Result<bool, StoreError> {
        Ok(!self.ask("look for erasures", ORDERS, Vec::new()).await?.is_empty())
    }
}

impl Copy {
    /// Brings the copy up to the database for this node, which holds the lease, and erases everybody who is to be. Returns why
    /// that failed: whoever leads next tries again. While the lease is held the copy is as before then, and the node may lead.
    /// Blocks.
    ///
    /// # Errors
    /// The database does not answer, or the copy cannot be written.
    pub(super) fn ready(&mut self, lease: &Arc<Lease>) -> Result<Option<StoreError>, StoreError> {
        let orders = self.database.ask_blocking("look for erasures", ORDERS, Vec::new())?;
        if !orders.is_empty() {
            // Nothing goes to the database but what it has, and what the erasure makes of it: the copy is rebuilt.
            self.marker.is_rewritten = true;
            self.marker.write(&self.dir)?;
        }
        self.catch_up()?;
        let error = match self.erase(&orders, lease) {
            Ok(()) => return Ok(None),
            Err(error) if error == StoreError::Stopped => return Err(error),
            Err(error) => error,
        };
        erasure::tell_failed(&error);
        if error == StoreError::Fenced {
            lease.lose();
        }
        if !lease.is_held() {
            return Ok(Some(error));
        }
        self.catch_up()?;
        // It may be only the last answer that was lost.
        let left = self.database.ask_blocking("look for erasures", ORDERS, Vec::new())?;
        Ok((!left.is_empty()).then_some(error))
    }

    /// Erases everybody who is to be, here and in the database; until it is there the copy counts for nothing. No store is
    /// open on the copy.
    fn erase(&mut self, orders: &[Row], lease: &Arc<Lease>) -> Result<(), StoreError> {
        let (database, dir) = (self.database.clone(), self.dir.clone());
        let progress = self.options.progress.clone();
        for row in orders {
            let (person, at): (String, String) = (row.get(0), row.get(1));
            let asked_at: Timestamp = at.parse().map_err(|error| failed("read an erasure", error))?;
            self.marker.is_rewritten = true;
            self.marker.write(&dir)?;
            fetch_all(&database, &Artifacts::of(&dir, Some(database.clone())), &progress)?;
            erasure::carry_out(&dir, &person, asked_at, &progress)?;
            let (of, from, id) = (database.clone(), dir.clone(), lease.id().to_owned());
            let progress = progress.clone();
            database.wait(async move { push(&of, &from, Some((&id, &person)), &progress).await })?;
            self.marker.generation = super::copy::head(&database)?.generation;
            self.marker.is_rewritten = false;
            self.marker.write(&dir)?;
        }
        Ok(())
    }
}

/// Makes the journal and the artifacts in the database those of a folder, all or none. `erased`: by which lease, and who;
/// without, the database must be empty.
async fn push(
    database: &Database,
    dir: &Path,
    erased: Option<(&str, &str)>,
    progress: &Progress,
) -> Result<Moved, StoreError> {
    let fail = |error: tokio_postgres::Error| refused("write the journal", &error);
    let session = database.connector.connect().await?;
    // Ends with the session, where it is not committed.
    session.client.batch_execute("BEGIN").await.map_err(fail)?;
    let head = match erased {
        Some((lease, _)) => {
            let held = "SELECT next FROM cairn_journal WHERE lease = $1::text::uuid FOR UPDATE";
            session.client.query_opt(held, &[&lease]).await.map_err(fail)?.ok_or(StoreError::Fenced)?
        }
        None => {
            let empty = "SELECT next FROM cairn_journal WHERE next = 1 AND lease IS NULL FOR UPDATE";
            let head = session.client.query_opt(empty, &[]).await.map_err(fail)?;
            head.ok_or_else(|| failed("write the journal", "another node has begun to write there"))?
        }
    };
    drop(head);
    session.client.batch_execute(STAGE).await.map_err(fail)?;
    let mut sent = send(&session, dir, progress).await?;
    session.client.batch_execute(REPLACE).await.map_err(fail)?;
    let row = session.client.query_one(COUNT, &[]).await.map_err(fail)?;
    let (count, bytes): (i64, i64) = (row.get(0), row.get(1));
    if (count as u64, bytes as u64) != (sent.lines, sent.moved.bytes) {
        let why = format!(
            "it has {count} events of {bytes} bytes, and {} of {} were sent",
            sent.lines, sent.moved.bytes
        );
        return Err(failed("check the journal", why));
    }
    send_artifacts(&session, dir, &mut sent, progress).await?;
    let next = sent.moved.records as i64 + 1;
    let head = "UPDATE cairn_journal SET next = $1, generation = generation + 1, batch = NULL";
    session.client.execute(head, &[&next]).await.map_err(fail)?;
    if let Some((_, person)) = erased {
        let done = "DELETE FROM cairn_erasure WHERE person = $1";
        session.client.execute(done, &[&person]).await.map_err(fail)?;
    }
    session.client.batch_execute("COMMIT; NOTIFY cairn_journal").await.map_err(fail)?;
    Ok(sent.moved)
}

#[derive(Default)]
struct Sent {
    moved: Moved,
    lines: u64,
    /// What the journal says has a file.
    stored: BTreeSet<Named>,
}

/// Lines that are sent together.
#[derive(Default)]
struct Lot {
    n: Vec<i64>,
    follows: Vec<i32>,
    channels: Vec<Option<String>>,
    bodies: Vec<String>,
    bytes: usize,
}

/// Sends every line. Each is read and checked before.
async fn send(session: &Session, dir: &Path, progress: &Progress) -> Result<Sent, StoreError> {
    let journal = Layout::of(dir).journal;
    let segments = segment::list(&journal)?;
    let (mut sent, mut next) = (Sent::default(), 1);
    progress.begin("journal", segments.len() as u64);
    for (done, first) in segments.iter().enumerate() {
        let path = segment::path(&journal, *first);
        if *first != next {
            return Err(segment::damaged(
                &path,
                0,
                format!("records {next} to {} are missing before it", first - 1),
            ));
        }
        let mut lots = Vec::new();
        let mut lot = Lot::default();
        let read = |record: cairn_types::event::Record, line: &[u8]| {
            let follows = line::number(line).map_err(|why| segment::damaged(&path, 0, why))?.1;
            note_named(&mut sent.stored, &record);
            let (n, channel) = (record.n as i64, record.channel.as_ref().map(ToString::to_string));
            let body = body(record, line)?;
            sent.lines += 1;
            sent.moved.bytes += body.len() as u64;
            lot.bytes += body.len();
            lot.n.push(n);
            lot.follows.push(follows as i32);
            lot.channels.push(channel);
            lot.bodies.push(body);
            if lot.n.len() >= PAGE || lot.bytes >= PAGE_BYTES {
                lots.push(std::mem::take(&mut lot));
            }
            progress.reach(done as u64)
        };
        // The lease is renewed meanwhile.
        let last = block_in_place(|| records(&path, (*first, 0), None, read))?;
        lots.push(lot);
        for lot in lots.into_iter().filter(|lot| !lot.n.is_empty()) {
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&lot.n, &lot.follows, &lot.channels, &lot.bodies];
            let added = session.client.execute(ADD, &params).await;
            added.map_err(|error| refused("write the journal", &error))?;
        }
        next = last + 1;
    }
    sent.moved.records = next - 1;
    Ok(sent)
}

/// The body of a line as the database has it: that of an earlier version is written again.
fn body(record: cairn_types::event::Record, line: &[u8]) -> Result<String, StoreError> {
    if line::version(line) == Some(line::VERSION)
        && let Some(body) = line::body_of(line)
        && let Ok(body) = std::str::from_utf8(body)
    {
        return Ok(body.to_owned());
    }
    let cairn_types::event::Record { at, channel, event, .. } = record;
    line::body(&NewRecord { channel, at, event })
}

/// Makes the artifacts in the database those that the journal names and the folder has. What is the same stays as it is.
async fn send_artifacts(
    session: &Session,
    dir: &Path,
    sent: &mut Sent,
    progress: &Progress,
) -> Result<(), StoreError> {
    let fail = |error: tokio_postgres::Error| refused("write an artifact", &error);
    let there = session.client.query(SUMS, &[]).await.map_err(fail)?;
    let mut there: HashMap<(&str, &str), &str> =
        there.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
    let artifacts = Artifacts::of(dir, None);
    progress.begin("artifacts", sent.stored.len() as u64);
    for (done, (channel, id)) in sent.stored.iter().enumerate() {
        progress.reach(done as u64)?;
        let file = artifacts.file(channel, id);
        let bytes = match block_in_place(|| fs::read(&file)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                sent.moved.missing += 1;
                continue;
            }
            Err(error) => return Err(io_error("read", &file)(error)),
        };
        sent.moved.artifacts += 1;
        let sum = there.remove(&(channel.as_str(), id.as_str()));
        if sum == Some(checksum(&bytes).as_str()) {
            continue;
        }
        let parts = super::artifacts::parts(&bytes);
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&channel.as_str(), &id.as_str(), &parts];
        session.client.execute(REMOVE_ARTIFACT, &params[..2]).await.map_err(fail)?;
        session.client.execute(PUT_ARTIFACT, &params).await.map_err(fail)?;
    }
    for (channel, id) in there.into_keys() {
        session.client.execute(REMOVE_ARTIFACT, &[&channel, &id]).await.map_err(fail)?;
    }
    Ok(())
}

impl Marker {
    /// The journal in the folder is one of its own from here on.
    fn remove(dir: &Path) -> Result<(), StoreError> {
        remove_file(&dir.join(super::copy::FILE))?;
        sync_dir(dir).map_err(io_error("sync", dir))
    }
}
