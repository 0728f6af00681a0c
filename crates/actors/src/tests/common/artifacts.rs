//! Artifacts in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_core::ids::{ArtifactId, ChannelId};
use cairn_core::ports::{ArtifactLines, ArtifactStore, StoreError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

/// Artifacts in memory.
#[derive(Default)]
pub(crate) struct MemArtifacts {
    files: Mutex<BTreeMap<(String, String), Arc<str>>>,
}

fn key(channel: &ChannelId, id: &ArtifactId) -> (String, String) {
    (channel.to_string(), id.to_string())
}

impl ArtifactStore for MemArtifacts {
    fn put(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        text: Arc<str>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        self.files.lock().insert(key(channel, id), text);
        async { Ok(()) }.boxed()
    }

    fn lines(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        from_line: u64,
        count: u64,
        _max_bytes: usize,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>> {
        let text = self.files.lock().get(&key(channel, id)).cloned();
        let found = text.map(|text| {
            let lines: Vec<&str> =
                text.lines().skip(from_line.saturating_sub(1) as usize).take(count as usize).collect();
            ArtifactLines { lines: lines.len() as u64, text: lines.join("\n"), cut_bytes: 0 }
        });
        async { Ok(found) }.boxed()
    }

    fn remove(&self, channel: &ChannelId, id: &ArtifactId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.files.lock().remove(&key(channel, id));
        async { Ok(()) }.boxed()
    }
}
