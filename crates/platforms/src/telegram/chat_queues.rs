//! Updates under way: in order within a chat (and topic), beside each other otherwise.
//!
//! Each update is a task; the next of its lane starts when it is done. A command that takes long lets its lane go on,
//! and counts as done: that it is run is durable long before.
//! `/stop` and the answers to what the bot asks pass a message that waits for room in its channel: they may be what
//! makes the room.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sent::Place;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Room,
    /// A house, or a channel, that takes nothing at all.
    Runtime,
}

/// When the runtime took something in last.
type Taken = Arc<Mutex<Option<Instant>>>;

/// What a task and the poller know of each other.
#[derive(Debug, Default)]
pub(super) struct Hold {
    /// What the task waits for, and since when.
    waits: Mutex<Option<(Wait, Instant)>>,
    /// The one before it in its lane was given up, which had waited since then: so has this one.
    before: Option<Instant>,
    taken: Taken,
    given_up: CancellationToken,
}

impl Hold {
    pub(super) fn set_waiting(&self, wait: Option<Wait>) {
        let mut waits = self.waits.lock();
        let since = waits.map(|(_, since)| since).or(self.before);
        *waits = wait.map(|wait| (wait, since.unwrap_or_else(Instant::now)));
    }

    pub(super) fn set_taken(&self) {
        *self.waits.lock() = None;
        *self.taken.lock() = Some(Instant::now());
    }

    fn waits_for_room(&self) -> bool {
        self.waits.lock().is_some_and(|(wait, _)| wait == Wait::Room)
    }

    /// What the next of the lane is to know as `before`.
    fn vain(&self) -> Option<Instant> {
        let waits = *self.waits.lock();
        waits.filter(|_| self.given_up.is_cancelled()).map(|(_, since)| since)
    }

    /// Resolves when the task is to wait no longer.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }
}

/// Lets a task say that its update is done though it goes on itself.
#[derive(Clone)]
pub(super) struct Release {
    chat_queue: Place,
    update: i64,
    sender: mpsc::Sender<(Place, i64)>,
}

impl Release {
    /// The update is done, and its lane goes on. Waits for nothing: at worst that is so when the task ends.
    pub(super) fn now(&self) {
        if self.sender.try_send((self.chat_queue, self.update)).is_err() {
            tracing::debug!(chat = self.chat_queue.0, "a chat goes on only when its command is done");
        }
    }
}

pub(super) struct Job<T> {
    pub(super) update: i64,
    pub(super) urgent: bool,
    pub(super) work: T,
}

struct ChatQueue<T> {
    /// The update that the lane waits for.
    front: i64,
    hold: Arc<Hold>,
    queue: VecDeque<Job<T>>,
}

/// All lanes. `start` makes the task of an update.
pub(super) struct ChatQueues<T, F> {
    start: F,
    chat_queues: HashMap<Place, ChatQueue<T>>,
    tasks: JoinSet<()>,
    running: HashMap<Id, (Place, i64)>,
    released: mpsc::Receiver<(Place, i64)>,
    sender: mpsc::Sender<(Place, i64)>,
    taken: Taken,
}

