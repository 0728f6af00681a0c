//! Both chat networks at once, under trouble and a kill; the whole of it is `.ci/soak chats`, and `.ci/soak cluster` with
//! several daemons.

use std::time::Duration;

use cairn_bench::chats::{Plan, cluster, run};

#[tokio::test(flavor = "multi_thread")]
async fn every_message_ends_as_promised_through_trouble_and_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan {
        cairn: crate::CAIRN.into(),
        dir: dir.path().to_owned(),
        n_places: 2,
        n_messages: 72,
        window: 4_500,
        n_kills: 1,
        seed: 20_261_120,
    };
    let findings = run(&plan).await.unwrap();
    assert_eq!(findings.kills, 1);
    assert!(findings.troubles >= 5 && findings.compactions > 0, "{findings:?}");
}

/// The beginning of `.ci/soak cluster`: a leader is stopped. Which other troubles follow depends on the machine's speed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL: `.ci/postgres` installs it, `.ci/run` runs these"]
async fn every_message_ends_as_promised_while_nodes_of_one_database_die() {
    let dir = tempfile::tempdir().unwrap();
    let plan = cluster::Plan {
        cairn: crate::CAIRN.into(),
        dir: dir.path().to_owned(),
        n_places: 4,
        n_messages: 120,
        every: Duration::from_secs(1),
        seed: 18,
    };
    let findings = cluster::run(&plan).await.unwrap();
    assert!(findings.troubles.contains_key("leader stopped") && findings.records > 0, "{findings}");
}
