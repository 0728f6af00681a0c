//! Bytes as text in JSON, for fields with `#[serde(with = "cairn_types::wire::base64")]`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer, de};

/// # Errors
/// The serializer failed.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// # Errors
/// The value is not a text in base64.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    #[derive(Deserialize)]
    struct Text<'t>(#[serde(borrow)] Cow<'t, str>);
    let Text(text) = Text::deserialize(deserializer)?;
    STANDARD.decode(text.as_bytes()).map_err(|_| de::Error::custom("`data` of a file is not base64"))
}
