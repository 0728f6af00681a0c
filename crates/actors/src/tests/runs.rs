//! Background runs: nobody waits for them, nothing is missing meanwhile, and a failure changes nothing.

use std::time::Duration;

use cairn_core::conversation::Conversation;
use cairn_core::store_port::Store as _;
use cairn_types::event::{
    CompactionEvent, Event, MessageEvent, NewRecord, Run, RunOutcome, RunWork, Trigger, TurnEvent,
};
use cairn_types::ids::{RunId, Seq};
use cairn_types::model::{ChatRequest, ModelError, Purpose};
use cairn_types::ports::StoreError;
use cairn_types::summary::MADE_BY_DIGEST;
use cairn_types::tier::Tier;
use jiff::Timestamp;

use super::common::model::{Kind, Plan, words};
use super::common::*;

#[tokio::test(start_paused = true)]
async fn messages_are_answered_while_a_run_is_held_and_it_commits_when_released() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    for n in 0..3 {
        assert_eq!(live.ask(&format!("m{n}"), &format!("q{n}")).await, format!("re: q{n}"));
    }
    assert_eq!(world.store.count(is_run_started), 1);
    assert_eq!(world.store.count(is_run_ended), 0);
    let sealed = live.snapshot().await.sealed_range().unwrap();
    gate.add_permits(100);
    world.store.until(1, is_run_ended).await;
    let end = &ends(&world)[0];
    assert_eq!(end.outcome, RunOutcome::Committed);
    let summary = end.summary.as_ref().unwrap();
    assert_eq!((summary.from_seq, summary.to_seq), sealed);
    assert_eq!(end.memories.len(), 1);
    // One attempt: the call that saves a memory, the call that writes the summary.
    assert_eq!(world.model.requests(Kind::Run).len(), 2);
    check_coverage(&world.conversation());
    assert!(live.snapshot().await.live.iter().any(|entry| entry.text() == "q2"));
}

#[tokio::test(start_paused = true)]
async fn every_request_sent_during_a_run_has_all_that_the_run_works_on() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Run);
    for n in 0..4 {
        live.ask(&format!("fact-{n}"), &format!("the code of room {n} is teal-{n}")).await;
    }
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    let before = world.model.requests(Kind::Reply).len();
    for n in 0..3 {
        live.ask(&format!("m{n}"), "and?").await;
    }
    for request in &world.model.requests(Kind::Reply)[before..] {
        for n in 0..4 {
            assert!(words(request).contains(&format!("teal-{n}")), "fact {n} is missing");
        }
    }
    gate.add_permits(100);
    world.store.until(1, is_run_ended).await;
    live.ask("after", "and now?").await;
    let request = words(world.model.requests(Kind::Reply).last().unwrap());
    assert!(request.contains("[Compaction Summary]") && !request.contains("teal-0"));
    let found = world.store.history(&local()).iter().filter(|e| e.text().contains("is teal-0")).count();
    assert_eq!(found, 2, "question and echo stay in the archive");
}

/// The words of a window, as the conversation has them.
fn contents(conversation: &Conversation) -> (Vec<u64>, usize) {
    (conversation.live.iter().map(|e| e.seq.0).collect(), conversation.stack.items().len())
}

