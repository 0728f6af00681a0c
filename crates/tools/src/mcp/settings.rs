//! The settings of a server, resolved from the configuration.

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
        /// The program: a path, or a name that is searched in the daemon's `PATH`.
        command: String,
        args: Vec<String>,
        /// Its complete environment; nothing is inherited.
        env: BTreeMap<String, SecretString>,
        /// Its working folder; created if missing.
        cwd: PathBuf,
        /// Whether the configuration names the folder.
        own_cwd: bool,
        /// Memory limit for its data, in MiB; 0: none.
        memory_mib: u64,
        /// Limit of open files; 0: none.
        open_files: u64,
    },
    /// A remote server: streamable HTTP.
    Http { url: String, headers: BTreeMap<String, SecretString> },
}

/// A configured server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub id: String,
    pub reach: Reach,
    /// Secret values, which are removed from everything that it says.
    pub secrets: Vec<SecretString>,
    /// Longest time for a start, until its tools are listed.
    pub start_timeout: Duration,
    pub call_timeout: Duration,
    /// Largest message that is read, in bytes; a larger one ends the connection.
    pub message_bytes_max: usize,
    /// Whether pictures, sounds and files that it returns are sent to the chat.
    pub sends_files: bool,
    /// Pause before a restart after a failure; doubles with each further failure.
    pub restart_base: Duration,
    pub restart_max: Duration,
}

impl ServerSettings {
    /// How the server is reached, without secrets, for its pin.
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
