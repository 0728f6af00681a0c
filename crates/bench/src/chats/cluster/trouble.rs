//! What goes wrong with nodes, database and the connections between them, by a seeded choice.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use cairn_testkit::postgres::Postgres;
use cairn_testkit::proxy::{Cut, Proxy};
use cairn_testkit::random::Random;
use tokio::time::sleep;

use super::Findings;
use super::nodes::{self, Node};
use crate::chats::scene::Scene;
use crate::chats::{require, words};

/// How long a node sleeps, or does not reach its database: twice the lease.
const FROZEN: Duration = Duration::from_secs(20);

/// What was on its way when a process died has arrived by then.
const ARRIVED: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
enum Kind {
    KillOne,
    KillStarting,
    KillTwo,
    KillLeader,
    RestartLeader,
    StopLeader,
    Freeze,
    CutOff,
    RestartDatabase,
    LoseDatabase,
    CutCommits,
}

const KINDS: [(&str, Kind); 11] = [
    ("a node killed, back soon", Kind::KillOne),
    ("a node killed again in its starts", Kind::KillStarting),
    ("leader and another node killed", Kind::KillTwo),
    ("leader killed", Kind::KillLeader),
    ("leader killed, back at once", Kind::RestartLeader),
    ("leader stopped", Kind::StopLeader),
    ("leader frozen", Kind::Freeze),
    ("leader cut off from the database", Kind::CutOff),
    ("database killed, back at once", Kind::RestartDatabase),
    ("database away for longer", Kind::LoseDatabase),
    ("connections cut in commits", Kind::CutCommits),
];

pub(super) struct Troubles<'a> {
    pub(super) scene: &'a Scene,
    pub(super) server: &'a Postgres,
    pub(super) nodes: &'a mut [Node],
    pub(super) moments: Random,
    pub(super) every: Duration,
    pub(super) began: Instant,
    pub(super) is_over: &'a Cell<bool>,
    pub(super) findings: Findings,
}