/// Attempts that go wrong, by what the model does; one that cannot be used is corrected once before the attempt fails.
fn bad_attempts() -> Vec<(&'static str, Vec<Plan>)> {
    let twice = |text: &str| vec![Plan::Text(text.to_owned()), Plan::Text(text.to_owned())];
    let cut = || Plan::CutOff("They spoke of the lake and".to_owned());
    let ended = ModelError::Protocol("the stream ended".to_owned());
    vec![
        ("fails", vec![Plan::Broken("", ModelError::Transport("no".to_owned()))]),
        ("breaks off", vec![Plan::Broken("They spoke of", ended)]),
        ("hangs", vec![Plan::Hangs]),
        ("panics", vec![Plan::Panics]),
        ("says nothing", twice("")),
        ("says more than its source", twice(&"and then they went on to say ".repeat(2_000))),
        ("is cut off", vec![cut(), cut()]),
        ("writes a call", twice("<tool_call>memory_save</tool_call>")),
        ("refuses", twice("Es tut mir leid, aber dabei kann ich nicht helfen.")),
        ("writes a skeleton", twice("## Goal\nNone.\n\n## Progress\nNothing captured.")),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_bad_attempt_changes_nothing_and_the_next_succeeds() {
    for (what, plans) in bad_attempts() {
        let (world, live) = started().await;
        for plan in plans {
            world.model.plan(Kind::Run, plan);
        }
        let gate = world.model.hold(Kind::Run);
        live.fill_until_run(&world).await;
        let before = live.snapshot().await;
        gate.add_permits(100);
        world
            .store
            .until(1, |event| matches!(event, Event::Compaction(CompactionEvent::RunAttemptFailed { .. })))
            .await;
        let after = live.snapshot().await;
        assert_eq!(contents(&before), contents(&after), "{what}");
        assert!(world.store.saved_memories().is_empty(), "{what}: a failed attempt saves nothing");
        assert_eq!(live.ask("between", "are you there?").await, "re: are you there?", "{what}");
        world.store.until(1, is_run_ended).await;
        let end = &ends(&world)[0];
        assert_eq!(end.outcome, RunOutcome::Committed, "{what}");
        assert_eq!(end.summary.as_ref().unwrap().made_by, "fake", "{what}");
        assert_eq!(end.attempts, 2, "{what}");
        assert!(end.spent.get("fake").is_some_and(|usage| usage.input_tokens > 0), "{what}: {:?}", end.spent);
        let told = world.conversation().outcomes.back().unwrap().clone();
        assert_eq!((told.attempts, &told.spent), (2, &end.spent), "{what}");
        assert!(told.ended_at.is_some(), "{what}");
        check_coverage(&world.conversation());
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_model_keeps_refusing_a_provisional_digest_stands_in() {
    let (world, live) = started().await;
    for _ in 0..2 * world.settings.compaction.max_attempts {
        world.model.plan(Kind::Run, Plan::Text("I'm sorry, but I can't help with that.".to_owned()));
    }
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let end = ends(&world)[0].clone();
    let summary = end.summary.unwrap();
    assert_eq!((summary.made_by.as_str(), summary.provisional), (MADE_BY_DIGEST, true));
    assert!(end.reason.unwrap().contains("it is no summary of what was said"));
    let asked_again = words(&world.model.requests(Kind::Run)[1]);
    assert!(asked_again.contains("it is far too short"), "{asked_again}");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_frees_next_to_nothing_is_asked_for_again_and_never_committed() {
    let leaving = {
        let (world, live) = started().await;
        let _never = world.model.hold(Kind::Run);
        live.fill_until_run(&world).await;
        let (sealed, (from, to)) = (live.snapshot().await, live.snapshot().await.sealed_range().unwrap());
        let leaving = sealed.live.iter().filter(|entry| (from..=to).contains(&entry.seq));
        leaving.map(|entry| entry.text()).collect::<Vec<_>>()
    };
    let (world, live) = started().await;
    // All that was said, and hardly less about who said it.
    let text = format!(
        "## Critical context\n- {}",
        leaving.join("\n- and after that Ann went on and said to all of us there: ")
    );
    world.model.plan(Kind::Run, Plan::Text(text));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let corrected = words(&world.model.requests(Kind::Run)[1]);
    assert!(corrected.contains("to be worth what leaves for it"), "{corrected}");
    let end = &ends(&world)[0];
    assert_eq!(
        (end.outcome, end.summary.as_ref().unwrap().made_by.as_str()),
        (RunOutcome::Committed, "fake")
    );
    assert!(end.tokens_after * 10 < end.tokens_before * 9, "{end:?}");
}

/// A run over two short turns, as an earlier program began it.
async fn over_two_short_turns() -> World {
    let (world, live) = started().await;
    for n in 0..4 {
        live.ask(&format!("m{n}"), "and by the lake?").await;
    }
    let run = Run {
        id: RunId::from("r1"),
        trigger: Trigger::Threshold,
        tier: Tier::Background,
        work: RunWork::Sealed,
        from_seq: Seq(1),
        to_seq: Seq(4),
        messages: 4,
        instruction: None,
        started_at: Timestamp::UNIX_EPOCH,
        attempt: 1,
        retry_at: None,
        tokens_before: 100,
        checkpoint: None,
        tell: false,
        failure: None,
        replaces: None,
        spent: Default::default(),
    };
    let begun = NewRecord {
        channel: Some(local()),
        at: Timestamp::UNIX_EPOCH,
        event: Event::Compaction(CompactionEvent::RunStarted { run }),
    };
    let after = world.killed();
    after.store.append(vec![begun]).await.unwrap();
    after
}

#[tokio::test(start_paused = true)]
async fn a_run_that_not_even_a_digest_is_worth_ends_rejected_and_is_not_repeated() {
    let world = over_two_short_turns().await;
    let live = world.start().await;
    world.store.until(1, is_run_ended).await;
    let end = &ends(&world)[0];
    assert_eq!((end.outcome, &end.summary), (RunOutcome::Rejected, &None));
    assert!(end.reason.as_ref().unwrap().contains("next to nothing would be freed"), "{:?}", end.reason);
    assert_eq!(live.snapshot().await.live.len(), 8, "all is where it was");
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!(world.store.count(is_run_started), 1);
    assert_eq!(live.ask("next", "still there?").await, "re: still there?");
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn every_run_sees_the_newest_earlier_summary_and_merges_do_not() {
    let (world, live) = started().await;
    let mut earlier = String::new();
    for n in 0..3 {
        let n_asked = world.model.requests(Kind::Run).len();
        live.fill_until_run(&world).await;
        world.store.until(n + 1, is_run_ended).await;
        let request = words(&world.model.requests(Kind::Run)[n_asked]);
        assert_eq!(request.contains("<summaries-earlier>"), n > 0, "{request}");
        assert!(request.contains(&earlier), "{earlier} is not in {request}");
        earlier = ends(&world)[n].summary.as_ref().unwrap().text.clone();
    }
    let is_merge = |request: &&ChatRequest| matches!(request.purpose, Purpose::Merge { .. });
    for n in 0.. {
        live.ask(&format!("m{n}"), &chatter(n)).await;
        settle().await;
        let requests = world.model.requests(Kind::Run);
        let Some(merge) = requests.iter().find(is_merge) else { continue };
        assert!(!words(merge).contains("<summaries-earlier>"));
        break;
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_cannot_be_used_is_corrected_once_within_the_attempt() {
    let (world, live) = started().await;
    world.model.plan(Kind::Run, Plan::Text(String::new()));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    assert_eq!(
        world
            .store
            .count(|event| matches!(event, Event::Compaction(CompactionEvent::RunAttemptFailed { .. }))),
        0
    );
    assert_eq!(ends(&world)[0].outcome, RunOutcome::Committed);
    assert!(words(&world.model.requests(Kind::Run)[1]).contains("the summary is empty"));
}

#[tokio::test(start_paused = true)]
async fn a_digest_stands_in_when_every_attempt_fails() {
    let (world, live) = started().await;
    live.ask("name", "my name is Ann and I prefer tea").await;
    for _ in 0..world.settings.compaction.max_attempts {
        world.model.plan(Kind::Run, Plan::Broken("", ModelError::Transport("down".to_owned())));
    }
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let end = &ends(&world)[0];
    assert_eq!(end.outcome, RunOutcome::Committed);
    assert_eq!(end.summary.as_ref().unwrap().made_by, "digest");
    assert!(end.memories.is_empty(), "memories come when a model makes the summary again");
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_result_waits_for_a_store_that_refuses_it() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    world.store.fail_next(StoreError::DiskFull { path: "/x".to_owned() });
    gate.add_permits(100);
    world.store.until(1, is_run_ended).await;
    assert_eq!(ends(&world)[0].outcome, RunOutcome::Committed);
    assert_eq!(world.model.requests(Kind::Run).len(), 2, "the result was kept, not made again");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_channel_comes_back_with_run_turn_and_waiters() {
    let (world, live) = started().await;
    let runs = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    let replies = world.model.hold(Kind::Reply);
    let open = live.say("open", "before the panic").await;
    world.store.panics.store(true, std::sync::atomic::Ordering::SeqCst);
    let next = live.say("next", "after the panic").await;
    assert_eq!(live.runtime.health().restarts, 1);
    replies.add_permits(100);
    runs.add_permits(100);
    assert_eq!(reply(open).await, "re: before the panic");
    assert_eq!(reply(next).await, "re: after the panic");
    world.store.until(1, is_run_ended).await;
    assert_eq!(ends(&world)[0].outcome, RunOutcome::Committed);
    let accepted = |event: &Event| matches!(event, Event::Message(MessageEvent::Accepted(p)) if p.message.as_str() == "next");
    assert_eq!(world.store.count(accepted), 1);
    assert_eq!(world.store.count(|event| matches!(event, Event::Turn(TurnEvent::Interrupted { .. }))), 1);
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_result_made_while_the_channel_was_down_is_brought_again() {
    let (world, live) = started().await;
    let gate = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    // The commit itself panics: the proposal goes down with the channel.
    world.store.panics.store(true, std::sync::atomic::Ordering::SeqCst);
    gate.add_permits(100);
    world.store.until(1, is_run_ended).await;
    assert_eq!(live.runtime.health().restarts, 1);
    assert_eq!(ends(&world)[0].outcome, RunOutcome::Committed);
    assert_eq!(world.model.requests(Kind::Run).len(), 2, "the result was kept, not made again");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_compactor_comes_back_and_runs_go_on() {
    let (world, live) = started().await;
    live.ask("a", "hello").await;
    settle().await;
    // After the end of a turn the compactor is the first to read the clock.
    *world.store.armed.lock() = Some(std::sync::Arc::clone(&world.bomb));
    live.ask("b", "and again").await;
    settle().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(live.runtime.health().restarts, 1);
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    assert_eq!(ends(&world)[0].outcome, RunOutcome::Committed);
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_long_conversation_stays_calm_and_its_summaries_merge() {
    let (world, live) = started().await;
    for n in 0..400 {
        live.runtime.wait_calm(&local(), Tier::Aggressive).await;
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    settle().await;
    let conversation = world.conversation();
    check_coverage(&conversation);
    assert!(conversation.stack.summaries().any(|summary| summary.level > 0), "no merge");
    assert_eq!(world.store.count(is_emergency), 0);
    assert_eq!(world.store.history(&local()).len(), 800);
    assert!(ends(&world).iter().all(|end| end.outcome == RunOutcome::Committed));
}

#[tokio::test(start_paused = true)]
async fn turns_without_an_answer_are_compacted_like_any_other() {
    let mut world = World::new();
    world.limits.unaddressed_queue = 2;
    let live = world.start().await;
    for n in 0..120 {
        let mut overheard = message(&group(), &format!("m{n}"), &chatter(n));
        overheard.addressed = false;
        drop(live.submit(overheard).await.unwrap());
        settle().await;
    }
    assert!(world.model.requests(Kind::Reply).is_empty());
    let conversation = world.store.conversation(&group()).unwrap();
    assert!(conversation.stack.summaries().next().is_some(), "nothing was compacted");
    check_coverage(&conversation);
}

/// As soon as a model is well, also when the runtime was started again in between.
#[tokio::test(start_paused = true)]
async fn a_digest_is_made_again_by_a_model_with_its_memories() {
    let (world, live) = started().await;
    for _ in 0..world.settings.compaction.max_attempts {
        world.model.plan(Kind::Run, Plan::Broken("", ModelError::Transport("down".to_owned())));
    }
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    let digest = ends(&world)[0].summary.clone().unwrap();
    assert!(digest.provisional && world.conversation().owes_run());
    live.runtime.shutdown(Duration::ZERO).await;
    // It fails once more: what stands there stays.
    world.model.plan(Kind::Run, Plan::Broken("", ModelError::Auth("no".to_owned())));
    let _live = world.start().await;
    world.store.until(2, is_run_ended).await;
    assert_eq!((ends(&world)[1].outcome, &ends(&world)[1].summary), (RunOutcome::Failed, &None));
    assert_eq!(world.conversation().stack.summaries().next(), Some(&digest));
    world.store.until(3, is_run_ended).await;
    let end = &ends(&world)[2];
    let summary = end.summary.as_ref().unwrap();
    assert_eq!((end.trigger, end.outcome), (Trigger::Provisional, RunOutcome::Committed));
    assert_eq!((summary.from_seq, summary.to_seq), (digest.from_seq, digest.to_seq));
    assert_eq!((summary.made_by.as_str(), summary.provisional, end.memories.len()), ("fake", false, 1));
    assert!(!world.conversation().owes_run());
    check_coverage(&world.conversation());
}
