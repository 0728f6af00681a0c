//! A fake runtime for adapters of chat networks. It notes what comes in, and answers as a test tells it to.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;

use cairn_types::command::{Command, CommandAnswer, CommandCall, Settled};
use cairn_types::ids::{ApprovalId, ChannelId, MessageId, TurnId};
use cairn_types::message::{Amendment, Author, Change, Inbound, text_of};
use cairn_types::people::access::AccessPolicy;
use cairn_types::people::pairing::PairingStatus;
use cairn_types::ports::{
    AdapterPorts, Admission, ChannelRow, ChatCommands, Clock, Intake, PairingStore, Progress, Refusal,
    StoreError,
};
use futures::future::{BoxFuture, ready};
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;

use crate::clock::{TestClock, wall_time};
use crate::gate::{self, Gate, Gates};
use crate::watched::Watched;

/// The code that a stranger is told.
pub const CODE: &str = "K7QX2M";

/// What who may not answer a request for a yes is told.
pub const MAY_NOT: &str = "You may not answer this.";

/// What is said where no request waits.
pub const NOTHING_WAITS: &str = "Nothing waits for a yes here any more.";

/// What the runtime has, and what it is to do.
#[derive(Default)]
pub struct State {
    /// What was taken in, each message once.
    pub taken: Vec<Inbound>,
    pub amended: Vec<Amendment>,
    pub calls: Vec<CommandCall>,
    /// Requests for a yes that wait; they are answered by commands while there is no `answer` for all of them.
    pub waiting: BTreeSet<ApprovalId>,
    /// Who may answer those, by `PLATFORM/USER`; none: everybody.
    pub approvers: BTreeSet<String>,
    pub decided: Vec<(ApprovalId, bool)>,
    /// Commands that `ChatCommands` ran, each once.
    ran: BTreeSet<(ChannelId, MessageId)>,
    pub claimed: BTreeSet<MessageId>,
    /// What the next submissions are refused with.
    pub refusals: VecDeque<Refusal>,
    /// What a message is refused with, try by try, before it is taken in.
    pub refusals_of: HashMap<MessageId, VecDeque<Refusal>>,
    /// Chats whose channels have no room.
    pub busy: BTreeSet<String>,
    /// So many messages and commands have come to a gate.
    pub at_gates: usize,
    /// What the turns of the next messages do.
    pub progress: VecDeque<Vec<Progress>>,
    pub answer: Option<CommandAnswer>,
    /// How people stand, by `PLATFORM/USER`; who is not among them is a stranger.
    pub standing: BTreeMap<String, PairingStatus>,
    /// Who asked to be let in, and in which chat.
    pub asked: Vec<(Author, String)>,
    /// No more strangers are told a code.
    pub full: bool,
    pub moved: BTreeMap<String, String>,
    pub rows: Vec<ChannelRow>,
    /// Those of the channels that are a person's private chat.
    pub privates: BTreeSet<ChannelId>,
    /// The rules that held one after the other, the newest last.
    pub access: Vec<(Timestamp, AccessPolicy)>,
    /// When people were let in, by `PLATFORM/USER`; who is not among them has been for ever.
    pub let_in: BTreeMap<String, Timestamp>,
    /// Messages that were taken in, before a restart too.
    pub seen: BTreeSet<(ChannelId, MessageId)>,
    /// Messages that were seen and that no model reads any more, but for a summary of them.
    pub summarised: BTreeSet<MessageId>,
    /// The time of the runtime; none: that on the wall, with which the fake networks stamp.
    pub clock: Option<Arc<TestClock>>,
}

#[derive(Default)]
pub struct Runtime {
    pub state: Watched<State>,
    gates: Gates<String>,
}

struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        wall_time()
    }
}

impl Runtime {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The runtime as an adapter sees it.
    pub fn ports(self: &Arc<Self>) -> AdapterPorts {
        AdapterPorts { intake: self.clone(), chat_commands: self.clone() }
    }

    /// Holds the messages of a chat, or a command (`/compact`), until the gate opens.
    pub fn hold(&self, what: impl Display) -> Gate {
        self.gates.close(what.to_string())
    }

    /// What the runtime says of a message, try by try, before it takes it.
    pub fn refuse(&self, message: impl Display, refusals: Vec<Refusal>) {
        self.state.update(|state| state.refusals_of.insert(id(message), refusals.into()));
    }

    /// What commands answer from now on.
    pub fn answers(&self, words: &str, private: bool) {
        self.state.update(|state| state.answer = Some(answer(words, private, None)));
    }

    /// A request for a yes waits, which these people may answer (`PLATFORM/USER`; none: everybody). Its id.
    pub fn asks(&self, id: &str, approvers: &[&str]) -> ApprovalId {
        let id = ApprovalId::from(id);
        self.state.update(|state| {
            state.waiting.insert(id.clone());
            state.approvers = approvers.iter().map(|who| (*who).to_owned()).collect();
        });
        id
    }