impl Troubles<'_> {
    /// One trouble after the other, until people have no more to say. Each begins when one node leads and the others follow.
    pub(super) async fn go_on(&mut self) -> io::Result<()> {
        // Each kind once, before chance has its way.
        let mut next = KINDS.to_vec();
        for at in (1..next.len()).rev() {
            next.swap(at, self.moments.below(at as u64 + 1) as usize);
        }
        while !self.is_over.get() {
            sleep(self.every.mul_f64(0.5 + self.moments.below(100) as f64 / 100.0)).await;
            let leader = nodes::leader(self.nodes).await?;
            let (name, kind) =
                next.pop().unwrap_or_else(|| KINDS[self.moments.below(KINDS.len() as u64) as usize]);
            let at = self.began.elapsed().as_secs_f64();
            let answer = self.make(kind, leader).await.map_err(|error| {
                io::Error::other(format!(
                    "{name}, {at:.1} s after the start, {} led: {error}",
                    self.nodes[leader].name
                ))
            })?;
            let after = answer
                .map_or(String::new(), |after| format!(": next answer after {:.2} s", after.as_secs_f64()));
            println!("{at:7.1} s  {name} ({} led){after}", self.nodes[leader].name);
            self.findings.troubles.entry(name).or_default().push(answer);
        }
        Ok(())
    }

    /// Makes it, and waits until it is over. How long people had to wait for the next answer.
    async fn make(&mut self, kind: Kind, leader: usize) -> io::Result<Option<Duration>> {
        let (scene, is_over) = (self.scene, self.is_over);
        let answer = |began| next_answer(scene, began, is_over);
        match kind {
            Kind::KillOne => {
                let one = self.moments.below(self.nodes.len() as u64) as usize;
                let pause = Duration::from_millis(self.moments.below(4_000));
                self.nodes[one].kill().await?;
                sleep(pause).await;
                self.nodes[one].start().await?;
                Ok(None)
            }
            Kind::KillStarting => self.kill_starting().await,
            Kind::KillTwo => {
                let (began, other) = (Instant::now(), (leader + 1) % self.nodes.len());
                self.nodes[other].kill().await?;
                self.nodes[leader].kill().await?;
                let answered = answer(began).await;
                self.nodes[leader].start().await?;
                self.nodes[other].start().await?;
                Ok(answered)
            }
            Kind::KillLeader => {
                let began = Instant::now();
                self.nodes[leader].kill().await?;
                let answered = answer(began).await;
                self.nodes[leader].start().await?;
                Ok(answered)
            }
            Kind::RestartLeader => {
                let began = Instant::now();
                self.nodes[leader].kill().await?;
                let (started, answered) = tokio::join!(self.nodes[leader].start(), answer(began));
                started.map(|()| answered)
            }
            Kind::StopLeader => {
                let began = Instant::now();
                let (stopped, answered) = tokio::join!(self.nodes[leader].stop(), answer(began));
                let status = stopped?;
                require(status.success(), || format!("it ended with {status}"))?;
                self.nodes[leader].start().await?;
                Ok(answered)
            }
            Kind::Freeze => self.freeze(leader).await,
            Kind::CutOff => self.cut_off(leader).await,
            Kind::RestartDatabase => self.kill_database(Duration::ZERO).await,
            Kind::LoseDatabase => {
                let away = 3_000 + self.moments.below(12_000);
                self.kill_database(Duration::from_millis(away)).await
            }
            Kind::CutCommits => self.cut_commits(leader).await,
        }
    }

    async fn kill_starting(&mut self) -> io::Result<Option<Duration>> {
        let one = self.moments.below(self.nodes.len() as u64) as usize;
        self.nodes[one].kill().await?;
        for _ in 0..3 {
            let limit = Duration::from_millis(self.moments.below(1_500));
            // Whom nobody waits for any more is killed; who is quicker is killed, too.
            if tokio::time::timeout(limit, self.nodes[one].start()).await.is_ok() {
                self.nodes[one].kill().await?;
            }
        }
        self.nodes[one].start().await?;
        Ok(None)
    }

    /// A process that slept through its lease sends nothing any more when it wakes.
    async fn freeze(&mut self, leader: usize) -> io::Result<Option<Duration>> {
        let (began, node) = (Instant::now(), &self.nodes[leader]);
        node.signal("STOP").await?;
        let answered = next_answer(self.scene, began, self.is_over).await;
        sleep(FROZEN.saturating_sub(began.elapsed())).await;
        let sends = node.sends();
        node.signal("CONT").await?;
        self.sends_nothing(leader, sends).await?;
        Ok(answered)
    }

    async fn cut_off(&mut self, leader: usize) -> io::Result<Option<Duration>> {
        let (began, node) = (Instant::now(), &self.nodes[leader]);
        let way = way(node)?;
        way.hold();
        while node.leads().await == Some(true) {
            sleep(ARRIVED).await;
        }
        let answered = next_answer(self.scene, began, self.is_over).await;
        let sends = node.sends();
        sleep(FROZEN.saturating_sub(began.elapsed())).await;
        way.release();
        self.sends_nothing(leader, sends).await?;
        Ok(answered)
    }

    /// Waits until a node follows that led. It has sent no more than before.
    async fn sends_nothing(&self, node: usize, before: usize) -> io::Result<()> {
        let led = &self.nodes[node];
        let leader = nodes::leader(self.nodes).await?;
        sleep(Duration::from_secs(1)).await;
        let now = led.sends();
        let is_quiet = leader == node || now == before;
        require(is_quiet, || format!("{} sent {} requests after its lease", led.name, now - before))
    }

    async fn kill_database(&mut self, away: Duration) -> io::Result<Option<Duration>> {
        let server = self.server;
        tokio::task::block_in_place(|| server.kill());
        sleep(away).await;
        tokio::task::block_in_place(|| server.start_again());
        Ok(next_answer(self.scene, Instant::now(), self.is_over).await)
    }

    /// Connections of the leader break while it appends: before the database has it, or before its answer is there.
    async fn cut_commits(&mut self, leader: usize) -> io::Result<Option<Duration>> {
        let way = way(&self.nodes[leader])?;
        for what in [Cut::Answer, Cut::Request, Cut::Answer, Cut::Request] {
            let (before, began) = (way.cuts(), Instant::now());
            way.cut(what, words::SAID);
            while way.cuts() == before && began.elapsed() < FROZEN && !self.is_over.get() {
                sleep(ARRIVED).await;
            }
        }
        Ok(next_answer(self.scene, Instant::now(), self.is_over).await)
    }
}

/// Waits for an answer that people get from now on: how long after that moment it came.
async fn next_answer(scene: &Scene, began: Instant, is_over: &Cell<bool>) -> Option<Duration> {
    sleep(ARRIVED).await;
    let before: usize = scene.counts().iter().sum();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while !is_over.get() {
        tick.tick().await;
        if scene.counts().iter().sum::<usize>() > before {
            return Some(began.elapsed());
        }
    }
    None
}

fn way(node: &Node) -> io::Result<&Proxy> {
    node.database.as_ref().ok_or_else(|| io::Error::other("it has no database"))
}
