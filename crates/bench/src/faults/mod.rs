//! The fault campaign: kinds of faults × places × seeds, and how each ended. A seed says what happens, where and when; the
//! same seed does it again.

mod clock;
mod crash;
mod damage;
pub mod disk;
mod flood;
mod lost;
mod prepared;
mod scene;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::sleep;

use cairn_testkit::daemon::Daemon;
use cairn_testkit::disk::Disk;

use prepared::Prepared;

/// How a fault ended that did no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is shown otherwise than before, nothing acknowledged is lost, nobody has to do anything.
    Harmless,
    /// It was told, and what was told to do was done: it works again.
    Mended(String),
    /// The fault was not met: the process had done less than that.
    NotMet,
}

/// A kind of faults with the places that it has.
struct Kind {
    name: &'static str,
    places: &'static [&'static str],
}

const KINDS: [Kind; 6] = [
    Kind { name: "crash", places: &crash::POINTS },
    Kind { name: "damage", places: &damage::PLACES },
    Kind { name: "error", places: &scene::ERRORS },
    Kind { name: "clock", places: &clock::PLACES },
    Kind { name: "flood", places: &flood::FLOODS },
    Kind { name: "memory", places: &["start", "talk"] },
];

/// What all faults of a campaign share.
pub struct Campaign {
    cairn: PathBuf,
    dir: PathBuf,
    disk: Disk,
    prepared: Prepared,
}

impl Campaign {
    /// In an empty folder.
    ///
    /// # Errors
    /// The state that faults are tried on cannot be made.
    pub async fn prepare(cairn: &Path, dir: &Path) -> io::Result<Self> {
        let disk = Disk::new(dir)?;
        let prepared = Prepared::make(cairn, &dir.join("prepared"), &disk).await?;
        Ok(Self { cairn: cairn.to_owned(), dir: dir.to_owned(), disk, prepared })
    }

    /// The places of a kind of faults; none: there is no such kind.
    pub fn places(kind: &str) -> Option<&'static [&'static str]> {
        KINDS.iter().find(|known| known.name == kind).map(|known| known.places)
    }

    pub fn kinds() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|kind| kind.name)
    }

    /// One fault; its folder stays where it did harm.
    ///
    /// # Errors
    /// Something acknowledged is lost, something is wrong without a word, or what is told to do does not help: which.
    pub async fn run(&self, kind: &str, place: &str, seed: u64) -> io::Result<Outcome> {
        let dir = self.dir.join(format!("{kind}-{place}-{seed}").replace(' ', "-"));
        std::fs::create_dir(&dir)?;
        let case = Case { cairn: &self.cairn, dir: &dir, disk: &self.disk, prepared: &self.prepared };
        let outcome = match kind {
            "crash" => crash::run(&case, place, seed).await,
            "damage" => damage::run(&case, place, seed).await,
            "error" => scene::error(&case, place, seed).await,
            "clock" => clock::run(&case, place, seed).await,
            "flood" => flood::run(&case, place).await,
            "memory" => flood::memory(&case, place, seed).await,
            _ => Err(io::Error::other(format!("there are no faults `{kind}`"))),
        };
        self.disk.mend()?;
        self.disk.set_clock(0)?;
        if outcome.is_ok() {
            std::fs::remove_dir_all(&dir)?;
        }
        outcome.map_err(|error| io::Error::other(format!("{error} (its state is in {})", dir.display())))
    }
}

/// One fault of one seed, in a folder of its own.
struct Case<'a> {
    cairn: &'a Path,
    dir: &'a Path,
    disk: &'a Disk,
    prepared: &'a Prepared,
}

/// What a command ended with.
#[derive(Clone)]
struct Ran {
    /// None: a signal ended it.
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Case<'_> {
    fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn config(&self) -> PathBuf {
        self.dir.join("config.toml")
    }

    /// Starts the daemon on the disk that may fail.
    async fn daemon(&self) -> io::Result<Daemon> {
        let vars = self.disk.vars();
        let vars: Vec<_> = vars.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Daemon::start_with(&vars, self.cairn, &self.state(), Some(&self.config())).await
    }

    /// Runs a command to its end, on the same disk.
    async fn cairn(&self, args: &[&str]) -> io::Result<Ran> {
        run_cairn(self.cairn, self.disk, &self.state(), &self.config(), args).await
    }

    /// The same on a disk that is sound again after so long, and when it has ended.
    async fn cairn_until_mended(&self, args: &[&str], lasts: Duration) -> io::Result<Ran> {
        let mended = async {
            sleep(lasts).await;
            self.disk.mend()?;
            std::future::pending().await
        };
        let ran = tokio::select! {
            ran = self.cairn(args) => ran,
            failed = mended => failed,
        };
        self.disk.mend()?;
        ran
    }

    /// What a command that succeeds prints as JSON.
    async fn json(&self, args: &[&str]) -> io::Result<Value> {
        let ran = self.cairn(&[args, &["--json"]].concat()).await?;
        require(ran.code == Some(0), || {
            format!("`cairn {}`: {:?}: {}", args.join(" "), ran.code, ran.stderr)
        })?;
        serde_json::from_str(&ran.stdout).map_err(io::Error::other)
    }

    /// No daemon runs: the store is sound.
    async fn verify(&self) -> io::Result<()> {
        let verified = self.cairn(&["store", "verify", "--json"]).await?;
        require(verified.code == Some(0), || {
            format!("`cairn store verify`: {:?}: {}{}", verified.code, verified.stdout, verified.stderr)
        })
    }

    /// What the daemon has logged since its last start.
    fn log(&self) -> String {
        std::fs::read_to_string(self.state().join("daemon.log")).unwrap_or_default()
    }

    /// It ended as it should when it was asked to, and nothing of its own panicked.
    async fn stop(&self, daemon: Daemon) -> io::Result<()> {
        let status = daemon.stop().await?;
        require(status.success(), || format!("it stopped with {status}: {}", self.log()))?;
        require(!self.log().contains("panicked at"), || format!("it panicked: {}", self.log()))
    }
}

async fn run_cairn(cairn: &Path, disk: &Disk, state: &Path, config: &Path, args: &[&str]) -> io::Result<Ran> {
    let mut command = Command::new(cairn);
    command.args(args).arg("--state").arg(state).arg("--config").arg(config).envs(disk.vars());
    command.env_remove("RUNTIME_DIRECTORY").stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
}

fn require(holds: bool, what: impl FnOnce() -> String) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(what())) }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&path, &target)?;
        } else if kind.is_file() {
            std::fs::copy(path, target)?;
        }
    }
    Ok(())
}

/// All files below a folder, in order.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else if entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// How often each text is among them.
fn tally<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts
}
