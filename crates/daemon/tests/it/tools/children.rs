//! Servers as child processes: what they are given, when they start, how they end.

use std::path::Path;

use cairn_testkit::mcp::{FakeMcp, Script};
use serde_json::{Value, json};

use crate::tools::house::{House, Over, Plan};

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

async fn echo(house: &House) -> String {
    house.call("files__echo", json!({ "text": "x" })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_gets_what_is_configured_and_nothing_else() {
    let keys = "env = { GREETING = \"hello\" }\nopen_files = 77\nmemory_mib = 200";
    let house = Plan::none().server("files", Over::Stdio, Script::default(), keys).start().await;
    assert_eq!(echo(&house).await.lines().last(), Some("x"));
    let start = house.files().starts().pop().unwrap();
    assert_eq!(start.env.into_iter().collect::<Vec<_>>(), [("GREETING".to_owned(), "hello".to_owned())]);
    assert!(start.cwd.starts_with(house.folder.path().canonicalize().unwrap()), "{:?}", start.cwd);
    assert_ne!(start.cwd, house.folder.path().canonicalize().unwrap());
    assert_eq!(start.limits["Max open files"], "77");
    let told = house.call("files__open", json!({ "files": 500 })).await;
    assert!(told.contains("files opened"), "{told}");
    let told = house.call("files__eat", json!({ "mib": 400 })).await;
    assert!(!told.contains("took 400 MiB"), "{told}");
    assert!(echo(&house).await.ends_with('x'), "the daemon goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_starts_when_it_is_needed_and_ends_with_the_daemon() {
    let mut house = Plan::one(Over::Stdio, Script::default()).start().await;
    house = house.restart().await;
    let before = house.files().starts().len();
    house.say("hello").await;
    assert_eq!(house.files().starts().len(), before, "nothing is needed yet");
    echo(&house).await;
    echo(&house).await;
    assert_eq!(house.files().starts().len(), before + 1);
    let pid = house.files().starts().pop().unwrap().pid;
    assert!(is_alive(pid));
    let House { daemon, .. } = house;
    assert!(daemon.stop().await.unwrap().success());
    gone(pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_will_not_end_is_ended_with_all_that_it_started() {
    let script = Script::default().fault("stubborn").fault("child");
    let house = Plan::one(Over::Stdio, script).start().await;
    echo(&house).await;
    let log = house.files();
    let House { daemon, folder, .. } = house;
    assert!(daemon.stop().await.unwrap().success());
    for pid in log.starts().into_iter().map(|start| start.pid).chain(log.children()) {
        gone(pid).await;
    }
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ends_when_the_daemon_is_killed() {
    let house = Plan::one(Over::Stdio, Script::default()).start().await;
    echo(&house).await;
    let pid = house.files().starts().pop().unwrap().pid;
    let House { daemon, folder, .. } = house;
    daemon.kill().await.unwrap();
    gone(pid).await;
    drop(folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_dies_is_started_again_after_a_pause() {
    let house = Plan::one(Over::Stdio, Script::default()).start().await;
    let before = house.files().starts().len();
    let told = house.call("files__die", json!({})).await;
    assert!(told.contains("error"), "{told}");
    for _ in 0..200 {
        if echo(&house).await.ends_with('x') {
            assert!(house.files().starts().len() > before);
            return;
        }
    }
    panic!("it never came back: {:?}", house.cairn(&["mcp", "list"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_says_on_its_standard_error_holds_nobody_up_and_can_be_read() {
    let house = Plan::one(Over::Stdio, Script::default().fault("talkative")).start().await;
    assert!(echo(&house).await.ends_with('x'));
    house.server("files").rewrite(Script::default().fault("exit-at-start"));
    let house = house.restart().await;
    let told = echo(&house).await;
    assert!(told.contains("error"), "{told}");
    let listed = house.cairn(&["mcp", "show", "files"]);
    let all = format!("{}{}{}", listed.stdout, listed.stderr, house.cairn(&["mcp", "list"]).stdout);
    assert!(all.contains("no licence was found"), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_struck_out_of_what_a_child_says_and_plain_variables_are_not() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "was found\n").unwrap();
    let keys = format!("env = {{ TOPIC = \"licence\" }}\nenv_from_file = {{ KEY = {:?} }}", secret.path());
    let script = Script::default().fault("exit-at-start");
    let house = Plan::none().server("files", Over::Stdio, script, &keys).unapproved().start().await;
    let shown = house.cairn(&["mcp", "show", "files"]).stderr;
    assert!(shown.contains("no licence ***"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_with_secrets_reach_the_server_and_no_other_place() {
    let elsewhere = FakeMcp::start_http().await;
    let script = Script::default().requires("authorization", "Bearer a-secret-key");
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "Bearer a-secret-key\n").unwrap();
    let keys = format!("headers_from_file = {{ authorization = {:?} }}", secret.path());
    let house = Plan::none().server("files", Over::Http, script.clone(), &keys).start().await;
    assert!(echo(&house).await.ends_with('x'));
    house.server("files").rewrite(script.fault(&format!("redirect={}", elsewhere.url())));
    let told = echo(&house).await;
    assert!(told.contains("error"), "{told}");
    assert_eq!(elsewhere.log().records(), [], "it is not followed");
    let state = house.folder.path().join("state");
    let shown =
        [house.cairn(&["mcp", "show", "files"]).stdout, house.cairn(&["config", "show"]).stdout].concat();
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
async fn a_session_that_the_server_forgot_is_begun_anew() {
    let house = Plan::one(Over::Http, Script::default()).start().await;
    assert!(echo(&house).await.ends_with('x'));
    let crate::tools::house::Server::Http(server) = house.server("files") else { panic!("it is over HTTP") };
    server.forget_sessions();
    let told = echo(&house).await;
    let again = echo(&house).await;
    assert!(again.ends_with('x'), "{told} / {again}");
    assert_eq!(house.files().effects(), [] as [(String, Value); 0]);
}
