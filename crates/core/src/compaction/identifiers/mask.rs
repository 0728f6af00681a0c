//! Placeholders in the place of identifiers: the same one for the same identifier, in one channel.

use sha2::{Digest as _, Sha256};

use super::Kind;
use super::scan::find;
use cairn_types::ids::ChannelId;

/// Hex digits of a placeholder: few, and yet a channel is not likely to have two identifiers with one.
const DIGITS: usize = 6;

/// Puts `<path-3fa2c1>` and the like in the place of identifiers.
#[derive(Debug, Clone)]
pub struct Mask {
    channel: String,
}

impl Mask {
    pub fn new(channel: &ChannelId) -> Self {
        Self { channel: channel.to_string() }
    }

    /// The text with placeholders. Placeholders stay as they are, and so do the words of an error message around what it
    /// names.
    pub fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        for found in find(text).into_iter().filter(|found| found.kind != Kind::Error) {
            out.push_str(&text[end..found.at]);
            out.push_str(&self.placeholder(found.kind, found.text));
            end = found.at + found.text.len();
        }
        out.push_str(&text[end..]);
        out
    }

    fn placeholder(&self, kind: Kind, text: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.channel.as_bytes());
        hash.update([0]);
        hash.update(text.as_bytes());
        let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("<{}-{}>", kind.name(), &hex[..DIGITS])
    }
}
