//! Adapters for language models: the port [`cairn_types::ports::ChatModel`] over wire formats, and the embedded
//! offline model.
//!
//! [`OpenAi`] speaks to any server with OpenAI's chat completions or its Responses API, [`Anthropic`] to those with Anthropic's
//! messages, [`Offline`] needs none. What the two share: `options`, `server` (connections, keys), `send` (until an answer begins), `answer` (streams, time, bounds), `wires` (which code is of which format),
//! `sort` (what is text in an answer and what is not), `body` (what is sent), `breakpoints` (what the provider's cache is to
//! hold), `failure` (what a refusal means), `remedy` (asking otherwise what a server refuses).

mod answer;
mod anthropic;
mod body;
mod breakpoints;
mod call_ids;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod json;
mod offline;
mod openai;
mod options;
mod phrases;
mod remedy;
mod responses;
mod send;
mod server;
mod sort;
#[cfg(test)]
mod testing;
mod window;
mod wires;

pub use anthropic::Anthropic;
pub use offline::{HistorySearch, OFFLINE_ID, Offline};
pub use openai::OpenAi;
pub use options::{BadModel, ServerOptions, Timeouts};
pub use server::Look;
pub use wires::body_of;
