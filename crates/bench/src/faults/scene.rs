//! A daemon at work while a fault comes: two channels of its own and a chat of Telegram, a model that calls tools, a window so
//! small that there are compactions. What was said is asked about again afterwards.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use cairn_testkit::daemon::{Client, Daemon, PATIENCE};
use cairn_testkit::disk::{Calls, Fault};
use cairn_testkit::home::write_secret;
use cairn_testkit::model::{Answer, FakeModel, Kind, text_of};
use cairn_testkit::random::Random;
use cairn_testkit::telegram::{FakeTelegram, Person};

use super::disk::HUNG;
use super::{Case, Outcome, crash, require, tally};
use crate::chats::words;

const CHANNELS: [&str; 2] = ["main", "letters"];

/// Ten messages fill the window.
const WINDOW: u64 = 5_000;

/// How long the talk waits for an answer before it goes on.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

struct Said {
    /// None: on Telegram.
    channel: Option<&'static str>,
    /// Its number in all of the talk.
    n: usize,
}

impl Said {
    fn body(&self) -> Value {
        // Some are so large that they become artifacts.
        let more = if self.n % 7 == 3 { "0of0the0river".repeat(2_000) } else { String::new() };
        json!({ "user": "anna", "text": message(self.n) + &more, "id": words::token(self.n) })
    }
}

/// Long enough that there are compactions soon.
fn message(n: usize) -> String {
    let more = "and past the flats on the other side of the water ".repeat(15);
    format!("Remember this: {} It went {more}.", words::message(n))
}

/// The messages that a request wants answered, and whether tools were called for them.
fn wanted(body: &Value) -> (Vec<usize>, bool) {
    let (mut tokens, mut called) = (Vec::new(), false);
    for message in body["messages"].as_array().into_iter().flatten().rev() {
        match message["role"].as_str() {
            Some("tool") => called = true,
            Some("assistant") if message["tool_calls"].is_array() => called = true,
            Some("user") => {
                let text = text_of(message);
                let context = if text.starts_with("<context>") { Some(0) } else { text.rfind("\n<context>") };
                let found = words::tokens(&text[..context.unwrap_or(text.len())]);
                tokens.splice(0..0, found);
            }
            _ => break,
        }
    }
    (tokens, called)
}

pub(super) struct Scene {
    pub(super) model: FakeModel,
    pub(super) telegram: FakeTelegram,
    person: Person,
    said: Arc<Mutex<Vec<Said>>>,
    /// So many of them had their answer before: nobody asks about them again.
    settled: AtomicUsize,
    next: Arc<AtomicUsize>,
}

impl Scene {
    pub(super) async fn set(case: &Case<'_>, more: &str) -> io::Result<Self> {
        let model =
            FakeModel::builder().window(WINDOW).expect_stable_prefix(false).unrecorded().respond(|seen| {
                if seen.kind != Kind::Reply {
                    return None;
                }
                let (tokens, called) = wanted(&seen.body);
                match tokens.first() {
                    Some(first) if first % 3 == 1 && !called => Some(Answer::call(
                        "memory_save",
                        json!({ "text": format!("The burrow of day {first} is dry."), "kind": "fact" }),
                    )),
                    _ => Some(Answer::text(words::answer(&tokens))),
                }
            });
        let model = model.start().await;
        let telegram = FakeTelegram::start().await;
        let person = telegram.person(words::NAMED);
        let config = format!(
            "[log]\nlevel = \"info\"\n\n[limits]\nshutdown_secs = 1\n\n[defaults.compaction]\nretry_base_ms = 10\n\n\
             [[models]]\nid = \"main\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"fake\"\n\
             context_window = {WINDOW}\nmax_output_tokens = 600\n\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n\n\
             [telegram]\ntoken_file = \"telegram.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\ndirect = \"open\"\n\n{more}",
            model.base_url(),
            telegram.api_url(),
        );
        std::fs::create_dir_all(case.state())?;
        std::fs::write(case.config(), config)?;
        write_secret(&case.dir.join("telegram.token"), telegram.token())?;
        Ok(Self {
            model,
            telegram,
            person,
            said: Arc::default(),
            settled: AtomicUsize::new(0),
            next: Arc::default(),
        })
    }

