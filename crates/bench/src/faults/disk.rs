//! Short faults of the disk under a daemon at work: whatever of the state they meet, and however, it answers again by itself
//! or ends to be started again, and nothing acknowledged is lost.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use cairn_testkit::daemon::{Client, Daemon, PATIENCE, said_in};
use cairn_testkit::disk::{Disk, Fault};

/// The exit code of a daemon that is to be started again because something in it hung.
pub const HUNG: i32 = 6;

/// Turns get no time of their own when it stops.
const CONFIG: &str = "[limits]\nshutdown_secs = 1\n";

/// A stop takes no longer: what the daemon has for it with those turns, and a machine with much else to do.
const STOP_LIMIT: Duration = Duration::from_secs(45);

/// Messages are asked about again after that.
const ASK_LIMIT: Duration = Duration::from_secs(10);

/// Channels that are awake when the fault comes.
const N_CHANNELS: usize = 3;

#[derive(Debug, Clone)]
pub struct Plan {
    pub cairn: PathBuf,
    /// The part of the state that it meets: `journal`, `views` or `index`.
    pub part: &'static str,
    pub fault: Fault,
    pub lasts: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Messages acknowledged, all of them found again.
    pub acknowledged: usize,
    /// Those among them that were answered during the fault, in a channel of their own each.
    pub during: usize,
    /// How long after the fault a message was answered in an old channel and in a new one.
    pub back_after: Duration,
    /// How often the daemon ended, to be started again.
    pub restarts: usize,
    pub stopped_after: Duration,
}

/// Texts that were answered, with the channel of each.
type Acknowledged = Arc<Mutex<BTreeMap<String, String>>>;

/// Says something until it is answered or the time is over. What is said twice has one id.
async fn say(client: &Client, channel: &str, text: &str, limit: Duration, told: &Acknowledged) -> bool {
    let body = json!({ "user": "anna", "text": text, "id": text });
    let path = format!("/v1/channels/{channel}/messages");
    let by = Instant::now() + limit;
    while Instant::now() < by {
        let rest = ASK_LIMIT.min(by - Instant::now());
        if let Ok(Ok((StatusCode::OK, _))) = timeout(rest, client.ask("POST", &path, &body)).await {
            told.lock().insert(text.to_owned(), channel.to_owned());
            return true;
        }
        sleep(Duration::from_millis(50)).await;
    }
    false
}

/// Talks in a channel and looks things up, for as long as it is let.
async fn load(client: Client, channel: String, told: Acknowledged) {
    for n in 0.. {
        say(&client, &channel, &format!("{channel} message {n}"), ASK_LIMIT, &told).await;
        for path in ["/v1/channels".to_owned(), format!("/v1/channels/{channel}/search?q=message")] {
            // What cannot be looked up now is no answer that somebody lacks.
            drop(timeout(ASK_LIMIT, client.get(&path)).await);
        }
    }
}

async fn start(plan: &Plan, disk: &Disk, state: &Path, config: &Path) -> io::Result<Daemon> {
    let vars = disk.vars();
    let vars: Vec<_> = vars.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Daemon::start_with(&vars, &plan.cairn, state, Some(config)).await
}

/// A daemon at work meets the fault; then it is looked at until it answers again, stopped, and what it has is compared with
/// what it has acknowledged.
pub async fn run(plan: &Plan) -> io::Result<Findings> {
    let dir = tempfile::tempdir()?;
    let (state, config) = (dir.path().join("state"), dir.path().join("config.toml"));
    std::fs::write(&config, CONFIG)?;
    let disk = Disk::new(dir.path())?;
    let mut daemon = start(plan, &disk, &state, &config).await?;
    let told = Acknowledged::default();
    let client = daemon.client();
    let loads: Vec<_> = (0..N_CHANNELS)
        .map(|n| tokio::spawn(load(client.clone(), format!("old{n}"), Arc::clone(&told))))
        .collect();
    for n in 0..N_CHANNELS {
        if !say(&client, &format!("old{n}"), "before", PATIENCE, &told).await {
            return Err(io::Error::other("it never answered"));
        }
    }

    disk.fail(&format!("/{}/", plan.part), plan.fault)?;
    let over = Instant::now() + plan.lasts;
    let mut during = 0;
    while Instant::now() < over {
        let text = format!("during {during}");
        if say(&client, &format!("during{during}"), &text, over - Instant::now(), &told).await {
            during += 1;
        }
        sleep(Duration::from_millis(100)).await;
    }
    disk.mend()?;

    let mended = Instant::now();
    let mut restarts = 0;
    let (old, new) = (told.clone(), told.clone());
    let back = async {
        say(&client, "old0", "after", PATIENCE, &old).await
            && say(&client, "new", "after in a new one", PATIENCE, &new).await
    };
    tokio::pin!(back);
    let is_back = loop {
        tokio::select! {
            is_back = &mut back => break is_back,
            status = daemon.wait() => {
                let status = status?;
                if status.code() != Some(HUNG) {
                    return Err(io::Error::other(format!("it ended: {status}\n{}", log(&state))));
                }
                restarts += 1;
                daemon = start(plan, &disk, &state, &config).await?;
            }
        }
    };
    if !is_back {
        return Err(io::Error::other(format!("it never answered again\n{}", log(&state))));
    }
    let back_after = mended.elapsed();
    loads.iter().for_each(tokio::task::JoinHandle::abort);
    for load in loads {
        drop(load.await);
    }

    let began = Instant::now();
    daemon.signal("TERM").await?;
    let status = timeout(STOP_LIMIT, daemon.ended()).await;
    let status = status.map_err(|_late| io::Error::other(format!("it did not stop\n{}", log(&state))))??;
    if ![Some(0), Some(HUNG)].contains(&status.code()) {
        return Err(io::Error::other(format!("it stopped with {status}\n{}", log(&state))));
    }
    let stopped_after = began.elapsed();
    let told = std::mem::take(&mut *told.lock());
    check(plan, &disk, &state, &config, &told).await?;
    Ok(Findings { acknowledged: told.len(), during, back_after, restarts, stopped_after })
}

fn log(state: &Path) -> String {
    std::fs::read_to_string(state.join("daemon.log")).unwrap_or_default()
}

/// What was acknowledged is in the histories, once each, and the store is sound.
async fn check(
    plan: &Plan,
    disk: &Disk,
    state: &Path,
    config: &Path,
    told: &BTreeMap<String, String>,
) -> io::Result<()> {
    let daemon = start(plan, disk, state, config).await?;
    let client = daemon.client();
    let mut histories: BTreeMap<&str, Value> = BTreeMap::new();
    for (text, channel) in told {
        if !histories.contains_key(channel.as_str()) {
            histories.insert(channel, client.history(channel).await?.1);
        }
        let n = said_in(&histories[channel.as_str()]).into_iter().filter(|said| said == text).count();
        if n != 1 {
            return Err(io::Error::other(format!("`{text}` is in the history of {channel} {n} times")));
        }
    }
    let verified = client.get("/v1/store/verify").await?;
    if verified["ok"] != true {
        return Err(io::Error::other(format!("the store is damaged: {verified}")));
    }
    daemon.stop().await.map(drop)
}
