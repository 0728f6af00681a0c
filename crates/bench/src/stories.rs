//! Small stories of facts that change, are corrected, told by others or forgotten: what stands in the request that a question makes.
//!
//! Each story has a channel of its own with the same unrelated memories in it. A scripted model saves what the story says, replaces
//! what an ordinary model would see to hold no longer among the memories that it is told of, and forgets at a wish. The question is
//! asked in a new conversation, so that the messages themselves have left the window.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use cairn_testkit::daemon::Daemon;
use cairn_testkit::model::{Answer, FakeModel, Kind, Seen};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::recall::json;

/// Kinds in which what came later ends what was before. In the others both hold, or the day says which is past.
const REPLACING: [&str; 6] = ["change", "correction", "hearsay", "preference", "languages", "recurring"];

#[derive(Deserialize)]
struct Story {
    id: String,
    kind: String,
    messages: Vec<Message>,
    question: Message,
    /// What has to stand in the request.
    must: Vec<String>,
    /// What may stand there only with its end.
    must_not_as_present: Vec<String>,
    /// Who has to be named where it stands.
    whose: Vec<String>,
}

#[derive(Deserialize)]
struct Message {
    user: String,
    at: String,
    text: String,
    #[serde(default)]
    save: Vec<Value>,
}

/// What the scripted model knows of the message that it answers.
#[derive(Default)]
struct Step {
    saves: Vec<Value>,
    author: String,
    day: String,
    past: Vec<String>,
    wish: Option<String>,
}

pub(crate) async fn run(cairn: &Path, file: &Path, dir: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let stories: Vec<Story> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let noise = std::fs::read_to_string(file.with_file_name("stories-noise.json"))?;
    let noise: Vec<Value> = serde_json::from_str(&noise)?;
    let step = Arc::new(Mutex::new(Step::default()));
    let said = Arc::clone(&step);
    let server = FakeModel::builder()
        .lenient()
        .respond(move |seen| {
            (seen.kind == Kind::Reply)
                .then(|| answer(seen, &said.lock().unwrap_or_else(PoisonError::into_inner)))
        })
        .start()
        .await;
    let config = dir.join("config.toml");
    let scripted = format!(
        "[[models]]\nid = \"main\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"fake\"\n\n\
         [[agents]]\nid = \"main\"\nmodels = [\"main\"]\n",
        server.base_url()
    );
    std::fs::write(&config, scripted)?;
    let state = dir.join("state");
    let daemon = Daemon::start(cairn, &state, Some(&config)).await?;
    let mut passed: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (idx, story) in stories.iter().enumerate() {
        let channel = format!("s{idx}");
        add_noise(cairn, &state, &channel, &noise).await?;
        for (n, message) in story.messages.iter().enumerate() {
            *step.lock().unwrap_or_else(PoisonError::into_inner) = scripted_for(story, message);
            say(cairn, &state, dir, &channel, &format!("m{n}"), message).await?;
        }
        *step.lock().unwrap_or_else(PoisonError::into_inner) = Step::default();
        json(cairn, &state, &["new", &channel, "--json"]).await?;
        say(cairn, &state, dir, &channel, "question", &story.question).await?;
        let prompt = json(cairn, &state, &["explain", &channel, "--prompt", "--json"]).await?;
        let wrong = judge(story, &prompt);
        let (right, all) = passed.entry(&story.kind).or_default();
        *all += 1;
        *right += u32::from(wrong.is_none());
        println!(
            "{:<24} {}",
            story.id,
            wrong.map_or_else(|| "passes".to_owned(), |why| format!("fails: {why}"))
        );
    }
    daemon.stop().await?;
    for (kind, (right, all)) in &passed {
        println!("{kind}: {right} of {all}");
    }
    let sum = passed.values().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    println!("{} of {} stories pass", sum.0, sum.1);
    Ok(())
}

/// What the model does with a message: what it saves, what it then sees to be past, what it is asked to forget.
fn scripted_for(story: &Story, message: &Message) -> Step {
    let is_wish = story.kind == "deletion" && message.save.is_empty();
    Step {
        saves: message.save.clone(),
        author: message.user.clone(),
        day: message.at.chars().take("2026-03-01".len()).collect(),
        past: match REPLACING.contains(&story.kind.as_str()) {
            true => story.must_not_as_present.clone(),
            false => Vec::new(),
        },
        wish: is_wish.then(|| message.text.clone()),
    }
}

