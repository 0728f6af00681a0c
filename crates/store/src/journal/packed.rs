//! Compressed segments: gzip members of whole lines, one behind the other, that `zless` and `zgrep` read.
//!
//! Every member says in its header how long it is, compressed and not, so that a place in the lines is found by hopping
//! over headers: positions are those of the uncompressed lines, the same before and after. A member that is damaged reads
//! as a line that is none, so that it is found and quarantined like any other damage.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use flate2::read::GzDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use parking_lot::Mutex;

/// Bytes of lines from which on a member is closed: what is read to get at one line.
const MEMBER_BYTES: usize = 128 * 1024;

/// Gzip's magic, deflate, a header with an extra field, no time, no system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff];

/// Our extra field: its name and length.
const EXTRA: [u8; 6] = [12, 0, b'C', b'N', 8, 0];

const HEADER_BYTES: usize = HEAD.len() + EXTRA.len() + 8;

/// A longer line is none of ours.
const MEMBER_MAX: u32 = 1 << 28;

/// Deflate makes no more of a byte.
const INFLATED_MAX: u64 = 1032;

#[derive(Debug, Clone, Copy)]
struct Member {
    /// Its first byte in the lines.
    at: u64,
    /// Its bytes of lines.
    len: u32,
    /// Its first byte in the file.
    file_at: u64,
    /// Its bytes in the file.
    file_len: u32,
}

/// The member that was inflated last, by its place.
type Inflated = Option<(usize, Arc<Vec<u8>>)>;

/// A compressed segment, read as if it were not.
pub(crate) struct Packed {
    file: File,
    members: Vec<Member>,
    len: u64,
    last: Mutex<Inflated>,
}

impl Packed {
    /// Finds the members. What follows a header that cannot be read is not there.
    pub(crate) fn open(file: File) -> io::Result<Self> {
        let end = file.metadata()?.len();
        let (mut members, mut file_at, mut at) = (Vec::new(), 0, 0);
        while let Some((file_len, len)) = header(&file, file_at)? {
            // For a length that is damaged, or a file that is cut off, no more memory is taken than there can be lines.
            let most = (end - file_at).min(u64::from(file_len)) * INFLATED_MAX;
            let len = u64::from(len).min(most) as u32;
            members.push(Member { at, len, file_at, file_len });
            at += u64::from(len);
            file_at += u64::from(file_len);
            if file_at >= end {
                break;
            }
        }
        Ok(Self { file, members, len: at, last: Mutex::default() })
    }

    /// Bytes of lines.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Reads from a place of the lines on; 0 at their end.
    pub(crate) fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let idx = self.members.partition_point(|member| member.at + u64::from(member.len) <= offset);
        let Some(member) = self.members.get(idx) else { return Ok(0) };
        let bytes = self.inflated(idx, member)?;
        let here = bytes.get((offset - member.at) as usize..).unwrap_or_default();
        let n = here.len().min(out.len());
        out[..n].copy_from_slice(&here[..n]);
        Ok(n)
    }

    pub(crate) fn forget_inflated(&self) {
        *self.last.lock() = None;
    }

    #[cfg(test)]
    pub(crate) fn is_inflated(&self) -> bool {
        self.last.lock().is_some()
    }

    fn inflated(&self, idx: usize, member: &Member) -> io::Result<Arc<Vec<u8>>> {
        if let Some((last, bytes)) = &*self.last.lock()
            && *last == idx
        {
            return Ok(bytes.clone());
        }
        let mut bytes = Vec::with_capacity(member.len as usize);
        // One that the file's end cuts off is damaged.
        let mut sound = member.file_at + u64::from(member.file_len) <= self.file.metadata()?.len();
        if sound {
            let mut packed = vec![0; member.file_len as usize];
            self.file.read_exact_at(&mut packed, member.file_at)?;
            let most = u64::from(member.len) + 1;
            sound = GzDecoder::new(packed.as_slice()).take(most).read_to_end(&mut bytes).is_ok();
        }
        if !sound || bytes.len() != member.len as usize {
            // Its lines are lost; the next member begins a line of its own.
            bytes = vec![0; member.len as usize];
            bytes.last_mut().into_iter().for_each(|last| *last = b'\n');
        }
        let bytes = Arc::new(bytes);
        *self.last.lock() = Some((idx, bytes.clone()));
        Ok(bytes)
    }
}

/// The lengths of the member that begins there, in the file and of its lines.
fn header(file: &File, at: u64) -> io::Result<Option<(u32, u32)>> {
    let mut header = [0; HEADER_BYTES];
    match file.read_exact_at(&mut header, at) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (fixed, lengths) = header.split_at(HEAD.len() + EXTRA.len());
    let number =
        |at: usize| lengths.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
    let (Some(file_len), Some(len)) = (number(0), number(4)) else { return Ok(None) };
    let ours = fixed == [HEAD.as_slice(), EXTRA.as_slice()].concat();
    let fits = file_len as usize > HEADER_BYTES && file_len < MEMBER_MAX && (1..MEMBER_MAX).contains(&len);
    Ok((ours && fits).then_some((file_len, len)))
}

