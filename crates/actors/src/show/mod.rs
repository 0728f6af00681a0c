//! What a chat sees of a turn before its answer: the typing indicator, and drafts.

mod draft;

use std::sync::Arc;
use std::time::Duration;

use cairn_core::conversation::OpenTurn;
use cairn_types::event::Event;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::handle::ChannelHandle;
use crate::messages::TurnLink;
use crate::ports::Ports;
use crate::tasks::{Ended, Tasks};
use crate::typing::Typing;
use draft::Drafter;

/// Longest wait of a turn for the fate of its draft, unless the platform guards against duplicates for longer.
const FINISH_LIMIT: Duration = Duration::from_secs(15);

/// Longest wait of the channel's actor for the fate of a draft.
const CUT_LIMIT: Duration = Duration::from_secs(2);

/// How a drafter is stopped.
#[derive(Clone, Default)]
struct DraftStop {
    soon: CancellationToken,
    /// The channel's actor waits, so nothing can be journalled.
    now: CancellationToken,
}

struct Drafting {
    stop: DraftStop,
    ended: oneshot::Receiver<Vec<Event>>,
    _cancel: DropGuard,
}

/// Typing and drafts of one turn. Dropping it ends both.
pub(crate) struct Show {
    typing: Arc<Typing>,
    draft: Mutex<Option<Drafting>>,
    /// Longest wait of the turn for the fate of its draft.
    finish_limit: Duration,
}

impl Show {
    /// Shows typing from now on, and drafts if the platform supports them. `typing`: what is shown since before the turn.
    /// `None`: the channel is not on a chat network.
    pub(crate) fn begin(
        ports: &Arc<Ports>,
        tasks: &Tasks,
        handle: &Arc<ChannelHandle>,
        turn: &TurnLink,
        open: &OpenTurn,
        token: CancellationToken,
        typing: Option<Typing>,
    ) -> Option<Self> {
        let platform = ports.platform(&handle.id)?;
        // While the platform guards against duplicates, the fate of a draft can still be learnt.
        let guarded = platform.traits().repeat_within.and_then(|within| Duration::try_from(within).ok());
        let finish_limit = guarded.unwrap_or_default().max(FINISH_LIMIT);
        let typing = typing.unwrap_or_else(|| Typing::begin(tasks, Arc::clone(&platform), handle.id.clone()));
        let drafter = Drafter::new(ports, handle, turn, open, platform);
        let draft = drafter.map(|drafter| {
            let stop = DraftStop::default();
            let (told, ended) = oneshot::channel();
            let work = drafter.run(stop.clone());
            let cancel = token.clone().drop_guard();
            let channel = handle.id.clone();
            tasks.watch(token, work, move |ended| match ended {
                Ended::Done(events) => drop(told.send(events)),
                Ended::Panicked(_) => {
                    tracing::error!(%channel, "showing a draft panicked; please report it");
                }
                Ended::Cancelled => {}
            });
            Drafting { stop, ended, _cancel: cancel }
        });
        Some(Self { typing: Arc::new(typing), draft: Mutex::new(draft), finish_limit })
    }

    /// The typing indicator.
    pub(crate) fn typing(&self) -> Arc<Typing> {
        Arc::clone(&self.typing)
    }

    /// Stops drafts; no edit follows. Returns draft events that are not journalled yet.
    pub(crate) async fn finish(&self) -> Vec<Event> {
        let Some(drafting) = self.draft.lock().take() else { return Vec::new() };
        drafting.stop.soon.cancel();
        drafting.end(self.finish_limit).await
    }

    /// Stops drafts and typing. It is for the channel's actor, which can journal nothing meanwhile, so it waits only
    /// briefly for the fate of a draft. Returns draft events that are not journalled yet.
    pub(crate) async fn cut_short(&self) -> Vec<Event> {
        let drafting = self.draft.lock().take();
        let drafted = async {
            let Some(drafting) = drafting else { return Vec::new() };
            drafting.stop.soon.cancel();
            drafting.stop.now.cancel();
            drafting.end(CUT_LIMIT).await
        };
        tokio::join!(drafted, self.typing.end()).0
    }
}

impl Drafting {
    async fn end(self, limit: Duration) -> Vec<Event> {
        match tokio::time::timeout(limit, self.ended).await {
            Ok(events) => events.unwrap_or_default(),
            Err(_) => {
                tracing::warn!("the platform is slow to show a draft; the answer no longer waits for it");
                Vec::new()
            }
        }
    }
}
