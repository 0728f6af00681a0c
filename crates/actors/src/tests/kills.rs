//! Failures that only the inside of the runtime can cause: router and outbox are killed where they stand.

use cairn_types::event::{DeliveryEvent, Event, MessageEvent};

use super::common::model::Kind;
use super::common::*;

#[tokio::test(start_paused = true)]
async fn a_killed_router_comes_back_with_channels_turns_runs_and_waiters() {
    let (world, live) = started().await;
    let runs = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    world.model.until(1, Kind::Run).await;
    let replies = world.model.hold(Kind::Reply);
    let open = live.say("open", "before").await;
    let pending = live.say("pending", "behind it").await;
    live.runtime.shared().directory.kill_router();
    let next = live.say("next", "after").await;
    assert_eq!(live.runtime.health().restarts, 1);
    replies.add_permits(100);
    runs.add_permits(100);
    assert_eq!(reply(open).await, "re: before");
    assert_eq!(reply(pending).await, "re: behind it");
    assert_eq!(reply(next).await, "re: after");
    world.store.until(1, is_run_ended).await;
    assert_eq!(world.store.count(is_run_started), 1);
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_channel_killed_in_the_middle_of_an_append_misses_nothing_that_it_wrote() {
    let (world, live) = started().await;
    live.ask("a", "hello").await;
    let gate = world.store.shut();
    let mut slow = Box::pin(live.say("slow", "is it written?"));
    assert!(futures::poll!(&mut slow).is_pending());
    settle().await;
    live.runtime.shared().directory.kill_router();
    // Long after the pause before the restart: the append is still under way.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    gate.add_permits(100);
    assert_eq!(reply(slow.await).await, "re: is it written?");
    let accepted = |event: &Event| matches!(event, Event::Message(MessageEvent::Accepted(p)) if p.message.as_str() == "slow");
    assert_eq!(world.store.count(accepted), 1);
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_killed_outbox_comes_back_and_delivers_what_is_owed() {
    let (world, live) = started().await;
    live.runtime.shared().directory.kill_outbox();
    live.ask_in_group("a", "hello").await;
    world.store.until(1, |event| matches!(event, Event::Delivery(DeliveryEvent::Settled { .. }))).await;
    assert_eq!(world.net.words(&group()).len(), 1);
    assert_eq!(live.runtime.health().restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_channel_killed_before_it_tells_of_a_reply_has_it_sent_and_whoever_waits_told() {
    let (world, live) = started().await;
    let replies = world.model.hold(Kind::Reply);
    let open = live.say_in_group("a", "hello").await;
    world.model.until(1, Kind::Reply).await;
    let gate = world.store.shut();
    replies.add_permits(1);
    settle().await;
    live.runtime.shared().directory.kill_router();
    settle().await;
    gate.add_permits(100);
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["re: hello"]);
    assert_eq!(failure_code(open).await, "turn_failed");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_running_after_a_stop() {
    let (world, live) = started().await;
    let _runs = world.model.hold(Kind::Run);
    live.fill_until_run(&world).await;
    let _replies = world.model.hold(Kind::Reply);
    let open = live.say("open", "hm").await;
    live.runtime.shutdown(std::time::Duration::from_secs(1)).await;
    assert_eq!(failure_code(open).await, "stopping");
    assert_eq!(live.runtime.shared().lifecycle.tasks.running(), 0);
    let before = world.store.records().len();
    tokio::time::sleep(world.limits.idle_after * 2).await;
    assert_eq!(world.store.records().len(), before, "nobody writes after the stop");
}
