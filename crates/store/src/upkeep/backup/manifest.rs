//! The manifest of a backup: what it holds, and whether that is still so.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use cairn_types::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::BackupError;
use crate::files::artifacts::hex;
use crate::files::disk::io_error;

/// The manifest's name in a backup.
pub(crate) const FILE: &str = "manifest.json";

/// Its name while it is written.
pub(crate) const BEGUN: &str = "manifest.json.new";

/// The format of backups that this program writes, and the newest that it knows.
const FORMAT: u32 = 1;

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// A manifest is far smaller, with artifacts by the ten thousand.
const BYTES_MAX: u64 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The format of the backup itself.
    pub(crate) format: u32,
    pub(crate) state_format: u32,
    /// The version of the program that made it.
    pub(crate) version: String,
    pub(crate) created_at: Timestamp,
    /// Number of the last journal record in it; 0: none.
    pub(crate) last_record: u64,
    pub(crate) files: Vec<Item>,
    /// SHA-256 of this manifest with this field empty.
    pub(crate) checksum: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    /// Where it is in the backup, and in the state folder.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// SHA-256 of its content, in hex.
    pub(crate) sha256: String,
}

impl Item {
    /// Copies a file up to `end` (none: to its end) to `to`, durably, which must not be there yet; none: it is only read.
    ///
    /// # Errors
    /// Reading or writing failed, or it ends before `end`.
    pub(super) fn copy(
        path: String,
        from: &Path,
        end: Option<u64>,
        to: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let mut source = File::open(from).map_err(io_error("open", from))?.take(end.unwrap_or(u64::MAX));
        let fail = io_error("write", to.unwrap_or(from));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut out = to.map(|to| options.open(to)).transpose().map_err(&fail)?;
        let (mut sum, mut bytes, mut buf) = (Sha256::new(), 0, vec![0; CHUNK]);
        loop {
            let n = match source.read(&mut buf) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(io_error("read", from)(error)),
            };
            sum.update(&buf[..n]);
            bytes += n as u64;
            out.as_mut().map_or(Ok(()), |out| out.write_all(&buf[..n])).map_err(&fail)?;
        }
        if let Some(end) = end.filter(|end| bytes < *end) {
            return Err(StoreError::Io {
                action: "read",
                path: from.display().to_string(),
                message: format!("it ends {} bytes too early", end - bytes),
            });
        }
        out.map_or(Ok(()), |out| out.sync_all()).map_err(&fail)?;
        Ok(Self { path, bytes, sha256: hex(&sum.finalize()) })
    }
}

impl Manifest {
    /// A manifest of what is in a state of this program's format.
    pub(crate) fn new(created_at: Timestamp, last_record: u64, files: Vec<Item>) -> Self {
        Self {
            format: FORMAT,
            state_format: crate::files::format::FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at,
            last_record,
            files,
            checksum: String::new(),
        }
    }

    /// Its bytes, with their checksum in them.
    pub(crate) fn encode(mut self) -> Result<Vec<u8>, serde_json::Error> {
        self.checksum = self.sum()?;
        serde_json::to_vec_pretty(&self)
    }

    fn sum(&self) -> Result<String, serde_json::Error> {
        let bare = Self { checksum: String::new(), ..self.clone() };
        Ok(hex(&Sha256::digest(serde_json::to_vec(&bare)?)))
    }

    /// Reads and checks the manifest of a backup.
    ///
    /// # Errors
    /// There is none: it is no backup, or one that was broken off. It is damaged, or of a newer version.
    pub(crate) fn read(dir: &Path) -> Result<Self, BackupError> {
        let path = dir.join(FILE);
        let damaged =
            |what: &str| BackupError::Damaged { path: path.display().to_string(), message: what.to_owned() };
        let there = match fs::metadata(&path) {
            Ok(there) => there,
            Err(error) => {
                return Err(BackupError::Refused {
                    code: "no_backup",
                    message: format!("there is no whole backup in {}: {FILE}: {error}", dir.display()),
                    hint: "name the folder that `cairn store backup` made; one whose name ends in .partial was broken off"
                        .to_owned(),
                });
            }
        };
        if there.len() > BYTES_MAX {
            return Err(damaged("it is too large to be a manifest"));
        }
        let bytes = fs::read(&path).map_err(io_error("read", &path))?;
        #[derive(Deserialize)]
        struct Head {
            format: u32,
            state_format: u32,
            version: String,
        }
        let head: Head = serde_json::from_slice(&bytes)
            .map_err(|error| damaged(&format!("it cannot be read: {error}")))?;
        let newer = |what: &str, format, known| StoreError::Newer {
            path: format!("{what} in {}", dir.display()),
            format,
            written_by: head.version.clone(),
            known,
        };
        if head.format > FORMAT {
            return Err(newer("the backup", head.format, FORMAT).into());
        }
        if head.state_format > crate::files::format::FORMAT {
            return Err(newer("the state", head.state_format, crate::files::format::FORMAT).into());
        }
        let manifest: Self = serde_json::from_slice(&bytes)
            .map_err(|error| damaged(&format!("it cannot be read: {error}")))?;
        if manifest.sum().ok().as_ref() != Some(&manifest.checksum) {
            return Err(damaged("its checksum does not match"));
        }
        if manifest.files.iter().any(|item| !is_within(&item.path)) {
            return Err(damaged("it names a file outside of the backup"));
        }
        Ok(manifest)
    }
}

/// A path that stays in its folder.
fn is_within(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}
