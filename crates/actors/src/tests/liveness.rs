//! The pulse: an actor that takes no messages is named, one that is down is not, and nobody is disturbed by it.

use std::time::Duration;

use super::common::model::Kind;
use super::common::*;

const PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn every_actor_is_heard_while_turns_and_runs_take_their_time() {
    let (world, live) = started().await;
    assert_eq!(live.runtime.liveness(PATIENCE).await.heard, 3, "router, outbox and alarm");
    let gate = world.model.hold(Kind::Reply);
    let open = live.say("a", "think about it for long").await;
    settle().await;
    let liveness = live.runtime.liveness(PATIENCE).await;
    assert!(liveness.is_whole() && liveness.heard == 5, "{liveness:?}");
    gate.add_permits(1);
    reply(open).await;
    tokio::time::sleep(world.limits.idle_after * 2).await;
    assert!(live.runtime.awake().is_empty(), "a pulse keeps nobody awake");
}

#[tokio::test(start_paused = true)]
async fn a_wedged_channel_is_named_until_it_moves_again() {
    let (world, live) = started().await;
    live.ask("a", "hello").await;
    // An append that never returns: the channel waits for it, and takes no messages.
    let gate = world.store.shut();
    let runtime = live.runtime.clone();
    let wedged = tokio::spawn(async move {
        drop(cairn_types::ports::Intake::submit(&runtime, message(&local(), "b", "hm")).await);
    });
    settle().await;
    let liveness = live.runtime.liveness(PATIENCE).await;
    assert_eq!(liveness.silent, ["channel main/local/main"]);
    assert_eq!(liveness.told(), "channel main/local/main");
    gate.add_permits(100);
    wedged.await.unwrap();
    assert!(live.runtime.liveness(PATIENCE).await.is_whole());
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_is_down_is_its_supervisors_business() {
    let (_world, live) = started().await;
    live.runtime.shared().directory.kill_outbox();
    assert!(live.runtime.liveness(PATIENCE).await.is_whole());
    live.runtime.shared().directory.kill_router();
    assert!(live.runtime.liveness(PATIENCE).await.is_whole());
}

#[tokio::test(start_paused = true)]
async fn a_house_that_has_stopped_is_silent() {
    let (_world, live) = started().await;
    live.runtime.shutdown(Duration::ZERO).await;
    assert_eq!(live.runtime.liveness(PATIENCE).await.silent, ["supervisor"]);
}
