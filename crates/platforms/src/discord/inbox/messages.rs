//! Takes in a message, an edit or a deletion: finds its author and channel, and passes it to the runtime.

use std::time::Duration;

use cairn_types::ids::MessageId as RuntimeMessage;
use cairn_types::message::{Amendment, Change, Inbound, Part, Provenance};
use cairn_types::wire::backoff::Backoff;
use serenity::all::{ChannelId, GuildId, UserId};

use super::{InboundHandler, Item};
use crate::attach::Content;
use crate::discord::outbox::number;
use crate::discord::places::ChannelRef;
use crate::discord::rest::RestError;
use crate::discord::wire::{Message, Reaction, User, time_of};
use crate::discord::words::Reading;
use crate::inbound::{Access, Admitted, ChatAddress, Outcome, Sender};
use crate::link::{Link, Place};

/// First and longest pause before Discord is asked again where a channel is.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(30);

/// The prefix of status entries for missing rights.
const RIGHTS_IN: &str = "rights in channel";

/// A message that the access rules admit.
pub(super) struct Served {
    pub(super) message: Box<Message>,
    pub(super) admitted: Admitted,
}

/// A person as a [`Sender`], with the name that Discord shows.
pub(super) fn sender(person: &User, shown: &str, bot: bool, me: Option<UserId>) -> Sender {
    let (id, name) = (person.id.to_string(), crate::markup::name::display(shown));
    Sender { id, name, bot, myself: Some(person.id) == me }
}

impl From<&ChannelRef> for ChatAddress {
    fn from(channel_ref: &ChannelRef) -> Self {
        Self {
            server: channel_ref.guild.map(|guild| guild.to_string()),
            chat: channel_ref.chat.to_string(),
            thread: channel_ref.thread.map(|thread| thread.to_string()),
            title: None,
            direct: channel_ref.is_direct(),
        }
    }
}

impl InboundHandler {
    /// Handles one queued item. Returns when the runtime has it or has refused it.
    pub(super) async fn handle(&self, channel: ChannelId, item: Item) {
        match item {
            Item::Message(message) => {
                let id = message.id.get();
                if let Some(served) = self.served(message, false).await {
                    self.submit(served).await;
                }
                // Where it is unknown which rules hold, it is read once they are known.
                if self.places.known(channel).is_some() {
                    self.places.set_heard(channel, id);
                }
            }
            Item::Passed(id) => self.places.set_heard(channel, id.get()),
            Item::Edited(message) => {
                if let Some(served) = self.served(message, false).await {
                    self.amend_edited(served).await;
                }
            }
            Item::Deleted { id, guild } => {
                let Some(channel_ref) = self.channel_ref(channel, guild).await else { return };
                let Some(channel) = self.path.channel_of(&(&channel_ref).into()) else { return };
                let (message, at) = (RuntimeMessage::new(id.to_string()), self.path.now());
                self.path.amend(Amendment { channel, message, at, change: Change::Deleted }).await;
            }
            Item::Reacted { reaction, removed } => self.reacted(*reaction, removed).await,
            Item::Backfill(missed) => {
                let looking = self.catch_ups.look();
                let looked = self.backfill(channel, missed).await;
                looking.done(looked);
                self.tell_caught_up();
            }
        }
    }

    /// Passes a reaction to the runtime, which knows whether the message is an answer of the bot.
    async fn reacted(&self, reaction: Reaction, removed: bool) {
        let Some(emoji) = reaction.emoji() else { return };
        let Some(channel_ref) = self.channel_ref(reaction.channel_id, reaction.guild_id).await else {
            return;
        };
        let shown = Some(reaction.display_name()).filter(|name| !name.is_empty());
        let sender = Sender {
            id: reaction.user_id.to_string(),
            name: shown.map(crate::markup::name::display).unwrap_or_default(),
            bot: reaction.is_by_bot(),
            myself: false,
        };
        match self.path.judge(&sender, false, &ChatAddress::from(&channel_ref)) {
            Access::Admitted(Admitted { channel, author: by, .. }) => {
                let message = RuntimeMessage::new(reaction.message_id.to_string());
                let change = Change::Reacted { by, emoji, removed };
                self.path.amend(Amendment { channel, message, at: self.path.now(), change }).await;
            }
            Access::Stranger | Access::Ignored(_) => {
                tracing::debug!(platform = self.link.platform(), "a reaction was passed over");
            }
        }
    }

