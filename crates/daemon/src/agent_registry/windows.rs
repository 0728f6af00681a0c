//! Windows that could not be asked for: a server that starts with the machine answers later than the daemon.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cairn_actors::Runtime;
use cairn_core::backoff::Backoff;
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::AgentRegistry;

/// The first pause before servers are asked again; it doubles.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest. Where nothing is to be asked, it is looked so often whether a reload has changed that.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The task that asks servers again for the windows of their models: at growing pauses, and whenever a model has answered.
pub struct WindowWatch {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl WindowWatch {
    pub fn start(agent_registry: Arc<AgentRegistry>, runtime: Runtime) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let token = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = watch(&agent_registry, &runtime) => {}
            }
        });
        tasks.close();
        Self { tasks, stop }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

async fn watch(agent_registry: &AgentRegistry, runtime: &Runtime) {
    let mut pauses = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    let mut pause = pauses.next_pause();
    loop {
        // A model may answer often although its server lists nothing.
        tokio::time::sleep(PAUSE_MIN).await;
        tokio::select! {
            () = tokio::time::sleep(pause - PAUSE_MIN) => {}
            () = runtime.model_answered() => {}
        }
        pause = if agent_registry.lacks_windows() { pauses.next_pause() } else { PAUSE_MAX };
        if !agent_registry.lacks_windows() {
            continue;
        }
        let asking = async {
            if agent_registry.ask_again().await
                && let Err(error) = agent_registry.deploy(runtime).await
            {
                tracing::error!(%error, "the windows of models are known and cannot be used");
            }
        };
        if AssertUnwindSafe(asking).catch_unwind().await.is_err() {
            tracing::error!("asking models' servers for their windows panicked; they are asked again");
        }
    }
}
