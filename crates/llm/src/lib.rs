//! Adapters for language models: the port [`cairn_core::ports::ChatModel`] over wire formats, and the embedded
//! offline model.
//!
//! [`OpenAi`] speaks to any server with OpenAI's chat completions, [`Anthropic`] to those with Anthropic's messages,
//! [`Offline`] needs none. What the two share: `options`, `server` (connections, keys), `answer` (streams, time, bounds),
//! `failure` (what a refusal means), `sse`.

mod answer;
mod anthropic;
mod failure;
mod look;
mod offline;
mod openai;
mod options;
mod rounds;
mod server;
mod sse;
mod told;
mod window;

pub use anthropic::Anthropic;
pub use look::Look;
pub use offline::{HistorySearch, OFFLINE_ID, Offline};
pub use openai::OpenAi;
pub use options::{BadModel, ServerOptions, Timeouts};
