//! The configuration read again, by a daemon that runs and by a node that stands by.

use std::path::PathBuf;
use std::sync::Arc;

use sd_notify::NotifyState;

use crate::parts::{models, systemd};
use crate::reload::{ReloadError, SetLevel, changes, merged, tell};
use cairn_api::records::Reloaded;
use cairn_config::{Config, Environment, Live, Loaded};

/// Where the configuration is read from again, and what takes it.
#[derive(Clone)]
pub struct Source {
    /// The configuration that holds.
    pub live: Live,
    /// The file that `--config` names.
    pub flag: Option<PathBuf>,
    /// Where the file is looked for else, and secrets are.
    pub env: Arc<dyn Environment>,
    pub set_level: SetLevel,
}

impl Source {
    /// What would hold instead of `old`, and what that changes.
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

    /// A file that was there at the start must still be: without it the built-in defaults would hold.
    async fn load(&self, old: &Loaded) -> Result<Loaded, ReloadError> {
        let flag = self.flag.clone().or_else(|| old.file.clone());
        let env = Arc::clone(&self.env);
        let load = move || Config::load(flag.as_deref(), env.as_ref());
        let read = tokio::task::spawn_blocking(load).await;
        Ok(read.map_err(|_| ReloadError::Stopping)??)
    }

    /// Reads it for the daemon that starts next in this process. None runs, which would have to be told. `by`: who asked,
    /// for the log.
    ///
    /// # Errors
    /// The configuration cannot be used: what held before still does.
    pub async fn renew(&self, by: &'static str) -> Result<Reloaded, ReloadError> {
        let result = self.carry_out().await;
        tell(&result, by);
        result
    }

    /// Reads it on a node that stands by. systemd is told when it begins and ends.
    ///
    /// # Errors
    /// As [`Self::renew`].
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
