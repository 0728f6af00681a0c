//! Broken connections, and crashes of the daemon and of the bridge: every answer is delivered once, or its fate is told.

use cairn_testkit::daemon::Client;
use cairn_testkit::model::{Answer, Kind};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::rig::{Rig, Stream, TOKEN, hello, said};

#[tokio::test]
async fn an_answer_waits_for_its_bridge_and_status_and_doctor_say_so() {
    let rig = Rig::start("").await;
    let stream = rig.connect().await;
    rig.until_link(|link| link["state"] == "connected").await;
    let doctor = rig.cairn(&["doctor"]).await;
    assert!(doctor.stdout.contains("the bridge is connected since"), "{}", doctor.stdout);
    drop(stream);
    let link = rig.until_link(|link| link["state"] == "reconnecting").await;
    assert!(link["reason"].as_str().unwrap().starts_with("its bridge has been disconnected since"), "{link}");
    let doctor = rig.cairn(&["doctor"]).await;
    assert!(doctor.stdout.contains("its bridge has been disconnected since"), "{}", doctor.stdout);
    rig.called("messages", &said("m1", "hi")).await;
    let mut stream = rig.connect().await;
    let answer = stream.next("message").await;
    assert_eq!((&answer["text"], &answer["repeat"]), (&json!("echo: hi"), &json!(false)), "{answer}");
    rig.sent(&answer, "b1").await;
    rig.settled().await;
    rig.assert_clean();
}

/// A delivery that was handed over and not acknowledged when the connection ended, and the stream on which it comes again.
async fn cut_off(rig: &Rig) -> (Value, Stream) {
    let mut stream = rig.connect().await;
    rig.called("messages", &said("m1", "hi")).await;
    let first = stream.next("message").await;
    drop(stream);
    rig.until_link(|link| link["state"] == "reconnecting").await;
    let mut stream = rig.connect().await;
    let again = stream.next("message").await;
    assert_eq!((&again["id"], &again["repeat"]), (&first["id"], &json!(true)), "{again}");
    (again, stream)
}

#[tokio::test]
async fn what_was_not_acknowledged_comes_again_by_its_id_until_the_bridge_knows() {
    let rig = Rig::start("").await;
    let (again, mut stream) = cut_off(&rig).await;
    rig.acknowledge(&again, &json!({ "outcome": "later", "reason": "flood", "retry_after_secs": 0 })).await;
    let again = stream.next("message").await;
    assert_eq!(again["repeat"], true);
    rig.sent(&again, "b1").await;
    rig.settled().await;
    let (status, _) = rig
        .call(
            &format!("deliveries/{}", again["id"].as_str().unwrap()),
            &json!({ "outcome": "unknown", "reason": "x" }),
        )
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    rig.assert_clean();
}

#[tokio::test]
async fn a_delivery_whose_fate_nobody_knows_is_told_as_that_and_never_sent_again() {
    let rig = Rig::start("").await;
    let (again, mut stream) = cut_off(&rig).await;
    rig.acknowledge(&again, &json!({ "outcome": "unknown", "reason": "crashed while it was sent" })).await;
    // The chat is told that something may be missing.
    let note = stream.next("message").await;
    assert!(note["text"].as_str().unwrap().contains("may be missing"), "{note}");
    rig.sent(&note, "b2").await;
    let told =
        |owed: &Value| owed.as_array().is_some_and(|all| all.len() == 1 && all[0]["state"] == "unknown");
    rig.client().until("/v1/outbox", told).await.unwrap();
    rig.assert_clean();
}

#[tokio::test]
async fn a_repeat_that_was_never_sent_and_cannot_be_is_dead() {
    let rig = Rig::start("").await;
    let (again, mut stream) = cut_off(&rig).await;
    let gone = json!({ "outcome": "refused", "reason": "the room is gone" });
    rig.acknowledge(&again, &gone).await;
    // Now it is known that nothing was sent: it is tried once more, as at first.
    let anew = stream.next("message").await;
    assert_eq!((&anew["id"], &anew["repeat"]), (&again["id"], &json!(false)), "{anew}");
    rig.acknowledge(&anew, &gone).await;
    rig.client().until("/v1/outbox", |owed| owed[0]["state"] == "dead").await.unwrap();
    rig.assert_clean();
}

#[tokio::test]
async fn a_refused_delivery_is_dead_and_says_why() {
    let rig = Rig::start("").await;
    let mut stream = rig.connect().await;
    rig.called("messages", &said("m1", "hi")).await;
    let answer = stream.next("message").await;
    rig.acknowledge(&answer, &json!({ "outcome": "refused", "reason": "the room is gone" })).await;
    let owed = rig.client().until("/v1/outbox", |owed| owed[0]["state"] == "dead").await.unwrap();
    assert!(owed.to_string().contains("the room is gone"), "{owed}");
    rig.assert_clean();
}

