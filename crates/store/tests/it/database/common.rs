//! Stores of journals in databases, and what both sides of them have.

use std::path::Path;

use cairn_core::store_port::Store as _;
use cairn_store::{DatabaseOptions, Standby, StandbyStatus, Store, StoreOptions};
use cairn_testkit::postgres::sql;
use cairn_testkit::watched::GIVE_UP_AFTER;
use cairn_types::event::{ArtifactEvent, Event, MaintenanceEvent, NewRecord};
use cairn_types::message::Artifact;
use cairn_types::ports::StoreError;
use cairn_types::text::checksum::checksum;
use serde_json::Value;
use tokio::time::timeout;

pub(crate) use crate::common::*;

pub(crate) fn options(dir: &Path, url: &str, node: &str) -> StoreOptions {
    let (url, address) = (url.into(), format!("{node}.example:80"));
    let database = Some(DatabaseOptions { url, node: node.to_owned(), address });
    StoreOptions { database, ..StoreOptions::new(dir) }
}

/// A node with a folder of its own, which leads.
pub(crate) fn leader(url: &str, node: &str) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path(), url, node)).unwrap();
    (dir, store)
}

/// A node's folder with twelve records in several segments, closed.
pub(crate) async fn in_segments(dir: &Path, url: &str) -> StoreOptions {
    let options = StoreOptions { segment_bytes: 300, ..options(dir, url, "a") };
    let store = Store::open(options.clone()).unwrap();
    for n in 0..12 {
        say(&store, &format!("number {n}")).await.unwrap();
    }
    store.close().await;
    options
}

/// Waits until a node that stands by is like that.
pub(crate) async fn until(standby: &Standby, what: impl FnMut(&StandbyStatus) -> bool) {
    let mut status = standby.status();
    let is_so = timeout(GIVE_UP_AFTER, status.wait_for(what)).await.is_ok_and(|found| found.is_ok());
    assert!(is_so, "{:?}", status.borrow());
}

/// Stores an artifact with these words, which the journal names.
pub(crate) async fn stored(chat: &mut Chat, id: &str, text: &str) -> Artifact {
    chat.store.put_artifact(&chat.state.channel, &id.into(), text.as_bytes().into()).await.unwrap();
    let sha256 = Some(checksum(text.as_bytes()));
    let artifact = Artifact { sha256, ..artifact(id, text.len() as u64) };
    chat.append(vec![Event::Artifact(ArtifactEvent::Stored { artifact: artifact.clone() })]).await;
    artifact
}

/// Appends a record with these words, and returns its number.
pub(crate) async fn say(store: &Store, words: &str) -> Result<u64, StoreError> {
    say_in(store, "main", words).await
}

pub(crate) async fn say_in(store: &Store, to: &str, words: &str) -> Result<u64, StoreError> {
    let event = Event::Maintenance(MaintenanceEvent::DaemonStarted { version: words.to_owned() });
    let record = NewRecord { channel: Some(channel(to)), at: at(0), event };
    Ok(store.append(vec![record]).await?[0].n)
}

/// The words of all records in the database, with their numbers.
pub(crate) fn in_database(url: &str) -> Vec<String> {
    let words = r#"SELECT n || ' ' || substring(body, '"version":"([^"]*)"') FROM cairn_event ORDER BY n"#;
    let rows = sql(url, words);
    rows.lines().map(str::to_owned).collect()
}

/// The same of the copy in a folder.
pub(crate) fn in_copy(dir: &Path) -> Vec<String> {
    let text = segments(dir).iter().map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>();
    let words = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        format!("{} {}", line["n"], line["event"]["version"].as_str().unwrap())
    };
    text.lines().map(words).collect()
}

/// The lease has run out, as if its time were over.
pub(crate) fn run_out(url: &str) {
    sql(url, "UPDATE cairn_lease SET expires_at = clock_timestamp()");
}
