//! Messages of the turn that are larger than what the window takes: kept whole as artifacts, sent as head and tail, and told
//! to whoever wrote them.

use std::sync::Arc;

use cairn_core::artifact::{Artifact, next_id};
use cairn_core::conversation::Conversation;
use cairn_core::ids::Seq;
use cairn_core::message::{Entry, Role};
use cairn_core::notice;
use cairn_core::ports::TurnFailure;
use cairn_core::prune::{TooLarge, shorten, too_large};

use super::Turn;
use crate::tools::{Content, keep};

impl Turn {
    /// Has messages that are too large sent shorter from here on, and the chat told so. It comes before anything leaves the
    /// window: no other message has to make room for what would not fit in any case.
    pub(super) async fn shorten_messages(&self) -> Result<(), TurnFailure> {
        let handle = &self.args.handle;
        let large = handle.read(|conversation| too_large(conversation, &self.settings));
        if !large.is_empty() {
            let mut messages = Vec::with_capacity(large.len());
            for message in large {
                let n_kept = messages.iter().filter(|(_, artifact)| Option::is_some(artifact)).count();
                let artifact = match message.artifact {
                    Some(_) => None,
                    None => self.keep_message(&message, n_kept).await,
                };
                messages.push((message, artifact));
            }
            let events = shorten(&handle.snapshot(), &self.settings, messages);
            if !events.is_empty() {
                self.step(events).await?;
            }
        }
        self.tell_long().await
    }

    /// Stores the whole of a message. `None`: it could not be, and the model cannot read on in it; the journal has it.
    async fn keep_message(&self, message: &TooLarge, n_kept: usize) -> Option<Artifact> {
        let (shared, handle) = (&self.args.shared, &self.args.handle);
        let id = handle.read(|conversation| next_id(conversation, n_kept));
        let words = message.words();
        match keep(shared, handle, id, Content::Message(message.entry.seq), &words).await {
            Ok(artifact) => Some(artifact),
            Err(error) => {
                tracing::error!(channel = %handle.id, seq = %message.entry.seq, bytes = words.len(), %error,
                    "a message that is larger than the window takes could not be kept as an artifact; the history has it, \
                     and the model cannot read on in it");
                None
            }
        }
    }

    /// Notes that a request was cut to fit, although all that can leave the window has left it.
    pub(super) async fn tell_cut(&mut self, shortened: &[Seq]) -> Result<(), TurnFailure> {
        if shortened.is_empty() {
            return Ok(());
        }
        let (channel, entries) = (&self.args.handle.id, shortened.len());
        tracing::warn!(%channel, model = self.settings.model, entries,
            "the window has no room for all of this turn: some of it was cut from the request, and is kept");
        let is_message = |conversation: &Conversation| {
            let of_turn = |entry: &&Arc<Entry>| shortened.contains(&entry.seq) && entry.role == Role::User;
            let open = conversation.open_turn.as_ref().map(|open| &open.id);
            conversation.live.iter().filter(of_turn).any(|entry| Some(&entry.turn) == open)
        };
        self.cut |= self.args.handle.read(is_message);
        self.tell_long().await
    }

    /// The chat is told, once, that the model sees only part of a message.
    async fn tell_long(&self) -> Result<(), TurnFailure> {
        let note = self
            .args
            .handle
            .read(|conversation| notice::note_of_long_messages(conversation, &self.settings, self.cut));
        match note {
            Some(note) => self.step(vec![note]).await,
            None => Ok(()),
        }
    }
}
