//! Texts as vectors, and how well texts answer a question: what ranks search results besides their words.

use futures::future::BoxFuture;

/// Why a model ranks nothing. The text of it has neither words nor addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRank {
    #[error("no client can be made for its address")]
    Address,
    #[error("the server answered {0}")]
    Status(u16),
    #[error("{0}")]
    Transport(&'static str),
    #[error("its answer is not what was asked for")]
    Garbled,
}

impl NoRank {
    /// Its name as a label.
    pub fn outcome(self) -> &'static str {
        match self {
            Self::Address | Self::Transport(_) => "unreachable",
            Self::Status(_) => "refused",
            Self::Garbled => "garbled",
        }
    }
}

/// A model that makes vectors of texts: two that mean alike point alike, whatever their words.
pub trait Embedder: std::fmt::Debug + Send + Sync + 'static {
    /// Names the model. Vectors of different models are never compared.
    fn model(&self) -> &str;

    /// The most texts of one call.
    fn at_once(&self) -> usize;

    /// A vector of each text, all of one length; of a long text, that of its beginning. It blocks the thread, for a bounded time.
    ///
    /// # Errors
    /// The model cannot be reached in time, refuses, or answers something else.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NoRank>;
}

/// A model that compares a question with each of some texts.
pub trait Reranker: std::fmt::Debug + Send + Sync + 'static {
    /// How well each text answers the question: as many numbers as texts, the higher the better. It takes bounded time.
    fn rerank(&self, question: String, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<f64>, NoRank>>;
}
