//! What a seed decides of a schedule, how its time goes on over restarts, when its power fails, and the trace of what was done.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cairn_types::ports::Clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::chance::per_mille;
use super::checks::Checks;

/// Lines of the trace that a failure shows.
const SHOWN: usize = 60;

/// How a schedule goes, as its seed decides.
#[derive(Debug, Clone)]
pub(super) struct Mood {
    /// How slow the world is: 0 to 2.
    pub(super) slow: u8,
    /// Faults of each kind, of a thousand calls.
    pub(super) model_faults: u32,
    pub(super) net_faults: u32,
    pub(super) store_faults: u32,
    /// Starts of the daemon.
    pub(super) lives: u32,
    /// What people do.
    pub(super) acts: u32,
    pub(super) channels: usize,
    pub(super) window: u64,
    pub(super) drafts: bool,
    /// The network guards against doubles.
    pub(super) guards: bool,
    pub(super) tools: bool,
    /// Nobody has to be asked about calls that change something.
    pub(super) trusting: bool,
    pub(super) chain: bool,
    /// Runs take an hour each, all else takes nothing: replies are there at once.
    pub(super) lazy_runs: bool,
}

impl Mood {
    fn drawn() -> Self {
        let faults = || [0, 0, 20, 80, 250][fastrand::usize(..5)];
        let lazy_runs = per_mille(100);
        let mood = Self {
            slow: fastrand::u8(..3),
            model_faults: faults(),
            net_faults: faults(),
            store_faults: faults() / 4,
            lives: fastrand::u32(1..4),
            acts: fastrand::u32(8..32),
            channels: fastrand::usize(1..4),
            window: fastrand::u64(2_200..5_000),
            drafts: fastrand::bool(),
            guards: fastrand::bool(),
            tools: fastrand::bool(),
            trusting: fastrand::bool(),
            chain: per_mille(300),
            lazy_runs,
        };
        if !lazy_runs {
            return mood;
        }
        // Nothing but a compaction takes time.
        Self { slow: 0, model_faults: 0, net_faults: 0, store_faults: 0, tools: false, chain: false, ..mood }
    }
}

impl Mood {
    /// The window of its models: tools take their part of it.
    pub(super) fn window_tokens(&self) -> u64 {
        self.window + if self.tools { 1_200 } else { 0 }
    }
}

/// Until when something is out of order, by the time that has passed.
#[derive(Debug, Default)]
pub(super) struct Outages {
    pub(super) disk: Duration,
    pub(super) views: Duration,
    pub(super) model: Duration,
    pub(super) net: Duration,
}

#[derive(Default)]
struct Time {
    /// What had passed when this life began.
    before: Duration,
    began: Option<Instant>,
    /// Seconds by which the wall clock is off.
    off: i64,
}

#[derive(Default)]
struct Trace {
    lines: Vec<String>,
    hash: DefaultHasher,
}

pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) mood: Mood,
    pub(super) checks: Mutex<Checks>,
    pub(super) outages: Mutex<Outages>,
    /// Nothing fails any more, and nothing takes long.
    pub(super) calm: AtomicBool,
    time: Mutex<Time>,
    steps: AtomicU64,
    /// At this step the power fails.
    fails_at: AtomicU64,
    pub(super) failed: Notify,
    trace: Mutex<Trace>,
    broken: Mutex<Option<String>>,
}

