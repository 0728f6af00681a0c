//! A small embedding model in this process: a BERT-like one, as published for sentence-transformers (safetensors, a WordPiece
//! vocabulary, mean pooling).

mod bert;
mod folder;
mod wordpiece;

pub use folder::{FolderError, Model};
