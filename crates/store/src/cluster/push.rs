//! A whole journal on its way into the database, and artifacts on their way back.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cairn_types::event::{NewRecord, Record};
use cairn_types::ids::{ArtifactId, ChannelId};
use cairn_types::ports::StoreError;
use cairn_types::text::checksum::checksum;
use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;

use super::artifacts::parts;
use super::client::Session;
use super::database::Database;
use super::errors::{failed, refused};
use crate::files::artifacts::{Artifacts, Named, note_named};
use crate::files::disk::{Layout, io_error};
use crate::files::progress::Progress;
use crate::journal::rewrite::records;
use crate::journal::{line, segment};

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

/// What a move between folder and database copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub records: u64,
    /// Bytes of the records.
    pub bytes: u64,
    pub artifacts: u64,
    /// Artifacts that the journal names and whose files are missing.
    pub missing: u64,
}

/// Fetches every artifact, whatever this node has; returns how many there are. Blocks.
pub(super) fn fetch_all(
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

/// Makes the journal and the artifacts in the database those of a folder, all or none. `erased`: by which lease, and who;
/// without, the database must be empty.
pub(super) async fn push(
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
        let read = |record: Record, line: &[u8]| {
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
fn body(record: Record, line: &[u8]) -> Result<String, StoreError> {
    if line::version(line) == Some(line::VERSION)
        && let Some(body) = line::body_of(line)
        && let Ok(body) = std::str::from_utf8(body)
    {
        return Ok(body.to_owned());
    }
    let Record { at, channel, event, .. } = record;
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
        let parts = parts(&bytes);
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
