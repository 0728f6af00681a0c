//! Why a command failed: what is printed, and the exit code.

use std::path::Path;

use axum::http::StatusCode;
use cairn_api::error::{ApiError, ErrorDetail};
use cairn_types::ports::StoreError;

use crate::owner;
use cairn_config::{ConfigError, Problem};

/// Exit codes; a promise to scripts.
pub mod exit {
    pub const DONE: u8 = 0;
    pub const FAILED: u8 = 1;
    /// Wrong usage or configuration.
    pub const USAGE: u8 = 2;
    /// Another daemon uses the state.
    pub const IN_USE: u8 = 3;
    /// No such channel, memory, range, code, person, delivery, artifact, server, tool or request.
    pub const NOT_FOUND: u8 = 4;
    /// The store is damaged.
    pub const DAMAGED: u8 = 5;
    /// A part of the daemon hung, mostly because the disk does not answer: start it again.
    pub const HUNG: u8 = 6;
}

/// Where packages and `install.sh` put the reference configuration.
const REFERENCES: [&str; 2] = ["/usr/share/doc/cairn/config.toml", "/usr/local/share/cairn/config.toml"];

/// What to do about a damaged copy of a journal in a database.
pub const MENDING_COPY: &str =
    "start the daemon, or restart it: it copies the journal from the database again";

/// What the system says where a user has no right.
const DENIED: &str = "Permission denied";

#[derive(Debug)]
pub enum Failure {
    Said {
        code: u8,
        message: String,
        hint: String,
    },
    /// Everything has been printed already; only the exit code is left.
    Silent(u8),
    /// The reader of the output closed its end.
    OutputClosed,
}

impl Failure {
    /// A failure with an exit code of its own.
    pub fn new(code: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Said { code, message: message.into(), hint: hint.into() }
    }

    /// Exit code 1.
    pub fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(exit::FAILED, message, hint)
    }

    /// Exit code 2.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(exit::USAGE, message, hint)
    }

    /// An error answer of the API.
    pub fn of_api(status: StatusCode, detail: ErrorDetail) -> Self {
        let code = match (status, detail.code.as_str()) {
            (_, "damaged") => exit::DAMAGED,
            (_, "in_use") => exit::IN_USE,
            (StatusCode::NOT_FOUND, _) => exit::NOT_FOUND,
            (StatusCode::BAD_REQUEST, _) => exit::USAGE,
            _ => exit::FAILED,
        };
        Self::Said { code, message: detail.message, hint: detail.hint }
    }

    /// The state belongs to another user, and no daemon runs that could be asked.
    pub fn of_another_owner(owner: &str, message: String) -> Self {
        let hint = format!(
            "run the command as that user: {}; or join the daemon's group and ask it while it runs",
            owner::sudo(owner, "…")
        );
        Self::failed(message, hint)
    }

    /// A store that this command opens itself.
    pub fn of_store(error: StoreError) -> Self {
        if let StoreError::Io { path, message, .. } = &error
            && message.contains(DENIED)
            && let Some(owner) = owner::other_owner(Path::new(path))
        {
            let message = format!("you may not read the state; it belongs to the user {owner} ({error})");
            return Self::of_another_owner(&owner, message);
        }
        let (code, hint) = match &error {
            // A command that has ended does not go on by itself, as a daemon does that runs.
            StoreError::DiskFull { path } => {
                let message = format!("the disk that holds {path} is full");
                return Self::failed(message, "free some disk space and try again; nothing is lost");
            }
            StoreError::InUse { .. } => {
                (exit::IN_USE, "stop it, or use another state folder with --state or $CAIRN_STATE")
            }
            StoreError::Damaged { .. } => (
                exit::DAMAGED,
                "`cairn store verify` shows the damage; --quarantine removes damaged data and continues; `cairn store restore` restores a backup",
            ),
            StoreError::View { .. } => (
                exit::DAMAGED,
                "`cairn store rebuild` rebuilds the databases from the journal, which is intact",
            ),
            StoreError::Io { action, .. } if action.starts_with("start ") => (
                exit::FAILED,
                "allow more memory and more tasks (MemoryMax= and TasksMax= of the unit, ulimit -v and -u)",
            ),
            StoreError::Io { .. } => {
                (exit::FAILED, "check the state folder and its permissions, or use another one with --state")
            }
            StoreError::Newer { .. } => {
                (exit::FAILED, "use that version of cairn or a later one, or restore an older backup")
            }
            StoreError::Database { message } => (exit::FAILED, hint_of_database(message)),
            StoreError::Led { .. } => {
                (exit::IN_USE, "ask that node, or stop it so that a standby takes over")
            }
            StoreError::Fenced => (exit::FAILED, "try again: the new leader will do it"),
            StoreError::Elsewhere { .. } => {
                (exit::FAILED, "check [store] url in the configuration, or use another folder with --state")
            }
            StoreError::Closed | StoreError::Stopped => (exit::FAILED, "try again"),
        };
        Self::new(code, error.to_string(), hint)
    }
}

/// By the code that PostgreSQL gave, which ends its message.
fn hint_of_database(message: &str) -> &'static str {
    let is_of = |codes: &[&str]| codes.iter().any(|code| message.contains(code));
    if is_of(&["(28P01)", "(28000)", "password missing"]) {
        return "check the user in [store] url, and the password in `password_env` or `password_file` there";
    }
    if is_of(&["(42501)"]) {
        return "make the account in [store] url the owner of the database and its tables: ALTER DATABASE … OWNER TO …";
    }
    "check that the database runs, and [store] url in the configuration"
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::of_api(error.status, error.detail)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::failed(format!("cannot write the output: {error}"), "check where stdout goes")
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        // A problem outside of a file comes with its own remedy.
        if let [Problem { message, place: None, hint: Some(hint) }] = error.problems.as_slice() {
            return Self::usage(message, hint);
        }
        let found = REFERENCES.into_iter().find(|file| Path::new(file).is_file());
        let reference = found.unwrap_or("`cairn config schema`");
        Self::usage(error.to_string(), format!("{reference} explains every key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_of_what_the_database_refused() {
        let hint =
            |message: &str| match Failure::of_store(StoreError::Database { message: message.to_owned() }) {
                Failure::Said { hint, .. } => hint,
                Failure::Silent(_) | Failure::OutputClosed => String::new(),
            };
        let password = "cannot connect to it: password authentication failed for user \"cairn\" (28P01)";
        assert!(hint(password).contains("`password_file`"));
        assert!(
            hint("cannot set up its tables: permission denied for schema public (42501)").contains("own")
        );
        assert!(hint("cannot connect to it: connection refused").contains("database runs"));
    }
}
