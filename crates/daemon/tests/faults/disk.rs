//! A disk that fails or does not answer for a while, under one part of the state: the journal is the truth, all else costs
//! lists and searches, never an answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cairn_testkit::daemon::Daemon;
use cairn_testkit::disk::{Disk, Fault};
use cairn_testkit::faults::{Findings, HUNG, Plan, run};
use cairn_testkit::systemd::Systemd;

use crate::home::{self, CAIRN};

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
async fn a_stop_ends_within_its_time_while_the_journal_does_not_answer_and_health_says_why() {
    let home = home::new();
    let disk = Disk::new(&home.path("")).unwrap();
    let config = home.config("[limits]\nshutdown_secs = 1\n");
    let vars = disk.vars();
    let vars: Vec<_> = vars.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let vars = [&vars[..], &[("WATCHDOG_USEC", "6000000")]].concat();
    let systemd = Systemd::of(&home.state()).unwrap();
    let state = home.state();
    let daemon = Daemon::start_under(&systemd, &vars, Path::new(CAIRN), &state, Some(&config)).await.unwrap();
    let client = daemon.client();
    assert_eq!(client.say("main", "hello").await.unwrap().0, 200);
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
        while !std::fs::read_to_string(home.state().join("daemon.log"))
            .unwrap()
            .contains("watchdog is not fed")
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), log).await.unwrap();
    let status = tokio::time::timeout(Duration::from_secs(60), daemon.stop()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(HUNG));
    open.abort();
}
