//! Texts that the bot sends outside of conversations: pairing codes, limits, command answers, outcomes of questions.
//! Best effort.

use std::time::Duration;

use cairn_types::ids::MessageId;
use cairn_types::ports::SendError;
use tokio::time::Instant;

use teloxide::types::MessageEntity;

use super::Telegram;
use super::handler::InboundHandler;
use super::send::ChatTopic;
use crate::markup::{split_aside, telegram as rendering};

/// A question whose buttons are removed.
pub(super) struct Closing {
    pub(super) place: ChatTopic,
    pub(super) message: i64,
    /// The question's new text; `None` keeps the text.
    pub(super) words: Option<(String, Vec<MessageEntity>)>,
}

/// Most notices in flight or waiting.
pub(super) const NOTICES_MAX: usize = 64;

/// How long sending a notice is retried.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The pause after a failure if Telegram names none.
const PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Notice {
    pub(super) place: ChatTopic,
    pub(super) reply_to: Option<MessageId>,
    pub(super) words: String,
    /// Sent instead if Telegram refuses this notice.
    pub(super) otherwise: Option<Box<Notice>>,
}

impl InboundHandler {
    /// Sends a notice in the background. If too many wait, it is dropped and logged.
    pub(super) fn say(&self, notice: Notice) {
        let (telegram, chat) = (self.telegram.clone(), notice.place.0);
        self.do_aside(chat, async move { telegram.say(notice).await });
    }

    /// Removes a question's buttons in the background, under the limit for notices.
    pub(super) fn close(&self, closing: Closing) {
        let (telegram, chat) = (self.telegram.clone(), closing.place.0);
        self.do_aside(chat, async move { telegram.close_question(closing).await });
    }

    fn do_aside(&self, chat: i64, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(permit) = self.notices.clone().try_acquire_owned() else {
            metrics::counter!("cairn_notices_total", "platform" => self.path.platform(), "outcome" => "dropped")
                .increment(1);
            tracing::warn!(chat, "too many notices wait for Telegram; one was dropped");
            return;
        };
        self.tasks.spawn(async move {
            work.await;
            drop(permit);
        });
    }
}

impl Telegram {
    async fn close_question(&self, closing: Closing) {
        let began = Instant::now();
        let outcome = match patiently(began, || self.close(&closing)).await {
            Ok(()) => "sent",
            Err(error) => {
                let chat = closing.place.0;
                tracing::warn!(
                    chat,
                    error = error.code(),
                    "the buttons of an approval request could not be removed"
                );
                "failed"
            }
        };
        metrics::counter!("cairn_notices_total", "platform" => self.link.platform(), "outcome" => outcome)
            .increment(1);
    }

    async fn say(&self, notice: Notice) {
        let mut next = Some(notice);
        while let Some(notice) = next {
            let chat = notice.place.0;
            let outcome = match self.say_once(&notice).await {
                Ok(()) => "sent",
                Err(error @ SendError::Refused(_)) if notice.otherwise.is_some() => {
                    tracing::debug!(chat, %error, "telegram refused a notice; it is said elsewhere");
                    "refused"
                }
                Err(error) => {
                    tracing::warn!(chat, error = error.code(), "a notice could not be sent");
                    "failed"
                }
            };
            metrics::counter!("cairn_notices_total", "platform" => self.link.platform(), "outcome" => outcome)
                .increment(1);
            next = notice.otherwise.filter(|_| outcome == "refused").map(|otherwise| *otherwise);
        }
    }

    async fn say_once(&self, notice: &Notice) -> Result<(), SendError> {
        let began = Instant::now();
        let mut reply_to = notice.reply_to.as_ref();
        for part in split_aside(&notice.words, rendering::split).await {
            patiently(began, || self.write(notice.place, &part, reply_to, None)).await?;
            reply_to = None;
        }
        Ok(())
    }
}

/// Repeats an attempt that Telegram postpones, for at most [`WAIT_MAX`] after `began`.
async fn patiently<T, F>(began: Instant, attempt: impl Fn() -> F) -> Result<T, SendError>
where
    F: Future<Output = Result<T, SendError>>,
{
    loop {
        match attempt().await {
            Err(SendError::Later { after, reason }) => {
                let wait = after.unwrap_or(PAUSE);
                if began.elapsed() + wait > WAIT_MAX {
                    return Err(SendError::Later { after, reason });
                }
                tokio::time::sleep(wait).await;
            }
            done => return done,
        }
    }
}
