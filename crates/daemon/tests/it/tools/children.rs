//! Servers as child processes: what they are given, when they start, how they end.

use std::os::unix::fs::PermissionsExt as _;
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
    assert_eq!(start.cwd.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for (limit, value) in
        [("Max open files", "77"), ("Max data size", "209715200"), ("Max core file size", "0")]
    {
        assert_eq!(start.limits[limit], value, "{limit}");
    }
    let result = rig.call("files__open", json!({ "files": 500 })).await;
    assert!(result.contains("files opened"), "{result}");
    let result = rig.call("files__eat", json!({ "mib": 400 })).await;
    assert!(!result.contains("took 400 MiB"), "{result}");
    assert!(echo(&rig).await.ends_with('x'), "the daemon goes on");
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
async fn what_a_child_says_on_its_standard_error_holds_nobody_up_and_can_be_read() {
    let rig = Plan::one(Over::Stdio, Script::default().fault("talkative")).start().await;
    assert!(echo(&rig).await.ends_with('x'));
    rig.server("files").rewrite(Script::default().fault("exit-at-start"));
    let rig = rig.restart().await;
    let result = echo(&rig).await;
    assert!(result.contains("error"), "{result}");
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
    rig.cairn(&["mcp", "show", "files"]);
    let said = |servers: &Value| servers.to_string().contains("no licence ***");
    rig.client().until("/v1/mcp", said).await.unwrap();
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
    let result = echo(&rig).await;
    assert!(result.contains("error"), "{result}");
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
