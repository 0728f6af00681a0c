//! Answers by voice: the recording of an answer to a voice message follows its text. It is made once the text is journalled, in
//! a task of its own, and goes out through the outbox. Where it fails, the chat has the text.

use std::sync::Arc;

use cairn_core::conversation::{Conversation, OpenTurn};
use cairn_types::event::{ArtifactEvent, DeliveryEvent, Event};
use cairn_types::ids::{ArtifactId, LOCAL_PLATFORM, MessageId, OutboxId, Seq, TurnId};
use cairn_types::message::Artifact;
use cairn_types::ports::{NoSpeech, Speaker, StoreError};
use cairn_types::tool::OutputFile;

use super::state::{ChannelState, Failed};
use crate::failure::RuntimeError;
use crate::handle::ChannelHandle;
use crate::messages::{Create, Request};
use crate::shared::Shared;
use crate::tools::files::{self, Unsendable};

const NAME: &str = "answer.ogg";

const MEDIA_TYPE: &str = "audio/ogg";

/// An answer that is to be spoken.
#[derive(Debug, Clone)]
pub(crate) struct VoiceAnswer {
    pub(crate) turn: TurnId,
    /// Its entry.
    pub(crate) seq: Seq,
    /// Its text, in Markdown.
    pub(crate) words: String,
    pub(crate) reply_to: Option<MessageId>,
}

/// Whether the message that the turn answers was spoken.
pub(super) fn was_spoken(conversation: &Conversation, open: &OpenTurn) -> bool {
    let of_turn = conversation.live.iter().rev().take_while(|entry| entry.turn == open.id);
    let mut asked = of_turn.filter(|entry| entry.message.is_some() && entry.message == open.reply_to);
    asked.any(|entry| entry.parts.iter().any(|part| part.is_spoken()))
}

/// Why an answer is not spoken.
#[derive(Debug, thiserror::Error)]
enum Unspoken {
    #[error(transparent)]
    NoSpeech(#[from] NoSpeech),
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
    #[error("the recording cannot be kept: {0}")]
    Store(#[from] StoreError),
    #[error("the recording cannot be journalled: {0}")]
    Runtime(#[from] RuntimeError),
}

impl Unspoken {
    fn outcome(&self) -> &'static str {
        match self {
            Self::NoSpeech(why) => why.outcome(),
            Self::Unsendable(_) => "too_large",
            Self::Store(_) | Self::Runtime(_) => "not_kept",
        }
    }
}

impl ChannelState {
    /// Has the recording of an answer made and sent, if few others are being made.
    pub(super) fn speak(&self, answer: VoiceAnswer) {
        let Some(speaker) = self.shared.ports.speaker.clone() else { return };
        let Ok(permit) = Arc::clone(&self.shared.ports.speeches).try_acquire_owned() else {
            tracing::warn!(channel = %self.handle.id, "an answer is not spoken: too many others are being spoken now");
            return count("busy");
        };
        let (shared, handle) = (self.shared.clone(), Arc::clone(&self.handle));
        self.shared.lifecycle.tasks.spawn("speak an answer", async move {
            let _permit = permit;
            match spoken(&shared, &handle, &*speaker, answer).await {
                Ok(true) => count("spoken"),
                // It was taken back meanwhile.
                Ok(false) => count("withdrawn"),
                // Code alone: no failure.
                Err(Unspoken::NoSpeech(NoSpeech::Nothing)) => count("nothing"),
                Err(why) => {
                    tracing::warn!(channel = %handle.id, %why, "an answer could not be spoken; its text was sent");
                    count(why.outcome());
                }
            }
        });
    }

    /// Journals the recording of an answer with its delivery. False: the answer is not in the conversation any more.
    pub(super) async fn add_recording(
        &mut self,
        turn: &TurnId,
        seq: Seq,
        events: Vec<Event>,
    ) -> Result<bool, Failed<RuntimeError>> {
        let is_there = self.handle.read(|conversation| is_there(conversation, turn, seq));
        if is_there {
            self.commit(events).await?;
        }
        Ok(is_there)
    }
}

/// Whether an answer is in the window.
fn is_there(conversation: &Conversation, turn: &TurnId, seq: Seq) -> bool {
    conversation.live.iter().rev().any(|entry| entry.seq == seq && entry.turn == *turn)
}

fn count(outcome: &'static str) {
    metrics::counter!("cairn_spoken_answers_total", "outcome" => outcome).increment(1);
}

async fn spoken(
    shared: &Shared,
    handle: &ChannelHandle,
    speaker: &dyn Speaker,
    answer: VoiceAnswer,
) -> Result<bool, Unspoken> {
    let VoiceAnswer { turn, seq, words, reply_to } = answer;
    // Where no recording can be sent, none is made.
    if handle.id.platform() == LOCAL_PLATFORM {
        return Err(Unsendable::NoFiles.into());
    }
    files::check(&shared.ports, &handle.id, 0)?;
    let data = speaker.speak(words).await?;
    files::check(&shared.ports, &handle.id, data.len() as u64)?;
    if !handle.read(|conversation| is_there(conversation, &turn, seq)) {
        return Ok(false);
    }
    // Numbered by its answer: the turn under way may be storing artifacts, too.
    let id = ArtifactId::from(format!("v{seq}"));
    let file =
        OutputFile { name: Some(NAME.to_owned()), media_type: MEDIA_TYPE.to_owned(), data, is_sent: true };
    let kept = files::keep(&shared.ports, handle, id, "", file).await?;
    // It goes with the words that it speaks.
    let artifact = Artifact { message: Some(seq), ..kept };
    let sent = files::as_sent(&artifact);
    let delivery = Event::Delivery(DeliveryEvent::Intended {
        id: OutboxId::from(format!("{}:{seq}:voice", handle.id)),
        turn: turn.clone(),
        seq,
        note: Some(String::new()),
        approval: None,
        reply_to,
        edits: None,
        draft: false,
        files: vec![sent],
    });
    let events = vec![Event::Artifact(ArtifactEvent::Stored { artifact }), delivery];
    let ask = |reply| Request::AddRecording { turn: turn.clone(), seq, events: events.clone(), reply };
    Ok(shared.directory.ask(&handle.id, Create::No, ask).await??)
}
