//! Artifacts in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_core::ids::{ArtifactId, ChannelId};
use cairn_core::ports::{ArtifactLines, ArtifactStore, LineRange, StoreError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct MemArtifacts {
    files: Mutex<BTreeMap<(String, String), Arc<str>>>,
    pub(crate) full: AtomicBool,
}

impl MemArtifacts {
    /// The files, as `CHANNEL ID`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.files.lock().keys().map(|(channel, id)| format!("{channel} {id}")).collect()
    }
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
        if self.full.load(Ordering::SeqCst) {
            return async { Err(StoreError::DiskFull { path: "/state".to_owned() }) }.boxed();
        }
        self.files.lock().insert(key(channel, id), text);
        async { Ok(()) }.boxed()
    }

    fn lines(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        range: LineRange,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>> {
        let text = self.files.lock().get(&key(channel, id)).cloned();
        let found = text.map(|text| {
            let mut found =
                ArtifactLines { text: String::new(), lines: 0, offset: range.offset, cut_bytes: 0 };
            for line in text.lines().skip(range.from as usize - 1).take(range.count as usize) {
                let line = if found.lines == 0 { &line[range.offset as usize..] } else { line };
                let room = range.max_bytes - found.text.len().min(range.max_bytes);
                if line.len() >= room && found.lines == 0 {
                    found.text.push_str(&line[..room]);
                    found.cut_bytes = (line.len() - room) as u64;
                    found.lines = 1;
                    break;
                }
                if line.len() >= room {
                    break;
                }
                if found.lines > 0 {
                    found.text.push('\n');
                }
                found.text.push_str(line);
                found.lines += 1;
            }
            found
        });
        async { Ok(found) }.boxed()
    }

    fn remove(&self, channel: &ChannelId, id: &ArtifactId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.files.lock().remove(&key(channel, id));
        async { Ok(()) }.boxed()
    }
}
