//! What a database costs beside a folder, and how long a takeover lasts, all in the same run.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use cairn_testkit::daemon::{Client, PATIENCE};
use cairn_testkit::postgres::Postgres;
use futures::future::try_join_all;
use futures::{StreamExt as _, stream};
use serde_json::json;

use super::NAMES;
use super::nodes::{self, Node};
use crate::chats::scene::{Scene, Setting, Way};

/// How long the model takes where messages a second are counted.
const MODEL: Duration = Duration::from_millis(200);

/// The window of the model, in tokens: large enough that no compaction is measured.
const WINDOW: u64 = 128_000;

/// Channels that talk at once, and turns of each.
const CHANNELS: usize = 100;
const TURNS: usize = 10;

const ROUNDS: usize = 3;

/// Turns one after the other, whose cost is measured.
const ALONE: usize = 200;

/// Between two attempts to be answered while no node leads.
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub struct Figures {
    lines: Vec<String>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Measures a folder, a database with 1, 2 and 3 nodes, and a takeover with so many channels. Commits wait for the disk.
pub async fn figures(cairn: &Path, dir: &Path, n_channels: usize) -> io::Result<Figures> {
    if !Postgres::is_installed() {
        return Err(io::Error::other("this needs PostgreSQL; `.ci/postgres` installs it"));
    }
    let server = Postgres::start(true);
    let mut lines = vec![server.version(), Cost::HEAD.to_owned()];
    let mut costs: [Vec<Cost>; NAMES.len() + 1] = Default::default();
    // In turn, so that what else the machine does meets all of them.
    for round in 0..ROUNDS {
        for (n_nodes, costs) in costs.iter_mut().enumerate() {
            let dir = dir.join(format!("cost-{n_nodes}-{round}"));
            costs.push(Cost::of(cairn, &dir, (n_nodes > 0).then_some(&server), n_nodes).await?);
        }
    }
    let what = ["folder", "database, 1 node", "database, 2 nodes", "database, 3 nodes"];
    lines.extend(what.iter().zip(&costs).map(|(what, costs)| Cost::told(what, costs)));
    lines.push(takeover_of_local(cairn, &dir.join("local"), &server.database(), n_channels).await?);
    lines.push(takeover_of_discord(cairn, &dir.join("discord"), &server.database(), n_channels).await?);
    Ok(Figures { lines })
}

/// Nodes that run, or a daemon with a folder of its own.
struct Rig {
    scene: Scene,
    nodes: Vec<Node>,
}

impl Rig {
    async fn start(
        cairn: &Path,
        dir: &Path,
        url: Option<&str>,
        (n_nodes, n_places, reply): (usize, usize, Duration),
    ) -> io::Result<Self> {
        let n_places = [n_places, 0];
        let setting = Setting { n_places, window: WINDOW, reply, compaction: Duration::ZERO, log: "info" };
        let scene = Scene::set(cairn, &setting).await;
        let of = |name: &&'static str| Node::set(&scene, &setting, name, dir.join(name), url);
        let mut nodes = NAMES[..n_nodes.max(1)].iter().map(of).collect::<io::Result<Vec<_>>>()?;
        for node in &mut nodes {
            node.start().await?;
        }
        Ok(Self { scene, nodes })
    }

    async fn stop(mut self) -> io::Result<()> {
        for node in self.nodes.iter_mut().rev() {
            node.stop().await?;
        }
        Ok(())
    }
}

/// What a daemon took in one round.
struct Cost {
    /// Turns a second in many channels, with a model that takes its time.
    per_second: f64,
    /// Median of turns one after the other, with a model that answers at once.
    turn_ms: f64,
    commits: f64,
    commit_ms: f64,
}

impl Cost {
    const HEAD: &'static str = "median of three rounds    turns/s  ms a turn  commits a turn  ms a commit";

    async fn of(cairn: &Path, dir: &Path, server: Option<&Postgres>, n_nodes: usize) -> io::Result<Self> {
        let url = || server.map(Postgres::database);
        let rig =
            Rig::start(cairn, &dir.join("alone"), url().as_deref(), (n_nodes, 0, Duration::ZERO)).await?;
        let client = rig.nodes[0].client();
        say(&client, "main", 0).await?;
        let before = commits(&client).await?;
        let mut turns = Vec::new();
        for n in 1..=ALONE {
            let began = Instant::now();
            say(&client, "main", n).await?;
            turns.push(began.elapsed().as_secs_f64() * 1e3);
        }
        let after = commits(&client).await?;
        let (n, secs) = (after.0 - before.0, after.1 - before.1);
        rig.stop().await?;
        let rig = Rig::start(cairn, &dir.join("load"), url().as_deref(), (n_nodes, 0, MODEL)).await?;
        let per_second = load(&rig.nodes[0].client()).await?;
        rig.stop().await?;
        Ok(Self { per_second, turn_ms: median(turns), commits: n / ALONE as f64, commit_ms: secs * 1e3 / n })
    }

    fn told(what: &str, rounds: &[Self]) -> String {
        let of = |value: fn(&Self) -> f64| median(rounds.iter().map(value).collect());
        format!(
            "{what:<24} {:>8.1} {:>10.1} {:>15.2} {:>12.2}",
            of(|cost| cost.per_second),
            of(|cost| cost.turn_ms),
            of(|cost| cost.commits),
            of(|cost| cost.commit_ms)
        )
    }
}

/// Many channels at once, in each the next message when the one before is answered: turns a second.
async fn load(client: &Client) -> io::Result<f64> {
    let talk = |channel: usize| async move {
        for n in 0..TURNS {
            say(client, &format!("c{channel}"), n).await?;
        }
        io::Result::Ok(())
    };
    let began = Instant::now();
    try_join_all((0..CHANNELS).map(talk)).await?;
    Ok((CHANNELS * TURNS) as f64 / began.elapsed().as_secs_f64())
}

/// Commits of the journal so far, and their seconds.
async fn commits(client: &Client) -> io::Result<(f64, f64)> {
    let (_, text) = client.raw("GET", "/metrics", "text/plain", Vec::new()).await?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().last());
        line.and_then(|value| value.parse().ok()).ok_or_else(|| io::Error::other(format!("no {name}")))
    };
    Ok((value("cairn_journal_sync_seconds_count")?, value("cairn_journal_sync_seconds_sum")?))
}

