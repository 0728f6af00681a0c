//! The format of a journal line.
//!
//! `{"crc":"9ae3f01c","v":2,"n":12,"left":1,"at":"…","channel":"…","event":{…}}`, then a line feed.
//!
//! `crc` is the CRC32C, in eight lower-case hex digits, of every byte after its comma up to the line feed, which is not
//! counted. `v` is the version of this format. `left` says how many records of the same append follow (none: it is not
//! written), so that a crash in the midst of an append leaves all of its records or none.

use cairn_types::event::{Event, MaintenanceEvent, NewRecord, Record};
use cairn_types::ids::ChannelId;
use cairn_types::ports::StoreError;
use jiff::Timestamp;
use memchr::memmem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::files::format::FORMAT;

/// The version of lines that this program writes: the state folder's format, so that a program that does not know the one
/// does not read the other. It reads all earlier ones.
pub(crate) const VERSION: u32 = FORMAT;

/// What stands between the numbers of a line and its body.
const BODY: &[u8] = b",\"at\":";

/// What the event of a line begins with.
const EVENT: &[u8] = b",\"event\":{";

/// The type of the event, which follows the channel's name, stands in the first bytes of a line.
const HEAD_BYTES: usize = 1024;

const CRC_AT: usize = 8;
const REST_AT: usize = 18;

#[derive(Serialize)]
struct Body<'a> {
    at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: &'a Option<ChannelId>,
    event: &'a Event,
}

#[derive(Deserialize)]
struct Head {
    v: u32,
    n: u64,
    #[serde(default)]
    left: u32,
}

/// All but the event.
#[derive(Deserialize)]
struct Frame {
    v: u32,
    n: u64,
    #[serde(default, rename = "left")]
    _left: u32,
    at: Timestamp,
    #[serde(default)]
    channel: Option<ChannelId>,
}

#[derive(Deserialize)]
struct Whole {
    v: u32,
    n: u64,
    #[serde(default, rename = "left")]
    _left: u32,
    at: Timestamp,
    #[serde(default)]
    channel: Option<ChannelId>,
    event: Event,
}

/// The part of a line that does not depend on its number, without the opening brace.
pub(crate) fn body(record: &NewRecord) -> Result<String, StoreError> {
    let body = Body { at: record.at, channel: &record.channel, event: &record.event };
    let mut text = serde_json::to_string(&body).map_err(|error| StoreError::Io {
        action: "encode a record for",
        path: "the journal".to_owned(),
        message: error.to_string(),
    })?;
    text.remove(0);
    Ok(text)
}

/// The body within a line; `None`: it is no line.
pub(crate) fn body_of(line: &[u8]) -> Option<&[u8]> {
    // Only numbers come before it.
    line.get(memmem::find(line, BODY)? + 1..)
}

/// Adds the line of a record to `out`.
pub(crate) fn frame(out: &mut Vec<u8>, n: u64, left: u32, body: &str) {
    let start = out.len();
    out.extend_from_slice(b"{\"crc\":\"00000000\",");
    out.extend_from_slice(format!("\"v\":{VERSION},\"n\":{n},").as_bytes());
    if left > 0 {
        out.extend_from_slice(format!("\"left\":{left},").as_bytes());
    }
    out.extend_from_slice(body.as_bytes());
    let crc = crc32c::crc32c(&out[start + REST_AT..]);
    out[start + CRC_AT..start + REST_AT - 2].copy_from_slice(format!("{crc:08x}").as_bytes());
    out.push(b'\n');
}

/// The line of a record that ends its append, without its line feed.
pub(crate) fn of(record: Record) -> Result<Vec<u8>, StoreError> {
    let Record { n, at, channel, event } = record;
    let mut out = Vec::new();
    frame(&mut out, n, 0, &body(&NewRecord { channel, at, event })?);
    out.pop();
    Ok(out)
}

/// The line of a record that stands in the place of a line without its line feed, just as long: what it is shorter is
/// filled up with spaces, so that places in the segment stay. `None`: it would be longer.
pub(crate) fn in_place_of(line: &[u8], record: Record) -> Result<Option<Vec<u8>>, String> {
    let (n, left) = number(line)?;
    let Record { n: _, at, channel, event } = record;
    let mut text = body(&NewRecord { channel, at, event }).map_err(|error| error.to_string())?;
    let mut framed = Vec::with_capacity(line.len() + 1);
    frame(&mut framed, n, left, &text);
    let Some(shorter) = (line.len() + 1).checked_sub(framed.len()) else { return Ok(None) };
    text.push_str(&" ".repeat(shorter));
    framed.clear();
    frame(&mut framed, n, left, &text);
    framed.pop();
    Ok(Some(framed))
}

