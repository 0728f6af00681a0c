//! Waiters for a turn's answer, or for the end of a run.
//!
//! They are kept beside the channel's actor and outlive its restarts. A slow waiter misses parts of the stream, never the
//! answer; one that is gone is removed. Neither delays a turn.

use std::collections::BTreeMap;

use cairn_types::event::RunEnd;
use cairn_types::ids::{ApprovalId, MessageId, RunId};
use cairn_types::message::ToolCall;
use cairn_types::model::Usage;
use cairn_types::ports::{Answer, Progress, TurnFailure};
use cairn_types::tool::approval::Approval;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::failure;

/// Progress that may queue for one waiter before it counts as slow.
const PROGRESS_QUEUE: usize = 256;

/// A waiter for a message's turn.
struct Waiter {
    progress: mpsc::Sender<Progress>,
    answer: oneshot::Sender<Answer>,
    /// It missed text, so it gets only the answer, or the next stream if the answer restarts.
    lagging: bool,
}

impl Waiter {
    fn tell(&mut self, progress: Progress) {
        if matches!(progress, Progress::Restarted) {
            self.lagging = false;
        }
        if !self.lagging && self.progress.try_send(progress).is_err() {
            self.lagging = true;
        }
    }
}

#[derive(Default)]
struct State {
    waiters: BTreeMap<MessageId, Vec<Waiter>>,
    turn: Vec<MessageId>,
    /// Text so far, for waiters that join late.
    so_far: String,
    /// Why the turn waits, while no model answers.
    waits: Option<String>,
    /// Its tool calls that wait for approval.
    approvals: Vec<Approval>,
    runs: BTreeMap<RunId, Vec<oneshot::Sender<RunEnd>>>,
}

#[derive(Default)]
pub(crate) struct TurnSubscribers {
    waiting: Mutex<State>,
    /// How often the answer under way has restarted.
    changed: watch::Sender<u64>,
}

