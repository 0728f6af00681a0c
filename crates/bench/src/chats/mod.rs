//! Both chat networks at once under load and trouble: the real binary, told of messages twice, out of order and late,
//! cut off, refused, killed, and with compactions under way all the time. At the end every message has ended as it
//! should.

mod check;
pub mod cluster;
mod scene;
mod speed;
mod trouble;
pub(crate) mod words;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use cairn_testkit::daemon::{Client, Daemon, PATIENCE};
use cairn_testkit::random::Random;
use scene::{Scene, Setting, Site, Way};

pub use speed::{Speed, speed};

/// Messages that may wait for an answer before people pause.
const OUTSTANDING: usize = 40;

/// Messages from one trouble to the next.
const TROUBLE_EVERY: usize = 12;

/// How long the daemon is down after a kill: a little longer than a server ever says to wait, since what it told the
/// killed process the next one cannot know.
const DOWN: Duration = Duration::from_millis(1_200);

const COMPACTION: Duration = Duration::from_millis(1_000);

#[derive(Debug, Clone)]
pub struct Plan {
    pub cairn: PathBuf,
    /// An empty folder for state, config and logs.
    pub dir: PathBuf,
    /// Places where people talk, on each network.
    pub n_places: usize,
    pub n_messages: usize,
    /// The window of the model, in tokens: small, so that compactions are under way all the time.
    pub window: u64,
    pub n_kills: usize,
    /// Where the random moments come from.
    pub seed: u64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    pub messages: usize,
    /// Of these the ones that were to be answered.
    pub addressed: usize,
    pub on_discord: usize,
    /// Answered on Telegram, each once.
    pub on_telegram: usize,
    /// Of unknown fate, and listed in the outbox (Telegram alone).
    pub listed: usize,
    /// Messages of the bot; one may answer several.
    pub answers: usize,
    /// Sends that Discord knew by their nonce and did not show again.
    pub repeats: usize,
    pub kills: usize,
    /// Things that went wrong otherwise.
    pub troubles: usize,
    pub compactions: usize,
    /// Lines of the logs, none with a token or a word of a message.
    pub log_lines: usize,
    /// From the first message to the last answer, kills and restarts included.
    pub seconds: f64,
}

struct Said {
    place: usize,
    /// Messages of one burst may be told of in any order.
    burst: usize,
    addressed: bool,
}

struct Run<'a> {
    plan: &'a Plan,
    scene: Arc<Scene>,
    moments: Random,
    said: Vec<Said>,
    bursts: usize,
    /// Messages with an answer, as far as what happened in each place was looked at.
    answered: BTreeSet<usize>,
    looked_at: Vec<usize>,
    listed: BTreeSet<usize>,
    logs: String,
    findings: Findings,
}

/// Lets people talk, makes trouble, kills, and checks how every message ended.
pub async fn run(plan: &Plan) -> io::Result<Findings> {
    // At its most talkative: what is never logged then is never logged.
    let (n_places, window) = ([plan.n_places; 2], plan.window);
    let setting = Setting { n_places, window, reply: Duration::ZERO, compaction: COMPACTION, log: "trace" };
    let scene = Scene::set(&plan.cairn, &setting).await;
    let (discord, telegram) = (scene.discord.api_url(), scene.telegram.api_url());
    let site = scene.site(plan.dir.clone(), &setting, [&discord, &telegram], "")?;
    let mut run = Run::of(plan, Arc::new(scene));
    let mut daemon = site.start().await?;
    run.scene.discord.wait_ready().await;
    let began = Instant::now();
    // Where nothing was ever said, nothing can have been missed.
    for place in 0..run.scene.places.len() {
        run.burst(place, 1);
    }
    run.settle(&daemon, 0).await?;
    while run.said.len() < plan.n_messages {
        if run.is_time_to_kill() {
            daemon = run.kill(&site, daemon).await?;
        }
        let place = run.moments.below(run.scene.places.len() as u64) as usize;
        if run.is_time_for_trouble() {
            trouble::make(&run.scene, run.findings.troubles, place).await;
            run.findings.troubles += 1;
        }
        let n = 1 + run.moments.below(3) as usize;
        run.burst(place, n);
        run.settle(&daemon, OUTSTANDING).await?;
    }
    run.settle(&daemon, 0).await?;
    run.findings.seconds = began.elapsed().as_secs_f64();
    run.end(&site, daemon).await
}

impl<'a> Run<'a> {
    fn of(plan: &'a Plan, scene: Arc<Scene>) -> Self {
        Self {
            plan,
            moments: Random::new(plan.seed),
            said: Vec::new(),
            bursts: 0,
            answered: BTreeSet::new(),
            looked_at: vec![0; scene.places.len()],
            listed: BTreeSet::new(),
            logs: String::new(),
            findings: Findings::default(),
            scene,
        }
    }

