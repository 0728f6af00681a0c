//! What people say while the tools of their turn are called.

use cairn_types::event::{Event, TurnEvent};
use cairn_types::ids::{ChannelId, MessageId};
use cairn_types::message::{Author, Inbound};
use cairn_types::ports::Admission;
use serde_json::json;

use super::common::model::{Kind, Plan, words};
use super::common::*;

fn is_joined(event: &Event) -> bool {
    matches!(event, Event::Turn(TurnEvent::Joined { .. }))
}

/// Somebody asks for work with tools, and `more` is said while the model is asked for the first time.
async fn work(world: &World, live: &Live, channel: &ChannelId, more: Vec<Inbound>) -> Vec<Admission> {
    let gate = world.model.hold(Kind::Reply);
    world.model.plan(Kind::Reply, Plan::Calls(vec![("history_search", json!({ "query": "boat" }))]));
    let mut asked = vec![live.submit(message(channel, "a", "find the boat")).await.unwrap()];
    settle().await;
    for inbound in more {
        asked.push(live.submit(inbound).await.unwrap());
        settle().await;
    }
    gate.add_permits(10);
    asked
}

fn by_ben(inbound: Inbound) -> Inbound {
    Inbound { author: Author { id: "net/ben".to_owned(), name: "Ben".to_owned() }, ..inbound }
}

fn aside(inbound: Inbound) -> Inbound {
    Inbound { addressed: false, ..inbound }
}

#[tokio::test(start_paused = true)]
async fn what_its_people_say_between_two_rounds_joins_the_turn_and_gets_its_answer() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let more = vec![
        by_ben(message(&group(), "b", "what of my bike?")),
        message(&group(), "c", "the red one"),
        aside(message(&group(), "d", "with the torn sail")),
    ];
    let mut asked = work(&world, &live, &group(), more).await;
    let (last, c, ben, first) = (asked.pop(), asked.pop(), asked.pop(), asked.pop());
    drop(last);
    let answer = reply(first.unwrap()).await;
    assert_eq!(answer, reply(c.unwrap()).await, "one answer to both");
    reply(ben.unwrap()).await;
    let requests = world.model.requests(Kind::Reply);
    let said = |n: usize, text: &str| words(&requests[n]).contains(text);
    assert!(!said(0, "the red one") && said(1, "the red one") && said(1, "with the torn sail"));
    assert!(!said(1, "my bike") && said(2, "my bike"), "what others say waits for the next turn");
    assert_eq!(requests.len(), 3);
    let history: Vec<MessageId> =
        world.store.history(&group()).iter().filter_map(|entry| entry.message.clone()).collect();
    assert_eq!(history, ["a", "c", "d", "b"].map(MessageId::from));
    assert_eq!(world.store.count(is_joined), 1);
    assert_eq!(live.ask_in_group("c", "the red one").await, answer, "said again, it has its answer");
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_the_next_turn_where_an_operator_wants_that_and_on_the_local_platform() {
    for channel in [group(), local()] {
        let mut world = World::new().with_tools();
        world.settings.mid_turn_messages = channel == local();
        let live = world.start().await;
        let asked = work(&world, &live, &channel, vec![message(&channel, "b", "the red one")]).await;
        for admission in asked {
            reply(admission).await;
        }
        assert_eq!(world.store.count(is_joined), 0);
        assert_eq!(world.model.requests(Kind::Reply).len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_joined_goes_on_after_a_restart() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let gate = world.model.hold(Kind::Reply);
    world.model.plan(Kind::Reply, Plan::Calls(vec![("history_search", json!({ "query": "boat" }))]));
    let _first = live.say_in_group("a", "find the boat").await;
    settle().await;
    let _second = live.say_in_group("b", "the red one").await;
    settle().await;
    gate.add_permits(1);
    world.store.until(1, is_joined).await;
    settle().await;
    let again = world.killed();
    drop(live);
    let live = again.start().await;
    reply(live.say_in_group("b", "the red one").await).await;
    let last = words(again.model.requests(Kind::Reply).last().unwrap());
    assert_eq!(last.matches("the red one").count(), 1, "{last}");
    assert_eq!(again.store.history(&group()).iter().filter(|entry| entry.message.is_some()).count(), 2);
}
