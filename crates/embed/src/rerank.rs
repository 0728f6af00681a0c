//! How well texts answer a question, by a server that speaks `/rerank`.
//!
//! The form: <https://docs.jina.ai/> and <https://docs.cohere.com/reference/rerank>: JSON with `model`, `query` and `documents`; the
//! answer's `results` have an `index` and a `relevance_score` each, in any order. llama.cpp's server (`--rerank`), vLLM and LocalAI
//! take the same.

use cairn_types::ports::{NoRank, Reranker};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use crate::server::{Server, ServerSettings, beginning};

/// Most bytes of the question, and of a text: most models read 512 tokens of both together.
const QUESTION_MAX: usize = 500;
const TEXT_MAX: usize = 1_200;

/// Most bytes of an answer; some have the texts again.
const ANSWER_MAX: usize = 1 << 20;

/// A reranking model behind a server.
#[derive(Debug)]
pub struct RemoteReranker {
    server: Server,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    index: usize,
    relevance_score: f64,
}

impl RemoteReranker {
    /// # Errors
    /// The address is none, or the HTTP client cannot be built.
    pub fn new(settings: ServerSettings) -> Result<Self, NoRank> {
        Ok(Self { server: Server::new(settings, "rerank")? })
    }
}

impl Reranker for RemoteReranker {
    fn rerank(&self, question: String, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<f64>, NoRank>> {
        Box::pin(async move {
            let documents: Vec<&str> = texts.iter().map(|text| beginning(text, TEXT_MAX)).collect();
            let asked = json!({
                "model": self.server.settings.model,
                "query": beginning(&question, QUESTION_MAX),
                "documents": documents,
                "top_n": documents.len(),
            });
            let answer = self.server.ask::<Answer>(&asked, ANSWER_MAX).await?;
            scores(&answer, documents.len()).ok_or(NoRank::Garbled)
        })
    }
}

/// The score of each text; `None`: the answer has not one for each.
fn scores(answer: &Answer, n: usize) -> Option<Vec<f64>> {
    let mut scores = vec![None; n];
    for one in &answer.results {
        let score =
            scores.get_mut(one.index).filter(|score| score.is_none() && one.relevance_score.is_finite());
        *score? = Some(one.relevance_score);
    }
    scores.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_scores_each_text_once() {
        let read = |answer: &str, n| scores(&serde_json::from_str(answer).unwrap(), n);
        let two = r#"{"results":[{"index":1,"relevance_score":0.9,"document":{"text":"b"}},{"index":0,"relevance_score":-3}]}"#;
        assert_eq!(read(two, 2), Some(vec![-3.0, 0.9]));
        for (wrong, n) in [
            (two, 1),
            (two, 3),
            (r#"{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":2}]}"#, 2),
            (r#"{"results":[]}"#, 1),
        ] {
            assert_eq!(read(wrong, n), None, "{wrong} for {n}");
        }
    }
}
