//! Taking one thing in: who said it, where, whether that is heard, and on to the runtime.

use std::time::Duration;

use cairn_core::access::{Approach, Place, Verdict};
use cairn_core::backoff::Backoff;
use cairn_core::ids::{AgentId, ChannelId as HouseChannel, MessageId as HouseMessage};
use cairn_core::message::{Amendment, Author, Change, Inbound, Part};
use cairn_core::ports::Refusal;
use cairn_core::provenance::Provenance;
use serenity::all::{ChannelId, GuildId};

use super::{InboundHandler, Item};
use crate::discord::places::ChannelRef;
use crate::discord::rest::RestError;
use crate::discord::wire::{Person, Said, time_of};
use crate::discord::words::Reading;

/// First and longest pause before the runtime is asked again.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(30);

/// A message and what was decided about it.
pub(super) struct Served {
    pub(super) said: Box<Said>,
    pub(super) channel: HouseChannel,
    pub(super) addressed: bool,
    pub(super) direct: bool,
}

/// A person as the runtime knows them.
pub(in crate::discord) fn author_of(person: &Person, shown: &str) -> Author {
    let name = crate::markup::name::display(shown);
    Author { id: format!("discord/{}", person.id), name }
}

impl InboundHandler {
    /// Takes something in; returns when the runtime has it, or will not have it.
    pub(super) async fn take(&self, channel: ChannelId, item: Item) {
        match item {
            Item::Said(said) => {
                let id = said.id.get();
                if let Some(served) = self.served(said).await {
                    self.submit(served).await;
                    self.took(channel, id);
                }
            }
            Item::Edited(said) => {
                if let Some(served) = self.served(said).await {
                    self.amend_edited(served).await;
                }
            }
            Item::Gone { id, guild } => {
                let Some(channel_ref) = self.channel_ref(channel, guild).await else { return };
                let Some(runtime) = self.house_channel_at(&channel_ref) else { return };
                let message = HouseMessage::new(id.to_string());
                let at = self.pairing_store.clock().now();
                self.amend(Amendment { channel: runtime, message, at, change: Change::Deleted }).await;
            }
        }
    }

    /// Notes how far a channel has been taken in.
    pub(super) fn took(&self, channel: ChannelId, id: u64) {
        let mut taken = self.taken.lock();
        let last = taken.entry(channel).or_insert(id);
        *last = (*last).max(id);
    }

    /// Decides about a message. A stranger who writes privately is told a code here.
    pub(super) async fn served(&self, said: Box<Said>) -> Option<Served> {
        let me = (*self.me.lock())?;
        let channel_ref = self.channel_ref(said.channel_id, said.guild_id).await?;
        let calls_me = Reading { me, places: &self.places, last_own: None }.calls_me(&said);
        let bot = said.is_automatic();
        match self.judge(&said.author, bot, calls_me, &channel_ref) {
            Verdict::Serve { agent, addressed } => {
                let channel = house_channel(&agent, &channel_ref)?;
                Some(Served { channel, addressed, direct: channel_ref.is_direct(), said })
            }
            Verdict::Pair => {
                self.pair(&said).await;
                None
            }
            Verdict::Ignore(why) => {
                metrics::counter!("cairn_discord_passed_over_total", "why" => why).increment(1);
                tracing::debug!(
                    platform = "discord",
                    channel = channel_ref.chat.get(),
                    why,
                    "a message was passed over"
                );
                None
            }
        }
    }

    pub(in crate::discord) fn judge(
        &self,
        person: &Person,
        bot: bool,
        calls_me: bool,
        channel_ref: &ChannelRef,
    ) -> Verdict {
        let user = person.id.to_string();
        let (me, chat) = (*self.me.lock(), self.chat.get());
        let standing = self.pairing_store.standing(&format!("discord/{user}"));
        at_place(channel_ref, |place| {
            let myself = Some(person.id) == me;
            chat.access.judge(&Approach { user: &user, standing, myself, bot, calls_me, place })
        })
    }

