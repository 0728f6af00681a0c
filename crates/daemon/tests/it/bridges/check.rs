//! `cairn bridge check` against a bridge that keeps the protocol, and against one that does not.

use std::net::SocketAddr;
use std::process::Stdio;

use cairn_testkit::daemon::{Client, Events, PATIENCE};
use cairn_testkit::home::write_secret;
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::rig::{TOKEN, hello, said};

const CALLS: &str = "/v1/bridges/check";

/// The check, and the address at which it waits.
pub(super) async fn check(folder: &std::path::Path) -> (Child, SocketAddr, tokio::task::JoinHandle<String>) {
    write_secret(&folder.join("token"), TOKEN).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["bridge", "check", "--listen", "127.0.0.1:0", "--token-file"])
        .arg(folder.join("token"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    let address = first.split("http://").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    let rest = tokio::spawn(async move {
        let mut text = String::new();
        while let Ok(Some(line)) = lines.next_line().await {
            text += &(line + "\n");
        }
        text
    });
    (child, address, rest)
}

/// A bridge of a network without people: what is sent is kept in a list.
struct FakeBridge {
    client: Client,
    sent: Vec<(String, String)>,
    /// It sends whatever it is handed, again and again.
    forgets: bool,
}

impl FakeBridge {
    async fn connect(&self) -> Option<Events> {
        let asked = self.client.ask("POST", &format!("{CALLS}/hello"), &hello()).await.ok()?;
        (asked.0 == StatusCode::OK).then_some(())?;
        self.client.stream(&format!("{CALLS}/deliveries")).await.ok()
    }

    async fn acknowledge(&mut self, delivery: &Value) {
        let id = delivery["id"].as_str().unwrap().to_owned();
        let known = self.sent.iter().find(|(of, _)| *of == id).map(|(_, message)| message.clone());
        let ack = match known.filter(|_| !self.forgets) {
            _ if delivery["chat"] == "no-such-chat" => {
                json!({ "outcome": "refused", "reason": "no such chat" })
            }
            Some(message) => json!({ "outcome": "sent", "message": message }),
            None => {
                assert!(delivery["text"].as_str().unwrap().chars().count() <= 200, "{delivery}");
                let message = format!("s{}", self.sent.len());
                self.sent.push((id.clone(), message.clone()));
                json!({ "outcome": "sent", "message": message })
            }
        };
        // The check may have ended.
        let _ = self.client.ask("POST", &format!("{CALLS}/deliveries/{id}"), &ack).await;
    }

    /// Connects, says one thing, and does what it is told until the check is over.
    async fn run(&mut self) {
        let mut events = self.connect().await.unwrap();
        let client = self.client.clone();
        let speaker = tokio::spawn(async move {
            while client.ask("POST", &format!("{CALLS}/messages"), &said("m1", "hi")).await.unwrap().0
                != StatusCode::OK
            {}
        });
        loop {
            while let Ok(Some((name, data))) = events.next().await {
                if name == "message" || name == "edit" {
                    self.acknowledge(&data).await;
                }
            }
            match self.connect().await {
                Some(again) => events = again,
                None => break,
            }
        }
        speaker.await.unwrap();
    }
}

async fn checked(forgets: bool) -> (i32, String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, address, told) = check(folder.path()).await;
    let mut bridge = FakeBridge { client: Client::tcp(address).with_token(TOKEN), sent: Vec::new(), forgets };
    tokio::time::timeout(PATIENCE, bridge.run()).await.unwrap();
    let code = child.wait().await.unwrap().code().unwrap();
    (code, told.await.unwrap(), bridge.sent.len())
}

#[tokio::test]
async fn a_bridge_that_keeps_the_protocol_passes_the_check() {
    let (code, told, n_sent) = checked(false).await;
    assert_eq!((code, n_sent), (0, 6), "{told}");
    assert!(told.contains(" checks passed, 0 failed\n") && !told.contains("FAILED"), "{told}");
}

#[tokio::test]
async fn a_bridge_that_sends_twice_fails_it() {
    let (code, told, _) = checked(true).await;
    assert_eq!(code, 1, "{told}");
    assert!(
        told.contains(
            "FAILED  it answers a repeat with the original message id: first it was `s0`, then `s1`"
        ),
        "{told}"
    );
}

#[tokio::test]
async fn a_call_that_breaks_the_protocol_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, address, told) = check(folder.path()).await;
    let client = Client::tcp(address);
    let refused = client.ask("POST", &format!("{CALLS}/hello"), &hello()).await.unwrap();
    assert_eq!(refused.0, StatusCode::UNAUTHORIZED);
    let client = client.with_token(TOKEN);
    let bad = json!({ "protocol": 9, "software": "x", "limit": 500 });
    let refused = client.ask("POST", &format!("{CALLS}/hello"), &bad).await.unwrap();
    assert_eq!(refused.0, StatusCode::BAD_REQUEST);
    let mut bridge = FakeBridge { client, sent: Vec::new(), forgets: false };
    tokio::time::timeout(PATIENCE, bridge.run()).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(1));
    let told = told.await.unwrap();
    assert!(told.contains("`hello` came without the token") && told.contains("`protocol` is 9"), "{told}");
    assert!(told.contains(" 2 failed\n"), "{told}");
}
