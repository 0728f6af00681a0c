//! Endurance: mixed load on the real binary for as long as wanted, with memory and descriptors sampled all the time.
//!
//! Talk in several channels at a small window, so that there are always runs; looks at everything; reloads; backups; checks of
//! the store. First the state grows, the daemon starts again with those channels asleep, and a check reads every row: the load
//! begins with caches as full as they become.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::{Value, json};

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::model::FakeModel;

const CHANNELS: usize = 8;

/// Messages in each channel that is asleep.
const EACH_ASLEEP: usize = 5;

/// Every so many rounds: everything is looked at, the configuration is reloaded, a backup is made, the store is checked.
const LOOK_EVERY: usize = 5;
const RELOAD_EVERY: usize = 10;
const BACKUP_EVERY: usize = 50;
const CHECK_EVERY: usize = 2_000;

/// The window of the agent, in tokens.
const WINDOW: u64 = 6_000;

/// Runs of at least `LONG_SECS` are measured from `SETTLED_SECS` on, when the caches are full; shorter ones from their half.
const LONG_SECS: f64 = 20.0 * 60.0;
const SETTLED_SECS: f64 = 10.0 * 60.0;

/// Runs of at least `TELLING_SECS` fail if memory grows by `GROWTH_MAX` bytes an hour or more.
const TELLING_SECS: f64 = 30.0 * 60.0;
const GROWTH_MAX: f64 = 1e6;

/// Samples that a report shows.
const SHOWN: usize = 24;

const TALK: &str = "We looked at seven flats in Lisbon and Anna liked the third one best, near the river, with two \
    balconies and a lemon tree, for 1,450 euros a month from 1 June on; the second had more light but no lift.";

#[derive(Debug, Clone)]
pub struct Plan {
    pub cairn: PathBuf,
    /// A folder for state, configuration and backups.
    pub dir: PathBuf,
    /// Messages in all channels that are asleep when the load begins.
    pub asleep: usize,
    pub end: End,
}

#[derive(Debug, Clone, Copy)]
pub enum End {
    Rounds(usize),
    After(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds since the start.
    pub seconds: f64,
    /// Answers until then.
    pub answered: usize,
    /// Resident bytes.
    pub rss: u64,
    /// Those of them that are no mapped files.
    pub anon: u64,
    pub fds: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub answered: usize,
    pub reloads: usize,
    pub backups: usize,
    /// Checks of the store, none of which found anything.
    pub checks: usize,
    /// Runs that were committed, and all that ended.
    pub runs: (usize, usize),
    pub samples: Vec<Sample>,
}

impl Report {
    /// Bytes an hour by which memory that is no mapped file grew once it was settled.
    pub fn anon_slope(&self) -> f64 {
        slope(&self.settled(|sample| sample.anon as f64)) * 3600.0
    }

    /// Descriptors an hour by which their number grew then.
    pub fn fd_slope(&self) -> f64 {
        slope(&self.settled(|sample| sample.fds as f64)) * 3600.0
    }

    /// # Errors
    /// The run was long enough to tell, and memory grew too much.
    pub fn check(&self) -> io::Result<()> {
        let slope = self.anon_slope();
        if self.seconds() < TELLING_SECS || slope < GROWTH_MAX {
            return Ok(());
        }
        let (slope, most) = (slope / 1e6, GROWTH_MAX / 1e6);
        Err(io::Error::other(format!("memory grew by {slope:.2} MB an hour, not below {most:.2}")))
    }

    /// Whole seconds of the run.
    fn seconds(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| last.seconds.round())
    }

    /// The second from which on the run is settled.
    fn settled_from(&self) -> f64 {
        let seconds = self.seconds();
        if seconds >= LONG_SECS { SETTLED_SECS } else { seconds / 2.0 }
    }

    /// Some samples at even distances, the last among them.
    fn chosen(&self) -> impl Iterator<Item = &Sample> {
        let rows = SHOWN.min(self.samples.len());
        (1..=rows).map(move |row| &self.samples[row * self.samples.len() / rows - 1])
    }

