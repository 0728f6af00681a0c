//! Erasures with a database: nothing of the person is left on any node, nothing but the person goes, and one that fails keeps
//! nobody from leading.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_store::{DatabaseOptions, Progress, Store, StoreOptions, erase_dir, move_to};
use cairn_testkit::postgres::{database, sql};
use cairn_testkit::watched::GIVE_UP_AFTER;
use cairn_types::ports::StoreError;
use tempfile::tempdir;
use tokio::time::timeout;

use super::common::{Chat, at, found, leader, options, stored, until};

const ANA: &str = "local/ana";

/// Ana speaks of rhubarb in one chat.
async fn ana_speaks(store: &Store) -> Chat {
    let mut chat = Chat::new(store, "main");
    chat.turn("m1", "the rhubarb is in the shed", "noted").await;
    chat
}

async fn bob_speaks(store: &Store, to: &str, words: &str) -> Chat {
    let mut chat = Chat::new(store, to);
    let turn = chat.accept("m1", "bob", words).await;
    chat.start(&turn, &["m1"]).await;
    chat
}

/// Has whoever leads next erase Ana.
async fn ask(store: Store) {
    let lease = store.maintenance().await.unwrap();
    assert!(store.ask_erasure(lease, ANA, at(9)).await.unwrap());
    assert!(store.is_erasure_pending());
    store.close().await;
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The files of a state that have that word.
fn with(dir: &Path, word: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap()).contains(word);
    files(dir).into_iter().filter(has).collect()
}

fn in_events(url: &str, word: &str) -> String {
    sql(url, &format!("SELECT count(*) FROM cairn_event WHERE body LIKE '%{word}%'"))
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn who_is_erased_is_in_nothing_that_a_follower_kept_aside() {
    let url = database();
    let (a, store) = leader(&url, "a");
    let n = ana_speaks(&store).await.state.last_n;
    let b = tempdir().unwrap();
    let standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    until(&standby, |status| status.n == n).await;
    for file in ["quarantine/1-torn-at-30.jsonl", "before-copy-1/1.jsonl", "views.damaged/db"] {
        let file = b.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "rhubarb").unwrap();
    }
    ask(store).await;
    let store = Store::open(options(a.path(), &url, "a")).unwrap();
    let n = store.stats().await.unwrap().last_n;
    until(&standby, |status| status.n == n).await;
    standby.close().await;
    store.close().await;
    for dir in [a.path(), b.path()] {
        assert_eq!(with(dir, "rhubarb"), Vec::<PathBuf>::new());
    }
    assert_eq!(in_events(&url, "rhubarb"), "0");
}

