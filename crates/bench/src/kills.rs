//! `kill -9` at random moments: nothing acknowledged is lost, nothing is there twice, and work goes on.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use cairn_testkit::daemon::{Client, Events, PATIENCE};
use cairn_testkit::random::Random;

#[derive(Debug, Clone)]
pub struct Plan {
    pub cairn: PathBuf,
    /// An empty folder for state, config and the file with the messages.
    pub dir: PathBuf,
    pub n_kills: usize,
    pub n_messages: usize,
    /// Where the random moments come from.
    pub seed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Kills carried out on a working process.
    pub kills: usize,
    /// Messages acknowledged over the socket, all of them found again.
    pub acknowledged: usize,
    /// Memories at the end, none of them twice.
    pub memories: usize,
    pub summaries: usize,
}

const ANSWERED: &str = "main/local/main";

const CONFIG: &str = "[defaults]\ncontext_window = 4000\n";

/// Has a conversation answered by a daemon with a small window, kills it again and again, and checks after each kill.
pub async fn run(plan: &Plan) -> io::Result<Findings> {
    let harness = Harness::new(plan)?;
    let mut moments = Random::new(plan.seed);
    let mut findings = Findings::default();
    let mut acknowledged = BTreeMap::new();
    let mut n_rounds = 0;
    while findings.kills < plan.n_kills {
        // Early kills come quickly after another, so that the import is still at work for the later ones.
        let most = (plan.n_messages * 3 / plan.n_kills.max(1)).max(30) as u64;
        let n_events = 1 + moments.below(most);
        // A turn that is cut short three times in a row is given up, as it should be: every other round gets on.
        let n_turns = u64::from(n_rounds % 2 == 1);
        let finished = harness.kill_after(n_rounds, n_events, n_turns, &mut acknowledged).await?;
        harness.check(&acknowledged).await?;
        n_rounds += 1;
        match finished {
            None => findings.kills += 1,
            Some(status) => {
                require(status.success(), || format!("the import failed: {status}"))?;
                harness.extend(n_rounds)?;
            }
        }
    }
    let report = harness.json(&["import", "--answer", harness.file(), "--no-wait"]).await?;
    require(report[0]["failed"] == 0, || format!("turns failed: {report}"))?;
    harness.check_answered().await?;
    findings.acknowledged = acknowledged.len();
    findings.memories = harness.check(&acknowledged).await?;
    let context = harness.json(&["context", "main"]).await?;
    findings.summaries = context["summaries"].as_array().map_or(0, Vec::len);
    Ok(findings)
}

fn require(holds: bool, what: impl FnOnce() -> String) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(what())) }
}

struct Harness<'a> {
    plan: &'a Plan,
    state: PathBuf,
    config: PathBuf,
    talk: PathBuf,
}

impl<'a> Harness<'a> {
    fn new(plan: &'a Plan) -> io::Result<Self> {
        let state = plan.dir.join("state");
        let (config, talk) = (plan.dir.join("config.toml"), plan.dir.join("talk.jsonl"));
        std::fs::create_dir_all(&state)?;
        std::fs::write(&config, CONFIG)?;
        let harness = Self { plan, state, config, talk };
        std::fs::write(&harness.talk, lines(0, plan.n_messages))?;
        Ok(harness)
    }

    /// More messages, for when all of it is done before the last kill.
    fn extend(&self, round: usize) -> io::Result<()> {
        let mut text = std::fs::read_to_string(&self.talk)?;
        let n = text.lines().count();
        text.push_str(&lines(n, n + self.plan.n_messages));
        std::fs::write(&self.talk, text)?;
        require(round < 100_000, || "too many rounds".to_owned())
    }

    fn file(&self) -> &str {
        self.talk.to_str().unwrap_or_default()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.plan.cairn);
        command.args(args).arg("--state").arg(&self.state).arg("--config").arg(&self.config);
        command.env_remove("RUNTIME_DIRECTORY").stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn json(&self, args: &[&str]) -> io::Result<Value> {
        let output = self.command(args).arg("--json").output().await?;
        require(output.status.success(), || {
            let stderr = String::from_utf8_lossy(&output.stderr);
            format!("`cairn {}` ended with {}: {stderr}", args.join(" "), output.status)
        })?;
        serde_json::from_slice(&output.stdout).map_err(io::Error::other)
    }