/// Checks frame and checksum of a line without its line feed. Says what is wrong.
pub(crate) fn check(line: &[u8]) -> Result<(), String> {
    if line.len() < REST_AT || &line[..CRC_AT] != b"{\"crc\":\"" || &line[REST_AT - 2..REST_AT] != b"\"," {
        return Err("not a journal line".to_owned());
    }
    let crc = format!("{:08x}", crc32c::crc32c(&line[REST_AT..]));
    if crc.as_bytes() != &line[CRC_AT..REST_AT - 2] {
        return Err("its checksum does not match".to_owned());
    }
    Ok(())
}

/// The number of a line whose checksum is right, and how many of its append follow, without reading the event.
pub(crate) fn number(line: &[u8]) -> Result<(u64, u32), String> {
    check(line)?;
    let head: Head = match memmem::find(line, BODY).and_then(|at| read_before(line, at)) {
        Some(head) => head,
        None => serde_json::from_slice(line).map_err(|error| error.to_string())?,
    };
    known_version(head.v)?;
    Ok((head.n, head.left))
}

/// Reads the part of a line before `to`. `None`: this program writes no such part.
fn read_before<T: DeserializeOwned>(line: &[u8], to: usize) -> Option<T> {
    serde_json::from_slice(&[&line[..to], b"}"].concat()).ok()
}

/// Number, last number that it stands for, records of its append that follow, and end of a line.
pub(crate) fn read_number(bytes: &[u8], offset: u64) -> Result<(u64, u64, u32, u64), String> {
    let (n, left) = number(bytes)?;
    // Rare, and the only events that stand for more than one number.
    let to_n = if names(bytes, b"lines_quarantined\"") || names(bytes, b"records_removed\"") {
        last_n(&parse(bytes)?.event, n)
    } else {
        n
    };
    Ok((n, to_n, left, offset + bytes.len() as u64 + 1))
}

/// The last number that a record stands for: its own, unless lines were quarantined or taken out in its place.
pub(crate) fn last_n(event: &Event, n: u64) -> u64 {
    match event {
        Event::Maintenance(
            MaintenanceEvent::LinesQuarantined { to_n, .. } | MaintenanceEvent::RecordsRemoved { to_n, .. },
        ) => n.max(*to_n),
        _ => n,
    }
}

/// Whether a line has these bytes where the type of its event stands, or elsewhere near its beginning.
pub(crate) fn names(line: &[u8], kind: &[u8]) -> bool {
    memmem::find(&line[..line.len().min(HEAD_BYTES)], kind).is_some()
}

/// The version of the format of a line whose checksum is right.
pub(crate) fn version(line: &[u8]) -> Option<u32> {
    check(line).ok()?;
    serde_json::from_slice::<Head>(line).ok().map(|head| head.v)
}

/// Checks and reads a line without its line feed. Says what is wrong.
pub(crate) fn parse(line: &[u8]) -> Result<Record, String> {
    check(line)?;
    if let Some(record) = as_written(line) {
        return Ok(record);
    }
    match serde_json::from_slice::<Whole>(line) {
        Ok(whole) => {
            known_version(whole.v)?;
            let Whole { v: _, n, _left: _, at, channel, event } = whole;
            Ok(Record { n, at, channel, event })
        }
        Err(error) if !error.is_data() => Err(error.to_string()),
        Err(error) => {
            number(line)?;
            Err(format!("its event is not known to this version: {error}"))
        }
    }
}

/// Reads a line as this program writes it, whose event begins with its type: in half the time. `None`: it must be read by its
/// keys.
fn as_written(line: &[u8]) -> Option<Record> {
    // No string before the event has a quote that is not escaped.
    let at = memmem::find(line, EVENT)?;
    // Checked as UTF-8 once, not once for each string in it.
    let event =
        std::str::from_utf8(line.trim_ascii_end().get(at + EVENT.len() - 1..)?.strip_suffix(b"}")?).ok()?;
    let (kind, _) = event.strip_prefix("{\"type\":\"")?.split_once('"')?;
    let Frame { v, n, _left: _, at, channel } = read_before(line, at)?;
    known_version(v).ok()?;
    let mut event = serde_json::Deserializer::from_str(event);
    let read = Event::of_kind(kind, &mut event).ok()?;
    event.end().ok()?;
    Some(Record { n, at, channel, event: read })
}

