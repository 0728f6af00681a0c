//! A real PostgreSQL server for tests that need one. It ends with the process that started it, whatever ends that.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::free_address;

/// Where Debian has the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

const USER: &str = "cairn";
const PASSWORD: &str = "9f2c-of-the-tests";

/// The file that [`store_table`] names.
pub const PASSWORD_FILE: &str = "database.password";

/// Runs as the server's user, in its folder. Does what it is told line by line, and says `done`.
/// When the process that tells it ends, its input does: then it ends the server and removes the folder.
const GUARD: &str = r#"
PATH="$3:$PATH"
initdb --no-sync -D data -E UTF8 --locale=C -U "$1" --pwfile=password --auth-host=password --auth-local=trust >log 2>&1 \
    && echo done || echo failed
start() { pg_ctl start -w -t 60 -D data -l server.log -o "-p $port $options" >>log 2>&1 </dev/null; }
while read -r order port options; do
    case $order in
    start) start ;;
    # Processes of a server that was killed may not have ended yet, and it refuses to start beside them.
    again) n=0; until start || [ $n -ge 50 ]; do n=$((n + 1)); sleep 0.2; done; [ $n -lt 50 ] ;;
    crash) pg_ctl stop -w -t 60 -m immediate -D data >>log 2>&1 </dev/null ;;
    kill) kill -9 "$(head -n 1 data/postmaster.pid)" ;;
    esac && echo done || echo failed
done
pg_ctl stop -w -t 60 -m immediate -D data >/dev/null 2>&1
cd / && rm -rf "$2"
"#;

/// Small, for many connections, and nothing that only production needs.
const OPTIONS: &str = "-c listen_addresses=127.0.0.1 -c unix_socket_directories=. -c max_connections=300 \
                       -c shared_buffers=16MB -c timezone=UTC";

/// A crash of the machine is not played: what the server wrote is there when it starts again.
const UNSYNCED: &str = "-c fsync=off -c full_page_writes=off";

/// A server of its own.
pub struct Postgres {
    bin: PathBuf,
    dir: TempDir,
    port: u16,
    options: String,
    guard: Mutex<Guard>,
    databases: AtomicU64,
}

struct Guard {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// The url of a new empty database, of a server that all tests of this process share.
#[track_caller]
pub fn database() -> String {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| Postgres::start(false)).database()
}

/// Has the database of that url do something, and returns what it says: a line for each row, with `|` between values.
#[track_caller]
pub fn sql(url: &str, statement: &str) -> String {
    let bin = bin().expect("a server is installed, so its client is");
    let mut command = Command::new(bin.join("psql"));
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statement]);
    let output = command.stdin(Stdio::null()).output().expect("psql can be started");
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("what it says is UTF-8").trim_end().to_owned()
}

/// A url without its password, and that.
#[track_caller]
pub fn without_password(url: &str) -> (String, String) {
    let parts = || {
        let (scheme, rest) = url.split_once("://")?;
        let (account, rest) = rest.split_once('@')?;
        let (user, password) = account.split_once(':')?;
        Some((format!("{scheme}://{user}@{rest}"), password.to_owned()))
    };
    parts().expect("the url has a password")
}

/// The table of a configuration for the database of that url, to which keys may be added; and the password, which the file
/// [`PASSWORD_FILE`] beside it must have.
#[track_caller]
pub fn store_table(url: &str) -> (String, String) {
    let (url, password) = without_password(url);
    (format!("[store]\nurl = \"{url}\"\npassword_file = \"{PASSWORD_FILE}\"\n"), password)
}

impl Postgres {
    /// Starts one. `is_synced`: a commit waits for the disk.
    #[track_caller]
    pub fn start(is_synced: bool) -> Self {
        let bin = bin().expect("a PostgreSQL server is installed; `.ci/postgres` installs one");
        let dir = tempfile::tempdir().expect("a folder can be made");
        fs::write(dir.path().join("password"), PASSWORD).expect("its folder can be written");
        let mut guard = Guard::start(&bin, dir.path());
        guard.answer("make a database folder", dir.path());
        let options = format!("{OPTIONS} {}", if is_synced { "" } else { UNSYNCED });
        // Somebody else may take a port before the server does.
        let port = (0..10).find_map(|_| {
            let port = free_address().port();
            guard.order(&format!("start {port} {options}"));
            guard.is_done().then_some(port)
        });
        let port = port.unwrap_or_else(|| panic!("the server cannot be started: {}", said(dir.path())));
        Self { bin, dir, port, options, guard: Mutex::new(guard), databases: AtomicU64::new(0) }
    }

