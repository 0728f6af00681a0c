//! Measures a release binary as a process: start, memory, overhead per turn, replies during a
//! compaction. The model is a fake one in this process that answers at once.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::model::{FakeModel, Kind};
use cairn_testkit::rig::one_model;

const CHANNELS: usize = 1_000;
const ENTRIES: usize = 50;
const TURNS: usize = 400;
const DURING: usize = 200;
const COMPACTION: Duration = Duration::from_secs(10);

pub(crate) async fn run(cairn: &Path, dir: &Path, parts: &[&str]) -> io::Result<()> {
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    println!("binary: {:.1} MB", std::fs::metadata(cairn)?.len() as f64 / 1e6);
    syncs(dir)?;
    if wanted("start") {
        start_and_rss(cairn, dir).await?;
    }
    if wanted("turns") {
        turns(cairn, dir).await?;
    }
    if wanted("during") {
        during_a_compaction(cairn, dir).await?;
    }
    if wanted("channels") {
        many_channels(cairn, dir).await?;
    }
    Ok(())
}

fn print(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{name}: p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

/// What this disk takes for one synced append.
fn syncs(dir: &Path) -> io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::create(dir.join("sync"))?;
    let mut times = Vec::new();
    for _ in 0..200 {
        file.write_all(&[b'x'; 600])?;
        let began = Instant::now();
        file.sync_data()?;
        times.push(began.elapsed());
    }
    print("fdatasync of this disk", times);
    Ok(())
}

fn config(dir: &Path, model: &FakeModel, window: u64) -> io::Result<PathBuf> {
    let path = dir.join("config.toml");
    std::fs::write(&path, one_model(&model.base_url(), window))?;
    Ok(path)
}

async fn start_and_rss(cairn: &Path, dir: &Path) -> io::Result<()> {
    let mut times = Vec::new();
    for n in 0..10 {
        let daemon = Daemon::start(cairn, &dir.join(format!("start-{n}")), None).await?;
        times.push(daemon.ready_after());
        if n == 0 {
            daemon.client().get("/v1/status").await?;
            println!("idle RSS: {:.1} MB", daemon.rss_bytes()? as f64 / 1e6);
        }
        daemon.stop().await?;
    }
    print("cold start to ready", times);
    Ok(())
}

async fn say(client: &Client, channel: &str, n: usize) -> io::Result<Duration> {
    let text =
        format!("We looked at flat number {n} in Lisbon today; it has two balconies and a lemon tree.");
    let began = Instant::now();
    let (status, reply) = client.say(channel, &text).await?;
    let took = began.elapsed();
    if status.is_success() { Ok(took) } else { Err(io::Error::other(format!("{status}: {reply}"))) }
}

async fn turns(cairn: &Path, dir: &Path) -> io::Result<()> {
    let model = FakeModel::builder().lenient().unrecorded().start().await;
    let daemon = Daemon::start(cairn, &dir.join("turns"), Some(&config(dir, &model, 128_000)?)).await?;
    let client = daemon.client();
    let mut times = Vec::new();
    for n in 0..TURNS {
        times.push(say(&client, "main", n).await?);
    }
    print("a turn with an instant model, over the socket, the first 50", times[..50].to_vec());
    print(&format!("the same over {TURNS} turns, all of them in the window"), times);
    daemon.stop().await.map(drop)
}

/// The same messages in the same window, with and without a summary under way that takes ten seconds.
async fn during_a_compaction(cairn: &Path, dir: &Path) -> io::Result<()> {
    for held in [false, true] {
        let model = FakeModel::builder().lenient().unrecorded();
        let model = if held { model.delay(Kind::Compaction, COMPACTION) } else { model };
        let model = model.start().await;
        let state = dir.join(format!("during-{held}"));
        let path = config(dir, &model, 60_000)?;
        if !held {
            let mut text = std::fs::read_to_string(&path)?;
            text.push_str("\n[agents.compaction]\nenabled = false\n");
            std::fs::write(&path, text)?;
        }
        let daemon = Daemon::start(cairn, &state, Some(&path)).await?;
        let client = daemon.client();
        let mut n = 0;
        loop {
            say(&client, "main", n).await?;
            n += 1;
            let context = client.get("/v1/channels/main/context").await?;
            if context["usage_ratio"].as_f64().unwrap_or(1.0) >= 0.80 {
                break;
            }
        }
        let mut times = Vec::new();
        let began = Instant::now();
        for _ in 0..DURING {
            n += 1;
            times.push(say(&client, "main", n).await?);
        }
        let took = began.elapsed();
        let runs = model.tally(Kind::Compaction);
        let name = if held { "during a 10 s summary" } else { "without compaction" };
        print(&format!("{DURING} messages {name} ({:.1} s, runs {runs:?})", took.as_secs_f64()), times);
        daemon.stop().await?;
    }
    Ok(())
}

async fn many_channels(cairn: &Path, dir: &Path) -> io::Result<()> {
    let model = FakeModel::builder().lenient().unrecorded().start().await;
    let daemon = Daemon::start(cairn, &dir.join("many"), Some(&config(dir, &model, 128_000)?)).await?;
    let client = daemon.client();
    let began = Instant::now();
    let mut talks = tokio::task::JoinSet::new();
    for lane in 0..16 {
        let client = client.clone();
        talks.spawn(async move {
            for channel in (lane..CHANNELS).step_by(16) {
                for n in 0..ENTRIES / 2 {
                    say(&client, &format!("c{channel}"), n).await?;
                }
            }
            io::Result::Ok(())
        });
    }
    while let Some(talk) = talks.join_next().await {
        talk.map_err(io::Error::other)??;
    }
    let n_turns = (CHANNELS * ENTRIES / 2) as f64;
    let rate = n_turns / began.elapsed().as_secs_f64();
    println!("{CHANNELS} channels of {ENTRIES} entries: {rate:.0} turns a second");
    println!("RSS with them: {:.1} MB", daemon.rss_bytes()? as f64 / 1e6);
    daemon.stop().await.map(drop)
}
