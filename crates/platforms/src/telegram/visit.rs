//! One update on its way into the runtime.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::access::{Approach, Place as ChannelRef, Verdict};
use cairn_core::command::{Command, CommandAnswer, CommandCall};
use cairn_core::ids::{AgentId, ChannelId, MessageId};
use cairn_core::message::{Amendment, Change, Inbound, Part};
use cairn_core::ports::{AdapterPorts, Refusal};
use futures::future::{BoxFuture, FutureExt as _, TryFutureExt as _};
use jiff::Timestamp;

use super::chat_queues::{Hold, Release, Wait};
use super::content::{self, Speaker};
use super::missed::Due;
use super::notice::{Notice, Notices};
use super::sent::Place;
use super::wire::{Membership, Message, Update, User};
use super::words::{self, Given, replied_to};
use super::{NAME, Telegram};
use crate::pause::Pauses;

/// A command that takes longer counts as taken, which it is first of all, and lets what follows it in its chat go on.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// Pauses between attempts to have an update taken in.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An update, and how it is to be taken.
pub(super) struct Work {
    pub(super) update: Update,
    pub(super) due: Due,
}

/// What an update needs to be taken in.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) telegram: Arc<Telegram>,
    pub(super) ports: AdapterPorts,
    pub(super) notices: Notices,
    pub(super) me: Arc<User>,
}

/// Where and by whom something is said, and that it is heard.
pub(super) struct Heard {
    pub(super) channel: ChannelId,
    agent: AgentId,
    pub(super) place: Place,
    pub(super) speaker: Speaker,
    pub(super) direct: bool,
    addressed: bool,
}

impl Host {
    /// Takes an update in. Returns when it is durable, or of no use.
    pub(super) async fn visit(self, work: Work, hold: Arc<Hold>, release: Release) {
        let outcome = match work.update {
            Update::Message(message) => self.message(&message, work.due, &hold, &release).await,
            Update::Edited(message) => self.edited(&message, &hold).await,
            Update::Membership(change) => self.membership(&change),
            Update::Pressed(press) => self.pressed(&press, &release).await,
        };
        metrics::counter!("cairn_telegram_updates_total", "outcome" => outcome).increment(1);
    }

