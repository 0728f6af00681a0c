//! What people ask of a channel.

use crate::{RuntimeError, RuntimeEvent, RuntimeEventKind};
use cairn_types::event::RunOutcome;
use cairn_types::ids::Generation;
use cairn_types::model::ModelError;
use jiff::Timestamp;

use super::common::model::{Kind, Plan, words};
use super::common::*;

#[tokio::test(start_paused = true)]
async fn a_compaction_that_is_asked_for_attends_to_the_instruction() {
    let (world, live) = started().await;
    for n in 0..10 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let ticket =
        live.runtime.compact(&local(), Some("the weather".to_owned()), false).await.unwrap().run().unwrap();
    assert!(!ticket.queued);
    let end = ticket.ended.await.unwrap();
    assert_eq!((end.run, end.outcome), (ticket.run, RunOutcome::Committed));
    assert!(words(&world.model.requests(Kind::Run)[0]).contains("the weather"));
    assert!(
        live.runtime.compact(&local(), None, false).await.unwrap().run().is_none(),
        "only the reserve is left"
    );
}

#[tokio::test(start_paused = true)]
async fn a_compaction_behind_another_is_queued_under_the_id_that_it_gets() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    let ticket =
        live.runtime.compact(&local(), Some("names".to_owned()), false).await.unwrap().run().unwrap();
    assert!(ticket.queued);
    gate.add_permits(100);
    let end = ticket.ended.await.unwrap();
    assert_eq!((end.run, end.outcome), (ticket.run, RunOutcome::Committed));
    let runs = world.model.requests(Kind::Run);
    assert!(runs.iter().any(|request| words(request).contains("names")));
}

