//! Text: its words, sentences and edges, how it is escaped, and how times are written.

pub mod checksum;
pub mod edges;
pub mod escape;
pub mod sentences;
pub mod when;
pub mod words;