    async fn message(&self, message: &Message, due: Due, hold: &Hold, release: &Release) -> &'static str {
        let late = due == Due::Never;
        let given = words::command(message, &self.me);
        if given == Given::Other {
            return "for_another_bot";
        }
        let Some(heard) = self.hear(message).await else { return "ignored" };
        if let Given::Mine { name, words, named } = given {
            return match Command::parse(name, words) {
                // The words of an old command would read as said to the model.
                Some(_) if late => "late_command",
                Some(command) => {
                    self.command(message, &heard, command, release).await;
                    "command"
                }
                None if late || !(heard.direct || named) => "unknown_command",
                None => {
                    self.reply(
                        &heard,
                        message,
                        "I know no such command; `/help` lists those that I know.".to_owned(),
                    );
                    "unknown_command"
                }
            };
        }
        let Some(parts) = self.parts(message, &heard).await else { return "empty" };
        let inbound = Inbound {
            channel: heard.channel.clone(),
            message: self.telegram.message_id(message),
            author: heard.speaker.author(),
            at: Timestamp::from_second(message.date).unwrap_or_else(|_| self.telegram.now()),
            parts,
            addressed: heard.addressed && due == Due::Now,
            direct: heard.direct,
            reply_to: replied_to(message).map(|reply| self.telegram.message_id(reply)),
            provenance: content::quoted(message, &self.me),
        };
        let submit = || self.ports.intake.submit(inbound.clone());
        match until_taken(hold, message.chat.id, submit).await {
            Ok(_) => "taken_in",
            Err(refusal) => self.refused(message, &heard, refusal),
        }
    }

    async fn edited(&self, message: &Message, hold: &Hold) -> &'static str {
        if words::command(message, &self.me) != Given::Nothing {
            return "edited_command";
        }
        let Some(heard) = self.hear_quietly(message) else { return "ignored" };
        let Some(parts) = self.parts(message, &heard).await else { return "empty" };
        let at = message.edit_date.and_then(|at| Timestamp::from_second(at).ok());
        let (author, addressed) = (heard.speaker.author(), heard.addressed);
        let amendment = Amendment {
            channel: heard.channel.clone(),
            message: self.telegram.message_id(message),
            at: at.unwrap_or_else(|| self.telegram.now()),
            change: Change::Edited { author, parts, addressed },
        };
        let amend = || self.ports.intake.amend(amendment.clone());
        match until_taken(hold, message.chat.id, amend).await {
            Ok(()) => "amended",
            Err(refusal) => self.refused(message, &heard, refusal),
        }
    }

    /// Who may put the bot where is Telegram's matter; here it is only shown.
    fn membership(&self, change: &Membership) -> &'static str {
        let (chat, member) = (change.chat.id, &change.new_chat_member);
        match (member.status.as_str(), member.can_send_messages) {
            ("kicked" | "left", _) => self.telegram.barred(chat, "the bot was put out of the chat"),
            ("restricted", Some(false)) => self.telegram.barred(chat, "the bot may not write in the chat"),
            _ => self.telegram.works(chat),
        }
        "membership"
    }

    /// Whether a message is heard. A stranger is told a code.
    async fn hear(&self, message: &Message) -> Option<Heard> {
        let speaker = content::speaker(message)?;
        let (verdict, _) = self.telegram.judge(&self.me, message, &speaker);
        if verdict == Verdict::Pair {
            self.pair(message, &speaker).await;
            return None;
        }
        self.hear_quietly(message)
    }

    fn hear_quietly(&self, message: &Message) -> Option<Heard> {
        let speaker = content::speaker(message)?;
        let (verdict, home) = self.telegram.judge(&self.me, message, &speaker);
        match verdict {
            Verdict::Serve { agent, addressed } => self.placed(message, speaker, (agent, addressed), &home),
            Verdict::Pair => None,
            Verdict::Ignore(why) => {
                self.telegram.passed_over(message.chat.id, message.is_direct(), why);
                None
            }
        }
    }

    /// Where a message is that is served, for what somebody says or does there.
    pub(super) fn placed(
        &self,
        message: &Message,
        speaker: Speaker,
        (agent, addressed): (AgentId, bool),
        home: &str,
    ) -> Option<Heard> {
        let (chat, topic) = (message.chat.id, message.topic());
        let thread = topic.map(|topic| topic.to_string());
        let channel = match ChannelId::new(&agent, NAME, home, thread.as_deref()) {
            Ok(channel) => channel,
            Err(error) => {
                tracing::error!(chat, %error, "a telegram chat has no channel name; its message is passed over");
                return None;
            }
        };
        let (place, direct) = ((chat, topic), message.is_direct());
        Some(Heard { channel, agent, place, speaker, direct, addressed })
    }

    async fn pair(&self, message: &Message, speaker: &Speaker) {
        let (author, chat) = (speaker.author(), message.chat.id.to_string());
        let pairing_store = &self.telegram.pairing_store;
        let ask =
            || pairing_store.request_pairing(author.clone(), chat.clone()).map_err(Refusal::Store).boxed();
        // That it is kept says nothing of channels.
        let hold = Hold::default();
        if let Ok(Some(code)) = until_taken(&hold, message.chat.id, ask).await {
            let words = format!(
                "I do not know you yet. Your code is `{code}`. Whoever runs me lets you in with \
                 `cairn pair approve {code}`."
            );
            let reply_to = Some(self.telegram.message_id(message));
            self.notices.say(Notice { place: (message.chat.id, None), reply_to, words, otherwise: None });
        }
    }

    async fn command(
        &self,
        message: &Message,
        heard: &Heard,
        command: Result<Command, String>,
        release: &Release,
    ) {
        let call = CommandCall {
            channel: heard.channel.clone(),
            message: self.telegram.message_id(message),
            caller: heard.speaker.author(),
            direct: heard.direct,
            at: Timestamp::from_second(message.date).unwrap_or_else(|_| self.telegram.now()),
            command,
        };
        let Some(answer) = self.run(call, release).await else { return };
        if !answer.private || heard.direct {
            return self.reply(heard, message, answer.words);
        }
        let bot = self.me.username.as_deref().unwrap_or_default();
        let aside = format!("That is for your eyes alone: open a private chat with @{bot}, then ask again.");
        let reply_to = Some(self.telegram.message_id(message));
        let otherwise = Notice { place: heard.place, reply_to, words: aside, otherwise: None };
        // An anonymous admin, or a channel, has no private chat.
        self.notices.say(match heard.speaker.person {
            true => Notice {
                place: (heard.speaker.id, None),
                reply_to: None,
                words: answer.words,
                otherwise: Some(Box::new(otherwise)),
            },
            false => otherwise,
        });
    }

    /// Has a command run. None: it was run before.
    pub(super) async fn run(&self, call: CommandCall, release: &Release) -> Option<CommandAnswer> {
        let mut run = self.ports.chat_commands.run(call);
        match tokio::time::timeout(COMMAND_PATIENCE, &mut run).await {
            Ok(answer) => answer,
            Err(_) => {
                release.now();
                run.await
            }
        }
    }

    async fn parts(&self, message: &Message, heard: &Heard) -> Option<Vec<Part>> {
        let sent = &self.telegram.sent;
        let latest = replied_to(message)
            .is_some_and(|reply| sent.was_latest(heard.place, reply.message_id, message.message_id));
        let words = content::words(message, &self.me, latest);
        let mut parts = Vec::new();
        if !words.is_empty() {
            parts.push(Part::text(words));
        }
        parts.extend(self.telegram.parts_of(content::attached(message), &heard.agent).await);
        (!parts.is_empty()).then_some(parts)
    }

    /// A message that the runtime does not take.
    fn refused(&self, message: &Message, heard: &Heard, refusal: Refusal) -> &'static str {
        let channel = &heard.channel;
        match refusal {
            Refusal::Limited { words, tell, .. } => {
                if tell {
                    self.reply(heard, message, words);
                }
                "limited"
            }
            Refusal::Decided { words } => {
                self.reply(heard, message, words);
                "decided"
            }
            Refusal::Busy { .. } => {
                tracing::warn!(%channel, "a message was given up after waiting for room; its author is told");
                let words =
                    "Too many messages wait here; this one was not taken in. Please send it again later.";
                self.reply(heard, message, words.to_owned());
                "given_up"
            }
            Refusal::Conflict(message) => {
                tracing::info!(%channel, %message, "a message came again with other words; the first ones stand");
                "conflict"
            }
            Refusal::Unavailable(_) => {
                tracing::error!(
                    %channel,
                    error = %refusal,
                    "a message was given up, and its author is told: its channel takes nothing though others do; \
                     look above for what ails it"
                );
                let words = "I can take in nothing here at the moment, and not this message either. Please send it \
                             again later.";
                self.reply(heard, message, words.to_owned());
                "given_up"
            }
            Refusal::UnknownAgent(_) | Refusal::Store(_) => {
                tracing::error!(%channel, error = %refusal, "a telegram message was not taken in");
                "refused"
            }
        }
    }

    fn reply(&self, heard: &Heard, message: &Message, words: String) {
        let reply_to = Some(self.telegram.message_id(message));
        self.notices.say(Notice { place: heard.place, reply_to, words, otherwise: None });
    }
}

