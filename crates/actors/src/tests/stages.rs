//! Long runs go in stages, and models stand in for each other, until none is left but the digest.

use std::collections::BTreeMap;
use std::time::Duration;

use cairn_types::event::{Checkpoint, CompactionEvent, Event, NewRecord, RegistryEvent, RunOutcome};
use cairn_types::model::{ChatRequest, ModelError, Purpose};
use jiff::Timestamp;
use serde_json::json;

use super::common::model::{FakeModel, Kind, Plan, words};
use super::common::*;

/// A compaction model that takes the run of these tests in chunks.
fn in_chunks() -> World {
    let mut world = World::new();
    world.compactor = Some((FakeModel::named("small"), 1_000, 150));
    world
}

fn small(world: &World) -> &FakeModel {
    &world.compactor.as_ref().unwrap().0
}

fn checkpoints(world: &World) -> Vec<Checkpoint> {
    let found = world.store.events().into_iter().filter_map(|event| match event {
        Event::Compaction(CompactionEvent::RunCheckpointed { checkpoint, .. }) => Some(checkpoint),
        _ => None,
    });
    found.collect()
}

fn is_attempt_failed(event: &Event) -> bool {
    matches!(event, Event::Compaction(CompactionEvent::RunAttemptFailed { .. }))
}

fn is_checkpoint(event: &Event) -> bool {
    matches!(event, Event::Compaction(CompactionEvent::RunCheckpointed { .. }))
}

/// First and last entry of each chunk that was asked for, in order; rounds of one chunk count once.
fn chunks(requests: &[ChatRequest]) -> Vec<(u64, u64)> {
    let mut chunks: Vec<(u64, u64)> = requests
        .iter()
        .filter_map(|request| match &request.purpose {
            Purpose::Summarise { entries, .. } => Some((entries.first()?.seq.0, entries.last()?.seq.0)),
            Purpose::Reply { .. } | Purpose::Merge { .. } => None,
        })
        .collect();
    chunks.dedup();
    chunks
}