impl TurnSubscribers {
    /// Waits for the rest of a message's turn, without what it has said so far.
    pub(crate) fn join_rest(&self, message: &MessageId) -> BoxStream<'static, Progress> {
        let (progress, words) = mpsc::channel(PROGRESS_QUEUE);
        let (answer, end) = oneshot::channel();
        let waiter = Waiter { progress, answer, lagging: false };
        self.waiting.lock().waiters.entry(message.clone()).or_default().push(waiter);
        progress_stream(words, end)
    }

    /// Waits for a message's turn. A waiter that joins a turn under way first gets the text so far and the open requests
    /// for approval.
    pub(crate) fn join(&self, message: &MessageId) -> BoxStream<'static, Progress> {
        let (progress, words) = mpsc::channel(PROGRESS_QUEUE);
        let (answer, end) = oneshot::channel();
        let mut waiter = Waiter { progress, answer, lagging: false };
        let mut waiting = self.waiting.lock();
        if waiting.turn.contains(message) && !waiting.so_far.is_empty() {
            waiter.tell(Progress::Delta(waiting.so_far.clone()));
        }
        if let Some(why) = waiting.waits.as_ref().filter(|_| waiting.turn.contains(message)) {
            waiter.tell(Progress::Waiting(why.clone()));
        }
        for approval in waiting.approvals.iter().filter(|_| waiting.turn.contains(message)) {
            waiter.tell(Progress::Approval(Box::new(approval.clone())));
        }
        waiting.waiters.entry(message.clone()).or_default().push(waiter);
        progress_stream(words, end)
    }

    pub(crate) fn begin(&self, messages: &[MessageId]) {
        let mut waiting = self.waiting.lock();
        let again = !waiting.so_far.is_empty();
        waiting.so_far.clear();
        waiting.waits = None;
        waiting.approvals.clear();
        waiting.turn = messages.to_vec();
        if again {
            waiting.tell(&Progress::Restarted);
            self.changed.send_modify(|restarts| *restarts += 1);
        }
    }

    /// The turn under way has taken up more messages.
    pub(crate) fn joined(&self, messages: &[MessageId]) {
        self.waiting.lock().turn.extend_from_slice(messages);
    }

    pub(crate) fn delta(&self, text: &str) {
        let mut waiting = self.waiting.lock();
        waiting.so_far.push_str(text);
        waiting.waits = None;
        waiting.tell(&Progress::Delta(text.to_owned()));
        self.changed.send_modify(|_| {});
    }

    /// Discards the text of the answer under way, which restarts.
    pub(crate) fn restarted(&self) {
        let mut waiting = self.waiting.lock();
        if !waiting.so_far.is_empty() {
            waiting.so_far.clear();
            waiting.tell(&Progress::Restarted);
            self.changed.send_modify(|restarts| *restarts += 1);
        }
    }

    /// Starts a new paragraph: the model has written text before a tool call and may continue after it.
    pub(crate) fn paragraph(&self) {
        let mut waiting = self.waiting.lock();
        if !waiting.so_far.is_empty() {
            waiting.so_far.push_str("\n\n");
            waiting.tell(&Progress::Delta("\n\n".to_owned()));
        }
    }

    /// Notes that the turn under way waits, since no model answers.
    pub(crate) fn waits(&self, why: &str) {
        let mut waiting = self.waiting.lock();
        waiting.waits = Some(why.to_owned());
        waiting.tell(&Progress::Waiting(why.to_owned()));
    }

    /// The text of the answer under way.
    pub(crate) fn text_so_far(&self) -> String {
        self.waiting.lock().so_far.clone()
    }

    /// Changes with the text of the answer under way; the value is the number of restarts.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn tool(&self, name: &str, state: &'static str) {
        self.waiting.lock().tell(&Progress::Tool { name: name.to_owned(), state });
    }

    pub(crate) fn client_calls(&self, calls: Vec<ToolCall>, usage: Usage) {
        let mut waiting = self.waiting.lock();
        waiting.tell(&Progress::ClientCalls { calls, usage });
        // One that missed it would wait for nothing.
        let State { waiters, turn, .. } = &mut *waiting;
        for message in turn.iter() {
            let Some(waiters) = waiters.get_mut(message) else { continue };
            for waiter in waiters.extract_if(.., |waiter| waiter.lagging) {
                let _ = waiter.answer.send(Answer::Failed(failure::lost()));
            }
        }
    }

    pub(crate) fn approval(&self, approval: &Approval) {
        let mut waiting = self.waiting.lock();
        waiting.tell(&Progress::Approval(Box::new(approval.clone())));
        waiting.approvals.push(approval.clone());
    }

    pub(crate) fn settled(&self, id: &ApprovalId) {
        self.waiting.lock().approvals.retain(|open| open.id != *id);
    }

    /// Ends the turn of these messages. Each waiter gets its own answer.
    pub(crate) fn end(&self, messages: &[MessageId], answer: impl Fn(&MessageId) -> Answer) {
        let mut waiting = self.waiting.lock();
        waiting.so_far.clear();
        waiting.waits = None;
        waiting.approvals.clear();
        waiting.turn.clear();
        for message in messages {
            for waiter in waiting.waiters.remove(message).unwrap_or_default() {
                drop(waiter.progress);
                // Dropped receivers are ignored.
                let _ = waiter.answer.send(answer(message));
            }
        }
    }

    /// Ends all waiting: nothing more will come. Waiters for a run get no end.
    pub(crate) fn close(&self, failure: &TurnFailure) {
        let mut waiting = self.waiting.lock();
        for waiter in std::mem::take(&mut waiting.waiters).into_values().flatten() {
            let _ = waiter.answer.send(Answer::Failed(failure.clone()));
        }
        waiting.so_far.clear();
        waiting.approvals.clear();
        waiting.turn.clear();
        waiting.runs.clear();
    }

    /// After a failure of the channel: ends the waiting for turns that ended before their waiters were told.
    pub(crate) fn close_ended(&self, is_open: impl Fn(&MessageId) -> bool) {
        let mut waiting = self.waiting.lock();
        let ended: Vec<_> = waiting.waiters.extract_if(.., |message, _| !is_open(message)).collect();
        for waiter in ended.into_iter().flat_map(|(_, waiters)| waiters) {
            let _ = waiter.answer.send(Answer::Failed(failure::lost()));
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.waiters.retain(|_, waiters| {
            waiters.retain(|waiter| !waiter.answer.is_closed());
            !waiters.is_empty()
        });
        !waiting.waiters.is_empty()
    }

    pub(crate) fn join_run(&self, run: &RunId) -> BoxFuture<'static, Option<RunEnd>> {
        let (ended, end) = oneshot::channel();
        self.waiting.lock().runs.entry(run.clone()).or_default().push(ended);
        Box::pin(async move { end.await.ok() })
    }

    pub(crate) fn end_run(&self, end: &RunEnd) {
        for waiter in self.waiting.lock().runs.remove(&end.run).unwrap_or_default() {
            let _ = waiter.send(end.clone());
        }
    }

    /// Ends the waiting for queued runs that will never start.
    pub(crate) fn forget_runs(&self) {
        self.waiting.lock().runs.clear();
    }
}

