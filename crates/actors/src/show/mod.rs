//! What a chat sees of a turn before its answer is there: that the bot is typing, and drafts of the answer.

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

/// Longest that a turn waits for the fate of its draft, where the platform does not guard against doubles for longer.
const FINISH_LIMIT: Duration = Duration::from_secs(15);

/// Longest that the channel's actor waits for it.
const CUT_LIMIT: Duration = Duration::from_secs(2);

/// How a drafter is told to come to its end.
#[derive(Clone, Default)]
struct DraftStop {
    soon: CancellationToken,
    /// The channel's actor waits: nothing can be journalled any more.
    now: CancellationToken,
}

struct Drafting {
    stop: DraftStop,
    ended: oneshot::Receiver<Vec<Event>>,
    _cancel: DropGuard,
}

/// What a chat sees of one turn. When it is dropped, all of it ends.
pub(crate) struct Show {
    typing: Arc<Typing>,
    draft: Mutex<Option<Drafting>>,
    /// Longest that the turn waits for the fate of its draft.
    finish_limit: Duration,
}

impl Show {
    /// Shows typing from now on, and drafts where the platform shows them. `None`: the channel is no chat.
    pub(crate) fn begin(
        ports: &Arc<Ports>,
        tasks: &Tasks,
        handle: &Arc<ChannelHandle>,
        turn: &TurnLink,
        open: &OpenTurn,
        token: CancellationToken,
    ) -> Option<Self> {
        let platform = ports.platform(&handle.id)?;
        // While a repeated send makes no double, the fate of a draft can still be learnt.
        let guarded = platform.traits().repeat_within.and_then(|within| Duration::try_from(within).ok());
        let finish_limit = guarded.unwrap_or_default().max(FINISH_LIMIT);
        let typing = Typing::begin(tasks, Arc::clone(&platform), handle.id.clone());
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
                    tracing::error!(%channel, "the task of a draft panicked; please report it");
                }
                Ended::Cancelled => {}
            });
            Drafting { stop, ended, _cancel: cancel }
        });
        Some(Self { typing: Arc::new(typing), draft: Mutex::new(draft), finish_limit })
    }

    /// What shows that the bot is typing.
    pub(crate) fn typing(&self) -> Arc<Typing> {
        Arc::clone(&self.typing)
    }

    /// No more drafts: no edit follows this. What came of the draft and is not journalled yet.
    pub(crate) async fn finish(&self) -> Vec<Event> {
        let Some(drafting) = self.draft.lock().take() else { return Vec::new() };
        drafting.stop.soon.cancel();
        drafting.end(self.finish_limit).await
    }

    /// As [`Show::finish`], for the channel's actor, which can journal nothing meanwhile; ends typing, too.
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
                tracing::warn!("the platform is slow over a draft; nobody waits for it any longer");
                Vec::new()
            }
        }
    }
}
