//! The first minutes of what `.ci/soak` does for hours; `chats` has another.

use cairn_bench::{endure, kills, load, providers};

use crate::CAIRN;

/// The first turns of `.ci/soak window`.
#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_mixed_turns_never_overflow_the_window() {
    let dir = tempfile::tempdir().unwrap();
    let plan = load::Plan {
        cairn: CAIRN.into(),
        dir: dir.path().to_owned(),
        n_turns: 500,
        window: 32_000,
        max_output_tokens: 1_024,
        seed: 1,
        rule: load::CacheRule::Anthropic,
        compaction: String::new(),
    };
    // A request over the window, a parted call or a prefix that changed without cause is an error.
    let reports = load::run_all(&plan).await.unwrap();
    let rules: Vec<load::CacheRule> = reports.iter().map(|report| report.rule).collect();
    assert_eq!(rules, load::CacheRule::ALL);
    reports.iter().for_each(check);
}

fn check(report: &load::Report) {
    println!("{report}");
    assert_eq!(report.turns, 500);
    assert_eq!(report.emergencies, 0, "{report}");
    assert!(report.outcomes.get("threshold committed").is_some_and(|n| *n > 2), "{report}");
    assert!(report.outcomes.keys().all(|end| end.ends_with(" committed")), "{report}");
    let stack = report.stack;
    assert!(stack.rewrites <= 4, "{report}");
    assert!(report.cached_share > 0.9 && report.billed_per_turn < 4_900.0, "{report}");
    assert_eq!((stack.without_summary, stack.provisional), (0, 0), "{report}");
    assert!(report.replies.most_input + 1_024 <= 32_000, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_load_leaves_no_descriptors_open() {
    let dir = tempfile::tempdir().unwrap();
    let plan = endure::Plan {
        cairn: CAIRN.into(),
        dir: dir.path().to_owned(),
        asleep: 80,
        end: endure::End::Rounds(100),
    };
    let report = endure::run(&plan).await.unwrap();
    println!("{report}");
    assert_eq!((report.answered, report.reloads, report.backups), (800, 10, 2), "{report}");
    assert!(report.runs.0 > 0 && report.runs.0 == report.runs.1, "{report}");
    // Connections and files come and go; what is never closed would be one more with every round or reload.
    let fds = |range: std::ops::Range<usize>| {
        report.samples[range].iter().map(|sample| sample.fds).min().unwrap_or_default()
    };
    assert!(fds(80..100) <= fds(20..40) + 8, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_is_doubled_by_kills() {
    let dir = tempfile::tempdir().unwrap();
    let plan = kills::Plan {
        cairn: CAIRN.into(),
        dir: dir.path().to_owned(),
        n_kills: 5,
        n_messages: 120,
        seed: 20_261_120,
    };
    let findings = kills::run(&plan).await.unwrap();
    assert_eq!(findings.kills, 5);
    assert!(findings.acknowledged > 0 && findings.memories > 0 && findings.summaries > 0, "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_that_want_back_what_they_gave_answer_every_turn_over_restarts_and_an_outage() {
    let talks = providers::STAND_INS.map(|stand_in| async move {
        let dir = tempfile::tempdir().unwrap();
        let plan = providers::Plan { cairn: CAIRN.into(), dir: dir.path().to_owned(), stand_in, n_turns: 40 };
        (stand_in.name, providers::run(&plan).await.unwrap())
    });
    for (name, findings) in futures::future::join_all(talks).await {
        assert_eq!((findings.answered, findings.starts), (40, 2), "{name}: {findings:?}");
        assert!(findings.by_spare > 0 && findings.memories > 0, "{name}: {findings:?}");
        assert!(findings.by_model > 0 && findings.by_digest == 0, "{name}: {findings:?}");
        // What only a refusal tells costs one for each start.
        assert!(findings.refused <= 2 * findings.starts, "{name}: {findings:?}");
    }
}
