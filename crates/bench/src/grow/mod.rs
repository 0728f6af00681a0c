//! One state as it grows: what a start, a list, a first turn, a search, a stop and the commands of the store cost at each
//! size. Grown by the release binary itself, over its socket, with a model that answers at once. Behind it, what a turn costs
//! beside much of something else.

mod busy;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_bench::resend::is_to_be_sent_again;
use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::random::Random;
use cairn_testkit::rig::one_model;
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinSet;

const LANES: usize = 16;

/// Pause before a message is sent again that the daemon could not take.
const RESEND_PAUSE: Duration = Duration::from_secs(1);

/// How often messages were sent again since the table of the size before.
static SENT_AGAIN: AtomicU64 = AtomicU64::new(0);

/// Samples of each kind of request.
const SAMPLES: usize = 50;

/// Fewest turns beside something that a p99 is taken of, and how often short work is repeated for them at most.
const BESIDE: usize = 1_000;
const AGAIN: usize = 50;

const SAID: &str = "We looked at flat number {n} in Lisbon today; it has two balconies, a lemon tree and a view of the river, \
    and costs 1,450 euros a month from June on; Anna liked it, and Ben asked about the heating there.";

const ANSWER: &str = "It sounds like a good one: two balconies and a lemon tree are rare there, and the river is near. Ask \
    whether the heating is by gas or by air, what the deposit is, and who pays for the lift in that house.";

pub(crate) struct Plan<'a> {
    pub(crate) cairn: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) n_entries: usize,
    pub(crate) n_channels: usize,
}

struct Run<'a> {
    plan: &'a Plan<'a>,
    config: PathBuf,
    state: PathBuf,
    random: Random,
    entries: usize,
}

/// Grows a state by tens from 1,000 entries on, and measures at each size.
pub(crate) async fn run(plan: &Plan<'_>) -> io::Result<()> {
    let model = model(Duration::ZERO).await;
    let (config, state) = (plan.dir.join("config.toml"), plan.dir.join("state"));
    std::fs::create_dir_all(&state)?;
    std::fs::write(&config, one_model(&model.base_url(), 32_000))?;
    let mut run = Run { plan, config, state, random: Random::new(1), entries: 0 };
    let mut size = plan.n_entries.min(1_000);
    loop {
        run.grow(size).await?;
        run.measure().await?;
        println!("  messages sent again  {}", SENT_AGAIN.swap(0, Ordering::Relaxed));
        if size >= plan.n_entries {
            return busy::run(plan).await;
        }
        size = (size * 10).min(plan.n_entries);
    }
}

