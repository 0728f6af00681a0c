//! Several nodes with one database: who leads, who follows, and what each of them has.

use std::time::Duration;

use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions};
use cairn_testkit::postgres::{database, sql, without_password};
use cairn_testkit::watched::GIVE_UP_AFTER;
use cairn_types::ports::StoreError;
use tempfile::tempdir;
use tokio::time::timeout;

use super::common::{
    Chat, channel, found, history, in_a_database, in_copy, in_database, leader, options, run_out, say,
    segments, until,
};

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn one_node_leads_and_whoever_wants_to_is_told_which() {
    let url = database();
    let (_a, store) = leader(&url, "a");
    let b = tempdir().unwrap();
    let error = Store::open(options(b.path(), &url, "b")).err().unwrap();
    assert_eq!(error, StoreError::Led { node: "a".to_owned(), address: "a.example:80".to_owned() });
    let mut standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    until(&standby, |status| status.leader.as_ref().is_some_and(|leader| leader.name == "a")).await;
    let leads = |of: &[cairn_types::ports::NodeRow]| -> Vec<(String, bool)> {
        of.iter().map(|row| (row.node.name.clone(), row.leads)).collect()
    };
    let nodes = store.nodes().await.unwrap();
    assert!(leads(&nodes).contains(&("b".to_owned(), false)), "{nodes:?}");
    assert!(store.lease().unwrap().borrow().held);
    // Left as planned, it is free at once.
    store.close().await;
    let store = timeout(GIVE_UP_AFTER, standby.lead()).await.unwrap().unwrap();
    assert_eq!(say(&store, "one").await.unwrap(), 1);
    assert_eq!(store.lease().unwrap().borrow().epoch, 2);
    let nodes = store.nodes().await.unwrap();
    assert!(leads(&nodes).contains(&("b".to_owned(), true)), "{nodes:?}");
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_node_that_stops_in_order_is_not_listed_any_more() {
    let url = database();
    let listed = || sql(&url, "SELECT name FROM cairn_node ORDER BY name");
    let (_a, store) = leader(&url, "a");
    let b = tempdir().unwrap();
    let standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    let both = async {
        while listed() != "a\nb" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(GIVE_UP_AFTER, both).await.unwrap();
    standby.close().await;
    assert_eq!(listed(), "a");
    store.close().await;
    assert_eq!(listed(), "");
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_name_stays_with_the_node_that_was_heard_of_by_it() {
    let url = database();
    let (_a, store) = leader(&url, "a");
    sql(
        &url,
        "INSERT INTO cairn_node VALUES ('b', 'first.example:80', '1', 0, clock_timestamp() + interval '1 hour')",
    );
    let address = || sql(&url, "SELECT address FROM cairn_node WHERE name = 'b'");
    let b = tempdir().unwrap();
    let standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    until(&standby, |status| status.leader.is_some()).await;
    assert_eq!(address(), "first.example:80");
    // Nothing was heard of that one for long: it has ended.
    sql(&url, "UPDATE cairn_node SET seen_at = clock_timestamp() - interval '6 seconds' WHERE name = 'b'");
    let taken = async {
        while address() != "b.example:80" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(GIVE_UP_AFTER, taken).await.unwrap();
    standby.close().await;
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_follower_has_what_the_leader_wrote_while_it_was_there_and_while_it_was_not() {
    let url = database();
    let (a, store) = leader(&url, "a");
    let mut chat = Chat::new(&store, "main");
    chat.turn("m1", "I adopted a greyhound named Pixel", "Lovely!").await;
    let b = tempdir().unwrap();
    let standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    let n = chat.state.last_n;
    until(&standby, |status| status.n == n && status.last_n == n).await;
    chat.turn("m2", "Pixel likes carrots", "Noted.").await;
    let n = chat.state.last_n;
    until(&standby, |status| status.n == n).await;
    standby.close().await;
    chat.compact(2, "Ana adopted Pixel, a greyhound.", Vec::new()).await;
    let mut standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    let n = chat.state.last_n;
    until(&standby, |status| status.n == n).await;
    let (before, hits) = (history(&store).await, found(&store, "greyhound").await);
    assert!(before.len() == 4 && hits.len() >= 2, "{before:?} {hits:?}");
    store.close().await;
    let bytes =
        |dir| segments(dir).iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>().concat();
    let store = timeout(GIVE_UP_AFTER, standby.lead()).await.unwrap().unwrap();
    assert_eq!(bytes(a.path()), bytes(b.path()), "line for line");
    assert_eq!((history(&store).await, found(&store, "greyhound").await), (before, hits));
    assert_eq!(store.restore(&channel("main")).await.unwrap().unwrap(), chat.state);
    assert_eq!(store.append(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(say(&store, "on").await.unwrap(), n + 1);
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_standby_that_wants_to_lead_does_so_when_the_lease_has_run_out() {
    let url = database();
    let (_a, store) = leader(&url, "a");
    say(&store, "one").await.unwrap();
    let b = tempdir().unwrap();
    let mut standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    until(&standby, |status| status.n == 1).await;
    // Somebody who does not exist leads: nobody renews it.
    sql(&url, "UPDATE cairn_lease SET lease = gen_random_uuid(), node = 'gone'");
    let mut lease = store.lease().unwrap();
    timeout(GIVE_UP_AFTER, lease.wait_for(|state| !state.held)).await.unwrap().unwrap();
    run_out(&url);
    let led = timeout(GIVE_UP_AFTER, standby.lead()).await.unwrap().unwrap();
    assert_eq!(say(&led, "two").await.unwrap(), 2);
    assert_eq!(say(&store, "late").await, Err(StoreError::Fenced));
    assert_eq!(in_database(&url), ["1 one", "2 two"]);
    led.close().await;
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_folder_that_was_copied_does_not_take_the_lead_from_where_it_was_copied() {
    let url = database();
    let (a, store) = leader(&url, "a");
    say(&store, "one").await.unwrap();
    let b = tempdir().unwrap();
    let from = a.path().join(".");
    assert!(std::process::Command::new("cp").arg("-a").arg(from).arg(b.path()).status().unwrap().success());
    let led = Store::open(options(b.path(), &url, "b")).err().unwrap();
    assert!(matches!(&led, StoreError::Led { node, .. } if node == "a"), "{led:?}");
    say(&store, "two").await.unwrap();
    // The folder itself does: whoever has its lock knows that the process has ended, although the lease was not left.
    sql(&url, "CREATE TABLE left_over AS SELECT l.*, j.lease AS held FROM cairn_lease l, cairn_journal j");
    store.close().await;
    sql(&url, "UPDATE cairn_journal SET lease = (SELECT held FROM left_over)");
    sql(
        &url,
        "INSERT INTO cairn_lease SELECT name, 'killed', address, epoch, lease, clock_timestamp() + interval '1 hour' FROM left_over",
    );
    let again = Store::open(options(a.path(), &url, "a")).unwrap();
    assert_eq!(say(&again, "three").await.unwrap(), 3);
    again.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_copy_is_no_journal_of_its_own_and_a_journal_of_its_own_is_no_copy() {
    let (url, other) = (database(), database());
    let (_, secret) = without_password(&url);
    let told = |options: StoreOptions, words: &[&str]| {
        let both = [Store::open(options.clone()).err(), Store::stand_by(options).err()];
        for error in both.map(|error| error.unwrap()) {
            let text = error.to_string();
            assert!(matches!(error, StoreError::Elsewhere { .. }) && !text.contains(&secret), "{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    };
    let (a, store) = leader(&url, "a");
    say(&store, "one").await.unwrap();
    store.close().await;
    let error = Store::open(StoreOptions::new(a.path())).err().unwrap();
    assert!(matches!(&error, StoreError::Elsewhere { .. }), "{error}");
    assert!(error.to_string().contains("[store] url"), "{error}");
    told(options(a.path(), &other, "a"), &["another database"]);
    let b = tempdir().unwrap();
    let own = crate::common::open(b.path());
    say(&own, "own").await.unwrap();
    own.close().await;
    told(options(b.path(), &url, "b"), &["a journal of its own", "cairn store move"]);
    assert_eq!(in_database(&url), ["1 one"]);
    assert_eq!(in_copy(b.path()), ["1 own"]);
    crate::common::open(b.path()).close().await;
}

#[test]
fn what_is_secret_in_a_url_is_told_nowhere() {
    let dir = tempdir().unwrap();
    for url in ["postgres://cairn:hunter2@127.0.0.1:1/cairn", "postgres://cairn:hunter2@127.0.0.1:none/x"] {
        let options = options(dir.path(), url, "a");
        assert!(!format!("{options:?}").contains("hunter2"));
        let error = Store::open(options).err().unwrap();
        assert!(matches!(error, StoreError::Database { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_database_of_a_newer_version_is_not_touched() {
    let url = database();
    let (a, store) = leader(&url, "a");
    store.close().await;
    sql(&url, "UPDATE cairn_journal SET format = 99, written_by = '9.9.9'");
    let error = Store::open(options(a.path(), &url, "a")).err().unwrap();
    assert!(matches!(&error, StoreError::Newer { format: 99, .. }), "{error}");
    assert!(error.to_string().contains("9.9.9"), "{error}");
    sql(&url, "UPDATE cairn_journal SET format = 3");
    Store::open(options(a.path(), &url, "a")).unwrap().close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_database_of_an_older_version_is_brought_to_this_one() {
    let url = database();
    let (a, store) = leader(&url, "a");
    say(&store, "one").await.unwrap();
    store.close().await;
    let tables = "SELECT count(*) FROM pg_class WHERE relname IN ('cairn_request', 'cairn_answer')";
    for (format, as_it_was) in [("1", "SELECT 1"), ("2", include_str!("../../../src/cluster/schema-2.sql"))] {
        sql(&url, as_it_was);
        sql(&url, &format!("UPDATE cairn_journal SET format = {format}"));
        let store = Store::open(options(a.path(), &url, "a")).unwrap();
        say(&store, format).await.unwrap();
        store.close().await;
        assert_eq!(sql(&url, "SELECT format FROM cairn_journal").trim(), "3");
        assert_eq!(sql(&url, tables).trim(), "0", "from {format}");
    }
    assert_eq!(in_database(&url), ["1 one", "2 1", "3 2"]);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn words_that_a_database_cannot_hold_as_text_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_a_database(dir.path());
    for words in ["a\0b", "\u{feff}ß\u{1f980}\\u0000", "'; DROP TABLE cairn_event; --"] {
        say(&store, words).await.unwrap();
    }
    let before = in_copy(dir.path());
    store.close().await;
    std::fs::remove_dir_all(dir.path().join("journal")).unwrap();
    super::common::remove_derived(dir.path());
    in_a_database(dir.path()).close().await;
    assert_eq!(in_copy(dir.path()), before);
}
