//! Marks: the bot's reactions to people's messages, which say that one was seen, is worked on, or failed.
//!
//! They are cosmetic. A task beside the channel shows them, one request at a time, and nothing waits for it. It knows the
//! newest mark of each message that waits and leaves out those in between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::ports::{Mark, Platform, SendError};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::tasks::Tasks;

/// Changes that may wait for the task; further ones are dropped.
const QUEUE: usize = 64;

/// Longest that one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Least time between two requests.
const GAP: Duration = Duration::from_millis(500);

/// Pause after a rate limit that names no time, and the longest one.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Attempts to replace a mark or to take it away; the first mark of a message is tried once.
const TRIES: u32 = 3;

/// How long a chat that refused a mark gets none.
const REFUSED_FOR: Duration = Duration::from_secs(600);

struct Change {
    message: MessageId,
    from: Option<Mark>,
    to: Option<Mark>,
    tries: u32,
}

/// Shows marks in a chat. Dropping it ends the task once what waits is shown.
pub(crate) struct Marker(mpsc::Sender<Change>);

impl Marker {
    pub(crate) fn begin(tasks: &Tasks, platform: Arc<dyn Platform>, channel: ChannelId) -> Self {
        let (changes, waiting) = mpsc::channel(QUEUE);
        tasks.spawn("show marks", show(platform, channel, waiting));
        Self(changes)
    }

    /// Shows `to` in the place of `from`, later.
    pub(crate) fn set(&self, message: MessageId, from: Option<Mark>, to: Option<Mark>) {
        let change = Change { message, from, to, tries: 0 };
        if let Err(error) = self.0.try_send(change) {
            tracing::debug!(%error, "a mark is not shown: too many wait");
        }
    }
}

async fn show(platform: Arc<dyn Platform>, channel: ChannelId, mut changes: mpsc::Receiver<Change>) {
    let mut waiting = VecDeque::new();
    let mut refused: Option<Instant> = None;
    loop {
        if waiting.is_empty() {
            let Some(change) = changes.recv().await else { return };
            note(&mut waiting, change);
        }
        while waiting.len() < QUEUE
            && let Ok(change) = changes.try_recv()
        {
            note(&mut waiting, change);
        }
        let Some(change) = waiting.pop_front() else { continue };
        if change.from == change.to || refused.is_some_and(|at| at.elapsed() < REFUSED_FOR) {
            continue;
        }
        let request = platform.mark(channel.clone(), change.message.clone(), change.from, change.to);
        let result = tokio::time::timeout(REQUEST_LIMIT, request).await;
        let error = match result.unwrap_or_else(|_| Err(SendError::Unknown("no answer in time".to_owned()))) {
            Ok(()) => {
                tokio::time::sleep(GAP).await;
                continue;
            }
            Err(error) => error,
        };
        metrics::counter!("cairn_marks_failed_total", "platform" => platform.name()).increment(1);
        tracing::debug!(%channel, ?error, "a mark is not shown");
        match error {
            SendError::Refused(_) => {
                tracing::warn!(%channel,
                    "the network refused the bot's reaction in a chat; none are sent there for ten minutes; the \
                     bot may need the permission to add reactions");
                refused = Some(Instant::now());
            }
            SendError::Later { after, .. } => {
                try_again(&mut waiting, change);
                tokio::time::sleep(after.unwrap_or(PAUSE).min(PAUSE_MAX)).await;
            }
            SendError::Unknown(_) => {
                try_again(&mut waiting, change);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What was shown before would stay for good.
fn try_again(waiting: &mut VecDeque<Change>, change: Change) {
    if change.from.is_some() && change.tries + 1 < TRIES {
        waiting.push_front(Change { tries: change.tries + 1, ..change });
    }
}

/// Adds a change, or joins it with one of the same message that waits.
fn note(waiting: &mut VecDeque<Change>, change: Change) {
    match waiting.iter_mut().find(|known| known.message == change.message) {
        Some(known) => known.to = change.to,
        None => waiting.push_back(change),
    }
}