impl Telegram {
    /// What the rules say, and the id that the chat is kept under. A chat that moved is known by both its ids.
    pub(super) fn judge(&self, me: &User, message: &Message, speaker: &Speaker) -> (Verdict, String) {
        self.judge_call(me, message, speaker, words::calls(message, me))
    }

    /// The same for somebody who does something at a message; `calls_me`: it calls the bot.
    pub(super) fn judge_call(
        &self,
        me: &User,
        message: &Message,
        speaker: &Speaker,
        calls_me: bool,
    ) -> (Verdict, String) {
        let (now, user) = (message.chat.id.to_string(), speaker.id.to_string());
        let pairing_store = &self.pairing_store;
        let (home, thread) =
            (pairing_store.home_of(NAME, &now), message.topic().map(|topic| topic.to_string()));
        let settings = self.chat.get();
        let judge = |chat: &str| {
            let place = match message.is_direct() {
                true => ChannelRef::Direct,
                false => ChannelRef::Group { server: None, chat, thread: thread.as_deref() },
            };
            settings.access.judge(&Approach {
                user: &user,
                standing: pairing_store.standing(&speaker.author().id),
                myself: speaker.id == me.id,
                bot: speaker.bot,
                calls_me,
                place,
            })
        };
        let verdict = judge(&now);
        match verdict {
            Verdict::Ignore(_) if home != now => (judge(&home), home),
            verdict => (verdict, home),
        }
    }

    fn message_id(&self, message: &Message) -> MessageId {
        self.house_id(message.chat.id, message.message_id)
    }
}

/// Tries until the runtime takes it, or says no for good. Whoever waits may be told to give up.
async fn until_taken<'a, T>(
    hold: &Hold,
    chat: i64,
    attempt: impl Fn() -> BoxFuture<'a, Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut told = false;
    loop {
        let refusal = match attempt().await {
            Ok(taken) => {
                hold.set_taken();
                return Ok(taken);
            }
            Err(refusal) => refusal,
        };
        let wait = match &refusal {
            Refusal::Busy { .. } => Some(Wait::Room),
            Refusal::Unavailable(_) => Some(Wait::Runtime),
            Refusal::Store(_) => None,
            Refusal::Conflict(_)
            | Refusal::Limited { .. }
            | Refusal::Decided { .. }
            | Refusal::UnknownAgent(_) => return Err(refusal),
        };
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(chat, reason = %refusal, "a telegram update waits to be taken in; it is tried again");
        }
        hold.set_waiting(wait);
        tokio::select! {
            () = hold.given_up(), if wait.is_some() => return Err(refusal),
            () = tokio::time::sleep(pauses.next()) => {}
        }
    }
}
