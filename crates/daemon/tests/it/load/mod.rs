//! A long conversation of mixed texts at a window of 32,000 tokens, through the real binary: the first 500 turns of what
//! `.ci/soak window` does with 10,000.

use std::path::{Path, PathBuf};

use cairn_bench::load::{Plan, run};

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_mixed_turns_never_overflow_the_window() {
    let dir = std::env::temp_dir().join(format!("cairn-load-test-{}", std::process::id()));
    let plan = Plan {
        cairn: PathBuf::from(env!("CARGO_BIN_EXE_cairn")),
        dir: cairn_bench::kills::fresh(Path::new(&dir)).unwrap(),
        n_turns: 500,
        window: 32_000,
        max_output_tokens: 1_024,
        seed: 1,
        compaction: String::new(),
    };
    // A request over the window, a parted call or a prefix that changed without cause is an error.
    let report = run(&plan).await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    println!("{report}");
    assert_eq!(report.turns, 500);
    assert_eq!(report.emergencies, 0, "{report}");
    assert!(report.outcomes.get("threshold committed").is_some_and(|n| *n > 2), "{report}");
    assert!(report.outcomes.keys().all(|end| end.ends_with(" committed")), "{report}");
    let stack = report.stack;
    assert!(stack.rewrites <= 4 && report.cached_share > 0.8, "{report}");
    assert_eq!((stack.without_summary, stack.provisional), (0, 0), "{report}");
    assert!(report.replies.most_input + 1_024 <= 32_000, "{report}");
}