    /// The channel of the runtime that a place belongs to, whoever speaks there.
    pub(super) fn house_channel_at(&self, channel_ref: &ChannelRef) -> Option<HouseChannel> {
        let standing = cairn_core::pairing_store::Standing::Paired;
        let chat = self.chat.get();
        let places_of_agents = super::for_nobody(&chat.access);
        let verdict = at_place(channel_ref, |place| {
            let (myself, bot) = (false, false);
            places_of_agents.judge(&Approach { user: "", standing, myself, bot, calls_me: true, place })
        });
        match verdict {
            Verdict::Serve { agent, .. } => house_channel(&agent, channel_ref),
            // Someone on a list wrote there privately.
            Verdict::Pair | Verdict::Ignore(_) if channel_ref.is_direct() => {
                house_channel(&chat.access.agent, channel_ref)
            }
            Verdict::Pair | Verdict::Ignore(_) => None,
        }
    }

    /// Where a channel is. Waits while Discord does not say; none when it will not say: then nobody can tell which rules
    /// hold there, and nothing of it is served.
    pub(super) async fn channel_ref(&self, channel: ChannelId, guild: Option<GuildId>) -> Option<ChannelRef> {
        let mut pauses = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        loop {
            match self.places.find(&self.rest, channel, guild).await {
                Ok(Some(channel_ref)) => {
                    self.link.clear(&sight_of(channel));
                    return Some(channel_ref);
                }
                Ok(None) => {
                    self.cannot_see(channel, "Discord does not say where it belongs");
                    return None;
                }
                // A token that is refused says nothing of the channel; what waits here is read again after the run.
                Err(error) if error.is_passing() || error == RestError::Unauthorized => {
                    tracing::warn!(
                        platform = "discord",
                        channel = channel.get(),
                        %error,
                        "cannot tell where a channel is; its messages wait"
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
        if self.link.trouble(&sight_of(channel), &format!("it cannot be told which rules hold: {why}")) {
            tracing::info!(
                platform = "discord",
                channel = channel.get(),
                why,
                "a channel cannot be looked up; nothing of it is served until the bot may see it"
            );
        }
    }

    /// Hands a message to the runtime, as often as it takes.
    pub(super) async fn submit(&self, served: Served) {
        let Some(parts) = self.parts(&served).await else { return };
        let Served { said, channel, addressed, direct } = served;
        let inbound = Inbound {
            channel,
            message: HouseMessage::new(said.id.to_string()),
            author: author_of(&said.author, said.display_name()),
            at: time_of(said.id.get()),
            parts,
            addressed,
            direct,
            reply_to: said
                .referenced_message
                .as_ref()
                .map(|answered| HouseMessage::new(answered.id.to_string())),
            provenance: self.quoted(&said),
        };
        let mut pauses = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        loop {
            let refusal = match self.ports.intake.submit(inbound.clone()).await {
                Ok(_) => return,
                Err(refusal) => refusal,
            };
            if let Refusal::Limited { words, tell: true, .. } | Refusal::Decided { words } = &refusal {
                self.outbox.notice(said.channel_id, said.id, words).await;
            }
            match self.weigh(&refusal, &inbound.channel, pauses.next_pause()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return,
            }
        }
    }

    /// What a refusal means: a pause before the next try, or the end.
    fn weigh(&self, refusal: &Refusal, channel: &HouseChannel, pause: Duration) -> Option<Duration> {
        match refusal {
            Refusal::Busy { retry_after_secs } => Some(Duration::from_secs((*retry_after_secs).max(1))),
            Refusal::Unavailable(_) | Refusal::Store(_) => {
                tracing::warn!(platform = "discord", %channel, error = %refusal, "a message waits to be taken in");
                Some(pause)
            }
            Refusal::UnknownAgent(agent) => {
                tracing::error!(platform = "discord", %channel, %agent, "a place names an agent that is not configured; correct the places of discord in the configuration");
                self.link.trouble(&format!("channel {}", channel.chat()), &refusal.to_string());
                None
            }
            Refusal::Limited { .. } | Refusal::Conflict(_) | Refusal::Decided { .. } => {
                tracing::debug!(platform = "discord", %channel, error = %refusal, "a message was not taken in");
                None
            }
        }
    }

    /// Tells the runtime that a message says something else now.
    pub(super) async fn amend_edited(&self, served: Served) {
        let Some(parts) = self.parts(&served).await else { return };
        let Served { said, channel, addressed, .. } = served;
        let author = author_of(&said.author, said.display_name());
        let message = HouseMessage::new(said.id.to_string());
        let at = self.pairing_store.clock().now();
        let change = Change::Edited { author, parts, addressed };
        self.amend(Amendment { channel, message, at, change }).await;
    }

    async fn amend(&self, amendment: Amendment) {
        let mut pauses = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        while let Err(refusal) = self.ports.intake.amend(amendment.clone()).await {
            match self.weigh(&refusal, &amendment.channel, pauses.next_pause()) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return,
            }
        }
    }

    /// Whose words a message quotes or forwards.
    fn quoted(&self, said: &Said) -> Provenance {
        let me = *self.me.lock();
        let mut provenance = Provenance::default();
        if let Some(answered) =
            said.referenced_message.as_ref().filter(|answered| Some(answered.author.id) != me)
        {
            provenance.join(&Provenance::of_person(&author_of(&answered.author, answered.display_name()).id));
        }
        if !said.message_snapshots.is_empty() {
            provenance.join(&Provenance::of_strangers());
        }
        provenance
    }

    /// What was said, in parts; none when it is nothing.
    async fn parts(&self, served: &Served) -> Option<Vec<Part>> {
        let me = (*self.me.lock())?;
        let said = &served.said;
        let last_own = self.outbox.last(said.channel_id);
        let words = Reading { me, places: &self.places, last_own }.words(said);
        let mut parts = Vec::new();
        if !words.is_empty() {
            parts.push(Part::text(words));
        }
        let chat = self.chat.get();
        let limits = chat.attach_limits(chat.images.contains(&served.channel.agent()));
        let forwarded = said.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
        for attached in said.attachments.iter().chain(forwarded) {
            parts.push(self.outbox.files.part(attached, limits).await);
        }
        (!parts.is_empty()).then_some(parts)
    }

    /// A stranger writes privately: they are told a code, now and then.
    async fn pair(&self, said: &Said) {
        let user = author_of(&said.author, said.display_name());
        match self.pairing_store.request_pairing(user, said.channel_id.to_string()).await {
            Ok(Some(code)) => self.outbox.notice(said.channel_id, said.id, &code_words(&code)).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(platform = "discord", %error, "a stranger could not be given a code");
            }
        }
    }
}

/// The place of this trouble in the status.
pub(super) fn sight_of(channel: ChannelId) -> String {
    format!("sight of channel {channel}")
}

pub(in crate::discord) fn code_words(code: &str) -> String {
    format!(
        "I do not know you yet. Your code is `{code}`; whoever runs this bot can let you in with `cairn pair approve {code}`."
    )
}

fn at_place<T>(channel_ref: &ChannelRef, judge: impl FnOnce(Place<'_>) -> T) -> T {
    let Some(guild) = channel_ref.guild else { return judge(Place::Direct) };
    let (guild, chat) = (guild.to_string(), channel_ref.chat.to_string());
    let thread = channel_ref.thread.map(|thread| thread.to_string());
    judge(Place::Group { server: Some(&guild), chat: &chat, thread: thread.as_deref() })
}

/// The channel of the runtime for a place.
pub(in crate::discord) fn house_channel(agent: &AgentId, channel_ref: &ChannelRef) -> Option<HouseChannel> {
    let thread = channel_ref.thread.map(|thread| thread.to_string());
    let channel =
        HouseChannel::new(agent, super::super::NAME, &channel_ref.chat.to_string(), thread.as_deref());
    if let Err(error) = &channel {
        tracing::error!(platform = "discord", %error, "a place cannot be named; correct the agent's name");
    }
    channel.ok()
}
