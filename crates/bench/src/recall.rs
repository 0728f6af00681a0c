//! Evidence recall at 10 through `cairn search`, on a file in LoCoMo's format.
//!
//! Each conversation is replayed through the offline model into a channel of its own; each question is searched for
//! by the command line; hits are told by the ids of their messages.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use cairn_bench::locomo::{load, replay_lines};
use cairn_testkit::daemon::Daemon;
use serde_json::Value;
use tokio::process::Command;

const AT: &str = "10";

pub(crate) async fn run(
    cairn: &Path,
    file: &Path,
    options: &[&str],
    dir: &Path,
) -> Result<(), Box<dyn Error>> {
    let conversations = load(file)?;
    let state = dir.join("state");
    let daemon = Daemon::start(cairn, &state, None).await?;
    for (idx, conversation) in conversations.iter().enumerate() {
        let lines = dir.join("talk.jsonl");
        std::fs::write(&lines, replay_lines(conversation))?;
        let channel = format!("c{idx}");
        let lines = lines.to_string_lossy().into_owned();
        json(cairn, &state, &["replay", &lines, "--channel", &channel, "--json"]).await?;
    }
    let mut shares: BTreeMap<u8, Vec<f64>> = BTreeMap::new();
    for (idx, conversation) in conversations.iter().enumerate() {
        let channel = format!("c{idx}");
        for question in conversation.questions.iter().filter(|question| !question.evidence.is_empty()) {
            let mut args = vec!["search", &channel, "--limit", AT, "--json"];
            args.extend(options);
            args.extend(["--", &question.question]);
            let hits = json(cairn, &state, &args).await?;
            let hits = hits.as_array().cloned().unwrap_or_default();
            let found: BTreeSet<&str> = hits.iter().filter_map(|hit| hit["id"].as_str()).collect();
            let wanted: BTreeSet<&str> = question.evidence.iter().map(String::as_str).collect();
            let share = wanted.intersection(&found).count() as f64 / wanted.len() as f64;
            shares.entry(question.category).or_default().push(share);
        }
    }
    daemon.stop().await?;
    let percent = |shares: &[f64]| 100.0 * shares.iter().sum::<f64>() / shares.len() as f64;
    for (category, shares) in &shares {
        println!("category {category}: {:5.1}  ({} questions)", percent(shares), shares.len());
    }
    let all: Vec<f64> = shares.into_values().flatten().collect();
    println!("all:        {:5.1}  ({} questions)", percent(&all), all.len());
    Ok(())
}

pub(crate) async fn json(cairn: &Path, state: &Path, args: &[&str]) -> Result<Value, Box<dyn Error>> {
    let (command, rest) = args.split_first().ok_or("no command")?;
    let output = Command::new(cairn).arg(command).arg("--state").arg(state).args(rest).output().await?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
