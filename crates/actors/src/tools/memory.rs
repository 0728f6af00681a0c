//! `memory_save` and `memory_search`.

use cairn_core::compaction::parse_memory;
use cairn_core::ids::Seq;
use cairn_core::memory::{MemorySave, Scope, Source, credit};
use cairn_core::ports::MemoryFilter;
use cairn_core::provenance::Provenance;
use cairn_core::window::{memory_words, short_time};
use serde_json::Value;

use super::call::Found;
use super::{HITS_MAX, Toolbox, text_argument};

impl Toolbox {
    pub(super) fn memory_save(
        &self,
        arguments: &Value,
        model: &str,
        ordinal: usize,
    ) -> Result<MemorySave, String> {
        let mut draft = parse_memory(arguments)?;
        self.handle.read(|conversation| {
            let live: Vec<_> = conversation.live.iter().cloned().collect();
            credit(std::slice::from_mut(&mut draft), &live);
            let open = conversation.open_turn.as_ref().ok_or("the turn has ended")?;
            let last = Seq(conversation.next_seq.0 - 1);
            Ok(MemorySave {
                agent: self.handle.id.agent(),
                scope: Scope::learnt_in(&self.handle.id, conversation.direct_with.as_deref()),
                kind: draft.kind,
                text: draft.text,
                subject: draft.subject,
                importance: draft.importance,
                source: Source {
                    channel: Some(self.handle.id.clone()),
                    from_seq: Some(open.first_seq),
                    to_seq: Some(last),
                    summary: None,
                    model: model.to_owned(),
                    by: draft.by,
                },
                // The number of the entry that calls, and the place of the call in it.
                sighting: format!("{}/{last}/{ordinal}", self.handle.id),
                explicit: false,
            })
        })
    }

    pub(super) async fn memory_search(&self, arguments: &Value) -> Result<Found, String> {
        let query = text_argument(arguments, "query")?;
        let filter = MemoryFilter { query: Some(query), limit: HITS_MAX, ..MemoryFilter::default() };
        let agent = &self.handle.id.agent();
        let found = self.shared.deps.store.memories(agent, &self.reach, filter).await;
        let found = found.map_err(|error| error.to_string())?;
        let mut provenance = Provenance::default();
        self.handle.read(|conversation| {
            found.iter().for_each(|memory| provenance.join(&Provenance::of_memory(memory, conversation)));
        });
        let lines: Vec<String> = found
            .iter()
            .map(|memory| {
                let (kind, at) = (memory.kind.name(), short_time(memory.created_at));
                format!("[{kind} | {at}] {}", memory_words(memory))
            })
            .collect();
        if lines.is_empty() {
            return Ok(Found::own("nothing is remembered about that".to_owned()));
        }
        Ok(Found { text: lines.join("\n"), provenance, events: Vec::new() })
    }
}
