//! The sequencers of a copy: the leader appends to the database first, a standby only copies.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ports::StoreError;
use tokio_postgres::Statement;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::ToSql;

use super::client::{CALL, Session};
use super::database::{Database, new_id};
use super::errors::{failed, refused};
use super::lease::Lease;
use super::marker;
use crate::journal::{Batch, Sequencer};

/// Between two attempts to learn what became of an append.
const AGAIN: Duration = Duration::from_millis(200);

const APPEND: &str = "SELECT cairn_append($1::text::uuid, $2::text::uuid, $3, $4, $5, $6)";

/// A node that follows: it writes only what the leader has appended.
pub(crate) struct Following {
    dir: PathBuf,
}

impl Following {
    /// `dir`: the state folder.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }
}

impl Sequencer for Following {
    fn is_copy(&self) -> bool {
        true
    }

    fn append(&mut self, _: u64, _: &Batch<'_>, _: &dyn Fn(StoreError)) -> Result<(), StoreError> {
        Err(StoreError::Fenced)
    }

    fn not_written(&self, error: StoreError) -> StoreError {
        error
    }

    fn not_synced(&self) {
        copy_again(&self.dir);
    }
}

/// Has the next start of the node with that state folder copy the journal again.
fn copy_again(dir: &Path) {
    if let Err(error) = marker::doubt(dir) {
        tracing::warn!(%error, "cannot mark the local copy as incomplete; the next start may not rebuild it");
    }
}

/// The node that leads: the database appends each batch before it is written to the copy.
pub(crate) struct Leading {
    dir: PathBuf,
    database: Arc<Database>,
    lease: Arc<Lease>,
    session: Option<(Session, Statement)>,
}

/// The outcome of one attempt to append.
enum Attempt {
    Done,
    /// It is not in the journal.
    Refused(StoreError),
    /// Nobody knows.
    Unknown(StoreError),
}

impl Leading {
    /// `dir`: the state folder with the copy.
    pub(crate) fn new(database: Arc<Database>, lease: Arc<Lease>, dir: &Path) -> Self {
        Self { dir: dir.to_owned(), database, lease, session: None }
    }

    async fn append_once(
        &mut self,
        first_n: u64,
        batch: &Batch<'_>,
        waits: &dyn Fn(StoreError),
    ) -> Result<(), StoreError> {
        let id = new_id()?;
        let mut is_sent = false;
        while self.lease.is_held() {
            let error = match self.attempt(&id, first_n, batch, &mut is_sent).await {
                Attempt::Done => {
                    self.lease.answered();
                    return Ok(());
                }
                Attempt::Refused(error) => return Err(error),
                Attempt::Unknown(error) => error,
            };
            if !is_sent {
                return Err(error);
            }
            tracing::warn!(%error, "the outcome of an append is unknown; asking the database again");
            waits(error);
            self.lease.lost_within(AGAIN).await;
        }
        Err(StoreError::Fenced)
    }

    async fn attempt(&mut self, id: &str, first_n: u64, batch: &Batch<'_>, is_sent: &mut bool) -> Attempt {
        let (session, append) = match self.session().await {
            Ok(session) => session,
            Err(error) => return Attempt::Unknown(error),
        };
        let was_sent = std::mem::replace(is_sent, true);
        let Batch { follows, channels, bodies } = batch;
        let lease = self.lease.id();
        let expected = first_n as i64;
        let params: [&(dyn ToSql + Sync); 6] = [&lease, &id, &expected, follows, channels, bodies];
        let asked = session.client.query_one(&append, &params);
        let error = match tokio::time::timeout(CALL, asked).await {
            Ok(Ok(row)) if row.get::<_, i64>(0) == expected => {
                self.session = Some((session, append));
                return Attempt::Done;
            }
            Ok(Ok(_)) => return Attempt::Refused(self.misplaced(first_n)),
            Ok(Err(error)) => error,
            Err(_) => return Attempt::Unknown(failed("append to the journal", "it does not answer")),
        };
        let told = refused("append to the journal", &error);
        let Some(error) = error.as_db_error() else { return Attempt::Unknown(told) };
        match error.code().code() {
            "CN001" => {
                tracing::warn!(first_n, "another node is the leader; this node stops writing");
                self.lease.lose();
                Attempt::Refused(StoreError::Fenced)
            }
            "CN002" => Attempt::Refused(self.misplaced(first_n)),
            // A server that shuts down may have committed before.
            _ if error.parsed_severity() != Some(Severity::Error)
                || *error.code() == SqlState::ADMIN_SHUTDOWN =>
            {
                Attempt::Unknown(told)
            }
            _ => {
                self.session = Some((session, append));
                if was_sent { Attempt::Unknown(told) } else { Attempt::Refused(told) }
            }
        }
    }

    fn misplaced(&self, first_n: u64) -> StoreError {
        tracing::error!(
            first_n,
            "the journal in the database does not end where this node expects; this node gives up the lead, and \
             reports the missing records at its next start"
        );
        self.lease.lose();
        StoreError::Fenced
    }

    /// The connection, which is used again when the answer came.
    async fn session(&mut self) -> Result<(Session, Statement), StoreError> {
        if let Some(session) = self.session.take().filter(|(session, _)| !session.client.is_closed()) {
            return Ok(session);
        }
        let session = self.database.connector.connect().await?;
        let append = session.client.prepare(APPEND).await;
        let append = append.map_err(|error| refused("prepare an append", &error))?;
        Ok((session, append))
    }
}

impl Sequencer for Leading {
    fn is_copy(&self) -> bool {
        true
    }

    /// Appends all or none. An append whose answer is lost is asked for again until the answer is there, or the lease is not
    /// held any more.
    ///
    /// # Errors
    /// It is not in the journal; or [`StoreError::Fenced`]: nobody knows, and this node writes nothing any more.
    fn append(
        &mut self,
        first_n: u64,
        batch: &Batch<'_>,
        waits: &dyn Fn(StoreError),
    ) -> Result<(), StoreError> {
        let database = self.database.clone();
        database.handle().block_on(self.append_once(first_n, batch, waits))
    }

    /// The copy cannot take what the database has: only a start brings them together.
    fn not_written(&self, error: StoreError) -> StoreError {
        tracing::error!(%error, "the copy of the journal cannot be written; this node gives up the lead");
        self.lease.lose();
        StoreError::Fenced
    }

    fn not_synced(&self) {
        copy_again(&self.dir);
    }
}
