//! Takes one update into the runtime.

use std::time::Duration;

use cairn_types::command::{Command, CommandAnswer};
use cairn_types::ids::{AgentId, ChannelId, MessageId};
use cairn_types::message::{Amendment, Change, Gather, Inbound, Part};
use cairn_types::texts::{Key, Saying};
use jiff::Timestamp;

use super::content::{self, Speaker};
use super::handler::{Due, InboundHandler, Job, address, judge, press_id, sender, topic_of};
use super::notice::Notice;
use super::send::ChatTopic;
use super::wire::{Membership, Message, ReactionChange, Update};
use super::words::{self, Given, replied_to};
use crate::attach::Content;
use crate::chat_queues::work_off;
use crate::inbound::{Access, Admitted, ChatAddress, Outcome};

/// A command or press that takes longer no longer blocks its chat, once it is durable that it was given.
const COMMAND_PATIENCE: Duration = Duration::from_secs(5);

/// Commands that overtake messages waiting for room, because they may make room.
const URGENT: [&str; 3] = ["stop", "approve", "deny"];

/// The pseudo-topic of a chat's button queue, which does not wait for messages. No real topic has this number.
const BUTTONS: i64 = i64::MIN;

/// Most reactions of one update that are taken in; a person may have three at a message.
const REACTIONS_MAX: usize = 8;

/// What becomes of a message of somebody who is not known.
enum Strangers<'a> {
    /// They get a pairing code, or an answer to this command if it is about what is stored about them.
    May(Option<&'a Command>),
    MayNot,
}

impl InboundHandler {
    /// Appends an update to its chat's queue.
    pub(super) fn push(&self, job: Job) {
        let chat = queue_of(&job.update);
        if self.chat_queues.push(chat, job) {
            let handler = self.clone();
            let handle = move |job| handler.clone().handle(job);
            self.tasks.spawn(work_off(self.chat_queues.clone(), chat, handle));
        }
    }

    /// Takes an update in. Returns when its content is durable, or it was ignored.
    async fn handle(self, Job { update, due, done }: Job) {
        let (tasks, path, given) = (self.tasks.clone(), self.path.clone(), self.given(&update));
        let mut work = Box::pin(self.take_in(update, due));
        match given {
            None => work.await,
            Some((channel, id)) => {
                let (path, channel, id) = (&path, &channel, &id);
                let is_durable = || async move { !path.is_new(channel, id).await };
                if !is_over(&mut work, is_durable).await {
                    tasks.spawn(work);
                }
            }
        }
        drop(done);
    }

    /// The channel and id under which an update's command or press is journalled, if its author is admitted.
    fn given(&self, update: &Update) -> Option<(ChannelId, MessageId)> {
        let (access, id) = match update {
            Update::Message(message) if self.command_of(update).is_some() => {
                let speaker = content::speaker(message)?;
                (judge(&self.path, &self.me, message, &speaker), self.telegram.message_id(message))
            }
            Update::Callback(callback) => {
                let (presser, question) = (content::presser(&callback.from), callback.message.as_ref()?);
                let presser = sender(&presser, &self.me);
                (self.path.judge(&presser, true, &address(question)), press_id(callback))
            }
            Update::Message(_) | Update::Edited(_) | Update::Membership(_) | Update::Reaction(_) => {
                return None;
            }
        };
        let Access::Admitted(admitted) = access else { return None };
        Some((admitted.channel, id))
    }

    async fn take_in(self, update: Update, due: Due) {
        let outcome = match &update {
            Update::Message(message) => self.message(message, due).await,
            Update::Edited(message) => self.edited(message).await,
            Update::Membership(change) => self.membership(change),
            Update::Callback(callback) => self.callback(callback).await,
            Update::Reaction(change) => self.reaction(change).await,
        };
        metrics::counter!("cairn_telegram_updates_total", "outcome" => outcome).increment(1);
    }