    /// Whether one can be started on this machine.
    pub fn is_installed() -> bool {
        bin().is_some()
    }

    /// The url of a new empty database.
    pub fn database(&self) -> String {
        let name = format!("cairn_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        sql(&self.url("postgres"), &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Ends it as a crash would: all connections break, and nothing is written any more.
    pub fn crash(&self) {
        let mut guard = self.guard.lock();
        guard.order("crash");
        guard.answer("stop the server", self.dir.path());
    }

    /// Ends it by `kill -9` of its first process. The others notice it, and end by themselves.
    pub fn kill(&self) {
        let mut guard = self.guard.lock();
        guard.order("kill");
        guard.answer("kill the server", self.dir.path());
    }

    /// Starts it again, at the same port.
    pub fn start_again(&self) {
        let mut guard = self.guard.lock();
        guard.order(&format!("again {} {}", self.port, self.options));
        guard.answer("start the server", self.dir.path());
    }

    /// Its version, as its program tells it.
    pub fn version(&self) -> String {
        let output =
            Command::new(self.bin.join("postgres")).arg("--version").output().expect("it can be started");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let guard = self.guard.get_mut();
        guard.orders = None;
        // The folder goes with it.
        drop(guard.child.wait());
    }
}

impl Guard {
    fn start(bin: &Path, dir: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "guard", USER]).args([dir, bin]).current_dir(dir).env("LC_ALL", "C");
        // What a terminal sends to the tests must not end it before them.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = unprivileged();
            for path in [dir, &dir.join("password")] {
                chown(path, Some(uid), Some(gid)).expect("root gives a folder to a user");
            }
            command.uid(uid).gid(gid);
        }
        let mut child = command.spawn().expect("a shell can be started");
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self { child, orders, answers }
    }

    fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("it has not ended");
        writeln!(orders, "{order}").expect("the guard reads");
    }

    fn is_done(&mut self) -> bool {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("the guard answers");
        answer == "done\n"
    }

    #[track_caller]
    fn answer(&mut self, what: &str, dir: &Path) {
        assert!(self.is_done(), "cannot {what}: {}", said(dir));
    }
}

/// The folder of the newest server's programs.
fn bin() -> Option<PathBuf> {
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut versions: Vec<(u32, PathBuf)> =
        versions.filter_map(|path| Some((number(&path)?, path.join("bin")))).collect();
    versions.sort();
    let of_path = Command::new("sh").args(["-c", "command -v postgres"]).output().ok()?;
    let of_path = PathBuf::from(String::from_utf8_lossy(&of_path.stdout).trim());
    let folders = versions.into_iter().rev().map(|(_, bin)| bin);
    let mut folders = folders.chain(of_path.parent().map(Path::to_owned));
    folders.find(|bin| ["initdb", "postgres", "psql"].iter().all(|name| bin.join(name).is_file()))
}

/// Whom root starts it as: the server refuses to run as root. The owner of Debian's folder for it, or nobody.
fn unprivileged() -> (u32, u32) {
    let owner = fs::metadata("/var/lib/postgresql").map(|folder| (folder.uid(), folder.gid()));
    owner.ok().filter(|(uid, _)| *uid != 0).unwrap_or((65534, 65534))
}

/// What it and its programs said.
fn said(dir: &Path) -> String {
    let logs = ["log", "server.log"].map(|name| fs::read_to_string(dir.join(name)).unwrap_or_default());
    logs.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
    fn a_database_server_keeps_what_it_has_over_a_crash_and_leaves_nothing_behind() {
        let server = Postgres::start(false);
        assert!(server.version().contains("PostgreSQL"), "{}", server.version());
        let (url, other) = (server.database(), server.database());
        sql(&url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1), (2)");
        assert_eq!(sql(&other, "SELECT to_regclass('kept') IS NULL"), "t", "each database is its own");
        server.crash();
        assert!(std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err());
        server.start_again();
        server.kill();
        server.start_again();
        assert_eq!(sql(&url, "SELECT sum(n), count(*) FROM kept"), "3|2");
        let (dir, port) = (server.dir.path().to_owned(), server.port);
        drop(server);
        assert!(!dir.exists() && std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}
