//! File operations. The journal writes through a trait, so that tests can simulate a full or failing disk. Calls that may never
//! return are tracked while they last.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use cairn_types::ports::StoreError;
use parking_lot::Mutex;

/// A disk that was full has room again when this many bytes can be written.
const ROOM_BYTES: usize = 128 * 1024;

pub(crate) trait Disk: Send + Sync + 'static {
    /// Opens a file for appending, making it (0600) when it is not there.
    fn open(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;
}

/// A file that can only be appended to and truncated.
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

/// The file in a state folder that says up to where a check of everything found nothing wrong.
pub(crate) const VERIFIED: &str = "verified.json";

/// The folders within the state folder.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) journal: PathBuf,
    pub(crate) views: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) quarantine: PathBuf,
    /// What starts and the background check have seen.
    pub(crate) checked: PathBuf,
}

impl Layout {
    pub(crate) fn of(dir: &Path) -> Self {
        Self {
            journal: dir.join("journal"),
            views: dir.join("views"),
            index: dir.join("index"),
            quarantine: dir.join("quarantine"),
            checked: dir.join("checked"),
        }
    }
}

/// Total bytes of the files in a folder and below it. Files that appear or vanish meanwhile may or may not be counted.
pub(crate) fn folder_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.metadata().ok()?, entry.path())))
        .map(|(metadata, path)| if metadata.is_dir() { folder_bytes(&path) } else { metadata.len() })
        .sum()
}

/// Syncs a folder, so that new and renamed files in it survive a crash.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Syncs a folder and all folders below it.
pub(crate) fn sync_folders(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_folders(&path)?;
        }
    }
    sync_dir(dir)
}

/// Writes a file (0600) beside its place and puts it there when it is whole and durable.
pub(crate) fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    put_by(path, Path::new(&beside), write)
}

/// Writes a file (0600) as `beside` first, and renames it to `path` when it is whole and durable.
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

/// Renames `beside` to `path`, durably.
pub(crate) fn replace(path: &Path, beside: &Path) -> io::Result<()> {
    fs::rename(beside, path)?;
    // What has no parent in its name is in the working folder.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_dir(dir)
}

/// Creates a folder (0700) and its parents.
pub(crate) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_error("make the folder", dir))
}

/// Renames a damaged folder to `NAME.damaged`, replacing an earlier one. Returns the new path.
pub(crate) fn move_aside(dir: &Path) -> Result<PathBuf, StoreError> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let to = dir.with_file_name(format!("{name}.damaged"));
    remove_dir(&to)?;
    match fs::rename(dir, &to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("move aside", dir)(error)),
        _ => Ok(to),
    }
}

/// Removes a folder with its content. A missing folder is no error.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), StoreError> {
    gone(fs::remove_dir_all(dir), dir)
}

/// Removes a file. A missing file is no error.
pub(crate) fn remove_file(path: &Path) -> Result<(), StoreError> {
    gone(fs::remove_file(path), path)
}

/// Removes a file, or a folder with its content. A missing path is no error.
pub(crate) fn remove_any(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() { remove_dir(path) } else { remove_file(path) }
}

/// The paths of a folder's entries; empty when the folder does not exist.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let fail = io_error("list", dir);
    match fs::read_dir(dir) {
        Ok(found) => found.map(|entry| entry.map(|entry| entry.path()).map_err(&fail)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(fail(error)),
    }
}

fn gone(removed: io::Result<()>, path: &Path) -> Result<(), StoreError> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Runs blocking work on a thread for such work. `what` names the work in the error when it panics.
pub(crate) async fn blocking<T, E>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(StoreError::View { view: "store", message: format!("{what} failed: {error}") }.into())
    })
}

/// Starts `n` threads and ends them, to see whether the system allows it. The C library keeps their stacks for the threads that
/// are started next.
///
/// # Errors
/// The system refuses a thread.
pub fn can_start_threads(n: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        let _closed = gate.lock();
        let mut started =
            (0..n).map(|_| std::thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())));
        started.try_for_each(|thread| thread.map(drop))
    })
}

/// Niceness of threads that work over the whole state.
const NICE: i32 = 15;

/// Lowers the priority of this thread and of the threads that it starts to at least that niceness. It cannot be raised again.
pub(crate) fn lower_priority(nice: i32) {
    if rustix::process::getpriority_process(None).is_ok_and(|is| is < nice) {
        // Where it may not be, it is as important as all others.
        let _nice = rustix::process::setpriority_process(None, nice);
    }
}

/// Runs long work over the whole state on few threads of low priority, apart from the threads that serve messages.
#[derive(Debug)]
pub(crate) struct Background(Arc<tokio::sync::Semaphore>);

impl Background {
    pub(crate) fn new(threads: usize) -> Self {
        Self(Arc::new(tokio::sync::Semaphore::new(threads)))
    }

    /// Runs work once a thread is free. The work continues when its caller stops waiting. `what` names it in the error when it
    /// panics.
    pub(crate) async fn run<T, E>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let failed = |why: &dyn std::fmt::Display| {
            Err(StoreError::View { view: "store", message: format!("{what} failed: {why}") }.into())
        };
        let Ok(thread) = self.0.clone().acquire_owned().await else { return Err(StoreError::Closed.into()) };
        let (tell, done) = tokio::sync::oneshot::channel();
        let work = move || {
            let _thread = thread;
            lower_priority(NICE);
            // Nobody waits any more: no error.
            drop(tell.send(work()));
        };
        if let Err(error) = std::thread::Builder::new().name("background".to_owned()).spawn(work) {
            return failed(&error);
        }
        done.await.unwrap_or_else(|_| failed(&"it panicked; the log says where"))
    }
}

/// Checks that 128 KiB can be written durably to a folder.
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

/// Converts a system error into a [`StoreError`] with the action and the path.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let path = path.display().to_string();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::DiskFull { path: path.clone() }
        }
        _ => StoreError::Io { action, path: path.clone(), message: error.to_string() },
    }
}

/// Tracks calls that may never return (into sled, tantivy or the disk), so that others can see how long they have lasted. A
/// thread is in one call at a time.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<HashMap<ThreadId, Instant>>);

impl Calls {
    pub(crate) fn within<T>(&self, call: impl FnOnce() -> T) -> T {
        let under_way = UnderWay(self, std::thread::current().id());
        self.0.lock().insert(under_way.1, Instant::now());
        call()
    }

    /// How long the longest running call has lasted; zero when none runs.
    pub(crate) fn longest(&self) -> Duration {
        self.0.lock().values().map(Instant::elapsed).max().unwrap_or_default()
    }
}

/// Also ends when the call panics.
struct UnderWay<'a>(&'a Calls, ThreadId);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_and_takes_nothing_back() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let threads = std::thread::spawn(move || {
            lower_priority(18);
            lower_priority(17);
            (nice(), std::thread::spawn(nice).join().unwrap())
        });
        assert_eq!(threads.join().unwrap(), (18, 18));
    }

    #[test]
    fn a_call_is_known_until_it_returns_or_panics() {
        let calls = Calls::default();
        let wait = Duration::from_millis(2);
        calls.within(|| {
            while calls.longest() < wait {
                std::thread::yield_now();
            }
        });
        assert_eq!(calls.longest(), Duration::ZERO);
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| calls.within(|| panic!("no"))));
        assert!(panicked.is_err());
        assert_eq!(calls.longest(), Duration::ZERO);
    }
}
