//! The pulse: whether every actor still takes messages. What feeds a watchdog.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::outbox::OutboxMsg;
use crate::router::RouterMsg;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::supervisor::SupervisorMsg;

/// Names of silent actors that are told one by one.
const NAMED_MAX: usize = 5;

/// What the root supervisor has heard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Liveness {
    /// Actors that answered, or are down and known to be: whoever supervises them starts them again.
    pub heard: usize,
    /// Actors that took no message within the time, by name: they are wedged, or the machine is.
    pub silent: Vec<String>,
}

impl Liveness {
    pub fn is_whole(&self) -> bool {
        self.silent.is_empty()
    }

    /// The silent ones in words, the first few of them.
    pub fn told(&self) -> String {
        let named = self.silent.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
        match self.silent.len().saturating_sub(NAMED_MAX) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

impl Runtime {
    /// Has the root supervisor ask every actor for a sign of life. Those that give none within `outage_wait` are named.
    pub async fn liveness(&self, outage_wait: Duration) -> Liveness {
        let by = Instant::now() + outage_wait;
        let (reply, answer) = oneshot::channel();
        let nobody = || Liveness { heard: 0, silent: vec!["supervisor".to_owned()] };
        if self.supervisor().send_message(SupervisorMsg::Liveness { by, reply }).is_err() {
            return nobody();
        }
        // A little more than the actors get, so that what was heard of them is heard here.
        match timeout_at(by + outage_wait / 4, answer).await {
            Ok(Ok(liveness)) => liveness,
            Ok(Err(_)) | Err(_) => nobody(),
        }
    }
}

/// Asks everybody. A dropped question is an actor that has just ended: its supervisor knows.
pub(crate) async fn listen(shared: Arc<Shared>, by: Instant) -> Liveness {
    let mut asked = Vec::new();
    let mut ask = |name: String, send: &dyn Fn(oneshot::Sender<()>)| {
        let (reply, answer) = oneshot::channel();
        send(reply);
        asked.push((name, answer));
    };
    ask("router".to_owned(), &|reply| {
        let _down = shared.tell_router(RouterMsg::Ping { reply });
    });
    ask("outbox".to_owned(), &|reply| shared.tell_outbox(OutboxMsg::Ping { reply }));
    let handles: Vec<_> = shared.handles.read().values().cloned().collect();
    for handle in handles {
        ask(format!("channel {}", handle.id), &|reply| handle.ping_channel(reply));
        ask(format!("compactor of {}", handle.id), &|reply| handle.ping_compactor(reply));
    }
    let answers = asked
        .into_iter()
        .map(|(name, answer)| async move { timeout_at(by, answer).await.is_err().then_some(name) });
    let silent: Vec<_> = join_all(answers).await;
    let n_asked = silent.len();
    let silent: Vec<_> = silent.into_iter().flatten().collect();
    Liveness { heard: n_asked - silent.len(), silent }
}
