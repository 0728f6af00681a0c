//! A chat network: keeps what it was sent, splits by a limit, fails as planned, guards against doubles when told to.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use cairn_types::ids::{ApprovalId, ChannelId, MessageId};
use cairn_types::ports::{
    LinkState, Mark, Platform, PlatformStatus, PlatformTraits, SPLIT_AT_ONCE, SendError, SendPart,
};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::store::PATIENCE;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    Sent { channel: String, part: u32, words: String, reply_to: Option<String> },
    Edited { message: String, words: String },
    Typing { channel: String },
    Marked { message: String, from: Option<Mark>, to: Option<Mark> },
}

#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    Later(Option<Duration>),
    Refused,
    /// Nobody knows; in truth it is there, or not.
    Unknown {
        arrives: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub(crate) channel: String,
    pub(crate) key: (String, u32),
    pub(crate) words: String,
    pub(crate) approval: Option<ApprovalId>,
}

pub(crate) struct FakeNet {
    traits: Mutex<PlatformTraits>,
    /// Longest message, in bytes of plain words.
    pub(crate) limit: Mutex<usize>,
    /// How often words were split.
    pub(crate) splits: AtomicUsize,
    /// The threads on which long words were split.
    pub(crate) split_on: Mutex<Vec<ThreadId>>,
    /// The next long words are split once its sender is gone; not on the thread of the test, which would wait for itself.
    pub(crate) split_gate: Mutex<Option<mpsc::Receiver<()>>>,
    home: ThreadId,
    acts: watch::Sender<Vec<(Instant, Act)>>,
    pub(crate) messages: Mutex<Vec<(MessageId, Shown)>>,
    /// By channel; asked by sends and edits.
    troubles: Mutex<HashMap<String, VecDeque<Trouble>>>,
    /// It tells the bot what it has sent.
    pub(crate) shows_sent: AtomicBool,
    /// Typing requests wait for permits.
    typing_gate: Mutex<Option<Arc<Semaphore>>>,
    send_gate: Mutex<Option<Arc<Semaphore>>>,
    mark_troubles: Mutex<VecDeque<Trouble>>,
}

impl FakeNet {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            traits: Mutex::new(PlatformTraits {
                typing_every: Duration::from_secs(4),
                repeat_within: None,
                draft_every: None,
                marks: false,
            }),
            limit: Mutex::new(4_000),
            splits: AtomicUsize::new(0),
            split_on: Mutex::default(),
            split_gate: Mutex::default(),
            home: thread::current().id(),
            acts: watch::Sender::new(Vec::new()),
            messages: Mutex::default(),
            troubles: Mutex::default(),
            shows_sent: AtomicBool::new(false),
            typing_gate: Mutex::default(),
            send_gate: Mutex::default(),
            mark_troubles: Mutex::default(),
        })
    }

    /// It guards against doubles for so long.
    pub(crate) fn guard(&self, seconds: i64) {
        self.traits.lock().repeat_within = Some(SignedDuration::from_secs(seconds));
    }

    /// Drafts are shown, no more often than that.
    pub(crate) fn show_drafts(&self, every: Duration) {
        self.traits.lock().draft_every = Some(every);
    }

    /// Messages are marked.
    pub(crate) fn show_marks(&self) {
        self.traits.lock().marks = true;
    }

    /// Plans how the next marks fail.
    pub(crate) fn plan_marks(&self, troubles: &[Trouble]) {
        self.mark_troubles.lock().extend(troubles.iter().cloned());
    }

    /// Plans how the next requests about messages of a channel fail.
    pub(crate) fn plan(&self, channel: &ChannelId, troubles: &[Trouble]) {
        self.troubles.lock().entry(channel.to_string()).or_default().extend(troubles.iter().cloned());
    }

    /// Typing requests wait until permits are added.
    pub(crate) fn hold_typing(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.typing_gate.lock() = Some(Arc::clone(&gate));
        gate
    }

    /// Sends wait until permits are added.
    pub(crate) fn hold_sends(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.send_gate.lock() = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn acts(&self) -> Vec<Act> {
        self.acts.borrow().iter().map(|(_, act)| act.clone()).collect()
    }

    /// When something reached the network, in milliseconds since `start`.
    pub(crate) fn times(&self, start: Instant, what: impl Fn(&Act) -> bool) -> Vec<u128> {
        let acts = self.acts.borrow();
        acts.iter().filter(|(_, act)| what(act)).map(|(at, _)| (*at - start).as_millis()).collect()
    }

    /// The words of all messages of a channel as they are now.
    pub(crate) fn words(&self, channel: &ChannelId) -> Vec<String> {
        let messages = self.messages.lock();
        let of_channel = messages.iter().filter(|(_, shown)| shown.channel == channel.to_string());
        of_channel.map(|(_, shown)| shown.words.clone()).collect()
    }

    /// Waits until `n` such things have reached the network.
    pub(crate) async fn until(&self, n: usize, what: impl Fn(&Act) -> bool) {
        let enough = |acts: &Vec<(Instant, Act)>| acts.iter().filter(|(_, act)| what(act)).count() >= n;
        let mut acts = self.acts.subscribe();
        tokio::time::timeout(PATIENCE, acts.wait_for(enough)).await.expect("it never happened").unwrap();
    }

    fn note(&self, act: Act) {
        self.acts.send_modify(|acts| acts.push((Instant::now(), act)));
    }

    fn trouble(&self, channel: &ChannelId) -> Option<Trouble> {
        self.troubles.lock().get_mut(channel.as_str())?.pop_front()
    }

    fn take(&self, part: &SendPart) -> MessageId {
        let key = (part.delivery.to_string(), part.part);
        let mut messages = self.messages.lock();
        let guards = self.traits.lock().repeat_within.is_some();
        if let Some((id, _)) = messages.iter().find(|(_, shown)| guards && shown.key == key) {
            return id.clone();
        }
        let id = MessageId::from(format!("{}", 100 + messages.len()));
        let (channel, words) = (part.channel.to_string(), part.words.clone());
        let approval = part.approval.clone();
        let shown = Shown { channel: channel.clone(), key, words: words.clone(), approval };
        messages.push((id.clone(), shown));
        let reply_to = part.reply_to.as_ref().map(ToString::to_string);
        self.note(Act::Sent { channel, part: part.part, words, reply_to });
        id
    }
}

