//! What ranks texts besides their words: a small embedding model in this process (a BERT-like one, as published for
//! sentence-transformers: safetensors, a WordPiece vocabulary, mean pooling), or models of servers that make vectors
//! (`/embeddings`) or compare texts with a question (`/rerank`).

mod bert;
mod folder;
mod remote;
mod rerank;
mod server;
mod wordpiece;

pub use folder::{FolderError, Model};
pub use remote::RemoteModel;
pub use rerank::RemoteReranker;
pub use server::ServerSettings;