    /// Somebody says some messages in a place, one after another.
    fn burst(&mut self, place: usize, n: usize) {
        let way = match self.moments.below(10) {
            0 => Way::Twice,
            1 | 2 if n > 1 => Way::Held,
            _ => Way::Once,
        };
        let is_discord = self.scene.is_discord(place);
        // Only what nobody has been told of yet changes its order.
        let is_idle = is_discord || self.scene.telegram.unconfirmed() == 0;
        let way = if way == Way::Held && !is_idle { Way::Once } else { way };
        let held = (way == Way::Held && !is_discord).then(|| self.scene.telegram.hold_updates());
        for _ in 0..n {
            // Some is not for the bot.
            let addressed = self.scene.is_private(place) || self.moments.below(8) > 0;
            self.scene.say(place, self.said.len(), addressed, way);
            self.said.push(Said { place, burst: self.bursts, addressed });
        }
        if way == Way::Held {
            match held {
                None => self.scene.discord.release(true),
                Some(_held) => self.scene.telegram.reverse_waiting(),
            }
        }
        self.bursts += 1;
    }

    fn is_time_to_kill(&self) -> bool {
        let next = self.plan.n_messages * (self.findings.kills + 1) / (self.plan.n_kills + 1);
        self.findings.kills < self.plan.n_kills && self.said.len() >= next
    }

    fn is_time_for_trouble(&self) -> bool {
        self.said.len() >= (self.findings.troubles + 1) * TROUBLE_EVERY
    }

    /// Kills the daemon while it is at work, lets people go on meanwhile, and starts it again.
    async fn kill(&mut self, site: &Site, daemon: Daemon) -> io::Result<Daemon> {
        let place = self.moments.below(self.scene.places.len() as u64) as usize;
        self.burst(place, 3);
        tokio::time::sleep(Duration::from_millis(self.moments.below(30))).await;
        daemon.kill().await?;
        self.logs += &site.log()?;
        self.findings.kills += 1;
        for _ in 0..5 {
            let place = self.moments.below(self.scene.places.len() as u64) as usize;
            self.burst(place, 2);
        }
        tokio::time::sleep(DOWN).await;
        let daemon = site.start().await?;
        self.scene.discord.wait_ready().await;
        Ok(daemon)
    }

    /// Waits until at most so many messages want an answer.
    async fn settle(&mut self, daemon: &Daemon, most: usize) -> io::Result<()> {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        let (mut last, mut since, mut looked) = (usize::MAX, Instant::now(), Instant::now());
        loop {
            tick.tick().await;
            let open = self.open();
            if open.len() <= most {
                return Ok(());
            }
            if open.len() != last {
                (last, since) = (open.len(), Instant::now());
            }
            if looked.elapsed() > Duration::from_secs(1) {
                looked = Instant::now();
                self.look_into_outbox(&daemon.client()).await?;
            }
            if since.elapsed() > PATIENCE {
                return Err(self.no_answer(&open));
            }
        }
    }

    fn no_answer(&self, open: &[usize]) -> io::Error {
        let first: Vec<String> = open.iter().take(5).map(|n| self.describe(*n)).collect();
        io::Error::other(format!("{} messages get no answer: {first:?}", open.len()))
    }

    /// Messages that want an answer: neither answered nor listed.
    fn open(&mut self) -> Vec<usize> {
        let acts = self.scene.acts();
        for place in (0..acts.len()).filter(|place| acts[*place] != self.looked_at[*place]) {
            self.answered.extend(self.scene.heard(place).into_iter().flat_map(|heard| heard.tokens));
        }
        self.looked_at = acts;
        let is_done = |n: &usize| self.answered.contains(n) || self.listed.contains(n);
        (0..self.said.len()).filter(|n| self.said[*n].addressed && !is_done(n)).collect()
    }

    async fn look_into_outbox(&mut self, client: &Client) -> io::Result<Value> {
        let outbox = client.get("/v1/outbox").await?;
        for delivery in outbox.as_array().map_or(&[][..], Vec::as_slice) {
            if delivery["state"] == "unknown" {
                self.listed.extend(words::tokens(&reply_of(client, delivery).await?));
            }
        }
        Ok(outbox)
    }

    /// The outbox when the last receipts are journalled.
    async fn settled_outbox(&mut self, client: &Client) -> io::Result<Value> {
        let (began, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
        loop {
            tick.tick().await;
            let outbox = self.look_into_outbox(client).await?;
            let is_owed = |delivery: &Value| delivery["state"] == "owed";
            if !outbox.as_array().is_some_and(|all| all.iter().any(is_owed)) || began.elapsed() > PATIENCE {
                return Ok(outbox);
            }
        }
    }

    fn describe(&self, n: usize) -> String {
        let said = &self.said[n];
        format!("{} in {} (burst {})", words::token(n), self.scene.places[said.place].name, said.burst)
    }

    /// Stops the daemon and looks at everything that is left.
    async fn end(mut self, site: &Site, daemon: Daemon) -> io::Result<Findings> {
        let outbox = self.settled_outbox(&daemon.client()).await?;
        let status = daemon.stop().await?;
        require(status.success(), || format!("the daemon ended with {status}"))?;
        self.logs += &site.log()?;
        self.check_histories(site).await?;
        self.check(&outbox, site).await?;
        Ok(self.findings)
    }
}

/// All of the words of a delivery; the outbox shows where they begin.
async fn reply_of(client: &Client, delivery: &Value) -> io::Result<String> {
    let channel = delivery["channel"].as_str().unwrap_or_default().replace('/', "%2F");
    let path = format!("/v1/channels/{channel}/history?from={0}&to={0}", delivery["seq"]);
    let entries = client.get(&path).await?;
    Ok(entries[0]["parts"].to_string())
}

fn require(holds: bool, what: impl FnOnce() -> String) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(what())) }
}
