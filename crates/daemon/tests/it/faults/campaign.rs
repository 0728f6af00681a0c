//! The first seeds of what `.ci/soak faults` does for hours.

use cairn_bench::faults::{Campaign, Outcome};

use crate::CAIRN;

async fn none_does_harm(kind: &str, places: &[&str], seeds: std::ops::Range<u64>) -> Vec<Outcome> {
    let dir = tempfile::tempdir().unwrap();
    let campaign = Campaign::prepare(CAIRN.as_ref(), dir.path()).await.unwrap();
    let mut outcomes = Vec::new();
    for place in places {
        for seed in seeds.clone() {
            let outcome = campaign.run(kind, place, seed).await;
            let outcome = outcome.unwrap_or_else(|error| panic!("{kind} {place} {seed}: {error}"));
            println!("{kind} {place} {seed}: {outcome:?}");
            outcomes.push(outcome);
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_named_points_lose_nothing_and_answer_nothing_twice() {
    let points = ["accept", "ack", "send", "receipt", "commit", "start", "rewrite", "backup", "migration"];
    let outcomes = none_does_harm("crash", &points, 1..2).await;
    let met = outcomes.iter().filter(|outcome| **outcome == Outcome::Harmless).count();
    assert!(met > 0, "no point was met");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_made_good_unseen_or_told_with_a_remedy_that_helps() {
    let places = Campaign::places("damage").unwrap();
    let outcomes = none_does_harm("damage", places, 1..3).await;
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Outcome::Mended(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_disk_that_fails_says_so_and_does_its_work_when_it_is_run_again() {
    let mut outcomes = none_does_harm("error", &["rewrite", "backup", "rebuild"], 4..5).await;
    outcomes.extend(none_does_harm("error", &["restore"], 5..6).await);
    outcomes.extend(none_does_harm("error", &["pack"], 17..18).await);
    // A command that comes to the place after the fault has passed is not harmed.
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Outcome::Mended(_))), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_stops_nothing() {
    none_does_harm("clock", &["running", "between"], 2..3).await;
}
