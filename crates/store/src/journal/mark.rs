//! The file `checked` of a state folder: what starts have seen of closed segments, so that the next one does not look again,
//! and when everything was read last. It may be lost: the next start then looks at each segment.

use std::fs;
use std::io::Write;
use std::path::Path;

use cairn_types::ports::StoreError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::files::disk::{io_error, put};

/// At most this many problems are kept; more are only counted.
pub(crate) const DAMAGE_MAX: usize = 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// When the background check had read everything and found nothing wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checked_at: Option<Timestamp>,
    /// What the last check of everything found; empty: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) damage: Vec<String>,
    /// In their order.
    #[serde(default)]
    pub(crate) segments: Vec<Sealed>,
}

/// A segment that is not written any more, whose last line was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    pub(crate) first: u64,
    /// The last number that it stands for.
    pub(crate) last: u64,
    /// Bytes of its file then.
    pub(crate) bytes: u64,
}

impl Mark {
    /// Reads the file; empty when it is missing or damaged.
    pub(crate) fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// What is known of a segment, if its file is as long as it was.
    pub(crate) fn of(&self, first: u64, bytes: u64) -> Option<Sealed> {
        let idx = self.segments.binary_search_by_key(&first, |sealed| sealed.first).ok()?;
        self.segments.get(idx).copied().filter(|sealed| sealed.bytes == bytes)
    }

    /// Keeps what a check of everything has found. Damage is told by each start until a check finds none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn note(path: &Path, damage: &[String]) -> Result<(), StoreError> {
        let known = Self::read(path);
        let checked_at = known.checked_at.filter(|_| damage.is_empty());
        let damage = damage.iter().take(DAMAGE_MAX).cloned().collect();
        Self { checked_at, damage, ..known }.keep(path)
    }

    /// # Errors
    /// The file cannot be written; the next start then reads more.
    pub(crate) fn keep(&self, path: &Path) -> Result<(), StoreError> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        put(path, |file| file.write_all(&text)).map_err(io_error("write", path))
    }
}
