//! The part of the inbound path that all chat networks share: it applies the access rules, passes messages, edits,
//! commands and button presses to the runtime, decides on retries, and chooses the text for people who are refused. A
//! network says who did something and where, and sends the answers its own way.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::command::{Command, CommandAnswer, CommandCall, Settled};
use cairn_types::ids::{AgentId, ChannelId, MessageId};
use cairn_types::message::{Amendment, Author, Inbound};
use cairn_types::people::access::{AccessPolicy, AccessRequest, AccessVerdict, ChatPlace};
use cairn_types::people::pairing::{self, PairingStatus};
use cairn_types::ports::{AdapterPorts, PairingStore, Refusal};
use cairn_types::texts::{Key, Saying, Texts};
use futures::future::BoxFuture;
use jiff::Timestamp;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::buttons;
use crate::markup::name::display;
use crate::pause::Pauses;
use crate::settings::LiveChat;

#[cfg(test)]
mod tests;

/// First and longest pause before a message is offered to the runtime again.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Longest pause while a channel has no room: a command that makes room may wait behind the message.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// How long a message waits for room in its channel while it holds up other chats.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits for a channel that refuses everything while other channels accept messages.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// After this long without an attempt, a channel's earlier refusals no longer count. A waiting message tries more
/// often.
const BREAK: Duration = Duration::from_secs(30);

const MINUTE: Duration = Duration::from_secs(60);

/// Most chats of which is known that they were told so.
const TOLD_MAX: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// A person or a bot on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The id on the network.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) bot: bool,
    /// Whether this is the bot itself.
    pub(crate) myself: bool,
}

/// A chat, by the ids of its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatAddress {
    /// The server; `None` on networks without servers.
    pub(crate) server: Option<String>,
    pub(crate) chat: String,
    pub(crate) thread: Option<String>,
    /// What the network calls a group, where it is told.
    pub(crate) title: Option<String>,
    pub(crate) direct: bool,
}

impl ChatAddress {
    /// The language of the place, where it has one of its own.
    pub(crate) fn language(&self, access: &AccessPolicy) -> Option<String> {
        access.language_at(self.place(&self.chat)).map(str::to_owned)
    }

    /// The place for the access rules, with `chat` as the chat's id.
    fn place<'a>(&'a self, chat: &'a str) -> ChatPlace<'a> {
        match self.direct {
            true => ChatPlace::Direct,
            false => {
                ChatPlace::Group { server: self.server.as_deref(), chat, thread: self.thread.as_deref() }
            }
        }
    }
}

/// A sender who passed the access rules, and the channel of their message, command or press.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) channel: ChannelId,
    pub(crate) agent: AgentId,
    pub(crate) author: Author,
    pub(crate) addressed: bool,
    pub(crate) direct: bool,
    /// The language of the place, where it has one of its own.
    pub(crate) language: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Access {
    Admitted(Admitted),
    /// An unknown person in a private chat, or a call in a group that is on no list: either may ask for pairing.
    Stranger,
    Ignored(&'static str),
}

/// The result of passing a message or a change to the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Taken,
    /// The runtime refused it. `reply`: the text for its author, if any.
    Refused {
        why: &'static str,
        reply: Option<String>,
    },
}

/// A press of a button under an approval question.
pub(crate) struct ButtonPress<'a> {
    /// The id of the press; a repeated press runs once.
    pub(crate) id: MessageId,
    /// The data of the button.
    pub(crate) data: Option<&'a str>,
    /// The person who pressed it, or the text for a person who is not admitted.
    pub(crate) admitted: Result<Admitted, String>,
}

/// The result of a press, for the presser and for the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PressOutcome {
    /// Nothing was run; the text is for the presser.
    Refused(String),
    /// It was run before. Its result is no longer known here.
    Repeated,
    /// Nothing was decided and the question stays open; the text is for the presser.
    Denied(String),
    /// The question was already settled: its buttons are removed, and the text is for the presser.
    Stale(String),
    /// The press decided: the buttons are removed, `outcome` is added to the question, and `words` are for the presser.
    Decided { words: String, outcome: String },
}