    /// Applies the access rules to a message. `missed`: it is older, and the rules at its time count as well. An
    /// unknown person who writes privately gets a pairing code.
    pub(super) async fn served(&self, message: Box<Message>, missed: bool) -> Option<Served> {
        let me = (*self.me.lock())?;
        let channel_ref = self.channel_ref(message.channel_id, message.guild_id).await?;
        let calls_me = Reading { me, places: &self.places, last_own: None }.calls_me(&message);
        let sender = sender(&message.author, message.display_name(), message.is_automatic(), Some(me));
        let at = ChatAddress::from(&channel_ref);
        let access = match missed {
            true => {
                let (id, said) = (RuntimeMessage::new(message.id.to_string()), time_of(message.id.get()));
                self.path.judge_missed(&sender, calls_me, &at, &id, said).await
            }
            false => self.path.judge(&sender, calls_me, &at),
        };
        match access {
            Access::Admitted(mut admitted) => {
                admitted.addressed &= !message.is_thread_start();
                admitted.addressed &= self.can_answer(message.channel_id, me, admitted.addressed);
                Some(Served { message, admitted })
            }
            Access::Stranger => {
                if let Some(words) = self.path.pairing_reply(&sender, &at).await {
                    self.outbox.notice(message.channel_id, message.id, &words).await;
                }
                None
            }
            Access::Ignored(why) => {
                metrics::counter!("cairn_discord_passed_over_total", "why" => why).increment(1);
                tracing::debug!(
                    platform = self.link.platform(),
                    channel = channel_ref.chat.get(),
                    why,
                    "a message was passed over"
                );
                None
            }
        }
    }

    /// Whether an answer could be sent. `asked`: the message addresses the bot. If Discord would refuse the answer, no
    /// turn is started: the message is kept, and operators see it in the status.
    fn can_answer(&self, channel: ChannelId, me: UserId, asked: bool) -> bool {
        let place = rights_in(channel);
        match self.places.may_send(channel, me, self.path.now()) {
            Some(false) if asked => {
                metrics::counter!("cairn_discord_unanswerable_total").increment(1);
                let why = "the bot may not write there, so that what it is asked is kept and not answered; give it Send Messages \
                           (in threads: Send Messages in Threads), and open the thread if it is locked";
                if self.link.trouble(place, why) {
                    tracing::warn!(
                        platform = self.link.platform(),
                        channel = channel.get(),
                        "the bot was addressed where it may not write; it does not answer there"
                    );
                }
                false
            }
            Some(false) | None => true,
            Some(true) => {
                self.link.clear(place);
                true
            }
        }
    }

    /// Where a channel is. Retries while Discord cannot be reached. `None` if Discord does not tell: then it is unknown
    /// which rules apply, and the channel is not served.
    pub(super) async fn channel_ref(&self, channel: ChannelId, guild: Option<GuildId>) -> Option<ChannelRef> {
        let mut pauses = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        loop {
            match self.places.find(&self.rest, channel, guild).await {
                Ok(Some(channel_ref)) => {
                    self.link.clear(sight_of(channel));
                    return Some(channel_ref);
                }
                Ok(None) => {
                    self.cannot_see(channel, "Discord does not say where it belongs");
                    return None;
                }
                // A refused token says nothing about the channel; waiting messages are read again in the next run.
                Err(error) if error.is_passing() || error == RestError::Unauthorized => {
                    tracing::warn!(
                        platform = self.link.platform(),
                        channel = channel.get(),
                        %error,
                        "cannot look up a channel; its messages wait"
                    );
                    tokio::time::sleep(error.after().unwrap_or_else(|| pauses.next_pause())).await;
                }
                Err(error) => {
                    self.cannot_see(channel, &error.to_string());
                    return None;
                }
            }
        }
    }

    fn cannot_see(&self, channel: ChannelId, why: &str) {
        if self.link.trouble(sight_of(channel), &format!("which rules apply here cannot be found out: {why}"))
        {
            tracing::info!(
                platform = self.link.platform(),
                channel = channel.get(),
                why,
                "the bot may not see a channel; the channel is not served until it may"
            );
        }
    }

