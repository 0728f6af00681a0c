//! Event types. Ids are serenity's types; the structs are our own and small, so that unknown additions by Discord cause
//! no error.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serenity::all::{ApplicationId, ChannelId, GuildId, InteractionId, MessageId, RoleId, UserId};

use crate::attach::{Attachment, Kind};
use crate::lenient;

/// Discord's ids count milliseconds from the start of 2015.
const EPOCH_MS: u64 = 1_420_070_400_000;

/// The creation time of an object with this id.
pub(super) fn time_of(id: u64) -> Timestamp {
    let millis = (id >> 22) + EPOCH_MS;
    i64::try_from(millis)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn id_at(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0).saturating_sub(EPOCH_MS) << 22
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Message {
    pub(super) id: MessageId,
    pub(super) channel_id: ChannelId,
    #[serde(default)]
    pub(super) guild_id: Option<GuildId>,
    pub(super) author: User,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) member: Option<Member>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) content: String,
    #[serde(default, deserialize_with = "lenient::or_default", rename = "type")]
    pub(super) kind: u64,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) mentions: Vec<User>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) mention_roles: Vec<RoleId>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) attachments: Vec<AttachedFile>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) sticker_items: Vec<Sticker>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) embeds: Vec<Embed>,
    /// Buttons, and the whole content of a message of components; read by `words`.
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) components: Vec<Value>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) poll: Option<Poll>,
    /// An invitation to an activity.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) activity: Option<Value>,
    /// The command that an app answers with this message.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) interaction_metadata: Option<Asked>,
    /// Forwarded messages.
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) message_snapshots: Vec<Snapshot>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) referenced_message: Option<Box<Message>>,
    /// Where the message that is replied to or forwarded is.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) message_reference: Option<Value>,
    #[serde(default)]
    pub(super) webhook_id: Option<Value>,
    #[serde(default)]
    pub(super) edited_timestamp: Option<Value>,
}

impl Message {
    /// Whether it is a message by a person or bot, not a system message.
    pub(super) fn is_speech(&self) -> bool {
        // Message types: default, reply, answers to slash and context-menu commands, and a thread's starter.
        matches!(self.kind, 0 | 19 | 20 | 23) || self.is_thread_start()
    }

    /// Whether it only shows, at the start of a thread, the message from which the thread was made.
    pub(super) fn is_thread_start(&self) -> bool {
        self.kind == 21
    }

    /// The pictures in it and in what it forwards.
    pub(super) fn pictures(&self) -> impl Iterator<Item = &AttachedFile> {
        let forwarded = self.message_snapshots.iter().flat_map(|snapshot| &snapshot.message.attachments);
        self.attachments.iter().chain(forwarded).filter(|file| {
            let (name, media_type) = (file.filename.as_str(), file.content_type.as_deref());
            Attachment { name, media_type, size: None }.kind() == Kind::Image
        })
    }

    /// What it carries besides its text. The embeds of people are link previews by Discord and are left out.
    pub(super) fn carried(&self) -> Carried<'_> {
        Carried {
            mentions: &self.mentions,
            files: &self.attachments,
            stickers: &self.sticker_items,
            poll: self.poll.as_ref(),
            embeds: if self.is_automatic() { &self.embeds } else { &[] },
            components: &self.components,
            activity: self.activity.is_some(),
        }
    }

    pub(super) fn is_automatic(&self) -> bool {
        self.author.bot || self.webhook_id.is_some()
    }

    /// Whether its author edited it. Discord also sends updates for other changes, such as link previews.
    pub(super) fn was_edited(&self) -> bool {
        self.edited_timestamp.is_some()
    }

    /// The author's name in this server.
    pub(super) fn display_name(&self) -> &str {
        let nick = self.member.as_ref().and_then(|member| member.nick.as_deref());
        nick.unwrap_or_else(|| self.author.display_name())
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) id: UserId,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) username: String,
    #[serde(default)]
    pub(super) global_name: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) bot: bool,
    /// In the list of mentions: the person's membership in the server, with their nickname.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) member: Option<Member>,
}

