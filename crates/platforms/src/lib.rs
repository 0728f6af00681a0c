//! Adapters for chat networks: they turn incoming events into [`cairn_types::message::Inbound`] and send replies. They
//! know the runtime's ports, but neither each other nor the actors.

pub mod attach;
pub mod bridge;
mod buttons;
mod chat_queues;
pub mod checkup;
pub mod discord;
pub mod fence;
mod inbound;
mod lenient;
pub mod link;
pub mod markup;
mod multipart;
mod pause;
pub mod private_file;
pub mod settings;
pub mod speech;
pub mod split;
pub mod telegram;
