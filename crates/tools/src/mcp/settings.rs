//! What a server is run and reached with, resolved from the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cairn_types::tool::mcp::ServerSource;
use secrecy::SecretString;

/// How a server is reached, with its secrets.
#[derive(Debug, Clone)]
pub enum Reach {
    /// A child process that speaks over its standard input and output.
    Stdio {
        /// The program: a path, or a name that is looked for in the daemon's `PATH`.
        command: String,
        args: Vec<String>,
        /// All its variables: it gets no others.
        env: BTreeMap<String, SecretString>,
        /// Its working folder; made when it is not there.
        cwd: PathBuf,
        /// The folder is one that the configuration names.
        own_cwd: bool,
        /// Most memory for its data, in MiB; 0: no limit.
        memory_mib: u64,
        /// Most files that it may have open; 0: no limit.
        open_files: u64,
    },
    /// A server that listens elsewhere: streamable HTTP.
    Http { url: String, headers: BTreeMap<String, SecretString> },
}

/// A server of the configuration.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub id: String,
    pub reach: Reach,
    /// The values that are secrets: they are struck out of what it says.
    pub secrets: Vec<SecretString>,
    /// Longest that a start may take: until it has listed its tools.
    pub start_timeout: Duration,
    pub call_timeout: Duration,
    /// Largest message that is read from it, in bytes: one that sends more is let go.
    pub message_bytes_max: usize,
    /// Pause before it is started again after a failure; doubles with each further one.
    pub restart_base: Duration,
    pub restart_max: Duration,
}

impl ServerSettings {
    /// How the server is reached, without secrets, as it is pinned.
    pub fn source(&self) -> ServerSource {
        match &self.reach {
            Reach::Stdio { command, args, env, cwd, own_cwd, .. } => ServerSource::Stdio {
                command: command.clone(),
                args: args.clone(),
                env: env.keys().cloned().collect(),
                cwd: own_cwd.then(|| cwd.display().to_string()),
            },
            Reach::Http { url, headers } => {
                ServerSource::Http { url: url.clone(), headers: headers.keys().cloned().collect() }
            }
        }
    }
}
