//! Supervision: what fails is started again, and touches nobody else.

use std::collections::VecDeque;

use cairn_testkit::runtime::Runtime;
use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::ports::{Platform, PlatformTraits, SendError, SendPart};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::*;

/// How a run of a scripted adapter ends.
enum Script {
    Fails,
    FailsForLong,
    Panics,
}

/// An adapter whose runs end as scripted; when the script is over it runs on.
struct Scripted {
    name: &'static str,
    script: Mutex<VecDeque<Script>>,
    states: Mutex<Vec<(LinkState, Option<String>)>>,
    /// Told of every run that begins, with the time since the first.
    runs: mpsc::Sender<Duration>,
    began: Instant,
}

fn scripted(name: &'static str, script: Vec<Script>) -> (Arc<Scripted>, mpsc::Receiver<Duration>) {
    let (runs, begun) = mpsc::channel(64);
    let (script, states) = (Mutex::new(script.into()), Mutex::default());
    (Arc::new(Scripted { name, script, states, runs, began: Instant::now() }), begun)
}

fn failure(lasting: bool) -> AdapterFailure {
    AdapterFailure { reason: "refused".to_owned(), hint: "look".to_owned(), lasting }
}

impl Platform for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn traits(&self) -> PlatformTraits {
        PlatformTraits {
            typing_every: Duration::from_secs(1),
            repeat_within: None,
            draft_every: None,
            marks: false,
        }
    }

    fn split(&self, words: &str) -> Vec<String> {
        vec![words.to_owned()]
    }

    fn send(&self, _part: SendPart) -> BoxFuture<'_, Result<MessageId, SendError>> {
        Box::pin(std::future::ready(Ok(MessageId::from("1"))))
    }

    fn edit(&self, _: ChannelId, _: MessageId, _: String) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn typing(&self, _: ChannelId) -> BoxFuture<'_, Result<(), SendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn status(&self) -> PlatformStatus {
        PlatformStatus {
            platform: self.name.to_owned(),
            state: self.states.lock().last().map_or(LinkState::Connecting, |(state, _)| *state),
            name: None,
            reason: None,
            hint: None,
            connected_since: None,
            last_inbound: None,
            last_outbound: None,
            latency_ms: None,
            queue: 0,
            shards: None,
            troubles: Vec::new(),
            caught_up: None,
            invalid_requests: None,
        }
    }
}

impl Adapter for Scripted {
    fn run(self: Arc<Self>, _ports: AdapterPorts) -> BoxFuture<'static, AdapterFailure> {
        Box::pin(async move {
            self.runs.send(self.began.elapsed()).await.unwrap();
            let next = self.script.lock().pop_front();
            match next {
                Some(Script::Fails) => failure(false),
                Some(Script::FailsForLong) => failure(true),
                Some(Script::Panics) => panic!("a fault"),
                None => std::future::pending().await,
            }
        })
    }

    fn set_state(&self, state: LinkState, failure: Option<&AdapterFailure>) {
        self.states.lock().push((state, failure.map(|failure| failure.reason.clone())));
    }
}

fn start(adapters: Vec<Arc<dyn Adapter>>) -> Adapters {
    Adapters::start(adapters.into(), &Runtime::new().ports())
}

#[tokio::test(start_paused = true)]
async fn what_fails_or_panics_is_started_again_and_the_other_goes_on() {
    let (broken, mut broken_runs) = scripted("discord", vec![Script::Fails, Script::Panics]);
    let (fine, mut fine_runs) = scripted("telegram", Vec::new());
    let adapters = start(vec![broken.clone(), fine.clone()]);
    for _ in 0..3 {
        broken_runs.recv().await.unwrap();
    }
    fine_runs.recv().await.unwrap();
    let reasons: Vec<_> = broken.states.lock().iter().filter_map(|(_, reason)| reason.clone()).collect();
    assert_eq!(reasons, ["refused", "the adapter panicked"]);
    assert_eq!(*fine.states.lock(), [(LinkState::Connecting, None)]);
    assert!(fine_runs.try_recv().is_err(), "started again although it had not failed");
    adapters.stop().await;
    assert_eq!(broken.status().state, LinkState::Stopped);
    assert_eq!(fine.status().state, LinkState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_lasts_is_shown_as_such_and_tried_again() {
    let (broken, mut runs) = scripted("telegram", vec![Script::FailsForLong]);
    let adapters = start(vec![broken.clone()]);
    runs.recv().await.unwrap();
    let again = runs.recv().await.unwrap();
    assert!(again >= LASTING_PAUSE_MIN / 2, "{again:?}");
    assert!(broken.states.lock().contains(&(LinkState::Failed, Some("refused".to_owned()))));
    adapters.stop().await;
}

#[test]
fn pauses_grow_up_to_a_bound_and_are_longer_where_somebody_must_mend_it() {
    assert_eq!([1, 2, 3, 7, 100].map(|n| pause_of(n, false).as_secs()), [1, 2, 4, 60, 60]);
    assert_eq!([1, 2, 6, 9].map(|n| pause_of(n, true).as_secs()), [5, 10, 160, 900]);
}
