//! Evidence recall through `cairn search`, on a file in LoCoMo's or BEAM's format.
//!
//! Each conversation is said again, with its dates, in a channel of its own, and a scripted model says what the model said in the
//! file; where it said nothing, the offline model answers. Each question is searched for by the command line. With
//! `--embeddings FOLDER` the daemon makes vectors of all entries before.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use cairn_bench::locomo::{Conversation, Evidence, beam, load, talk_lines};
use cairn_testkit::daemon::Daemon;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use serde_json::Value;
use tokio::process::Command;

/// So long without another vector: all have one.
const QUIET: Duration = Duration::from_secs(5);

/// Results that are asked for.
const LIMIT: &str = "50";

/// Ranks at which the recall is told.
const RANKS: [usize; 5] = [1, 3, 5, 10, 50];

/// The rank at which a category's recall is told, and that by exchange.
const AT: usize = 10;

/// What the search for one question found, by shares of its evidence.
struct Found {
    at: [f64; RANKS.len()],
    /// One divided by the rank of the first that is right.
    reciprocal: f64,
    /// At [`AT`], where a message and its reply are one.
    of_exchanges: f64,
}

pub(crate) async fn run(
    cairn: &Path,
    file: &Path,
    options: &[&str],
    dir: &Path,
) -> Result<(), Box<dyn Error>> {
    let conversations = load(file).or_else(|_| beam::load(file))?;
    let model = FakeModel::builder().lenient().unrecorded().start().await;
    let replies =
        conversations.iter().flat_map(|conversation| &conversation.turns).any(|turn| turn.reply.is_some());
    let config = dir.join("config.toml");
    let (folder, options) = match options {
        ["--embeddings", folder, rest @ ..] => (Some(*folder), rest),
        _ => (None, options),
    };
    let mut toml = if replies { scripted(&model.base_url()) } else { String::new() };
    toml.extend(folder.map(|folder| format!("\n[embeddings]\nfolder = {}\n", Value::from(folder))));
    std::fs::write(&config, toml)?;
    let state = dir.join("state");
    let daemon = Daemon::start(cairn, &state, Some(&config)).await?;
    for (idx, conversation) in conversations.iter().enumerate() {
        for turn in &conversation.turns {
            model.push(Kind::Reply, Answer::text(turn.reply.as_deref().unwrap_or("I see.")));
        }
        let lines = dir.join("talk.jsonl");
        std::fs::write(&lines, talk_lines(conversation))?;
        let lines = lines.to_string_lossy().into_owned();
        json(cairn, &state, &["import", "--answer", &lines, "--channel", &format!("c{idx}"), "--json"])
            .await?;
    }
    if folder.is_some() {
        until_embedded(cairn, &state).await?;
    }
    let before = daemon.processor_secs()?;
    let mut found: BTreeMap<&str, Vec<Found>> = BTreeMap::new();
    for (idx, conversation) in conversations.iter().enumerate() {
        for question in conversation.questions.iter().filter(|question| !question.evidence.is_empty()) {
            let channel = format!("c{idx}");
            let mut args = vec!["search", &channel, "--limit", LIMIT, "--json"];
            args.extend(options);
            args.extend(["--", &question.question]);
            let hits = json(cairn, &state, &args).await?;
            let ranked = messages(conversation, hits.as_array().map_or(&[][..], Vec::as_slice));
            found.entry(&question.category).or_default().push(compare(&question.evidence, &ranked));
        }
    }
    let secs = daemon.processor_secs()? - before;
    daemon.stop().await?;
    print(&found, secs);
    Ok(())
}

/// Waits until no entry gets a vector any more.
async fn until_embedded(cairn: &Path, state: &Path) -> Result<(), Box<dyn Error>> {
    let mut before = Value::Null;
    loop {
        let status = json(cairn, state, &["status", "--json"]).await?;
        let now = status["store"]["embedded"].clone();
        if now == before {
            println!("{} entries have a vector", now["entries"]);
            return Ok(());
        }
        before = now;
        tokio::time::sleep(QUIET).await;
    }
}

fn scripted(url: &str) -> String {
    format!(
        "[[models]]\nid = \"main\"\nprovider = \"openai\"\nbase_url = \"{url}\"\nmodel = \"fake\"\n\n\
         [[agents]]\nid = \"main\"\nmodels = [\"main\"]\n"
    )
}

/// The messages among the hits, best first. The turns of a channel have the numbers of the file's.
fn messages(conversation: &Conversation, hits: &[Value]) -> Vec<Evidence> {
    let message = |hit: &Value| {
        let turn: usize = hit["turn"].as_str()?.strip_prefix('t')?.parse().ok()?;
        let turn = turn.checked_sub(1).filter(|turn| *turn < conversation.turns.len())?;
        Some(Evidence { turn, in_reply: hit["author"].is_null() })
    };
    hits.iter().filter_map(message).collect()
}

fn compare(evidence: &[Evidence], ranked: &[Evidence]) -> Found {
    let mut wanted = evidence.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let share = |most: usize| {
        let among = &ranked[..ranked.len().min(most)];
        wanted.iter().filter(|message| among.contains(message)).count() as f64 / wanted.len() as f64
    };
    let exchanges = |messages: &[Evidence]| {
        let mut turns: Vec<usize> = Vec::new();
        for message in messages {
            if !turns.contains(&message.turn) {
                turns.push(message.turn);
            }
        }
        turns
    };
    let (wanted_turns, first) = (exchanges(&wanted), exchanges(ranked));
    let first = &first[..first.len().min(AT)];
    let rank = ranked.iter().position(|message| wanted.contains(message));
    Found {
        at: RANKS.map(share),
        reciprocal: rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64),
        of_exchanges: wanted_turns.iter().filter(|turn| first.contains(turn)).count() as f64
            / wanted_turns.len() as f64,
    }
}

fn print(found: &BTreeMap<&str, Vec<Found>>, secs: f64) {
    let mean = |found: &[&Found], of: &dyn Fn(&Found) -> f64| {
        100.0 * found.iter().map(|found| of(found)).sum::<f64>() / found.len().max(1) as f64
    };
    let at = RANKS.iter().position(|rank| *rank == AT).unwrap_or_default();
    for (category, of_category) in found {
        let of_category: Vec<&Found> = of_category.iter().collect();
        let share = mean(&of_category, &|found| found.at[at]);
        println!("recall at {AT}, category {category}: {share:5.1}  ({} questions)", of_category.len());
    }
    let all: Vec<&Found> = found.values().flatten().collect();
    for (idx, rank) in RANKS.iter().enumerate() {
        println!("recall at {rank:<2} {:5.1}", mean(&all, &|found| found.at[idx]));
    }
    println!("mean reciprocal rank {:.1}", mean(&all, &|found| found.reciprocal));
    println!("recall at {AT} of exchanges {:.1}", mean(&all, &|found| found.of_exchanges));
    let per_search = 1_000.0 * secs / all.len().max(1) as f64;
    println!("{} questions, {per_search:.1} ms of the daemon's processor time for each", all.len());
}

pub(crate) async fn json(cairn: &Path, state: &Path, args: &[&str]) -> Result<Value, Box<dyn Error>> {
    let (command, rest) = args.split_first().ok_or("no command")?;
    let output = Command::new(cairn).arg(command).arg("--state").arg(state).args(rest).output().await?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
