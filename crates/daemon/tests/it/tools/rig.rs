//! A daemon with MCP servers and a fake model, in a folder of its own.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cairn_testkit::daemon::{Client, Daemon, Events};
use cairn_testkit::home::Run;
use cairn_testkit::mcp::{FakeMcp, Log, OverStdio, Script};
use cairn_testkit::model::{Answer, Builder, FakeModel, Kind};
use serde_json::{Value, json};

pub(crate) const ANNA: &str = "trusted = [\"local/anna\"]";

pub(crate) fn cairn() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_cairn"))
}

/// The fake server as a process; it is built with the tests of the testkit.
pub(crate) fn fake_mcp() -> PathBuf {
    let built = cairn().with_file_name("fake-mcp");
    assert!(built.exists(), "build it: cargo test --workspace --test tools --no-run");
    built
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Stdio,
    Http,
}

impl Over {
    pub(crate) const BOTH: [Self; 2] = [Self::Stdio, Self::Http];
}

pub(crate) struct Plan {
    servers: Vec<(String, Over, Script, String)>,
    agent: String,
    trust: String,
    tools: Option<Vec<String>>,
    model: Builder,
    approved: bool,
}

impl Plan {
    /// One server, `files`, that is approved and may be used whole; Anna is trusted.
    pub(crate) fn one(over: Over, script: Script) -> Self {
        Self::none().server("files", over, script, "")
    }

    pub(crate) fn none() -> Self {
        Self {
            servers: Vec::new(),
            agent: String::new(),
            trust: ANNA.to_owned(),
            tools: None,
            model: FakeModel::builder().expect_stable_prefix(false),
            approved: true,
        }
    }

    /// With one more server, and more keys of it.
    pub(crate) fn server(mut self, id: &str, over: Over, script: Script, keys: &str) -> Self {
        self.servers.push((id.to_owned(), over, script, keys.to_owned()));
        self
    }

    pub(crate) fn unapproved(mut self) -> Self {
        self.approved = false;
        self
    }

    /// With these tools alone; unset: all of each server.
    pub(crate) fn tools(mut self, tools: &[&str]) -> Self {
        self.tools = Some(tools.iter().map(ToString::to_string).collect());
        self
    }

    pub(crate) fn agent(mut self, keys: &str) -> Self {
        keys.clone_into(&mut self.agent);
        self
    }

    /// With other keys of `[agents.trust]`.
    pub(crate) fn trust(mut self, keys: &str) -> Self {
        keys.clone_into(&mut self.trust);
        self
    }

    pub(crate) fn model(mut self, model: Builder) -> Self {
        self.model = model;
        self
    }

    pub(crate) async fn start(self) -> Rig {
        Rig::start(self).await
    }
}

pub(crate) enum Server {
    Child(OverStdio),
    Http(FakeMcp),
}

impl Server {
    pub(crate) fn log(&self) -> Log {
        match self {
            Self::Child(child) => child.log(),
            Self::Http(http) => http.log().clone(),
        }
    }

    pub(crate) fn rewrite(&self, script: Script) {
        match self {
            Self::Child(child) => child.rewrite(&script),
            Self::Http(http) => http.change(|now| *now = script),
        }
    }
}

pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) model: FakeModel,
    pub(crate) daemon: Daemon,
    servers: Vec<(String, Server)>,
}

