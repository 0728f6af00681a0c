//! Snapshots: a conversation without its texts, so that the store keeps those only once.

use std::collections::HashMap;
use std::sync::Arc;

use super::Conversation;
use cairn_types::ids::{MessageId, Seq};
use cairn_types::message::{Entry, Pending, Provenance};

impl Conversation {
    /// A copy without the text of live entries and pending messages, as the store keeps it.
    pub fn to_snapshot(&self) -> Self {
        let mut snapshot = self.clone();
        for entry in &mut snapshot.live {
            *entry = Arc::new(skeleton(entry));
        }
        for pending in snapshot.pending.iter_mut().filter(|pending| !pending.is_deleted()) {
            pending.parts.clear();
        }
        snapshot
    }

    /// The entries whose text a snapshot lacks, in order.
    pub fn missing_entries(&self) -> Vec<Seq> {
        self.live.iter().map(|entry| entry.seq).collect()
    }

    /// The pending messages whose text a snapshot lacks.
    pub fn missing_pending(&self) -> Vec<MessageId> {
        self.pending.iter().map(|pending| pending.message.clone()).collect()
    }

    /// Restores the texts as they were said. What had left the window as deleted stays without. False: one is missing, and
    /// the snapshot is useless.
    pub fn fill(&mut self, entries: Vec<Arc<Entry>>, pending: Vec<Pending>) -> bool {
        let mut by_seq: HashMap<Seq, Arc<Entry>> = entries.into_iter().map(|e| (e.seq, e)).collect();
        let open = self.open_turn.as_ref().map(|open| open.id.clone());
        let is_open = |entry: &Entry| open.as_ref() == Some(&entry.turn);
        for slot in &mut self.live {
            match by_seq.remove(&slot.seq) {
                Some(entry) if slot.is_deleted() => *slot = Arc::new(entry.deleted()),
                Some(entry) if is_open(&entry) => *slot = entry,
                Some(entry) => *slot = entry.closed(),
                None => return false,
            }
        }
        let mut by_id: HashMap<MessageId, Pending> =
            pending.into_iter().map(|p| (p.message.clone(), p)).collect();
        for slot in self.pending.iter_mut().filter(|slot| !slot.is_deleted()) {
            match by_id.remove(&slot.message) {
                Some(pending) => *slot = pending,
                None => return false,
            }
        }
        // Snapshots of earlier versions have them until the next compaction.
        self.hide_deleted();
        true
    }
}

fn skeleton(entry: &Entry) -> Entry {
    Entry {
        seq: entry.seq,
        turn: entry.turn.clone(),
        generation: entry.generation,
        at: entry.at,
        role: entry.role,
        author: None,
        message: None,
        parts: if entry.is_deleted() { entry.parts.clone() } else { Vec::new() },
        reasoning: None,
        provider_state: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        files: Vec::new(),
        provenance: Provenance::default(),
        spoken: entry.spoken,
        quotes: entry.quotes,
        finish: entry.finish,
        tokens: entry.tokens,
    }
}
