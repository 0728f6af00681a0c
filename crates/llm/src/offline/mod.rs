//! The embedded model: no network, no key, no weights. It answers by quoting, summarises by extraction, and says so. Equal
//! requests get equal answers.

mod facts;
mod memories;
mod quote;
mod reply;
mod speech;
mod summarise;
mod sums;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};

use cairn_types::message::ToolCall;
use cairn_types::model::{ChatRequest, Finish, ModelError, ModelEvent, ModelInfo, Purpose};
use cairn_types::ports::{ChatModel, Hit, Query, ServerWindow, StoreError, Unanswered};
use cairn_types::wire::format::{Sent, Wire, WireFormat};

use crate::options::ServerOptions;

/// The id of the embedded model, in the configuration and in records.
pub const OFFLINE_ID: &str = "offline";

/// Words of the answer come in pieces of about this many characters, as from any model.
const PIECE_CHARS: usize = 24;

/// Searches what was said in a channel: the store's search, or one that finds nothing.
pub type HistorySearch = Arc<dyn Fn(Query) -> BoxFuture<'static, Result<Vec<Hit>, StoreError>> + Send + Sync>;

pub struct Offline {
    info: ModelInfo,
    search: HistorySearch,
    /// Time for each word; zero: none passes.
    per_word: Duration,
}

impl fmt::Debug for Offline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Offline")
    }
}

impl Offline {
    /// A model that finds old words through `search`. Memories reach it with the request, as they reach any model.
    pub fn new(search: HistorySearch) -> Self {
        let info = ModelInfo {
            id: OFFLINE_ID.to_owned(),
            context_window: None,
            max_output_tokens: None,
            images: false,
            tools: true,
        };
        Self { info, search, per_word: Duration::ZERO }
    }

    /// The model at the pace of somebody who speaks; 0: everything at once.
    #[must_use]
    pub fn speaking_at(self, words_per_second: u32) -> Self {
        let per_word = Duration::from_secs(1).checked_div(words_per_second).unwrap_or_default();
        Self { per_word, ..self }
    }
}

impl ChatModel for Offline {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn discover_window(&self) -> BoxFuture<'_, Result<ServerWindow, Unanswered>> {
        futures::future::ready(Ok(ServerWindow::Unlisted)).boxed()
    }

    fn stream(&self, request: ChatRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let search = self.search.clone();
        let said = async move {
            match &request.purpose {
                Purpose::Reply { question } => {
                    let question = question.clone();
                    let said = reply::reply(request, question, &search).await?;
                    // What is not quoted is a set phrase: no search should find it, no digest keep it.
                    Ok(Answer { quotes: true, ..said })
                }
                Purpose::Summarise { .. } | Purpose::Merge { .. } => {
                    off_thread(move || summarise::summarise(&request)).await
                }
            }
        };
        let sent = Ok(ModelEvent::Sent(Box::new(Sent { wire: wire(), body: None })));
        let per_word = self.per_word;
        let spoken = stream::once(said).flat_map(|said| stream::iter(events(said)));
        stream::iter([sent]).chain(spoken.then(move |event| spoken_after(per_word, event))).boxed()
    }
}

/// Work over a long history, which takes long enough to hold up others on this thread.
async fn off_thread(work: impl FnOnce() -> Answer + Send + 'static) -> Result<Answer, ModelError> {
    let broken = |_panic| ModelError::Protocol("the offline model broke down over what it read".to_owned());
    tokio::task::spawn_blocking(work).await.map_err(broken)
}

/// Nothing is sent. What it reads is shown in the form that most servers get.
fn wire() -> Wire {
    let options = ServerOptions::new(OFFLINE_ID, "", OFFLINE_ID);
    options.wire(WireFormat::Offline, "max_tokens")
}

/// An answer before it is cut into pieces.
#[derive(Debug, Clone, Default, PartialEq)]
struct Answer {
    text: String,
    calls: Vec<ToolCall>,
    quotes: bool,
}

/// The event, once its words have been said.
async fn spoken_after(
    per_word: Duration,
    event: Result<ModelEvent, ModelError>,
) -> Result<ModelEvent, ModelError> {
    if let Ok(ModelEvent::Text(piece)) = &event
        && !per_word.is_zero()
    {
        let n_words = u32::try_from(piece.split_whitespace().count()).unwrap_or(u32::MAX);
        tokio::time::sleep(per_word.saturating_mul(n_words)).await;
    }
    event
}

fn events(said: Result<Answer, ModelError>) -> Vec<Result<ModelEvent, ModelError>> {
    let said = match said {
        Ok(said) => said,
        Err(error) => return vec![Err(error)],
    };
    let finish = if said.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    let mut events: Vec<_> = pieces(&said.text).into_iter().map(ModelEvent::Text).collect();
    events.extend(said.calls.into_iter().map(ModelEvent::ToolCall));
    events.push(ModelEvent::Done { finish, usage: None, quotes: said.quotes });
    events.into_iter().map(Ok).collect()
}

fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in text.split_inclusive([' ', '\n']) {
        piece.push_str(word);
        if piece.chars().count() >= PIECE_CHARS {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests;