    /// Lets somebody in, `PLATFORM/USER`.
    pub fn pair(&self, user: &str) {
        self.state.update(|state| state.standing.insert(user.to_owned(), PairingStatus::Paired));
    }

    /// These rules held for so long, in seconds, until those that were told before or now.
    pub fn ruled(&self, secs_ago: i64, access: AccessPolicy) {
        let since = wall_time() - jiff::SignedDuration::from_secs(secs_ago);
        self.state.update(|state| {
            state.access.push((since, access));
            state.access.sort_by_key(|(since, _)| *since);
        });
    }

    /// This message was the last that was taken in of a person's private chat.
    pub fn has_private(&self, channel: &str, last: impl Display) {
        self.has(channel, last);
        let channel = channel.parse().unwrap_or_else(|error| panic!("{channel}: {error}"));
        self.state.update(|state| state.privates.insert(channel));
    }

    /// This message was the last that was taken in of a channel.
    pub fn has(&self, channel: &str, last: impl Display) {
        let channel: ChannelId = channel.parse().unwrap_or_else(|error| panic!("{channel}: {error}"));
        let last = id(last);
        self.state.update(|state| {
            state.seen.insert((channel.clone(), last.clone()));
            let last_message = Some(last);
            state.rows.push(ChannelRow { channel, last_at: wall_time(), unfinished: false, last_message });
        });
    }

    /// Waits until something holds of what came in.
    pub async fn wait_until(&self, what: &str, holds: impl Fn(&State) -> bool) {
        let more = || {
            let texts: Vec<String> = self.state.lock().taken.iter().map(text).collect();
            format!("came in: {texts:?}")
        };
        self.state.wait(what, || holds(&self.state.lock()).then_some(()), more).await;
    }

    /// Waits for so many messages in all; all of them.
    pub async fn wait_taken(&self, n: usize) -> Vec<Inbound> {
        self.wait_until(&format!("{n} messages"), |state| state.taken.len() >= n).await;
        self.state.lock().taken.clone()
    }

    /// Waits for so many changes in all; all of them.
    pub async fn wait_amended(&self, n: usize) -> Vec<Amendment> {
        self.wait_until(&format!("{n} changes"), |state| state.amended.len() >= n).await;
        self.state.lock().amended.clone()
    }

    /// Waits for so many commands in all; all of them.
    pub async fn wait_called(&self, n: usize) -> Vec<CommandCall> {
        self.wait_until(&format!("{n} commands"), |state| state.calls.len() >= n).await;
        self.state.lock().calls.clone()
    }

    async fn pass(&self, what: &str) {
        let gate = self.gates.of(&what.to_owned());
        if gate.is_some() {
            self.state.update(|state| state.at_gates += 1);
        }
        gate::pass(gate).await;
    }
}

pub fn id(message: impl Display) -> MessageId {
    MessageId::new(message.to_string())
}

pub fn text(inbound: &Inbound) -> String {
    text_of(&inbound.parts)
}