/// Writes a compressed segment, line by line.
pub(crate) struct Packer<W: Write> {
    out: W,
    lines: Vec<u8>,
}

impl<W: Write> Packer<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, lines: Vec::with_capacity(MEMBER_BYTES * 2) }
    }

    pub(crate) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.lines.extend_from_slice(line);
        if self.lines.len() >= MEMBER_BYTES { self.close_member() } else { Ok(()) }
    }

    fn close_member(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let mut crc = Crc::new();
        crc.update(&self.lines);
        let mut member = [HEAD.as_slice(), &EXTRA, &[0; 8]].concat();
        let mut encoder = DeflateEncoder::new(&mut member, Compression::default());
        encoder.write_all(&self.lines)?;
        encoder.finish()?;
        member.extend_from_slice(&crc.sum().to_le_bytes());
        member.extend_from_slice(&crc.amount().to_le_bytes());
        let lengths = HEAD.len() + EXTRA.len();
        let file_len = member.len() as u32;
        member[lengths..lengths + 4].copy_from_slice(&file_len.to_le_bytes());
        member[lengths + 4..lengths + 8].copy_from_slice(&(self.lines.len() as u32).to_le_bytes());
        self.lines.clear();
        self.out.write_all(&member)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.close_member()?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(n: usize) -> Vec<String> {
        (0..n)
            .map(|n| format!("{{\"line\":{n},\"words\":\"{}\"}}\n", "tea and bread ".repeat(n % 700)))
            .collect()
    }

    fn packed(lines: &[String]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut packer = Packer::new(&mut file);
        lines.iter().for_each(|line| packer.line(line.as_bytes()).unwrap());
        packer.finish().unwrap();
        file
    }

    fn read_all(packed: &Packed) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 10_000]);
        loop {
            let n = packed.read_at(&mut buffer, all.len() as u64).unwrap();
            if n == 0 {
                return all;
            }
            all.extend_from_slice(&buffer[..n]);
        }
    }

    #[test]
    fn what_is_packed_reads_back_from_any_place_and_by_any_gunzip() {
        let lines = lines(900);
        let whole = lines.concat();
        let file = packed(&lines);
        let packed = Packed::open(file.reopen().unwrap()).unwrap();
        assert!(packed.members.len() > 3 && packed.len() == whole.len() as u64);
        assert_eq!(read_all(&packed), whole.as_bytes());
        let mut out = [0; 40];
        let n = packed.read_at(&mut out, 777_777).unwrap();
        assert_eq!(&out[..n], &whole.as_bytes()[777_777..777_777 + n]);
        let mut unzipped = String::new();
        flate2::read::MultiGzDecoder::new(file.reopen().unwrap()).read_to_string(&mut unzipped).unwrap();
        assert_eq!(unzipped, whole);
        assert!(file.as_file().metadata().unwrap().len() < whole.len() as u64 / 10);
    }

    #[test]
    fn a_damaged_member_costs_its_own_lines_alone() {
        let lines = lines(900);
        let file = packed(&lines);
        let before = Packed::open(file.reopen().unwrap()).unwrap();
        let (first, second) = (before.members[0], before.members[1]);
        file.as_file().write_at(&[0xff; 8], first.file_at + 200).unwrap();
        let damaged = Packed::open(file.reopen().unwrap()).unwrap();
        let all = read_all(&damaged);
        let whole = lines.concat();
        assert_eq!(all.len(), whole.len());
        assert_eq!(all[second.at as usize..], whole.as_bytes()[second.at as usize..]);
        assert_eq!(all[..second.at as usize].iter().filter(|byte| **byte == b'\n').count(), 1);
    }

    #[test]
    fn a_length_that_lies_takes_no_memory_and_is_damage() {
        let file = packed(&lines(900));
        let members = Packed::open(file.reopen().unwrap()).unwrap().members;
        let (before, last) = (members[members.len() - 2], members[members.len() - 1]);
        let lengths = last.file_at + (HEAD.len() + EXTRA.len()) as u64;
        let long = (MEMBER_MAX - 1).to_le_bytes();
        file.as_file().write_at(&[long, long].concat(), lengths).unwrap();
        let damaged = Packed::open(file.reopen().unwrap()).unwrap();
        let most = u64::from(last.file_len) * INFLATED_MAX;
        assert_eq!(damaged.len(), before.at + u64::from(before.len) + most);
        let all = read_all(&damaged);
        assert!(all[last.at as usize..all.len() - 1].iter().all(|byte| *byte == 0) && all.ends_with(b"\n"));
    }

    #[test]
    fn what_follows_a_broken_header_is_not_there() {
        let file = packed(&lines(900));
        let second = Packed::open(file.reopen().unwrap()).unwrap().members[1];
        file.as_file().write_at(b"??", second.file_at).unwrap();
        assert_eq!(Packed::open(file.reopen().unwrap()).unwrap().len(), second.at);
    }
}
