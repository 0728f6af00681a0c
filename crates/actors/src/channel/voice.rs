//! Voice: recordings that people send are kept with their messages, and the recording of an answer to a voice message follows
//! its text. That one is made once the text is journalled, in a task of its own, and goes out through the outbox. Where it
//! fails, the chat has the text.

use std::sync::Arc;
use std::time::Duration;

use cairn_core::artifact::recording_id;
use cairn_core::conversation::{Conversation, OpenTurn};
use cairn_types::event::{ArtifactEvent, DeliveryEvent, Event};
use cairn_types::ids::{ArtifactId, LOCAL_PLATFORM, MessageId, OutboxId, Seq, TurnId};
use cairn_types::message::{Artifact, Inbound};
use cairn_types::ports::{NoSpeech, Refusal, Speaker, StoreError};
use cairn_types::tool::OutputFile;
use tokio::time::timeout;

use super::requests::in_time;
use super::state::{ChannelState, Failed};
use crate::failure::RuntimeError;
use crate::handle::ChannelHandle;
use crate::messages::{Create, Request};
use crate::shared::Shared;
use crate::tools::files::{self, Unsendable};

const NAME: &str = "answer.ogg";

const MEDIA_TYPE: &str = "audio/ogg";

/// Recordings that are found to have their words still, after which one pass ends.
const LOOKED_UP: usize = 64;

/// Longest time to keep a recording, for which its message and the turn under way wait.
const KEEP_LIMIT: Duration = Duration::from_secs(10);

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
    asked.any(|entry| entry.spoken)
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
            tracing::warn!(channel = %self.handle.id,
                "an answer is not spoken: too many other answers are being spoken");
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

    /// Keeps the recordings of a message that is about to be journalled; the events are to be journalled behind it. One that
    /// cannot be kept is left out: the message has its words.
    pub(super) async fn keep_recordings(&mut self, inbound: &Inbound) -> Vec<Event> {
        let mut kept = Vec::new();
        for (n, recording) in inbound.recordings.iter().enumerate() {
            let (id, message) = (recording_id(&inbound.message, n), &inbound.message);
            let keep = files::keep_recording(&self.shared.ports, &self.handle, id, message, recording);
            match timeout(KEEP_LIMIT, keep).await {
                Ok(Ok(artifact)) => kept.push(Event::Artifact(ArtifactEvent::Stored { artifact })),
                Ok(Err(error)) => {
                    tracing::warn!(channel = %self.handle.id, %error, "a recording could not be kept; its message is");
                }
                Err(_) => {
                    metrics::counter!("cairn_artifacts_lost_total").increment(1);
                    tracing::warn!(channel = %self.handle.id, "a recording could not be kept in time; its message is");
                }
            }
        }
        self.has_stored |= !kept.is_empty();
        kept
    }

    /// The recordings of a message that its author deleted expire with it.
    pub(super) async fn withdrawn_recordings(&self, message: &MessageId) -> Result<Option<Event>, Refusal> {
        if !self.handle.read(|conversation| conversation.has_recordings) {
            return Ok(None);
        }
        let kept = in_time(self.shared.ports.store.artifacts(&self.handle.id, false)).await?;
        let ids = kept.into_iter().filter(|artifact| artifact.sent_in.as_ref() == Some(message));
        let ids: Vec<ArtifactId> = ids.map(|artifact| artifact.id).collect();
        let expired = ArtifactEvent::Expired { ids: ids.clone(), lost: false };
        Ok((!ids.is_empty()).then_some(Event::Artifact(expired)))
    }

    /// Recordings whose messages' words retention has taken out, besides those that expire anyway. The oldest are looked up
    /// first, since words expire in that order.
    pub(super) async fn wordless_recordings(&self, kept: &[Artifact], due: &[ArtifactId]) -> Vec<ArtifactId> {
        let stays = |artifact: &&Artifact| artifact.sent_in.is_some() && !due.contains(&artifact.id);
        let mut recordings: Vec<&Artifact> = kept.iter().filter(stays).collect();
        recordings.sort_by_key(|artifact| artifact.stored_at);
        let (mut wordless, mut with_words) = (Vec::new(), 0);
        for artifact in recordings {
            if with_words == LOOKED_UP {
                break;
            }
            let Some(message) = &artifact.sent_in else { continue };
            match in_time(self.shared.ports.store.entries_of(&self.handle.id, message)).await {
                Ok(said) if said.is_empty() || said.iter().any(|entry| !entry.is_expired()) => {
                    with_words += 1
                }
                Ok(_) => wordless.push(artifact.id.clone()),
                Err(error) => {
                    tracing::warn!(channel = %self.handle.id, %error,
                        "cannot look which recordings have lost their words; they stay for now");
                    break;
                }
            }
        }
        wordless
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
