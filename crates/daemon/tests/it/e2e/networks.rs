//! Pairing, the outbox and the state of chat networks, without a network.

use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions};
use cairn_testkit::free_address;
use cairn_testkit::home::Home;
use cairn_types::event::{
    DeliveryEvent, Event, MessageEvent, NewRecord, Receipt, RegistryEvent, TurnEnd, TurnEvent, TurnOutcome,
};
use cairn_types::ids::{ChannelId, Seq};
use cairn_types::message::{Author, Part, Pending, fingerprint};
use cairn_types::model::Usage;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::home;

fn ann() -> Author {
    Author { id: "telegram/7".to_owned(), name: "Ann \u{1b}[2J".to_owned() }
}

/// Journals events as a daemon would have done before.
async fn journal(home: &Home, channel: Option<&str>, events: Vec<Event>) {
    let store = Store::open(StoreOptions::new(home.state())).unwrap();
    #[expect(clippy::disallowed_methods, reason = "codes are void after a day of the wall's time")]
    let at = Timestamp::now();
    let channel: Option<ChannelId> = channel.map(|channel| channel.parse().unwrap());
    let records = events.into_iter().map(|event| NewRecord { channel: channel.clone(), at, event });
    store.append(records.collect()).await.unwrap();
    store.settle().await.unwrap();
    store.close().await;
}

fn asked() -> Event {
    Event::Registry(RegistryEvent::PairingRequested {
        user: ann(),
        chat: "7".to_owned(),
        code: "K7P2XMQA".to_owned(),
    })
}