impl Rig {
    async fn start(plan: Plan) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = plan.model.start().await;
        let listed: Vec<String> =
            plan.tools.unwrap_or_else(|| plan.servers.iter().map(|(id, ..)| format!("{id}/*")).collect());
        let mut text = format!(
            "[[models]]\nid = \"main\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"fake\"\n\
             context_window = 200000\nimages = true\nmax_output_tokens = 1000\n\n[[agents]]\nid = \"main\"\nmodels = [\"main\"]\n\
             tools = {listed:?}\n{}\n\n[agents.trust]\n{}\n",
            model.base_url(),
            plan.agent,
            plan.trust
        );
        let mut servers = Vec::new();
        for (id, over, script, keys) in plan.servers {
            let server = match over {
                Over::Stdio => {
                    let child = script.over_stdio(folder.path(), &id);
                    let (command, args) = (fake_mcp(), child.args());
                    write!(text, "\n[[mcp]]\nid = {id:?}\ncommand = {command:?}\nargs = {args:?}\n{keys}\n")
                        .unwrap();
                    Server::Child(child)
                }
                Over::Http => {
                    let http = script.start_http().await;
                    write!(text, "\n[[mcp]]\nid = {id:?}\nurl = {:?}\n{keys}\n", http.url()).unwrap();
                    Server::Http(http)
                }
            };
            servers.push((id, server));
        }
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
        let daemon = run(folder.path()).await;
        let rig = Self { folder, model, daemon, servers };
        if plan.approved {
            for (id, _) in &rig.servers {
                rig.approve(id);
            }
        }
        rig
    }

    pub(crate) fn server(&self, id: &str) -> &Server {
        &self.servers.iter().find(|(known, _)| known == id).unwrap().1
    }

    /// What the server `files` saw and did.
    pub(crate) fn files(&self) -> Log {
        self.server("files").log()
    }

    pub(crate) fn client(&self) -> Client {
        self.daemon.client()
    }

    /// Kills the daemon as a power cut does and starts it again.
    pub(crate) async fn crash(self) -> Self {
        let Self { folder, model, daemon, servers } = self;
        daemon.kill().await.unwrap();
        let daemon = run(folder.path()).await;
        Self { folder, model, daemon, servers }
    }

    /// Stops the daemon as systemd does; configuration and state stay.
    pub(crate) async fn stop(self) -> tempfile::TempDir {
        let Self { folder, daemon, .. } = self;
        assert!(daemon.stop().await.unwrap().success());
        folder
    }

    /// Stops the daemon as systemd does and starts it again.
    pub(crate) async fn restart(self) -> Self {
        let Self { folder, model, daemon, servers } = self;
        assert!(daemon.stop().await.unwrap().success());
        let daemon = run(folder.path()).await;
        Self { folder, model, daemon, servers }
    }

    pub(crate) fn cairn(&self, args: &[&str]) -> Run {
        command(self.folder.path(), args, "")
    }

    pub(crate) fn approve(&self, id: &str) {
        self.cairn(&["mcp", "approve", id, "--yes"]).ended(0);
    }

    pub(crate) async fn say(&self, text: &str) -> Value {
        let (status, reply) = self.client().say("main", text).await.unwrap();
        assert_eq!(status, 200, "{reply}");
        reply
    }

    /// Has the model call a tool; what it is told, as it gets it.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> String {
        self.calls(&[(tool, arguments)]).await.remove(0)
    }

    /// Has the model make calls in one answer; what it is told of each, in their order.
    pub(crate) async fn calls(&self, calls: &[(&str, Value)]) -> Vec<String> {
        self.script(calls);
        self.say("please look").await;
        self.results()
    }

    /// The next two answers of the model: these calls, and words.
    pub(crate) fn script(&self, calls: &[(&str, Value)]) {
        let (first, rest) = calls.split_first().unwrap();
        let answer = Answer::call(first.0, first.1.clone());
        let answer =
            rest.iter().fold(answer, |answer, (tool, arguments)| answer.and_call(*tool, arguments.clone()));
        self.model.push(Kind::Reply, answer);
        self.model.push(Kind::Reply, Answer::text("I see."));
    }

    /// The results at the end of the newest request.
    pub(crate) fn results(&self) -> Vec<String> {
        let request = self.model.requests_of(Kind::Reply).pop().unwrap();
        let messages = request["messages"].as_array().unwrap();
        let newest = messages.rsplit(|message| message["tool_calls"].is_array()).next().unwrap();
        let results = newest.iter().filter(|message| message["role"] == "tool");
        results.map(cairn_testkit::model::lasting_text_of).collect()
    }

    /// The tools that the newest request offered.
    pub(crate) fn offered(&self) -> Vec<String> {
        cairn_testkit::model::tool_names(&self.model.requests_of(Kind::Reply).pop().unwrap())
    }

    pub(crate) async fn talk(&self, text: &str) -> Events {
        let body = json!({ "user": "anna", "text": text });
        self.client().talk("main", &body).await.unwrap()
    }

    /// Has the model call a tool in a turn that somebody looks on at; the request for a yes.
    pub(crate) async fn asked(&self, tool: &str, arguments: Value) -> (Events, Value) {
        self.script(&[(tool, arguments)]);
        let mut events = self.talk("please do").await;
        let approval = events.wait_for("approval", |_| true).await.unwrap();
        (events, approval)
    }

    pub(crate) async fn approvals(&self) -> Vec<Value> {
        self.client().get("/v1/approvals").await.unwrap().as_array().unwrap().clone()
    }

    /// Says yes or no; the status of the answer.
    pub(crate) async fn settle(&self, approval: &Value, yes: bool) -> u16 {
        let path = format!("/v1/approvals/{}", approval["id"].as_str().unwrap());
        let (status, _) = self.client().ask("POST", &path, &json!({ "approve": yes })).await.unwrap();
        status.as_u16()
    }

    /// Waits until the daemon knows that a server has changed.
    pub(crate) async fn drifted(&self, id: &str) {
        loop {
            let servers = self.client().get("/v1/mcp").await.unwrap();
            let server = servers.as_array().unwrap().iter().find(|server| server["server"] == id).unwrap();
            let states = server["drift"]["tools"].as_object().into_iter().flatten();
            if states.into_iter().any(|(_, tool)| tool["state"] == "changed") {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn tool_log(&self) -> Vec<Value> {
        self.client().get("/v1/tools/log").await.unwrap().as_array().unwrap().clone()
    }

    /// The model and the servers found nothing wrong.
    pub(crate) fn assert_clean(&self) {
        self.model.assert_clean();
        for (_, server) in &self.servers {
            server.log().assert_clean();
        }
    }
}

/// A command of the binary, with configuration and state in that folder.
pub(crate) fn command(folder: &Path, args: &[&str], input: &str) -> Run {
    let mut child = Command::new(cairn())
        .args(args)
        .arg("--state")
        .arg(folder.join("state"))
        .arg("--config")
        .arg(folder.join("config.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may be gone by now.
    let _closed = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap().into()
}

async fn run(folder: &Path) -> Daemon {
    Daemon::start(cairn(), &folder.join("state"), Some(&folder.join("config.toml"))).await.unwrap()
}
