//! Adapters for language models: the port [`cairn_core::ports::ChatModel`] over wire formats, and the embedded
//! offline model.
//!
//! [`OpenAi`] speaks to any server with OpenAI's chat completions, [`Offline`] needs none.

mod failure;
mod offline;
mod openai;
mod sse;

pub use offline::{OFFLINE_ID, Offline};
pub use openai::{BadModel, OpenAi, OpenAiOptions, Timeouts};
