//! A state in which much has happened, made once and copied for each fault: closed segments, packed ones among them,
//! summaries, memories, artifacts; and all that it shows.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use cairn_testkit::daemon::{Client, Daemon, PATIENCE};
use cairn_testkit::disk::Disk;

use super::{copy, require, run_cairn};

/// Whoever makes it talks in a small window, so that there are compactions; segments are as small as they can be.
const MAKING: &str =
    "[defaults]\ncontext_window = 64000\n\n[store]\nsegment_mib = 1\n\n[retention]\ncompress_days = 1\n";

/// Nothing happens by itself: what is shown twice is the same.
const CONFIG: &str = "[defaults]\ncontext_window = 64000\n\n[defaults.compaction]\nenabled = false\n\n[store]\nsegment_mib = 1\n";

pub(super) const CHANNELS: [&str; 3] = ["main", "letters", "garden"];

/// Says things in one channel, and is forgotten by some commands.
pub(super) const FORGOTTEN: &str = "local/bert";

/// Is in each message of whom is forgotten, and nowhere else.
pub(super) const BERTS: &str = "wombat";

/// Some dozen messages fill a segment, and one in ten becomes an artifact. One long word, which costs an index nothing.
const LONG: &str = "we0walked0along0the0river0to0the0old0mill0";

/// What paths of the socket answer.
pub(super) type Shown = BTreeMap<String, Value>;

