//! Ids of people, chats and servers, as they are written in the file: as numbers, or as their digits in quotes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

use super::NetworkKind;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlatformId(String);

impl PlatformId {
    /// Its digits, with a sign where it is negative.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// It may be an id on that network.
    pub(super) fn fits(&self, network: NetworkKind) -> bool {
        is_id(&self.0, network)
    }
}

/// Whether a text may be an id on that network: a whole number, not 0; on Discord above it.
pub(in crate::config) fn is_id(text: &str, network: NetworkKind) -> bool {
    let digits = match network {
        NetworkKind::Discord => text,
        NetworkKind::Telegram => text.strip_prefix('-').unwrap_or(text),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    plain && digits.parse::<u64>().is_ok_and(|id| network == NetworkKind::Discord || id <= i64::MAX as u64)
}

impl Serialize for PlatformId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PlatformId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Ids)
    }
}

struct Ids;

impl Visitor<'_> for Ids {
    type Value = PlatformId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id, as a number or as its digits in quotes")
    }

    fn visit_i64<E: Error>(self, id: i64) -> Result<PlatformId, E> {
        Ok(PlatformId(id.to_string()))
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<PlatformId, E> {
        Ok(PlatformId(id.to_string()))
    }

    fn visit_str<E: Error>(self, id: &str) -> Result<PlatformId, E> {
        Ok(PlatformId(id.trim().to_owned()))
    }
}
