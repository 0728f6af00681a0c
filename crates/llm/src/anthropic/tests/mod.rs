//! The wire format, without a wire.

mod request;
mod stream;
