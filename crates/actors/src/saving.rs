//! What a save of a memory is checked against, and what the model is told of memories near it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::memory::{KNOWN_TOLD, NEAR_TOLD, known_text, may_replace, near, question_of, saved_text};
use cairn_core::reminder;
use cairn_types::memory::{DraftMemory, Fingerprint, Memory, Reach, Scope, mint_id};
use cairn_types::message::Entry;
use jiff::ZonedDateTime;

use crate::handle::ChannelHandle;
use crate::ports::Ports;

/// Longest that a save waits for memories near it.
const NEAR_LIMIT: Duration = Duration::from_secs(2);

pub(crate) struct Saving {
    ports: Arc<Ports>,
    handle: Arc<ChannelHandle>,
    scope: Scope,
    /// Ids of whom the memory may come from.
    people: BTreeSet<String>,
}

impl Saving {
    /// `said`: the entries that the memory may come from.
    pub(crate) fn new<'e>(
        ports: &Arc<Ports>,
        handle: &Arc<ChannelHandle>,
        said: impl IntoIterator<Item = &'e Arc<Entry>>,
    ) -> Self {
        let scope =
            handle.read(|conversation| Scope::learnt_in(&handle.id, conversation.direct_with.as_deref()));
        let own = |entry: &&Arc<Entry>| entry.provenance.is_empty();
        let authors = said.into_iter().filter(own).filter_map(|entry| entry.author.as_ref());
        let people = authors.map(|author| author.id.clone()).collect();
        Self { ports: Arc::clone(ports), handle: Arc::clone(handle), scope, people }
    }

    /// Whether the memories whose place it takes are there, and may be put in the past.
    ///
    /// # Errors
    /// Why not, for the model.
    pub(crate) async fn check(&self, draft: &DraftMemory) -> Result<(), String> {
        for id in &draft.replaces.ids {
            let old = self.ports.store.memory(id).await.map_err(|error| error.to_string())?;
            let is_here = |agent, scope| agent == self.handle.id.agent() && scope == self.scope;
            let old = old.filter(|old| is_here(old.agent.clone(), old.scope.clone()));
            let old = old.ok_or_else(|| format!("`replaces`: there is no memory {id} of this chat"))?;
            may_replace(&old, &self.people)?;
        }
        Ok(())
    }

    /// What the model is told of a memory that is saved.
    pub(crate) async fn told(&self, draft: &DraftMemory) -> String {
        let question = format!("{} {}", draft.subject.as_deref().unwrap_or_default(), draft.text);
        let id = mint_id(&Fingerprint::of(&self.handle.id.agent(), &self.scope, &draft.text));
        // Some of those that are found are not near it.
        let found = self.found(&question, 4 * NEAR_TOLD).await;
        saved_text(&near(draft, &id, &found), &self.now())
    }

    /// What a run is told of memories that these entries may be about, within so many tokens.
    pub(crate) async fn known(&self, entries: &[Arc<Entry>], most: u64) -> Option<String> {
        let question = question_of(entries);
        let found = self.found(&question, KNOWN_TOLD).await;
        known_text(&found, &self.now(), most)
    }

    fn now(&self) -> ZonedDateTime {
        self.ports.now().to_zoned_datetime(reminder::zone(&self.handle.settings().timezone))
    }

    /// Memories of the chat for a question, best first; none, where they cannot be read in time.
    async fn found(&self, question: &str, limit: usize) -> Vec<Memory> {
        let reach = [Reach::Scope(self.scope.clone())];
        let found = self.ports.store.recall(&self.handle.id.agent(), &reach, question, limit);
        let why = match tokio::time::timeout(NEAR_LIMIT, found).await {
            Ok(Ok(found)) => return found.memories,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the store did not answer within {} s", NEAR_LIMIT.as_secs()),
        };
        tracing::debug!(channel = %self.handle.id, why, "memories near a new one cannot be read");
        Vec::new()
    }
}
