//! Where the config file, the state folder and the socket are looked for.

use std::path::{Path, PathBuf};

use super::env::Environment;
use super::error::{ConfigError, Problem};

/// Longest path of a unix socket, in bytes (`sockaddr_un` less its final zero).
pub const SOCKET_PATH_MAX: usize = 107;

/// The state folder, and where its name comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    /// The folder, absolute. It need not exist yet.
    pub path: PathBuf,
    pub origin: StateOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateOrigin {
    /// `--state`.
    Flag,
    /// `$CAIRN_STATE`.
    CairnState,
    /// `$STATE_DIRECTORY`, which systemd sets.
    StateDirectory,
    UserData,
}

impl StateOrigin {
    /// Whether a person named it for this very command: a daemon of another state is then ignored.
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::Flag | Self::CairnState)
    }
}

/// The config file to read: `--config`, `$CAIRN_CONFIG`, `$CONFIGURATION_DIRECTORY/config.toml`, `./config.toml`,
/// `$XDG_CONFIG_HOME/cairn/config.toml` (or below `~/.config`). The first two are used even if they do not exist; of the
/// others, the first that exists, even if it is not a file. `None`: built-in defaults.
pub fn config_file(flag: Option<&Path>, env: &dyn Environment) -> Option<PathBuf> {
    let named = flag.map(Path::to_owned).or_else(|| env.var("CAIRN_CONFIG").map(PathBuf::from));
    if let Some(named) = named {
        return Some(absolute(&named, env));
    }
    let candidates = [
        env.first_dir("CONFIGURATION_DIRECTORY").map(|dir| dir.join("config.toml")),
        env.current_dir().map(|dir| dir.join("config.toml")),
        user_dir(env, "XDG_CONFIG_HOME", ".config").map(|dir| dir.join("cairn").join("config.toml")),
    ];
    // A file that cannot even be checked is used: reading it then says why.
    candidates.into_iter().flatten().find(|path| path.try_exists().unwrap_or(true))
}

/// The state folder: `--state`, `$CAIRN_STATE`, `$STATE_DIRECTORY`, `$XDG_DATA_HOME/cairn` (or below
/// `~/.local/share`).
///
/// # Errors
/// None of them is set, nor is `$HOME`.
pub fn state_dir(flag: Option<&Path>, env: &dyn Environment) -> Result<StateDir, ConfigError> {
    let named = |path: PathBuf, origin| StateDir { path: absolute(&path, env), origin };
    if let Some(path) = flag {
        return Ok(named(path.to_owned(), StateOrigin::Flag));
    }
    if let Some(path) = env.var("CAIRN_STATE") {
        return Ok(named(path.into(), StateOrigin::CairnState));
    }
    if let Some(path) = env.first_dir("STATE_DIRECTORY") {
        return Ok(named(path, StateOrigin::StateDirectory));
    }
    match user_dir(env, "XDG_DATA_HOME", ".local/share") {
        Some(data) => Ok(named(data.join("cairn"), StateOrigin::UserData)),
        None => Err(Problem::new(
            "there is no state folder: none of $STATE_DIRECTORY, $XDG_DATA_HOME, $HOME is set",
        )
        .hint("name one with --state DIR or $CAIRN_STATE")
        .into()),
    }
}

/// Where `cairn chat` keeps the lines that were typed: `$XDG_STATE_HOME/cairn/chat_history` (or below `~/.local/state`).
pub fn chat_history(env: &dyn Environment) -> Option<PathBuf> {
    user_dir(env, "XDG_STATE_HOME", ".local/state").map(|dir| dir.join("cairn").join("chat_history"))
}

/// The socket that a daemon of that state listens at: in `$RUNTIME_DIRECTORY`, else in the state folder.
///
/// # Errors
/// The path is too long for a socket.
pub fn socket_to_bind(state: &StateDir, env: &dyn Environment) -> Result<PathBuf, ConfigError> {
    let path = match env.first_dir("RUNTIME_DIRECTORY") {
        Some(dir) => dir.join("cairn.sock"),
        None => state.path.join("cairn.sock"),
    };
    check_socket(&path)?;
    Ok(path)
}

/// The sockets at which a command looks for a running daemon, in order.
pub fn sockets_to_try(state: &StateDir, env: &dyn Environment) -> Vec<PathBuf> {
    let runtime = env.first_dir("RUNTIME_DIRECTORY").map(|dir| dir.join("cairn.sock"));
    let system = PathBuf::from("/run/cairn/cairn.sock");
    let mut sockets: Vec<PathBuf> =
        runtime.into_iter().chain([system, state.path.join("cairn.sock")]).collect();
    sockets.dedup();
    sockets
}

/// Checks that a path is short enough for a socket.
///
/// # Errors
/// It is longer than [`SOCKET_PATH_MAX`] bytes.
pub fn check_socket(path: &Path) -> Result<(), ConfigError> {
    let len = path.as_os_str().len();
    if len <= SOCKET_PATH_MAX {
        return Ok(());
    }
    Err(Problem::new(format!(
        "the socket's path {} has {len} bytes; a unix socket's path has at most {SOCKET_PATH_MAX}",
        path.display()
    ))
    .hint("name a state folder with a shorter path by --state or $CAIRN_STATE, or set $RUNTIME_DIRECTORY")
    .into())
}

fn user_dir(env: &dyn Environment, xdg: &str, below_home: &str) -> Option<PathBuf> {
    // A relative path is ignored, as the XDG base directory specification demands.
    let set = env.var(xdg).map(PathBuf::from).filter(|path| path.is_absolute());
    set.or_else(|| {
        let home = env.var("HOME").map(PathBuf::from).filter(|path| path.is_absolute())?;
        Some(home.join(below_home))
    })
}

fn absolute(path: &Path, env: &dyn Environment) -> PathBuf {
    let joined = match env.current_dir() {
        Some(dir) => dir.join(path),
        None => path.to_owned(),
    };
    // Drops `.` components, which would otherwise show in every message.
    joined.components().collect()
}