    /// The name of the command in an update.
    fn command_of<'a>(&self, update: &'a Update) -> Option<&'a str> {
        let Update::Message(message) = update else { return None };
        match words::command(message, &self.me) {
            Given::Mine { name, .. } => Some(name),
            Given::Nothing | Given::Other => None,
        }
    }

    /// Starts the urgent commands that wait in a chat's queue.
    fn let_urgent_pass(&self, chat: ChatTopic) {
        let is_urgent = |job: &Job| {
            let name = self.command_of(&job.update);
            name.is_some_and(|name| URGENT.iter().any(|urgent| name.eq_ignore_ascii_case(urgent)))
        };
        for job in self.chat_queues.extract(chat, is_urgent) {
            self.tasks.spawn(self.clone().handle(job));
        }
    }

    async fn message(&self, message: &Message, due: Due) -> &'static str {
        self.telegram.note_topic(message);
        let late = due == Due::Never;
        let given = words::command(message, &self.me);
        if given == Given::Other {
            return "for_another_bot";
        }
        let command = match given {
            Given::Mine { name, words, .. } if !late => Command::parse(name, words).and_then(Result::ok),
            Given::Mine { .. } | Given::Nothing | Given::Other => None,
        };
        let Some((speaker, admitted)) = self.admitted(message, Strangers::May(command.as_ref())).await else {
            return "ignored";
        };
        if let Given::Mine { name, words, named } = given {
            return match Command::parse(name, words) {
                // A command too old to run must not reach the model as text.
                Some(_) if late => "late_command",
                Some(command) => {
                    self.command(message, &speaker, &admitted, command).await;
                    "command"
                }
                None if late || !(admitted.direct || named) => "unknown_command",
                None => {
                    self.reply(message, self.path.texts(&admitted).say(Key::UnknownCommand));
                    "unknown_command"
                }
            };
        }
        let id = self.telegram.message_id(message);
        // A message that comes again, as after a crash, has its words already.
        let hear =
            self.path.chat.get().transcriber.is_none() || self.path.is_new(&admitted.channel, &id).await;
        let Some(content) = self.content(message, &admitted.agent, hear).await else { return "empty" };
        let unheard = message.is_spoken() && admitted.addressed && due == Due::Now;
        let hint = if unheard { self.path.how_to_hear(&admitted) } else { None };
        let inbound = Inbound {
            channel: admitted.channel,
            message: id,
            author: admitted.author,
            at: self.said_at(message),
            parts: content.parts,
            addressed: admitted.addressed && due == Due::Now,
            direct: admitted.direct,
            language: admitted.language,
            chat_name: self.telegram.name_of(message).filter(|_| !admitted.direct),
            reply_to: replied_to(message).map(|reply| self.telegram.message_id(reply)),
            provenance: content::quoted(message, &self.me, self.path.platform()),
            spoken: content.spoken,
            recordings: content.recordings,
            gather: self.gather(message),
        };
        let chat = topic_of(message);
        match self.path.submit(inbound, || self.let_urgent_pass(chat)).await {
            Outcome::Taken => {
                if let Some(hint) = hint {
                    self.reply(message, hint);
                }
                "taken_in"
            }
            Outcome::Refused { why, reply } => self.refused(message, why, reply),
        }
    }

    /// What may follow a message.
    fn gather(&self, message: &Message) -> Gather {
        let own =
            replied_to(message).filter(|reply| reply.from.as_ref().is_some_and(|user| user.id == self.me.id));
        let gather = self.path.chat.get().gather(own.map(|reply| reply.words().0));
        let album = message.media_group_id.clone();
        let is_next = |job: &Job| match &job.update {
            Update::Message(next) => next.media_group_id == album,
            _ => false,
        };
        let more = album.is_some() && self.chat_queues.has(topic_of(message), is_next);
        Gather { album, more, ..gather }
    }

    async fn edited(&self, message: &Message) -> &'static str {
        if words::command(message, &self.me) != Given::Nothing {
            return "edited_command";
        }
        let Some((_, admitted)) = self.admitted(message, Strangers::MayNot).await else { return "ignored" };
        let Some(Content { parts, .. }) = self.content(message, &admitted.agent, true).await else {
            return "empty";
        };
        let Admitted { channel, author, addressed, .. } = admitted;
        let at = message.edit_date.and_then(|at| Timestamp::from_second(at).ok());
        let at = at.unwrap_or_else(|| self.path.now());
        let change = Change::Edited { author, parts, addressed };
        let message_id = self.telegram.message_id(message);
        match self.path.amend(Amendment { channel, message: message_id, at, change }).await {
            Outcome::Taken => "amended",
            Outcome::Refused { why, reply } => self.refused(message, why, reply),
        }
    }

    /// Takes in what somebody reacted to a message with, and what they took back.
    async fn reaction(&self, change: &ReactionChange) -> &'static str {
        let Some(user) = &change.user else { return "ignored" };
        let presser = sender(&content::presser(user), &self.me);
        // Only messages of the bot count; the newest ones of each topic are remembered.
        let place = self.telegram.sent.place_of(change.chat.id, change.message_id);
        let at = ChatAddress {
            server: None,
            chat: change.chat.id.to_string(),
            thread: place.and_then(|place| place.1).map(|topic| topic.to_string()),
            title: None,
            direct: change.chat.kind == "private",
        };
        let Access::Admitted(Admitted { channel, author, .. }) = self.path.judge(&presser, false, &at) else {
            return "ignored";
        };
        let message = self.telegram.runtime_id(change.chat.id, change.message_id);
        let said = Timestamp::from_second(change.date).unwrap_or_else(|_| self.path.now());
        let (old, new) = (&change.old_reaction, &change.new_reaction);
        let gone = old.iter().filter(|kind| !new.contains(kind)).map(|kind| (kind, true));
        let come = new.iter().filter(|kind| !old.contains(kind)).map(|kind| (kind, false));
        for (kind, removed) in gone.chain(come).take(REACTIONS_MAX) {
            let Some(emoji) = kind.emoji.clone() else { continue };
            let (channel, message, by) = (channel.clone(), message.clone(), author.clone());
            let change = Change::Reacted { by, emoji, removed };
            let amendment = Amendment { channel, message, at: said, change };
            if let Outcome::Refused { why, .. } = self.path.amend(amendment).await {
                return why;
            }
        }
        "reaction"
    }

    /// Records whether the bot may write in a chat; who may add it is up to Telegram.
    fn membership(&self, change: &Membership) -> &'static str {
        let (chat, member) = (change.chat.id, &change.new_chat_member);
        match (member.status.as_str(), member.can_send_messages) {
            ("kicked" | "left", _) => self.telegram.barred(chat, "the bot was put out of the chat"),
            ("restricted", Some(false)) => self.telegram.barred(chat, "the bot may not write in the chat"),
            _ => self.telegram.works(chat),
        }
        "membership"
    }

    /// The author and the channel, if admitted.
    async fn admitted(&self, message: &Message, strangers: Strangers<'_>) -> Option<(Speaker, Admitted)> {
        let speaker = content::speaker(message)?;
        match judge(&self.path, &self.me, message, &speaker) {
            Access::Admitted(admitted) => Some((speaker, admitted)),
            Access::Stranger => {
                let Strangers::May(command) = strangers else { return None };
                let (sender, at) = (sender(&speaker, &self.me), address(message));
                if let Some(admitted) =
                    command.and_then(|command| self.path.for_own_data(&sender, &at, command))
                {
                    return Some((speaker, admitted));
                }
                if let Some(words) = self.path.pairing_reply(&sender, &at).await {
                    self.reply(message, words);
                }
                None
            }
            Access::Ignored(why) => {
                self.telegram.passed_over(&message.chat, message.is_direct(), why);
                None
            }
        }
    }

    async fn command(
        &self,
        message: &Message,
        speaker: &Speaker,
        admitted: &Admitted,
        command: Result<Command, Saying>,
    ) {
        let id = self.telegram.message_id(message);
        // Why a command was refused is no secret here, unless its answer would be one.
        let is_secret = command.as_ref().is_ok_and(Command::is_private);
        let answer = self.path.run(admitted, id.clone(), self.said_at(message), command).await;
        let Some(CommandAnswer { words, private, .. }) = answer else { return };
        if !(private && is_secret) || admitted.direct {
            return self.reply(message, words);
        }
        let bot = self.me.username.as_deref().unwrap_or_default();
        // A link, since mentions in what the bot sends are broken up.
        let aside = Key::AskAlone.with("link", format!("https://t.me/{bot}"));
        let aside = self.path.texts(admitted).say(aside);
        let aside = Notice { place: topic_of(message), reply_to: Some(id), words: aside, otherwise: None };
        // An anonymous admin or a channel has no private chat.
        self.say(match speaker.person {
            true => {
                Notice { place: (speaker.id, None), reply_to: None, words, otherwise: Some(Box::new(aside)) }
            }
            false => aside,
        });
    }

    async fn content(&self, message: &Message, agent: &AgentId, hear: bool) -> Option<Content> {
        let sent = &self.telegram.sent;
        let place = topic_of(message);
        let latest = replied_to(message)
            .is_some_and(|reply| sent.was_latest(place, reply.message_id, message.message_id));
        let words = content::words(message, &self.me, latest);
        let mut read = Content::default();
        if !words.is_empty() {
            read.parts.push(Part::text(words));
        }
        let mut files = content::attached(message);
        files.extend(content::pictures_replied_to(message));
        self.telegram.read(files, agent, hear, &mut read).await;
        (!read.parts.is_empty()).then_some(read)
    }

    /// Sends the reply for a refused message, if there is one.
    fn refused(&self, message: &Message, why: &'static str, reply: Option<String>) -> &'static str {
        if let Some(words) = reply {
            self.reply(message, words);
        }
        why
    }

    fn reply(&self, message: &Message, words: String) {
        let reply_to = Some(self.telegram.message_id(message));
        self.say(Notice { place: topic_of(message), reply_to, words, otherwise: None });
    }

    fn said_at(&self, message: &Message) -> Timestamp {
        Timestamp::from_second(message.date).unwrap_or_else(|_| self.path.now())
    }
}

