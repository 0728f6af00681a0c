//! Too little memory: an end that is defined, and everything acknowledged there afterwards.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use cairn_testkit::daemon::{Client, PATIENCE};
use cairn_testkit::home::Home;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::{CAIRN, home};

/// Nothing takes so long, however busy the machine is.
const FOREVER: Duration = Duration::from_secs(300);

/// `cairn run` under a limit of its memory; its log is the file `log`.
fn limited(home: &Home, limit_mib: u64) -> Child {
    std::fs::create_dir_all(home.state()).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {}; ulimit -c 0; exec {CAIRN} run", limit_mib * 1024)]);
    command.env_clear().env("CAIRN_STATE", home.state()).env("HOME", home.path("")).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(std::fs::File::create(home.path("log")).unwrap());
    command.kill_on_drop(true).spawn().unwrap()
}

fn log(home: &Home) -> String {
    std::fs::read_to_string(home.path("log")).unwrap()
}

/// Waits until it answers, or has ended: how.
async fn ready_or_ended(home: &Home, client: &Client, child: &mut Child) -> Option<ExitStatus> {
    let ready = async {
        // It may answer that it is not well.
        while client.ask("GET", "/v1/health", &json!(null)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let first = async {
        tokio::select! {
            () = ready => None,
            ended = child.wait() => Some(ended.unwrap()),
        }
    };
    let first = tokio::time::timeout(FOREVER, first).await;
    first.unwrap_or_else(|_late| panic!("neither ready nor ended: {}", log(home)))
}

#[track_caller]
fn check_end(status: ExitStatus, home: &Home) {
    let failed = status.code().is_some_and(|code| code != 0) || status.signal().is_some();
    assert!(failed, "{status}: {}", log(home));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_too_little_memory_ends_and_does_not_hang() {
    let mut n_ended = 0;
    // Each meets its limit elsewhere.
    for limit_mib in (96..200).step_by(4) {
        let home = home();
        let mut child = limited(&home, limit_mib);
        let client = Client::new(&home.state().join("cairn.sock"));
        match ready_or_ended(&home, &client, &mut child).await {
            Some(status) => {
                check_end(status, &home);
                n_ended += 1;
            }
            None => child.kill().await.unwrap(),
        }
    }
    assert!(n_ended > 0, "no limit was met");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_under_a_memory_limit_is_there_without_it() {
    let mut outcomes = Vec::new();
    // From too little to begin with, to enough for a while.
    for limit_mib in [100_u64, 170, 200] {
        let home = home();
        let mut child = limited(&home, limit_mib);
        let client = Client::new(&home.state().join("cairn.sock"));
        let mut ended = ready_or_ended(&home, &client, &mut child).await;
        let mut acknowledged = Vec::new();
        let words = "words and words of a very long message ".repeat(5_000);
        for n in 0..6 {
            if ended.is_some() {
                break;
            }
            let id = format!("m{n}");
            let body = json!({ "user": "anna", "text": format!("{id} {words}"), "id": id });
            let asked = client.ask("POST", "/v1/channels/main/messages", &body);
            match tokio::time::timeout(PATIENCE, asked).await.expect("it hangs") {
                Ok((status, _)) if status.is_success() => acknowledged.push(id),
                Ok((status, told)) => assert!(told["error"]["code"].is_string(), "{status}: {told}"),
                // It is about to end, or took nothing in.
                Err(_) => {
                    let ends = tokio::time::timeout(Duration::from_millis(100), child.wait()).await;
                    ended = ends.ok().map(Result::unwrap);
                }
            }
        }
        match ended {
            Some(status) => check_end(status, &home),
            None => child.kill().await.unwrap(),
        }
        outcomes.push((limit_mib, ended.map(|status| status.to_string()), acknowledged.len()));
        check_kept(&home, &acknowledged).await;
    }
    eprintln!("{outcomes:?}");
    assert!(outcomes.iter().any(|(_, ended, _)| ended.is_some()), "no limit was met: {outcomes:?}");
}

/// Without a limit everything acknowledged is there, once, and the talk goes on.
async fn check_kept(home: &Home, acknowledged: &[String]) {
    let verified = home.cairn(&["store", "verify", "--json"]);
    assert!(verified.code == 0 || acknowledged.is_empty(), "{verified:?}");
    if acknowledged.is_empty() {
        return;
    }
    let daemon = home.daemon(None).await;
    let (_, history) = daemon.client().history("main").await.unwrap();
    let ids: Vec<&str> =
        history.as_array().unwrap().iter().filter_map(|entry| entry["message"].as_str()).collect();
    for id in acknowledged {
        assert_eq!(ids.iter().filter(|found| *found == id).count(), 1, "{id}: {}", log(home));
    }
    assert!(daemon.client().say("main", "and now?").await.unwrap().0.is_success());
    assert!(daemon.stop().await.unwrap().success());
}
