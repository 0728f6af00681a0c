//! What the bot says outside of a conversation: a pairing code, a limit, a command's answer, how a question was answered.
//! Best effort.

use std::time::Duration;

use cairn_types::ids::MessageId;
use cairn_types::ports::{Platform as _, SendError};
use tokio::time::Instant;

use teloxide::types::MessageEntity;

use super::Telegram;
use super::handler::InboundHandler;
use super::send::ChatTopic;

/// A question whose buttons go away.
pub(super) struct Closing {
    pub(super) place: ChatTopic,
    pub(super) message: i64,
    /// What it says then; none: what it said.
    pub(super) words: Option<(String, Vec<MessageEntity>)>,
}

/// Most that are on their way, or wait for their turn.
pub(super) const NOTICES_MAX: usize = 64;

/// Longest that a notice is tried: after that nobody waits for it any more.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The pause after a failure for which Telegram names no time.
const PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Notice {
    pub(super) place: ChatTopic,
    pub(super) reply_to: Option<MessageId>,
    pub(super) words: String,
    /// What is said instead when Telegram refuses it.
    pub(super) otherwise: Option<Box<Notice>>,
}

impl InboundHandler {
    /// Has something said. With too much waiting it is left out, and the log tells.
    pub(super) fn say(&self, notice: Notice) {
        let (telegram, chat) = (self.telegram.clone(), notice.place.0);
        self.do_aside(chat, async move { telegram.say(notice).await });
    }

    /// Has the buttons of a question go away, in the same way.
    pub(super) fn close(&self, closing: Closing) {
        let (telegram, chat) = (self.telegram.clone(), closing.place.0);
        self.do_aside(chat, async move { telegram.close_question(closing).await });
    }

    fn do_aside(&self, chat: i64, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(permit) = self.notices.clone().try_acquire_owned() else {
            metrics::counter!("cairn_notices_total", "platform" => self.path.platform(), "outcome" => "dropped")
                .increment(1);
            tracing::warn!(chat, "too many notices wait for telegram; one was left out");
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
                    "the buttons of a question could not be taken away"
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
                    tracing::warn!(chat, error = error.code(), "a notice was not said");
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
        for part in self.split(&notice.words) {
            patiently(began, || self.write(notice.place, &part, reply_to, None)).await?;
            reply_to = None;
        }
        Ok(())
    }
}

/// Tries again what Telegram puts off, until nobody waits for it any more.
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
