//! Long conversations with stand-ins for providers that want back what they gave: tools in every turn, compactions, restarts,
//! kills, and an outage in the middle, in which a spare model answers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use cairn_testkit::daemon::Daemon;
use cairn_testkit::model::{Answer, FakeModel, Kind, Provider, Rule, Seen};
use cairn_testkit::rig::model_table;

/// What stands in for a provider, and how its model is configured.
#[derive(Debug, Clone, Copy)]
pub struct StandIn {
    pub name: &'static str,
    /// What it wants back beyond the rules of its wire format.
    provider: Option<Provider>,
    /// Fields of the model.
    fields: &'static str,
}

pub const STAND_INS: [StandIn; 5] = [
    StandIn { name: "DeepSeek", provider: Some(Provider::DeepSeek), fields: "" },
    StandIn { name: "Gemini 3", provider: Some(Provider::Gemini3), fields: "" },
    StandIn { name: "GPT-5.6 on chat completions", provider: Some(Provider::Gpt56OnChat), fields: "" },
    StandIn {
        name: "GPT-5.6 on the Responses API",
        provider: None,
        fields: "api = \"responses\"\ncache_breakpoints = true\n",
    },
    StandIn {
        name: "Claude with thinking",
        provider: Some(Provider::ClaudeThinking),
        fields: "provider = \"anthropic\"\nextra_body = { thinking = { type = \"enabled\", budget_tokens = 1024 } }\n",
    },
];

#[derive(Debug, Clone)]
pub struct Plan {
    pub cairn: PathBuf,
    /// An empty folder for state and configuration.
    pub dir: PathBuf,
    pub stand_in: StandIn,
    pub n_turns: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    pub answered: usize,
    /// Turns that the spare model answered.
    pub by_spare: usize,
    /// Requests that the stand-in refused for what it wants back.
    pub refused: usize,
    pub starts: usize,
    /// Summaries by a model, and by a digest.
    pub by_model: usize,
    pub by_digest: usize,
    pub memories: usize,
}

const WINDOW: u64 = 8_000;

/// Turns between two restarts; every other one is a kill.
const RESTART_EVERY: usize = 25;

/// Talks for so many turns.
///
/// # Errors
/// A turn is not answered, or the daemon does not do what a daemon does.
pub async fn run(plan: &Plan) -> io::Result<Findings> {
    let down = Arc::new(AtomicBool::new(false));
    let memory = json!({"kind": "fact", "text": "The orchard gate has the code 4711."});
    let builder = || FakeModel::builder().expect_stable_prefix(false).memories(vec![memory.clone()]);
    let is_down = Arc::clone(&down);
    let model = builder().breakpoints().respond(move |seen| answer(seen, is_down.load(Ordering::Relaxed)));
    let model = match plan.stand_in.provider {
        Some(provider) => model.provider(provider),
        None => model,
    };
    let model = model.start().await;
    let spare = builder().respond(|seen| answer(seen, false)).start().await;
    let config = plan.dir.join("config.toml");
    std::fs::write(&config, config_text(&plan.stand_in, &model, &spare))?;
    let state = plan.dir.join("state");
    let mut daemon = Daemon::start(&plan.cairn, &state, Some(&config)).await?;
    let mut findings = Findings { starts: 1, ..Findings::default() };
    for n in 0..plan.n_turns {
        let outage = plan.n_turns / 2..plan.n_turns / 2 + plan.n_turns / 10;
        down.store(outage.contains(&n), Ordering::Relaxed);
        if n > 0 && n % RESTART_EVERY == 0 {
            match (n / RESTART_EVERY) % 2 {
                0 => drop(daemon.stop().await?),
                _ => daemon.kill().await?,
            }
            daemon = Daemon::start(&plan.cairn, &state, Some(&config)).await?;
            findings.starts += 1;
        }
        let text = format!("note {n}: {}", "the apples of the orchard ripen one after another ".repeat(8));
        let (status, reply) = daemon.client().say("main", &text).await?;
        if status.as_u16() != 200 {
            let violations: Vec<String> =
                model.violations().iter().rev().take(3).map(ToString::to_string).collect();
            return Err(io::Error::other(format!("turn {n}: {status} {reply}\n{}", violations.join("\n"))));
        }
        findings.answered += 1;
        findings.by_spare += usize::from(reply["model"] == "spare");
    }
    let client = daemon.client();
    let context = client.until("/v1/channels/main/context", |context| context["run"].is_null()).await?;
    for summary in context["summaries"].as_array().into_iter().flatten() {
        match summary["made_by"] == "digest" {
            true => findings.by_digest += 1,
            false => findings.by_model += 1,
        }
    }
    findings.memories = client.get("/v1/memories").await?.as_array().map_or(0, Vec::len);
    let refused = model.violations().into_iter().filter(|violation| violation.rule == Rule::Provider);
    findings.refused = refused.count();
    if let Some(other) = model.violations().iter().find(|violation| violation.rule != Rule::Provider) {
        return Err(io::Error::other(other.to_string()));
    }
    daemon.stop().await?;
    Ok(findings)
}

/// Every turn calls a tool first. Compactions are answered as usual.
fn answer(seen: &Seen, is_down: bool) -> Option<Answer> {
    if is_down {
        return Some(Answer::error(503, "overloaded"));
    }
    if seen.kind == Kind::Compaction {
        return None;
    }
    let messages = seen.body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let has_result = messages.iter().rev().take_while(|message| message["role"] != "user").any(is_result);
    Some(match has_result {
        true => Answer::text(format!("I looked it up: answer {}.", seen.n)),
        false => Answer::call("history_search", json!({"query": "apples"})),
    })
}

fn is_result(message: &Value) -> bool {
    message["role"] == "tool"
}

fn config_text(stand_in: &StandIn, model: &FakeModel, spare: &FakeModel) -> String {
    let (main, fields) = (model_table("main", &model.base_url(), WINDOW), stand_in.fields);
    format!(
        "[defaults.compaction]\ntokens_per_hour = 0\n\n{main}{fields}\n{}\n[[agents]]\nid = \"main\"\nmodels = [\"main\", \"spare\"]\n",
        model_table("spare", &spare.base_url(), WINDOW)
    )
}
