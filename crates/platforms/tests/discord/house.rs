//! A house without rooms: it notes what comes in, and answers as a test tells it to.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cairn_core::access::{AccessPolicy, DirectPolicy, Respond};
use cairn_core::command::{Command, CommandAnswer, CommandCall};
use cairn_core::conversation::Conversation;
use cairn_core::ids::{AgentId, ChannelId, MessageId, Seq, TurnId};
use cairn_core::message::{Amendment, Author, Entry, Inbound};
use cairn_core::ports::{
    Adapter, AdapterFailure, AdapterPorts, Admission, Archive, ChannelRow, Clock, Desk, Intake, LinkState,
    Platform as _, PlatformStatus, Refusal, Registry, Seen, StoreError,
};
use cairn_core::registry::Standing;
use cairn_platforms::discord::{Discord, DiscordSettings};
use cairn_platforms::settings::ChatSettings;
use cairn_testkit::clock::wall_time;
use cairn_testkit::discord::FakeDiscord;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::StreamExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::sync::watch;

/// Until a test is taken to have gone wrong.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        wall_time()
    }
}

#[derive(Default)]
struct Noted {
    submitted: Vec<Inbound>,
    amended: Vec<Amendment>,
    calls: Vec<CommandCall>,
    claimed: BTreeSet<MessageId>,
    refusals: HashMap<MessageId, VecDeque<Refusal>>,
    shut: BTreeSet<ChannelId>,
    answer: Option<CommandAnswer>,
    strangers: Vec<(Author, String)>,
    paired: BTreeSet<String>,
    full: bool,
    rows: Vec<ChannelRow>,
    seen: BTreeSet<MessageId>,
}

/// The house.
pub(crate) struct House {
    noted: Mutex<Noted>,
    changed: watch::Sender<u64>,
}

impl House {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { noted: Mutex::default(), changed: watch::Sender::new(0) })
    }

    fn update<T>(&self, change: impl FnOnce(&mut Noted) -> T) -> T {
        let result = change(&mut self.noted.lock());
        self.changed.send_modify(|n| *n += 1);
        result
    }

    async fn wait<T>(&self, what: &str, look: impl Fn(&Noted) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = look(&self.noted.lock()) {
                    return found;
                }
                changed.changed().await.expect("the house stands");
            }
        };
        let waited = tokio::time::timeout(GIVE_UP_AFTER, waiting).await;
        waited.unwrap_or_else(|_| panic!("waited in vain for {what}"))
    }

    /// Waits for so many messages in all.
    pub(crate) async fn submitted(&self, n: usize) -> Vec<Inbound> {
        self.wait(&format!("{n} messages"), |noted| {
            (noted.submitted.len() >= n).then(|| noted.submitted.clone())
        })
        .await
    }

    pub(crate) async fn amended(&self, n: usize) -> Vec<Amendment> {
        self.wait(&format!("{n} changes"), |noted| (noted.amended.len() >= n).then(|| noted.amended.clone()))
            .await
    }

    pub(crate) async fn called(&self, n: usize) -> Vec<CommandCall> {
        self.wait(&format!("{n} commands"), |noted| (noted.calls.len() >= n).then(|| noted.calls.clone()))
            .await
    }

    /// What the house says of a message, try by try, before it takes it.
    pub(crate) fn refuse(&self, message: u64, refusals: Vec<Refusal>) {
        self.update(|noted| noted.refusals.insert(id(message), refusals.into()));
    }

    /// Nothing of this channel is taken in until it is opened.
    pub(crate) fn shut(&self, channel: &str) {
        self.update(|noted| noted.shut.insert(channel.parse().expect("is a channel")));
    }

    pub(crate) fn open(&self, channel: &str) {
        self.update(|noted| noted.shut.remove(&channel.parse().expect("is a channel")));
    }

    pub(crate) fn answers(&self, words: &str, private: bool) {
        self.update(|noted| noted.answer = Some(CommandAnswer { words: words.to_owned(), private }));
    }

    pub(crate) fn pair(&self, user: u64) {
        self.update(|noted| noted.paired.insert(format!("discord/{user}")));
    }

    /// No more strangers are given a code.
    pub(crate) fn is_full(&self) {
        self.update(|noted| noted.full = true);
    }

    pub(crate) fn strangers(&self) -> Vec<(Author, String)> {
        self.noted.lock().strangers.clone()
    }

    /// The archive has this message as the last of a channel, and has seen it.
    pub(crate) fn has(&self, channel: &str, last: u64) {
        let channel = channel.parse().expect("is a channel");
        let row =
            ChannelRow { channel, last_at: wall_time(), unfinished: false, last_message: Some(id(last)) };
        self.update(|noted| {
            noted.seen.insert(id(last));
            noted.rows.push(row);
        });
    }
}