/// What histories show, by channel and number of the entry.
pub(super) type Entries = BTreeMap<(&'static str, u64), Value>;

pub(super) struct Prepared {
    pub(super) state: PathBuf,
    pub(super) shown: Shown,
    pub(super) entries: Entries,
}

impl Prepared {
    pub(super) async fn make(cairn: &Path, dir: &Path, disk: &Disk) -> io::Result<Self> {
        let (state, config) = (dir.join("state"), dir.join("config.toml"));
        std::fs::create_dir_all(&state)?;
        std::fs::write(&config, MAKING)?;
        let daemon = Daemon::start(cairn, &state, Some(&config)).await?;
        let client = daemon.client();
        let talks = CHANNELS.map(|channel| talk(client.clone(), channel));
        futures::future::try_join_all(talks).await?;
        let memory = json!({ "agent": "main", "kind": "fact", "scope": "agent", "text": "Ann likes tea." });
        require(client.ask("POST", "/v1/memories", &memory).await?.0.is_success(), || {
            "no memory".to_owned()
        })?;
        idle(&client).await?;
        // No further run starts before the stop.
        std::fs::write(&config, format!("{MAKING}\n[defaults.compaction]\nenabled = false\n"))?;
        let (status, told) = client.ask("POST", "/v1/reload", &json!({})).await?;
        require(status.is_success(), || format!("{status}: {told}"))?;
        idle(&client).await?;
        require(daemon.stop().await?.success(), || "it did not stop".to_owned())?;
        // A day later the closed segments are packed.
        disk.set_clock(2 * 86_400)?;
        let packed = run_cairn(cairn, disk, &state, &config, &["store", "retain"]).await?;
        disk.set_clock(0)?;
        require(packed.code == Some(0), || packed.stderr.clone())?;
        let n_packed = super::files(&state.join("journal"))?.iter().filter(|path| is_packed(path)).count();
        require(n_packed > 0, || format!("no segment was packed: {}", packed.stdout))?;
        std::fs::write(&config, CONFIG)?;
        // Once more, for what a start keeps.
        let daemon = Daemon::start(cairn, &state, Some(&config)).await?;
        let shown = shown(&daemon.client()).await?;
        let entries = entries_in(&shown);
        require(!entries.is_empty(), || "no history shows anything".to_owned())?;
        require(daemon.stop().await?.success(), || "it did not stop".to_owned())?;
        Ok(Self { state, shown, entries })
    }

    /// A copy of it, with its configuration.
    pub(super) fn copy_to(&self, dir: &Path) -> io::Result<()> {
        copy(&self.state, &dir.join("state"))?;
        std::fs::write(dir.join("config.toml"), CONFIG)
    }
}

pub(super) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// Waits until no run is under way in any channel.
async fn idle(client: &Client) -> io::Result<()> {
    for channel in CHANNELS {
        let is_idle =
            |context: &Value| context["run"].is_null() && context["regions"]["sealed"]["entries"] == 0;
        client.until(&format!("/v1/channels/{channel}/context"), is_idle).await?;
    }
    Ok(())
}

async fn talk(client: Client, channel: &str) -> io::Result<()> {
    for n in 0..50 {
        let is_bert = channel == "garden" && n % 10 == 7;
        let (user, word) = if is_bert { ("bert", BERTS) } else { ("anna", "otter") };
        let repeat = if n % 10 == 9 { 1_500 } else { 400 };
        let text = format!("Remember that the {word} of {channel} {n} likes fish. {}", LONG.repeat(repeat));
        let body = json!({ "user": user, "text": text, "id": format!("{channel}-{n}") });
        let (status, told) = client.ask("POST", &format!("/v1/channels/{channel}/messages"), &body).await?;
        require(status.is_success(), || format!("{status}: {told}"))?;
    }
    Ok(())
}

/// All that a daemon shows of such a state, as `--json` does.
///
/// # Errors
/// What one of its paths answers instead.
pub(super) async fn shown(client: &Client) -> io::Result<Shown> {
    let mut found = Shown::new();
    let mut paths: Vec<String> =
        ["memories?limit=1000", "outbox", "people/erased"].map(|path| format!("/v1/{path}")).into();
    for channel in CHANNELS {
        let (status, mut history) = client.history(channel).await?;
        require(status.is_success(), || format!("{channel}: {status}: {history}"))?;
        without_ages(&mut history);
        found.insert(history_of(channel), history);
        for what in ["context", "search?q=otter&limit=50", "artifacts"] {
            paths.push(format!("/v1/channels/{channel}/{what}"));
        }
    }
    for path in paths {
        let (status, mut value) = client.ask("GET", &path, &Value::Null).await?;
        require(status.is_success(), || format!("{path}: {status}: {value}"))?;
        without_ages(&mut value);
        if path.ends_with("/artifacts") {
            // The copy of a message goes when that leaves the window; one that was given up as lost is asked for.
            let has_left = |artifact: &&Value| {
                artifact["message"].is_u64() && artifact["expired_at"].is_string() && artifact["lost"] != true
            };
            for artifact in value.as_array().into_iter().flatten().filter(|artifact| !has_left(artifact)) {
                let path = format!("{path}/{}", artifact["id"].as_str().unwrap_or_default());
                let (status, whole) = client.ask("GET", &path, &Value::Null).await?;
                require(status.is_success(), || format!("{path}: {status}: {whole}"))?;
                found.insert(path, whole);
            }
        }
        found.insert(path, value);
    }
    Ok(found)
}

fn history_of(channel: &str) -> String {
    format!("/v1/channels/{channel}/history")
}

/// All entries of all histories that are shown.
pub(super) fn entries_in(shown: &Shown) -> Entries {
    let mut found = Entries::new();
    for channel in CHANNELS {
        let entries = shown.get(&history_of(channel)).and_then(Value::as_array).into_iter().flatten();
        found.extend(entries.filter_map(|entry| Some(((channel, entry["seq"].as_u64()?), entry.clone()))));
    }
    found
}

/// All entries of all histories, whatever else is shown.
///
/// # Errors
/// What a history answers instead.
pub(super) async fn entries(client: &Client) -> io::Result<Entries> {
    let mut histories = Shown::new();
    for channel in CHANNELS {
        let (status, history) = client.history(channel).await?;
        require(status.is_success(), || format!("{channel}: {status}: {history}"))?;
        histories.insert(history_of(channel), history);
    }
    Ok(entries_in(&histories))
}

/// Looks until all is shown as before, since what is made again behind it, the index for one, comes later; or until a check of
/// the store finds something. What is shown then, or the error instead, and what the check says.
///
/// # Errors
/// The store cannot be checked.
pub(super) async fn shown_as(before: &Shown, client: &Client) -> io::Result<(io::Result<Shown>, Value)> {
    let began = Instant::now();
    loop {
        let (now, checked) = (shown(client).await, verified(client).await);
        let is_as_before = now.as_ref().is_ok_and(|now| now == before);
        let is_told = checked.as_ref().is_ok_and(|checked| checked["ok"] == false);
        if is_as_before || is_told || began.elapsed() > PATIENCE {
            return Ok((now, checked?));
        }
        // There is no event to wait for.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What a check of the store says.
pub(super) async fn verified(client: &Client) -> io::Result<Value> {
    client.get("/v1/store/verify").await
}

/// What depends on the hour is no difference.
fn without_ages(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("age_seconds");
            fields.values_mut().for_each(without_ages);
        }
        Value::Array(items) => items.iter_mut().for_each(without_ages),
        _ => {}
    }
}
