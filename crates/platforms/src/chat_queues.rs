//! One queue per chat: items of a chat keep their order, and no chat waits for another.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

struct State<K, T> {
    chats: HashMap<K, VecDeque<T>>,
    n_waiting: usize,
}

/// The queues of all chats. A queue exists from its first item until its worker finds it empty.
pub(crate) struct ChatQueues<K, T>(Mutex<State<K, T>>);

impl<K, T> Default for ChatQueues<K, T> {
    fn default() -> Self {
        Self(Mutex::new(State { chats: HashMap::new(), n_waiting: 0 }))
    }
}

impl<K: Copy + Eq + Hash, T> ChatQueues<K, T> {
    /// Changes the queue of a chat; `change` also gets the number of items waiting in all queues. Returns true if the
    /// queue is new and the caller must start a worker ([`work_off`]).
    #[must_use]
    pub(crate) fn change(&self, chat: K, change: impl FnOnce(&mut VecDeque<T>, usize)) -> bool {
        let state = &mut *self.0.lock();
        let is_new = !state.chats.contains_key(&chat);
        let queue = state.chats.entry(chat).or_default();
        let before = queue.len();
        change(queue, state.n_waiting);
        state.n_waiting = state.n_waiting + queue.len() - before;
        is_new
    }

    /// Appends an item to a chat's queue. Returns true if the queue is new and the caller must start a worker.
    #[must_use]
    pub(crate) fn push(&self, chat: K, item: T) -> bool {
        self.change(chat, |queue, _| queue.push_back(item))
    }

    /// Removes the `wanted` items from a chat's queue and returns them in order.
    pub(crate) fn extract(&self, chat: K, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let state = &mut *self.0.lock();
        let Some(queue) = state.chats.get_mut(&chat) else { return Vec::new() };
        let (taken, left): (VecDeque<T>, VecDeque<T>) = queue.drain(..).partition(wanted);
        *queue = left;
        state.n_waiting -= taken.len();
        taken.into()
    }

    /// Whether a `wanted` item waits in a chat's queue.
    pub(crate) fn has(&self, chat: K, wanted: impl Fn(&T) -> bool) -> bool {
        self.0.lock().chats.get(&chat).is_some_and(|queue| queue.iter().any(wanted))
    }

    /// The next item for a chat's worker. `None`: the queue was empty and is removed, and the worker ends.
    fn next(&self, chat: K) -> Option<T> {
        let state = &mut *self.0.lock();
        match state.chats.get_mut(&chat)?.pop_front() {
            Some(item) => {
                state.n_waiting -= 1;
                Some(item)
            }
            None => {
                state.chats.remove(&chat);
                None
            }
        }
    }

    /// Whether nothing waits and no worker runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().chats.is_empty()
    }

    pub(crate) fn n_waiting(&self) -> usize {
        self.0.lock().n_waiting
    }
}

/// The worker of a chat: handles the items of its queue one by one until it is empty.
pub(crate) async fn work_off<K: Copy + Eq + Hash, T, F: Future<Output = ()>>(
    queues: Arc<ChatQueues<K, T>>,
    chat: K,
    handle: impl Fn(T) -> F,
) {
    while let Some(item) = queues.next(chat) {
        guarded(handle(item)).await;
    }
}

/// Runs `work`. A panic is logged and the item is skipped: a retry would panic again.
async fn guarded(work: impl Future<Output = ()>) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        tracing::error!("handling an incoming event panicked; the event is skipped; please report it");
    }
}

/// The tasks of one adapter run. Dropping the guard from [`Tasks::new`] stops them.
#[derive(Clone)]
pub(crate) struct Tasks(CancellationToken);

impl Tasks {
    /// Dropping the guard stops all of the tasks.
    pub(crate) fn new() -> (Self, DropGuard) {
        let token = CancellationToken::new();
        (Self(token.clone()), token.drop_guard())
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let token = self.0.clone();
        // Keeps the tracing span, so that log lines of the task name the bot.
        tokio::spawn(async move { token.run_until_cancelled(guarded(work)).await }.in_current_span());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queues: &ChatQueues<u8, u32>, chat: u8) -> Vec<u32> {
        std::iter::from_fn(|| queues.next(chat)).collect()
    }

    #[test]
    fn a_queue_wants_a_worker_once_and_again_when_it_was_empty() {
        let queues = ChatQueues::default();
        assert!(queues.push(1, 10));
        assert!(!queues.push(1, 11));
        assert!(queues.push(2, 12));
        assert_eq!((queues.n_waiting(), drain(&queues, 1)), (3, vec![10, 11]));
        assert_eq!(queues.n_waiting(), 1);
        assert!(queues.push(1, 13));
    }

    #[test]
    fn what_is_urgent_is_taken_out_and_the_rest_keeps_its_order() {
        let queues = ChatQueues::default();
        for item in [1, 20, 2, 21, 3] {
            let _ = queues.push(1, item);
        }
        assert_eq!(queues.extract(1, |item| *item >= 20), [20, 21]);
        assert_eq!((queues.n_waiting(), drain(&queues, 1)), (3, vec![1, 2, 3]));
        assert!(queues.extract(2, |_| true).is_empty());
    }

    #[tokio::test]
    async fn an_item_that_breaks_its_handling_is_passed_over_and_its_queue_goes_on() {
        let (queues, done) = (Arc::new(ChatQueues::default()), Mutex::new(Vec::new()));
        let _ = queues.push(1, 1);
        let _ = queues.push(1, 2);
        let handle = async |n: i32| {
            assert_ne!(n, 1, "breaks");
            done.lock().push(n);
        };
        work_off(queues, 1, handle).await;
        assert_eq!(*done.lock(), [2]);
    }
}
