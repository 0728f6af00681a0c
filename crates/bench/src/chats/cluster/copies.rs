//! The journal in the database beside the copies of it.

use std::io;
use std::path::Path;

use cairn_testkit::postgres::sql;

/// All records: `NUMBER|HOW MANY FOLLOW|BODY`, in order.
pub(super) fn in_database(url: &str) -> Vec<String> {
    let rows = sql(url, "SELECT n, follows, body FROM cairn_event ORDER BY n");
    rows.lines().map(str::to_owned).collect()
}

/// Checks that a copy has these records, from the first on; how many it has.
pub(super) fn begins_as(state: &Path, records: &[String]) -> io::Result<usize> {
    let list = std::fs::read_dir(state.join("journal"))?;
    let mut files = list.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let mut n = 0;
    for file in files {
        for line in std::fs::read_to_string(&file)?.lines() {
            let (here, there) = (record(line), records.get(n).map(String::as_str));
            if here.as_deref() != there {
                let told = format!("record {} of the copy: {line}\nin the database: {there:?}", n + 1);
                return Err(io::Error::other(told));
            }
            n += 1;
        }
    }
    Ok(n)
}

/// A line of the copy as the database has it. What comes before its time are numbers.
fn record(line: &str) -> Option<String> {
    let (head, body) = line.split_once("\"at\":")?;
    let number = |name: &str| {
        let (_, rest) = head.split_once(&format!("\"{name}\":"))?;
        Some(rest.split_once(',')?.0)
    };
    Some(format!("{}|{}|{{\"at\":{body}", number("n")?, number("left").unwrap_or("0")))
}
