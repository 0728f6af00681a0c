//! The few file operations that the journal is written with, behind a trait so that a full or failing disk can be
//! played in tests.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use cairn_core::ports::StoreError;

/// So much must fit on a disk that was full before it counts as having room.
const ROOM_BYTES: usize = 128 * 1024;

pub(crate) trait Disk: Send + Sync + 'static {
    /// Opens a file for appending, making it (0600) when it is not there.
    fn open(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;
}

/// A file that is appended to and cut, nothing else.
pub(crate) trait AppendFile: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Box::new(RealFile(file)))
    }
}

struct RealFile(File);

impl AppendFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)?;
        self.0.sync_data()
    }
}

/// Makes new and renamed files of a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Writes a file (0600) beside its place and puts it there when it is whole and durable.
pub(crate) fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    put_by(path, Path::new(&beside), write)
}

/// The same by way of another name beside it.
pub(crate) fn put_by(
    path: &Path,
    beside: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside)?;
    write(&mut file)?;
    file.sync_all()?;
    replace(path, beside)
}

/// Gives what was written beside a place that place's name, durably.
pub(crate) fn replace(path: &Path, beside: &Path) -> io::Result<()> {
    fs::rename(beside, path)?;
    // What has no parent in its name is in the working folder.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_dir(dir)
}

/// Makes a folder (0700) with those above it.
pub(crate) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_error("make the folder", dir))
}

/// Moves a damaged folder out of the way, to `NAME.damaged`; one from an earlier time gives way.
pub(crate) fn move_aside(dir: &Path) -> Result<std::path::PathBuf, StoreError> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let to = dir.with_file_name(format!("{name}.damaged"));
    remove_dir(&to)?;
    match fs::rename(dir, &to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("move aside", dir)(error)),
        _ => Ok(to),
    }
}

/// Removes a folder with all in it; one that is not there is fine.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", dir)(error)),
        _ => Ok(()),
    }
}

/// Whether some more can be written durably to a folder.
pub(crate) fn has_room(dir: &Path) -> io::Result<()> {
    let path = dir.join("room.new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&vec![1; ROOM_BYTES])?;
        file.sync_all()
    };
    let written = write();
    fs::remove_file(&path).and(written)
}

/// Turns a system error into the store's, with what was tried and where.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::DiskFull { path: path.clone() }
        }
        _ => StoreError::Io { action, path: path.clone(), message: error.to_string() },
    }
}