pub(crate) fn id(message: u64) -> MessageId {
    MessageId::new(message.to_string())
}

impl Intake for House {
    fn submit(&self, inbound: Inbound) -> BoxFuture<'_, Result<Admission, Refusal>> {
        async move {
            let channel = inbound.channel.clone();
            self.wait("a channel to open", |noted| (!noted.shut.contains(&channel)).then_some(())).await;
            let refusal = self.update(|noted| noted.refusals.get_mut(&inbound.message)?.pop_front());
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            self.update(|noted| {
                if noted.seen.insert(inbound.message.clone()) {
                    noted.submitted.push(inbound);
                }
            });
            Ok(Admission { turn: TurnId::from("t1"), progress: futures::stream::empty().boxed() })
        }
        .boxed()
    }

    fn amend(&self, amendment: Amendment) -> BoxFuture<'_, Result<(), Refusal>> {
        self.update(|noted| noted.amended.push(amendment));
        futures::future::ready(Ok(())).boxed()
    }

    fn claim(
        &self,
        _: ChannelId,
        message: MessageId,
        _: Command,
        _: Author,
    ) -> BoxFuture<'_, Result<bool, Refusal>> {
        let new = self.update(|noted| noted.claimed.insert(message));
        futures::future::ready(Ok(new)).boxed()
    }
}

impl Desk for House {
    fn run(&self, call: CommandCall) -> BoxFuture<'_, Option<CommandAnswer>> {
        let answer = self.update(|noted| {
            noted.calls.push(call);
            noted.answer.clone()
        });
        futures::future::ready(answer).boxed()
    }
}

impl Archive for House {
    fn channels(&self) -> BoxFuture<'_, Result<Vec<ChannelRow>, StoreError>> {
        futures::future::ready(Ok(self.noted.lock().rows.clone())).boxed()
    }

    fn restore(&self, _: &ChannelId) -> BoxFuture<'_, Result<Option<Conversation>, StoreError>> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn keep_head(&self, _: Arc<Conversation>) -> BoxFuture<'_, Result<(), StoreError>> {
        futures::future::ready(Ok(())).boxed()
    }

    fn entries(
        &self,
        _: &ChannelId,
        _: Seq,
        _: Seq,
        _: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn said(&self, _: &ChannelId, _: &MessageId) -> BoxFuture<'_, Result<Vec<Arc<Entry>>, StoreError>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn seen(&self, _: &ChannelId, message: &MessageId) -> BoxFuture<'_, Result<Seen, StoreError>> {
        let seen = if self.noted.lock().seen.contains(message) {
            Seen::Open { turn: TurnId::from("t1"), fingerprint: String::new() }
        } else {
            Seen::New
        };
        futures::future::ready(Ok(seen)).boxed()
    }
}

impl Registry for House {
    fn standing(&self, user: &str) -> Standing {
        let noted = self.noted.lock();
        if noted.paired.contains(user) {
            Standing::Paired
        } else if noted.strangers.iter().any(|(known, _)| known.id == user) {
            Standing::Waiting
        } else {
            Standing::Stranger
        }
    }

