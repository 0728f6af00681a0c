//! Reads answers of model servers without a server, for `crates/fuzz`.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::HeaderMap;

use cairn_types::model::{ModelError, ModelEvent};

use crate::answer::{Assemble, Bounds, events, read, read_whole};
use crate::{anthropic, failure, openai, responses};

#[derive(Debug, Clone, Copy)]
pub enum WireFormat {
    OpenAi,
    Responses,
    Anthropic,
}

/// More tokens than any fuzzer's input has.
const TOKENS: u64 = 1 << 20;

/// Reads an answer that is streamed in these pieces.
///
/// # Errors
/// The answer breaks the format, is too large, or is an error of the server.
pub async fn streamed(format: WireFormat, chunks: Vec<Vec<u8>>) -> Result<Vec<ModelEvent>, ModelError> {
    match format {
        WireFormat::OpenAi => assembled(openai::assemble::Assembler::new("m", 1), chunks).await,
        WireFormat::Responses => assembled(responses::assemble::Assembler::new("m", 1), chunks).await,
        WireFormat::Anthropic => assembled(anthropic::assemble::Assembler::default(), chunks).await,
    }
}

async fn assembled(assembler: impl Assemble, chunks: Vec<Vec<u8>>) -> Result<Vec<ModelEvent>, ModelError> {
    let bytes = stream::iter(chunks.into_iter().map(Ok)).boxed();
    read(events(bytes), assembler, bounds(), None).try_collect().await
}

/// Reads an answer that comes as a whole.
///
/// # Errors
/// The answer breaks the format, or is an error of the server.
pub fn whole(format: WireFormat, body: &str) -> Result<Vec<ModelEvent>, ModelError> {
    let events = match format {
        WireFormat::OpenAi => read_whole(body, openai::assemble::Assembler::new("m", 1), bounds()),
        WireFormat::Responses => read_whole(body, responses::assemble::Assembler::new("m", 1), bounds()),
        WireFormat::Anthropic => read_whole(body, anthropic::assemble::Assembler::default(), bounds()),
    };
    events.into_iter().collect()
}

/// Reads a refusal: a status other than success, with this body.
pub fn refusal(status: u16, body: &[u8]) -> ModelError {
    failure::from_status(status, &HeaderMap::new(), body).error
}

fn bounds() -> Bounds {
    Bounds { progress: Duration::from_secs(60), tokens: TOKENS }
}
