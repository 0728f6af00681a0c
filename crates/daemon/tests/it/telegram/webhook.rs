//! Updates by a webhook, through a balancer: answered once, through kills and a change of mind.

use std::net::TcpListener;
use std::path::Path;

use cairn_testkit::daemon::Daemon;
use cairn_testkit::free_address;
use cairn_testkit::home::write_secret;
use cairn_testkit::postgres::{self, PASSWORD_FILE, store_table};
use cairn_testkit::telegram::Fault;

use super::rig::{Rig, World, texts};
use crate::CAIRN;

const HOST: &str = "bot.example.org";

/// A daemon whose bot has a webhook.
async fn hooked() -> Rig {
    let (world, address) = (World::new().await, free_address());
    world.telegram.lead(HOST, address);
    let keys = format!(
        "direct = \"open\"\nwebhook_url = \"https://{HOST}/telegram\"\nwebhook_listen = \"{address}\""
    );
    let rig = world.start(&keys).await;
    rig.telegram.wait_until("a webhook", |fake| fake.webhook().is_some()).await;
    rig
}

#[tokio::test]
async fn what_is_said_is_answered_once_through_a_kill() {
    let mut rig = hooked().await;
    assert_eq!(rig.ask(&rig.alice, "hello quokka").await.text, "echo: hello quokka");
    rig.delivered().await;
    let polls = rig.telegram.calls("getUpdates").len();
    rig.kill().await;
    let before = rig.telegram.deliveries();
    rig.telegram.say(rig.alice.id, &rig.alice, "are you there, quokka?");
    rig.telegram.wait_until("refusals", |fake| fake.deliveries() > before + 1).await;
    rig.restart().await;
    let sent = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(texts(&sent), ["echo: hello quokka", "echo: are you there, quokka?"]);
    rig.telegram.wait_confirmed().await;
    assert_eq!(rig.ask(&rig.bob, "and me, quokka?").await.text, "echo: and me, quokka?");
    assert_eq!(rig.telegram.sent(rig.alice.id).len(), 2);
    assert!(rig.telegram.calls("getUpdates").len() > polls, "what was missed is asked for");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_node_of_a_database_that_stands_by_takes_no_updates_and_telegram_repeats_them_to_the_one_that_leads()
 {
    let url = postgres::database();
    let (world, addresses) = (World::new().await, [free_address(), free_address()]);
    let (table, password) = store_table(&url);
    write_secret(&world.dir.path().join(PASSWORD_FILE), &password).unwrap();
    world.telegram.lead(HOST, addresses[0]);
    let keys = format!(
        "direct = \"open\"\nwebhook_url = \"https://{HOST}/telegram\"\nwebhook_listen = \"{}\"\n{table}node = \"a\"",
        addresses[0]
    );
    let mut rig = world.start(&keys).await;
    rig.telegram.wait_until("a webhook", |fake| fake.webhook().is_some()).await;

    let (config, state) = (rig.dir.path().join("b.toml"), rig.dir.path().join("b"));
    let text = std::fs::read_to_string(&rig.config).unwrap();
    let text = text.replace("node = \"a\"", "node = \"b\"");
    std::fs::write(&config, text.replace(&addresses[0].to_string(), &addresses[1].to_string())).unwrap();
    std::fs::create_dir(&state).unwrap();
    let standby = Daemon::start(Path::new(CAIRN), &state, Some(&config)).await.unwrap();
    standby.client().until("/v1/status", |status| status["node"]["leader"] == "a").await.unwrap();
    rig.telegram.lead(HOST, addresses[1]);
    let before = rig.telegram.deliveries();
    rig.telegram.say(rig.alice.id, &rig.alice, "hello quokka");
    rig.telegram.wait_until("refusals", |fake| fake.deliveries() > before + 1).await;
    assert!(rig.telegram.sent(rig.alice.id).is_empty());
    rig.telegram.lead(HOST, addresses[0]);
    assert_eq!(texts(&rig.telegram.wait_sent(rig.alice.id, 1).await), ["echo: hello quokka"]);

    // Then it leads itself.
    rig.delivered().await;
    rig.telegram.lead(HOST, addresses[1]);
    rig.kill().await;
    rig.telegram.say(rig.alice.id, &rig.alice, "are you there, quokka?");
    let sent = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(texts(&sent), ["echo: hello quokka", "echo: are you there, quokka?"]);
    standby.stop().await.unwrap();
    rig.telegram.assert_clean();
}

#[tokio::test]
async fn a_port_that_is_taken_and_a_webhook_that_is_refused_are_told() {
    let world = World::new().await;
    let address = free_address();
    let taken = TcpListener::bind(address).unwrap();
    let keys = format!("webhook_url = \"https://{HOST}/telegram\"\nwebhook_listen = \"{address}\"");
    let mut rig = world.start("direct = \"open\"").await;
    rig.stop().await;
    rig.rewrite("direct = \"open\"", &keys);
    let (code, said) = rig.cairn(&["run"]).await;
    assert!(
        code == 1 && said.contains("cannot listen for webhooks") && said.contains("webhook_listen"),
        "{said}"
    );
    drop(taken);
    rig.telegram.fail_next("setWebhook", Fault::internal());
    rig.restart().await;
    let line = rig.status_until(|line| line["state"] == "failed").await;
    assert!(line["reason"].as_str().unwrap().contains("Failed to resolve host"), "{line}");
    assert!(line["hint"].as_str().unwrap().contains("webhook_url"), "{line}");
    assert!(rig.telegram.calls("setWebhook").len() > 1, "what may pass is tried again");
    rig.stop().await;
}
