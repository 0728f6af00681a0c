//! Too little memory: an end that is defined, and everything acknowledged there afterwards.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cairn_testkit::daemon::{Client, PATIENCE};
use serde_json::json;

use crate::home::{self, CAIRN};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_under_a_memory_limit_is_there_without_it() {
    let mut outcomes = Vec::new();
    // From too little to begin with, to enough for a while.
    for limit_mib in [100_u64, 170, 200] {
        let home = home::new();
        std::fs::create_dir_all(home.state()).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("ulimit -v {}; ulimit -c 0; exec {CAIRN} run", limit_mib * 1024)]);
        command.env_clear().env("CAIRN_STATE", home.state()).env("HOME", home.path("")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(std::fs::File::create(home.path("log")).unwrap());
        let mut child = command.spawn().unwrap();
        let client = Client::new(&home.state().join("cairn.sock"));
        let began = Instant::now();
        let mut ended = None;
        while ended.is_none() && client.get("/v1/health").await.is_err() {
            ended = child.try_wait().unwrap();
            assert!(began.elapsed() < PATIENCE, "neither ready nor ended");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
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
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    ended = child.try_wait().unwrap();
                }
            }
        }
        if ended.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let log = std::fs::read_to_string(home.path("log")).unwrap();
        if let Some(status) = ended {
            assert!(
                status.code().is_some_and(|code| code != 0) || status.signal().is_some(),
                "{status}: {log}"
            );
        }
        outcomes.push((limit_mib, ended.map(|status| status.to_string()), acknowledged.len()));

        let verified = home.cairn(&["store", "verify", "--json"]);
        assert!(verified.code == 0 || acknowledged.is_empty(), "{verified:?}");
        if !acknowledged.is_empty() {
            let daemon = home.daemon(None).await;
            let history = daemon.client().get("/v1/channels/main/history?limit=10000").await.unwrap();
            let ids: Vec<&str> =
                history.as_array().unwrap().iter().filter_map(|entry| entry["message"].as_str()).collect();
            for id in &acknowledged {
                assert_eq!(
                    ids.iter().filter(|found| *found == id).count(),
                    1,
                    "{id} under {limit_mib} MiB: {log}"
                );
            }
            assert!(daemon.client().say("main", "and now?").await.unwrap().0.is_success());
            assert!(daemon.stop().await.unwrap().success());
        }
    }
    eprintln!("{outcomes:?}");
    assert!(outcomes.iter().any(|(_, ended, _)| ended.is_some()), "no limit was met: {outcomes:?}");
}