impl<T, F, Fut> ChatQueues<T, F>
where
    F: FnMut(T, Arc<Hold>, Release) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    pub(super) fn new(start: F) -> Self {
        let (sender, released) = mpsc::channel(super::offset_tracker::WINDOW);
        let (chat_queues, running) = (HashMap::new(), HashMap::new());
        Self { start, chat_queues, tasks: JoinSet::new(), running, released, sender, taken: Taken::default() }
    }

    /// Puts an update at the end of its lane.
    pub(super) fn push(&mut self, place: Place, job: Job<T>) {
        match self.chat_queues.get_mut(&place) {
            Some(chat_queue) => chat_queue.queue.push_back(job),
            None => self.lead(place, job, VecDeque::new(), None),
        }
    }

    /// An update becomes the one that its lane waits for.
    fn lead(&mut self, place: Place, job: Job<T>, queue: VecDeque<Job<T>>, before: Option<Instant>) {
        let hold = Arc::new(Hold { before, taken: self.taken.clone(), ..Hold::default() });
        let front = job.update;
        self.spawn(place, job, hold.clone());
        self.chat_queues.insert(place, ChatQueue { front, hold, queue });
    }

    fn spawn(&mut self, place: Place, job: Job<T>, hold: Arc<Hold>) {
        let release = Release { chat_queue: place, update: job.update, sender: self.sender.clone() };
        let task = self.tasks.spawn((self.start)(job.work, hold, release));
        self.running.insert(task.id(), (place, job.update));
    }

    /// Waits for something to happen. Gives the number of an update that is done, of some twice. Pends while none is
    /// under way.
    pub(super) async fn step(&mut self) -> Option<i64> {
        tokio::select! {
            Some((place, update)) = self.released.recv() => {
                self.go_on(place, update);
                Some(update)
            }
            Some(ended) = self.tasks.join_next_with_id() => self.ended(ended.map(|(id, ())| id)),
            else => std::future::pending().await,
        }
    }

    fn ended(&mut self, ended: Result<Id, JoinError>) -> Option<i64> {
        let id = match ended {
            Ok(id) => id,
            Err(error) => {
                // It would fail again: better to lose one update than to be deaf.
                metrics::counter!("cairn_telegram_updates_total", "outcome" => "panicked").increment(1);
                tracing::error!(
                    "an update of telegram broke its handling and is passed over; please report this"
                );
                error.id()
            }
        };
        let (place, update) = self.running.remove(&id)?;
        self.go_on(place, update);
        Some(update)
    }

    /// The lane need not wait for this update any more.
    fn go_on(&mut self, place: Place, update: i64) {
        if self.chat_queues.get(&place).is_none_or(|chat_queue| chat_queue.front != update) {
            return;
        }
        let Some(mut chat_queue) = self.chat_queues.remove(&place) else { return };
        if let Some(job) = chat_queue.queue.pop_front() {
            self.lead(place, job, chat_queue.queue, chat_queue.hold.vain());
        }
    }

    /// Starts what is urgent in lanes whose front waits for room.
    pub(super) fn let_urgent_pass(&mut self) {
        let mut passing = Vec::new();
        for (place, chat_queue) in
            self.chat_queues.iter_mut().filter(|(_, chat_queue)| chat_queue.hold.waits_for_room())
        {
            while let Some(idx) = chat_queue.queue.iter().position(|job| job.urgent) {
                passing.extend(chat_queue.queue.remove(idx).map(|job| (*place, job)));
            }
        }
        for (place, job) in passing {
            self.spawn(place, job, Arc::new(Hold::default()));
        }
    }

    /// Has an update wait no longer, if it leads its lane and has waited for long enough: so long for room, or so
    /// long for a channel that takes nothing while others do. For a runtime that takes nothing from anybody it waits on.
    pub(super) fn give_up(&self, update: i64, room: Duration, runtime: Duration) {
        let Some(chat_queue) = self.chat_queues.values().find(|chat_queue| chat_queue.front == update) else {
            return;
        };
        let waits = *chat_queue.hold.waits.lock();
        let in_vain = match waits {
            Some((Wait::Room, since)) => since.elapsed() >= room,
            Some((Wait::Runtime, since)) => {
                since.elapsed() >= runtime && self.taken.lock().is_some_and(|taken| taken >= since)
            }
            None => false,
        };
        if in_vain {
            chat_queue.hold.given_up.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use tokio::sync::Semaphore;

    use super::*;

    const A: Place = (1, None);
    const B: Place = (2, None);

    /// Tasks that log their number, then wait for a permit where they are given a gate.
    type Log = Arc<Mutex<Vec<i64>>>;
    type Work = (i64, Option<Arc<Semaphore>>, bool);

    const HOUR: Duration = Duration::from_secs(3600);

    fn start(log: Log, wait: Wait) -> impl FnMut(Work, Arc<Hold>, Release) -> BoxFuture<'static, ()> {
        move |(number, gate, releases): Work, hold, release| {
            let log = log.clone();
            Box::pin(async move {
                log.lock().push(number);
                if releases {
                    release.now();
                }
                if let Some(gate) = gate {
                    hold.set_waiting(Some(wait));
                    tokio::select! {
                        permit = gate.acquire() => permit.expect("is open").forget(),
                        () = hold.given_up() => return log.lock().push(-number),
                    }
                }
                hold.set_taken();
            })
        }
    }

    fn job(number: i64, gate: Option<&Arc<Semaphore>>) -> Job<Work> {
        Job { update: number, urgent: false, work: (number, gate.cloned(), false) }
    }

    #[tokio::test]
    async fn a_lane_keeps_its_order_and_holds_no_other_up() {
        let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
        let mut chat_queues = ChatQueues::new(start(log.clone(), Wait::Room));
        chat_queues.push(A, job(1, Some(&gate)));
        chat_queues.push(A, job(2, None));
        chat_queues.push(B, job(3, None));
        assert_eq!(chat_queues.step().await, Some(3));
        assert_eq!(*log.lock(), [1, 3]);
        gate.add_permits(1);
        assert_eq!(chat_queues.step().await, Some(1));
        assert_eq!(chat_queues.step().await, Some(2));
    }

    #[tokio::test]
    async fn a_task_that_takes_long_lets_its_lane_go_on() {
        let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
        let mut chat_queues = ChatQueues::new(start(log.clone(), Wait::Room));
        chat_queues.push(A, Job { update: 1, urgent: false, work: (1, Some(gate.clone()), true) });
        chat_queues.push(A, job(2, None));
        assert_eq!(chat_queues.step().await, Some(1), "it counts as done");
        assert_eq!(chat_queues.step().await, Some(2));
        gate.add_permits(1);
        assert_eq!(chat_queues.step().await, Some(1));
    }

    #[tokio::test]
    async fn what_is_urgent_passes_what_waits_for_room() {
        let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
        let mut chat_queues = ChatQueues::new(start(log.clone(), Wait::Room));
        chat_queues.push(A, job(1, Some(&gate)));
        chat_queues.push(A, job(2, None));
        chat_queues.push(A, Job { update: 3, urgent: true, work: (3, None, false) });
        chat_queues.let_urgent_pass();
        tokio::task::yield_now().await;
        chat_queues.let_urgent_pass();
        assert_eq!(chat_queues.step().await, Some(3));
        chat_queues.give_up(1, HOUR, Duration::ZERO);
        chat_queues.give_up(1, Duration::ZERO, HOUR);
        assert_eq!(chat_queues.step().await, Some(1));
        assert_eq!(chat_queues.step().await, Some(2));
        assert_eq!(*log.lock(), [1, 3, -1, 2]);
    }

    #[tokio::test]
    async fn a_channel_that_takes_nothing_is_given_up_while_others_are_heard() {
        let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
        let mut chat_queues = ChatQueues::new(start(log.clone(), Wait::Runtime));
        chat_queues.push(A, job(1, Some(&gate)));
        chat_queues.push(A, job(2, Some(&gate)));
        chat_queues.push(A, job(3, None));
        tokio::task::yield_now().await;
        chat_queues.give_up(1, Duration::ZERO, Duration::ZERO);
        tokio::task::yield_now().await;
        assert_eq!(*log.lock(), [1], "nobody is heard: the runtime may be back at any time");
        chat_queues.push(B, job(4, None));
        assert_eq!(chat_queues.step().await, Some(4));
        chat_queues.give_up(1, Duration::ZERO, HOUR);
        tokio::task::yield_now().await;
        assert_eq!(*log.lock(), [1, 4], "not yet");
        chat_queues.give_up(1, HOUR, Duration::ZERO);
        assert_eq!(chat_queues.step().await, Some(1));
        tokio::task::yield_now().await;
        chat_queues.give_up(2, HOUR, Duration::ZERO);
        assert_eq!(chat_queues.step().await, Some(2), "it has waited as long as the one before it");
        assert_eq!(chat_queues.step().await, Some(3));
        assert_eq!(*log.lock(), [1, 4, -1, 2, -2, 3]);
    }

    #[tokio::test]
    async fn an_update_that_breaks_its_handling_is_done_and_its_lane_goes_on() {
        let mut chat_queues = ChatQueues::new(|number: i64, _: Arc<Hold>, _: Release| async move {
            assert_ne!(number, 1, "breaks");
        });
        chat_queues.push(A, Job { update: 1, urgent: false, work: 1 });
        chat_queues.push(A, Job { update: 2, urgent: false, work: 2 });
        assert_eq!(chat_queues.step().await, Some(1));
        assert_eq!(chat_queues.step().await, Some(2));
    }
}