/// An erasure comes to its end in the database no more.
fn let_erasures_fail(url: &str) {
    sql(
        url,
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room'; END $$; \
         CREATE TRIGGER fails BEFORE DELETE ON cairn_erasure FOR EACH ROW EXECUTE FUNCTION fails()",
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn an_erasure_that_fails_keeps_nobody_from_leading_and_is_tried_again() {
    let url = database();
    let (a, store) = leader(&url, "a");
    ana_speaks(&store).await;
    let_erasures_fail(&url);
    ask(store).await;
    let b = tempdir().unwrap();
    for node in ["a", "b"] {
        let store = if node == "a" {
            Store::open(options(a.path(), &url, node)).unwrap()
        } else {
            let mut standby = Store::stand_by(options(b.path(), &url, node)).unwrap();
            timeout(GIVE_UP_AFTER, standby.lead()).await.unwrap().unwrap()
        };
        assert!(store.is_erasure_pending(), "{node}");
        assert!(!found(&store, "rhubarb").await.is_empty(), "all is there as before");
        bob_speaks(&store, node, "the ferry leaves at noon").await;
        assert!(store.verify().await.unwrap().ok);
        store.close().await;
    }
    let error = erase_dir(options(a.path(), &url, "a"), ANA, at(9), false).await.unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    sql(&url, "DROP TRIGGER fails ON cairn_erasure");
    let mut standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    let store = timeout(GIVE_UP_AFTER, standby.lead()).await.unwrap().unwrap();
    assert!(!store.is_erasure_pending());
    assert!(found(&store, "rhubarb").await.is_empty());
    assert_eq!((in_events(&url, "rhubarb"), in_events(&url, "at noon")), ("0".to_owned(), "2".to_owned()));
    assert_eq!(sql(&url, "SELECT count(*) FROM cairn_erasure"), "0");
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_follower_that_loses_its_lease_while_it_erases_leads_without_that_the_next_time() {
    let url = database();
    let (_a, store) = leader(&url, "a");
    ana_speaks(&store).await;
    ask(store).await;
    // Another node takes the lease right after this one has, once.
    sql(
        &url,
        "CREATE TABLE taken (one boolean PRIMARY KEY); \
         CREATE FUNCTION takes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO taken VALUES (true) ON CONFLICT DO NOTHING; \
             IF FOUND THEN UPDATE cairn_journal SET lease = gen_random_uuid(); END IF; RETURN NULL; END $$; \
         CREATE TRIGGER takes AFTER UPDATE ON cairn_journal FOR EACH ROW WHEN (NEW.lease <> OLD.lease OR OLD.lease IS NULL) \
             EXECUTE FUNCTION takes()",
    );
    let b = tempdir().unwrap();
    let mut standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    let store = timeout(GIVE_UP_AFTER, standby.lead()).await.unwrap().unwrap();
    assert!(store.is_erasure_pending());
    bob_speaks(&store, "other", "the ferry leaves").await;
    assert!(store.verify().await.unwrap().ok && !found(&store, "rhubarb").await.is_empty());
    store.close().await;
    let store = Store::open(options(b.path(), &url, "b")).unwrap();
    assert!(!store.is_erasure_pending() && found(&store, "rhubarb").await.is_empty());
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn an_erasure_takes_nothing_to_the_database_that_only_its_node_says() {
    let url = database();
    let (a, store) = leader(&url, "a");
    ana_speaks(&store).await;
    let mut other = bob_speaks(&store, "other", "the carrots are in the cellar").await;
    let text = "the words of a long result";
    stored(&mut other, "a1", text).await;
    ask(store).await;
    // What this node has is not what the database has.
    let file = files(&a.path().join("artifacts")).remove(0);
    fs::write(&file, text.to_uppercase()).unwrap();
    sql(&url, "UPDATE cairn_event SET body = replace(body, 'carrots', 'parsnips')");
    let row = "SELECT xmin, convert_from(bytes, 'UTF8') FROM cairn_artifact";
    let before = sql(&url, row);
    let store = Store::open(options(a.path(), &url, "a")).unwrap();
    assert_eq!((in_events(&url, "carrots"), in_events(&url, "rhubarb")), ("0".to_owned(), "0".to_owned()));
    assert_ne!(in_events(&url, "parsnips"), "0");
    assert_eq!(sql(&url, row), before, "it is as it was, and was not written again");
    assert!(with(a.path(), "carrots").is_empty());
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_journal_with_somebody_who_is_still_to_be_erased_is_not_moved() {
    let url = database();
    let dir = tempdir().unwrap();
    let store = crate::common::open(dir.path());
    ana_speaks(&store).await;
    store.close().await;
    let asked = format!(r#"{{"phase":"asked","person":"{ANA}","at":"{}"}}"#, at(9));
    fs::write(dir.path().join("erasure.json"), asked).unwrap();
    // An erasure lists the folder.
    fs::write(dir.path().join("artifacts"), "").unwrap();
    let to = || DatabaseOptions { url: url.as_str().into(), node: "a".to_owned(), address: String::new() };
    let moved = move_to(StoreOptions::new(dir.path()), to(), &Progress::default()).await;
    assert!(matches!(&moved, Err(StoreError::Io { .. })), "{moved:?}");
    fs::remove_file(dir.path().join("artifacts")).unwrap();
    move_to(StoreOptions::new(dir.path()), to(), &Progress::default()).await.unwrap();
    assert_eq!((in_events(&url, "rhubarb"), in_events(&url, "erased-1")), ("0".to_owned(), "2".to_owned()));
    let store = Store::open(options(dir.path(), &url, "a")).unwrap();
    assert!(store.verify().await.unwrap().ok);
    store.close().await;
}
