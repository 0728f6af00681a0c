//! Lines and segments of the journal.

use std::fs;
use std::path::Path;

use cairn_store::fuzzing::{in_place_of, line_of, parse, records};
use cairn_types::ports::StoreError;

/// Where the checksum stands in a line, and where what it is of begins.
const CRC_AT: usize = 8;
const REST_AT: usize = 18;

/// The line with the checksum that it would have: a fuzzer does not guess one.
fn sealed(line: &[u8]) -> Vec<u8> {
    let mut line = line.to_vec();
    if line.len() > REST_AT && line.starts_with(b"{\"crc\":\"") {
        let crc = format!("{:08x}\",", crc32c::crc32c(&line[REST_AT..]));
        line[CRC_AT..REST_AT].copy_from_slice(crc.as_bytes());
    }
    line
}

/// What is read of a line is written and read back as it was; a line in its place is as long.
pub fn journal_line(data: &[u8]) {
    drop(parse(data));
    let line = sealed(data);
    let record = match parse(&line) {
        Ok(record) => record,
        Err(why) => return assert!(!why.is_empty(), "a line is refused without a word"),
    };
    let written = line_of(record.clone()).expect("what was read can be written");
    let again = parse(&written).expect("what was written can be read");
    assert_eq!(again, record);
    assert_eq!(line_of(again).expect("is written again"), written, "the same line is written for it");
    if let Some(other) = in_place_of(&line, record.clone()).expect("the line is one") {
        assert_eq!(other.len(), line.len());
        assert_eq!(parse(&other).expect("is read"), record);
    }
}

/// A journal is opened, or its damage is told with its place; opened again it is the same, and what was cut off is kept.
pub fn journal_segment(data: &[u8]) {
    let Some((form, bytes)) = data.split_first() else { return };
    let dir = scratch();
    let journal = dir.path().join("journal");
    fs::create_dir(&journal).expect("a folder can be made");
    let packed = form & 1 == 1;
    let bytes = if packed || form & 2 == 0 { bytes.to_vec() } else { resealed(bytes) };
    let name = if packed { "00000000000000000001.jsonl.gz" } else { "00000000000000000001.jsonl" };
    fs::write(journal.join(name), &bytes).expect("a file can be written");
    match records(dir.path()) {
        Ok(records) => {
            let again = cairn_store::fuzzing::records(dir.path());
            assert_eq!(again.expect("opens again"), records);
            for (before, after) in records.iter().zip(records.iter().skip(1)) {
                assert!(before.n < after.n, "numbers do not rise");
            }
            if !packed {
                assert_eq!(
                    left_of(dir.path(), &journal.join(name)),
                    bytes,
                    "bytes are neither there nor kept"
                );
            }
        }
        Err(StoreError::Damaged { file, line, message }) => {
            assert!(file.contains("00000000000000000001.jsonl") && line > 0 && !message.is_empty());
            assert_eq!(left_of(dir.path(), &journal.join(name)), bytes, "bytes are neither there nor kept");
        }
        Err(error) => panic!("neither opened nor damaged: {error}"),
    }
}

/// All lines with the checksums that they would have.
fn resealed(bytes: &[u8]) -> Vec<u8> {
    let lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(sealed).collect();
    lines.join(&b'\n')
}

/// The segment with what was cut off it.
fn left_of(state: &Path, segment: &Path) -> Vec<u8> {
    let mut bytes = fs::read(segment).expect("is there");
    for entry in fs::read_dir(state.join("quarantine")).into_iter().flatten() {
        bytes.extend(fs::read(entry.expect("is listed").path()).expect("is read"));
    }
    bytes
}

/// A folder in memory, where there is one: nothing waits for a disk.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
        .expect("a folder can be made")
}
