//! The real binary on a fake Telegram, with a fake model: what people in chats and whoever runs the bot rely on.

mod access;
mod approvals;
mod bots;
mod commands;
mod files;
mod languages;
mod reminders;
mod restarts;
mod rig;
mod talk;
mod trouble;
mod voice;
mod webhook;
