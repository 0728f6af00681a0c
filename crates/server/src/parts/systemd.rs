//! Messages to systemd: ready, reloading, stopping, status line and watchdog.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cairn_actors::{Liveness, Runtime};
use cairn_types::ports::{Adapter, LinkState};
use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::parts::adapters::statuses;
use cairn_config::{Environment as _, ProcessEnvironment};

/// Time between two updates of the status line.
const STATUS_EVERY: Duration = Duration::from_secs(5);

/// Time between two requests for more time during a long start or stop.
const PATIENCE_EVERY: Duration = Duration::from_secs(5);

const PATIENCE_USEC: u32 = 30_000_000;

/// Requests more time for a start or stop.
pub const MORE_TIME: NotifyState<'static> = NotifyState::ExtendTimeoutUsec(PATIENCE_USEC);

/// How many times the watchdog is fed within its limit.
const BEATS: u32 = 3;

/// Most queued messages; further ones are dropped, since each describes the current state.
const UNREAD_MAX: usize = 64;

/// Sends a message to systemd, if it listens (`$NOTIFY_SOCKET`). Never waits: a separate thread writes, in case systemd
/// does not read.
pub fn tell(state: &[NotifyState<'_>]) {
    static WRITER: OnceLock<Option<SyncSender<String>>> = OnceLock::new();
    let lines: Vec<String> = state.iter().map(ToString::to_string).collect();
    if let Some(writer) = WRITER.get_or_init(start_writer) {
        // A full queue drops the message.
        let _ = writer.try_send(lines.join("\n"));
    }
}

fn start_writer() -> Option<SyncSender<String>> {
    let (tell, messages) = sync_channel::<String>(UNREAD_MAX);
    let work = move || {
        let mut told = false;
        for message in messages {
            if let Err(error) = sd_notify::notify(&[NotifyState::Custom(&message)])
                && !std::mem::replace(&mut told, true)
            {
                // Logged once, because it would fail each time.
                tracing::warn!(%error, "cannot notify systemd; check NotifyAccess of the unit");
            }
        }
    };
    let started = std::thread::Builder::new().name("systemd".to_owned()).spawn(work);
    if let Err(error) = &started {
        tracing::error!(%error, "cannot start the thread that notifies systemd");
    }
    started.is_ok().then_some(tell)
}

/// Tells systemd that a reload starts. The time lets systemd match it with its request.
pub fn tell_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// Runs long work, and asks systemd for more time until it is done.
pub async fn with_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tell(&[NotifyState::Status(what)]);
    let ask = async {
        let mut ticks = interval(PATIENCE_EVERY);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            tell(&[MORE_TIME, NotifyState::Status(what)]);
        }
    };
    tokio::select! {
        done = work => done,
        never = ask => never,
    }
}

/// Keeps the status line up to date. Never returns.
pub async fn show_status(runtime: Runtime, adapters: Arc<[Arc<dyn Adapter>]>) {
    let mut shown = String::new();
    loop {
        let line = status_line(&runtime, &adapters);
        if line != shown {
            tell(&[NotifyState::Status(&line)]);
            shown = line;
        }
        sleep(STATUS_EVERY).await;
    }
}

fn status_line(runtime: &Runtime, adapters: &[Arc<dyn Adapter>]) -> String {
    let health = runtime.health();
    let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    let mut line = format!(
        "{}: {} awake, {}, {}",
        health.state,
        count(health.awake, "channel"),
        count(health.turns, "turn"),
        count(health.runs, "run")
    );
    for status in statuses(adapters) {
        let why = status.reason.filter(|_| status.state != LinkState::Connected);
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        line.push_str(&format!("; {} {}{why}", status.platform, status.state.name()));
    }
    // A line break would start another assignment.
    line.replace(char::is_control, " ")
}

/// The watchdog's limit, if the unit has one for this process.
pub fn watchdog() -> Option<Duration> {
    let number = |name: &str| ProcessEnvironment.var(name)?.to_str()?.parse::<u64>().ok();
    // Without `WATCHDOG_PID` the limit applies to any process.
    let mine = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|usec| mine && *usec > 0).map(Duration::from_micros)
}

/// Feeds the watchdog only while all actors answer. `ask` asks them, with a time limit. Never returns.
pub async fn feed<A>(ask: impl Fn(Duration) -> A, limit: Duration, feed: impl Fn())
where
    A: Future<Output = Liveness>,
{
    let every = limit / BEATS;
    let mut beats = interval(every);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let liveness = ask(every).await;
        metrics::gauge!("cairn_actors_silent").set(liveness.silent.len() as f64);
        if liveness.is_whole() {
            feed();
        } else {
            tracing::error!(
                silent = liveness.told(),
                "actors do not respond; systemd's watchdog is not notified"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_watchdog_starves_while_an_actor_is_silent_and_is_fed_well_within_its_limit_otherwise() {
        let (silent, fed) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let ask = |_| std::future::ready(Liveness { heard: 3, silent: silent.lock().clone() });
        let limit = Duration::from_secs(30);
        let feed = feed(ask, limit, || {
            fed.fetch_add(1, Ordering::Relaxed);
        });
        let watch = async {
            sleep(limit).await;
            let n = fed.swap(0, Ordering::Relaxed);
            assert!((3..=4).contains(&n), "{n} times within the limit");
            *silent.lock() = vec!["channel main/local/main".to_owned()];
            sleep(limit * 2).await;
            assert_eq!(fed.load(Ordering::Relaxed), 0);
            silent.lock().clear();
            sleep(limit).await;
            assert!(fed.load(Ordering::Relaxed) >= 2);
        };
        tokio::select! {
            () = feed => unreachable!("it never ends"),
            () = watch => {}
        }
    }
}