fn answer(seen: &Seen, step: &Step) -> Answer {
    let messages = seen.body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let behind = messages.iter().rposition(|message| message["role"] == "user").map_or(0, |at| at + 1);
    let is_result = |message: &&Value| message["role"] == "tool";
    let results: Vec<&Value> = messages[behind..].iter().filter(is_result).collect();
    let calls = messages[behind..].iter().filter(|message| message["role"] == "assistant").count();
    let mut wanted: Vec<(&str, Value)> = Vec::new();
    match (calls, &step.wish) {
        (0, Some(wish)) => {
            let query = format!("{} {wish}", step.author);
            wanted.push(("memory_search", json!({ "query": query })));
        }
        (1, Some(_)) => {
            wanted.extend(found(&results, &step.author).map(|id| ("memory_forget", json!({ "id": id }))))
        }
        (0, None) => wanted.extend(step.saves.iter().map(|save| ("memory_save", save.clone()))),
        (1, None) => {
            for (save, result) in step.saves.iter().zip(results) {
                let ids = near(result["content"].as_str().unwrap_or_default(), save, &step.past);
                if !ids.is_empty() {
                    let mut again = save.clone();
                    (again["replaces"], again["from"]) = (json!(ids), json!(step.day));
                    wanted.push(("memory_save", again));
                }
            }
        }
        _ => {}
    }
    match wanted.split_first() {
        None => Answer::text("Noted."),
        Some(((name, arguments), rest)) => {
            rest.iter().fold(Answer::call(*name, arguments.clone()), |answer, (name, arguments)| {
                answer.and_call(*name, arguments.clone())
            })
        }
    }
}

/// Of the memories that a save was told of, the ids of those that are past with it.
fn near(result: &str, save: &Value, past: &[String]) -> Vec<String> {
    let new = save["text"].as_str().unwrap_or_default();
    // Behind it may stand the memories of the window, without ids.
    let result = result.split("<context>").next().unwrap_or_default();
    let lines = result.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    let is_past = |text: &str| past.iter().any(|pattern| has(text, pattern) && !has(new, pattern));
    lines.filter(|(_, text)| is_past(text)).map(|(id, _)| id.to_owned()).collect()
}

/// The first memory among the results that is about who wishes it, else the first.
fn found(results: &[&Value], author: &str) -> Option<String> {
    let content = results.first()?["content"].as_str()?;
    let line = content.lines().find(|line| line.contains(author)).or_else(|| content.lines().next())?;
    Some(line.strip_prefix('[')?.split(' ').next()?.to_owned())
}

/// The memories at the end of a request, a line each.
fn memory_lines(prompt: &Value) -> Vec<String> {
    let body = prompt["body"].as_str().and_then(|body| serde_json::from_str(body).ok());
    let mut texts = Vec::new();
    collect(&body.unwrap_or_default(), &mut texts);
    let tail = texts.iter().filter_map(|text| text.rsplit_once("Memories that may bear on this")).next_back();
    let lines = tail.map_or("", |(_, tail)| tail).lines().skip(1);
    lines.take_while(|line| line.starts_with("- ")).map(str::to_owned).collect()
}

/// All strings of a value.
fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a text has what a pattern of the file says: alternatives behind bars, full stops behind backslashes.
fn has(text: &str, pattern: &str) -> bool {
    pattern.split('|').any(|one| text.contains(&one.replace('\\', "")))
}

async fn say(
    cairn: &Path,
    state: &Path,
    dir: &Path,
    channel: &str,
    id: &str,
    message: &Message,
) -> Result<(), Box<dyn Error>> {
    let line = json!({ "user": message.user, "text": message.text, "at": message.at, "id": id });
    let file = dir.join("story.jsonl");
    std::fs::write(&file, format!("{line}\n"))?;
    json(cairn, state, &["import", "--answer", &file.to_string_lossy(), "--channel", channel, "--json"])
        .await
        .map(drop)
}

async fn add_noise(cairn: &Path, state: &Path, channel: &str, noise: &[Value]) -> Result<(), Box<dyn Error>> {
    for memory in noise {
        let text = |name: &str| memory[name].as_str().unwrap_or_default().to_owned();
        let (scope, importance) = (format!("chat:local/{channel}"), memory["importance"].to_string());
        let mut command = Command::new(cairn);
        command.args(["memory", "add", "--state"]).arg(state).arg(text("text"));
        command.args(["--kind", &text("kind"), "--scope", &scope, "--subject", &text("subject")]);
        let output = command.args(["--importance", &importance]).output().await?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
    }
    Ok(())
}

/// What is wrong with the memories that stand in the request.
fn judge(story: &Story, prompt: &Value) -> Option<String> {
    let lines = memory_lines(prompt);
    for must in &story.must {
        if !lines.iter().any(|line| has(line, must)) {
            return Some(format!("`{must}` is missing"));
        }
    }
    for past in &story.must_not_as_present {
        let as_present =
            |line: &&String| has(line, past) && !(line.contains("held until") || line.contains("has passed"));
        if let Some(line) = lines.iter().find(as_present) {
            return Some(format!("stands as present: {line}"));
        }
    }
    let is_named = |who: &&String| lines.iter().any(|line| line.contains(who.as_str()));
    story.whose.iter().find(|who| !is_named(who)).map(|who| format!("{who} is not named"))
}
