//! An answer of the agreed token alone: in a group nothing is posted, elsewhere it is no answer.

use std::time::Duration;

use cairn_core::silence::SILENCE;
use cairn_types::event::{DeliveryEvent, Event, TurnEvent, TurnOutcome};
use serde_json::json;

use super::common::model::{Kind, Plan, words};
use super::common::net::Act;
use super::common::*;

fn silent() -> Plan {
    Plan::Text(SILENCE.to_owned())
}

fn outcomes(world: &World) -> Vec<TurnOutcome> {
    let ended = |event: Event| match event {
        Event::Turn(TurnEvent::Ended(end)) => Some(end.outcome),
        _ => None,
    };
    world.store.events().into_iter().filter_map(ended).collect()
}

fn deliveries(world: &World) -> usize {
    let is_intended = |event: &Event| matches!(event, Event::Delivery(DeliveryEvent::Intended { .. }));
    world.store.events().iter().filter(|event| is_intended(event)).count()
}

#[tokio::test(start_paused = true)]
async fn in_a_group_silence_posts_nothing_and_is_kept() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, silent());
    assert_eq!(live.ask_in_group("a", "see you tomorrow, Ben").await, "");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.net.words(&group()).is_empty());
    assert_eq!((outcomes(&world), deliveries(&world)), (vec![TurnOutcome::Silent], 0));
    let conversation = live.runtime.conversation(&group()).await.unwrap().unwrap().0;
    let said: Vec<String> = conversation.live.iter().map(|entry| entry.text()).collect();
    assert_eq!(said, ["see you tomorrow, Ben", SILENCE]);
    // The next message is a turn as any other, and the model sees that it was silent.
    assert_eq!(live.ask_in_group("b", "what is on?").await, "re: what is on?");
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["re: what is on?"]);
    assert!(words(&world.model.requests(Kind::Reply)[1]).contains(&format!("Ben\n{SILENCE}")));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_message_is_silent_again_without_the_model() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, silent());
    assert_eq!(live.ask_in_group("a", "hello").await, "");
    assert_eq!(live.ask_in_group("a", "hello").await, "");
    assert_eq!(world.model.requests(Kind::Reply).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn silence_that_comes_slowly_shows_typing_alone() {
    let world = World::new();
    world.net.show_drafts(Duration::from_secs(1));
    let live = world.start().await;
    let pieces = ["SAY", "_NOTH", "ING", "\n"].map(str::to_owned).to_vec();
    world.model.plan(Kind::Reply, Plan::Slow(Duration::from_secs(2), pieces));
    assert_eq!(live.ask_in_group("a", "hello").await, "");
    let n_acts = world.net.acts().len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let acts = world.net.acts();
    assert!(acts.iter().all(|act| matches!(act, Act::Typing { .. })), "{acts:?}");
    assert_eq!(acts.len(), n_acts, "typing goes on after the turn");
}

#[tokio::test(start_paused = true)]
async fn the_token_among_other_words_is_left_out() {
    let world = World::new();
    world.net.show_drafts(Duration::from_secs(1));
    let live = world.start().await;
    let pieces = ["Noted.\n", "SAY_", "NOTHING"].map(str::to_owned).to_vec();
    world.model.plan(Kind::Reply, Plan::Slow(Duration::from_secs(3), pieces));
    assert_eq!(live.ask_in_group("a", "hello").await, "Noted.");
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["Noted."]);
    let shown = world.net.acts().into_iter().filter_map(|act| match act {
        Act::Sent { words, .. } | Act::Edited { words, .. } => Some(words),
        Act::Typing { .. } | Act::Marked { .. } => None,
    });
    assert!(shown.into_iter().all(|words| !words.contains("SAY")));
    assert!(matches!(outcomes(&world)[..], [TurnOutcome::Answered { .. }]));
}

#[tokio::test(start_paused = true)]
async fn what_a_draft_showed_before_the_silence_stays_as_it_was_said() {
    let world = World::new().with_tools();
    world.net.show_drafts(Duration::from_secs(1));
    let live = world.start().await;
    let call = vec![("history_search", json!({ "query": "lake" }))];
    world.model.plan(Kind::Reply, Plan::Ended(cairn_types::model::Finish::ToolCalls, "I look.", call));
    world.model.plan(Kind::Reply, Plan::Slow(Duration::from_secs(3), vec!["SAY_NOTH".into(), "ING".into()]));
    assert_eq!(live.ask_in_group("a", "hello").await, "");
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&group()), ["I look."]);
    assert_eq!(outcomes(&world), [TurnOutcome::Silent]);
}

#[tokio::test(start_paused = true)]
async fn who_talks_with_the_agent_alone_always_gets_an_answer() {
    let (world, live) = started().await;
    // The token counts as an empty answer: the model is asked again.
    world.model.plan(Kind::Reply, silent());
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    let mut private = message(&"main/net/ann".parse().unwrap(), "b", "hello");
    private.direct = true;
    world.model.plan(Kind::Reply, silent());
    let asked = live.submit(private.clone()).await.unwrap();
    assert_eq!(reply(asked).await, "re: hello");
    world.store.until(1, is_settled).await;
    assert_eq!(world.net.words(&private.channel), ["re: hello"]);
    let requests = world.model.requests(Kind::Reply);
    assert_eq!(requests.len(), 4);
    assert!(
        requests.iter().all(|request| !words(request).contains(SILENCE)),
        "it is told of the token, or keeps it"
    );
    assert!(requests[3].system[0].contains("private chat"));
    assert!(outcomes(&world).iter().all(|outcome| matches!(outcome, TurnOutcome::Answered { .. })));
    // A model that goes on so fails, visibly.
    (0..20).for_each(|_| world.model.plan(Kind::Reply, silent()));
    let mut again = message(&private.channel, "c", "and now?");
    again.direct = true;
    let asked = live.submit(again).await.unwrap();
    failure_code(asked).await;
    world.store.until(2, is_settled).await;
    let told = world.net.words(&private.channel);
    assert!(told.len() == 2 && !told[1].contains(SILENCE), "{told:?}");
}
