//! What a turn costs with many memories in scope, with many tools, in a long conversation, and beside one person who writes
//! everywhere at once.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::mcp::Script;
use cairn_testkit::rig::one_model;
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::{LANES, Plan, all, memory, model, percentile, print, print_beside, say, times};

const MEMORIES: usize = 50_000;
const TOOLS: usize = 30;
/// Of the schema of a tool.
const SCHEMA_BYTES: usize = 2_000;
const LONG_CHANNELS: usize = 10;
const LONG_TURNS: usize = 2_500;
const STARTS: usize = 5;
const CROWD: usize = 50;
const TURNS: usize = 200;

/// Of a model that takes its time, as real ones do.
const THINKING: Duration = Duration::from_millis(50);

/// Large enough for all tools.
const WINDOW: u64 = 128_000;

pub(super) async fn run(plan: &Plan<'_>) -> io::Result<()> {
    println!("\nOf its own");
    with_memories(plan).await?;
    with_tools(plan).await?;
    long_channels(plan).await?;
    beside_a_crowd(plan).await
}

/// A daemon with a state of its own.
async fn daemon(plan: &Plan<'_>, name: &str, config: &str) -> io::Result<Daemon> {
    let dir = plan.dir.join(name);
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("config.toml"), config)?;
    Daemon::start(plan.cairn, &dir.join("state"), Some(&dir.join("config.toml"))).await
}

async fn with_memories(plan: &Plan<'_>) -> io::Result<()> {
    let model = model(Duration::ZERO).await;
    let daemon = daemon(plan, "memories", &one_model(&model.base_url(), WINDOW)).await?;
    let client = daemon.client();
    // Each in a channel of its own: a request takes time by what the conversation has grown to.
    let turns = async |channel: &str| times(TURNS, async || say(&client, channel, 0).await).await;
    print("turn, no memories", &turns("none").await?);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let client = daemon.client();
        lanes.spawn(async move {
            for n in (lane..MEMORIES).step_by(LANES) {
                remember(&client, n).await?;
            }
            io::Result::Ok(())
        });
    }
    all(lanes).await?;
    print(&format!("with {MEMORIES}"), &turns("many").await?);
    let changes = async {
        for n in MEMORIES.. {
            remember(&client, n).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        io::Result::Ok(())
    };
    let beside = tokio::select! {
        turns = turns("changing") => turns?,
        ended = changes => return ended,
    };
    print("while they change", &beside);
    let mut lanes = JoinSet::new();
    for lane in 0..8 {
        let client = daemon.client();
        lanes.spawn(async move {
            let mut took = Vec::new();
            for _ in 0..TURNS / 8 {
                let began = Instant::now();
                say(&client, &format!("m{lane}"), 0).await?;
                took.push(began.elapsed());
            }
            io::Result::Ok(took)
        });
    }
    print("eight at once", &all(lanes).await?.concat());
    let (rss, own) = memory(&daemon)?;
    println!("  memory               {rss:.0} MB resident, {own:.0} MB of it not mapped files");
    daemon.stop().await.map(drop)
}

async fn remember(client: &Client, n: usize) -> io::Result<()> {
    let text =
        format!("Anna looked at flat number {n} in Lisbon, with {} balconies and a view of the river", n % 7);
    let body = json!({ "text": text, "kind": "fact", "scope": "agent" });
    let (status, answer) = client.ask("POST", "/v1/memories", &body).await?;
    if status.is_success() { Ok(()) } else { Err(io::Error::other(format!("{status}: {answer}"))) }
}

