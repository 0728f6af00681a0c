//! Reads gateway events without a connection, for `crates/fuzz`.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serenity::all::UserId;

use super::gateway::{Frame, Ready};
use super::inbox::words_of;
use super::places::{ChannelRef, Places};
use super::wire::{
    ChannelInfo, Deleted, DeletedMany, Interaction, MemberChange, Message, RoleChange, RoleGone, Server,
    ThreadList, id_at, time_of,
};
use super::words::Reading;
use crate::inbound::ChatAddress;
use crate::markup::name;

/// A message as the runtime would get it.
#[derive(Debug)]
pub struct Heard {
    pub chat: String,
    pub author: String,
    pub words: String,
    pub at: Timestamp,
}

/// The bot's own id.
const ME: UserId = UserId::new(99);

/// Reads a frame as the gateway, the inbox and the places do. Returns the message in it, if any.
///
/// # Errors
/// The text is no frame, or its data does not match its kind.
pub fn frame(text: &str) -> Result<Option<Heard>, &'static str> {
    let Frame::Dispatch { kind, data, .. } = Frame::read(text)? else { return Ok(None) };
    let places = Places::default();
    match kind.as_str() {
        "READY" => {
            read::<Ready>(data)?;
        }
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" => {
            return read(data).map(|message| Some(heard(&message, &places)));
        }
        "MESSAGE_DELETE" => {
            read::<Deleted>(data)?;
        }
        "MESSAGE_DELETE_BULK" => {
            read::<DeletedMany>(data)?;
        }
        "INTERACTION_CREATE" => return read(data).map(|interaction| pressed(interaction, &places)),
        "GUILD_CREATE" => {
            let server: Server = read(data)?;
            places.learn_server(&server, ME);
            for room in server.channels.iter().chain(&server.threads) {
                let _may = places.may_send(room.id, ME, time_of(room.id.get()));
            }
        }
        "THREAD_LIST_SYNC" => {
            let list: ThreadList = read(data)?;
            list.threads.iter().for_each(|room| places.learn(room, Some(list.guild_id)));
        }
        "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => {
            let change = read::<RoleChange>(data)?;
            places.learn_role(change.guild_id, &change.role, ME);
        }
        "GUILD_ROLE_DELETE" => places.forget_role(&read::<RoleGone>(data)?),
        "GUILD_MEMBER_UPDATE" => places.learn_member(&read::<MemberChange>(data)?, ME),
        "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
            let room: ChannelInfo = read(data)?;
            places.learn(&room, None);
            if let Some(channel) = ChannelRef::of_room(&room, None) {
                let _address = ChatAddress::from(&channel);
            }
        }
        _ => {}
    }
    Ok(None)
}

fn read<T: DeserializeOwned>(data: Value) -> Result<T, &'static str> {
    serde_json::from_value(data).map_err(|_| "event")
}

fn heard(message: &Message, places: &Places) -> Heard {
    let words = |last_own| Reading { me: ME, places, last_own }.words(message);
    let answered = message.referenced_message.as_ref().map(|answered| answered.id.get());
    let short = words(answered);
    let at = time_of(message.id.get());
    // Catching up converts a time back into an id.
    let _from = id_at(at);
    Heard {
        chat: message.channel_id.to_string(),
        author: name::display(message.display_name()),
        words: Some(words(None)).filter(|long| long.len() >= short.len()).unwrap_or(short),
        at,
    }
}

/// The question message under which a button was pressed.
fn pressed(interaction: Interaction, places: &Places) -> Option<Heard> {
    let among = interaction.is_among_others();
    if let Some(data) = &interaction.data {
        let _given: Vec<String> = data.options.iter().map(|option| words_of(&option.value)).collect();
        let _button = data.custom_id.as_deref().and_then(crate::buttons::read);
    }
    interaction.message.filter(|_| !among).map(|message| heard(&message, places))
}
