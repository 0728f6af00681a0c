//! Servers as child processes: what they are given, when they start, how they end.

use std::path::Path;

use cairn_testkit::mcp::{FakeMcp, Script};
use serde_json::{Value, json};

use crate::tools::rig::{Over, Plan, Rig};

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that has ended and waits to be noticed is not alive.
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

async fn gone(pid: u32) {
    let waiting = async {
        while is_alive(pid) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await;
    assert!(waited.is_ok(), "process {pid} goes on");
}

async fn echo(rig: &Rig) -> String {
    rig.call("files__echo", json!({ "text": "x" })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_gets_what_is_configured_and_nothing_else() {
    let keys = "env = { GREETING = \"hello\" }\nopen_files = 77\nmemory_mib = 200";
    let rig = Plan::none().server("files", Over::Stdio, Script::default(), keys).start().await;
    assert_eq!(echo(&rig).await.lines().last(), Some("x"));
    let start = rig.files().starts().pop().unwrap();
    assert_eq!(start.env.into_iter().collect::<Vec<_>>(), [("GREETING".to_owned(), "hello".to_owned())]);
    assert!(start.cwd.starts_with(rig.folder.path().canonicalize().unwrap()), "{:?}", start.cwd);
    assert_ne!(start.cwd, rig.folder.path().canonicalize().unwrap());
    assert_eq!(start.limits["Max open files"], "77");
    let told = rig.call("files__open", json!({ "files": 500 })).await;
    assert!(told.contains("files opened"), "{told}");
    let told = rig.call("files__eat", json!({ "mib": 400 })).await;
    assert!(!told.contains("took 400 MiB"), "{told}");
    assert!(echo(&rig).await.ends_with('x'), "the daemon goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_starts_when_it_is_needed_and_ends_with_the_daemon() {
    let mut rig = Plan::one(Over::Stdio, Script::default()).start().await;
    rig = rig.restart().await;
    let before = rig.files().starts().len();
    rig.say("hello").await;
    assert_eq!(rig.files().starts().len(), before, "nothing is needed yet");
    echo(&rig).await;
    echo(&rig).await;
    assert_eq!(rig.files().starts().len(), before + 1);
    let pid = rig.files().starts().pop().unwrap().pid;
    assert!(is_alive(pid));
    let Rig { daemon, .. } = rig;
    assert!(daemon.stop().await.unwrap().success());
    gone(pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_will_not_end_is_ended_with_all_that_it_started() {
    let script = Script::default().fault("stubborn").fault("child");
    let rig = Plan::one(Over::Stdio, script).start().await;
    echo(&rig).await;
    let log = rig.files();
    let Rig { daemon, folder, .. } = rig;
    assert!(daemon.stop().await.unwrap().success());
    for pid in log.starts().into_iter().map(|start| start.pid).chain(log.children()) {
        gone(pid).await;
    }
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ends_when_the_daemon_is_killed() {
    let rig = Plan::one(Over::Stdio, Script::default()).start().await;
    echo(&rig).await;
    let pid = rig.files().starts().pop().unwrap().pid;
    let Rig { daemon, folder, .. } = rig;
    daemon.kill().await.unwrap();
    gone(pid).await;
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_dies_is_started_again_after_a_pause() {
    let rig = Plan::one(Over::Stdio, Script::default()).start().await;
    let before = rig.files().starts().len();
    let told = rig.call("files__die", json!({})).await;
    assert!(told.contains("error"), "{told}");
    for _ in 0..200 {
        if echo(&rig).await.ends_with('x') {
            assert!(rig.files().starts().len() > before);
            return;
        }
    }
    panic!("it never came back: {:?}", rig.cairn(&["mcp", "list"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_says_on_its_standard_error_holds_nobody_up_and_can_be_read() {
    let rig = Plan::one(Over::Stdio, Script::default().fault("talkative")).start().await;
    assert!(echo(&rig).await.ends_with('x'));
    rig.server("files").rewrite(Script::default().fault("exit-at-start"));
    let rig = rig.restart().await;
    let told = echo(&rig).await;
    assert!(told.contains("error"), "{told}");
    let listed = rig.cairn(&["mcp", "show", "files"]);
    let all = format!("{}{}{}", listed.stdout, listed.stderr, rig.cairn(&["mcp", "list"]).stdout);
    assert!(all.contains("no licence was found"), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_struck_out_of_what_a_child_says_and_plain_variables_are_not() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "was found\n").unwrap();
    let keys = format!("env = {{ TOPIC = \"licence\" }}\nenv_from_file = {{ KEY = {:?} }}", secret.path());
    let script = Script::default().fault("exit-at-start");
    let rig = Plan::none().server("files", Over::Stdio, script, &keys).unapproved().start().await;
    let shown = rig.cairn(&["mcp", "show", "files"]).stderr;
    assert!(shown.contains("no licence ***"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_with_secrets_reach_the_server_and_no_other_place() {
    let elsewhere = FakeMcp::start_http().await;
    let script = Script::default().requires("authorization", "Bearer a-secret-key");
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "Bearer a-secret-key\n").unwrap();
    let keys = format!("headers_from_file = {{ authorization = {:?} }}", secret.path());
    let rig = Plan::none().server("files", Over::Http, script.clone(), &keys).start().await;
    assert!(echo(&rig).await.ends_with('x'));
    rig.server("files").rewrite(script.fault(&format!("redirect={}", elsewhere.url())));
    let told = echo(&rig).await;
    assert!(told.contains("error"), "{told}");
    assert_eq!(elsewhere.log().records(), [], "it is not followed");
    let state = rig.folder.path().join("state");
    let shown = [rig.cairn(&["mcp", "show", "files"]).stdout, rig.cairn(&["config", "show"]).stdout].concat();
    assert!(!shown.contains("a-secret-key"), "{shown}");
    assert!(!holds(&state, "a-secret-key"));
}

/// Whether a file below a folder has that text.
fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_forgot_is_begun_again() {
    let rig = Plan::one(Over::Http, Script::default()).start().await;
    assert!(echo(&rig).await.ends_with('x'));
    let crate::tools::rig::Server::Http(server) = rig.server("files") else { panic!("it is over HTTP") };
    server.forget_sessions();
    let told = echo(&rig).await;
    let again = echo(&rig).await;
    assert!(again.ends_with('x'), "{told} / {again}");
    assert_eq!(rig.files().effects(), [] as [(String, Value); 0]);
}
