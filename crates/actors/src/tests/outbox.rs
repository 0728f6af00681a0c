//! Deliveries to platforms.

use cairn_core::event::{Event, Receipt};

use super::common::*;

fn is_settled(event: &Event) -> bool {
    matches!(event, Event::OutboxSettled { .. })
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_delivered_in_order_and_its_receipt_journalled() {
    let world = World::new();
    let live = world.start().await;
    for n in 0..3 {
        let admission = live.submit(message(&group(), &format!("m{n}"), &format!("q{n}"))).await.unwrap();
        reply(admission).await;
    }
    world.store.until(3, is_settled).await;
    let texts: Vec<_> = world.net.delivered.lock().iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(texts, ["re: q0", "re: q1", "re: q2"]);
    assert!(world.store.conversation(&group()).unwrap().owed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delivery_without_a_receipt_is_made_again_after_a_kill() {
    let world = World::new();
    let live = world.start().await;
    reply(live.submit(message(&group(), "a", "hello")).await.unwrap()).await;
    world.store.until(1, is_settled).await;
    let at = world.store.events().iter().position(is_settled).unwrap();
    let again = world.over(world.store.after_kill_at(at));
    let _live = again.start().await;
    again.store.until(1, is_settled).await;
    assert_eq!(again.net.delivered.lock().len(), 1);
    assert!(again.store.conversation(&group()).unwrap().owed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_never_can_be_is_noted_as_dead() {
    let world = World::new();
    *world.net.refuses.lock() = Some("kicked out".to_owned());
    let live = world.start().await;
    reply(live.submit(message(&group(), "a", "hello")).await.unwrap()).await;
    world.store.until(1, is_settled).await;
    let dead = Receipt::Dead { reason: "kicked out".to_owned() };
    let noted = |event: &Event| matches!(event, Event::OutboxSettled { receipt, .. } if *receipt == dead);
    assert_eq!(world.store.count(noted), 1);
}

#[tokio::test(start_paused = true)]
async fn a_receipt_waits_for_a_store_that_refuses_it() {
    let world = World::new();
    let live = world.start().await;
    let gate = world.store.shut();
    // DaemonStarted is there already: accepted, then the answer, then the receipt.
    gate.add_permits(2);
    reply(live.submit(message(&group(), "a", "hello")).await.unwrap()).await;
    world.store.fail_next(cairn_core::ports::StoreError::DiskFull { path: "/x".to_owned() });
    gate.add_permits(10);
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.delivered.lock().len(), 1, "delivered once, settled at the second try");
}