    /// Has them answered, talks in a second channel meanwhile, and kills after so many events of the daemon's own, when so many
    /// of their turns have ended. Some status when the import ended by itself before that.
    async fn kill_after(
        &self,
        round: usize,
        n_events: u64,
        n_turns: u64,
        acknowledged: &mut BTreeMap<String, String>,
    ) -> io::Result<Option<ExitStatus>> {
        let mut command = self.command(&["import", "--answer", self.file(), "--no-wait"]);
        let log = std::fs::File::create(self.plan.dir.join("import.log"))?;
        command.stdout(Stdio::null()).stderr(log);
        let mut child = command.spawn()?;
        let client = Client::new(&self.state.join("cairn.sock"));
        let talk = async {
            let mut events = events(&client).await?;
            let (mut seen, mut turns, mut said) = (0, 0, 0);
            while seen < n_events || turns < n_turns {
                let (id, text) = (format!("k{round}-{said}"), format!("acknowledged {round} {said}"));
                let say = say(&client, &id, &text);
                tokio::select! {
                    event = events.next() => match event? {
                        Some((name, data)) => {
                            seen += 1;
                            turns += u64::from(name == "turn_ended" && data["channel"] == ANSWERED);
                        }
                        None => return Ok(()),
                    },
                    accepted = say => {
                        if accepted? {
                            acknowledged.insert(id, text);
                        }
                        said += 1;
                    }
                }
            }
            io::Result::Ok(())
        };
        let ended = tokio::select! {
            // A connection that breaks is no finding: the process may be about to end by itself.
            _talked = talk => Ok(()),
            status = child.wait() => return status.map(Some),
            () = tokio::time::sleep(PATIENCE) => Err(io::Error::other("nothing happens in the import")),
        };
        end(&mut child, ended).await
    }

    /// Verifies the store, finds every acknowledged message once, and no memory twice; the number of memories.
    async fn check(&self, acknowledged: &BTreeMap<String, String>) -> io::Result<usize> {
        let verified = self.json(&["store", "verify"]).await?;
        require(verified["ok"] == true, || format!("store verify: {verified}"))?;
        if !acknowledged.is_empty() {
            let history = self.all_history("acks").await?;
            for (id, text) in acknowledged {
                let found = history.iter().filter(|entry| entry["message"] == id.as_str());
                let texts: Vec<_> = found.map(|entry| entry["parts"][0]["text"].clone()).collect();
                require(texts == [json!(text)], || format!("message {id} is in history as {texts:?}"))?;
            }
        }
        let memories = self.json(&["memory", "list", "--limit", "10000"]).await?;
        let memories = memories.as_array().cloned().unwrap_or_default();
        let mut seen = BTreeMap::new();
        for memory in &memories {
            let key = format!("{} {}", memory["scope"], memory["text"]);
            require(seen.insert(key, ()).is_none(), || format!("a memory is there twice: {memory}"))?;
        }
        Ok(memories.len())
    }

    async fn all_history(&self, channel: &str) -> io::Result<Vec<Value>> {
        let history = self.json(&["history", channel, "--limit", "10000"]).await?;
        Ok(history.as_array().cloned().unwrap_or_default())
    }

    /// Every line of the file is in the history, once, in its order.
    async fn check_answered(&self) -> io::Result<()> {
        let history = self.all_history("main").await?;
        let said: Vec<_> = history.iter().filter(|entry| entry["role"] == "user").collect();
        let texts: Vec<_> = said.iter().map(|entry| entry["parts"][0]["text"].clone()).collect();
        let text = std::fs::read_to_string(&self.talk)?;
        let lines = text.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
        let expected: Vec<_> = lines.iter().map(|line| line["text"].clone()).collect();
        require(texts == expected, || {
            format!("{} messages sent, {} in history, or in another order", expected.len(), texts.len())
        })
    }
}

async fn end(child: &mut Child, talked: io::Result<()>) -> io::Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    child.kill().await?;
    talked.map(|()| None)
}

async fn events(client: &Client) -> io::Result<Events> {
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(5));
    loop {
        tick.tick().await;
        if let Ok(events) = client.events().await {
            return Ok(events);
        }
    }
}

async fn say(client: &Client, id: &str, text: &str) -> io::Result<bool> {
    let body = json!({ "user": "ben", "text": text, "id": id });
    let (status, _) = client.ask("POST", "/v1/channels/acks/messages", &body).await?;
    Ok(status.is_success())
}

/// Lines of a conversation with things to remember in it.
fn lines(from: usize, to: usize) -> String {
    let mut text = String::new();
    for idx in from..to {
        let words = match idx % 5 {
            0 => format!("Remember that the code of door {idx} is {}.", idx * 37 + 1000),
            1 => format!("I prefer window seats on train number {idx}, because of the view over the river."),
            2 => format!("We decided to meet in room {idx} on the first floor, at nine in the morning."),
            3 => format!("What is the code of door {}?", idx - 3),
            _ => format!("The weather on day {idx} was fine and we walked along the river for two hours."),
        };
        let line = json!({ "user": "anna", "text": words, "id": format!("line-{idx}") });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text
}
