//! Supervises the adapters: each runs on its own, restarts after a failure, and does not affect the others.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::ports::{Adapter, AdapterFailure, AdapterPorts, LinkState, PlatformStatus};
use cairn_types::wire::backoff::{jittered, pause_after};
use futures::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use cairn_config::NetworkKind;

/// Pause after the first failure; doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause after a temporary failure.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Pause after the first failure that an operator must fix. It is short, since what looks so may be over in seconds.
const LASTING_PAUSE_MIN: Duration = Duration::from_secs(5);

/// Longest pause after failures that an operator must fix.
const LASTING_PAUSE_MAX: Duration = Duration::from_secs(900);

/// A run of this length resets the pauses.
const LONG_RUN: Duration = Duration::from_secs(300);

/// Longest time for an adapter to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

pub struct Adapters {
    adapters: Arc<[Arc<dyn Adapter>]>,
    stop: CancellationToken,
    supervisors: Vec<(&'static str, JoinHandle<()>)>,
}

impl Adapters {
    /// Starts each adapter under its own supervisor.
    pub fn start(adapters: Arc<[Arc<dyn Adapter>]>, ports: &AdapterPorts) -> Self {
        let stop = CancellationToken::new();
        let supervisors = adapters
            .iter()
            .map(|adapter| {
                let work = supervise(Arc::clone(adapter), ports.clone(), stop.clone());
                // Names the bot in log lines, where a network may have several.
                let named = NetworkKind::of_platform(adapter.name())
                    .is_some_and(|kind| kind.name() != adapter.name());
                let span = match named {
                    true => tracing::error_span!("bot", adapter = adapter.name()),
                    false => Span::none(),
                };
                (adapter.name(), tokio::spawn(work.instrument(span)))
            })
            .collect();
        Self { adapters, stop, supervisors }
    }

    pub fn all(&self) -> Arc<[Arc<dyn Adapter>]> {
        Arc::clone(&self.adapters)
    }

    /// Stops receiving; sending still works. Messages that were not acknowledged arrive again after the next start.
    pub async fn stop(self) {
        self.stop.cancel();
        for (platform, supervisor) in self.supervisors {
            match tokio::time::timeout(STOP_LIMIT, supervisor).await {
                Ok(Ok(())) => {}
                Ok(Err(_panic)) => tracing::error!(platform, "an adapter's supervisor panicked"),
                Err(_elapsed) => tracing::warn!(platform, "an adapter is slow to stop"),
            }
        }
        for adapter in self.adapters.iter() {
            adapter.set_state(LinkState::Stopped, None);
        }
    }
}

pub fn statuses(adapters: &[Arc<dyn Adapter>]) -> Vec<PlatformStatus> {
    adapters.iter().map(|adapter| adapter.status()).collect()
}

async fn supervise(adapter: Arc<dyn Adapter>, ports: AdapterPorts, stop: CancellationToken) {
    let platform = adapter.name();
    let mut n_failures = 0;
    loop {
        adapter.set_state(LinkState::Connecting, None);
        let began = Instant::now();
        let run = AssertUnwindSafe(Arc::clone(&adapter).run(ports.clone())).catch_unwind();
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = run => ended,
        };
        let failure = ended.unwrap_or_else(|_panic| panicked());
        n_failures = if began.elapsed() >= LONG_RUN { 1 } else { n_failures + 1 };
        let pause = jittered(pause_of(n_failures, failure.lasting), fastrand::f64());
        let state = if failure.lasting { LinkState::Failed } else { LinkState::Reconnecting };
        let lasting = if failure.lasting { "yes" } else { "no" };
        metrics::counter!("cairn_adapter_failures_total", "platform" => platform, "lasting" => lasting)
            .increment(1);
        let retry_secs = pause.as_secs_f32();
        let AdapterFailure { reason, hint, .. } = &failure;
        if failure.lasting {
            tracing::error!(platform, %reason, %hint, retry_secs, "the adapter cannot run");
        } else {
            tracing::warn!(platform, %reason, %hint, retry_secs, "the adapter failed; it restarts");
        }
        // After the log: who sees the state finds its reason there.
        adapter.set_state(state, Some(&failure));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The failure for a panic, whose message is logged by the panic hook.
fn panicked() -> AdapterFailure {
    AdapterFailure {
        reason: "the adapter panicked".to_owned(),
        hint: "this is a bug in cairn; the log says where".to_owned(),
        lasting: false,
    }
}

/// The pause after `n_failures` in a row, without jitter.
fn pause_of(n_failures: u32, lasting: bool) -> Duration {
    let (first, longest) =
        if lasting { (LASTING_PAUSE_MIN, LASTING_PAUSE_MAX) } else { (PAUSE_MIN, PAUSE_MAX) };
    pause_after(n_failures, first, longest)
}

#[cfg(test)]
mod tests;
