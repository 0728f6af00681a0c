//! Requests that a node which follows passes on to the one that leads: by way of the database, so that no node must reach
//! another.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::ports::StoreError;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::client::{Session, answer};
use super::{Database, LeaseState, Param, failed, new_id};

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

/// So many parts of an answer wait in the database at the most.
const UNREAD: i64 = 16;

/// So many requests that were taken wait in this process at the most.
const WAITING: usize = 16;

const ASK: &str = "WITH asked AS (INSERT INTO cairn_request (id, node, head, body) VALUES ($1::text::uuid, $2, $3, $4) \
     ON CONFLICT DO NOTHING) SELECT pg_notify('cairn_request', '')";

const LOOK: &str = "WITH waits AS (UPDATE cairn_request SET looked_at = clock_timestamp() WHERE id = $1::text::uuid \
         RETURNING lease), \
     parts AS (DELETE FROM cairn_answer WHERE request = $1::text::uuid RETURNING part, bytes, n) \
     SELECT waits.lease IS NOT NULL, waits.lease IS NOT DISTINCT FROM j.lease, parts.part, parts.bytes, parts.n \
     FROM cairn_journal j CROSS JOIN waits LEFT JOIN parts ON true ORDER BY parts.part";

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

/// A request as one node passes it to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What stands before the body.
    pub head: String,
    pub body: Vec<u8>,
}

/// A part of an answer. The first one is what stands before its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub bytes: Vec<u8>,
    /// In the last part alone: the last record that the leader had then.
    pub last_n: Option<u64>,
}

/// Why there is no answer, or no end of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unanswered {
    /// Nothing was done.
    #[error("no node has started it: {0}")]
    NotStarted(StoreError),
    /// It may have been done.
    #[error("it was started, and its outcome is not known: {0}")]
    Lost(String),
}

impl Database {
    /// Passes a request on. What comes ends with a last part, or with why there is none; dropping it ends the request.
    pub(crate) fn pass_on(
        self: &Arc<Self>,
        request: Request,
    ) -> Result<mpsc::Receiver<Result<Part, Unanswered>>, Unanswered> {
        let id = new_id().map_err(Unanswered::NotStarted)?;
        let (tell, parts) = mpsc::channel(1);
        let asking = Asking { database: self.clone(), id, tell, next: 0, is_started: false };
        self.handle().spawn(asking.run(request));
        Ok(parts)
    }

    /// What other nodes pass on from here on, as long as this one leads and somebody takes it.
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
    /// The part that comes next.
    next: i32,
    is_started: bool,
}

impl Asking {
    async fn run(mut self, request: Request) {
        let ended = self.asked(request).await;
        // What nobody removes is removed by the leader.
        drop(self.database.ask("end a request", END, vec![Box::new(self.id.clone())]).await);
        if let Err(error) = ended {
            // Nobody waits any more: no error.
            drop(self.tell.send(Err(error)).await);
        }
    }

    async fn asked(&mut self, request: Request) -> Result<(), Unanswered> {
        let Request { head, body } = request;
        let node = self.database.options.node.clone();
        let params: Vec<Param> =
            vec![Box::new(self.id.clone()), Box::new(node), Box::new(head), Box::new(body)];
        let asked = self.database.ask("pass a request on", ASK, params).await;
        let since = Instant::now();
        if let Err(error) = asked {
            // It may be there all the same.
            return Err(match self.take_back().await {
                true => Unanswered::NotStarted(error),
                false => Unanswered::Lost(error.to_string()),
            });
        }
        loop {
            if self.look().await? {
                return Ok(());
            }
            if !self.is_started && since.elapsed() >= STARTED_WITHIN && self.take_back().await {
                let why = "the node that leads does not take it";
                return Err(Unanswered::NotStarted(failed("pass a request on", why)));
            }
            let wait = if since.elapsed() < SOON { LOOK_SOON } else { LOOK_LATE };
            tokio::select! {
                () = self.tell.closed() => return Ok(()),
                () = sleep(wait) => {}
            }
        }
    }

    /// Tells what there is of the answer. True: that was all.
    async fn look(&mut self) -> Result<bool, Unanswered> {
        let rows = self.database.ask("look for an answer", LOOK, vec![Box::new(self.id.clone())]).await;
        let rows = rows.map_err(|error| Unanswered::Lost(error.to_string()))?;
        let Some(first) = rows.first() else {
            return Err(Unanswered::Lost("it was given up".to_owned()));
        };
        self.is_started |= first.get::<_, bool>(0);
        let is_led = first.get::<_, bool>(1);
        for row in &rows {
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
    /// The database does not answer.
    pub async fn send(&mut self, part: Part) -> Result<bool, StoreError> {
        let n = part.last_n.map(|n| n as i64);
        let is_last = n.is_some();
        let params: Vec<Param> =
            vec![Box::new(self.id.clone()), Box::new(self.next), Box::new(part.bytes), Box::new(n)];
        let rows = self.database.ask("answer a request", ANSWER, params).await?;
        self.next += 1;
        self.has_ended = is_last;
        let mut unread = rows.first().and_then(|row| row.get::<_, Option<i64>>(0));
        while !is_last && unread.is_some_and(|unread| unread >= UNREAD) {
            sleep(LOOK_LATE).await;
            let rows = self.database.ask("answer a request", UNREAD_PARTS, vec![Box::new(self.id.clone())]);
            unread = rows.await?.first().map(|row| row.get(0));
        }
        Ok(unread.is_some())
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