    /// Passes a message to the runtime, and tells its author if it is refused.
    pub(super) async fn submit(&self, served: Served) {
        let id = RuntimeMessage::new(served.message.id.to_string());
        // A message that comes again, as after a crash, has its words already.
        let hear = self.path.chat.get().transcriber.is_none()
            || self.path.is_new(&served.admitted.channel, &id).await;
        let Some(content) = self.content(&served, hear).await else { return };
        let Served { message, admitted } = served;
        let is_spoken = message.attachments.iter().any(|attached| attached.duration_secs.is_some());
        let hint = if is_spoken && admitted.addressed { self.path.how_to_hear(&admitted) } else { None };
        let reply_to = message.referenced_message.as_ref();
        let me = *self.me.lock();
        let answers = reply_to.filter(|answered| Some(answered.author.id) == me);
        let answers = answers.map(|answered| answered.content.as_str());
        let inbound = Inbound {
            channel: admitted.channel,
            message: id,
            author: admitted.author,
            at: time_of(message.id.get()),
            parts: content.parts,
            addressed: admitted.addressed,
            direct: admitted.direct,
            language: admitted.language,
            chat_name: self.places.name_of(message.channel_id),
            reply_to: reply_to.map(|answered| RuntimeMessage::new(answered.id.to_string())),
            provenance: self.quoted(&message),
            spoken: content.spoken,
            recordings: content.recordings,
            gather: self.path.chat.get().gather(answers),
        };
        let outcome = self.path.submit(inbound, || ()).await;
        let words = match outcome {
            Outcome::Taken => hint,
            Outcome::Refused { reply, .. } => reply,
        };
        if let Some(words) = words {
            self.outbox.notice(message.channel_id, message.id, &words).await;
        }
    }

    /// Passes an edited message to the runtime.
    pub(super) async fn amend_edited(&self, served: Served) {
        let Some(Content { parts, .. }) = self.content(&served, true).await else { return };
        let Served { message, admitted: Admitted { channel, author, addressed, .. } } = served;
        let (id, at) = (RuntimeMessage::new(message.id.to_string()), self.path.now());
        let change = Change::Edited { author, parts, addressed };
        self.path.amend(Amendment { channel, message: id, at, change }).await;
    }

    /// The people whose text a message has besides its author's: of what it quotes, forwards or answers.
    fn quoted(&self, message: &Message) -> Provenance {
        let me = *self.me.lock();
        let person = |person: &User| Provenance::of_person(&self.path.person(person.id));
        let mut provenance = Provenance::default();
        let answered =
            message.referenced_message.as_deref().filter(|answered| Some(answered.author.id) != me);
        if let Some(answered) = answered {
            provenance.join(&person(&answered.author));
        }
        for said in answered.into_iter().chain([message]) {
            if !said.message_snapshots.is_empty() {
                provenance.join(&Provenance::of_strangers());
            }
            // An app's answer says again what it was asked.
            if let Some(user) = said.interaction_metadata.as_ref().and_then(|asked| asked.user.as_ref()) {
                provenance.join(&person(user));
            }
        }
        provenance
    }

    /// The content of a message; `None` if it is empty. `hear`: recordings are transcribed.
    async fn content(&self, served: &Served, hear: bool) -> Option<Content> {
        let me = (*self.me.lock())?;
        let Served { message, admitted } = served;
        let last_own = self.outbox.last(message.channel_id);
        let words = Reading { me, places: &self.places, last_own }.words(message);
        let mut content = Content::default();
        if !words.is_empty() {
            content.parts.push(Part::text(words));
        }
        let chat = self.path.chat.get();
        let limits = chat.attach_limits(chat.images.contains(&admitted.agent));
        let transcriber = chat.transcriber.as_deref().filter(|_| hear);
        let forwarded = message.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
        let answered = message.referenced_message.iter().flat_map(|answered| answered.pictures());
        for attached in message.attachments.iter().chain(forwarded).chain(answered) {
            self.outbox.files.read(attached, limits, transcriber, &mut content).await;
        }
        (!content.parts.is_empty()).then_some(content)
    }
}

/// The status entry for a channel that cannot be looked up.
pub(super) fn sight_of(channel: ChannelId) -> Place {
    Place::in_chat("sight of channel", channel)
}

/// The status entry for a channel where the bot may not write.
pub(super) fn rights_in(channel: ChannelId) -> Place {
    Place::in_chat(RIGHTS_IN, channel)
}

/// The channels with a status entry made by [`rights_in`].
pub(super) fn channels_without_rights(link: &Link) -> Vec<ChannelId> {
    let chats = link.chats_in_trouble(RIGHTS_IN);
    chats.iter().filter_map(|chat| number(chat)).map(ChannelId::new).collect()
}