impl Run<'_> {
    async fn daemon(&self) -> io::Result<Daemon> {
        Daemon::start(self.plan.cairn, &self.state, Some(&self.config)).await
    }

    async fn grow(&mut self, size: usize) -> io::Result<()> {
        let daemon = self.daemon().await?;
        let (first, n_turns) = (self.entries / 2, (size - self.entries) / 2);
        let began = Instant::now();
        let mut lanes = JoinSet::new();
        for lane in 0..LANES {
            let (client, n_channels) = (daemon.client(), self.plan.n_channels);
            lanes.spawn(async move {
                // A lane has channels of its own: two messages of one never wait for each other.
                for n in (first + lane..first + n_turns).step_by(LANES) {
                    let channel = (n % LANES) + LANES * ((n / LANES) % n_channels.div_ceil(LANES));
                    say(&client, &format!("c{channel}"), n).await?;
                }
                io::Result::Ok(())
            });
        }
        all(lanes).await?;
        self.entries = size;
        let (rss, own) = memory(&daemon)?;
        println!("\n{size} entries in {} channels", self.plan.n_channels);
        println!(
            "  grown at             {:.0} turns a second",
            n_turns as f64 / began.elapsed().as_secs_f64()
        );
        println!("  memory after growth  {rss:.0} MB resident, {own:.0} MB of it not mapped files");
        let began = Instant::now();
        daemon.stop().await?;
        println!("  stop                 {:.2} s", began.elapsed().as_secs_f64());
        Ok(())
    }

    async fn measure(&mut self) -> io::Result<()> {
        self.starts().await?;
        let daemon = self.daemon().await?;
        let client = daemon.client();
        let (rss, own) = memory(&daemon)?;
        println!("  memory after start   {rss:.0} MB resident, {own:.0} MB of it not mapped files");
        let lists = times(3, async || client.get("/v1/channels?limit=100").await.map(drop)).await?;
        print("list of channels", &lists);
        // The bytes of the answer: what a client makes of 400 KB of JSON is its own.
        let whole = async || {
            let path = "/v1/channels?limit=2000";
            let (status, _) = client.raw("GET", path, "application/json", Vec::new()).await?;
            status.is_success().then_some(()).ok_or_else(|| io::Error::other(status.to_string()))
        };
        print("2,000 at first", &times(1, whole).await?);
        print("2,000 channels", &times(SAMPLES, whole).await?);
        let mut first = Vec::new();
        for _ in 0..SAMPLES {
            let channel = format!("c{}", self.random.below(self.plan.n_channels as u64));
            let began = Instant::now();
            say(&client, &channel, self.entries).await?;
            first.push(began.elapsed());
            self.entries += 2;
        }
        print("first turn", &first);
        let again = times(SAMPLES, async || say(&client, "c0", 0).await).await?;
        self.entries += 2 * SAMPLES;
        print("turn", &again);
        for (name, place) in [("search of all", "/v1"), ("search of the largest", "/v1/channels/c0")] {
            let path = format!("{place}/search?q=heating&limit=10");
            print(name, &times(SAMPLES, async || client.get(&path).await.map(drop)).await?);
        }
        self.beside(&daemon).await?;
        daemon.stop().await?;
        self.disk()?;
        self.offline(&["store", "verify"]).await?;
        self.offline(&["store", "verify", "--quick"]).await?;
        let backup = self.plan.dir.join("backup");
        self.offline(&["store", "backup", &backup.display().to_string()]).await?;
        std::fs::remove_dir_all(backup)?;
        std::fs::remove_dir_all(self.state.join("index"))?;
        let daemon = self.daemon().await?;
        self.beside_index(&daemon).await?;
        daemon.stop().await.map(drop)
    }

    /// Turns beside work over the whole state, against turns alone, before and behind it.
    async fn beside(&mut self, daemon: &Daemon) -> io::Result<()> {
        let (client, backup) = (daemon.client(), self.plan.dir.join("beside"));
        let turns = async || times(BESIDE / 2, async || say(&client, "c0", 0).await).await;
        let mut alone = turns().await?;
        let verify = turns_during(&client, async || client.get("/v1/store/verify").await.map(drop)).await?;
        let (_, checked) = memory(daemon)?;
        let body = json!({ "dir": backup });
        let copy = async || {
            let (status, answer) = client.ask("POST", "/v1/store/backup", &body).await?;
            std::fs::remove_dir_all(&backup).map_err(|_none| io::Error::other(format!("{status}: {answer}")))
        };
        let copy = turns_during(&client, copy).await?;
        alone.extend(turns().await?);
        let mut erased = Erased::default();
        for n in 0..AGAIN {
            let user = format!("porto{n}");
            let text = json!({ "text": "We looked at a flat in Porto", "user": user });
            client.ask("POST", "/v1/channels/c1/messages", &text).await?;
            self.entries += 2;
            erased.beside(daemon, &format!("local/{user}")).await?;
            if erased.turns.len() >= BESIDE {
                break;
            }
        }
        let Erased { turns: erasure, longest, memory } = erased;
        self.entries += 2 * (alone.len() + verify.len() + copy.len() + erasure.len());
        for (name, turns) in [("verify", verify), ("backup", copy), ("erasure", erasure)] {
            print_beside(name, &turns, &alone);
        }
        println!("  memory after verify  {checked:.0} MB not mapped files");
        println!(
            "  no message taken     {:.2} s of an erasure, {memory:.0} MB not mapped files at most",
            longest.as_secs_f64()
        );
        Ok(())
    }

    /// The same while the index is made again behind a start.
    async fn beside_index(&mut self, daemon: &Daemon) -> io::Result<()> {
        let client = daemon.client();
        let mut beside = Vec::new();
        tokio::select! {
            failed = talk(&client, &mut beside) => failed,
            found = client.get("/v1/channels/c0/search?q=heating&limit=1") => found.map(drop),
        }?;
        let alone = times(BESIDE, async || say(&client, "c0", 0).await).await?;
        self.entries += 2 * (alone.len() + beside.len());
        print_beside("index", &beside, &alone);
        Ok(())
    }

    async fn starts(&self) -> io::Result<()> {
        let (mut walls, mut processor) = (Vec::new(), f64::MAX);
        for _ in 0..3 {
            let daemon = self.daemon().await?;
            processor = processor.min(daemon.processor_secs()?);
            walls.push(daemon.ready_after());
            daemon.stop().await?;
        }
        println!("  start                {:.0} ms of the processor", processor * 1e3);
        print("start to ready", &walls);
        Ok(())
    }

    fn disk(&self) -> io::Result<()> {
        let parts = ["journal", "views", "index"];
        let bytes = parts.map(|part| folder_bytes(&self.state.join(part)));
        let each = |bytes: u64| bytes as f64 / self.entries as f64 / 1e3;
        let mut all = 0;
        let mut shown = Vec::new();
        for (part, bytes) in parts.iter().zip(bytes) {
            let bytes = bytes?;
            all += bytes;
            shown.push(format!("{part} {:.2}", each(bytes)));
        }
        println!("  disk                 {:.2} KB an entry ({})", each(all), shown.join(", "));
        Ok(())
    }

    /// A command of the store without a daemon.
    async fn offline(&self, args: &[&str]) -> io::Result<()> {
        let began = Instant::now();
        let mut command = Command::new(self.plan.cairn);
        command.args(args).arg("--state").arg(&self.state).arg("--config").arg(&self.config);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().await?;
        let (took, journal) = (began.elapsed().as_secs_f64(), folder_bytes(&self.state.join("journal"))?);
        println!(
            "  {:<20} {took:.2} s, {:.0} MB/s of journal ({status})",
            if args.contains(&"--quick") { args.join(" ") } else { args[..2].join(" ") },
            journal as f64 / 1e6 / took
        );
        Ok(())
    }
}