impl Intake for Runtime {
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>> {
        async move {
            self.pass(inbound.channel.chat()).await;
            self.state.update(|state| {
                let busy = state.busy.contains(inbound.channel.chat());
                let refusal = busy.then_some(Refusal::Busy { retry_after_secs: 1 });
                let of_it = || state.refusals_of.get_mut(&inbound.message)?.pop_front();
                if let Some(refusal) = refusal.or_else(of_it).or_else(|| state.refusals.pop_front()) {
                    return Err(refusal);
                }
                let progress = stream::iter(state.progress.pop_front().unwrap_or_default()).boxed();
                if state.seen.insert((inbound.channel.clone(), inbound.message.clone())) {
                    state.taken.push(inbound);
                }
                Ok(Admission { turn: TurnId::from("t1"), progress })
            })
        }
        .boxed()
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>> {
        self.state.update(|state| state.amended.push(amendment));
        ready(Ok(())).boxed()
    }

    fn claim(
        &self,
        _: ChannelId,
        message: MessageId,
        _: Command,
        _: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>> {
        ready(Ok(self.state.update(|state| state.claimed.insert(message)))).boxed()
    }

    fn channel(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Option<ChannelRow>, StoreError>> {
        let row = self.state.lock().row(channel);
        ready(Ok(row)).boxed()
    }

    fn private_chats(&self, _: &str) -> BoxFuture<'_, Result<Vec<ChannelId>, StoreError>> {
        let state = self.state.lock();
        let mut all: Vec<ChannelId> = state.privates.iter().cloned().collect();
        all.extend(
            state.taken.iter().filter(|inbound| inbound.direct).map(|inbound| inbound.channel.clone()),
        );
        ready(Ok(all)).boxed()
    }

    fn standing_messages(
        &self,
        channel: &ChannelId,
        _: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<MessageId>, StoreError>> {
        let state = self.state.lock();
        let is_gone = |message: &MessageId| {
            let of_message =
                |amended: &Amendment| amended.message == *message && amended.change == Change::Deleted;
            state.summarised.contains(message) || state.amended.iter().any(of_message)
        };
        let of_channel = state.seen.iter().filter(|(known, message)| known == channel && !is_gone(message));
        ready(Ok(of_channel.map(|(_, message)| message.clone()).collect())).boxed()
    }

    fn has_seen(&self, channel: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<bool, StoreError>> {
        let (state, key) = (self.state.lock(), (channel.clone(), message.clone()));
        ready(Ok(state.seen.contains(&key) || state.ran.contains(&key))).boxed()
    }
}

fn answer(words: &str, private: bool, settled: Option<Settled>) -> CommandAnswer {
    CommandAnswer { words: words.to_owned(), private, failed: false, settled }
}

impl State {
    /// What was taken in last of a channel, before a restart too.
    fn row(&self, channel: &ChannelId) -> Option<ChannelRow> {
        let taken = self.taken.iter().rev().find(|inbound| inbound.channel == *channel);
        let row = |inbound: &Inbound| ChannelRow {
            channel: channel.clone(),
            last_at: inbound.at,
            unfinished: false,
            last_message: Some(inbound.message.clone()),
        };
        taken.map(row).or_else(|| self.rows.iter().rev().find(|row| row.channel == *channel).cloned())
    }

    /// What `ChatCommands` says to a command; none: it was run before.
    fn answer_to(&mut self, call: CommandCall) -> Option<CommandAnswer> {
        if !self.ran.insert((call.channel.clone(), call.message.clone())) {
            return None;
        }
        let scripted = self.answer.clone();
        let caller = call.caller.id.clone();
        let decision = match &call.command {
            Ok(Command::Approve { id: Some(id) }) => Some((id.clone(), true)),
            Ok(Command::Deny { id: Some(id) }) => Some((id.clone(), false)),
            _ => None,
        };
        self.calls.push(call);
        let (Some((id, yes)), None) = (decision, &scripted) else { return scripted };
        if !self.approvers.is_empty() && !self.approvers.contains(&caller) {
            return Some(answer(MAY_NOT, true, None));
        }
        if !self.waiting.remove(&id) {
            return Some(answer(NOTHING_WAITS, false, Some(Settled::Before)));
        }
        self.decided.push((id, yes));
        Some(answer(if yes { "It is *done*." } else { "It is **not** done." }, false, Some(Settled::Now)))
    }
}

impl ChatCommands for Runtime {
    fn run(&self, call: CommandCall) -> BoxFuture<'_, Option<CommandAnswer>> {
        async move {
            let name = call.command.as_ref().map(Command::name).unwrap_or("bad");
            let answer = self.state.update(|state| state.answer_to(call));
            self.pass(&format!("/{name}")).await;
            answer
        }
        .boxed()
    }
}

impl PairingStore for Runtime {
    fn standing(&self, user: &str) -> PairingStatus {
        let state = self.state.lock();
        let waits =
            || state.asked.iter().any(|(known, _)| known.id == user).then_some(PairingStatus::Waiting);
        state.standing.get(user).copied().or_else(waits).unwrap_or(PairingStatus::Stranger)
    }

    fn standing_at(&self, user: &str, at: Timestamp) -> PairingStatus {
        let is_later = self.state.lock().let_in.get(user).is_some_and(|since| *since > at);
        if is_later { PairingStatus::Waiting } else { self.standing(user) }
    }

    fn access_at(&self, _: &str, at: Timestamp) -> Option<AccessPolicy> {
        let state = self.state.lock();
        let then = state.access.iter().rev().find(|(since, _)| *since <= at).or(state.access.first());
        then.map(|(_, access)| access.clone())
    }

    fn access_since(&self, _: &str) -> Option<Timestamp> {
        self.state.lock().access.first().map(|(since, _)| *since)
    }

    fn paired_chats(&self, _: &str) -> Vec<String> {
        let state = self.state.lock();
        let is_paired = |user: &str| state.standing.get(user) == Some(&PairingStatus::Paired);
        let paired = state.asked.iter().filter(|(who, _)| is_paired(&who.id));
        paired.map(|(_, chat)| chat.clone()).collect()
    }

    fn request_pairing(
        &self,
        user: Author,
        chat: String,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let code = self.state.update(|state| {
            let told = state.asked.iter().any(|(known, _)| known.id == user.id);
            if !state.full {
                state.asked.push((user, chat));
            }
            (!told && !state.full).then(|| CODE.to_owned())
        });
        ready(Ok(code)).boxed()
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
        self.state.update(|state| state.moved.insert(from, to));
        ready(Ok(())).boxed()
    }

    fn last_record(&self) -> u64 {
        self.state.lock().taken.len() as u64
    }

    fn clock(&self) -> Arc<dyn Clock> {
        match self.state.lock().clock.clone() {
            Some(clock) => clock,
            None => Arc::new(Wall),
        }
    }
}
