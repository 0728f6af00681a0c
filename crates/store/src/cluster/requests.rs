//! Requests that a node which follows passes on to the one that leads: by way of the database, so that no node must reach
//! another.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::ports::StoreError;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Row;

use super::client::{Session, answer};
use super::database::{Database, Param, new_id};
use super::errors::failed;
use super::lease::LeaseState;

/// How often the node that asks looks for the answer: at first, and when that takes longer.
const LOOK_SOON: Duration = Duration::from_millis(20);
const LOOK_LATE: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_secs(2);

/// A request that no leader has started in so long is taken back.
const STARTED_WITHIN: Duration = Duration::from_secs(5);

/// How often the leader looks for requests, whatever it is told.
const TAKE_EVERY: Duration = Duration::from_secs(1);

/// Between two attempts of something that the database did not take.
const AGAIN: Duration = Duration::from_millis(200);

/// For so long both sides try again while the database is away: a little longer than a lease holds. The leader takes a node
/// that has not looked for 15 s for one that has hung up.
const AWAY: Duration = Duration::from_secs(12);

/// So many parts of an answer wait in the database at the most.
const UNREAD: i64 = 16;

/// So many requests that were taken wait in this process at the most.
const WAITING: usize = 16;

const ASK: &str = "WITH asked AS (INSERT INTO cairn_request (id, node, head, body) VALUES ($1::text::uuid, $2, $3, $4) \
     ON CONFLICT DO NOTHING) SELECT pg_notify('cairn_request', '')";

/// Removes the parts that were read before: those that it returns may be lost on their way, and are asked for again.
const LOOK: &str = "WITH waits AS (UPDATE cairn_request SET looked_at = clock_timestamp() WHERE id = $1::text::uuid \
         RETURNING lease), \
     gone AS (DELETE FROM cairn_answer WHERE request = $1::text::uuid AND part < $2) \
     SELECT waits.lease IS NOT NULL, waits.lease IS NOT DISTINCT FROM j.lease, a.part, a.bytes, a.n \
     FROM cairn_journal j CROSS JOIN waits \
     LEFT JOIN cairn_answer a ON a.request = $1::text::uuid AND a.part >= $2 ORDER BY a.part";

const TAKE_BACK: &str =
    "DELETE FROM cairn_request WHERE id = $1::text::uuid AND lease IS NULL RETURNING id::text";

const END: &str = "DELETE FROM cairn_request WHERE id = $1::text::uuid";

/// Also removes what nobody waits for any more.
const NEW: &str = "WITH old AS (DELETE FROM cairn_request WHERE looked_at < clock_timestamp() - interval '1 minute') \
     SELECT id::text FROM cairn_request WHERE lease IS NULL AND looked_at > clock_timestamp() - interval '15 seconds' \
     ORDER BY asked_at LIMIT 16";

const TAKE: &str = "UPDATE cairn_request r SET lease = j.lease FROM cairn_journal j \
     WHERE r.id = $1::text::uuid AND j.lease = $2::text::uuid AND (r.lease IS NULL OR r.lease = j.lease) \
     RETURNING r.node, r.head, r.body";

const ANSWER: &str = "SELECT cairn_answer($1::text::uuid, $2, $3, $4)";

const UNREAD_PARTS: &str = "SELECT count(a.part) FROM cairn_request r LEFT JOIN cairn_answer a ON a.request = r.id \
     WHERE r.id = $1::text::uuid GROUP BY r.id";

/// A request that a standby passes to the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Everything before the body, encoded by the caller.
    pub head: String,
    pub body: Vec<u8>,
}

/// A part of an answer. The first part holds everything before the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub bytes: Vec<u8>,
    /// In the last part alone: the last record that the leader had then.
    pub last_n: Option<u64>,
}

/// Why an answer is missing or incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unanswered {
    /// It could not be passed on: nothing was done.
    #[error("nothing was done: {0}")]
    NotStarted(StoreError),
    /// It was taken back: nothing was done.
    #[error("no node takes it up at the moment; nothing was done")]
    NotTaken,
    #[error("it may have been done, and its outcome is not known: {0}")]
    Lost(String),
}

impl Database {
    /// Passes a request on. The channel delivers the parts of the answer, ends with a last part or an error, and ends the
    /// request when it is dropped. `ending` becomes true, or is closed, when this node is no standby any more.
    pub(crate) fn pass_on(
        self: &Arc<Self>,
        request: Request,
        ending: watch::Receiver<bool>,
    ) -> Result<mpsc::Receiver<Result<Part, Unanswered>>, Unanswered> {
        let id = new_id().map_err(Unanswered::NotStarted)?;
        let (tell, parts) = mpsc::channel(1);
        let asking = Asking { database: self.clone(), id, tell, ending, next: 0, is_started: false };
        self.handle().spawn(asking.run(request));
        Ok(parts)
    }

