//! Load: a long conversation of mixed texts through the real binary, with a model server that refuses every request that
//! does not fit, parts a call from its result, or does not go on from the one before.

mod answers;
mod report;
mod talk;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};

use cairn_testkit::daemon::{Client, Daemon};
use cairn_testkit::model::{Count, FakeModel, Kind as Purpose, Rule, Used, Wire};
use futures::future::try_join_all;

pub use answers::summary;
pub use report::{KindErrors, Report};
pub use talk::{Kind, Talk};

/// By whose rule requests are cached and billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheRule {
    Anthropic,
    /// From GPT-5.6 on, by breakpoints.
    OpenAi,
    /// OpenAI's earlier models, and servers that cache as they do.
    Automatic,
}

impl CacheRule {
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Automatic];

    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Automatic => "automatic",
        }
    }

    fn wire(self) -> Wire {
        if self == Self::Anthropic { Wire::Anthropic } else { Wire::OpenAi }
    }

    /// Its keys of `[[models]]`.
    fn keys(self) -> &'static str {
        match self {
            Self::Anthropic => "provider = \"anthropic\"",
            Self::OpenAi => "provider = \"openai\"\ncache_breakpoints = true",
            Self::Automatic => "provider = \"openai\"",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub cairn: PathBuf,
    /// An empty folder for state and config.
    pub dir: PathBuf,
    pub n_turns: usize,
    /// The window in tokens.
    pub window: u64,
    /// Tokens of it kept for an answer.
    pub max_output_tokens: u64,
    pub seed: u64,
    pub rule: CacheRule,
    /// More keys of `[defaults.compaction]`, as TOML.
    pub compaction: String,
}

/// Turns between two looks at the stack, beside those after runs.
const LOOK_EVERY: usize = 100;

/// The same talk by each rule, at the same time.
pub async fn run_all(plan: &Plan) -> io::Result<Vec<Report>> {
    let runs = CacheRule::ALL.map(async |rule| {
        let dir = plan.dir.join(rule.name());
        std::fs::create_dir(&dir)?;
        run(&Plan { dir, rule, ..plan.clone() }).await
    });
    try_join_all(runs).await
}

/// Talks, and reports.
pub async fn run(plan: &Plan) -> io::Result<Report> {
    let seed = plan.seed;
    let model = FakeModel::builder().window(plan.window).count(Count::O200k).unrecorded();
    let model = if plan.rule == CacheRule::OpenAi { model.breakpoints() } else { model };
    let model = model.respond(move |seen| Some(answers::answer(seed, seen))).start().await;
    let config = plan.dir.join("config.toml");
    std::fs::write(&config, config_text(plan, &model))?;
    let began = Instant::now();
    let daemon = Daemon::start(&plan.cairn, &plan.dir.join("state"), Some(&config)).await?;
    let mut load =
        Load { client: daemon.client(), outcomes: BTreeMap::new(), stack: Stack::default(), emergencies: 0 };
    let mut first_half = Used::default();
    let mut sampled: Vec<(Kind, String)> = Vec::new();
    for n in 0..plan.n_turns {
        let mut talk = Talk::nth(seed, n as u64);
        let (kind, size) = (talk.kind(), talk.size());
        let text = talk.text(kind, size);
        load.say(n, &text).await.map_err(|error| with_violations(&error, &model))?;
        sampled.push((kind, text));
        if n == plan.n_turns / 2 {
            first_half = model.used(Purpose::Reply);
        }
        if load.gauge("aggressive").await? || n % LOOK_EVERY == 0 {
            load.look().await?;
        }
    }
    load.gauge("calm").await?;
    let context = load.look().await?;
    let seconds = began.elapsed().as_secs_f64();
    let status = daemon.stop().await?;
    if !status.success() {
        return Err(io::Error::other(format!("the daemon ended with {status}")));
    }
    let violations = model.violations();
    let over = violations.iter().filter(|violation| violation.rule == Rule::Window).count();
    if let Some(first) = violations.first() {
        return Err(io::Error::other(format!(
            "{} requests broke a rule ({over} over the window): {first}",
            violations.len()
        )));
    }
    Ok(Report::new(
        plan,
        &model,
        &load.outcomes,
        load.emergencies,
        load.stack,
        first_half,
        &context,
        seconds,
        &sampled,
    ))
}