fn known_version(v: u32) -> Result<(), String> {
    if v > VERSION {
        return Err(format!("written in format {v} by a newer version; this one knows up to {VERSION}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> NewRecord {
        NewRecord {
            channel: "main/local/main".parse().ok(),
            at: Timestamp::UNIX_EPOCH,
            event: Event::Maintenance(MaintenanceEvent::DaemonStarted { version: "0.1.0".to_owned() }),
        }
    }

    #[test]
    fn a_line_is_pinned_and_reads_back() {
        let mut out = Vec::new();
        frame(&mut out, 12, 1, &body(&sample()).unwrap());
        let text = String::from_utf8(out.clone()).unwrap();
        assert_eq!(
            &text[17..],
            ",\"v\":2,\"n\":12,\"left\":1,\"at\":\"1970-01-01T00:00:00Z\",\"channel\":\"main/local/main\",\
             \"event\":{\"type\":\"daemon_started\",\"version\":\"0.1.0\"}}\n"
        );
        let line = &out[..out.len() - 1];
        assert_eq!(number(line).unwrap(), (12, 1));
        let record = parse(line).unwrap();
        assert_eq!((record.n, record.event, record.channel), (12, sample().event, sample().channel));
    }

    #[test]
    fn a_line_that_takes_the_place_of_another_is_just_as_long() {
        let mut out = Vec::new();
        frame(&mut out, 12, 3, &body(&sample()).unwrap());
        out.pop();
        let record = parse(&out).unwrap();
        let shorter = Record { event: Event::Maintenance(MaintenanceEvent::DaemonStopped), ..record.clone() };
        let line = in_place_of(&out, shorter.clone()).unwrap().unwrap();
        assert_eq!(
            (line.len(), parse(&line).unwrap(), number(&line).unwrap()),
            (out.len(), shorter, (12, 3))
        );
        assert_eq!(in_place_of(&out, record.clone()).unwrap().unwrap(), out, "the same is the same");
        let again = in_place_of(&line, parse(&line).unwrap()).unwrap().unwrap();
        assert_eq!(again, line, "filled up once");
        let longer =
            Event::Maintenance(MaintenanceEvent::DaemonStarted { version: "0.1.0-and-more".to_owned() });
        assert_eq!(in_place_of(&out, Record { event: longer, ..record }).unwrap(), None);
    }

    #[test]
    fn a_line_is_read_as_it_is_written_and_by_its_keys_alike() {
        let fixtures = include_str!("../../tests/fixtures/events.jsonl");
        for line in fixtures.lines() {
            let event: Event = serde_json::from_value(
                serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].clone(),
            )
            .unwrap_or_else(|error| panic!("{error}: {line}"));
            let mut out = Vec::new();
            let channel = "main/local/a \",\"event\":{ b".parse().ok();
            let record = NewRecord { channel, event, ..sample() };
            frame(&mut out, 7, 1, &body(&record).unwrap());
            out.pop();
            out.extend_from_slice(b"  ");
            let read = as_written(&out).unwrap_or_else(|| panic!("{line}"));
            let by_keys: Whole = serde_json::from_slice(&out).unwrap();
            assert_eq!((read.event, read.channel, read.n), (by_keys.event, by_keys.channel, by_keys.n));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_line_is_noticed() {
        let mut out = Vec::new();
        frame(&mut out, 3, 0, &body(&sample()).unwrap());
        out.pop();
        for bit in 0..out.len() * 8 {
            out[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&out).is_err(), "bit {bit} went unnoticed");
            out[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_line_that_is_no_json_is_not_said_to_be_of_another_version() {
        let mut out = Vec::new();
        frame(&mut out, 3, 0, "\"at\":\"1970-01-01T00:00:00Z\",\"event\":{{}");
        out.pop();
        let why = parse(&out).unwrap_err();
        assert!(why.starts_with("key must be a string") && !why.contains("version"), "{why}");
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let mut out = Vec::new();
        frame(&mut out, 3, 0, &body(&sample()).unwrap());
        let text = String::from_utf8(out).unwrap().replace("\"v\":2", "\"v\":3");
        let crc = crc32c::crc32c(&text.trim_end().as_bytes()[REST_AT..]);
        let text = format!("{{\"crc\":\"{crc:08x}\",{}", &text.trim_end()[REST_AT..]);
        assert!(parse(text.as_bytes()).unwrap_err().contains("newer version"));
    }
}
