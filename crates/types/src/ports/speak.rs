//! Texts as recordings: what is heard of an answer.

use futures::future::BoxFuture;

/// Why a text has no recording. The text of it has neither words nor addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSpeech {
    #[error("no client can be made for its address")]
    Address,
    #[error("the server answered {0}")]
    Status(u16),
    #[error("{0}")]
    Transport(&'static str),
    #[error("its answer is no Opus in Ogg")]
    Garbled,
    #[error("nothing of the text can be spoken")]
    Nothing,
}

impl NoSpeech {
    /// Its name as a label.
    pub fn outcome(self) -> &'static str {
        match self {
            Self::Address | Self::Transport(_) => "unreachable",
            Self::Status(_) => "refused",
            Self::Garbled => "garbled",
            Self::Nothing => "nothing",
        }
    }
}

/// A service that speaks.
pub trait Speaker: Send + Sync + 'static {
    /// A recording of an answer, given in Markdown: Opus in Ogg. It takes bounded time.
    fn speak(&self, answer: String) -> BoxFuture<'_, Result<Vec<u8>, NoSpeech>>;
}