async fn say(client: &Client, channel: &str, n: usize) -> io::Result<()> {
    let body = json!({ "user": "ann", "text": format!("message {n}: where is the lemon tree?") });
    let (status, told) = client.ask("POST", &format!("/v1/channels/{channel}/messages"), &body).await?;
    if status.is_success() { Ok(()) } else { Err(io::Error::other(format!("{status}: {told}"))) }
}

/// People on the socket of the node that takes over, each again until answered.
async fn takeover_of_local(cairn: &Path, dir: &Path, url: &str, n_channels: usize) -> io::Result<String> {
    let mut rig = Rig::start(cairn, dir, Some(url), (2, 0, Duration::ZERO)).await?;
    let client = rig.nodes[0].client();
    try_join_each(n_channels, |n| say_until(client.clone(), n, Instant::now())).await?;
    let began = Instant::now();
    rig.nodes[0].kill().await?;
    let client = rig.nodes[1].client();
    let mut times = try_join_each(n_channels, |n| say_until(client.clone(), n, began)).await?;
    rig.nodes.remove(0);
    rig.stop().await?;
    Ok(told("local", n_channels, &mut times))
}

/// So many at once at the most.
async fn try_join_each<F: Future<Output = io::Result<Duration>>>(
    n: usize,
    of: impl Fn(usize) -> F,
) -> io::Result<Vec<Duration>> {
    stream::iter((0..n).map(of)).buffer_unordered(CHANNELS).collect::<Vec<_>>().await.into_iter().collect()
}

async fn say_until(client: Client, channel: usize, began: Instant) -> io::Result<Duration> {
    loop {
        match say(&client, &format!("c{channel}"), 1).await {
            Ok(()) => return Ok(began.elapsed()),
            Err(error) if began.elapsed() > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// One message in each channel as soon as the leader is dead.
async fn takeover_of_discord(cairn: &Path, dir: &Path, url: &str, n_channels: usize) -> io::Result<String> {
    let mut rig = Rig::start(cairn, dir, Some(url), (2, n_channels, Duration::ZERO)).await?;
    rig.scene.discord.wait_ready().await;
    (0..n_channels).for_each(|place| rig.scene.say(place, place, true, Way::Once));
    answered(&rig.scene, n_channels, n_channels, Instant::now()).await?;
    nodes::leader(&rig.nodes).await?;
    let began = Instant::now();
    rig.nodes[0].kill().await?;
    (0..n_channels).for_each(|place| rig.scene.say(place, n_channels + place, true, Way::Once));
    let first = answered(&rig.scene, n_channels + 1, n_channels, began).await?;
    let last = answered(&rig.scene, 2 * n_channels, n_channels, began).await?;
    rig.nodes.remove(0);
    rig.stop().await?;
    Ok(told("Discord", n_channels, &mut [first, last]))
}

/// Waits for so many answers: how long after that moment they were there.
async fn answered(scene: &Scene, n: usize, n_channels: usize, began: Instant) -> io::Result<Duration> {
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        tick.tick().await;
        let now = scene.counts().iter().sum::<usize>();
        if now >= n {
            return Ok(began.elapsed());
        }
        if began.elapsed() > PATIENCE + n_channels as u32 * AGAIN {
            return Err(io::Error::other(format!("only {now} of {n} answers")));
        }
    }
}

fn told(network: &str, n_channels: usize, times: &mut [Duration]) -> String {
    times.sort();
    format!(
        "takeover of {n_channels} channels ({network}): the first answers {:.2} s after the leader's death, the last {:.2} s",
        times.first().map_or(0.0, Duration::as_secs_f64),
        times.last().map_or(0.0, Duration::as_secs_f64),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
