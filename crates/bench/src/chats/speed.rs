//! How quickly messages go through the daemon, beside a model that answers at once.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::scene::{Scene, Setting, Way};
use cairn_testkit::daemon::PATIENCE;

/// The window of the model, in tokens: large enough that no compaction is measured.
const WINDOW: u64 = 128_000;

/// Chats of Telegram that are measured.
const ON_TELEGRAM: usize = 20;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Speed {
    /// Channels of Discord under load. (On Telegram a bot may send one message a second to a chat, and keeps to it.)
    pub channels: usize,
    pub messages: usize,
    /// Messages taken in and answered in a second, the next in each channel when the one before is answered. No more
    /// than 50: so many requests a second Discord takes of a bot, which keeps to that.
    pub per_second: f64,
    /// Messages taken in and answered in a second when all are said at once: what is pending is answered together.
    pub at_once_per_second: f64,
    /// Median time from Discord's event to the model's request with nothing else to do, in milliseconds.
    pub discord_in_ms: f64,
    /// The same from Telegram's update.
    pub telegram_in_ms: f64,
    /// Median time from the model's answer to the message at Discord, in milliseconds.
    pub discord_out_ms: f64,
}

/// Measures single messages on both networks, then so many in each of so many channels of Discord at once.
pub async fn speed(cairn: &Path, dir: &Path, n_channels: usize, n_each: usize) -> io::Result<Speed> {
    let n_places = [n_channels, ON_TELEGRAM];
    let (reply, compaction) = (Duration::ZERO, Duration::ZERO);
    let setting = Setting { n_places, window: WINDOW, reply, compaction, log: "info" };
    let scene = Scene::set(cairn, &setting).await;
    let (discord, telegram) = (scene.discord.api_url(), scene.telegram.api_url());
    let site = scene.site(dir.to_owned(), &setting, [&discord, &telegram], "")?;
    let daemon = site.start().await?;
    scene.discord.wait_ready().await;
    let mut measured = Speed { channels: n_channels, ..Speed::default() };
    let mut course = Course { scene: &scene, n_said: 0, said_at: BTreeMap::new() };
    for place in 0..scene.places.len() {
        course.say(place);
        course.wait_for(course.n_said).await?;
    }
    (measured.discord_in_ms, measured.discord_out_ms) = course.medians(true);
    (measured.telegram_in_ms, _) = course.medians(false);
    measured.messages = n_channels * n_each;
    let began = Instant::now();
    course.load(n_channels, n_each).await?;
    measured.per_second = measured.messages as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    course.at_once(n_channels, n_each).await?;
    measured.at_once_per_second = measured.messages as f64 / began.elapsed().as_secs_f64();
    daemon.stop().await?;
    Ok(measured)
}

struct Course<'a> {
    scene: &'a Scene,
    n_said: usize,
    said_at: BTreeMap<usize, Instant>,
}

impl Course<'_> {
    fn say(&mut self, place: usize) {
        let n = self.n_said;
        self.n_said += 1;
        self.said_at.insert(n, Instant::now());
        self.scene.say(place, n, true, Way::Once);
    }

    async fn wait_for(&self, n: usize) -> io::Result<()> {
        let (began, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_millis(5)));
        while self.scene.counts().iter().sum::<usize>() < n {
            tick.tick().await;
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("message {n} gets no answer")));
            }
        }
        Ok(())
    }

    /// In each of the first channels the next message follows the answer to the one before.
    async fn load(&mut self, n_channels: usize, n_each: usize) -> io::Result<()> {
        let base = self.scene.counts();
        let mut said = vec![0; n_channels];
        let (mut done, mut since) = (0, Instant::now());
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        loop {
            let counts = self.scene.counts();
            let answered: Vec<usize> = counts.iter().zip(&base).map(|(now, before)| now - before).collect();
            for place in 0..n_channels {
                if said[place] == answered[place] && said[place] < n_each {
                    self.say(place);
                    said[place] += 1;
                }
            }
            let now_done: usize = answered.iter().sum();
            if now_done == n_each * n_channels {
                return Ok(());
            }
            if now_done != done {
                (done, since) = (now_done, Instant::now());
            }
            if since.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("stuck after {done} answers")));
            }
            tick.tick().await;
        }
    }

    /// In each of the first channels so much is said at once.
    async fn at_once(&mut self, n_channels: usize, n_each: usize) -> io::Result<()> {
        let places = (0..n_channels).flat_map(|place| std::iter::repeat_n(place, n_each));
        places.for_each(|place| self.say(place));
        let (began, mut tick) = (Instant::now(), tokio::time::interval(Duration::from_millis(50)));
        let answered = |place| self.scene.heard(place).iter().map(|heard| heard.tokens.len()).sum::<usize>();
        while (0..self.scene.places.len()).map(answered).sum::<usize>() < self.n_said {
            tick.tick().await;
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("not all of what was said at once is answered"));
            }
        }
        Ok(())
    }

    /// Medians of the way in and the way out on one network, in milliseconds.
    fn medians(&self, discord: bool) -> (f64, f64) {
        let asked = self.scene.asked.lock();
        let places = (0..self.scene.places.len()).filter(|place| self.scene.is_discord(*place) == discord);
        let (mut ways_in, mut ways_out) = (Vec::new(), Vec::new());
        for heard in places.flat_map(|place| self.scene.heard(place)) {
            for n in heard.tokens {
                let Some(asked_at) = asked.get(&n) else { continue };
                ways_in.extend(self.said_at.get(&n).map(|said_at| asked_at.duration_since(*said_at)));
                ways_out.extend(heard.at.map(|at| at.duration_since(*asked_at)));
            }
        }
        (median(ways_in), median(ways_out))
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
