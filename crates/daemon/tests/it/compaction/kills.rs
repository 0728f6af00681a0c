//! `kill -9` at random moments of a replay with compactions; hundreds of them are `.ci/soak kills`.

use cairn_bench::kills::{Plan, run};

use crate::compaction::rig::{Folder, cairn};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_is_doubled_by_kills() {
    let folder = Folder::new("kills");
    let plan = Plan {
        cairn: cairn().to_owned(),
        dir: folder.path().to_owned(),
        n_kills: 5,
        n_messages: 120,
        seed: 20_261_120,
    };
    let findings = run(&plan).await.unwrap();
    assert_eq!(findings.kills, 5);
    assert!(findings.acknowledged > 0 && findings.memories > 0 && findings.summaries > 0, "{findings:?}");
}