impl Scene {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            mood: Mood::drawn(),
            checks: Mutex::default(),
            outages: Mutex::default(),
            calm: AtomicBool::new(false),
            time: Mutex::default(),
            steps: AtomicU64::new(0),
            fails_at: AtomicU64::new(u64::MAX),
            failed: Notify::new(),
            trace: Mutex::default(),
            broken: Mutex::default(),
        }
    }

    /// The daemon starts; its power fails after so many steps.
    pub(super) fn begin_life(&self, fails_after: Option<u64>) {
        self.time.lock().began = Some(Instant::now());
        let at = fails_after.map_or(u64::MAX, |steps| self.steps.load(Ordering::Relaxed) + steps);
        self.fails_at.store(at, Ordering::Relaxed);
    }

    /// The daemon is gone; what has passed is kept.
    pub(super) fn end_life(&self) {
        let before = self.passed();
        let mut time = self.time.lock();
        (time.before, time.began) = (before, None);
    }

    /// The time that has passed since the schedule began.
    pub(super) fn passed(&self) -> Duration {
        let time = self.time.lock();
        time.before + time.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// The wall clock jumps.
    pub(super) fn jump(&self, seconds: i64) {
        self.time.lock().off += seconds;
    }

    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// All is well from here on.
    pub(super) fn heal(&self) {
        self.calm.store(true, Ordering::Relaxed);
        *self.outages.lock() = Outages::default();
        self.fails_at.store(u64::MAX, Ordering::Relaxed);
    }

    pub(super) fn is_out(&self, until: impl Fn(&Outages) -> Duration) -> bool {
        self.passed() < until(&self.outages.lock())
    }

    /// A fault of a kind that befalls so many of a thousand calls.
    pub(super) fn faulty(&self, of_thousand: u32) -> bool {
        !self.is_calm() && per_mille(of_thousand)
    }

    /// A step of the schedule: it is noted, and the seed decides how long whoever does it waits, and who goes first meanwhile.
    pub(super) async fn step(&self, what: impl FnOnce() -> String) {
        self.note(what);
        if self.steps.fetch_add(1, Ordering::Relaxed) + 1 == self.fails_at.load(Ordering::Relaxed) {
            self.note(|| "the power fails".to_owned());
            self.failed.notify_one();
        }
        self.rest().await;
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    fn is_dead(&self) -> bool {
        self.steps.load(Ordering::Relaxed) >= self.fails_at.load(Ordering::Relaxed)
    }

    async fn rest(&self) {
        let millis: u64 = match (fastrand::u8(..), if self.is_calm() { 0 } else { self.mood.slow }) {
            (0..100, _) => return,
            (100..200, _) => {
                for _ in 0..fastrand::u8(1..4) {
                    tokio::task::yield_now().await;
                }
                return;
            }
            (200..250, _) | (_, 0) => 3,
            (_, 1) => 800,
            (_, _) => 20_000,
        };
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=millis))).await;
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        let line = format!("{:>9} ms  {}", self.passed().as_millis(), what());
        let mut trace = self.trace.lock();
        line.hash(&mut trace.hash);
        trace.lines.push(line);
    }

    /// A mark of all that was done.
    pub(super) fn hash(&self) -> u64 {
        self.trace.lock().hash.finish()
    }

    /// An invariant does not hold. The first one counts.
    pub(super) fn broken(&self, invariant: impl Into<String>) {
        let invariant = invariant.into();
        self.note(|| format!("BROKEN: {invariant}"));
        self.broken.lock().get_or_insert(invariant);
        self.fails_at.store(0, Ordering::Relaxed);
        self.failed.notify_one();
    }

    pub(super) fn check(&self, holds: bool, invariant: impl FnOnce() -> String) {
        if !holds {
            self.broken(invariant());
        }
    }

    /// The invariant that does not hold, with what was done last.
    pub(super) fn verdict(&self) -> Option<String> {
        let invariant = self.broken.lock().clone()?;
        let trace = self.trace.lock();
        let last = trace.lines[trace.lines.len().saturating_sub(SHOWN)..].join("\n");
        let (seed, mood) = (self.seed, &self.mood);
        Some(format!("{last}\n\n{mood:?}\nseed {seed}: {invariant}\nagain: .ci/soak sim 1 {seed}"))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.trace.lock().lines.clone()
    }
}

impl Clock for Scene {
    fn now(&self) -> Timestamp {
        let base = Timestamp::from_second(1_767_225_600).unwrap();
        let passed = SignedDuration::try_from(self.passed()).unwrap();
        base + passed + SignedDuration::from_secs(self.time.lock().off)
    }
}
