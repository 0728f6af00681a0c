//! Mixed load: the short form of `.ci/soak endure`.

use std::path::PathBuf;

use cairn_bench::endure::{End, Plan, run};

use crate::service::rig::CAIRN;

#[tokio::test(flavor = "multi_thread")]
async fn mixed_load_leaves_no_descriptors_open() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { cairn: PathBuf::from(CAIRN), dir: dir.path().to_owned(), end: End::Rounds(100) };
    let report = run(&plan).await.unwrap();
    println!("{report}");
    assert_eq!((report.answered, report.reloads, report.backups), (800, 10, 2), "{report}");
    assert!(report.runs.0 > 0 && report.runs.0 == report.runs.1, "{report}");
    // Connections and files come and go; what is never closed would be one more with every round or reload.
    let fds = |range: std::ops::Range<usize>| {
        report.samples[range].iter().map(|sample| sample.fds).min().unwrap_or_default()
    };
    assert!(fds(80..100) <= fds(20..40) + 8, "{report}");
}
