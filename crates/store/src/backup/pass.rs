//! One pass over a file: copied, its checksum taken and its journal lines checked on the way, in bounded memory.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cairn_core::event::Record;
use cairn_core::ports::StoreError;
use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use super::manifest::hex;
use crate::disk::io_error;
use crate::journal::line;

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// A line that is longer is none.
const LINE_MAX: u64 = 256 << 20;

pub(super) struct Passed {
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// Their SHA-256, in hex.
    pub(super) sha256: String,
}

/// Reads a file, hands out what it reads, and writes it on.
struct Through {
    from: File,
    left: u64,
    out: Option<File>,
    sum: Sha256,
    bytes: u64,
    failed: Option<io::Error>,
}

impl Read for Through {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let want = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.from.read(&mut buf[..want])?;
        self.sum.update(&buf[..n]);
        self.bytes += n as u64;
        self.left -= n as u64;
        if let Some(Err(error)) = self.out.as_mut().map(|out| out.write_all(&buf[..n])) {
            self.failed = Some(error);
            return Err(io::ErrorKind::Other.into());
        }
        Ok(n)
    }
}

pub(super) struct Pass {
    from: PathBuf,
    to: Option<PathBuf>,
    is_bounded: bool,
    through: Through,
}

impl Pass {
    /// Opens a file, to be read up to `end` (none: to its end), and written to `to`, which must not be there yet.
    ///
    /// # Errors
    /// One of them does not open.
    pub(super) fn open(from: &Path, end: Option<u64>, to: Option<&Path>) -> Result<Self, StoreError> {
        let file = File::open(from).map_err(io_error("open", from))?;
        let make = |to: &Path| {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
            made.map_err(io_error("write", to))
        };
        let out = to.map(make).transpose()?;
        let left = end.unwrap_or(u64::MAX);
        let through = Through { from: file, left, out, sum: Sha256::new(), bytes: 0, failed: None };
        Ok(Self { from: from.to_owned(), to: to.map(Path::to_owned), is_bounded: end.is_some(), through })
    }

    /// Passes over all of it.
    ///
    /// # Errors
    /// Reading or writing failed.
    pub(super) fn bytes(mut self) -> Result<Passed, StoreError> {
        let mut buf = vec![0; CHUNK];
        loop {
            match self.through.read(&mut buf) {
                Ok(0) => return self.finish(),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(error)),
            }
        }
    }

    /// Passes over all of it as journal lines, compressed where its name ends in `.gz`, and hands each record to `each`,
    /// which says what is wrong with it.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] for a line that is not whole; reading or writing failed.
    pub(super) fn records(
        mut self,
        mut each: impl FnMut(&Record) -> Result<(), String>,
    ) -> Result<Passed, StoreError> {
        let is_compressed = self.from.extension().is_some_and(|extension| extension == "gz");
        let mut number = 0;
        let walked = if is_compressed {
            let lines = MultiGzDecoder::new(BufReader::with_capacity(CHUNK, &mut self.through));
            walk(&mut BufReader::with_capacity(CHUNK, lines), &mut number, &mut each)
        } else {
            walk(&mut BufReader::with_capacity(CHUNK, &mut self.through), &mut number, &mut each)
        };
        let message = match walked {
            // What may follow compressed data is part of the file, too.
            Ok(()) => return self.bytes(),
            Err(Bad::Line(message)) => message,
            Err(Bad::Read(error)) if is_compressed && self.through.failed.is_none() => error.to_string(),
            Err(Bad::Read(error)) => return Err(self.failure(error)),
        };
        Err(StoreError::Damaged { file: self.from.display().to_string(), line: number, message })
    }

    fn finish(self) -> Result<Passed, StoreError> {
        if self.is_bounded && self.through.left > 0 {
            return Err(StoreError::Io {
                action: "read",
                path: self.from.display().to_string(),
                message: format!("it ends {} bytes too early", self.through.left),
            });
        }
        if let (Some(out), Some(to)) = (&self.through.out, &self.to) {
            out.sync_all().map_err(io_error("sync", to))?;
        }
        Ok(Passed { bytes: self.through.bytes, sha256: hex(&self.through.sum.finalize()) })
    }

    fn failure(self, error: io::Error) -> StoreError {
        match (self.through.failed, &self.to) {
            (Some(error), Some(to)) => io_error("write", to)(error),
            _ => io_error("read", &self.from)(error),
        }
    }
}

enum Bad {
    Line(String),
    Read(io::Error),
}

fn walk(
    reader: &mut impl BufRead,
    number: &mut u64,
    each: &mut impl FnMut(&Record) -> Result<(), String>,
) -> Result<(), Bad> {
    let mut line = Vec::new();
    loop {
        *number += 1;
        line.clear();
        let n = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(Bad::Read)?;
        if n == 0 {
            return Ok(());
        }
        let whole = line.strip_suffix(b"\n").ok_or_else(|| Bad::Line("it has no end".to_owned()))?;
        let record = line::parse(whole).map_err(Bad::Line)?;
        each(&record).map_err(Bad::Line)?;
    }
}

#[cfg(test)]
mod tests {
    use cairn_core::event::{Event, MaintenanceEvent, NewRecord};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn compressed_lines_are_checked_as_plain_ones_are_and_copied_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: "0.1.0".to_owned() });
        let body = line::body(&NewRecord { channel: None, at: Timestamp::UNIX_EPOCH, event }).unwrap();
        let mut plain = Vec::new();
        (1..=100).for_each(|n| line::frame(&mut plain, n, 0, &body));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&plain).unwrap();
        let compressed = encoder.finish().unwrap();
        for (name, bytes) in [("1.jsonl", &plain), ("1.jsonl.gz", &compressed)] {
            let (from, to) = (dir.path().join(name), dir.path().join(format!("copy-of-{name}")));
            std::fs::write(&from, bytes).unwrap();
            let mut seen = 0;
            let pass = Pass::open(&from, None, Some(&to)).unwrap();
            let passed = pass.records(|record| {
                seen += 1;
                (record.n == seen).then_some(()).ok_or_else(|| "out of order".to_owned())
            });
            assert_eq!(passed.unwrap().bytes, bytes.len() as u64);
            assert_eq!((seen, &std::fs::read(&to).unwrap()), (100, bytes));
            for at in (0..bytes.len()).step_by(7) {
                let mut bad = bytes.clone();
                bad[at] ^= 0x10;
                std::fs::write(&from, &bad).unwrap();
                let passed = Pass::open(&from, None, None).unwrap().records(|_| Ok(()));
                // The head of a gzip file has bytes that mean nothing; what they hold is whole then.
                let same = name.ends_with(".gz") && at < 10;
                assert!(passed.is_err() || same, "{name}: a flipped bit of byte {at} went unnoticed");
            }
        }
    }
}
