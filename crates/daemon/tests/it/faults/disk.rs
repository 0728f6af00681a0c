//! A disk that fails or does not answer for a while, under one part of the state: the journal is the truth, all else costs
//! lists and searches, never an answer.

use std::path::PathBuf;
use std::time::Duration;

use cairn_bench::faults::disk::{Findings, HUNG, Plan, run};
use cairn_testkit::daemon::Daemon;
use cairn_testkit::disk::{Disk, Fault};
use cairn_testkit::home::Home;

use crate::{CAIRN, home};

async fn met(part: &'static str, fault: Fault, secs: u64) -> Findings {
    let plan = Plan { cairn: PathBuf::from(CAIRN), part, fault, lasts: Duration::from_secs(secs) };
    let findings = run(&plan).await.unwrap_or_else(|error| panic!("{plan:?}: {error}"));
    println!("{part} {fault:?}: {findings:?}");
    findings
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_go_on_while_the_disk_of_the_views_fails_and_after() {
    for fault in [Fault::Full, Fault::Broken] {
        assert!(met("views", fault, 8).await.during > 0, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_go_on_while_the_disk_of_the_views_does_not_answer_and_after() {
    assert!(met("views", Fault::Hangs, 15).await.during > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_go_on_whatever_the_disk_of_the_index_does() {
    for fault in Fault::ALL {
        assert!(met("index", fault, 5).await.during > 0, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_cannot_be_written_for_a_while_loses_nothing() {
    for fault in Fault::ALL {
        assert_eq!(
            met("journal", fault, 2).await.during,
            0,
            "{fault:?}: what is not written is not acknowledged"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_never_comes_back_ends_the_process_and_the_next_one_has_all() {
    let findings = met("index", Fault::Hangs, 50).await;
    assert!(findings.during > 0 && findings.restarts == 1, "{findings:?}");
}

/// A daemon on a disk, with a watchdog, that has answered.
async fn answering(home: &Home, shutdown_secs: u32) -> (Disk, Daemon) {
    let disk = Disk::new(&home.path("")).unwrap();
    let config = home.config(&format!("[limits]\nshutdown_secs = {shutdown_secs}\n"));
    let vars = disk.vars();
    let vars: Vec<_> = vars.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let vars = [&vars[..], &[("WATCHDOG_USEC", "6000000")]].concat();
    let daemon = Daemon::start_with(&vars, CAIRN.as_ref(), &home.state(), Some(&config)).await.unwrap();
    assert_eq!(daemon.client().say("main", "hello").await.unwrap().0, 200);
    (disk, daemon)
}

/// The code with which it ends when it is asked to stop.
async fn stopped(daemon: Daemon) -> Option<i32> {
    tokio::time::timeout(Duration::from_secs(45), daemon.stop()).await.unwrap().unwrap().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_leaves_views_and_index_behind_that_do_not_answer() {
    for part in ["/views/", "/index/"] {
        let home = home();
        // It waits for no turn; only the last limit comes later.
        let (disk, daemon) = answering(&home, 25).await;
        disk.fail(part, Fault::Hangs).unwrap();
        assert_eq!(daemon.client().say("main", "and now?").await.unwrap().0, 200);
        assert_eq!(stopped(daemon).await, Some(0), "{part}: the journal is closed");
        disk.mend().unwrap();
        home.cairn(&["store", "verify"]).ended(0);
        assert!(home.cairn(&["history", "main"]).ended(0).stdout.contains("and now?"), "{part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_within_its_time_while_the_journal_does_not_answer_and_health_says_why() {
    let home = home();
    let (disk, daemon) = answering(&home, 1).await;
    let client = daemon.client();
    disk.fail("/journal/", Fault::Hangs).unwrap();
    let asking = client.clone();
    let open = tokio::spawn(async move { asking.say("main", "are you there?").await });
    let unwell = async {
        loop {
            let (status, told) = client.ask("GET", "/v1/health", &serde_json::Value::Null).await.unwrap();
            if status == 503 {
                return told.to_string();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), unwell).await.unwrap();
    assert!(told.contains("journal") && told.contains("has not answered"), "{told}");
    assert!(!open.is_finished(), "what is not written is not acknowledged");
    let log = async {
        while !home.log().contains("watchdog is not notified") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), log).await.unwrap();
    assert_eq!(stopped(daemon).await, Some(HUNG));
    open.abort();
}
