//! What crosses a connection: addresses, bodies, streams of events, pauses between tries, and the format of a request to a model.

pub mod address;
pub mod backoff;
pub mod base64;
pub mod body;
pub mod format;
pub mod sse;
