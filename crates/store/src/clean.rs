//! Whether the daemon before this one stopped cleanly: read from the journal's last line.

use std::io::{Read, Seek, SeekFrom};

use cairn_core::event::Event;
use cairn_core::ports::StoreError;

use crate::disk::io_error;
use crate::journal::{line, segment};
use crate::store::{Layout, Store};

/// The line of a stop is far shorter.
const LAST_LINE_BYTES: u64 = 4096;

impl Store {
    /// Whether the last record is that of a stop, or there is none yet. To be asked before anything is appended.
    ///
    /// # Errors
    /// The journal's last segment cannot be read.
    pub fn stopped_cleanly(&self) -> Result<bool, StoreError> {
        let tail = self.inner.appender.durable().borrow().tail;
        if tail.n == 0 {
            return Ok(true);
        }
        let path = segment::path(&Layout::of(&self.inner.options.dir).journal, tail.segment);
        let from = tail.len.saturating_sub(LAST_LINE_BYTES);
        let mut bytes = Vec::new();
        let mut file = std::fs::File::open(&path).map_err(io_error("open", &path))?;
        file.seek(SeekFrom::Start(from)).map_err(io_error("read", &path))?;
        file.take(tail.len - from).read_to_end(&mut bytes).map_err(io_error("read", &path))?;
        let last = bytes.strip_suffix(b"\n").unwrap_or(&bytes).rsplit(|byte| *byte == b'\n').next();
        let record = last.and_then(|last| line::parse(last).ok());
        Ok(record.is_some_and(|record| matches!(record.event, Event::DaemonStopped)))
    }
}

#[cfg(test)]
mod tests {
    use cairn_core::event::NewRecord;
    use cairn_core::ports::Journal;
    use jiff::Timestamp;

    use super::*;
    use crate::options::StoreOptions;

    #[tokio::test(flavor = "multi_thread")]
    async fn only_a_stop_at_the_very_end_is_clean() {
        let dir = tempfile::tempdir().unwrap();
        let started = Event::DaemonStarted { version: "0.1.0".to_owned() };
        for (event, clean) in [(started.clone(), false), (Event::DaemonStopped, true), (started, false)] {
            let options = StoreOptions::new(dir.path());
            let store = tokio::task::spawn_blocking(move || Store::open(options)).await.unwrap().unwrap();
            let at = Timestamp::UNIX_EPOCH;
            store.append(vec![NewRecord { channel: None, at, event }]).await.unwrap();
            store.close().await;
            let options = StoreOptions::new(dir.path());
            let store = tokio::task::spawn_blocking(move || Store::open(options)).await.unwrap().unwrap();
            assert_eq!(store.stopped_cleanly().unwrap(), clean);
            store.close().await;
        }
    }
}
