//! Whether the daemon before this one stopped cleanly: read from the journal's last line.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use cairn_core::event::{
    DeliveryEvent, Event, MaintenanceEvent, MemoryEvent, Record, TurnEvent, TurnOutcome,
};
use cairn_core::ports::StoreError;

use crate::disk::io_error;
use crate::journal::line;
use crate::journal::segment::{self, Lines, Piece};
use crate::store::{Layout, Store};

/// What may stand behind the line of a stop: of an erasure a line for each turn that it ends and each delivery that it
/// drops, of retention by hand what has expired.
const LAST_LINES_BYTES: u64 = 4 * 1024 * 1024;

/// What is written while no daemon runs, behind the record of its stop.
fn is_of_no_daemon(event: &Event) -> bool {
    match event {
        Event::Maintenance(MaintenanceEvent::PersonErased { .. })
        | Event::Delivery(DeliveryEvent::Dropped { .. }) => true,
        Event::Maintenance(MaintenanceEvent::WordsExpired { .. })
        | Event::Memory(MemoryEvent::Forgotten { .. }) => true,
        Event::Turn(TurnEvent::Ended(end)) => matches!(end.outcome, TurnOutcome::Stopped),
        _ => false,
    }
}

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
        let dir = Layout::of(&self.inner.options.dir).journal;
        let path = segment::path(&dir, tail.segment);
        let from = tail.len.saturating_sub(LAST_LINES_BYTES);
        let mut bytes = Vec::new();
        let mut file = std::fs::File::open(&path).map_err(io_error("open", &path))?;
        file.seek(SeekFrom::Start(from)).map_err(io_error("read", &path))?;
        file.take(tail.len - from).read_to_end(&mut bytes).map_err(io_error("read", &path))?;
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes).rsplit(|byte| *byte == b'\n');
        let last =
            lines.map_while(|line| line::parse(line).ok()).find(|record| !is_of_no_daemon(&record.event));
        let last = match last {
            None if from == 0 => last_before(&dir, tail.segment)?,
            last => last,
        };
        Ok(last.is_some_and(|record| {
            matches!(record.event, Event::Maintenance(MaintenanceEvent::DaemonStopped))
        }))
    }
}

/// The last record before a segment that a daemon wrote.
fn last_before(dir: &Path, segment: u64) -> Result<Option<Record>, StoreError> {
    for first in segment::list(dir)?.into_iter().rev().filter(|first| *first < segment) {
        let mut lines = Lines::open(&segment::path(dir, first), 0, None)?;
        let mut last = None;
        while let Piece::Line { bytes, .. } = lines.next()? {
            last = line::parse(bytes).ok().filter(|record| !is_of_no_daemon(&record.event)).or(last);
        }
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use cairn_core::event::{NewRecord, TurnEnd};
    use cairn_core::model::Usage;
    use cairn_core::ports::Store as _;
    use jiff::Timestamp;

    use super::*;
    use crate::options::StoreOptions;

    #[tokio::test(flavor = "multi_thread")]
    async fn only_a_stop_at_the_very_end_is_clean() {
        let dir = tempfile::tempdir().unwrap();
        let started = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: "0.1.0".to_owned() });
        let end = Event::Turn(TurnEvent::Ended(TurnEnd {
            turn: "t1".into(),
            outcome: TurnOutcome::Stopped,
            model: None,
            usage: Usage::default(),
            recalled: Vec::new(),
        }));
        let cases = [
            (started.clone(), false),
            (Event::Maintenance(MaintenanceEvent::DaemonStopped), true),
            (end, true),
            (started, false),
        ];
        for (event, clean) in cases {
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
