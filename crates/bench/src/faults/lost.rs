//! What may be missing after a fault: what its lines and files held, and nothing else.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::prepared::{Entries, is_packed};
use super::{Case, require};

/// Where the header of a member of a compressed segment says how long the member is, and where the header ends.
const LENGTH_AT: usize = 16;
const HEADER_BYTES: usize = 24;

/// The records whose lines were in a segment of the prepared state and are not whole in it now. Of a compressed segment,
/// these are all lines of a damaged member, and all behind a damaged header.
pub(super) async fn lost_records(case: &Case<'_>, segment: &Path) -> io::Result<Vec<Value>> {
    let within = segment.strip_prefix(case.state()).map_err(io::Error::other)?;
    let path = case.prepared.state.join(within);
    let before = std::fs::read(&path)?;
    let now = match std::fs::read(segment) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let (before, now) = if is_packed(segment) {
        let kept = case.dir.join("kept.gz");
        std::fs::write(&kept, whole_members(&before, &now))?;
        (words_of(&path).await?, words_of(&kept).await?)
    } else {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (text(before), text(now))
    };
    // With their line feeds: a line without one is torn.
    let kept: BTreeSet<&str> = now.split_inclusive('\n').collect();
    let lost = before.split_inclusive('\n').filter(|line| !kept.contains(line));
    lost.map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
}

/// The members that are as they were, and that can be found.
fn whole_members(before: &[u8], now: &[u8]) -> Vec<u8> {
    let (mut whole, mut at) = (Vec::new(), 0);
    while let Some(header) = before.get(at..at + HEADER_BYTES) {
        if now.get(at..at + HEADER_BYTES) != Some(header) {
            break;
        }
        let length = [0, 1, 2, 3].map(|n| header[LENGTH_AT + n]);
        let end = at + u32::from_le_bytes(length) as usize;
        if now.get(at..end) == before.get(at..end) {
            whole.extend_from_slice(&before[at..end]);
        }
        at = end;
    }
    whole
}

/// What a file says, compressed or not.
pub(super) async fn words_of(path: &Path) -> io::Result<String> {
    let output = tokio::process::Command::new("zcat").arg("-f").arg(path).output().await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether one of these records holds the entry's words or started its turn.
pub(super) fn is_in(records: &[Value], channel: &str, entry: &Value) -> bool {
    records.iter().any(|record| {
        let event = &record["event"];
        let is_its = match event["type"].as_str() {
            Some("accepted") => event["message"] == entry["message"],
            Some("turn_started" | "turn_joined") => {
                event["messages"].as_array().is_some_and(|messages| messages.contains(&entry["message"]))
            }
            Some("entry_added") => event["entry"]["seq"] == entry["seq"],
            _ => false,
        };
        is_its && record["channel"].as_str().is_some_and(|id| id.ends_with(&format!("/{channel}")))
    })
}

/// Every entry says what it said before, unless it may be lost.
pub(super) fn are_kept(
    before: &Entries,
    now: &Entries,
    may_be_lost: impl Fn(&str, &Value) -> bool,
) -> io::Result<()> {
    for (place, entry) in before {
        let (channel, seq) = *place;
        let found = now.get(place).map(|entry| &entry["parts"]);
        require(found == Some(&entry["parts"]) || may_be_lost(channel, entry), || {
            let found = found.map_or_else(|| "nothing".to_owned(), Value::to_string);
            let found: String = found.chars().take(300).collect();
            format!("LOST: entry {seq} of {channel}, which no damage hit, is shown as {found}")
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(len: u8, fill: u8) -> Vec<u8> {
        let mut member = vec![fill; usize::from(len)];
        member[..HEADER_BYTES].fill(7);
        member[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&u32::from(len).to_le_bytes());
        member
    }

    #[test]
    fn a_damaged_member_is_not_whole_and_behind_a_damaged_header_none_is() {
        let [one, two, three] = [member(40, 1), member(50, 2), member(60, 3)];
        let before = [one.as_slice(), &two, &three].concat();
        let flipped = |at: usize| {
            let mut now = before.clone();
            now[at] ^= 1;
            now
        };
        assert_eq!(whole_members(&before, &before), before);
        assert_eq!(whole_members(&before, &flipped(40 + 30)), [one.as_slice(), &three].concat());
        assert_eq!(whole_members(&before, &flipped(40 + 3)), one);
        assert_eq!(whole_members(&before, &before[..100]), [one.as_slice(), &two].concat());
        assert!(whole_members(&before, &before[..30]).is_empty());
        assert!(whole_members(&before, &[]).is_empty());
    }
}
