//! One person who writes in many channels at once, beside others.

use std::collections::BTreeMap;

use cairn_core::limits::{Price, TalkLimits};
use cairn_types::ids::ChannelId;
use cairn_types::message::{Author, Inbound};
use cairn_types::ports::Answer;

use super::common::model::{Kind, words};
use super::common::*;

fn said(who: &str, channel: &str) -> Inbound {
    let channel: ChannelId = format!("main/local/{channel}").parse().unwrap();
    let author = Author { id: format!("local/{who}"), name: who.to_owned() };
    Inbound { author, ..message(&channel, who, &format!("{who} writes")) }
}

/// Requests of the model for what a person wrote.
fn asked(world: &World, who: &str) -> usize {
    let requests = world.model.requests(Kind::Reply);
    requests.iter().filter(|request| words(request).contains(&format!("{who} writes"))).count()
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_person_waits_for_its_own_calls_and_holds_nobody_up() {
    let mut world = World::new();
    world.limits.user_calls_at_once = 3;
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    let first = live.submit(said("bob", "bob")).await.unwrap();
    let mut flood = Vec::new();
    for n in 0..20 {
        flood.push(live.submit(said("eve", &format!("eve-{n}"))).await.unwrap());
    }
    settle().await;
    assert_eq!((asked(&world, "bob"), asked(&world, "eve")), (1, 3), "all are accepted, three are at work");
    let others = ["carl", "dora", "emil", "fay", "gus"];
    let mut waits = vec![first];
    for who in others {
        waits.push(live.submit(said(who, who)).await.unwrap());
    }
    settle().await;
    assert!(others.iter().all(|who| asked(&world, who) == 1), "somebody waits for another's flood");
    tokio::time::sleep(world.limits.turn_timeout / 2).await;
    gate.add_permits(1 + 3 + others.len());
    settle().await;
    assert_eq!(asked(&world, "eve"), 6, "as many begin as have ended");
    // Those behind have waited for longer than a turn may take: that is no time of theirs.
    tokio::time::sleep(world.limits.turn_timeout * 3 / 4).await;
    gate.add_permits(100);
    for admission in waits.into_iter().chain(flood) {
        assert!(reply(admission).await.starts_with("re: "));
    }
    assert_eq!(asked(&world, "eve"), 20);
}

#[tokio::test(start_paused = true)]
async fn who_is_alone_has_all_and_a_call_that_is_stopped_gives_its_place_back() {
    let mut world = World::new();
    world.limits.user_calls_at_once = 1;
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    let mut all = Vec::new();
    for n in 0..5 {
        all.push(live.submit(said("eve", &format!("alone-{n}"))).await.unwrap());
    }
    settle().await;
    assert_eq!(asked(&world, "eve"), 5);
    all.push(live.submit(said("bob", "bob")).await.unwrap());
    settle().await;
    let stopped = live.submit(said("eve", "late-0")).await.unwrap();
    all.push(live.submit(said("eve", "late-1")).await.unwrap());
    settle().await;
    assert_eq!(asked(&world, "eve"), 5, "beside bob she has to wait");
    live.runtime.stop_turn(&"main/local/late-0".parse().unwrap()).await.unwrap();
    assert_eq!(failure_code(stopped).await, "stopped");
    gate.add_permits(100);
    for admission in all {
        reply(admission).await;
    }
    assert_eq!(asked(&world, "eve"), 6, "what was stopped never began");
}

#[tokio::test(start_paused = true)]
async fn sixty_turns_at_once_do_not_pass_the_days_money() {
    let (world, live) = started().await;
    let cap_at = |spend_per_day| {
        let talk = TalkLimits { spend_per_day, ..TalkLimits::default() };
        let prices = BTreeMap::from([("fake".to_owned(), Price { input: 1.0, ..Price::default() })]);
        live.runtime.set_limits(world.limits.clone(), talk, prices);
    };
    cap_at(0.0);
    reply(live.submit(said("person-0", "first")).await.unwrap()).await;
    let one_call = live.runtime.spent_today();
    let cap = 6.5 * one_call;
    cap_at(cap);
    let gate = world.model.hold(Kind::Reply);
    let mut turns = Vec::new();
    for n in 1..=60 {
        turns.push(live.submit(said(&format!("person-{n}"), &format!("channel-{n}"))).await.unwrap());
    }
    settle().await;
    let begun = world.model.requests(Kind::Reply).len();
    assert!((4..=7).contains(&begun), "{begun} calls");
    gate.add_permits(100);
    let mut outcomes = BTreeMap::<String, u32>::new();
    for turn in turns {
        let outcome = match answer(turn).await {
            Answer::Reply(_) => "answered".to_owned(),
            Answer::Failed(failure) => failure.code,
        };
        *outcomes.entry(outcome).or_default() += 1;
    }
    let spent = live.runtime.spent_today();
    assert!(spent > cap - one_call && spent < cap + 1.1 * one_call, "{spent} of {cap}");
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["answered", "limited"], "{outcomes:?}");
}