    fn told_on_telegram(&self, n: usize) -> usize {
        let sent = self.telegram.sent(self.person.id);
        sent.iter().flat_map(|sent| words::tokens(&sent.text)).filter(|told| *told == n).count()
    }

    fn note(&self, channel: Option<&'static str>) -> Said {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.said.lock().push(Said { channel, n });
        Said { channel, n }
    }

    /// All talk at once until `most` messages are said in each place; what gets no answer in time is left.
    pub(super) async fn talk(&self, client: &Client, most: usize) {
        let local = CHANNELS.map(|channel| async move {
            for _ in 0..most {
                let said = self.note(Some(channel));
                let path = format!("/v1/channels/{channel}/messages");
                let body = said.body();
                if !matches!(timeout(ANSWER_LIMIT, client.ask("POST", &path, &body)).await, Ok(Ok(_))) {
                    sleep(Duration::from_millis(20)).await;
                }
            }
        });
        let chat = async {
            for _ in 0..most {
                let said = self.note(None);
                self.telegram.say(self.person.id, &self.person, message(said.n));
                let by = Instant::now() + ANSWER_LIMIT;
                while self.told_on_telegram(said.n) == 0 && Instant::now() < by {
                    sleep(Duration::from_millis(5)).await;
                }
            }
        };
        futures::future::join(futures::future::join_all(local), chat).await;
    }

    /// Asks about all that was said until each message has its answer. The daemon may end to be started again.
    pub(super) async fn settle(&self, case: &Case<'_>, mut daemon: Daemon) -> io::Result<(Daemon, usize)> {
        let (client, mut restarts) = (daemon.client(), 0);
        let answered = async {
            let open = self.settled.load(Ordering::Relaxed);
            let open: Vec<Said> = self.said.lock()[open..].iter().map(|said| Said { ..*said }).collect();
            for said in &open {
                self.answered(&client, said).await?;
            }
            self.settled.fetch_add(open.len(), Ordering::Relaxed);
            io::Result::Ok(())
        };
        let answered = timeout(PATIENCE, answered);
        tokio::pin!(answered);
        loop {
            tokio::select! {
                done = &mut answered => {
                    let late = |_late| io::Error::other(format!("it never answered again: {}", case.log()));
                    done.map_err(late)??;
                    return Ok((daemon, restarts));
                }
                status = daemon.wait() => {
                    let status = status?;
                    require(status.code() == Some(HUNG), || format!("it ended: {status}: {}", case.log()))?;
                    restarts += 1;
                    daemon = case.daemon().await?;
                }
            }
        }
    }

