//! Vectors by a server that speaks OpenAI's `/embeddings`.
//!
//! The form: <https://platform.openai.com/docs/api-reference/embeddings/create>: JSON with `model`, `input` (texts, none of them
//! empty) and `encoding_format`; the answer's `data` has an `embedding` for each, with its `index`. llama.cpp's server, Ollama,
//! vLLM and LocalAI take the same.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use cairn_types::ports::{Embedder, NoRank};
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::server::{Server, ServerSettings, beginning};

/// Texts of one request.
const AT_ONCE: usize = 16;

/// Most bytes of a text: about 2,000 tokens. Servers refuse texts that are longer than their model reads.
const TEXT_MAX: usize = 8 << 10;

/// A text that is refused is not asked for again once it is this short.
const TEXT_MIN: usize = 256;

/// Most numbers of a vector, and most bytes of an answer: these as text for each of the texts.
const NUMBERS_MAX: usize = 16_384;
const ANSWER_MAX: usize = 8 << 20;

/// An embedding model behind a server.
#[derive(Debug)]
pub struct RemoteModel {
    server: Server,
    runtime: Handle,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    index: usize,
    embedding: Vec<f32>,
}

impl RemoteModel {
    /// `runtime`: where its requests run.
    ///
    /// # Errors
    /// The address is none, or the HTTP client cannot be built.
    pub fn new(settings: ServerSettings, runtime: Handle) -> Result<Self, NoRank> {
        Ok(Self { server: Server::new(settings, "embeddings")?, runtime })
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NoRank> {
        let server = self.server.clone();
        let asked = json!({ "model": server.settings.model, "input": texts, "encoding_format": "float" });
        let within = server.settings.time_limit + Duration::from_secs(1);
        let (reply, answered) = sync_channel(1);
        drop(self.runtime.spawn(async move {
            // Nobody waits any more once the time is up.
            let _ = reply.send(server.ask::<Answer>(&asked, ANSWER_MAX).await);
        }));
        let answer = answered.recv_timeout(within).map_err(|_| NoRank::Transport("it took too long"))??;
        vectors(answer, texts.len()).ok_or(NoRank::Garbled)
    }

    /// The vector of one text: of its first half, and so on, while the server refuses it.
    fn alone(&self, text: &str) -> Result<Vec<f32>, NoRank> {
        let mut text = text;
        loop {
            match self.ask(&[text]) {
                Err(NoRank::Status(400 | 413 | 422 | 500)) if text.len() > TEXT_MIN => {
                    text = beginning(text, text.len() / 2);
                }
                answer => return answer.and_then(|mut one| one.pop().ok_or(NoRank::Garbled)),
            }
        }
    }
}

impl Embedder for RemoteModel {
    fn model(&self) -> &str {
        &self.server.settings.model
    }

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NoRank> {
        let texts: Vec<&str> = texts.iter().map(|text| beginning(text, TEXT_MAX)).collect();
        match self.ask(&texts) {
            // One of them may be too long for the model.
            Err(NoRank::Status(400 | 413 | 422 | 500)) => texts.iter().map(|text| self.alone(text)).collect(),
            answer => answer,
        }
    }
}

/// A vector of each text; `None`: the answer is something else.
fn vectors(answer: Answer, n: usize) -> Option<Vec<Vec<f32>>> {
    let mut data = answer.data;
    data.sort_by_key(|one| one.index);
    let len = data.first()?.embedding.len();
    let is_sound = data.len() == n
        && (1..=NUMBERS_MAX).contains(&len)
        && data.iter().enumerate().all(|(idx, one)| one.index == idx && one.embedding.len() == len);
    is_sound.then(|| data.into_iter().map(|one| one.embedding).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str, n: usize) -> Option<Vec<Vec<f32>>> {
        vectors(serde_json::from_str(answer).unwrap(), n)
    }

    #[test]
    fn an_answer_has_a_vector_of_each_text_by_its_index() {
        let two = r#"{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}]}"#;
        assert_eq!(read(two, 2), Some(vec![vec![1.0, 2.0], vec![3.0, 4.0]]));
        for (wrong, n) in [
            (two, 1),
            (two, 3),
            (r#"{"data":[]}"#, 0),
            (r#"{"data":[{"index":0,"embedding":[]}]}"#, 1),
            (r#"{"data":[{"index":1,"embedding":[1]}]}"#, 1),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#, 2),
            (r#"{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1]}]}"#, 2),
        ] {
            assert_eq!(read(wrong, n), None, "{wrong} for {n}");
        }
    }
}