    fn settled(&self, value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
        let from = self.settled_from();
        let settled = self.samples.iter().filter(|sample| sample.seconds >= from);
        settled.map(|sample| (sample.seconds, value(sample))).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let most = |value: fn(&Sample) -> u64| self.samples.iter().map(value).max().unwrap_or_default();
        let (first, last) = (self.samples.first(), self.samples.last());
        let (Some(first), Some(last)) = (first, last) else { return write!(f, "no samples") };
        writeln!(
            f,
            "{:>8} {:>9} {:>12} {:>14} {:>11}",
            "seconds", "answers", "resident MB", "not mapped MB", "descriptors"
        )?;
        for sample in self.chosen() {
            let (seconds, answered, fds) = (sample.seconds, sample.answered, sample.fds);
            writeln!(
                f,
                "{seconds:8.0} {answered:9} {:12.1} {:14.1} {fds:11}",
                mb(sample.rss),
                mb(sample.anon)
            )?;
        }
        writeln!(
            f,
            "{:.0} s: {} answers, {} of {} runs committed, {} reloads, {} backups, {} checks",
            last.seconds, self.answered, self.runs.0, self.runs.1, self.reloads, self.backups, self.checks
        )?;
        writeln!(
            f,
            "resident {:.1} MB at first, {:.1} at last, {:.1} at most",
            mb(first.rss),
            mb(last.rss),
            mb(most(|sample| sample.rss)),
        )?;
        let from = self.settled_from();
        writeln!(
            f,
            "of it not mapped files {:.1} MB at first, {:.1} at last, {:.1} at most; {:+.2} MB an hour from {from:.0} s on",
            mb(first.anon),
            mb(last.anon),
            mb(most(|sample| sample.anon)),
            self.anon_slope() / 1e6
        )?;
        write!(
            f,
            "descriptors {} at first, {} at last, {} at most; {:+.2} an hour from {from:.0} s on",
            first.fds,
            last.fds,
            most(|sample| sample.fds),
            self.fd_slope()
        )
    }
}

/// Carries the plan out.
pub async fn run(plan: &Plan) -> io::Result<Report> {
    let model = FakeModel::builder().window(WINDOW).expect_stable_prefix(false).unrecorded().start().await;
    let (file, state) = (plan.dir.join("config.toml"), plan.dir.join("state"));
    std::fs::write(&file, config(&model, 0.8))?;
    let daemon = Daemon::start(&plan.cairn, &state, Some(&file)).await?;
    grow(&daemon.client(), plan.asleep).await?;
    daemon.stop().await?;
    let daemon = Daemon::start(&plan.cairn, &state, Some(&file)).await?;
    let client = daemon.client();
    check(&client).await?;
    let began = Instant::now();
    let mut report =
        Report { answered: 0, reloads: 0, backups: 0, checks: 0, runs: (0, 0), samples: Vec::new() };
    for round in 1.. {
        let over = match plan.end {
            End::Rounds(rounds) => round > rounds,
            End::After(time) => began.elapsed() >= time,
        };
        if over {
            break;
        }
        report.answered += talk(&client, round).await?;
        if round % LOOK_EVERY == 0 {
            look(&client).await?;
        }
        if round % RELOAD_EVERY == 0 {
            std::fs::write(&file, config(&model, if round % 20 == 0 { 0.8 } else { 0.7 }))?;
            expect(&client, "POST", "/v1/reload", &Value::Null).await?;
            report.reloads += 1;
        }
        if round % BACKUP_EVERY == 0 {
            let dir = plan.dir.join("backup");
            expect(&client, "POST", "/v1/store/backup", &json!({ "dir": dir })).await?;
            std::fs::remove_dir_all(dir)?;
            report.backups += 1;
        }
        if round % CHECK_EVERY == 0 {
            check(&client).await?;
            report.checks += 1;
        }
        report.samples.push(sample(&daemon, began, report.answered)?);
    }
    report.runs = runs(&client).await?;
    model.assert_clean();
    let status = daemon.stop().await?;
    if status.success() { Ok(report) } else { Err(io::Error::other(format!("it ended with {status}"))) }
}

fn config(model: &FakeModel, threshold: f64) -> String {
    format!(
        "[[models]]\nid = \"fake\"\nbase_url = \"{}\"\nmodel = \"fake\"\ncontext_window = {WINDOW}\n\
         max_output_tokens = 1024\n\n[[agents]]\nid = \"main\"\nmodels = [\"fake\"]\n\n\
         [agents.compaction]\nbackground_threshold = {threshold}\n",
        model.base_url()
    )
}

/// So many messages in channels of their own, a few in each.
async fn grow(client: &Client, messages: usize) -> io::Result<()> {
    let lane = |lane: usize| async move {
        for n in 0..messages / CHANNELS {
            let body = json!({ "user": "ann", "text": format!("{n}.{lane}: {TALK}") });
            let path = format!("/v1/channels/asleep-{lane}-{}/messages", n / EACH_ASLEEP);
            expect(client, "POST", &path, &body).await?;
        }
        io::Result::Ok(())
    };
    try_join_all((0..CHANNELS).map(lane)).await.map(drop)
}

