//! What chat networks send.

use cairn_platforms::{discord, telegram};
use cairn_types::ids::{AgentId, ChannelId};

use crate::lossy;

/// Longest name of a person, in characters.
const NAME_MAX: usize = 64;

/// A frame that is none is refused; what is heard is bounded, and its channel is one.
pub fn discord_frame(data: &[u8]) {
    let text = lossy(data);
    match discord::fuzzing::frame(&text) {
        Ok(Some(heard)) => {
            told("discord", &heard.chat, &heard.author, &heard.words, data);
            assert!(heard.at.as_second() >= 0, "said before there was Discord: {}", heard.at);
        }
        Ok(None) => {}
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Each update of an answer by itself, as it would come in.
pub fn telegram_update(data: &[u8]) {
    let Ok(value) = serde_json::from_slice(data) else { return };
    let (_id, heard) = telegram::fuzzing::update(value);
    let Some(heard) = heard else { return };
    told("telegram", &heard.chat, &heard.author, &heard.words, data);
    for file in &heard.files {
        assert!(!file.chars().any(|c| c.is_control() || c == '\u{202e}'), "a file's name: {file:?}");
    }
}

fn told(network: &str, chat: &str, author: &str, words: &str, sent: &[u8]) {
    let n_chars = author.chars().count();
    assert!((1..=NAME_MAX).contains(&n_chars) && !author.contains(['\n', '\r', '\0']), "a name: {author:?}");
    // Names and notes are put in the place of ids.
    assert!(words.len() <= 16 * sent.len() + 1_000, "{} bytes of {}", words.len(), sent.len());
    let channel = ChannelId::new(&AgentId::new("main"), network, chat, None);
    channel.expect("a chat of the network is a channel");
}