async fn pass(gate: Option<Arc<Semaphore>>) {
    if let Some(gate) = gate {
        gate.acquire().await.unwrap().forget();
    }
}

fn failed(trouble: &Trouble) -> SendError {
    match trouble {
        Trouble::Later(after) => SendError::Later { after: *after, reason: "busy".to_owned() },
        Trouble::Refused => SendError::Refused("kicked out".to_owned()),
        Trouble::Unknown { .. } => SendError::Unknown("connection lost".to_owned()),
    }
}

impl Platform for FakeNet {
    fn name(&self) -> &'static str {
        "net"
    }

    fn traits(&self) -> PlatformTraits {
        *self.traits.lock()
    }

    fn split(&self, words: &str) -> Vec<String> {
        self.splits.fetch_add(1, Ordering::Relaxed);
        if words.len() > SPLIT_AT_ONCE {
            let here = thread::current().id();
            self.split_on.lock().push(here);
            let gate = self.split_gate.lock().take_if(|_| here != self.home);
            gate.map(|gate| gate.recv());
        }
        let limit = *self.limit.lock();
        let words: Vec<char> = words.trim().chars().collect();
        words.chunks(limit).map(|chunk| chunk.iter().collect()).collect()
    }

    fn send(&self, part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>> {
        Box::pin(async move {
            let gate = self.send_gate.lock().clone();
            pass(gate).await;
            match self.trouble(&part.channel) {
                None => Ok(self.take(&part)),
                Some(trouble) => {
                    if matches!(trouble, Trouble::Unknown { arrives: true }) {
                        self.take(&part);
                    }
                    Err(failed(&trouble))
                }
            }
        })
    }

    fn find(
        &self,
        part: SendPart,
        _after: Option<MessageId>,
        _since: Timestamp,
    ) -> BoxFuture<'_, Result<Option<MessageId>, SendError>> {
        Box::pin(async move {
            if !self.shows_sent.load(Ordering::Relaxed) {
                return Err(SendError::Refused("it shows nothing".to_owned()));
            }
            let key = (part.delivery.to_string(), part.part);
            let messages = self.messages.lock();
            Ok(messages.iter().find(|(_, shown)| shown.key == key).map(|(id, _)| id.clone()))
        })
    }

    fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        words: String,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            if let Some(trouble) = self.trouble(&channel) {
                return Err(failed(&trouble));
            }
            let mut messages = self.messages.lock();
            let Some((_, shown)) = messages.iter_mut().find(|(id, _)| *id == message) else {
                return Err(SendError::Refused("no such message".to_owned()));
            };
            shown.words.clone_from(&words);
            self.note(Act::Edited { message: message.to_string(), words });
            Ok(())
        })
    }

    fn mark(
        &self,
        _channel: ChannelId,
        message: MessageId,
        from: Option<Mark>,
        to: Option<Mark>,
    ) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            self.note(Act::Marked { message: message.to_string(), from, to });
            self.mark_troubles.lock().pop_front().map_or(Ok(()), |trouble| Err(failed(&trouble)))
        })
    }

    fn typing(&self, channel: ChannelId) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(async move {
            let gate = self.typing_gate.lock().clone();
            pass(gate).await;
            self.note(Act::Typing { channel: channel.to_string() });
            Ok(())
        })
    }

    fn status(&self) -> PlatformStatus {
        PlatformStatus {
            platform: "net".to_owned(),
            state: LinkState::Connected,
            name: None,
            reason: None,
            hint: None,
            connected_since: None,
            last_inbound: None,
            last_outbound: None,
            latency_ms: None,
            queue: 0,
            shards: None,
            troubles: Vec::new(),
            caught_up: None,
            invalid_requests: None,
        }
    }
}