async fn check(client: &Client) -> io::Result<()> {
    let checked = client.get("/v1/store/verify").await?;
    if checked["ok"] == true {
        Ok(())
    } else {
        Err(io::Error::other(format!("the store is not as it should be: {checked}")))
    }
}

/// A message in every channel, all at once; how many were answered.
async fn talk(client: &Client, round: usize) -> io::Result<usize> {
    let say = |channel: usize| async move {
        let body = json!({ "user": "ann", "text": format!("{round}.{channel}: {TALK}") });
        expect(client, "POST", &format!("/v1/channels/c{channel}/messages"), &body).await
    };
    Ok(try_join_all((0..CHANNELS).map(say)).await?.len())
}

async fn look(client: &Client) -> io::Result<()> {
    for path in [
        "/v1/status",
        "/v1/health",
        "/v1/channels",
        "/v1/channels/c0/context",
        "/v1/channels/c1/history",
        "/v1/channels/c2/search?q=lemon",
        "/v1/memories",
        "/v1/tools/log",
    ] {
        client.get(path).await?;
    }
    Ok(())
}

async fn runs(client: &Client) -> io::Result<(usize, usize)> {
    let (mut committed, mut all) = (0, 0);
    for channel in 0..CHANNELS {
        let context = client.get(&format!("/v1/channels/c{channel}/context")).await?;
        let outcomes = context["outcomes"].as_array().cloned().unwrap_or_default();
        all += outcomes.len();
        committed += outcomes.iter().filter(|outcome| outcome["outcome"] == "committed").count();
    }
    Ok((committed, all))
}

async fn expect(client: &Client, method: &str, path: &str, body: &Value) -> io::Result<Value> {
    let (status, answer) = client.ask(method, path, body).await?;
    if status.is_success() {
        Ok(answer)
    } else {
        Err(io::Error::other(format!("{path}: {status}: {answer}")))
    }
}

fn sample(daemon: &Daemon, began: Instant, answered: usize) -> io::Result<Sample> {
    let pid = daemon.pid().ok_or_else(|| io::Error::other("the daemon has ended"))?;
    let fds = std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"))?.count() as u64;
    let (rss, anon) = (daemon.rss_bytes()?, daemon.anon_bytes()?);
    Ok(Sample { seconds: began.elapsed().as_secs_f64(), answered, rss, anon, fds })
}

/// By how much `y` grows for one of `x`, by least squares; 0 for fewer than two points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if along > 0.0 { across / along } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_own_slope_and_noise_around_it_little_of_another() {
        let line: Vec<_> = (0..50).map(|n| (f64::from(n), 3.0 + 2.0 * f64::from(n))).collect();
        assert!((slope(&line) - 2.0).abs() < 1e-9);
        let noisy: Vec<_> = line
            .iter()
            .map(|(x, y)| (*x, y + if (*x as u32).is_multiple_of(2) { 0.5 } else { -0.5 }))
            .collect();
        assert!((slope(&noisy) - 2.0).abs() < 0.01);
        assert_eq!((slope(&[]), slope(&[(1.0, 5.0)])), (0.0, 0.0));
    }

    /// A sample a minute of a run in which memory grows by so many bytes an hour from one minute on, and before by much.
    fn grown(minutes: u32, settled: u32, bytes_an_hour: f64) -> Report {
        let sample = |minute: u32| {
            let late = f64::from(minute.saturating_sub(settled)) / 60.0 * bytes_an_hour;
            let anon = f64::from(minute.min(settled)) * 1e6 + late;
            Sample { seconds: f64::from(minute) * 60.0, answered: 0, rss: 0, anon: anon as u64, fds: 0 }
        };
        let samples = (0..=minutes).map(sample).collect();
        Report { answered: 0, reloads: 0, backups: 0, checks: 0, runs: (0, 0), samples }
    }

    #[test]
    fn memory_that_grows_fails_a_run_that_is_long_enough_to_tell() {
        // What is cached in the first ten minutes does not count.
        assert!(grown(60, 10, 0.9e6).check().is_ok());
        assert!(grown(60, 10, 1.1e6).check().is_err());
        assert!(grown(30, 10, 1.1e6).check().is_err());
        assert!(grown(29, 10, 1.1e6).check().is_ok(), "too short to tell");
        assert!((grown(10, 5, 2e6).anon_slope() - 2e6).abs() < 1e3, "the second half");
    }
}