/// A model that answers after so long.
async fn model(thinking: Duration) -> FakeModel {
    let model = FakeModel::builder().lenient().unrecorded().delay(Kind::Reply, thinking);
    model.respond(|seen| (seen.kind == Kind::Reply).then(|| Answer::text(ANSWER))).start().await
}

/// What came of all lanes.
async fn all<T: 'static>(mut lanes: JoinSet<io::Result<T>>) -> io::Result<Vec<T>> {
    let mut done = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        done.push(lane.map_err(io::Error::other)??);
    }
    Ok(done)
}

async fn say(client: &Client, channel: &str, n: usize) -> io::Result<()> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let id = format!("grow-{}", NEXT_ID.fetch_add(1, Ordering::Relaxed));
    let body = json!({ "user": "anna", "text": SAID.replace("{n}", &n.to_string()), "id": id });
    let path = format!("/v1/channels/{channel}/messages");
    let mut n_sent = 1;
    loop {
        let (status, reply) = client.ask("POST", &path, &body).await?;
        if !is_to_be_sent_again(n_sent, status, &reply)? {
            return Ok(());
        }
        n_sent += 1;
        SENT_AGAIN.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(RESEND_PAUSE).await;
    }
}

/// Turns without end, until one fails.
async fn talk(client: &Client, turns: &mut Vec<Duration>) -> io::Result<()> {
    loop {
        let began = Instant::now();
        say(client, "c0", 0).await?;
        turns.push(began.elapsed());
    }
}

/// What turns take until the work has ended, as often as it takes for enough of them.
async fn turns_during(client: &Client, work: impl AsyncFn() -> io::Result<()>) -> io::Result<Vec<Duration>> {
    let mut turns = Vec::new();
    for _ in 0..AGAIN {
        tokio::select! {
            failed = talk(client, &mut turns) => failed,
            done = work() => done,
        }?;
        if turns.len() >= BESIDE {
            break;
        }
    }
    Ok(turns)
}

/// What erasures did to turns beside them.
#[derive(Default)]
struct Erased {
    turns: Vec<Duration>,
    /// Longest time between two messages that were taken.
    longest: Duration,
    /// Most megabytes that were no mapped files.
    memory: f64,
}

impl Erased {
    /// Takes turns while a person is erased.
    async fn beside(&mut self, daemon: &Daemon, user: &str) -> io::Result<()> {
        let client = daemon.client();
        let (status, asked) = client.ask("POST", "/v1/people/forget", &json!({ "user": user })).await?;
        if !status.is_success() {
            return Err(io::Error::other(format!("{status}: {asked}")));
        }
        let mut taken = Instant::now();
        loop {
            let began = Instant::now();
            // It fails while the daemon restarts.
            if say(&client, "c0", 0).await.is_ok() {
                self.turns.push(began.elapsed());
                self.longest = self.longest.max(taken.elapsed());
                taken = Instant::now();
            }
            self.memory = self.memory.max(memory(daemon)?.1);
            let erased = client.get("/v1/people/erased").await.unwrap_or_default();
            let erasures = erased["erasures"].as_array().map(Vec::as_slice).unwrap_or_default();
            if erasures.iter().any(|erasure| erasure["at"] == asked["at"]) {
                return Ok(());
            }
        }
    }
}

fn print_beside(name: &str, turns: &[Duration], alone: &[Duration]) {
    let [p50, p99] = [0.5, 0.99].map(|share| percentile(turns, share) / percentile(alone, share));
    println!(
        "  {:<20} p50 {p50:.1} x, p99 {p99:.1} x ({} turns)",
        format!("turn beside {name}"),
        turns.len()
    );
}

/// In seconds.
fn percentile(times: &[Duration], share: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort();
    let idx = (times.len().saturating_sub(1) as f64 * share).round() as usize;
    times.get(idx).map_or(0.0, Duration::as_secs_f64)
}

async fn times(n: usize, work: impl AsyncFn() -> io::Result<()>) -> io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..n {
        let began = Instant::now();
        work().await?;
        times.push(began.elapsed());
    }
    Ok(times)
}

fn print(name: &str, times: &[Duration]) {
    let [p50, p99] = [0.5, 0.99].map(|share| percentile(times, share) * 1e3);
    println!("  {name:<20} p50 {p50:.1} ms, p99 {p99:.1} ms");
}

/// Megabytes that are resident, and those of them that are no mapped files.
fn memory(daemon: &Daemon) -> io::Result<(f64, f64)> {
    Ok((daemon.rss_bytes()? as f64 / 1e6, daemon.anon_bytes()? as f64 / 1e6))
}

/// The bytes that a folder takes on its disk.
fn folder_bytes(dir: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let there = entry.metadata()?;
        bytes += if there.is_dir() { folder_bytes(&entry.path())? } else { there.blocks() * 512 };
    }
    Ok(bytes)
}