    /// The requests that other nodes pass on, as long as this one leads and the channel is open.
    pub(crate) fn requests(
        self: &Arc<Self>,
        lease: String,
        state: watch::Receiver<LeaseState>,
    ) -> mpsc::Receiver<Taken> {
        let (tell, taken) = mpsc::channel(WAITING);
        let taking = Taking { database: self.clone(), lease, tell, session: None, is_told: false };
        self.handle().spawn(taking.run(state));
        taken
    }
}

/// A request that waits for its answer.
struct Asking {
    database: Arc<Database>,
    id: String,
    tell: mpsc::Sender<Result<Part, Unanswered>>,
    ending: watch::Receiver<bool>,
    /// The part that comes next.
    next: i32,
    is_started: bool,
}

impl Asking {
    async fn run(mut self, request: Request) {
        if let Err(error) = self.put(request).await {
            drop(self.tell.send(Err(error)).await);
            return;
        }
        let ended = self.answered().await;
        // What nobody removes is removed by the leader.
        let removed = self.database.ask("end a request", END, vec![Box::new(self.id.clone())]);
        let told = async {
            if let Err(error) = ended {
                // Nobody waits any more: no error.
                drop(self.tell.send(Err(error)).await);
            }
        };
        drop(tokio::join!(told, removed));
    }

    /// Puts the request where the leader finds it. Where it may be there although that failed, the looks tell.
    async fn put(&self, request: Request) -> Result<(), Unanswered> {
        let Request { head, body } = request;
        let node = self.database.options.node.clone();
        let params: Vec<Param> =
            vec![Box::new(self.id.clone()), Box::new(node), Box::new(head), Box::new(body)];
        match self.database.try_ask("pass a request on", ASK, params).await {
            Err((error, false)) => Err(Unanswered::NotStarted(error)),
            Ok(_) | Err((_, true)) => Ok(()),
        }
    }

    async fn answered(&mut self) -> Result<(), Unanswered> {
        let since = Instant::now();
        let mut away_since = None;
        loop {
            let began = Instant::now();
            let params: Vec<Param> = vec![Box::new(self.id.clone()), Box::new(self.next)];
            let looked = timeout(AWAY, self.database.ask("look for an answer", LOOK, params)).await;
            let looked = looked.unwrap_or_else(|_| Err(failed("look for an answer", "it does not answer")));
            let wait = match looked {
                Ok(rows) => {
                    away_since = None;
                    if self.tell_parts(&rows).await? {
                        return Ok(());
                    }
                    // The leader waits until a full batch is removed.
                    let is_full = rows.len() as i64 >= UNREAD;
                    if is_full || since.elapsed() < SOON { LOOK_SOON } else { LOOK_LATE }
                }
                Err(error) if away_since.get_or_insert(began).elapsed() >= AWAY => {
                    return Err(Unanswered::Lost(error.to_string()));
                }
                Err(_) => AGAIN,
            };
            let is_late = !self.is_started && since.elapsed() >= STARTED_WITHIN;
            if is_late && away_since.is_none() && self.take_back().await {
                return Err(Unanswered::NotTaken);
            }
            tokio::select! {
                () = self.tell.closed() => return Ok(()),
                // An error: whoever would say so is gone.
                _ = self.ending.wait_for(|is_ending| *is_ending) => break,
                () = sleep(wait) => {}
            }
        }
        if !self.is_started && self.take_back().await {
            return Err(Unanswered::NotTaken);
        }
        Err(Unanswered::Lost("the node that passed it on does not stand by any more".to_owned()))
    }

    /// Tells what there is of the answer. True: that was all.
    async fn tell_parts(&mut self, rows: &[Row]) -> Result<bool, Unanswered> {
        let Some(first) = rows.first() else {
            let why = "the node that leads has given it up, or the database has lost it";
            return Err(Unanswered::Lost(why.to_owned()));
        };
        self.is_started |= first.get::<_, bool>(0);
        let is_led = first.get::<_, bool>(1);
        for row in rows {
            let Some(part) = row.get::<_, Option<i32>>(2) else { break };
            if part < self.next {
                continue;
            }
            if part > self.next {
                return Err(Unanswered::Lost("a part of the answer is missing".to_owned()));
            }
            self.next += 1;
            let last_n = row.get::<_, Option<i64>>(4).map(|n| n as u64);
            let told = self.tell.send(Ok(Part { bytes: row.get(3), last_n })).await;
            if told.is_err() || last_n.is_some() {
                return Ok(true);
            }
        }
        if self.is_started && !is_led {
            return Err(Unanswered::Lost("the node that had started it does not lead any more".to_owned()));
        }
        Ok(false)
    }

    /// True: nobody has started it, and nobody will.
    async fn take_back(&self) -> bool {
        let taken =
            self.database.ask("take a request back", TAKE_BACK, vec![Box::new(self.id.clone())]).await;
        taken.is_ok_and(|rows| !rows.is_empty())
    }
}

