//! Chat networks: adapters that turn what comes from outside into [`cairn_types::message::Inbound`] and bring
//! replies out. They know the ports of `core` and nothing of each other or of the actors.

pub mod attach;
mod buttons;
mod chat_queues;
pub mod checkup;
pub mod discord;
pub mod fence;
mod inbound;
mod lenient;
pub mod link;
pub mod markup;
mod pause;
pub mod settings;
pub mod split;
pub mod telegram;