/// Waits for a command. Returns false if it still runs and it is durable that it was given.
async fn is_over<F>(work: &mut (impl Future<Output = ()> + Unpin), is_durable: impl Fn() -> F) -> bool
where
    F: Future<Output = bool>,
{
    loop {
        if tokio::time::timeout(COMMAND_PATIENCE, &mut *work).await.is_ok() {
            return true;
        }
        if is_durable().await {
            return false;
        }
    }
}

/// The queue of an update: by chat and topic; presses have their own.
pub(super) fn queue_of(update: &Update) -> ChatTopic {
    match update {
        Update::Message(message) | Update::Edited(message) => topic_of(message),
        Update::Membership(change) => (change.chat.id, None),
        Update::Reaction(change) => (change.chat.id, Some(BUTTONS)),
        Update::Callback(callback) => {
            (callback.message.as_ref().map_or(callback.from.id, |message| message.chat.id), Some(BUTTONS))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_command_that_takes_long_is_left_once_it_is_durable_that_it_was_given_and_not_before() {
        let n_asked = Cell::new(0);
        let is_durable = || {
            n_asked.set(n_asked.get() + 1);
            ready(n_asked.get() == 3)
        };
        assert!(is_over(&mut ready(()), is_durable).await);
        assert_eq!(n_asked.get(), 0);
        let began = tokio::time::Instant::now();
        assert!(!is_over(&mut pending(), is_durable).await);
        assert_eq!((n_asked.get(), began.elapsed()), (3, 3 * COMMAND_PATIENCE));
    }
}
