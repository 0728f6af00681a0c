//! Memories by rule, without a model.

use std::sync::Arc;

use super::DraftMemory;
use crate::message::Entry;

/// Finds memories in what people said ("my name is", "I prefer", "we decided", "remember that" and their like).
pub fn extract(entries: &[Arc<Entry>]) -> Vec<DraftMemory> {
    let _ = entries;
    todo!("helper text")
}
