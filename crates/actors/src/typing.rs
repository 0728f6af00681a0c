//! The typing indicator: a task beside a turn and the delivery of its reply.
//!
//! Ending it waits for the request under way, so that none arrives after the last message.

use std::sync::Arc;
use std::time::Duration;

use cairn_types::ids::ChannelId;
use cairn_types::ports::Platform;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::tasks::Tasks;

/// Longest that one request may take, and thus that ending it may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

/// Longest that typing is shown after the turn: the delivery may have to wait for hours.
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

/// The typing indicator of a turn. Dropping it ends the task.
pub(crate) struct Typing {
    wanted: watch::Sender<Wanted>,
    /// Held during a request.
    busy: Arc<Mutex<()>>,
}

impl Typing {
    /// Shows it immediately, then as often as the platform requires.
    pub(crate) fn begin(tasks: &Tasks, platform: Arc<dyn Platform>, channel: ChannelId) -> Self {
        let (wanted, changes) = watch::channel(Wanted { mode: Mode::On, until: None });
        let busy = Arc::new(Mutex::new(()));
        tasks.spawn("show typing", show(platform, channel, changes, Arc::clone(&busy)));
        Self { wanted, busy }
    }

    /// Shows it again immediately, since sending a message has cleared it.
    pub(crate) fn again(&self) {
        self.wanted.send_modify(|_| {});
    }

    /// Starts the countdown: the turn has ended, and its reply is on its way.
    pub(crate) fn turn_ended(&self) {
        self.wanted.send_if_modified(|wanted| {
            wanted.until = Some(Instant::now() + AFTER_TURN);
            false
        });
    }

    /// Hides it until [`Typing::resume`]. Returns when no request is under way.
    pub(crate) async fn pause(&self) {
        self.set(Mode::Off);
        self.at_rest().await;
    }

    pub(crate) fn resume(&self) {
        self.set(Mode::On);
    }

    /// Ends it for good. Returns when no request is under way.
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
            // Pausing and ending set the mode before they wait for this lock.
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
