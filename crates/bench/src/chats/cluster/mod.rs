//! Three daemons with one database while nodes are killed and frozen, the database is killed, and connections break: at the
//! end every message has ended as it should, and all copies are what the database has.

mod copies;
mod figures;
mod nodes;
mod trouble;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_testkit::daemon::{Client, PATIENCE};
use cairn_testkit::postgres::Postgres;
use cairn_testkit::proxy::Proxy;
use cairn_testkit::random::Random;
use serde_json::Value;

use super::scene::{Scene, Setting};
use super::{Run, require};
use nodes::Node;
use trouble::Troubles;

pub use figures::figures;

const NAMES: [&str; 3] = ["north", "east", "south"];

/// Messages that may wait for an answer before people pause.
const OUTSTANDING: usize = 60;

/// How long the model takes: long enough that turns are under way whenever something happens.
const REPLY: Duration = Duration::from_millis(300);

const COMPACTION: Duration = Duration::from_millis(1_000);

/// How often somebody says something: slowly enough that much happens while people talk.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub struct Plan {
    pub cairn: PathBuf,
    /// An empty folder for states, configurations and logs.
    pub dir: PathBuf,
    /// Places where people talk, on each network.
    pub n_places: usize,
    pub n_messages: usize,
    /// What lies between two troubles, on average.
    pub every: Duration,
    /// Where the random moments come from.
    pub seed: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Findings {
    pub talk: super::Findings,
    /// By what happened: how long until the next answer each time, where that was looked at.
    pub troubles: BTreeMap<&'static str, Vec<Option<Duration>>>,
    /// Connections that broke in the midst of a commit.
    pub cuts: usize,
    /// In the database, and in each of the copies.
    pub records: usize,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#?}", self.talk)?;
        writeln!(
            f,
            "{} commits cut; {} records, the same in the database and in all copies",
            self.cuts, self.records
        )?;
        writeln!(f, "{:<34} {:>5} {:>22} {:>8}", "what happened", "times", "next answer after: p50", "most")?;
        for (what, all) in &self.troubles {
            let mut known: Vec<Duration> = all.iter().flatten().copied().collect();
            known.sort();
            let secs =
                |at: Option<&Duration>| at.map_or("-".to_owned(), |it| format!("{:.2} s", it.as_secs_f64()));
            let (median, most) = (secs(known.get(known.len() / 2)), secs(known.last()));
            writeln!(f, "{what:<34} {:>5} {median:>22} {most:>8}", all.len())?;
        }
        Ok(())
    }
}

/// Lets people talk while there is trouble, and checks how everything ended.
pub async fn run(plan: &Plan) -> io::Result<Findings> {
    if !Postgres::is_installed() {
        return Err(io::Error::other("this needs PostgreSQL; `.ci/postgres` installs it"));
    }
    let server = Postgres::start(false);
    let url = server.database();
    let setting = Setting {
        n_places: [plan.n_places; 2],
        window: 4_000,
        reply: REPLY,
        compaction: COMPACTION,
        log: "info",
    };
    let scene = Arc::new(Scene::set(&plan.cairn, &setting).await);
    let nodes = NAMES.map(|name| Node::set(&scene, &setting, name, plan.dir.join(name), Some(&url)));
    let mut nodes: Vec<Node> = nodes.into_iter().collect::<io::Result<_>>()?;
    for node in &mut nodes {
        node.start().await?;
    }
    scene.discord.wait_ready().await;
    let talk = super::Plan {
        cairn: plan.cairn.clone(),
        dir: plan.dir.clone(),
        n_places: plan.n_places,
        n_messages: plan.n_messages,
        window: setting.window,
        n_kills: 0,
        seed: plan.seed,
    };
    let mut run = Run::of(&talk, scene.clone());
    let clients: Vec<Client> = nodes.iter().map(Node::client).collect();
    let began = Instant::now();
    // Where nothing was ever said, nothing can have been missed.
    for place in 0..scene.places.len() {
        run.burst(place, 1);
    }
    let is_over = Cell::new(false);
    run.go_on(&clients, scene.places.len(), &is_over).await?;
    is_over.set(false);
    let mut troubles = Troubles {
        scene: &scene,
        server: &server,
        nodes: &mut nodes,
        moments: Random::new(plan.seed),
        every: plan.every,
        began,
        is_over: &is_over,
        findings: Findings::default(),
    };
    tokio::try_join!(run.go_on(&clients, plan.n_messages, &is_over), troubles.go_on())?;
    let mut findings = troubles.findings;
    run.findings.seconds = began.elapsed().as_secs_f64();
    end(&mut run, &mut nodes, &clients, &url, &mut findings).await?;
    findings.talk = run.findings.clone();
    Ok(findings)
}

/// Stops all, and looks at everything that is left.
async fn end(
    run: &mut Run<'_>,
    nodes: &mut [Node],
    clients: &[Client],
    url: &str,
    findings: &mut Findings,
) -> io::Result<()> {
    let leader = nodes::leader(nodes).await?;
    let outbox = run.settled_outbox(&clients[leader]).await?;
    findings.cuts = nodes.iter().flat_map(|node| &node.database).map(Proxy::cuts).sum();
    // Asked of the daemon: a start for each place would take minutes.
    run.check_histories(&nodes[leader].site).await?;
    // Whoever leads last has all of it; the others are behind.
    for at in 0..nodes.len() {
        let node = &mut nodes[(leader + at) % NAMES.len()];
        let status = node.stop().await?;
        require(status.success(), || format!("{} ended with {status}", node.name))?;
    }
    for node in nodes.iter_mut() {
        let (name, state) = (node.name, node.site.state());
        let named = |error| io::Error::other(format!("{name}: {error}"));
        // What it has by itself, before a start brings it up to the others.
        copies::begins_as(&state, &copies::in_database(url)).map_err(named)?;
        let verified = node.site.json(&["store", "verify"]).await?;
        require(verified["ok"] == Value::Bool(true), || format!("{name}: store verify: {verified}"))?;
        let records = copies::in_database(url);
        let n = copies::begins_as(&state, &records).map_err(named)?;
        require(n == records.len(), || format!("{name} has {n} records of {}", records.len()))?;
        findings.records = n;
        run.logs += node.log();
    }
    run.check(&outbox, &nodes[0].site).await
}

impl Run<'_> {
    /// People talk until so many messages are said, and all have ended.
    async fn go_on(&mut self, clients: &[Client], n: usize, is_over: &Cell<bool>) -> io::Result<()> {
        let mut tick = tokio::time::interval(TICK);
        let (mut last, mut since, mut looked) = (Vec::new(), Instant::now(), Instant::now());
        loop {
            tick.tick().await;
            let open = self.open();
            if open.is_empty() && self.said.len() >= n {
                is_over.set(true);
                return Ok(());
            }
            if open.len() < OUTSTANDING && self.said.len() < n {
                let place = self.moments.below(self.scene.places.len() as u64) as usize;
                self.burst(place, 1);
            }
            if open != last {
                (last, since) = (open, Instant::now());
            } else if since.elapsed() > PATIENCE {
                is_over.set(true);
                return Err(self.no_answer(&open));
            }
            if looked.elapsed() > Duration::from_secs(1) {
                looked = Instant::now();
                for client in clients {
                    // Who does not lead does not tell, who is frozen does not answer.
                    drop(
                        tokio::time::timeout(Duration::from_millis(500), self.look_into_outbox(client)).await,
                    );
                }
            }
        }
    }
}
