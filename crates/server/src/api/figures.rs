//! `GET /metrics`: counters that are recorded all the time, and values that are read for the answer.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use cairn_actors::Runtime;
use cairn_api::error::ApiError;
use cairn_core::chain::ModelState;
use cairn_store::Totals;
use cairn_types::ports::{LinkState, StoreError};

use crate::api::shared::{Admin, Shared};
use crate::metrics::installed;
use crate::parts::adapters::statuses;

const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Longest wait for the store during a scrape.
const STORE_LIMIT: Duration = Duration::from_secs(5);

const LINK_STATES: [LinkState; 5] = [
    LinkState::Connecting,
    LinkState::Connected,
    LinkState::Reconnecting,
    LinkState::Failed,
    LinkState::Stopped,
];

/// All states of a model, with their metric labels.
const MODELS: [(ModelState, &str); 5] = [
    (ModelState::Answers, "answers"),
    (ModelState::Ready, "ready"),
    (ModelState::Cooling, "cooling"),
    (ModelState::PassedOver, "passed_over"),
    (ModelState::Down, "down"),
];

/// `GET /metrics`.
pub(super) async fn metrics(State(admin): State<Shared>) -> Result<Response, ApiError> {
    let (Some(meters), Some(runtime)) = (installed(), &admin.runtime) else {
        return Err(ApiError::not_found(
            "no_metrics",
            "this daemon keeps no metrics",
            "`cairn run` keeps them; a daemon inside a command does not",
        ));
    };
    zeros(&admin);
    now(&admin, runtime).await;
    let stored = tokio::time::timeout(STORE_LIMIT, stored(&admin)).await;
    metrics::gauge!("cairn_scrape_ok").set(truth(matches!(stored, Ok(Ok(())))));
    models(&admin, runtime).await;
    Ok(([(CONTENT_TYPE, FORMAT)], meters.render()).into_response())
}

fn truth(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

const TURNS: [&str; 5] = ["answered", "unanswered", "failed", "stopped", "dead_lettered"];

/// Initialises counters used by alerts to 0, so that their first increment is visible.
fn zeros(admin: &Admin) {
    for agent in &admin.agent_registry.loaded().config.agents {
        let agent = agent.id.to_string();
        for outcome in TURNS {
            metrics::counter!("cairn_turns_total", "agent" => agent.clone(), "outcome" => outcome)
                .increment(0);
        }
        metrics::counter!("cairn_emergencies_total", "agent" => agent).increment(0);
    }
    metrics::counter!("cairn_journal_failures_total").increment(0);
    metrics::counter!("cairn_digests_total").increment(0);
    for actor in ["router", "outbox", "channel", "compactor"] {
        metrics::counter!("cairn_actor_restarts_total", "actor" => actor).increment(0);
    }
}

/// Sets the values that need no query of the store's contents.
async fn now(admin: &Admin, runtime: &Runtime) {
    let health = runtime.health();
    metrics::gauge!("cairn_channels_awake").set(health.awake as f64);
    metrics::gauge!("cairn_turns_open").set(health.turns as f64);
    metrics::gauge!("cairn_runs_open").set(health.runs as f64);
    metrics::gauge!("cairn_pending_messages").set(health.pending as f64);
    metrics::gauge!("cairn_spent_today").set(runtime.spent_today());
    metrics::gauge!("cairn_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    metrics::gauge!("process_start_time_seconds")
        .set(admin.identity.started_at.as_millisecond() as f64 / 1e3);
    for status in statuses(&admin.adapters) {
        for state in LINK_STATES {
            metrics::gauge!("cairn_adapter_state", "platform" => status.platform.clone(), "state" => state.name())
                .set(truth(status.state == state));
        }
    }
    let stats = admin.store.stats().await;
    let is_well = stats.as_ref().is_ok_and(|stats| stats.trouble.is_none());
    metrics::gauge!("cairn_ready").set(truth(runtime.is_ready() && is_well));
    if let Ok(stats) = stats {
        metrics::gauge!("cairn_journal_bytes").set(stats.journal_bytes as f64);
        metrics::gauge!("cairn_views_bytes").set(stats.views_bytes as f64);
        metrics::gauge!("cairn_journal_segments").set(stats.segments as f64);
        metrics::gauge!("cairn_journal_records").set(stats.last_n as f64);
        metrics::gauge!("cairn_store_damage").set(stats.damage.len() as f64);
        metrics::gauge!("cairn_views_lag_records").set(stats.last_n.saturating_sub(stats.applied_n) as f64);
    }
    if let Ok(disk) = rustix::fs::statvfs(&admin.identity.state_dir) {
        metrics::gauge!("cairn_disk_free_bytes").set(disk.f_bavail as f64 * disk.f_frsize as f64);
        metrics::gauge!("cairn_disk_size_bytes").set(disk.f_blocks as f64 * disk.f_frsize as f64);
    }
}

async fn stored(admin: &Admin) -> Result<(), StoreError> {
    let Totals { channels, outbox, .. } = admin.store.totals().await?;
    for (state, n) in [("owed", outbox.owed), ("dead", outbox.dead), ("unknown", outbox.unknown)] {
        metrics::gauge!("cairn_outbox_deliveries", "state" => state).set(n as f64);
    }
    let oldest =
        admin.store.oldest_owed().await?.map(|at| admin.clock.now().duration_since(at).as_secs_f64());
    metrics::gauge!("cairn_outbox_oldest_seconds").set(oldest.unwrap_or_default().max(0.0));
    metrics::gauge!("cairn_channels").set(channels as f64);
    for agent in &admin.agent_registry.loaded().config.agents {
        let n = admin.store.memory_count(&agent.id).await?;
        metrics::gauge!("cairn_memories", "agent" => agent.id.to_string()).set(n as f64);
    }
    Ok(())
}

async fn models(admin: &Admin, runtime: &Runtime) {
    let Ok(agents) = admin.runtimes().await else { return };
    for agent in agents {
        let id = agent.id.to_string();
        let chain = runtime.models(&agent);
        let n_well = chain.iter().filter(|model| model.is_well).count();
        metrics::gauge!("cairn_agent_models_well", "agent" => id.clone()).set(n_well as f64);
        for model in chain {
            for (state, label) in MODELS {
                let labels =
                    [("agent", id.clone()), ("model", model.model.clone()), ("state", label.to_owned())];
                metrics::gauge!("cairn_model_state", &labels).set(truth(model.state == state));
            }
        }
    }
}