impl User {
    pub(super) fn display_name(&self) -> &str {
        let nick = self.member.as_ref().and_then(|member| member.nick.as_deref());
        nick.or(self.global_name.as_deref()).unwrap_or(&self.username)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Member {
    #[serde(default)]
    pub(super) nick: Option<String>,
    #[serde(default)]
    pub(super) user: Option<Box<User>>,
}

/// A reaction that somebody added to a message or took back.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Reaction {
    pub(super) user_id: UserId,
    pub(super) channel_id: ChannelId,
    pub(super) message_id: MessageId,
    #[serde(default)]
    pub(super) guild_id: Option<GuildId>,
    /// Told of an added one alone.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) message_author_id: Option<UserId>,
    /// Told of one that was added in a server.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) member: Option<Member>,
    pub(super) emoji: Emoji,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Emoji {
    /// Set for a custom one.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) id: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) name: Option<String>,
}

impl Reaction {
    /// What the person is called in the server, where Discord tells.
    pub(super) fn display_name(&self) -> &str {
        let member = self.member.as_ref();
        let nick = member.and_then(|member| member.nick.as_deref());
        let user = || Some(member?.user.as_ref()?.display_name());
        nick.or_else(user).unwrap_or_default()
    }

    pub(super) fn is_by_bot(&self) -> bool {
        self.member.as_ref().and_then(|member| member.user.as_ref()).is_some_and(|user| user.bot)
    }

    /// The emoji, or the name of a custom one between colons.
    pub(super) fn emoji(&self) -> Option<String> {
        let name = self.emoji.name.clone().filter(|name| !name.is_empty())?;
        Some(if self.emoji.id.is_some() { format!(":{name}:") } else { name })
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct AttachedFile {
    pub(super) filename: String,
    #[serde(default)]
    pub(super) content_type: Option<String>,
    /// The alternative text.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) description: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) size: u64,
    /// Of a voice message alone.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) duration_secs: Option<f64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) url: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Sticker {
    pub(super) name: String,
}

/// A box under a message, from a bot or a link preview.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Embed {
    /// `rich` of bots; `link`, `article`, `image`, `video` and `gifv` are previews of links.
    #[serde(rename = "type", deserialize_with = "lenient::or_default")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) title: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) description: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) url: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) author: Named,
    #[serde(deserialize_with = "lenient::list")]
    pub(super) fields: Vec<Named>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) footer: Named,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(super) image: Named,
}

/// An author, a field, a footer or a picture of an embed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) name: Option<String>,
    pub(super) value: Option<String>,
    pub(super) text: Option<String>,
    pub(super) url: Option<String>,
}

impl Embed {
    /// Whether its words are its message's own, not those of a linked page.
    pub(super) fn is_own(&self) -> bool {
        self.kind
            .as_deref()
            .is_none_or(|kind| !matches!(kind, "link" | "article" | "image" | "video" | "gifv"))
    }
}

/// Who gave the command that an app answers.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Asked {
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) user: Option<User>,
}

/// What a message or a forwarded one carries besides its text.
pub(super) struct Carried<'a> {
    pub(super) mentions: &'a [User],
    pub(super) files: &'a [AttachedFile],
    pub(super) stickers: &'a [Sticker],
    pub(super) poll: Option<&'a Poll>,
    pub(super) embeds: &'a [Embed],
    pub(super) components: &'a [Value],
    pub(super) activity: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Poll {
    pub(super) question: PollText,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) answers: Vec<PollAnswer>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct PollAnswer {
    pub(super) poll_media: PollText,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct PollText {
    #[serde(default)]
    pub(super) text: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Snapshot {
    pub(super) message: SnapshotWords,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct SnapshotWords {
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) content: String,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) attachments: Vec<AttachedFile>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) mentions: Vec<User>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) sticker_items: Vec<Sticker>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) embeds: Vec<Embed>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) components: Vec<Value>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) poll: Option<Poll>,
}

