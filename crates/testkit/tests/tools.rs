//! The fake MCP server as a process. The name of this test is that of the daemon's tests of tools, so that
//! `cargo test --test tools` builds the process for them.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Stdio;

use cairn_testkit::mcp::{OverStdio, Record, Script};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

const FAKE: &str = env!("CARGO_BIN_EXE_fake-mcp");

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(server: &OverStdio, cwd: &Path) -> Self {
        Self::of(Command::new(FAKE).args(server.args()), cwd)
    }

    fn of(command: &mut Command, cwd: &Path) -> Self {
        let command = command.env_clear().env("GREETING", "hello").current_dir(cwd).kill_on_drop(true);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), child, output }
    }

    async fn say(&mut self, message: &Value) {
        self.input.as_mut().unwrap().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.output.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.hear().await
    }

    async fn greet(&mut self) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let greeting = self.ask(0, "initialize", params).await;
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        greeting
    }

    async fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    async fn code(mut self) -> Option<i32> {
        self.child.wait().await.unwrap().code()
    }
}

fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill {name} {pid}");
}

#[tokio::test]
async fn what_it_was_started_with_is_in_its_log_and_it_ends_with_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let server = Script::default().over_stdio(folder.path(), "files");
    let mut process = Process::start(&server, folder.path());
    process.greet().await;
    let said = process.call(1, "echo", json!({ "text": "x" })).await;
    assert_eq!(said["result"]["content"][0]["text"], "x");
    let start = &server.log().starts()[0];
    assert_eq!(Some(start.pid), process.child.id());
    assert_eq!(start.env.iter().collect::<Vec<_>>(), [(&"GREETING".to_owned(), &"hello".to_owned())]);
    assert_eq!(start.cwd.canonicalize().unwrap(), folder.path().canonicalize().unwrap());
    assert!(start.limits.contains_key("Max open files"), "{start:?}");
    process.input = None;
    assert_eq!(process.code().await, Some(0));
    assert_eq!(server.log().records().last(), Some(&Record::InputClosed));
    server.log().assert_clean();
}

#[tokio::test]
async fn what_it_is_changes_with_its_script_between_starts_and_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Script::default().only(&["echo"]).over_stdio(folder.path(), "files");
    let mut process = Process::start(&server, folder.path());
    process.greet().await;
    let another = Script::default()
        .only(&["echo"])
        .version("2.0.0")
        .tool(json!({ "name": "echo", "description": "Another." }));
    server.rewrite(&another);
    let listed = process.ask(1, "tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["description"], "Another.");
    let mut next = Process::start(&server, folder.path());
    assert_eq!(next.greet().await["result"]["serverInfo"]["version"], "2.0.0");
    assert_eq!(server.log().starts().len(), 2);
}

#[tokio::test]
async fn it_ends_as_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Script::default().fault("exit-at-start").over_stdio(folder.path(), "a");
    let mut process = Process::start(&server, folder.path());
    let mut words = String::new();
    process.child.stderr.as_mut().unwrap().read_to_string(&mut words).await.unwrap();
    assert!(words.contains("no licence"), "{words}");
    assert_eq!(process.code().await, Some(3));
    let server = Script::default().fault("exit").over_stdio(folder.path(), "b");
    let mut process = Process::start(&server, folder.path());
    process.greet().await;
    let params = json!({ "name": "write", "arguments": {} });
    process.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    assert_eq!(process.output.next_line().await.unwrap(), None);
    assert_eq!(process.code().await, Some(3));
    assert_eq!(server.log().effects().len(), 1);
}

#[tokio::test]
async fn a_stubborn_one_ends_by_force_alone_and_leaves_a_child_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = Script::default().fault("stubborn").fault("child").over_stdio(folder.path(), "a");
    let mut process = Process::start(&server, folder.path());
    process.greet().await;
    let pid = process.child.id().unwrap();
    process.input = None;
    server.log().wait_until("the end of input", |log| log.records().contains(&Record::InputClosed)).await;
    signal(pid, "-TERM");
    let told = Record::Signal { name: "SIGTERM".to_owned() };
    server.log().wait_until("the signal", |log| log.records().contains(&told)).await;
    assert_eq!(process.child.try_wait().unwrap(), None);
    let child = server.log().children()[0];
    signal(pid, "-KILL");
    assert_eq!(process.code().await, None, "killed");
    assert!(Path::new(&format!("/proc/{child}")).exists());
    signal(child, "-KILL");
}

#[tokio::test]
async fn limits_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Script::default().over_stdio(folder.path(), "a");
    let limited = format!("ulimit -n 64; ulimit -d 131072; exec {FAKE} \"$@\"");
    let mut process =
        Process::of(Command::new("/bin/sh").args(["-c", &limited, "sh"]).args(server.args()), folder.path());
    process.greet().await;
    for (id, tool, arguments) in [(1, "open", json!({ "files": 500 })), (2, "eat", json!({ "mib": 500 }))] {
        let answer = process.call(id, tool, arguments).await;
        assert_eq!(answer["result"]["isError"], true, "{tool}: {answer}");
    }
    let open = process.call(3, "open", json!({ "files": 5 })).await;
    assert_eq!(open["result"]["content"][0]["text"], "opened 5 files");
    let limits = &server.log().starts()[0].limits;
    assert_eq!((limits["Max open files"].as_str(), limits["Max data size"].as_str()), ("64", "134217728"));
}

#[tokio::test]
async fn who_does_not_read_what_a_talkative_one_says_waits() {
    let folder = tempfile::tempdir().unwrap();
    let server = Script::default().fault("talkative").over_stdio(folder.path(), "a");
    let mut process = Process::start(&server, folder.path());
    let mut stderr = process.child.stderr.take().unwrap();
    server.log().wait_until("the start", |log| log.starts().len() == 1).await;
    let mut words = Vec::new();
    let (_, greeting) = tokio::join!(stderr.read_to_end(&mut words), async {
        let greeting = process.greet().await;
        process.input = None;
        greeting
    });
    assert!(greeting["result"].is_object() && words.len() > 4_000_000, "{}", words.len());
}
