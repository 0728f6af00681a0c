//! ZIP archives, as far as office documents need them: stored and deflated files, found by the central directory. The form:
//! APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12 and 4.3.16. No name is ever a path here.

use std::io::Read as _;

use flate2::read::DeflateDecoder;
use memchr::memmem;

/// Most files in an archive.
const ENTRIES_MAX: usize = 10_000;

const END: &[u8] = b"PK\x05\x06";
const CENTRAL: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";

/// Bytes of these records without what varies.
const END_BYTES: usize = 22;
const CENTRAL_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;

/// Longest comment behind the end of an archive.
const COMMENT_MAX: usize = 0xffff;

pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    method: usize,
    packed: usize,
    /// Where its own header begins.
    at: usize,
}

/// A number of 2 or 4 bytes, the lowest first.
fn number(bytes: &[u8], at: usize, n: usize) -> Option<usize> {
    let digits = bytes.get(at..at.checked_add(n)?)?;
    Some(digits.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

impl<'a> Archive<'a> {
    /// `None`: it is no archive, or has too many files.
    pub(super) fn open(bytes: &'a [u8]) -> Option<Self> {
        let from = bytes.len().saturating_sub(END_BYTES + COMMENT_MAX);
        let end = from + memmem::rfind(&bytes[from..], END)?;
        let (n, mut at) = (number(bytes, end + 10, 2)?, number(bytes, end + 16, 4)?);
        if n > ENTRIES_MAX {
            return None;
        }
        let mut entries = Vec::new();
        for _ in 0..n {
            let head = bytes.get(at..)?.get(..CENTRAL_BYTES).filter(|head| head.starts_with(CENTRAL))?;
            let field = |at, n| number(head, at, n);
            let (name_len, flags) = (field(28, 2)?, field(8, 2)?);
            let name = bytes.get(at + CENTRAL_BYTES..)?.get(..name_len)?;
            // The first bit: it is encrypted.
            if flags & 1 == 0 {
                let name = String::from_utf8_lossy(name).into_owned();
                entries.push(Entry { name, method: field(10, 2)?, packed: field(20, 4)?, at: field(42, 4)? });
            }
            at += CENTRAL_BYTES + name_len + field(30, 2)? + field(32, 2)?;
        }
        Some(Self { bytes, entries })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// At most so many bytes of a file, and whether they are all of it; `None`: there is no such file.
    pub(super) fn file(&self, name: &str, most: usize) -> Option<(Vec<u8>, bool)> {
        let Entry { method, packed, at, .. } = self.entries.iter().find(|entry| entry.name == name)?;
        let head = self.bytes.get(*at..)?.get(..LOCAL_BYTES).filter(|head| head.starts_with(LOCAL))?;
        let from = at + LOCAL_BYTES + number(head, 26, 2)? + number(head, 28, 2)?;
        let rest = self.bytes.get(from..)?;
        let packed = &rest[..rest.len().min(*packed)];
        let mut file = Vec::new();
        let limit = most as u64 + 1;
        let read = match method {
            0 => packed.take(limit).read_to_end(&mut file),
            8 => DeflateDecoder::new(packed).take(limit).read_to_end(&mut file),
            _ => return None,
        };
        let is_whole = read.is_ok() && file.len() <= most;
        file.truncate(most);
        Some((file, is_whole))
    }
}