impl State {
    fn tell(&mut self, progress: &Progress) {
        for message in &self.turn {
            for waiter in self.waiters.get_mut(message).into_iter().flatten() {
                waiter.tell(progress.clone());
            }
        }
    }
}

/// The stream of a turn that has ended.
pub(crate) fn ended_stream(answer: Answer) -> BoxStream<'static, Progress> {
    stream::iter([Progress::Ended(answer)]).boxed()
}

/// Text as it comes, then the answer.
fn progress_stream(
    words: mpsc::Receiver<Progress>,
    end: oneshot::Receiver<Answer>,
) -> BoxStream<'static, Progress> {
    let words = stream::unfold(words, |mut words| async move { Some((words.recv().await?, words)) });
    let end = stream::once(async move {
        Progress::Ended(end.await.unwrap_or_else(|_| Answer::Failed(failure::lost())))
    });
    words.chain(end).boxed()
}

#[cfg(test)]
mod tests {
    use cairn_types::ids::TurnId;
    use cairn_types::ports::Reply;

    use super::*;

    fn reply(text: &str) -> Answer {
        Answer::Reply(Reply {
            turn: TurnId::from("t1"),
            message: MessageId::from("a"),
            reply: text.to_owned(),
            model: "m".to_owned(),
            usage: Usage::default(),
            recalled: Vec::new(),
            finish: None,
            notice: None,
        })
    }

    #[tokio::test]
    async fn a_late_joiner_gets_the_words_so_far() {
        let subscribers = TurnSubscribers::default();
        let message = MessageId::from("a");
        subscribers.begin(std::slice::from_ref(&message));
        subscribers.delta("one ");
        let late = subscribers.join(&message);
        subscribers.delta("two");
        subscribers.end(std::slice::from_ref(&message), |_| reply("one two"));
        let seen: Vec<_> = late.collect().await;
        assert_eq!(
            seen,
            [
                Progress::Delta("one ".into()),
                Progress::Delta("two".into()),
                Progress::Ended(reply("one two"))
            ]
        );
    }

    #[tokio::test]
    async fn a_late_joiner_hears_of_calls_that_still_wait_for_approval() {
        let subscribers = TurnSubscribers::default();
        let message = MessageId::from("a");
        subscribers.begin(std::slice::from_ref(&message));
        let open = |id: &str| Approval {
            id: id.into(),
            turn: TurnId::from("t1"),
            call: "c1".into(),
            tool: "write".to_owned(),
            arguments: serde_json::Value::Null,
            caused_by: std::collections::BTreeSet::new(),
            reason: String::new(),
            asked_at: jiff::Timestamp::UNIX_EPOCH,
            expires_at: jiff::Timestamp::UNIX_EPOCH,
        };
        for id in ["one", "two"] {
            subscribers.approval(&open(id));
        }
        subscribers.settled(&"one".into());
        let late = subscribers.join(&message);
        subscribers.end(std::slice::from_ref(&message), |_| reply("done"));
        let seen: Vec<_> = late.collect().await;
        assert_eq!(seen, [Progress::Approval(Box::new(open("two"))), Progress::Ended(reply("done"))]);
    }

    #[tokio::test]
    async fn a_slow_waiter_loses_words_but_not_the_answer() {
        let subscribers = TurnSubscribers::default();
        let message = MessageId::from("a");
        let slow = subscribers.join(&message);
        subscribers.begin(std::slice::from_ref(&message));
        for _ in 0..PROGRESS_QUEUE * 2 {
            subscribers.delta("x");
        }
        subscribers.end(std::slice::from_ref(&message), |_| reply("long"));
        let seen: Vec<_> = slow.collect().await;
        assert_eq!(seen.len(), PROGRESS_QUEUE + 1);
        assert_eq!(seen.last(), Some(&Progress::Ended(reply("long"))));
    }

    #[tokio::test]
    async fn a_waiter_is_told_when_its_channel_goes() {
        let subscribers = TurnSubscribers::default();
        let stream = subscribers.join(&MessageId::from("a"));
        drop(subscribers);
        let seen: Vec<_> = stream.collect().await;
        assert!(
            matches!(&seen[..], [Progress::Ended(Answer::Failed(failure))] if failure.code == "turn_failed")
        );
    }
}
