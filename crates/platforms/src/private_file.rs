//! Files that only their owner may read: sessions and logins, which others could take over with them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Replaces a file as a whole. It is not synced: a stop must not wait for the disk, and a file that cannot be read later only
/// costs new sessions.
///
/// # Errors
/// The file beside it cannot be written or renamed.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?.write_all(bytes)?;
    fs::rename(beside, path)
}