    fn request_pairing(
        &self,
        user: Author,
        chat: String,
    ) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        let code = self.update(|noted| {
            if noted.full {
                return None;
            }
            let told = noted.strangers.iter().any(|(known, _)| known.id == user.id);
            noted.strangers.push((user, chat));
            (!told).then(|| "QUARTZ".to_owned())
        });
        futures::future::ready(Ok(code)).boxed()
    }

    fn home_of(&self, _: &str, chat: &str) -> String {
        chat.to_owned()
    }

    fn address_of(&self, _: &str, chat: &str) -> String {
        chat.to_owned()
    }

    fn migrate(&self, _: String, _: String, _: String) -> BoxFuture<'_, Result<(), StoreError>> {
        futures::future::ready(Ok(())).boxed()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(Wall)
    }
}

/// The server that is served.
pub(crate) const GUILD: u64 = 100;
/// A channel in it.
pub(crate) const CHANNEL: u64 = 101;
/// Another.
pub(crate) const OTHER: u64 = 102;
/// Names of both in the house.
pub(crate) const CHANNEL_NAME: &str = "main/discord/101";
pub(crate) const OTHER_NAME: &str = "main/discord/102";

/// Rules: the server is served, private messages by pairing.
pub(crate) fn access() -> AccessPolicy {
    AccessPolicy {
        agent: AgentId::from("main"),
        direct: DirectPolicy::Pairing,
        users: BTreeSet::new(),
        servers: BTreeSet::from([GUILD.to_string()]),
        chats: BTreeSet::new(),
        members: BTreeSet::new(),
        respond: Respond::Mention,
        bots: false,
        places: Vec::new(),
    }
}

/// A fake Discord with the server and its channels.
pub(crate) async fn discord() -> FakeDiscord {
    furnished(FakeDiscord::builder().identify_every(Duration::ZERO).start().await)
}

pub(crate) fn furnished(discord: FakeDiscord) -> FakeDiscord {
    discord.guild(GUILD);
    discord.channel(GUILD, CHANNEL);
    discord.channel(GUILD, OTHER);
    discord
}

pub(crate) fn settings(discord: &FakeDiscord) -> DiscordSettings {
    let token = SecretString::from(discord.token().to_owned());
    DiscordSettings { api_url: discord.api_url(), ..DiscordSettings::new(token, ChatSettings::new(access())) }
}

/// An adapter that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) adapter: Arc<Discord>,
    run: tokio::task::JoinHandle<AdapterFailure>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.run.abort();
    }
}

impl Running {
    /// Starts an adapter; does not wait for its connection.
    pub(crate) fn start(settings: DiscordSettings, house: &Arc<House>) -> Self {
        Self::again(Arc::new(Discord::new(settings, house.clone()).expect("settings are sound")), house)
    }

    /// Has an adapter run that may have run before.
    pub(crate) fn again(adapter: Arc<Discord>, house: &Arc<House>) -> Self {
        let ports = AdapterPorts { intake: house.clone(), desk: house.clone(), archive: house.clone() };
        let run = tokio::spawn(adapter.clone().run(ports));
        Self { adapter, run }
    }

    /// How it ended.
    pub(crate) async fn failure(mut self) -> AdapterFailure {
        let ended = tokio::time::timeout(GIVE_UP_AFTER, &mut self.run).await;
        ended.expect("it ends").expect("it does not panic")
    }

    pub(crate) fn status(&self) -> PlatformStatus {
        self.adapter.status()
    }

    /// Waits for a state of the connection.
    pub(crate) async fn wait_state(&self, state: LinkState) -> PlatformStatus {
        self.wait_status(|status| status.state == state).await
    }

    /// Waits for a status. It is a cell without a bell, so it is looked at again and again.
    pub(crate) async fn wait_status(&self, is: impl Fn(&PlatformStatus) -> bool) -> PlatformStatus {
        let waiting = async {
            loop {
                let status = self.status();
                if is(&status) {
                    return status;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(GIVE_UP_AFTER, waiting).await.expect("the status comes")
    }
}

/// A connected adapter.
pub(crate) async fn connected(discord: &FakeDiscord, house: &Arc<House>) -> Running {
    let running = Running::start(settings(discord), house);
    discord.wait_ready().await;
    running.wait_state(LinkState::Connected).await;
    running
}

/// The words of a message.
pub(crate) fn words(inbound: &Inbound) -> String {
    cairn_core::message::text_of(&inbound.parts)
}
