//! What systemd hears, and what signals do.

use std::time::Duration;

use cairn_testkit::model::Kind;
use serde_json::json;

use crate::service::rig::{Rig, cairn_on};

#[tokio::test(flavor = "multi_thread")]
async fn ready_means_that_the_socket_answers_and_the_status_line_tells_how_it_is() {
    let rig = Rig::start().await;
    // It was told to be ready before this.
    assert_eq!(rig.client().get("/v1/health").await.unwrap()["status"], "ok");
    rig.systemd.until("STATUS=ready: 0 channels awake").await.unwrap();
    rig.say("hello").await;
    rig.systemd.until("STATUS=ready: 1 channel awake, 0 turns, 0 runs").await.unwrap();
    rig.daemon.signal("TERM").await.unwrap();
    rig.systemd.until("STOPPING=1").await.unwrap();
    let Rig { daemon, .. } = rig;
    assert!(daemon.ended().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_is_fed_while_the_daemon_moves_and_not_while_it_stands_still() {
    let rig = Rig::with("", &[("WATCHDOG_USEC", "400000")]).await;
    rig.say("hello").await;
    for _ in 0..3 {
        rig.systemd.until("WATCHDOG=1").await.unwrap();
    }
    rig.daemon.signal("STOP").await.unwrap();
    let stat = format!("/proc/{}/stat", rig.daemon.pid().unwrap());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        tokio::task::yield_now().await;
    }
    // What it had said before is read; one that stands still says nothing however long it takes.
    let mut left = 0;
    while tokio::time::timeout(Duration::from_secs(1), rig.systemd.next()).await.is_ok() {
        left += 1;
        assert!(left < 30, "it goes on");
    }
    rig.daemon.signal("CONT").await.unwrap();
    rig.systemd.until("WATCHDOG=1").await.unwrap();
    assert!(rig.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_watchdog_in_the_unit_none_is_fed() {
    let rig = Rig::with("", &[("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")]).await;
    rig.systemd.until("STATUS=ready").await.unwrap();
    rig.say("hello").await;
    rig.systemd.until("STATUS=ready: 1 channel awake").await.unwrap();
    rig.daemon.signal("TERM").await.unwrap();
    let told = rig.systemd.until("STOPPING=1").await.unwrap();
    assert!(!told.iter().any(|line| line == "WATCHDOG=1"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_takes_nothing_in_and_lets_the_turn_under_way_end() {
    let rig = Rig::start().await;
    let (gate, open) = rig.open_turn("take your time").await;
    rig.daemon.signal("TERM").await.unwrap();
    rig.systemd.until("STOPPING=1").await.unwrap();
    // It was told before intake stops: until then a message waits for the next start.
    while rig.client().get("/v1/health").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let late = rig.client().say("main", "too late").await;
    assert!(late.is_err() || late.as_ref().is_ok_and(|(status, _)| *status == 503), "{late:?}");
    gate.open();
    let (status, answer) = open.await.unwrap();
    assert_eq!((status.as_u16(), &answer["reply"]), (200, &json!("echo: take your time")));
    let Rig { daemon, dir: _dir, .. } = rig;
    assert!(daemon.ended().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once_and_the_next_start_goes_on() {
    let rig = Rig::start().await;
    let gate = rig.model.hold(Kind::Reply);
    let body = json!({ "user": "ann", "text": "never mind", "id": "m1" });
    let client = rig.client();
    let asked = body.clone();
    let _open = tokio::spawn(async move { client.ask("POST", "/v1/channels/main/messages", &asked).await });
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.daemon.signal("TERM").await.unwrap();
    rig.systemd.until("STOPPING=1").await.unwrap();
    rig.daemon.signal("TERM").await.unwrap();
    let Rig { daemon, dir, model, .. } = rig;
    assert_eq!(daemon.ended().await.unwrap().code(), Some(1));
    gate.open();
    let (code, _, stderr) = cairn_on(dir.path(), &["compact", "main", "--wait"]).await;
    assert_eq!(code, 0, "{stderr}");
    let (code, history, _) = cairn_on(dir.path(), &["history", "main", "--json"]).await;
    assert_eq!(code, 0);
    assert!(history.contains("never mind"), "{history}");
    model.assert_clean();
}
