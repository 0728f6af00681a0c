//! How records look, on the terminal and in chats.

pub mod bar;