    async fn answered(&self, client: &Client, said: &Said) -> io::Result<()> {
        let Some(channel) = said.channel else {
            while self.told_on_telegram(said.n) == 0 && !self.is_listed(client, said.n).await {
                sleep(Duration::from_millis(20)).await;
            }
            return Ok(());
        };
        let path = format!("/v1/channels/{channel}/messages");
        loop {
            let asked = timeout(ANSWER_LIMIT, client.ask("POST", &path, &said.body())).await;
            match asked {
                Ok(Ok((StatusCode::OK, reply))) => {
                    let named = words::tokens(&reply.to_string()).contains(&said.n);
                    return require(named, || format!("{} is answered by {reply}", words::token(said.n)));
                }
                Ok(Ok((status, told))) if status.is_client_error() => {
                    return Err(io::Error::other(format!("{status}: {told}")));
                }
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Nobody knows whether its answer was sent, and that is told.
    async fn is_listed(&self, client: &Client, n: usize) -> bool {
        let Ok(outbox) = client.get("/v1/outbox").await else { return false };
        for delivery in outbox.as_array().into_iter().flatten().filter(|one| one["state"] == "unknown") {
            let channel = delivery["channel"].as_str().unwrap_or_default().replace('/', "%2F");
            let path = format!("/v1/channels/{channel}/history?from={0}&to={0}", delivery["seq"]);
            let entries = client.get(&path).await.unwrap_or_default();
            if words::tokens(&entries[0]["parts"].to_string()).contains(&n) {
                return true;
            }
        }
        false
    }

    /// Each message is in its history once, no answer was sent twice, no memory is there twice.
    pub(super) async fn check(&self, case: &Case<'_>, client: &Client) -> io::Result<()> {
        let chat = format!("main/telegram/{}", self.person.id);
        let mut said_in = std::collections::BTreeMap::new();
        for channel in CHANNELS.into_iter().chain([chat.as_str()]) {
            let (status, history) = client.history(&channel.replace('/', "%2F")).await?;
            let is_new = status == StatusCode::NOT_FOUND;
            require(status.is_success() || is_new, || format!("{channel}: {status}: {history}"))?;
            let theirs = history.as_array().into_iter().flatten().filter(|entry| entry["role"] == "user");
            for n in theirs.flat_map(|entry| words::tokens(&entry["parts"].to_string())) {
                *said_in.entry((channel.to_owned(), n)).or_insert(0) += 1;
            }
        }
        for said in self.said.lock().iter() {
            let channel = said.channel.unwrap_or(&chat).to_owned();
            let times = said_in.remove(&(channel.clone(), said.n)).unwrap_or(0);
            require(times == 1, || format!("{} is in {channel} {times} times", words::token(said.n)))?;
            let sent = self.told_on_telegram(said.n);
            require(sent <= 1, || format!("{} is answered {sent} times", words::token(said.n)))?;
        }
        require(said_in.is_empty(), || format!("nobody said {said_in:?}"))?;
        let memories = client.get("/v1/memories?limit=1000").await?;
        let texts: Vec<String> = memories
            .as_array()
            .into_iter()
            .flatten()
            .map(|memory| format!("{} {}", memory["scope"], memory["text"]))
            .collect();
        let twice = tally(texts.iter().map(String::as_str)).into_iter().find(|(_, n)| *n > 1);
        require(twice.is_none(), || format!("a memory is there twice: {twice:?}"))?;
        require(!case.log().contains("panicked at"), || format!("it panicked: {}", case.log()))
    }

    /// All is answered and in its place, before and after a stop.
    pub(super) async fn end(&self, case: &Case<'_>, daemon: Daemon) -> io::Result<usize> {
        let (daemon, restarts) = self.settle(case, daemon).await?;
        self.check(case, &daemon.client()).await?;
        case.stop(daemon).await?;
        case.verify().await?;
        Ok(restarts)
    }
}

/// Parts of the state that a daemon writes to, and commands that write to all of it.
pub(super) const ERRORS: [&str; 10] = [
    "journal",
    "views",
    "index",
    "artifacts",
    "rewrite",
    "pack",
    "backup",
    "restore",
    "rebuild",
    "quarantine",
];

/// The calls of one part of the state fail for a while, from one of them on.
pub(super) async fn error(case: &Case<'_>, part: &str, seed: u64) -> io::Result<Outcome> {
    let mut random = Random::new(seed);
    let faults = [Fault::Full, Fault::Broken, Fault::NoFiles, Fault::Hangs, Fault::Slow];
    let fault = faults[random.below(faults.len() as u64) as usize];
    let lasts = Duration::from_millis(500 + random.below(6_000));
    if !["journal", "views", "index", "artifacts"].contains(&part) {
        return crash::at_command(case, part, (fault, lasts), &mut random).await;
    }
    let scene = Scene::set(case, "").await?;
    let daemon = case.daemon().await?;
    let client = daemon.client();
    scene.talk(&client, 2).await;
    let part = format!("/{part}/");
    let calls = Calls { from: 1 + random.below(40), ..Calls::to(&part) };
    case.disk.fail_at(&calls, fault)?;
    // Whoever gets no answer now is left, and asked about later.
    drop(timeout(lasts, scene.talk(&client, 100)).await);
    case.disk.mend()?;
    let restarts = scene.end(case, daemon).await?;
    Ok(match restarts {
        0 => Outcome::Harmless,
        _ => {
            Outcome::Mended(format!("{fault:?} for {lasts:?}: it ended {restarts} times to be started again"))
        }
    })
}