#[tokio::test]
async fn killed_before_the_acknowledgement_the_daemon_asks_the_bridge_and_doubles_nothing() {
    let mut rig = Rig::start("").await;
    let mut stream = rig.connect().await;
    rig.called("messages", &said("m1", "hi")).await;
    let first = stream.next("message").await;
    rig.kill().await;
    stream.closed().await;
    rig.run().await;
    // A bridge that missed the restart is told to say hello.
    let unheard = rig.client().with_token(TOKEN).stream("/v1/bridges/meadow/deliveries").await;
    assert!(unheard.is_err());
    assert_eq!(rig.called("messages", &said("m1", "hi")).await["outcome"], "accepted");
    let mut stream = rig.connect().await;
    let again = stream.next("message").await;
    assert_eq!((&again["id"], &again["repeat"]), (&first["id"], &json!(true)));
    rig.sent(&again, "b1").await;
    rig.settled().await;
    assert_eq!(rig.requests().len(), 1);
    rig.stop().await;
    rig.assert_clean();
}

#[tokio::test]
async fn a_long_answer_goes_on_after_a_kill_where_it_was_by_the_limit_of_before() {
    let mut rig = Rig::start("").await;
    let mut stream = rig.connect().await;
    let words: Vec<String> = (0..60).map(|n| format!("leaf-{n}-")).collect();
    rig.model.push(Kind::Reply, Answer::text(words.join(" ")));
    rig.called("messages", &said("m1", "leaves?")).await;
    let first = stream.next("message").await;
    rig.sent(&first, "b1").await;
    let second = stream.next("message").await;
    rig.kill().await;
    rig.run().await;
    let mut stream = rig.connect().await;
    let mut whole = first["text"].as_str().unwrap().to_owned();
    let again = stream.next("message").await;
    assert_eq!((&again["id"], &again["text"]), (&second["id"], &second["text"]));
    let mut part = again;
    for n in 0.. {
        whole.push_str(part["text"].as_str().unwrap());
        rig.sent(&part, &format!("c{n}")).await;
        if whole.contains("leaf-59-") {
            break;
        }
        part = stream.next("message").await;
    }
    assert!((0..60).all(|n| whole.matches(&format!("leaf-{n}-")).count() == 1), "{whole}");
    rig.settled().await;
    rig.assert_clean();
}

#[tokio::test]
async fn a_bridge_that_connects_again_replaces_its_older_connection() {
    let rig = Rig::start("").await;
    let older = rig.connect().await;
    let mut stream = rig.connect().await;
    older.closed().await;
    rig.called("messages", &said("m1", "hi")).await;
    let answer = stream.next("message").await;
    rig.sent(&answer, "b1").await;
    rig.settled().await;
    assert_eq!(rig.until_link(|_| true).await["state"], "connected");
    rig.assert_clean();
}

#[tokio::test]
async fn what_a_network_cannot_do_is_not_asked_of_its_bridge() {
    let rig = Rig::start("drafts = true\ndraft_interval_ms = 500").await;
    let mut plain = hello();
    for (key, value) in [("markup", json!("plain")), ("edits", json!(false)), ("typing", json!(false))] {
        plain[key] = value;
    }
    let mut stream = rig.connect_as(&plain).await;
    let reply = Answer::text("**one** two").paced(std::time::Duration::from_millis(700));
    rig.model.push(Kind::Reply, reply);
    rig.called("messages", &said("m1", "hi")).await;
    let answer = stream.next("message").await;
    assert_eq!((&answer["text"], answer.get("html")), (&json!("one two"), None), "{answer}");
    rig.sent(&answer, "b1").await;
    rig.settled().await;
    rig.assert_clean();
}

#[tokio::test]
async fn over_tcp_a_bridge_has_its_own_calls_and_no_others() {
    let address = cairn_testkit::free_address();
    let rig = Rig::start(&format!("listen = \"{address}\"")).await;
    let client = Client::tcp(address).with_token(TOKEN);
    let calls = "/v1/bridges/meadow";
    let (status, answer) = client.ask("POST", &format!("{calls}/hello"), &hello()).await.unwrap();
    assert_eq!((status, &answer["platform"]), (StatusCode::OK, &json!("meadow")));
    let mut events = client.stream(&format!("{calls}/deliveries")).await.unwrap();
    client.ask("POST", &format!("{calls}/messages"), &said("m1", "hi")).await.unwrap();
    let answer = events.wait_for("message", |_| true).await.unwrap();
    assert_eq!(answer["text"], "echo: hi");
    let id = answer["id"].as_str().unwrap();
    let ack = json!({ "outcome": "sent", "message": "b1" });
    let (status, _) = client.ask("POST", &format!("{calls}/deliveries/{id}"), &ack).await.unwrap();
    assert_eq!(status, StatusCode::NO_CONTENT);
    rig.settled().await;
    for path in ["/v1/status", "/v1/channels", "/metrics"] {
        assert_eq!(client.ask("GET", path, &Value::Null).await.unwrap().0, StatusCode::NOT_FOUND, "{path}");
    }
    let stranger = Client::tcp(address).ask("POST", &format!("{calls}/hello"), &hello()).await.unwrap();
    assert_eq!(stranger.0, StatusCode::UNAUTHORIZED);
    rig.assert_clean();
}
