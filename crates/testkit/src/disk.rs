//! A disk that fails and a clock that jumps, for the real binary: a library of C (`disk.c`) that is loaded before all others
//! and stands between it and its writes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Full,
    Broken,
    /// The process has no descriptors left.
    NoFiles,
    /// It does not answer until it is mended.
    Hangs,
    /// Each call takes 300 ms more.
    Slow,
    /// The process ends as `kill -9` ends it: before the call, with half of a write done, or after it.
    KillBefore,
    KillWithin,
    KillAfter,
}

impl Fault {
    /// Those of a disk.
    pub const ALL: [Self; 3] = [Self::Full, Self::Broken, Self::Hangs];

    /// Those that end the process.
    pub const KILLS: [Self; 3] = [Self::KillBefore, Self::KillWithin, Self::KillAfter];

    fn name(self) -> &'static str {
        match self {
            Self::Full => "ENOSPC",
            Self::Broken => "EIO",
            Self::NoFiles => "EMFILE",
            Self::Hangs => "hang",
            Self::Slow => "slow",
            Self::KillBefore => "kill-before",
            Self::KillWithin => "kill-within",
            Self::KillAfter => "kill-after",
        }
    }
}

/// The calls that meet a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls<'a> {
    /// Is in the path of their file.
    pub part: &'a str,
    /// Their kinds: `w`rite, `s`ync, `o`pen to write, `r`ename, `t`runcate, `u`nlink; `p`: a new thread, of the path `thread`.
    pub kinds: &'a str,
    /// Is in what they write; empty: whatever that is. No spaces.
    pub bytes: &'a str,
    /// The first that meets it, from 1.
    pub from: u64,
}

impl<'a> Calls<'a> {
    /// Each that writes to files whose path has that part.
    pub fn to(part: &'a str) -> Self {
        Self { part, kinds: "wsort", bytes: "", from: 1 }
    }
}

/// The disk and the clock of whatever is started with its variables.
#[derive(Debug)]
pub struct Disk {
    library: PathBuf,
    fault: PathBuf,
    clock: PathBuf,
}

impl Disk {
    /// A sound one; its files are kept in that folder.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let (source, library) = (dir.join("disk.c"), dir.join("disk.so"));
        std::fs::write(&source, include_str!("disk.c"))?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(&source)
            .arg("-ldl")
            .output()?;
        if !compiled.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&compiled.stderr).into_owned()));
        }
        Ok(Self { library, fault: dir.join("disk.fault"), clock: dir.join("clock.offset") })
    }

    /// What a process is to be started with.
    pub fn vars(&self) -> [(&'static str, String); 3] {
        let shown = |path: &Path| path.display().to_string();
        [
            ("LD_PRELOAD", shown(&self.library)),
            ("CAIRN_DISK_FAULT", shown(&self.fault)),
            ("CAIRN_CLOCK_OFFSET", shown(&self.clock)),
        ]
    }

    /// From here on writes to files fail whose path has that part.
    pub fn fail(&self, part: &str, fault: Fault) -> io::Result<()> {
        self.fail_at(&Calls::to(part), fault)
    }

    /// From here on those calls fail. A process counts them since its start.
    pub fn fail_at(&self, calls: &Calls<'_>, fault: Fault) -> io::Result<()> {
        let Calls { part, kinds, bytes, from } = calls;
        put(&self.fault, &format!("{} {part} {from} {kinds} {bytes}", fault.name()))
    }

    /// The clock is off by so many seconds from here on.
    pub fn set_clock(&self, seconds: i64) -> io::Result<()> {
        put(&self.clock, &seconds.to_string())
    }

    /// It is sound again; it may have been before.
    pub fn mend(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.fault) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whoever reads it finds all of it, or what was there before.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text)?;
    std::fs::rename(beside, path)
}
