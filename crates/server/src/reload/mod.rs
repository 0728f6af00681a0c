//! Reloads: the configuration is read again and applied without a restart, completely or not at all.

mod diff;
mod merge;
mod source;
#[cfg(test)]
mod tests;
pub mod watch;

use cairn_api::records::{KeyChange, Reloaded};
use std::sync::Arc;

use cairn_actors::Runtime;
use cairn_llm::BadModel;
use cairn_types::ports::StoreError;
use sd_notify::NotifyState;
use tokio::sync::Semaphore;

use crate::parts::agents::AgentRegistry;
use crate::parts::networks::Chats;
use crate::parts::people::DaemonPairings;
use crate::parts::{networks, systemd};
use cairn_config::{ConfigError, Live};

pub use diff::changes;
pub use merge::merged;
pub use source::Source;

pub type SetLevel = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Model(#[from] BadModel),
    #[error("cannot set the log level: {0}")]
    Level(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the daemon is stopping")]
    Stopping,
}

impl ReloadError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config(_) | Self::Level(_) => "bad_config",
            Self::Model(_) => "bad_model",
            Self::Store(_) => "store",
            Self::Stopping => "stopping",
        }
    }
}

/// The source of a reload, and the parts that it updates.
pub struct ReloadDeps {
    pub source: Source,
    pub agent_registry: Arc<AgentRegistry>,
    pub runtime: Runtime,
    pub chats: Chats,
    pub pairings: Arc<DaemonPairings>,
}

pub struct Reloader {
    deps: ReloadDeps,
    turn: Semaphore,
}

impl Reloader {
    pub fn new(deps: ReloadDeps) -> Self {
        Self { deps, turn: Semaphore::new(1) }
    }

    /// The current configuration.
    pub fn live(&self) -> &Live {
        &self.deps.source.live
    }

    /// Reads the configuration again and applies what needs no restart. Tells systemd at the start and the end. `by`:
    /// the requester, for the log.
    ///
    /// # Errors
    /// The configuration is invalid, or the journal cannot be written; nothing has changed.
    pub async fn reload(&self, by: &'static str) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.acquire().await.map_err(|_| ReloadError::Stopping)?;
        systemd::tell_reloading();
        let result = self.carry_out().await;
        systemd::tell(&[NotifyState::Ready]);
        tell(&result, by);
        result
    }

    async fn carry_out(&self) -> Result<Reloaded, ReloadError> {
        let deps = &self.deps;
        let (live, set_level) = (&deps.source.live, &deps.source.set_level);
        let old = live.now();
        let (merged, mut reloaded) = deps.source.read(&old).await?;
        // Steps that can fail come first.
        deps.agent_registry.runtimes_of(&merged).await?;
        set_level(&merged.config.log.level).map_err(ReloadError::Level)?;
        if let Err(error) = networks::note_access(&deps.chats, &merged.config, &deps.pairings).await {
            set_level(&old.config.log.level).map_err(ReloadError::Level)?;
            return Err(error.into());
        }
        let config = &merged.config;
        live.set(Arc::clone(&merged));
        deps.agent_registry.tools().add_servers(&merged, deps.pairings.pins());
        reloaded.warnings.extend(deps.agent_registry.tools().unmatched(&merged.config));
        deps.agent_registry.deploy(&deps.runtime).await?;
        deps.runtime.set_limits(config.limits.runtime(), config.limits.talk(), config.prices());
        networks::tell(&deps.chats, config);
        Ok(reloaded)
    }
}

/// Records the outcome in the log and the metrics.
fn tell(result: &Result<Reloaded, ReloadError>, by: &'static str) {
    let outcome = match result {
        Ok(reloaded) => {
            report(reloaded, by);
            "done"
        }
        Err(error) => {
            tracing::error!(by, code = error.code(), "the reload failed, nothing was changed:\n{error}");
            error.code()
        }
    };
    metrics::counter!("cairn_reloads_total", "outcome" => outcome).increment(1);
}

/// Logs the changed keys without their values.
fn report(reloaded: &Reloaded, by: &'static str) {
    let keys =
        |changes: &[KeyChange]| changes.iter().map(|change| &*change.key).collect::<Vec<_>>().join(", ");
    match &*reloaded.changed {
        [] => tracing::info!(by, "reloaded: no changes"),
        changed => tracing::info!(by, changed = keys(changed), "reloaded"),
    }
    if !reloaded.needs_restart.is_empty() {
        tracing::warn!(keys = keys(&reloaded.needs_restart), "these changes need a restart");
    }
    for warning in &reloaded.warnings {
        tracing::warn!("{warning}");
    }
}
