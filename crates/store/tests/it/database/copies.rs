//! Copies of a journal in a database: what a node's folder must not have, and what must not be done with it.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_core::store_port::Store as _;
use cairn_store::{
    DatabaseOptions, Progress, Store, StoreOptions, erase_dir, move_from, move_to, rebuild_dir, restore_dir,
    verify_dir,
};
use cairn_testkit::postgres::{database, sql};
use cairn_types::event::{ArtifactEvent, Event};
use cairn_types::ports::{LineRange, StoreError};
use tempfile::tempdir;

use super::common::{
    Chat, at, channel, in_database, in_segments, leader, options, say, segments, stored, until,
};

/// The files of the chat's artifacts, by name.
fn artifacts(dir: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(dir.join("artifacts")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect();
    files.sort();
    files
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn an_artifact_that_only_this_node_has_gives_way_to_the_one_that_the_journal_names() {
    let url = database();
    let (a, store) = leader(&url, "a");
    let mut chat = Chat::new(&store, "main");
    let text = "the words of a long result";
    let artifact = stored(&mut chat, "a1", text).await;
    // Written under that id before this node lost its lease.
    let file = artifacts(a.path()).remove(0);
    fs::write(&file, text.to_uppercase()).unwrap();
    let range = LineRange { from: 1, offset: 0, count: 9, max_bytes: 999 };
    let lines = store.artifact_lines(&channel("main"), &artifact, range).await.unwrap();
    assert_eq!(lines.map(|lines| lines.text).as_deref(), Some(text));
    fs::write(&file, text.to_uppercase()).unwrap();
    let report = store.verify().await.unwrap();
    assert!(report.ok, "{:?}", report.problems);
    fs::write(&file, text.to_uppercase()).unwrap();
    let elsewhere = tempdir().unwrap();
    let backup = elsewhere.path().join("backup");
    assert!(store.backup(backup.clone(), at(0)).await.unwrap().missing.is_empty());
    assert_eq!(fs::read_to_string(&artifacts(&backup)[0]).unwrap(), text);
    store.close().await;
    fs::write(&file, text.to_uppercase()).unwrap();
    move_from(options(a.path(), &url, "a"), &Progress::default()).await.unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn an_artifact_that_expires_goes_from_a_node_that_led_before() {
    let url = database();
    let (a, store) = leader(&url, "a");
    let mut chat = Chat::new(&store, "main");
    for id in ["a1", "a2", "a3"] {
        stored(&mut chat, id, "words").await;
    }
    store.close().await;
    let (_b, store) = leader(&url, "b");
    chat.store = store.clone();
    let expire = |id: &str| Event::Artifact(ArtifactEvent::Expired { ids: vec![id.into()], lost: false });
    // Before it follows, and while it does.
    chat.append(vec![expire("a1")]).await;
    let standby = Store::stand_by(options(a.path(), &url, "a")).unwrap();
    for (left, next) in [(["a2", "a3"].as_slice(), Some("a2")), (&["a3"], None)] {
        let n = chat.state.last_n;
        until(&standby, |status| status.n == n).await;
        let names = artifacts(a.path());
        let names: Vec<_> = names.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, left);
        if let Some(id) = next {
            chat.append(vec![expire(id)]).await;
        }
    }
    standby.close().await;
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_copy_is_not_changed_by_who_takes_it_for_a_journal_of_its_own() {
    let url = database();
    let (a, store) = leader(&url, "a");
    Chat::new(&store, "main").turn("m1", "the rhubarb is in the shed", "noted").await;
    let elsewhere = tempdir().unwrap();
    let backup = elsewhere.path().join("backup");
    store.backup(backup.clone(), at(0)).await.unwrap();
    store.close().await;
    let file = segments(a.path()).remove(0);
    let before = fs::read_to_string(&file).unwrap().replacen("rhubarb", "parsnip", 1);
    fs::write(&file, &before).unwrap();
    let alone = || StoreOptions::new(a.path());
    let erased = erase_dir(alone(), "local/ana", at(9), false).await.unwrap_err();
    let verified = verify_dir(alone(), true).await.unwrap_err();
    for error in [erased, verified] {
        assert!(matches!(&error, StoreError::Elsewhere { .. }), "{error}");
    }
    // A backup has the words of who was erased since.
    let restored = restore_dir(backup.clone(), a.path().to_owned(), true, at(9)).await.unwrap_err();
    assert!(restored.to_string().contains("a copy of one in a database"), "{restored}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let state = elsewhere.path().join("state");
    restore_dir(backup, state.clone(), false, at(9)).await.unwrap();
    crate::common::open(&state).close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_folder_whose_marker_is_damaged_is_moved_away_as_its_error_says() {
    let url = database();
    let (a, store) = leader(&url, "a");
    say(&store, "one").await.unwrap();
    store.close().await;
    let state = a.path().join("state");
    let elsewhere = tempdir().unwrap();
    for garbled in ["", "{\"journal\":"] {
        let store = Store::open(options(&state, &url, "a")).unwrap();
        store.close().await;
        fs::write(state.join("database"), garbled).unwrap();
        for options in [options(&state, &url, "a"), StoreOptions::new(&state)] {
            let Err(error) = Store::open(options) else { panic!("its marker is damaged") };
            let told = error.to_string();
            assert!(
                told.contains("/state/database: ") && told.contains("move the whole state folder away"),
                "{told}"
            );
        }
        fs::rename(&state, elsewhere.path().join(format!("away-{}", garbled.len()))).unwrap();
        let standby = Store::stand_by(options(&state, &url, "a")).unwrap();
        until(&standby, |status| status.n == 1).await;
        assert_eq!(super::common::in_copy(&state), ["1 one"]);
        standby.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_journal_is_not_moved_into_a_database_that_it_has_left() {
    let url = database();
    let dir = tempdir().unwrap();
    let store = crate::common::open(dir.path());
    say(&store, "one").await.unwrap();
    store.close().await;
    let to = || DatabaseOptions { url: url.as_str().into(), node: "a".to_owned(), address: String::new() };
    let alone = || StoreOptions::new(dir.path());
    assert_eq!(move_to(alone(), to(), &Progress::default()).await.unwrap().records, 1);
    move_from(options(dir.path(), &url, "a"), &Progress::default()).await.unwrap();
    let error = move_to(alone(), to(), &Progress::default()).await.unwrap_err();
    assert!(error.to_string().contains("was moved to a"), "{error}");
    crate::common::open(dir.path()).close().await;
    sql(&url, "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    assert_eq!(move_to(alone(), to(), &Progress::default()).await.unwrap().records, 1);
    assert_eq!(in_database(&url), ["1 one"]);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn what_only_reads_a_copy_does_not_lead_and_has_a_damaged_one_copied_again() {
    let url = database();
    let dir = tempdir().unwrap();
    let options = in_segments(dir.path(), &url).await;
    let all = super::common::in_copy(dir.path());
    let (_b, led) = leader(&url, "b");
    assert!(verify_dir(options.clone(), false).await.unwrap().ok);
    assert!(cairn_store::verify_dir_quick(options.clone()).await.unwrap().ok);
    assert!(rebuild_dir(options.clone()).await.unwrap().ok);
    assert_eq!(erase_dir(options.clone(), "local/nobody", at(9), true).await.unwrap(), None);
    let refused = verify_dir(options.clone(), true).await.unwrap_err();
    assert!(refused.to_string().contains("a copy of a database cannot be quarantined"), "{refused}");
    // No start reads it: it is closed, and the views show it.
    let first = segments(dir.path()).remove(0);
    let text = fs::read_to_string(&first).unwrap();
    fs::write(&first, text.replacen("number", "lumber", 1)).unwrap();
    assert!(!verify_dir(options.clone(), false).await.unwrap().ok);
    let standby = Store::stand_by(options).unwrap();
    until(&standby, |status| status.n == 12).await;
    assert_eq!(super::common::in_copy(dir.path()), all);
    standby.close().await;
    assert!(led.leads() && led.lease().unwrap().borrow().held);
    led.close().await;
    assert_eq!(sql(&url, "SELECT epoch FROM cairn_journal"), "2", "nobody else has led");
}
