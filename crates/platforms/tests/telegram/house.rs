//! A house for the adapter: it keeps what comes in, and refuses what it is told to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cairn_core::command::{Command, CommandAnswer, CommandCall};
use cairn_core::conversation::Conversation;
use cairn_core::ids::{ChannelId, MessageId, Seq, TurnId};
use cairn_core::message::{Amendment, Author, Entry, Inbound};
use cairn_core::ports::{
    AdapterPorts, Admission, Archive, ChannelRow, Clock, Desk, Intake, Refusal, Registry, Seen, StoreError,
};
use cairn_core::registry::Standing;
use cairn_testkit::clock::{TestClock, wall_time};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

/// The wall's clock: the fake Telegram stamps messages with it.
struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        wall_time()
    }
}

/// What the house has, and what it is to do.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) taken: Vec<Inbound>,
    pub(crate) amended: Vec<Amendment>,
    pub(crate) calls: Vec<CommandCall>,
    /// What the next submissions are refused with.
    pub(crate) refusals: VecDeque<Refusal>,
    /// Channels without room, by the chat in their name.
    pub(crate) busy: Vec<String>,
    /// Gates before a message is taken in, by the chat in its channel's name.
    pub(crate) gates: BTreeMap<String, Arc<Semaphore>>,
    /// So many messages have come to a gate.
    pub(crate) at_gates: usize,
    /// A gate before a command of this name ends.
    pub(crate) slow_command: Option<(&'static str, Arc<Semaphore>)>,
    pub(crate) answer: Option<CommandAnswer>,
    pub(crate) standing: BTreeMap<String, Standing>,
    pub(crate) asked: Vec<(Author, String)>,
    /// New ids by old ones.
    pub(crate) moved: BTreeMap<String, String>,
    /// Messages that were taken in in an earlier life.
    pub(crate) seen: BTreeSet<MessageId>,
    /// The time of the house; none: that on the wall.
    pub(crate) clock: Option<Arc<TestClock>>,
}

/// A house.
pub(crate) struct House {
    pub(crate) state: Mutex<State>,
    changed: watch::Sender<u64>,
}

impl House {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: watch::Sender::new(0) })
    }

    pub(crate) fn ports(self: &Arc<Self>) -> AdapterPorts {
        AdapterPorts { intake: self.clone(), desk: self.clone(), archive: self.clone() }
    }

    /// Closes a gate before the messages of a chat.
    pub(crate) fn gate(&self, chat: i64) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.state.lock().gates.insert(chat.to_string(), gate.clone());
        gate
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock());
        self.changed.send_modify(|n| *n += 1);
        result
    }

    /// Waits until something holds of what came in.
    pub(crate) async fn wait_until(&self, what: &str, holds: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !holds(&self.state.lock()) {
                changed.changed().await.expect("the house stands");
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        let texts: Vec<String> = self.state.lock().taken.iter().map(text).collect();
        assert!(waited.is_ok(), "waited in vain for {what}; came in: {texts:?}");
    }

    /// Waits for so many messages; all of them.
    pub(crate) async fn wait_taken(&self, n: usize) -> Vec<Inbound> {
        self.wait_until(&format!("{n} messages"), |state| state.taken.len() >= n).await;
        self.state.lock().taken.clone()
    }
}

/// What a message says.
pub(crate) fn text(inbound: &Inbound) -> String {
    cairn_core::message::text_of(&inbound.parts)
}

impl Intake for House {
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>> {
        Box::pin(async move {
            let chat = inbound.channel.chat().to_owned();
            let gate = self.state.lock().gates.get(&chat).cloned();
            if let Some(gate) = gate {
                self.update(|state| state.at_gates += 1);
                gate.acquire().await.expect("is open").forget();
            }
            let refusal = self.update(|state| {
                let busy = state.busy.contains(&chat).then_some(Refusal::Busy { retry_after_secs: 1 });
                busy.or_else(|| state.refusals.pop_front())
            });
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            self.update(|state| {
                let known = |before: &Inbound| {
                    (&before.channel, &before.message) == (&inbound.channel, &inbound.message)
                };
                if !state.seen.contains(&inbound.message) && !state.taken.iter().any(known) {
                    state.taken.push(inbound);
                }
            });
            Ok(Admission { turn: TurnId::from("t1"), progress: futures::stream::empty().boxed() })
        })
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>> {
        self.update(|state| state.amended.push(amendment));
        Box::pin(async { Ok(()) })
    }

    fn claim(
        &self,
        _: ChannelId,
        _: MessageId,
        _: Command,
        _: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>> {
        Box::pin(async { Ok(true) })
    }
}

impl Desk for House {
    fn run(&self, call: CommandCall) -> BoxFuture<'_, Option<CommandAnswer>> {
        Box::pin(async move {
            let name = call.command.as_ref().map(Command::name).unwrap_or("bad");
            let (answer, gate) = self.update(|state| {
                state.calls.push(call);
                let gate = state.slow_command.clone().filter(|(slow, _)| *slow == name);
                (state.answer.clone(), gate)
            });
            if let Some((_, gate)) = gate {
                gate.acquire().await.expect("is open").forget();
            }
            answer
        })
    }
}

impl Registry for House {
    fn standing(&self, user: &str) -> Standing {
        self.state.lock().standing.get(user).copied().unwrap_or(Standing::Stranger)
    }

    fn request_pairing(
        &self,
        user: Author,
        chat: String,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let first = self.update(|state| {
            state.asked.push((user, chat));
            state.asked.len() == 1
        });
        Box::pin(async move { Ok(first.then(|| "K7QX2M".to_owned())) })
    }

    fn home_of(&self, _: &str, chat: &str) -> String {
        let state = self.state.lock();
        let home = state.moved.iter().find(|(_, to)| to.as_str() == chat).map(|(from, _)| from.clone());
        home.unwrap_or_else(|| chat.to_owned())
    }

    fn address_of(&self, _: &str, chat: &str) -> String {
        self.state.lock().moved.get(chat).cloned().unwrap_or_else(|| chat.to_owned())
    }

    fn migrate(&self, _: String, from: String, to: String) -> BoxFuture<'_, Result<(), StoreError>> {
        self.update(|state| state.moved.insert(from, to));
        Box::pin(async { Ok(()) })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        match self.state.lock().clock.clone() {
            Some(clock) => clock,
            None => Arc::new(Wall),
        }
    }
}

impl Archive for House {
    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn restore(&self, _: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn keep_head(&self, _: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn entries(
        &self,
        _: &ChannelId,
        _: Seq,
        _: Seq,
        _: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn said(&self, _: &ChannelId, _: &MessageId) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn seen(&self, _: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>> {
        let seen = match self.state.lock().seen.contains(message) {
            true => Seen::Open { turn: TurnId::from("t1"), fingerprint: String::new() },
            false => Seen::New,
        };
        Box::pin(async { Ok(seen) })
    }
}