/// A request of another node, for this one to answer.
pub struct Taken {
    /// Which node was asked.
    pub node: String,
    pub request: Request,
    pub reply: Reply,
}

/// Where the answer to a request goes. Dropped before its last part, it tells the one who waits that there is none.
pub struct Reply {
    database: Arc<Database>,
    id: String,
    next: i32,
    has_ended: bool,
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.has_ended {
            let (database, id) = (self.database.clone(), self.id.clone());
            let ended = async move { database.ask("give a request up", END, vec![Box::new(id)]).await };
            // Where that fails, whoever waits sees that this node does not lead any more, or hangs up.
            self.database.handle().spawn(ended);
        }
    }
}

impl Reply {
    /// Sends the next part, once there is room for it. False: nobody waits for it.
    ///
    /// # Errors
    /// The database does not answer, and did not for a while.
    pub async fn send(&mut self, part: Part) -> Result<bool, StoreError> {
        let n = part.last_n.map(|n| n as i64);
        let is_last = n.is_some();
        let params = || -> Vec<Param> {
            vec![Box::new(self.id.clone()), Box::new(self.next), Box::new(part.bytes.clone()), Box::new(n)]
        };
        let rows = self.ask(ANSWER, params).await?;
        self.next += 1;
        self.has_ended = is_last;
        let mut unread = rows.first().and_then(|row| row.get::<_, Option<i64>>(0));
        while !is_last && unread.is_some_and(|unread| unread >= UNREAD) {
            sleep(LOOK_LATE).await;
            let rows = self.ask(UNREAD_PARTS, || vec![Box::new(self.id.clone())]).await?;
            unread = rows.first().map(|row| row.get(0));
        }
        Ok(unread.is_some())
    }

    /// Asks again while the database is away: a part that is there already is not added twice.
    async fn ask(&self, sql: &'static str, params: impl Fn() -> Vec<Param>) -> Result<Vec<Row>, StoreError> {
        let since = Instant::now();
        loop {
            match self.database.ask("answer a request", sql, params()).await {
                Err(StoreError::Database { .. }) if since.elapsed() < AWAY => sleep(AGAIN).await,
                asked => return asked,
            }
        }
    }
}

/// What takes requests as long as this node leads.
struct Taking {
    database: Arc<Database>,
    lease: String,
    tell: mpsc::Sender<Taken>,
    session: Option<Session>,
    /// Whether an error was logged since the last success.
    is_told: bool,
}

impl Taking {
    async fn run(mut self, mut state: watch::Receiver<LeaseState>) {
        let tell = self.tell.clone();
        tokio::select! {
            // An error: the store is gone.
            _ = state.wait_for(|state| !state.held) => {}
            () = tell.closed() => {}
            never = self.take_all() => match never {},
        }
    }

    async fn take_all(&mut self) -> std::convert::Infallible {
        loop {
            match self.take().await {
                Ok(()) => self.is_told = false,
                Err(error) => {
                    self.session = None;
                    if !std::mem::replace(&mut self.is_told, true) {
                        tracing::warn!(%error, "what other nodes are asked is not answered at the moment; trying again");
                    }
                }
            }
            match &self.session {
                Some(session) => {
                    drop(tokio::time::timeout(TAKE_EVERY, session.hint.notified()).await);
                }
                None => sleep(TAKE_EVERY).await,
            }
        }
    }

    async fn take(&mut self) -> Result<(), StoreError> {
        let session = match &mut self.session {
            Some(session) if !session.client.is_closed() => session,
            place => {
                let session = self.database.connector.connect().await?;
                answer("listen", session.client.batch_execute("LISTEN cairn_request")).await?;
                place.insert(session)
            }
        };
        let rows = answer("look for requests", session.client.query(NEW, &[])).await?;
        for row in &rows {
            let id: String = row.get(0);
            // Nobody takes them any more: `run` ends.
            let Ok(room) = self.tell.reserve().await else { continue };
            if let Some((node, request)) = self.start(&id).await {
                let reply = Reply { database: self.database.clone(), id, next: 0, has_ended: false };
                room.send(Taken { node, request, reply });
            }
        }
        Ok(())
    }

    /// Starts a request, however long the database takes to say whether it is still there: whoever waits must not wait for
    /// one that was started and forgotten.
    async fn start(&self, id: &str) -> Option<(String, Request)> {
        loop {
            let params: Vec<Param> = vec![Box::new(id.to_owned()), Box::new(self.lease.clone())];
            match self.database.ask("start a request", TAKE, params).await {
                Ok(rows) => {
                    let row = rows.first()?;
                    return Some((row.get(0), Request { head: row.get(1), body: row.get(2) }));
                }
                Err(_) => sleep(AGAIN).await,
            }
        }
    }
}