/// A turn in a private chat whose note could not be delivered.
fn undelivered(id: &str, receipt: Receipt) -> Vec<Event> {
    let parts = vec![Part::text("hello")];
    let message = Pending {
        message: "m1".into(),
        turn: "t1".into(),
        at: Timestamp::UNIX_EPOCH,
        author: ann(),
        spoken: false,
        reminder: None,
        fingerprint: fingerprint(&ann(), &parts),
        parts,
        addressed: true,
        direct: true,
        chat_name: None,
        language: None,
        provenance: cairn_types::message::Provenance::default(),
        tokens: 5,
    };
    let end = TurnEnd {
        turn: "t1".into(),
        outcome: TurnOutcome::Failed { code: "turn_failed".to_owned(), message: "no".to_owned() },
        model: None,
        usage: Usage::default(),
        recalled: Vec::new(),
    };
    let intent = Event::Delivery(DeliveryEvent::Intended {
        id: id.into(),
        turn: "t1".into(),
        seq: Seq(1),
        note: Some("I could not answer.".to_owned()),
        approval: None,
        reply_to: Some("m1".into()),
        edits: None,
        draft: false,
        files: Vec::new(),
    });
    vec![
        Event::Message(MessageEvent::Accepted(message)),
        Event::Turn(TurnEvent::Started { turn: "t1".into(), messages: vec!["m1".into()], first_seq: Seq(1) }),
        intent,
        Event::Turn(TurnEvent::Ended(end)),
        Event::Delivery(DeliveryEvent::Attempted { id: id.into(), part: 0 }),
        Event::Delivery(DeliveryEvent::Settled { id: id.into(), receipt }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_let_in_and_out_again_without_a_daemon() {
    let home = home();
    assert_eq!(home.json(&["pair", "list"]), json!([]));
    journal(&home, None, vec![asked()]).await;
    let list = home.cairn(&["pair", "list"]).ended(0).stdout;
    assert!(list.contains("telegram/7") && list.contains("K7P2XMQA") && list.contains("waiting"), "{list}");
    assert!(!list.contains('\u{1b}'), "a name moves the cursor: {list:?}");
    let none = home.cairn(&["pair", "approve", "AAAAAAAA"]).ended(4);
    assert!(none.stderr.contains("no request has the code AAAAAAAA"), "{none:?}");
    let approved = home.json(&["pair", "approve", "k7p2xmqa"]);
    assert_eq!((&approved["state"], &approved["told"]), (&json!("paired"), &json!(false)));
    let list = home.json(&["pair", "list"]);
    assert_eq!((&list[0]["user"], &list[0]["state"]), (&json!("telegram/7"), &json!("paired")));
    home.cairn(&["pair", "approve", "K7P2XMQA"]).ended(4);
    assert!(home.cairn(&["pair", "revoke", "telegram/7"]).ended(0).stdout.contains("no longer"));
    home.cairn(&["pair", "revoke", "telegram/7"]).ended(4);
    assert_eq!(home.json(&["pair", "list"])[0]["state"], "revoked", "so that they are told nothing more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_daemon_approves_and_shows_it_at_once() {
    let home = home();
    journal(&home, None, vec![asked()]).await;
    let daemon = home.daemon(None).await;
    home.cairn(&["pair", "approve", "K7P2XMQA"]).ended(0);
    assert_eq!(home.json(&["pair", "list"])[0]["state"], "paired");
    assert!(daemon.stop().await.unwrap().success());
    assert_eq!(home.json(&["pair", "list"])[0]["state"], "paired");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_delivered_is_listed_tried_again_and_given_up() {
    let home = home();
    assert_eq!(home.json(&["outbox", "list"]), json!([]));
    let dead = Receipt::Dead { reason: "the bot was blocked by the user".to_owned() };
    journal(&home, Some("main/telegram/7"), undelivered("main/telegram/7:12", dead)).await;
    let list = home.cairn(&["outbox", "list"]).ended(0).stdout;
    for word in
        ["main/telegram/7:12", "main/telegram/7", "dead", "I could not answer.", "blocked by the user"]
    {
        assert!(list.contains(word), "`{word}` in {list}");
    }
    let states = || -> Value {
        let list = home.json(&["outbox", "list"]);
        list.as_array().unwrap().iter().map(|item| item["state"].clone()).collect()
    };
    home.cairn(&["outbox", "retry", "main/telegram/7:99"]).ended(4);
    let retried = home.cairn(&["outbox", "retry", "main/telegram/7:12"]).ended(0);
    assert!(retried.stderr.contains("the next `cairn run` sends it"), "{retried:?}");
    assert_eq!(states(), json!(["owed"]), "owed to a network that is not running: it stays owed");
    home.cairn(&["new", "main/telegram/7"]).ended(0);
    assert_eq!(states(), json!(["owed"]), "whatever else is done");
    home.cairn(&["outbox", "drop", "main/telegram/7:12"]).ended(0);
    assert_eq!(states(), json!([]));
    home.cairn(&["outbox", "drop", "main/telegram/7:12"]).ended(4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_of_unknown_fate_says_so() {
    let home = home();
    let unknown = Receipt::Unknown { part: 0, reason: "the connection broke".to_owned() };
    journal(&home, Some("main/telegram/7"), undelivered("o1", unknown)).await;
    let item = home.json(&["outbox", "list"])[0].clone();
    assert_eq!((&item["state"], &item["reason"]), (&json!("unknown"), &json!("the connection broke")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_cannot_be_reached_is_shown_and_makes_the_daemon_no_worse() {
    let home = home();
    home.file("bot.token", "123456789:AAcanary_canary_canary_canary_canary");
    // A port that was free just now, and nobody listens at.
    let port = free_address().port();
    let config = home
        .config(&format!("[telegram]\ntoken_file = \"bot.token\"\napi_url = \"http://127.0.0.1:{port}\"\n"));
    let daemon = home.daemon(Some(&config)).await;
    let status = home.cairn(&["status", "--json"]).ended(0);
    assert_eq!(status.json()["platforms"][0]["platform"], "telegram", "{status:?}");
    assert_ne!(status.json()["platforms"][0]["state"], "connected");
    assert!(home.cairn(&["status"]).ended(0).stdout.contains("\n  telegram  "));
    let health = daemon.client().get("/v1/health").await.unwrap();
    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(health["platforms"][0]["platform"], "telegram", "{health}");
    daemon.client().say("main", "still there?").await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
    let log = home.log();
    assert!(!log.contains("canary"), "the token is in the log: {log}");
    assert_eq!(home.status()["platforms"], json!([]));
}

#[test]
fn a_missing_token_stops_the_daemon_and_no_other_command() {
    let home = home();
    home.config("[discord]\ntoken_env = \"NO_SUCH_TOKEN\"\n");
    let run = home.cairn(&["run"]).ended(2);
    assert!(run.stderr.contains("`token_env` of [discord]: $NO_SUCH_TOKEN is not set"), "{run:?}");
    home.cairn(&["config", "check"]).ended(2);
    home.cairn(&["status"]).ended(1);
    home.cairn_with(&["chat"], b"hello\n").ended(0);
}