fn with_violations(error: &io::Error, model: &FakeModel) -> io::Error {
    let violations: Vec<String> = model.violations().iter().map(ToString::to_string).collect();
    io::Error::other(format!("{error}\n{}", violations.join("\n")))
}

/// Months of talk go through in minutes: no budget by the hour.
fn config_text(plan: &Plan, model: &FakeModel) -> String {
    format!(
        "[defaults.compaction]\ntokens_per_hour = 0\n{}\n\n[[models]]\nid = \"main\"\n{}\nbase_url = \"{}\"\nmodel = \"fake\"\n\
         context_window = {}\nmax_output_tokens = {}\n\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n",
        plan.compaction,
        plan.rule.keys(),
        model.base_url(),
        plan.window,
        plan.max_output_tokens
    )
}

struct Load {
    client: Client,
    outcomes: BTreeMap<String, String>,
    stack: Stack,
    emergencies: u64,
}

/// What the looks at the stack have shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stack {
    /// Most times that any text was rewritten.
    pub rewrites: u64,
    /// Most of the usable window that it took, 0 to 1.
    pub share: f64,
    /// Entries behind a marker, at the last look.
    pub without_summary: u64,
    /// Summaries that a model has still to make, at the last look.
    pub provisional: u64,
}

const CHANNEL: &str = "/v1/channels/load";

impl Load {
    async fn say(&self, n: usize, text: &str) -> io::Result<()> {
        let body = json!({ "user": "anna", "text": text, "id": format!("load-{n}") });
        let (status, answer) = self.client.ask("POST", &format!("{CHANNEL}/messages"), &body).await?;
        if status.as_u16() == 200 {
            Ok(())
        } else {
            Err(io::Error::other(format!("turn {n}: {status} {answer}")))
        }
    }

    /// Takes in which runs have ended, once the window is below that tier. Whether there are new ones.
    async fn gauge(&mut self, below: &str) -> io::Result<bool> {
        let (status, gauge) =
            self.client.ask("POST", &format!("{CHANNEL}/wait"), &json!({ "below": below })).await?;
        if status.as_u16() != 200 {
            return Err(io::Error::other(format!("{status}: {gauge}")));
        }
        self.emergencies = gauge["emergencies"].as_u64().unwrap_or(0);
        let before = self.outcomes.len();
        for end in gauge["outcomes"].as_array().map_or(&[][..], Vec::as_slice) {
            let word = |key: &str| end[key].as_str().unwrap_or_default().to_owned();
            self.outcomes.insert(word("run"), format!("{} {}", word("trigger"), word("outcome")));
        }
        Ok(self.outcomes.len() > before)
    }

    /// Looks at the stack: it stands for everything from the first entry on, without a gap.
    async fn look(&mut self) -> io::Result<Value> {
        let context = self.client.get(&format!("{CHANNEL}/context")).await?;
        let list = |key: &str| context[key].as_array().map_or(&[][..], Vec::as_slice);
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let range = |item: &Value| (number(&item["from_seq"]), number(&item["to_seq"]));
        let mut ranges: Vec<(u64, u64)> =
            list("summaries").iter().chain(list("markers")).map(range).collect();
        ranges.sort_unstable();
        let mut next = 1;
        for (from, to) in ranges {
            if from != next {
                return Err(io::Error::other(format!("nothing stands for entries {next} to {}", from - 1)));
            }
            next = to + 1;
        }
        let usable = number(&context["window_tokens"]) - number(&context["output_reserve_tokens"]);
        let taken = number(&context["regions"]["summaries"]["tokens"]) as f64 / usable.max(1) as f64;
        let highest = list("summaries").iter().map(|summary| number(&summary["level"]) + 1).max();
        self.stack = Stack {
            rewrites: self.stack.rewrites.max(highest.unwrap_or(0)),
            share: self.stack.share.max(taken),
            without_summary: list("markers").iter().map(|marker| number(&marker["messages"])).sum(),
            provisional: list("summaries").iter().filter(|summary| summary["provisional"] == true).count()
                as u64,
        };
        Ok(context)
    }
}
