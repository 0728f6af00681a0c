//! A reload: the configuration is read again, and what can change while everything runs is changed, all of it or nothing.

mod diff;
mod merge;
#[cfg(test)]
mod tests;
pub mod watch;

use std::path::PathBuf;
use std::sync::Arc;

use cairn_actors::Runtime;
use cairn_core::ports::StoreError;
use cairn_llm::BadModel;
use sd_notify::NotifyState;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::agent_registry::AgentRegistry;
use crate::config::{Config, ConfigError, Environment, Live, Loaded};
use crate::networks::{self, Chats};
use crate::pairing_store::DaemonPairings;
use crate::systemd;

pub use diff::{Change, changes};
pub use merge::merged;

pub type SetLevel = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reloaded {
    pub changed: Vec<Change>,
    /// What the file says and only a restart brings about.
    pub needs_restart: Vec<Change>,
    /// What works but is probably not meant.
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration is wrong.
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

/// What a reload reads from, and what it tells.
pub struct ReloadDeps {
    /// The configuration that holds.
    pub live: Live,
    pub agent_registry: Arc<AgentRegistry>,
    pub runtime: Runtime,
    pub chats: Chats,
    pub pairings: Arc<DaemonPairings>,
    /// The file that `--config` names.
    pub flag: Option<PathBuf>,
    /// Where the file is looked for else, and secrets are.
    pub env: Arc<dyn Environment>,
    pub set_level: SetLevel,
}

pub struct Reloader {
    deps: ReloadDeps,
    turn: Semaphore,
}

impl Reloader {
    pub fn new(deps: ReloadDeps) -> Self {
        Self { deps, turn: Semaphore::new(1) }
    }

    /// The configuration that holds.
    pub fn live(&self) -> &Live {
        &self.deps.live
    }

    /// Reads the configuration again and lets it hold, as far as that goes without a restart. `by`: who asked, for the
    /// log. systemd is told when it begins and ends.
    ///
    /// # Errors
    /// The configuration cannot be used: everything is as it was.
    pub async fn reload(&self, by: &'static str) -> Result<Reloaded, ReloadError> {
        let _turn = self.turn.acquire().await.map_err(|_| ReloadError::Stopping)?;
        systemd::tell_reloading();
        let result = self.carry_out().await;
        systemd::tell(&[NotifyState::Ready]);
        let outcome = match &result {
            Ok(reloaded) => {
                report(reloaded, by);
                "done"
            }
            Err(error) => {
                tracing::error!(by, code = error.code(), "nothing was reloaded, all is as it was:\n{error}");
                error.code()
            }
        };
        metrics::counter!("cairn_reloads_total", "outcome" => outcome).increment(1);
        result
    }

    async fn carry_out(&self) -> Result<Reloaded, ReloadError> {
        let deps = &self.deps;
        let old = deps.live.now();
        let new = self.read(&old).await?;
        new.check_tokens()?;
        new.database()?;
        let mut reloaded = Reloaded { warnings: new.warnings.clone(), ..Reloaded::default() };
        let merged = Arc::new(merged(&old, new.clone()));
        reloaded.warnings.extend(deps.agent_registry.tools().unmatched(&merged.config));
        reloaded.changed = changes(&old, &merged);
        reloaded.needs_restart = changes(&merged, &new);
        // What can fail comes first.
        deps.agent_registry.runtimes_of(&merged).await?;
        (deps.set_level)(&merged.config.log.level).map_err(ReloadError::Level)?;
        if let Err(error) = networks::note_access(&deps.chats, &merged.config, &deps.pairings).await {
            (deps.set_level)(&old.config.log.level).map_err(ReloadError::Level)?;
            return Err(error.into());
        }
        let config = &merged.config;
        deps.live.set(Arc::clone(&merged));
        deps.agent_registry.deploy(&deps.runtime).await?;
        deps.runtime.set_limits(config.limits.runtime(), config.limits.talk(), config.prices());
        networks::tell(&deps.chats, config);
        Ok(reloaded)
    }

    /// A file that was there at the start must still be: without it the built-in defaults would hold.
    async fn read(&self, old: &Loaded) -> Result<Loaded, ReloadError> {
        let flag = self.deps.flag.clone().or_else(|| old.file.clone());
        let env = Arc::clone(&self.deps.env);
        let load = move || Config::load(flag.as_deref(), env.as_ref());
        let read = tokio::task::spawn_blocking(load).await;
        Ok(read.map_err(|_| ReloadError::Stopping)??)
    }
}

/// Keys go to the log, not their values.
fn report(reloaded: &Reloaded, by: &'static str) {
    let keys = |changes: &[Change]| changes.iter().map(|change| &*change.key).collect::<Vec<_>>().join(", ");
    match &*reloaded.changed {
        [] => tracing::info!(by, "reloaded: nothing is different"),
        changed => tracing::info!(by, changed = keys(changed), "reloaded"),
    }
    if !reloaded.needs_restart.is_empty() {
        tracing::warn!(keys = keys(&reloaded.needs_restart), "what only a restart changes is as it was");
    }
    for warning in &reloaded.warnings {
        tracing::warn!("{warning}");
    }
}