#[tokio::test(start_paused = true)]
async fn a_queued_compaction_whose_range_an_emergency_took_ends_as_superseded() {
    let mut world = World::new();
    world.settings.compaction.timeout_secs = 1_000_000;
    let live = world.start().await;
    let gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    let ticket = live.runtime.compact(&local(), None, false).await.unwrap().run().unwrap();
    assert!(ticket.queued);
    // One large turn drives all others out of the window.
    live.ask("large", &chatter(7).repeat(70)).await;
    live.ask("more", "and now?").await;
    gate.add_permits(100);
    let end = ticket.ended.await.unwrap();
    assert_eq!((end.run, end.outcome), (ticket.run, RunOutcome::Superseded));
    settle().await;
    assert!(world.conversation().queued_runs.is_empty());
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn an_instruction_behind_a_run_that_was_asked_for_makes_its_summary_again_from_the_messages() {
    let (world, live) = started().await;
    for n in 0..10 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let gate = world.model.hold(Kind::Run);
    let first = live.runtime.compact(&local(), None, false).await.unwrap().run().unwrap();
    let names = Some("keep all names".to_owned());
    let second = live.runtime.compact(&local(), names, false).await.unwrap().run().unwrap();
    assert!(second.queued && second.run != first.run);
    gate.add_permits(100);
    let (first, second) = (first.ended.await.unwrap(), second.ended.await.unwrap());
    assert_eq!((first.outcome, second.outcome), (RunOutcome::Committed, RunOutcome::Committed));
    assert_eq!((first.messages, second.messages), (18, 18));
    let runs = world.model.requests(Kind::Run);
    let asks = |said: &String| said.contains("keep all names");
    let (with, without): (Vec<_>, Vec<_>) = runs.iter().map(words).partition(asks);
    let has_all = |said: &[String]| (0..9).all(|n| said.iter().any(|said| said.contains(&chatter(n))));
    assert!(has_all(&without) && has_all(&with), "both are made from what was said");
    let conversation = world.conversation();
    check_coverage(&conversation);
    let kept: Vec<_> = conversation.stack.summaries().map(|summary| summary.id.to_string()).collect();
    assert_eq!(kept, [second.run.as_str().replacen('r', "s", 1)]);
    assert!(conversation.queued_runs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_cannot_be_made_again_stays_as_it_is() {
    let mut world = World::new();
    world.settings.compaction.max_attempts = 1;
    let live = world.start().await;
    for n in 0..10 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let first =
        live.runtime.compact(&local(), None, false).await.unwrap().run().unwrap().ended.await.unwrap();
    for _ in 0..5 {
        world.model.plan(Kind::Run, Plan::Broken("", ModelError::Auth("no".to_owned())));
    }
    let again = live.runtime.compact(&local(), Some("names".to_owned()), false).await.unwrap();
    let again = again.run().unwrap().ended.await.unwrap();
    assert_eq!(again.outcome, RunOutcome::Failed, "no digest takes the place of a summary");
    let conversation = world.conversation();
    assert_eq!(conversation.stack.summaries().next(), first.summary.as_ref());
    check_coverage(&conversation);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_which_the_run_under_way_leaves_nothing_is_about_that_run() {
    let (world, live) = started().await;
    for n in 0..10 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let gate = world.model.hold(Kind::Run);
    let first = live.runtime.compact(&local(), None, false).await.unwrap().run().unwrap();
    let second = live.runtime.compact(&local(), None, false).await.unwrap().run().unwrap();
    assert_eq!((&second.run, second.queued), (&first.run, false));
    gate.add_permits(100);
    let (first, second) = (first.ended.await.unwrap(), second.ended.await.unwrap());
    assert_eq!((first.run, first.outcome), (second.run, RunOutcome::Committed));
    assert_eq!(world.conversation().outcomes.len(), 1, "one run for both");
}

#[tokio::test(start_paused = true)]
async fn a_channel_never_seen_is_not_made_by_a_command() {
    let (_world, live) = started().await;
    let missing = RuntimeError::NoSuchChannel(local());
    assert_eq!(live.runtime.compact(&local(), None, false).await.err(), Some(missing.clone()));
    assert_eq!(live.runtime.new_generation(&local()).await.err(), Some(missing.clone()));
    assert_eq!(live.runtime.stop_turn(&local()).await.err(), Some(missing));
    assert!(live.runtime.conversation(&local()).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_turn_ends_and_the_next_message_follows() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Reply);
    let stopped = live.say("a", "long story").await;
    let next = live.say("b", "short one").await;
    world.model.until(1, Kind::Reply).await;
    assert!(live.runtime.stop_turn(&local()).await.unwrap());
    assert_eq!(failure_code(stopped).await, "stopped");
    gate.add_permits(10);
    assert_eq!(reply(next).await, "re: short one");
    assert!(!live.runtime.stop_turn(&local()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_stops_the_turn_cancels_the_run_and_starts_afresh() {
    let mut world = World::new();
    world.settings.compaction.timeout_secs = 1_000_000;
    let live = world.start().await;
    let runs = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    let replies = world.model.hold(Kind::Reply);
    let open = live.say("open", "unfinished").await;
    let pending = live.say("pending", "for the new one").await;
    assert_eq!(live.runtime.new_generation(&local()).await.unwrap(), Generation(2));
    assert_eq!(failure_code(open).await, "stopped");
    replies.add_permits(100);
    runs.add_permits(100);
    assert_eq!(reply(pending).await, "re: for the new one");
    let request = words(world.model.requests(Kind::Reply).last().unwrap());
    assert!(!request.contains("weather"), "nothing of the old generation is in the window");
    settle().await;
    let conversation = world.conversation();
    check_coverage(&conversation);
    assert_eq!(conversation.outcomes.back().unwrap().outcome, RunOutcome::Cancelled);
    assert!(conversation.stack.items().is_empty() && world.store.saved_memories().is_empty());
}

#[tokio::test(start_paused = true)]
async fn watchers_are_told_of_turns_tiers_and_runs() {
    let world = World::new();
    let mut live = world.start().await;
    live.fill_until_run(&world).await;
    let mut names: Vec<&str> = Vec::new();
    while names.last() != Some(&"run_ended") {
        let name = live.notice(|notice| Some(notice.name())).await;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    assert_eq!(names, ["turn_started", "turn_ended", "tier", "run_started", "run_ended"]);
    let kind = RuntimeEventKind::Emergency { messages: 3, tokens_before: 9, tokens_after: 5 };
    let json =
        serde_json::to_value(RuntimeEvent { at: Timestamp::UNIX_EPOCH, channel: local(), kind }).unwrap();
    assert_eq!(json["event"], "emergency");
    assert_eq!(json["channel"], "main/local/main");
}
