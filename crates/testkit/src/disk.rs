//! A disk that fails for the real binary: a library of C (`disk.c`) that is loaded before all others and stands between it
//! and its writes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Full,
    Broken,
    /// It does not answer until it is mended.
    Hangs,
}

impl Fault {
    pub const ALL: [Self; 3] = [Self::Full, Self::Broken, Self::Hangs];

    fn name(self) -> &'static str {
        match self {
            Self::Full => "ENOSPC",
            Self::Broken => "EIO",
            Self::Hangs => "hang",
        }
    }
}

/// The disk of whatever is started with its variables.
#[derive(Debug)]
pub struct Disk {
    library: PathBuf,
    fault: PathBuf,
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
        Ok(Self { library, fault: dir.join("disk.fault") })
    }

    /// What a process is to be started with.
    pub fn vars(&self) -> [(&'static str, String); 2] {
        let shown = |path: &Path| path.display().to_string();
        [("LD_PRELOAD", shown(&self.library)), ("CAIRN_DISK_FAULT", shown(&self.fault))]
    }

    /// From here on writes to files fail whose path has that part.
    pub fn fail(&self, part: &str, fault: Fault) -> io::Result<()> {
        let said = self.fault.with_extension("new");
        std::fs::write(&said, format!("{} {part}", fault.name()))?;
        std::fs::rename(said, &self.fault)
    }

    /// It is sound again.
    pub fn mend(&self) -> io::Result<()> {
        std::fs::remove_file(&self.fault)
    }
}
