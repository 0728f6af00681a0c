//! Showing that the bot is typing: a task of its own beside a turn and the delivery of its reply.
//!
//! Ending it waits for the request that is on its way, so that none arrives after the last message.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::ChannelId;
use cairn_types::ports::Platform;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::tasks::Tasks;

/// Longest that one request may take, and so that anybody waits for one.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

/// After the end of its turn typing is shown for no longer than this: the delivery may have to wait for hours.
const AFTER_TURN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    On,
    Off,
    Over,
}

#[derive(Debug, Clone, Copy)]
struct Wanted {
    mode: Mode,
    until: Option<Instant>,
}

/// Typing is shown while this is there.
pub(crate) struct Typing {
    wanted: watch::Sender<Wanted>,
    /// Held while a request is on its way.
    busy: Arc<Mutex<()>>,
}

impl Typing {
    /// Shows it at once, and again as often as the platform needs it.
    pub(crate) fn begin(tasks: &Tasks, platform: Arc<dyn Platform>, channel: ChannelId) -> Self {
        let (wanted, changes) = watch::channel(Wanted { mode: Mode::On, until: None });
        let busy = Arc::new(Mutex::new(()));
        tasks.spawn("show typing", show(platform, channel, changes, Arc::clone(&busy)));
        Self { wanted, busy }
    }

    /// Shows it at once again: a message that was sent has put it out.
    pub(crate) fn again(&self) {
        self.wanted.send_modify(|_| {});
    }

    /// The turn has ended, its reply is on its way.
    pub(crate) fn turn_ended(&self) {
        self.wanted.send_if_modified(|wanted| {
            wanted.until = Some(Instant::now() + AFTER_TURN);
            false
        });
    }

    /// Shows it no more until [`Typing::resume`]. Returns when no request is on its way.
    pub(crate) async fn pause(&self) {
        self.set(Mode::Off);
        self.at_rest().await;
    }

    pub(crate) fn resume(&self) {
        self.set(Mode::On);
    }

    /// Never shows it again. Returns when no request is on its way.
    pub(crate) async fn end(&self) {
        self.set(Mode::Over);
        self.at_rest().await;
    }

    fn set(&self, mode: Mode) {
        self.wanted.send_if_modified(|wanted| std::mem::replace(&mut wanted.mode, mode) != mode);
    }

    async fn at_rest(&self) {
        if tokio::time::timeout(REQUEST_LIMIT, self.busy.lock()).await.is_err() {
            tracing::debug!("typing is still being shown; nobody waits for that");
        }
    }
}

async fn show(
    platform: Arc<dyn Platform>,
    channel: ChannelId,
    mut changes: watch::Receiver<Wanted>,
    busy: Arc<Mutex<()>>,
) {
    let every = platform.traits().typing_every;
    loop {
        let over = |wanted: &Wanted| {
            wanted.mode == Mode::Over || wanted.until.is_some_and(|until| until <= Instant::now())
        };
        match changes.wait_for(|wanted| wanted.mode != Mode::Off).await {
            Ok(wanted) if over(&wanted) => return,
            Ok(_) => {}
            Err(_) => return,
        }
        {
            let _busy = busy.lock().await;
            // Who pauses or ends it says so before waiting for this lock.
            if changes.borrow_and_update().mode != Mode::On {
                continue;
            }
            match tokio::time::timeout(REQUEST_LIMIT, platform.typing(channel.clone())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%channel, %error, "typing is not shown"),
                Err(_) => tracing::debug!(%channel, "typing is not shown in time"),
            }
        }
        tokio::select! {
            biased;
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(every) => {}
        }
    }
}
