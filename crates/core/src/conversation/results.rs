//! What becomes of results of tools: how they are sent, and where the whole of large ones is.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Conversation, Spent};
use crate::artifact::Artifact;
use crate::event::{Event, Record};
use crate::ids::Seq;
use crate::message::Entry;
use crate::model::Usage;
use crate::prune::as_sent;

/// For how long the tokens of runs are counted.
const SPENT_FOR: SignedDuration = SignedDuration::from_hours(1);

/// It counts at that time. What lies ahead is of a clock that was set back since: nobody knows how long ago it was.
fn is_recent(spent: &Spent, now: Timestamp) -> bool {
    spent.at <= now && now.duration_since(spent.at) < SPENT_FOR
}

impl Conversation {
    /// Estimated tokens of a live entry as it is sent, before correction.
    pub fn weight(&self, entry: &Entry) -> u64 {
        u64::from(self.pruned.get(&entry.seq).map_or(entry.tokens, |pruned| pruned.tokens))
    }

    pub fn sent(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        match self.pruned.get(&entry.seq) {
            Some(pruned) => Arc::new(as_sent(entry, pruned)),
            None => Arc::clone(entry),
        }
    }

    /// The artifact that holds the whole of a message of which the model saw head and tail.
    pub fn artifact_of(&self, message: Seq) -> Option<&Artifact> {
        self.artifacts.values().find(|artifact| artifact.message == Some(message))
    }

    /// Tokens that runs took within the hour before `now`.
    pub fn spent_within_hour(&self, now: Timestamp) -> u64 {
        self.spent
            .iter()
            .filter(|spent| is_recent(spent, now))
            .map(|spent| spent.tokens)
            .fold(0, u64::saturating_add)
    }

    /// When the tokens that runs took within the last hour will have fallen below `most`, if no more are taken; `None`
    /// when they are below it already.
    pub fn spent_below(&self, most: u64, now: Timestamp) -> Option<Timestamp> {
        let mut left = self.spent_within_hour(now);
        let recent = self.spent.iter().filter(|spent| is_recent(spent, now));
        let mut frees = None;
        for spent in recent {
            if left < most {
                break;
            }
            left = left.saturating_sub(spent.tokens);
            frees = spent.at.checked_add(SPENT_FOR).ok();
        }
        frees
    }

    pub(super) fn spend(&mut self, at: Timestamp, usage: Usage) {
        self.spent.retain(|spent| is_recent(spent, at));
        self.spent.push_back(Spent { at, tokens: usage.tokens() });
    }

    pub(super) fn fold_results(&mut self, record: &Record) {
        match &record.event {
            Event::ResultsPruned { results, .. } => {
                for pruned in results {
                    self.pruned.insert(pruned.seq, pruned.clone());
                }
                self.forget_deleted();
            }
            Event::ArtifactStored { artifact } => {
                self.artifacts.insert(artifact.id.clone(), artifact.clone());
            }
            Event::ArtifactUsed { id } => {
                if let Some(artifact) = self.artifacts.get_mut(id) {
                    artifact.used_at = record.at;
                }
            }
            Event::ArtifactsExpired { ids } => {
                for id in ids {
                    if let Some(artifact) = self.artifacts.get_mut(id) {
                        artifact.expired_at = Some(record.at);
                    }
                }
            }
            _ => {}
        }
    }
}