/// Channels that refuse messages at the moment.
#[derive(Default)]
struct Waits {
    /// For each channel, the first and the last refusal in a row.
    refused: HashMap<ChannelId, (Instant, Instant)>,
    /// When the runtime last accepted anything.
    last_taken: Option<Instant>,
    /// Waiting messages hold up other chats.
    crowded: bool,
}

impl Waits {
    /// Whether to give up a message after a temporary refusal: waiting messages hold up other chats, and its channel
    /// has refused for long enough. If the runtime accepts nothing from any channel, the message waits on.
    fn gives_up(&mut self, channel: &ChannelId, refusal: &Refusal) -> bool {
        let now = Instant::now();
        let (since, last) = self.refused.entry(channel.clone()).or_insert((now, now));
        // The earlier message was given up or no longer waits.
        if now - *last > BREAK {
            *since = now;
        }
        *last = now;
        let since = *since;
        let in_vain = match refusal {
            Refusal::Busy { .. } => since.elapsed() >= PATIENCE,
            Refusal::Unavailable(_) => {
                since.elapsed() >= LONG_PATIENCE && self.last_taken.is_some_and(|taken| taken >= since)
            }
            _ => false,
        };
        self.crowded && in_vain
    }

    fn taken(&mut self, channel: &ChannelId) {
        self.refused.remove(channel);
        self.last_taken = Some(Instant::now());
    }
}

pub(crate) struct InboundPath {
    platform: &'static str,
    pub(crate) chat: LiveChat,
    pub(crate) ports: AdapterPorts,
    pub(crate) pairing_store: Arc<dyn PairingStore>,
    waits: Mutex<Waits>,
    /// Chats that were told how recordings can be understood, the latest ones.
    told_to_hear: Mutex<LruCache<ChannelId, ()>>,
    /// When messages of other bots were let through to be answered, within the last minute.
    of_bots: Mutex<HashMap<ChannelId, VecDeque<Instant>>>,
}

impl InboundPath {
    pub(crate) fn new(
        platform: &'static str,
        chat: LiveChat,
        ports: AdapterPorts,
        pairing_store: Arc<dyn PairingStore>,
    ) -> Self {
        Self {
            platform,
            chat,
            ports,
            pairing_store,
            waits: Mutex::default(),
            told_to_hear: Mutex::new(LruCache::new(TOLD_MAX)),
            of_bots: Mutex::default(),
        }
    }

