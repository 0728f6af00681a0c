//! Texts as vectors: two that mean alike point alike, whatever their words.

/// A model that makes vectors of texts, in this process.
pub trait Embedder: std::fmt::Debug + Send + Sync + 'static {
    /// Names the model and its weights. Vectors of different models are never compared.
    fn model(&self) -> &str;

    /// Numbers in each vector.
    fn dimensions(&self) -> usize;

    /// The vector of a text, of length 1; of a long text, that of its beginning. It takes tens of milliseconds of a processor:
    /// nothing for a thread that others wait for.
    fn embed(&self, text: &str) -> Vec<f32>;
}
