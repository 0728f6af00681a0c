//! Homes in which something was said, and all that they show.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_testkit::daemon::Client;
use cairn_testkit::home::Home;
use serde_json::Value;
use tokio::sync::OnceCell;

/// A window so small that talk is compacted.
pub(crate) const SMALL: &str = "[defaults]\ncontext_window = 4000\n";

const CONTEXT: &str = "/v1/channels/main/context";

/// A state in which there was talk, compacted, with memories, in several segments. Stopped cleanly. It is made once, and
/// copied for each test.
pub(crate) async fn lived_in(home: &Home) {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    copy(MADE.get_or_init(make).await, &home.state());
    // From here on nothing happens by itself: what is shown twice is the same.
    home.config(&still());
}

/// A configuration in which no run starts by itself.
fn still() -> String {
    format!("{SMALL}\n[defaults.compaction]\nenabled = false\n")
}

async fn make() -> PathBuf {
    let home = crate::home();
    let config = home.config(SMALL);
    let daemon = home.daemon(Some(&config)).await;
    let client = daemon.client();
    for n in 0..30 {
        let text = format!("Number {n}: we looked at flat {n} by the river, my email is ann{n}@example.org.");
        let (status, reply) = client.say("main", &text).await.unwrap();
        assert!(status.is_success(), "{reply}");
    }
    let memory =
        serde_json::json!({ "agent": "main", "kind": "fact", "scope": "agent", "text": "Ann likes tea." });
    let (status, told) = client.ask("POST", "/v1/memories", &memory).await.unwrap();
    assert!(status.is_success(), "{told}");
    // A run that is cut off by the stop would be ended by the next start, and show something else.
    let idle = |context: &Value| context["run"].is_null() && context["regions"]["sealed"]["entries"] == 0;
    client.until(CONTEXT, idle).await.unwrap();
    // No further run starts before the stop.
    home.config(&still());
    let (status, told) = client.ask("POST", "/v1/reload", &serde_json::json!({})).await.unwrap();
    assert!(status.is_success(), "{told}");
    client.until(CONTEXT, idle).await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
    split_journal(&home);
    // Of this process: another run of the same program makes its own, and takes away those of runs that have ended.
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let made = all.join(format!("lived-in-{}", std::process::id()));
    for old in std::fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()) {
        let name = old.file_name().unwrap().to_string_lossy();
        let maker = name.strip_prefix("lived-in-");
        if old == made || maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Two may take it away at once.
            drop(std::fs::remove_dir_all(&old));
        }
    }
    copy(&home.state(), &made);
    made
}

/// Cuts the journal's only segment in three: what rotation does after 64 MiB.
fn split_journal(home: &Home) {
    let journal = home.state().join("journal");
    let whole = std::fs::read_to_string(journal.join("00000000000000000001.jsonl")).unwrap();
    let mut segments: BTreeMap<u64, String> = BTreeMap::new();
    let n_lines = whole.lines().count();
    let mut within = false;
    for (idx, line) in whole.lines().enumerate() {
        let fields: Value = serde_json::from_str(line).unwrap();
        let n = fields["n"].as_u64().unwrap();
        let due = segments.len() < (3 * idx / n_lines) + 1;
        if due && !within {
            segments.insert(n, String::new());
        }
        within = fields["left"].as_u64().unwrap_or(0) > 0;
        let mut last = segments.last_entry().unwrap();
        last.get_mut().push_str(line);
        last.get_mut().push('\n');
    }
    assert_eq!(segments.len(), 3);
    for (first, text) in segments {
        std::fs::write(journal.join(format!("{first:020}.jsonl")), text).unwrap();
    }
    for derived in ["views", "index"] {
        std::fs::remove_dir_all(home.state().join(derived)).unwrap();
    }
    home.cairn(&["search", "main", "river"]).ended(0);
}

/// The journal's segments, in order.
pub(crate) fn segments(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.state().join("journal")).unwrap();
    let mut segments: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    segments
}

/// Waits until no compaction is under way.
pub(crate) async fn settled(client: &Client) {
    client.until(CONTEXT, |context| context["run"].is_null()).await.unwrap();
}

/// All that a daemon shows of its channel, as `--json` does.
pub(crate) async fn shown(client: &Client) -> Result<BTreeMap<&'static str, Value>, String> {
    let mut found = BTreeMap::new();
    for path in [
        CONTEXT,
        "/v1/channels/main/history?limit=10000",
        "/v1/channels/main/search?q=river&limit=50",
        "/v1/memories?limit=1000",
    ] {
        let (status, value) =
            client.ask("GET", path, &Value::Null).await.map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(format!("{status}: {value}"));
        }
        found.insert(path, value);
    }
    Ok(found)
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&path, &target);
        } else if kind.is_file() {
            std::fs::copy(path, target).unwrap();
        }
    }
}

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    found
}