async fn with_tools(plan: &Plan<'_>) -> io::Result<()> {
    let model = model(Duration::ZERO).await;
    let described = "The city, the street or the house that is looked for. ".repeat(SCHEMA_BYTES / 54);
    let tool = |n: usize| {
        json!({
            "name": format!("look_up_{n}"),
            "description": "Looks something up.",
            "inputSchema": {
                "type": "object",
                "properties": { "where": { "type": "string", "description": described } },
            },
            "annotations": { "readOnlyHint": true },
        })
    };
    let server = (0..TOOLS).fold(Script::default().only(&[]), |script, n| script.tool(tool(n)));
    let server = server.start_http().await;
    let config = format!(
        "{}tools = [\"many/*\"]\n[[mcp]]\nid = \"many\"\nurl = \"{}\"\n",
        one_model(&model.base_url(), WINDOW),
        server.url()
    );
    let daemon = daemon(plan, "tools", &config).await?;
    let client = daemon.client();
    let turns = async |channel: &str| times(TURNS, async || say(&client, channel, 0).await).await;
    print("turn, no tools", &turns("none").await?);
    let mut approve = Command::new(plan.cairn);
    approve.args(["mcp", "approve", "many", "--yes", "--state"]).arg(plan.dir.join("tools/state"));
    approve.arg("--config").arg(plan.dir.join("tools/config.toml"));
    let approved = approve.output().await?;
    if !approved.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&approved.stderr).into_owned()));
    }
    print(&format!("with {TOOLS} of 2 KB"), &turns("many").await?);
    daemon.stop().await.map(drop)
}

async fn long_channels(plan: &Plan<'_>) -> io::Result<()> {
    let model = model(Duration::ZERO).await;
    let config = one_model(&model.base_url(), 32_000);
    let grown = daemon(plan, "long", &config).await?;
    let mut lanes = JoinSet::new();
    for lane in 0..LONG_CHANNELS {
        let client = grown.client();
        lanes.spawn(async move {
            say(&client, &format!("short{lane}"), 0).await?;
            for n in 0..LONG_TURNS {
                say(&client, &format!("long{lane}"), n).await?;
            }
            io::Result::Ok(())
        });
    }
    all(lanes).await?;
    grown.stop().await?;
    let (mut short, mut long, mut awake) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let daemon = daemon(plan, "long", &config).await?;
        let client = daemon.client();
        let next = AtomicU64::new(0);
        let turn = async |name: &str| {
            let n = next.fetch_add(1, Ordering::Relaxed) % LONG_CHANNELS as u64;
            say(&client, &format!("{name}{n}"), 0).await
        };
        short.extend(times(LONG_CHANNELS, async || turn("short").await).await?);
        long.extend(times(LONG_CHANNELS, async || turn("long").await).await?);
        awake.extend(times(LONG_CHANNELS, async || turn("long").await).await?);
        daemon.stop().await?;
    }
    print("first turn, short", &short);
    print(&format!("of {} entries", 2 * LONG_TURNS), &long);
    // As large a request; only the waking is missing.
    print("its second turn", &awake);
    Ok(())
}

/// One person's turns while another one writes in many channels.
async fn beside_a_crowd(plan: &Plan<'_>) -> io::Result<()> {
    let model = model(THINKING).await;
    let daemon = daemon(plan, "crowd", &one_model(&model.base_url(), WINDOW)).await?;
    let client = daemon.client();
    let as_ben = async |channel: &str| {
        let body = json!({ "user": "ben", "text": "And what of mine?" });
        let (status, answer) = client.ask("POST", &format!("/v1/channels/{channel}/messages"), &body).await?;
        if status.is_success() { Ok(()) } else { Err(io::Error::other(format!("{status}: {answer}"))) }
    };
    let alone = times(TURNS, async || as_ben("alone").await).await?;
    let mut crowd = JoinSet::new();
    for channel in 0..CROWD {
        let client = daemon.client();
        crowd.spawn(async move {
            loop {
                if let Err(error) = say(&client, &format!("c{channel}"), 0).await {
                    break io::Result::<()>::Err(error);
                }
            }
        });
    }
    let beside = tokio::select! {
        turns = times(TURNS, async || as_ben("beside").await) => turns?,
        Some(ended) = crowd.join_next() => return ended.map_err(io::Error::other)?,
    };
    crowd.abort_all();
    println!("  a turn of 50 ms      p99 {:.1} ms", percentile(&alone, 0.99) * 1e3);
    print_beside("one in 50 channels", &beside, &alone);
    daemon.stop().await.map(drop)
}
