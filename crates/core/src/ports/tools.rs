//! Tools that come from elsewhere, and where the whole of their large results is kept.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::StoreError;
use crate::ids::{ArtifactId, ChannelId};
use crate::model::ToolDef;
use crate::settings::ResultClass;

/// A tool that agents' models may call, beside those that are built in.
pub trait Tool: Send + Sync + 'static {
    /// As models see it. Its name is unique.
    fn def(&self) -> ToolDef;

    /// How its results are treated where the configuration names no class for it.
    fn class(&self) -> ResultClass;

    /// Calls it. Whoever waits may drop the future at its time limit.
    ///
    /// # Errors
    /// What went wrong, for the model.
    fn call(&self, channel: ChannelId, arguments: Value) -> BoxFuture<'static, Result<String, String>>;
}

/// Lines of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactLines {
    /// The lines, joined by line breaks.
    pub text: String,
    /// How many.
    pub lines: u64,
    /// The first of them, or a part of it, did not fit into the bytes that were asked for: so many bytes of it are left out.
    pub cut_bytes: u64,
}

/// Where artifacts are kept: files beside the journal.
pub trait ArtifactStore: Send + Sync + 'static {
    /// Keeps the words, durable when it returns. An id that was used before is written anew.
    fn put(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        text: Arc<str>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Reads whole lines from `from_line` (from 1), at most `count` and at most `max_bytes`; `None` when there is no such
    /// file.
    fn lines(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        from_line: u64,
        count: u64,
        max_bytes: usize,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>>;

    /// Removes the words. That they are gone already is fine.
    fn remove(&self, channel: &ChannelId, id: &ArtifactId) -> BoxFuture<'_, Result<(), StoreError>>;
}