impl SnapshotWords {
    /// What it carries besides its text. Its author is not told, so that every embed counts as its own.
    pub(super) fn carried(&self) -> Carried<'_> {
        Carried {
            mentions: &self.mentions,
            files: &self.attachments,
            stickers: &self.sticker_items,
            poll: self.poll.as_ref(),
            embeds: &self.embeds,
            components: &self.components,
            activity: false,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Deleted {
    pub(super) id: MessageId,
    pub(super) channel_id: ChannelId,
    #[serde(default)]
    pub(super) guild_id: Option<GuildId>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DeletedMany {
    pub(super) ids: Vec<MessageId>,
    pub(super) channel_id: ChannelId,
    #[serde(default)]
    pub(super) guild_id: Option<GuildId>,
}

/// A slash command or a button press.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Interaction {
    pub(super) id: InteractionId,
    pub(super) application_id: ApplicationId,
    pub(super) token: String,
    #[serde(rename = "type")]
    pub(super) kind: u64,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) data: Option<InteractionData>,
    #[serde(default)]
    pub(super) guild_id: Option<GuildId>,
    #[serde(default)]
    pub(super) channel_id: Option<ChannelId>,
    /// The kind of place where it was used.
    #[serde(default)]
    pub(super) context: Option<u64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) channel: Option<ChannelInfo>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) member: Option<Member>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) user: Option<User>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) message: Option<Box<Message>>,
}

/// The channel type of a private chat with the bot.
pub(super) const PRIVATE_CHAT: u64 = 1;

/// The channel type of a private group chat.
pub(super) const GROUP_CHAT: u64 = 3;

impl Interaction {
    /// Whether it was used in a private chat with other people, where they see the answer.
    pub(super) fn is_among_others(&self) -> bool {
        // 0 is a server, 1 a private chat with the bot.
        self.context.is_some_and(|context| context > 1)
            || self.channel.as_ref().is_some_and(|room| room.kind == GROUP_CHAT)
    }
}

/// The command with its argument, or the button's data.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct InteractionData {
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) custom_id: Option<String>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) options: Vec<InteractionOption>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct InteractionOption {
    #[serde(default)]
    pub(super) value: Value,
}

/// A server with its channels, its threads and its roles.
#[derive(Debug, Deserialize)]
pub(super) struct Server {
    pub(super) id: GuildId,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) channels: Vec<ChannelInfo>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) threads: Vec<ChannelInfo>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) roles: Vec<Role>,
    /// Discord lists at least the bot itself.
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) members: Vec<ServerMember>,
    /// The owner, who has all rights.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) owner_id: Option<UserId>,
    /// When the bot joined.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) joined_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ServerMember {
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) user: Option<User>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) roles: Vec<RoleId>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) communication_disabled_until: Option<Timestamp>,
}

/// A changed member; Discord tells a bot about itself.
#[derive(Debug, Deserialize)]
pub(super) struct MemberChange {
    pub(super) guild_id: GuildId,
    #[serde(flatten)]
    pub(super) member: ServerMember,
}

/// A server that the bot has left, or that is unavailable.
#[derive(Debug, Deserialize)]
pub(super) struct ServerGone {
    pub(super) id: GuildId,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) unavailable: bool,
}

/// Threads that became visible to the bot.
#[derive(Debug, Deserialize)]
pub(super) struct ThreadList {
    pub(super) guild_id: GuildId,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) threads: Vec<ChannelInfo>,
}

/// A role that was created or changed.
#[derive(Debug, Deserialize)]
pub(super) struct RoleChange {
    pub(super) guild_id: GuildId,
    pub(super) role: Role,
}