fn transport() -> ModelError {
    ModelError::Transport("down".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_long_run_goes_in_chunks_that_cover_every_message_once() {
    let world = in_chunks();
    let live = world.start().await;
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let end = &ends(&world)[0];
    assert_eq!(end.outcome, RunOutcome::Committed, "{end:?}");
    let summary = end.summary.as_ref().unwrap();
    assert_eq!(summary.made_by, "small");
    let requests = small(&world).requests(Kind::Run);
    let chunks = chunks(&requests);
    assert!(chunks.len() > 1, "{chunks:?}");
    assert_eq!(chunks.first().unwrap().0, summary.from_seq.0);
    assert_eq!(chunks.last().unwrap().1, summary.to_seq.0);
    assert!(chunks.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{chunks:?}");
    assert_eq!(checkpoints(&world).len(), chunks.len() - 1);
    assert!(words(&requests[2]).contains("<summaries-so-far>"), "the summary so far is handed on");
    let sightings: std::collections::BTreeSet<_> = end.memories.iter().map(|m| m.sighting.clone()).collect();
    assert_eq!((end.memories.len(), sightings.len()), (chunks.len(), chunks.len()), "each chunk saved one");
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_retry_goes_on_from_the_last_finished_chunk() {
    let world = in_chunks();
    let live = world.start().await;
    let save = json!({ "kind": "fact", "text": "Ann likes the lake." });
    small(&world).plan(Kind::Run, Plan::Calls(vec![("memory_save", save)]));
    small(&world).plan(Kind::Run, Plan::Text("## Goal\n- walk by the lake".to_owned()));
    small(&world).plan(Kind::Run, Plan::Broken("", transport()));
    world.model.plan(Kind::Run, Plan::Broken("", transport()));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    assert_eq!(world.store.count(is_attempt_failed), 1);
    let first = &checkpoints(&world)[0];
    let requests = small(&world).requests(Kind::Run);
    for request in &requests[2..] {
        assert!(
            chunks(std::slice::from_ref(request))[0].0 > first.to_seq.0,
            "a finished chunk was asked again"
        );
    }
    let end = &ends(&world)[0];
    assert_eq!(end.outcome, RunOutcome::Committed);
    assert!(end.memories.iter().any(|memory| memory.text == "Ann likes the lake."));
    assert!(end.summary.as_ref().unwrap().text.contains("## Goal\n- walk by the lake"), "a section was lost");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_killed_between_chunks_goes_on_where_it_was() {
    let world = in_chunks();
    let live = world.start().await;
    let gate = small(&world).hold(Kind::Run);
    live.fill_until_run(&world).await;
    gate.add_permits(2);
    world.store.until(1, is_checkpoint).await;
    small(&world).until(3, Kind::Run).await;
    let first = checkpoints(&world)[0].clone();
    let after = world.killed();
    drop(live);
    let _live = after.start().await;
    after.store.until(1, is_run_ended).await;
    let requests = small(&after).requests(Kind::Run);
    assert!(words(&requests[0]).contains("<summaries-so-far>"));
    assert_eq!(chunks(&requests)[0].0, first.to_seq.0 + 1);
    let end = &ends(&after)[0];
    assert_eq!(end.outcome, RunOutcome::Committed);
    assert_eq!(end.memories.len() as u32, chunks(&requests).len() as u32 + first.chunks);
    check_coverage(&after.conversation());
}

#[tokio::test(start_paused = true)]
async fn the_next_model_takes_over_within_the_attempt() {
    for error in [transport(), ModelError::Auth("no".to_owned()), ModelError::Timeout(Duration::from_secs(1))]
    {
        let world = in_chunks();
        let live = world.start().await;
        small(&world).plan(Kind::Run, Plan::Broken("", error.clone()));
        live.fill_until_run(&world).await;
        world.store.until(1, is_run_ended).await;
        assert_eq!(world.store.count(is_attempt_failed), 0, "{error}");
        assert_eq!(ends(&world)[0].summary.as_ref().unwrap().made_by, "fake", "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_further_try_changes_is_not_tried_again() {
    let (world, live) = started().await;
    live.ask("name", "my name is Ann and I prefer tea").await;
    world.model.plan(Kind::Run, Plan::Broken("", ModelError::Auth("no".to_owned())));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let end = &ends(&world)[0];
    assert_eq!((end.outcome, world.model.requests(Kind::Run).len()), (RunOutcome::Committed, 1));
    assert_eq!(end.summary.as_ref().unwrap().made_by, "digest");
    assert!(end.reason.as_ref().unwrap().contains("refused the key"), "{:?}", end.reason);
    assert_eq!(world.store.count(is_attempt_failed), 0);
}

#[tokio::test(start_paused = true)]
async fn after_all_attempts_the_digest_says_why() {
    let (world, live) = started().await;
    for _ in 0..3 {
        world.model.plan(Kind::Run, Plan::Broken("", transport()));
    }
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let reason = ends(&world)[0].reason.clone().unwrap();
    assert!(reason.contains("3 attempts") && reason.contains("cannot reach"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_run_takes_no_longer_than_its_limit_over_all_attempts() {
    let mut world = World::new();
    world.settings.compaction.max_attempts = 10;
    let live = world.start().await;
    for _ in 0..10 {
        world.model.plan(Kind::Run, Plan::Hangs);
    }
    live.fill_until_run(&world).await;
    let begun = tokio::time::Instant::now();
    world.store.until(1, is_run_ended).await;
    assert!(begun.elapsed() <= Duration::from_secs(301), "{:?}", begun.elapsed());
    assert_eq!(world.model.requests(Kind::Run).len(), 3, "120 s a call");
    let end = &ends(&world)[0];
    assert!(end.reason.as_ref().unwrap().contains("within 300 s"), "{:?}", end.reason);
    assert_eq!(end.summary.as_ref().unwrap().made_by, "digest");
    settle().await;
    let is_spent = |event: &Event| matches!(event, Event::Compaction(CompactionEvent::UsageSpent { .. }));
    assert_eq!(world.store.count(is_spent), 3, "calls without an end are counted, too");
}

#[tokio::test(start_paused = true)]
async fn a_run_stops_at_the_cap_of_the_hour_and_keeps_its_finished_chunks() {
    let mut world = in_chunks();
    world.settings.compaction.tokens_per_hour = 1_000;
    let live = world.start().await;
    small(&world).plan(Kind::Run, Plan::Text("## Goal\n- walk by the lake".to_owned()));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let end = &ends(&world)[0];
    assert!(end.reason.as_ref().unwrap().contains("tokens_per_hour"), "{:?}", end.reason);
    let summary = end.summary.as_ref().unwrap();
    assert_eq!(summary.made_by, "digest");
    assert!(summary.text.contains("walk by the lake"), "{}", summary.text);
    assert!(summary.text.contains("## Critical context"), "the digest of the rest: {}", summary.text);
    assert!(world.model.requests(Kind::Run).is_empty(), "the cap holds for all models");
}

#[tokio::test(start_paused = true)]
async fn invented_identifiers_are_asked_about_once_and_then_left_out() {
    let (world, live) = started().await;
    let text = "## Goal\n- Ann walks by the lake in the evening sun, for a long while, whenever the weather is fine\n- see /srv/made/up.rs";
    world.model.plan(Kind::Run, Plan::Text(text.to_owned()));
    world.model.plan(Kind::Run, Plan::Text(text.to_owned()));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let requests = world.model.requests(Kind::Run);
    assert_eq!(requests.len(), 2);
    let corrected = words(&requests[1]);
    assert!(corrected.contains("what the source does not have: /srv/made/up.rs"), "{corrected}");
    let end = &ends(&world)[0];
    let text = &end.summary.as_ref().unwrap().text;
    assert!(text.contains("evening sun") && !text.contains("/srv"), "{text}");
    assert_eq!(world.store.count(is_attempt_failed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_model_without_tools_lists_its_memories_behind_the_summary() {
    let mut world = World::new();
    world.model = FakeModel::with_tools("fake", false);
    let live = world.start().await;
    let list = json!([{ "kind": "fact", "text": "Ann likes the lake.", "importance": 0.4 }]);
    world.model.plan(Kind::Run, Plan::Text(format!("## Goal\n- walk by the lake\n\n```json\n{list}\n```")));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let request = &world.model.requests(Kind::Run)[0];
    assert!(request.tools.is_empty() && words(request).contains("fenced block"));
    let end = &ends(&world)[0];
    assert_eq!(end.summary.as_ref().unwrap().text, "## Goal\n- walk by the lake");
    assert_eq!(end.memories[0].text, "Ann likes the lake.");
}

#[tokio::test(start_paused = true)]
async fn a_run_learns_nothing_from_a_private_chat_and_its_model_is_told() {
    let mut world = World::new();
    world.model = FakeModel::with_tools("fake", false);
    let private = RegistryEvent::PrivacySet { user: "local/ann".into(), chat: Some("main".into()), on: true };
    let at = Timestamp::UNIX_EPOCH;
    world.store.push(vec![NewRecord { channel: None, at, event: Event::Registry(private) }]);
    let live = world.start().await;
    let list = json!([{ "kind": "fact", "text": "Ann likes the lake.", "importance": 0.4 }]);
    world.model.plan(Kind::Run, Plan::Text(format!("## Goal\n- walk by the lake\n\n```json\n{list}\n```")));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    assert!(words(&world.model.requests(Kind::Run)[0]).contains("This chat is private: save no memories."));
    let end = &ends(&world)[0];
    assert!(end.summary.is_some() && end.memories.is_empty(), "{:?}", end.memories);
}

#[tokio::test(start_paused = true)]
async fn identifiers_stand_beside_the_summary_or_are_placeholders() {
    for (policy, kept) in [
        (cairn_core::settings::IdentifierPolicy::Preserve, true),
        (cairn_core::settings::IdentifierPolicy::Anonymize, false),
    ] {
        let mut world = World::new();
        world.settings.compaction.identifiers = policy;
        let live = world.start().await;
        live.ask("path", "the plan is in /srv/plans/lake.md").await;
        live.fill_until_run(&world).await;
        world.store.until(1, is_run_ended).await;
        let request = words(&world.model.requests(Kind::Run)[0]);
        assert_eq!(request.contains("/srv/plans/lake.md"), kept);
        assert_eq!(request.contains("<path-"), !kept);
        let summary = ends(&world)[0].summary.clone().unwrap();
        assert_eq!(summary.identifiers.contains(&"/srv/plans/lake.md".to_owned()), kept, "{summary:?}");
        live.ask("next", "and now?").await;
        let reply = words(world.model.requests(Kind::Reply).last().unwrap());
        assert_eq!(reply.contains("Exact identifiers: /srv/plans/lake.md"), kept);
    }
}

#[tokio::test(start_paused = true)]
async fn instructions_of_operator_and_person_stand_in_the_prompt_and_long_ones_are_refused() {
    let mut world = World::new();
    world.settings.compaction.instructions = Some("Keep all prices.".to_owned());
    let live = world.start().await;
    for n in 0..8 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let refused = live.runtime.compact(&local(), Some("x".repeat(1_000_000)), false).await;
    let words_of_refusal = refused.err().unwrap().to_string();
    assert!(words_of_refusal.contains("1000000 characters, 4000 at most"), "{words_of_refusal}");
    assert!(
        live.runtime
            .compact(&local(), Some("Keep the lake.".to_owned()), false)
            .await
            .unwrap()
            .run()
            .is_some()
    );
    world.store.until(1, is_run_ended).await;
    let request = &world.model.requests(Kind::Run)[0];
    let system: BTreeMap<usize, bool> = request
        .system
        .iter()
        .map(|block| block.contains("Keep all prices.") || block.contains("Keep the lake."))
        .enumerate()
        .collect();
    assert_eq!(system.values().filter(|found| **found).count(), 2, "{:?}", request.system);
}
