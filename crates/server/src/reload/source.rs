//! Reads the configuration again, for a running daemon and for a standby node.

use std::path::PathBuf;
use std::sync::Arc;

use sd_notify::NotifyState;

use crate::parts::{models, systemd};
use crate::reload::{ReloadError, SetLevel, changes, merged, tell};
use cairn_api::records::Reloaded;
use cairn_config::{Config, Environment, Live, Loaded};

/// Where the configuration is read from, and where it is applied.
#[derive(Clone)]
pub struct Source {
    /// The current configuration.
    pub live: Live,
    /// The file given by `--config`.
    pub flag: Option<PathBuf>,
    /// The environment, for the default path and for secrets.
    pub env: Arc<dyn Environment>,
    pub set_level: SetLevel,
}

impl Source {
    /// Reads the configuration. Returns the merged one, and its differences from `old`.
    pub(super) async fn read(&self, old: &Arc<Loaded>) -> Result<(Arc<Loaded>, Reloaded), ReloadError> {
        let new = self.load(old).await?;
        new.check_tokens()?;
        new.database()?;
        let merged = Arc::new(merged(old, new.clone()));
        let reloaded = Reloaded {
            changed: changes(old, &merged),
            needs_restart: changes(&merged, &new),
            warnings: new.warnings,
        };
        Ok((merged, reloaded))
    }

    /// Reads the file used at the start. If it is gone, that is an error: the defaults must not replace it.
    async fn load(&self, old: &Loaded) -> Result<Loaded, ReloadError> {
        let flag = self.flag.clone().or_else(|| old.file.clone());
        let env = Arc::clone(&self.env);
        let load = move || Config::load(flag.as_deref(), env.as_ref());
        let read = tokio::task::spawn_blocking(load).await;
        Ok(read.map_err(|_| ReloadError::Stopping)??)
    }

    /// Reloads between two daemons of this process, when no running daemon has to be updated. `by`: the requester, for
    /// the log.
    ///
    /// # Errors
    /// The configuration is invalid; the current one is kept.
    pub async fn renew(&self, by: &'static str) -> Result<Reloaded, ReloadError> {
        let result = self.carry_out().await;
        tell(&result, by);
        result
    }

    /// Reloads on a standby node. Tells systemd at the start and the end.
    ///
    /// # Errors
    /// The configuration is invalid; the current one is kept.
    pub async fn renew_standing_by(&self, by: &'static str) -> Result<Reloaded, ReloadError> {
        systemd::tell_reloading();
        let result = self.renew(by).await;
        systemd::tell(&[NotifyState::Ready]);
        result
    }

    async fn carry_out(&self) -> Result<Reloaded, ReloadError> {
        let (merged, reloaded) = self.read(&self.live.now()).await?;
        models::check(&merged)?;
        (self.set_level)(&merged.config.log.level).map_err(ReloadError::Level)?;
        self.live.set(merged);
        Ok(reloaded)
    }
}