#[derive(Debug, Deserialize)]
pub(super) struct RoleGone {
    pub(super) guild_id: GuildId,
    pub(super) role_id: RoleId,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ChannelInfo {
    pub(super) id: ChannelId,
    #[serde(default, deserialize_with = "lenient::or_default", rename = "type")]
    pub(super) kind: u64,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) guild_id: Option<GuildId>,
    /// For a thread its channel, for a channel its category.
    #[serde(default)]
    pub(super) parent_id: Option<ChannelId>,
    /// The last message; it may be deleted by now.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) last_message_id: Option<MessageId>,
    #[serde(default, deserialize_with = "lenient::list")]
    pub(super) permission_overwrites: Vec<Overwrite>,
    /// For threads only.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) thread_metadata: ThreadState,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ThreadState {
    /// Only members with the right to manage threads can write there.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) locked: bool,
}

impl ChannelInfo {
    /// Whether it is an announcement, public or private thread. Forum posts are public threads.
    pub(super) fn is_thread(&self) -> bool {
        matches!(self.kind, 10..=12)
    }
}

/// A permission overwrite of a channel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Overwrite {
    /// The id of a role or a member.
    #[serde(deserialize_with = "lenient::digits")]
    pub(super) id: u64,
    #[serde(default, deserialize_with = "lenient::digits")]
    pub(super) allow: u64,
    #[serde(default, deserialize_with = "lenient::digits")]
    pub(super) deny: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Role {
    pub(super) id: RoleId,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "lenient::digits")]
    pub(super) permissions: u64,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) tags: Option<RoleTags>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RoleTags {
    #[serde(default)]
    pub(super) bot_id: Option<UserId>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_tell_the_time_and_back() {
        // Discord's own example.
        assert_eq!(time_of(175_928_847_299_117_063).to_string(), "2016-04-30T11:18:25.796Z");
        assert_eq!(id_at(time_of(175_928_847_299_117_063)), 175_928_847_299_117_063 >> 22 << 22);
        assert_eq!(id_at(Timestamp::UNIX_EPOCH), 0);
    }

    #[test]
    fn what_is_new_in_a_message_breaks_nothing() {
        let message: Message = serde_json::from_value(json!({
            "id": "7", "channel_id": "8", "author": {"id": "9", "username": "ann", "aura": {}}, "content": "hi",
            "type": 0, "attachments": [{"filename": "a.txt", "size": 3}, {"of": "another kind"}, null],
            "embeds": null, "poll": "maybe", "components": [{"type": 99}], "member": null,
        }))
        .expect("is read");
        assert_eq!((message.content.as_str(), message.attachments.len()), ("hi", 1));
        let nulls: Message = serde_json::from_value(json!({
            "id": "7", "channel_id": "8", "guild_id": null, "content": null, "type": null, "edited_timestamp": null,
            "author": {"id": "9", "username": null, "bot": null},
            "attachments": [{"filename": "a.txt", "size": null, "url": null, "content_type": null}],
        }))
        .expect("is read");
        assert!(nulls.is_speech() && !nulls.is_automatic() && !nulls.was_edited(), "{nulls:?}");
        assert_eq!((nulls.content.as_str(), nulls.attachments.len()), ("", 1));
        assert!(
            message.poll.is_none()
                && message.member.is_none()
                && message.is_speech()
                && !message.is_automatic()
        );
    }

    #[test]
    fn a_message_without_an_author_or_with_an_id_of_nothing_is_none() {
        assert!(serde_json::from_value::<Message>(json!({"id": "7", "channel_id": "8"})).is_err());
        let zero = json!({"id": "0", "channel_id": "8", "author": {"id": "9"}});
        assert!(serde_json::from_value::<Message>(zero).is_err());
    }

    #[test]
    fn the_name_in_the_server_comes_before_the_global_one() {
        let message = |member: Value, global: Value| -> Message {
            serde_json::from_value(json!({
                "id": "7", "channel_id": "8", "member": member,
                "author": {"id": "9", "username": "ann", "global_name": global},
            }))
            .expect("is read")
        };
        assert_eq!(message(json!({"nick": "Annie"}), json!("Ann")).display_name(), "Annie");
        assert_eq!(message(json!({"nick": null}), json!("Ann")).display_name(), "Ann");
        assert_eq!(message(json!(null), json!(null)).display_name(), "ann");
    }
}
