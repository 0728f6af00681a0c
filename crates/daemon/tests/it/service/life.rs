//! What systemd hears, and what signals do.

use std::time::Duration;

use cairn_testkit::model::Kind;
use serde_json::json;

use crate::service::rig::{open_turn, start, with};

#[tokio::test(flavor = "multi_thread")]
async fn ready_means_that_the_socket_answers_and_the_status_line_tells_how_it_is() {
    let mut rig = start().await;
    // It was told to be ready before this.
    assert_eq!(rig.client().get("/v1/health").await.unwrap()["status"], "ok");
    rig.daemon().systemd.until("STATUS=ready: 0 channels awake").await.unwrap();
    rig.say("hello").await;
    rig.daemon().systemd.until("STATUS=ready: 1 channel awake, 0 turns, 0 runs").await.unwrap();
    rig.daemon().signal("TERM").await.unwrap();
    rig.daemon().systemd.until("STOPPING=1").await.unwrap();
    assert!(rig.take_daemon().ended().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_is_fed_while_the_daemon_moves_and_not_while_it_stands_still() {
    let mut rig = with("", &[("WATCHDOG_USEC", "400000")]).await;
    rig.say("hello").await;
    for _ in 0..3 {
        rig.daemon().systemd.until("WATCHDOG=1").await.unwrap();
    }
    rig.daemon().signal("STOP").await.unwrap();
    let stat = format!("/proc/{}/stat", rig.daemon().pid().unwrap());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        tokio::task::yield_now().await;
    }
    // What it had said before is read; one that stands still says nothing however long it takes.
    rig.daemon().systemd.said();
    let mut left = 0;
    while tokio::time::timeout(Duration::from_secs(1), rig.daemon().systemd.next()).await.is_ok() {
        left += 1;
        assert!(left < 30, "it goes on");
    }
    rig.daemon().signal("CONT").await.unwrap();
    rig.daemon().systemd.until("WATCHDOG=1").await.unwrap();
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_watchdog_in_the_unit_none_is_fed() {
    let rig = with("", &[("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")]).await;
    rig.daemon().systemd.until("STATUS=ready").await.unwrap();
    rig.say("hello").await;
    rig.daemon().systemd.until("STATUS=ready: 1 channel awake").await.unwrap();
    rig.daemon().signal("TERM").await.unwrap();
    let told = rig.daemon().systemd.until("STOPPING=1").await.unwrap();
    assert!(!told.iter().any(|line| line == "WATCHDOG=1"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_takes_nothing_in_and_lets_the_turn_under_way_end() {
    let mut rig = start().await;
    let (gate, open) = open_turn(&rig, "take your time").await;
    rig.daemon().signal("TERM").await.unwrap();
    rig.daemon().systemd.until("STOPPING=1").await.unwrap();
    // It was told before intake stops: until then a message waits for the next start.
    while rig.client().get("/v1/health").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let late = rig.client().say("main", "too late").await;
    assert!(late.is_err() || late.as_ref().is_ok_and(|(status, _)| *status == 503), "{late:?}");
    gate.open();
    let (status, answer) = open.await.unwrap();
    assert_eq!((status, &answer["reply"]), (200, &json!("echo: take your time")));
    assert!(rig.take_daemon().ended().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once_and_the_next_start_goes_on() {
    let mut rig = start().await;
    let gate = rig.model.hold(Kind::Reply);
    let body = json!({ "user": "ann", "text": "never mind", "id": "m1" });
    let client = rig.client();
    let asked = body.clone();
    let _open = tokio::spawn(async move { client.ask("POST", "/v1/channels/main/messages", &asked).await });
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.daemon().signal("TERM").await.unwrap();
    rig.daemon().systemd.until("STOPPING=1").await.unwrap();
    rig.daemon().signal("TERM").await.unwrap();
    assert_eq!(rig.take_daemon().ended().await.unwrap().code(), Some(1));
    gate.open();
    rig.cairn(&["compact", "main", "--wait"]).ended(0);
    let history = rig.cairn(&["history", "main", "--json"]).ended(0).stdout;
    assert!(history.contains("never mind"), "{history}");
    rig.model.assert_clean();
}
