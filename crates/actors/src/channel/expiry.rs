//! Artifacts that nobody reads: journalled as gone first, then their files are removed.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::artifact::{due, expired};
use cairn_core::event::Event;
use cairn_core::ids::ArtifactId;

use super::journal::Fault;
use super::{ChannelMsg, ChannelState};

/// How often a channel that stays awake looks.
const EVERY: Duration = Duration::from_secs(24 * 3600);

impl ChannelState {
    /// The channel woke: files that a crash left behind go, too.
    pub(super) async fn expire_at_wake(&mut self) -> Result<(), Fault> {
        let gone = self.handle.read(expired);
        self.remove_files(gone);
        self.expire().await
    }

    /// Expires what is due, and looks again in a day.
    pub(super) async fn expire(&mut self) -> Result<(), Fault> {
        self.myself.send_after(EVERY, || ChannelMsg::Expire);
        let (settings, now) = (self.handle.settings(), self.shared.now());
        let ids = self.handle.read(|conversation| due(conversation, &settings.result_guard, now));
        if ids.is_empty() {
            return Ok(());
        }
        tracing::info!(channel = %self.handle.id, n = ids.len(), "artifacts expired: nobody has read them for long, or there are too many");
        // What the store refuses is tried again in a day, or at the next wake.
        if self.commit(vec![Event::ArtifactsExpired { ids: ids.clone() }]).await?.is_ok() {
            metrics::counter!("cairn_artifacts_expired_total").increment(ids.len() as u64);
            self.remove_files(ids);
        }
        Ok(())
    }

    fn remove_files(&self, ids: Vec<ArtifactId>) {
        if ids.is_empty() {
            return;
        }
        let (store, channel) = (Arc::clone(&self.shared.deps.store), self.handle.id.clone());
        self.shared.tasks.spawn("remove expired artifacts", async move {
            for id in ids {
                if let Err(error) = store.remove_artifact(&channel, &id).await {
                    tracing::warn!(%channel, artifact = %id, %error,
                        "the file of an expired artifact is still there; it goes when the channel wakes again");
                }
            }
        });
    }
}
