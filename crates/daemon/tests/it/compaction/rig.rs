//! A daemon with a fake model, in a folder of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_testkit::daemon::{Client, Daemon, Events};
use cairn_testkit::model::{Builder, FakeModel};
use serde_json::{Value, json};

/// The window of the tests, in tokens: small, so that few messages fill it.
pub(crate) const WINDOW: u64 = 6_000;

/// A message that fills some of the window.
pub(crate) const LONG: &str = "We looked at seven flats in Lisbon and Anna liked the third one best, near the \
    river, with two balconies and a lemon tree, for 1,450 euros a month from 1 June on; the second had more light \
    but no lift, and the fifth was sold while we stood in its kitchen.";

pub(crate) fn cairn() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_cairn"))
}

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("cairn-{name}-{}", std::process::id()));
        Self(cairn_bench::kills::fresh(&dir).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Rig {
    pub(crate) folder: Folder,
    pub(crate) model: FakeModel,
    pub(crate) daemon: Daemon,
    config: PathBuf,
}

impl Rig {
    pub(crate) async fn start(name: &str) -> Self {
        Self::with(name, FakeModel::builder().window(WINDOW)).await
    }

    pub(crate) async fn with(name: &str, model: Builder) -> Self {
        Self::on("openai", name, model).await
    }

    /// A house whose model speaks another wire format.
    pub(crate) async fn on(provider: &str, name: &str, model: Builder) -> Self {
        Self::configured(provider, name, model, WINDOW, "").await
    }

    /// With that window, and more keys of the agent, or tables of configuration.
    pub(crate) async fn configured(
        provider: &str,
        name: &str,
        model: Builder,
        window: u64,
        more: &str,
    ) -> Self {
        let folder = Folder::new(name);
        let model = model.start().await;
        let config = folder.path().join("config.toml");
        std::fs::write(&config, config_text(provider, &model, window, more)).unwrap();
        let daemon = Daemon::start(cairn(), &folder.state(), Some(&config)).await.unwrap();
        Self { folder, model, daemon, config }
    }

    /// Stops the daemon and starts it with that context engine of the agent.
    pub(crate) async fn with_engine(self, engine: &str) -> Self {
        let text = std::fs::read_to_string(&self.config).unwrap();
        let others: String =
            text.lines().filter(|line| !line.starts_with("engine")).map(|line| format!("{line}\n")).collect();
        let (config, text) = (self.config.clone(), format!("{others}engine = \"{engine}\"\n"));
        self.stop_and(|_state| std::fs::write(&config, text).unwrap()).await
    }

    /// Kills the daemon as a power cut does and starts it again.
    pub(crate) async fn crash(self) -> Self {
        let Self { folder, model, daemon, config } = self;
        daemon.kill().await.unwrap();
        let daemon = Daemon::start(cairn(), &folder.state(), Some(&config)).await.unwrap();
        Self { folder, model, daemon, config }
    }

    /// Stops the daemon as systemd does, lets something happen to its files, and starts it again.
    pub(crate) async fn stop_and(self, change: impl FnOnce(&Path)) -> Self {
        let Self { folder, model, daemon, config } = self;
        let status = daemon.stop().await.unwrap();
        assert!(status.success(), "a clean stop ends with {status}");
        change(&folder.state());
        let daemon = Daemon::start(cairn(), &folder.state(), Some(&config)).await.unwrap();
        Self { folder, model, daemon, config }
    }

    pub(crate) fn client(&self) -> Client {
        self.daemon.client()
    }

    pub(crate) async fn events(&self) -> Events {
        self.client().events().await.unwrap()
    }

    /// Says something and expects the reply that the fake model gives: an echo.
    pub(crate) async fn say(&self, text: &str) -> Value {
        let (status, reply) = self.client().say("main", text).await.unwrap();
        assert_eq!(status, 200, "{reply}");
        reply
    }

    pub(crate) async fn context(&self) -> Value {
        self.client().get("/v1/channels/main/context").await.unwrap()
    }

    /// Talks until a run is under way; the events from before it.
    pub(crate) async fn talk_until_run(&self) -> Events {
        let mut events = self.events().await;
        let n_ended = |context: &Value| context["outcomes"].as_array().unwrap().len();
        let before =
            self.client().get("/v1/channels/main/context").await.map_or(0, |context| n_ended(&context));
        for n in 0..200 {
            self.say(&format!("{LONG} ({n})")).await;
            let context = self.context().await;
            if !context["run"].is_null() || n_ended(&context) > before {
                events.wait_for("run_started", |_| true).await.unwrap();
                return events;
            }
        }
        panic!("no run after 200 messages: {}", self.context().await);
    }

    pub(crate) async fn run_ended(&self, events: &mut Events) -> Value {
        events.wait_for("run_ended", |_| true).await.unwrap()
    }

    /// The whole history, each number once and in order, by its number.
    pub(crate) async fn history(&self) -> BTreeMap<u64, Value> {
        let list = self.client().get("/v1/channels/main/history?limit=10000").await.unwrap();
        let entries = list.as_array().unwrap();
        let seqs: Vec<u64> = entries.iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "the history has a gap or a double");
        seqs.into_iter().zip(entries.iter().cloned()).collect()
    }

    /// Context and history of the same moment: what is done behind the last reply may come between two questions.
    async fn still(&self) -> (Value, BTreeMap<u64, Value>) {
        let of = |context: &Value| (context["summaries"].clone(), context["markers"].clone());
        let mut before = self.context().await;
        loop {
            let history = self.history().await;
            let after = self.context().await;
            if of(&before) == of(&after) {
                return (after, history);
            }
            before = after;
        }
    }

    /// Every entry is in the place that the context says: under a summary, under a marker, sealed or live.
    pub(crate) async fn check_places(&self) {
        let (context, history) = self.still().await;
        let within = |item: &Value, seq: u64| {
            (item["from_seq"].as_u64().unwrap()..=item["to_seq"].as_u64().unwrap()).contains(&seq)
        };
        for (seq, entry) in &history {
            let mut places = Vec::new();
            let summaries = context["summaries"].as_array().unwrap().iter();
            places.extend(
                summaries
                    .filter(|item| within(item, *seq))
                    .map(|item| format!("summary:{}", item["id"].as_str().unwrap())),
            );
            let markers = context["markers"].as_array().unwrap().iter();
            places.extend(markers.filter(|item| within(item, *seq)).map(|_| "marker".to_owned()));
            let place = entry["place"].as_str().unwrap();
            match places.as_slice() {
                [] => assert!(["live", "sealed"].contains(&place), "{seq} is {place}"),
                [only] => assert_eq!(place, only),
                several => panic!("{seq} is in several places: {several:?}"),
            }
        }
    }
}

fn config_text(provider: &str, model: &FakeModel, window: u64, agent: &str) -> String {
    format!(
        "[defaults.compaction]\nretry_base_ms = 1\n\n[[models]]\nid = \"main\"\nprovider = \"{provider}\"\n\
         base_url = \"{}\"\nmodel = \"fake\"\ncontext_window = {window}\nmax_output_tokens = 1000\n\n\
         [[agents]]\nid = \"main\"\nmodels = [\"main\"]\n{agent}",
        model.base_url()
    )
}

/// All words of a request, as the model gets them.
pub(crate) fn words(request: &Value) -> String {
    request["messages"].to_string()
}

/// A body for a message with an id of its own.
pub(crate) fn message(id: &str, text: &str) -> Value {
    json!({ "user": "anna", "text": text, "id": id })
}
