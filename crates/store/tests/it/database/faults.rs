//! What goes wrong between a node and its database: nothing acknowledged is lost, nothing is there twice, and whoever must
//! not write does not.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use cairn_core::store_port::Store as _;
use cairn_store::{Store, StoreOptions};
use cairn_testkit::postgres::{Postgres, database, sql};
use cairn_testkit::proxy::{Cut, Proxy};
use cairn_testkit::watched::GIVE_UP_AFTER;
use cairn_types::ports::StoreError;
use tempfile::tempdir;
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::common::{
    found, in_copy, in_database, in_segments, leader, options, query, remove_derived, run_out, say, say_in,
    segments, until,
};

thread_local! {
    /// What is logged on this thread.
    static LOGGED: RefCell<String> = RefCell::default();
}

/// Listens on all threads: one that listened on its own alone would miss what others have met first.
struct Log;

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Log);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        LOGGED.with_borrow_mut(|text| *text += &format!("{field}={value:?} "));
    }
}

/// Opens it, and returns what that logs, too.
fn open_logged(options: StoreOptions) -> (Store, String) {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
    LOGGED.take();
    let store = Store::open(options).unwrap();
    (store, LOGGED.take())
}

/// Copies that were kept aside.
fn kept(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("before-copy-")).collect()
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn an_append_whose_connection_breaks_is_answered_once_and_is_in_the_journal_once() {
    for what in [Cut::Answer, Cut::Request] {
        let url = database();
        let (proxy, by_way) = Proxy::to(&url);
        let (dir, store) = leader(&by_way, "a");
        say(&store, "one").await.unwrap();
        proxy.cut(what, "two of them");
        assert_eq!(say(&store, "two of them").await, Ok(2));
        assert_eq!(proxy.cuts(), 1);
        assert_eq!(store.stats().await.unwrap().trouble, None);
        assert_eq!(say(&store, "three").await, Ok(3));
        let all = ["1 one", "2 two of them", "3 three"];
        assert_eq!(
            (in_database(&url), in_copy(dir.path())),
            (all.map(str::to_owned).into(), all.map(str::to_owned).into())
        );
        store.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn nothing_acknowledged_is_lost_when_the_server_crashes_and_it_goes_on_when_it_is_back() {
    let server = Postgres::start(true);
    let url = server.database();
    let (dir, mut store) = leader(&url, "a");
    let mut said = Vec::new();
    let note = |said: &mut Vec<String>, words: &str, n: u64| said.push(format!("{n} {words}"));
    for words in ["one", "two"] {
        note(&mut said, words, say(&store, words).await.unwrap());
    }
    server.crash();
    let other = store.clone();
    let during = tokio::spawn(async move { say(&other, "during").await });
    tokio::task::yield_now().await;
    server.start_again();
    if let Ok(n) = during.await.unwrap() {
        note(&mut said, "during", n);
    }
    let goes_on = async {
        loop {
            match say(&store, "after").await {
                Ok(n) => break n,
                // The machine was so slow that the lease was over: the node starts again.
                Err(StoreError::Fenced) => {
                    store.clone().close().await;
                    store = Store::open(options(dir.path(), &url, "a")).unwrap();
                }
                Err(error) => assert!(matches!(error, StoreError::Database { .. }), "{error}"),
            }
        }
    };
    note(&mut said, "after", timeout(GIVE_UP_AFTER, goes_on).await.unwrap());
    assert_eq!(store.stats().await.unwrap().trouble, None);
    assert_eq!((in_database(&url), in_copy(dir.path())), (said.clone(), said));
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_leader_whose_lease_another_has_taken_writes_nothing_any_more() {
    let url = database();
    let (proxy, by_way) = Proxy::to(&url);
    let (dir, store) = leader(&by_way, "a");
    say(&store, "one").await.unwrap();
    proxy.hold();
    let other = store.clone();
    let late = tokio::spawn(async move { say(&other, "late").await });
    run_out(&url);
    let (b, led) = leader(&url, "b");
    assert_eq!(say(&led, "two").await, Ok(2));
    proxy.release();
    assert_eq!(late.await.unwrap(), Err(StoreError::Fenced));
    let mut lease = store.lease().unwrap();
    timeout(GIVE_UP_AFTER, lease.wait_for(|state| !state.held)).await.unwrap().unwrap();
    assert_eq!(say(&store, "later").await, Err(StoreError::Fenced));
    assert_eq!(in_copy(dir.path()), ["1 one"]);
    store.close().await;
    // It has left nothing of the other's lease.
    assert_eq!(say(&led, "three").await, Ok(3));
    let all = ["1 one", "2 two", "3 three"];
    assert_eq!(in_database(&url), all);
    assert_eq!(in_copy(b.path()), all);
    let standby = Store::stand_by(options(dir.path(), &by_way, "a")).unwrap();
    until(&standby, |status| status.n == 3).await;
    assert_eq!(in_copy(dir.path()), all);
    assert_eq!(kept(dir.path()).len(), 0);
    standby.close().await;
    led.close().await;
}

/// The database is as it was after that record, as after a failover to a server that had no more.
fn lose(url: &str, after: u64) {
    let next = after + 1;
    let events = format!("DELETE FROM cairn_event WHERE n > {after}");
    sql(url, &format!("{events}; UPDATE cairn_journal SET next = {next}, batch = NULL, batch_first = NULL"));
    break_connections(url);
}

fn break_connections(url: &str) {
    sql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
              AND pid <> pg_backend_pid()",
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn records_that_the_database_has_lost_are_told_and_kept_and_the_leader_goes_on_without_them() {
    for is_open in [false, true] {
        let url = database();
        let (dir, store) = leader(&url, "a");
        for (to, words) in [("x", "one"), ("x", "two"), ("y", "three"), ("y", "four"), ("z", "five")] {
            say_in(&store, to, words).await.unwrap();
        }
        if is_open {
            lose(&url, 3);
            assert_eq!(say(&store, "six").await, Err(StoreError::Fenced));
            assert!(!store.lease().unwrap().borrow().held);
            store.close().await;
        } else {
            store.close().await;
            lose(&url, 3);
        }
        let (store, log) = open_logged(options(dir.path(), &url, "a"));
        for words in ["from_n=4", "to_n=5", "main/local/y, main/local/z", "kept="] {
            assert!(log.contains(words), "`{words}` in: {log}");
        }
        let kept = kept(dir.path());
        let text: String = fs::read_dir(&kept[0])
            .unwrap()
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        assert!(kept.len() == 1 && text.contains("four") && text.contains("five"), "{kept:?} {text}");
        assert_eq!(say(&store, "six").await, Ok(4));
        let all = ["1 one", "2 two", "3 three", "4 six"];
        assert_eq!(in_database(&url), all);
        assert_eq!(in_copy(dir.path()), all);
        store.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_loss_over_several_segments_is_found_though_a_crash_has_left_nothing_in_the_last_one() {
    for is_cut in [false, true] {
        let url = database();
        let dir = tempdir().unwrap();
        let options = StoreOptions { segment_bytes: 300, ..options(dir.path(), &url, "a") };
        let store = Store::open(options.clone()).unwrap();
        for n in 1..=12 {
            say_in(&store, &format!("channel-{n}"), &format!("number {n}")).await.unwrap();
        }
        store.close().await;
        if is_cut {
            fs::write(dir.path().join(format!("journal/{:020}.jsonl", 13)), "").unwrap();
        }
        lose(&url, 3);
        let (store, log) = open_logged(options);
        let channels = "channel-10, main/local/channel-11, main/local/channel-12, main/local/channel-4";
        for words in ["from_n=4", "to_n=12", channels, "4 more"] {
            assert!(log.contains(words), "`{words}` in: {log}");
        }
        let damage = store.stats().await.unwrap().damage.join("\n");
        assert!(damage.contains("lacks records 4 to 12") && damage.contains("before-copy-1"), "{damage}");
        assert_eq!(say(&store, "on").await, Ok(4));
        assert_eq!((kept(dir.path()).len(), in_copy(dir.path())), (1, in_database(&url)));
        store.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn of_copies_that_were_kept_aside_the_newest_stay() {
    let url = database();
    let (dir, mut store) = leader(&url, "a");
    for n in 1..=5 {
        for _ in 0..3 {
            say(&store, &format!("time {n}")).await.unwrap();
        }
        store.close().await;
        lose(&url, 0);
        store = Store::open(options(dir.path(), &url, "a")).unwrap();
    }
    store.close().await;
    let mut kept = kept(dir.path());
    kept.sort();
    let names: Vec<_> = kept.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["before-copy-3", "before-copy-4", "before-copy-5"]);
    let newest = kept[2].join(format!("{:020}.jsonl", 1));
    assert!(fs::read_to_string(newest).unwrap().contains("time 5"));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_follower_keeps_aside_what_the_database_has_lost_though_others_have_written_since() {
    let url = database();
    let (_a, store) = leader(&url, "a");
    for words in ["one", "two", "three", "four", "five"] {
        say(&store, words).await.unwrap();
    }
    let b = tempdir().unwrap();
    let standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    until(&standby, |status| status.n == 5).await;
    store.close().await;
    lose(&url, 3);
    let (_c, store) = leader(&url, "c");
    for n in 4..=7 {
        assert_eq!(say(&store, "other").await, Ok(n));
    }
    break_connections(&url);
    let all = ["1 one", "2 two", "3 three", "4 other", "5 other", "6 other", "7 other"];
    until(&standby, |status| status.n == 7 && in_copy(b.path()) == all).await;
    assert_eq!(kept(b.path()).len(), 1);
    standby.close().await;
    store.close().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_copy_that_a_crash_has_torn_is_whole_again_after_a_start() {
    let url = database();
    let (dir, store) = leader(&url, "a");
    for words in ["one", "two", "three"] {
        say(&store, words).await.unwrap();
    }
    store.close().await;
    let all = in_copy(dir.path());
    let file = segments(dir.path()).remove(0);
    let text = fs::read_to_string(&file).unwrap();
    let third = text.trim_end().rfind('\n').unwrap() + 1;
    let torn = [
        text[..third + 30].to_owned(),
        text[..third].to_owned(),
        format!("{text}{{\"crc\":\"0123"),
        String::new(),
    ];
    for torn in torn {
        fs::write(&file, torn).unwrap();
        let store = Store::open(options(dir.path(), &url, "a")).unwrap();
        assert_eq!(in_copy(dir.path()), all);
        assert!(store.verify().await.unwrap().ok);
        store.close().await;
    }
    assert_eq!(kept(dir.path()).len(), 0);
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn a_copy_that_is_damaged_anywhere_is_rebuilt() {
    // Which segment, and whether the views show it: what they show of closed segments no start reads.
    for (segment, is_shown) in [(0, true), (0, false), (1, true), (3, true), (3, false)] {
        let url = database();
        let dir = tempdir().unwrap();
        let options = in_segments(dir.path(), &url).await;
        let all = in_copy(dir.path());
        let files = segments(dir.path());
        assert_eq!(files.len(), 4, "{files:?}");
        let text = fs::read_to_string(&files[segment]).unwrap();
        fs::write(&files[segment], text.replacen("number", "lumber", 1)).unwrap();
        if !is_shown {
            remove_derived(dir.path());
        }
        let mut store = Store::open(options.clone()).unwrap();
        let is_left = segment < 3 && is_shown;
        assert_eq!(kept(dir.path()).len(), usize::from(!is_left), "{segment}");
        if is_left {
            let told = store.check(super::common::at(0)).await.unwrap();
            assert!(told.iter().any(|told| told.contains("copies it again")), "{told:?}");
            store.close().await;
            store = Store::open(options).unwrap();
        }
        assert_eq!(in_copy(dir.path()), all, "{segment}");
        assert!(
            store.verify().await.unwrap().ok && store.check(super::common::at(0)).await.unwrap().is_empty()
        );
        store.close().await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn rewritten_events_are_copied_again_by_every_node() {
    let url = database();
    let (dir, store) = leader(&url, "a");
    let mut chat = super::common::Chat::new(&store, "main");
    chat.turn("m1", "the rhubarb is in the shed", "noted").await;
    assert!(!found(&store, "rhubarb").await.is_empty());
    let b = tempdir().unwrap();
    let mut standby = Store::stand_by(options(b.path(), &url, "b")).unwrap();
    let n = chat.state.last_n;
    until(&standby, |status| status.n == n).await;
    store.close().await;
    sql(
        &url,
        "UPDATE cairn_event SET body = replace(body, 'rhubarb', 'parsnip'); \
               UPDATE cairn_journal SET generation = generation + 1",
    );
    let store = timeout(GIVE_UP_AFTER, standby.lead()).await.unwrap().unwrap();
    check_rewritten(b.path(), store).await;
    check_rewritten(dir.path(), Store::open(options(dir.path(), &url, "a")).unwrap()).await;
}

async fn check_rewritten(dir: &Path, store: Store) {
    assert!(store.search(query("rhubarb")).await.unwrap().is_empty());
    assert!(!found(&store, "parsnip").await.is_empty());
    let text: String = segments(dir).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(!text.contains("rhubarb") && text.contains("parsnip"));
    assert_eq!(kept(dir).len(), 0);
    store.close().await;
}
