//! The environment that the configuration reads, as a port: the only place where process environment is read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variables and the working directory.
pub trait Environment: Send + Sync {
    /// A variable's value; `None` when it is unset or empty.
    fn var(&self, name: &str) -> Option<OsString>;

    /// The working directory, absolute. `None` when there is none (it was deleted).
    fn current_dir(&self) -> Option<PathBuf>;

    /// The first folder of a variable that may hold several, separated by colons, as systemd sets them. `None` if it is not
    /// absolute.
    fn first_dir(&self, name: &str) -> Option<PathBuf> {
        let value = self.var(name)?;
        std::env::split_paths(&value).next().filter(|path| path.is_absolute())
    }
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).filter(|value| !value.is_empty())
    }

    fn current_dir(&self) -> Option<PathBuf> {
        std::env::current_dir().ok()
    }
}

/// A fixed environment, for a test or for a daemon inside another process.
#[derive(Debug, Clone, Default)]
pub struct FixedEnvironment {
    vars: BTreeMap<String, OsString>,
    current_dir: PathBuf,
}

impl FixedEnvironment {
    /// An environment without variables.
    pub fn new(current_dir: impl Into<PathBuf>) -> Self {
        Self { vars: BTreeMap::new(), current_dir: current_dir.into() }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.vars.insert(name.to_owned(), value.into());
        self
    }
}

impl Environment for FixedEnvironment {
    fn var(&self, name: &str) -> Option<OsString> {
        self.vars.get(name).filter(|value| !value.is_empty()).cloned()
    }

    fn current_dir(&self) -> Option<PathBuf> {
        Some(self.current_dir.clone())
    }
}
