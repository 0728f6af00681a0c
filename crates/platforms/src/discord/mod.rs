//! Discord.

mod settings;

pub use settings::{CatchUp, DISCORD_API, DiscordSettings};