    pub(crate) fn platform(&self) -> &'static str {
        self.platform
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.pairing_store.clock().now()
    }

    /// A person's id in the runtime: `platform/id`.
    pub(crate) fn person(&self, id: impl std::fmt::Display) -> String {
        format!("{}/{id}", self.platform)
    }

    fn author(&self, sender: &Sender) -> Author {
        Author { id: self.person(&sender.id), name: sender.name.clone() }
    }

    /// Applies the access rules. `calls_me`: the bot is mentioned, replied to, or given a command.
    pub(crate) fn judge(&self, sender: &Sender, calls_me: bool, at: &ChatAddress) -> Access {
        let standing = |of: &str| self.pairing_store.standing(of);
        match self.verdict(&self.chat.get().access, &standing, sender, calls_me, at) {
            AccessVerdict::Serve { agent, addressed } => match self.channel(&agent, at) {
                Some(channel) => {
                    let addressed = addressed && !(sender.bot && self.is_talkative(&channel));
                    let (author, language) = (self.author(sender), self.language(at));
                    Access::Admitted(Admitted {
                        channel,
                        agent,
                        author,
                        addressed,
                        direct: at.direct,
                        language,
                    })
                }
                None => Access::Ignored("its chat cannot be named as a channel"),
            },
            AccessVerdict::Pair => Access::Stranger,
            AccessVerdict::Ignore(why) => Access::Ignored(why),
        }
    }

    /// Whether other bots have got as many answers in a channel within the last minute as they may.
    fn is_talkative(&self, channel: &ChannelId) -> bool {
        let most = self.chat.get().bots_per_minute as usize;
        if most == 0 {
            return false;
        }
        let now = Instant::now();
        let mut of_bots = self.of_bots.lock();
        of_bots.retain(|_, times| times.back().is_some_and(|last| now - *last < MINUTE));
        let times = of_bots.entry(channel.clone()).or_default();
        while times.front().is_some_and(|first| now - *first >= MINUTE) {
            times.pop_front();
        }
        if times.len() >= most {
            tracing::debug!(%channel, "a bot gets no answer: `bots_per_minute` is reached");
            return true;
        }
        times.push_back(now);
        false
    }

    /// Applies the access rules to a message that was missed. It is ignored if its author was not admitted when they
    /// wrote it, or if another agent, whose chat it was then, has taken it in.
    pub(crate) async fn judge_missed(
        &self,
        sender: &Sender,
        calls_me: bool,
        at: &ChatAddress,
        message: &MessageId,
        said: Timestamp,
    ) -> Access {
        let now = self.judge(sender, calls_me, at);
        let Access::Admitted(admitted) = &now else { return now };
        let standing = |of: &str| self.pairing_store.standing_at(of, said);
        let then = self.pairing_store.access_at(self.platform, said);
        let rules = then.unwrap_or_else(|| self.chat.get().access.clone());
        let AccessVerdict::Serve { agent, .. } = self.verdict(&rules, &standing, sender, calls_me, at) else {
            return Access::Ignored("not let in when it was said");
        };
        if agent != admitted.agent
            && let Some(channel) = self.channel(&agent, at)
            && !self.is_new(&channel, message).await
        {
            return Access::Ignored("taken in by another agent before");
        }
        now
    }

    fn verdict(
        &self,
        rules: &AccessPolicy,
        standing: &dyn Fn(&str) -> PairingStatus,
        sender: &Sender,
        calls_me: bool,
        at: &ChatAddress,
    ) -> AccessVerdict {
        let of_person = standing(&self.person(&sender.id));
        let of_group = self.standing_of_group(standing, at);
        let judge = |chat: &str| {
            let Sender { id, bot, myself, .. } = sender;
            rules.judge(&AccessRequest {
                user: id,
                standing: of_person,
                standing_of_group: of_group,
                myself: *myself,
                bot: *bot,
                calls_me,
                place: at.place(chat),
            })
        };
        // A chat that moved is known by its old and its new id.
        let home = self.home_of(at);
        match judge(&at.chat) {
            AccessVerdict::Ignore(_) | AccessVerdict::Pair if !at.direct && home != at.chat => judge(&home),
            verdict => verdict,
        }
    }

    /// The language of a place, where it has one of its own.
    fn language(&self, at: &ChatAddress) -> Option<String> {
        let access = &self.chat.get().access;
        let at_home = || access.language_at(at.place(&self.home_of(at))).map(str::to_owned);
        at.language(access).or_else(at_home)
    }

    /// The texts for a place that has no agent, or none yet.
    fn texts_at(&self, at: &ChatAddress) -> Arc<Texts> {
        let chat = self.chat.get();
        chat.texts(&chat.access.agent, self.language(at).as_deref())
    }

    /// The texts for somebody who is admitted.
    pub(crate) fn texts(&self, admitted: &Admitted) -> Arc<Texts> {
        self.chat.get().texts(&admitted.agent, admitted.language.as_deref())
    }

    /// The first id of a chat, under which the registry knows it.
    fn home_of(&self, at: &ChatAddress) -> String {
        self.pairing_store.home_of(self.platform, &at.chat)
    }

    fn group(&self, at: &ChatAddress) -> String {
        pairing::group(self.platform, at.server.as_deref(), &self.home_of(at))
    }

    fn standing_of_group(&self, standing: &dyn Fn(&str) -> PairingStatus, at: &ChatAddress) -> PairingStatus {
        match at.direct {
            true => PairingStatus::Stranger,
            false => standing(&self.group(at)),
        }
    }

    /// Applies the access rules to a command or a button press. The error is the text for the person.
    pub(crate) async fn admit(
        &self,
        sender: &Sender,
        at: &ChatAddress,
        command: Option<&Command>,
    ) -> Result<Admitted, String> {
        match self.judge(sender, true, at) {
            Access::Admitted(admitted) => Ok(admitted),
            Access::Stranger => match command.and_then(|command| self.for_own_data(sender, at, command)) {
                Some(admitted) => Ok(admitted),
                // A group gets its code by a message or a command, not by a press.
                None if !at.direct && command.is_none() => Err(self.texts_at(at).say(Key::NotHere)),
                None => Err(self.stranger_words(sender, at).await),
            },
            Access::Ignored(why) => {
                tracing::debug!(
                    platform = self.platform,
                    chat = at.chat,
                    why,
                    "a command or a button was refused"
                );
                Err(self.texts_at(at).say(Key::NotHere))
            }
        }
    }

    /// Admits a stranger in a private chat to the commands about what is stored about them: people who talk in groups alone are
    /// sent there for the answer.
    pub(crate) fn for_own_data(
        &self,
        sender: &Sender,
        at: &ChatAddress,
        command: &Command,
    ) -> Option<Admitted> {
        if !at.direct || !matches!(command, Command::Export | Command::ForgetMe { .. }) {
            return None;
        }
        let agent = self.chat.get().access.agent.clone();
        let channel = self.channel(&agent, at)?;
        Some(Admitted {
            channel,
            agent,
            author: self.author(sender),
            addressed: true,
            direct: true,
            language: None,
        })
    }

    fn channel(&self, agent: &AgentId, at: &ChatAddress) -> Option<ChannelId> {
        let home = self.home_of(at);
        let channel = ChannelId::new(agent, self.platform, &home, at.thread.as_deref());
        if let Err(error) = &channel {
            tracing::error!(
                platform = self.platform,
                chat = at.chat,
                %error,
                "a chat has no valid channel name; correct the agent's name"
            );
        }
        channel.ok()
    }

    /// The channel of a chat, whoever writes there.
    pub(crate) fn channel_of(&self, at: &ChatAddress) -> Option<ChannelId> {
        self.channel_under(&self.for_everybody(), at)
    }

    /// The access rules without restrictions on people, for [`Self::channel_under`].
    pub(crate) fn for_everybody(&self) -> AccessPolicy {
        for_everybody(&self.chat.get().access)
    }

    /// The channel of a chat under rules from [`Self::for_everybody`].
    pub(crate) fn channel_under(&self, access: &AccessPolicy, at: &ChatAddress) -> Option<ChannelId> {
        let approach = AccessRequest {
            user: "",
            standing: PairingStatus::Paired,
            standing_of_group: self.standing_of_group(&|of| self.pairing_store.standing(of), at),
            myself: false,
            bot: false,
            calls_me: true,
            place: at.place(&at.chat),
        };
        match access.judge(&approach) {
            AccessVerdict::Serve { agent, .. } => self.channel(&agent, at),
            // A listed person may have written here privately.
            AccessVerdict::Pair | AccessVerdict::Ignore(_) if at.direct => self.channel(&access.agent, at),
            AccessVerdict::Pair | AccessVerdict::Ignore(_) => None,
        }
    }

    /// The pairing text for an unknown person who wrote privately, or for a group. `None`: it was told recently, or no code can
    /// be given.
    pub(crate) async fn pairing_reply(&self, sender: &Sender, at: &ChatAddress) -> Option<String> {
        let asks = self.asks(sender, at);
        match self.pairing_store.request_pairing(asks, at.chat.clone()).await {
            Ok(code) => code.as_deref().map(|code| self.texts_at(at).say(code_words(code, at))),
            Err(error) => {
                tracing::warn!(platform = self.platform, %error, "a stranger could not be given a code");
                None
            }
        }
    }

    /// Who is to be let in: a person, or the group in which somebody calls the bot.
    fn asks(&self, sender: &Sender, at: &ChatAddress) -> Author {
        if at.direct {
            return self.author(sender);
        }
        let id = self.group(at);
        let name = match &at.title {
            Some(title) => format!("{}, asked by {}", display(title), sender.name),
            None => format!("asked by {}", sender.name),
        };
        Author { id, name }
    }

    /// The text for an unknown person who gave a command or pressed a button, and so expects an answer.
    async fn stranger_words(&self, sender: &Sender, at: &ChatAddress) -> String {
        if let Some(words) = self.pairing_reply(sender, at).await {
            return words;
        }
        let key = match (self.pairing_store.standing(&self.asks(sender, at).id), at.direct) {
            (PairingStatus::Waiting, true) => Key::CodeTold,
            (PairingStatus::Waiting, false) => Key::CodeToldHere,
            (_, false) => Key::NotHere,
            (_, true) => Key::NoCode,
        };
        self.texts_at(at).say(key)
    }

    /// Whether the runtime has never seen a message; true if it cannot tell.
    pub(crate) async fn is_new(&self, channel: &ChannelId, message: &MessageId) -> bool {
        match self.ports.intake.has_seen(channel, message).await {
            Ok(seen) => !seen,
            Err(error) => {
                // The runtime ignores a message that it already has.
                tracing::debug!(platform = self.platform, %error, "cannot tell whether a message was taken in before");
                true
            }
        }
    }

    /// What a chat is told when somebody speaks to a bot that cannot hear; `None`: it can, or the chat was told.
    pub(crate) fn how_to_hear(&self, admitted: &Admitted) -> Option<String> {
        if self.chat.get().transcriber.is_some() {
            return None;
        }
        let told = self.told_to_hear.lock().put(admitted.channel.clone(), ());
        told.is_none().then(|| self.texts(admitted).say(Key::CannotHear))
    }

    /// Passes a message to the runtime, with retries. `on_busy` is called while its channel has no room.
    pub(crate) async fn submit(&self, inbound: Inbound, on_busy: impl Fn()) -> Outcome {
        let submit = || self.ports.intake.submit(inbound.clone());
        self.until_taken(&inbound.channel, inbound.language.as_deref(), submit, on_busy).await
    }

    /// Passes an edit or a deletion to the runtime, with retries.
    pub(crate) async fn amend(&self, amendment: Amendment) -> Outcome {
        let amend = || self.ports.intake.amend(amendment.clone());
        self.until_taken(&amendment.channel, None, amend, || ()).await
    }

    async fn until_taken<'a, T>(
        &self,
        channel: &ChannelId,
        language: Option<&str>,
        attempt: impl Fn() -> BoxFuture<'a, Result<T, Refusal>>,
        on_busy: impl Fn(),
    ) -> Outcome {
        let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut logged = false;
        loop {
            let refusal = match attempt().await {
                Ok(_) => {
                    self.waits.lock().taken(channel);
                    return Outcome::Taken;
                }
                Err(refusal) => refusal,
            };
            let mut pause = pauses.next();
            match &refusal {
                Refusal::Busy { .. } => {
                    on_busy();
                    pause = pause.min(BUSY_PAUSE);
                }
                Refusal::Unavailable(_) | Refusal::Store(_) => {}
                Refusal::Conflict(_)
                | Refusal::Limited { .. }
                | Refusal::Decided { .. }
                | Refusal::UnknownAgent(_) => return self.refused(channel, language, refusal),
            }
            if self.waits.lock().gives_up(channel, &refusal) {
                return self.refused(channel, language, refusal);
            }
            if !std::mem::replace(&mut logged, true) {
                tracing::warn!(
                    platform = self.platform,
                    %channel,
                    reason = %refusal,
                    "a message cannot be accepted yet; trying again"
                );
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn refused(&self, channel: &ChannelId, language: Option<&str>, refusal: Refusal) -> Outcome {
        let platform = self.platform;
        let texts = self.chat.get().texts(&channel.agent(), language);
        let (why, reply) = match refusal {
            Refusal::Limited { words, tell, .. } => ("limited", tell.then(|| texts.say(words))),
            Refusal::Decided { words } => ("decided", Some(texts.say(words))),
            Refusal::Busy { .. } => {
                tracing::warn!(platform, %channel,
                    "a message was given up: the queue stayed full; its author is told");
                ("given_up", Some(texts.say(Key::TooManyWait)))
            }
            Refusal::Unavailable(_) => {
                tracing::error!(
                    platform,
                    %channel,
                    error = %refusal,
                    "a message was given up, and its author is told: its channel accepts nothing although others \
                     do; the lines above have the cause"
                );
                ("given_up", Some(texts.say(Key::TakesNothing)))
            }
            Refusal::Conflict(message) => {
                tracing::info!(platform, %channel, %message,
                    "a message was delivered again with another text; the first text is kept");
                ("conflict", None)
            }
            Refusal::UnknownAgent(_) | Refusal::Store(_) => {
                tracing::error!(
                    platform,
                    %channel,
                    error = %refusal,
                    "a message was not accepted; correct the agents of this network's places in the configuration"
                );
                ("refused", None)
            }
        };
        Outcome::Refused { why, reply }
    }

    /// Sets whether waiting messages hold up other chats. If so, they are given up after a while.
    pub(crate) fn set_crowded(&self, crowded: bool) {
        self.waits.lock().crowded = crowded;
    }

    /// Runs a command. `None`: it was run before.
    pub(crate) async fn run(
        &self,
        admitted: &Admitted,
        message: MessageId,
        at: Timestamp,
        command: Result<Command, Saying>,
    ) -> Option<CommandAnswer> {
        let Admitted { channel, author, direct, language, .. } = admitted.clone();
        self.ports
            .chat_commands
            .run(CommandCall { channel, message, caller: author, direct, at, command, language })
            .await
    }

    /// Runs the command of a button.
    pub(crate) async fn press(&self, press: ButtonPress<'_>) -> PressOutcome {
        let Some((yes, command)) = press.data.and_then(buttons::read) else {
            let texts = match &press.admitted {
                Ok(admitted) => self.texts(admitted),
                Err(_) => self.chat.get().own_texts(),
            };
            return PressOutcome::Refused(texts.say(Key::UnknownButton));
        };
        let admitted = match press.admitted {
            Ok(admitted) => admitted,
            Err(words) => return PressOutcome::Refused(words),
        };
        let now = self.now();
        let Some(answer) = self.run(&admitted, press.id, now, Ok(command)).await else {
            tracing::debug!(platform = self.platform, "a button press came again; it was taken in before");
            return PressOutcome::Repeated;
        };
        let CommandAnswer { words, settled, .. } = answer;
        match settled {
            None => PressOutcome::Denied(words),
            Some(Settled::Before) => PressOutcome::Stale(words),
            Some(Settled::Now) => {
                let outcome = buttons::outcome(&self.texts(&admitted), yes, &admitted.author.name, now);
                PressOutcome::Decided { words, outcome }
            }
        }
    }
}

/// The access rules without restrictions on people, to find the agent of a place.
fn for_everybody(access: &AccessPolicy) -> AccessPolicy {
    let mut access = access.clone();
    access.bots = true;
    access.members.clear();
    for place in &mut access.places {
        place.members = None;
    }
    access
}

fn code_words(code: &str, at: &ChatAddress) -> Saying {
    let key = match (at.direct, &at.server) {
        (true, _) => Key::CodePerson,
        (false, None) => Key::CodeGroup,
        (false, Some(_)) => Key::CodeServer,
    };
    key.with("code", code)
}
