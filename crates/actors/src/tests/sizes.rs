//! Servers that are silent about the size of their window: they cut requests, or end an answer before its first token.

use cairn_core::agent::WindowSource;
use cairn_types::event::{CompactionEvent, DeliveryEvent, Event, ModelNews, RunOutcome, TurnEvent};
use cairn_types::tokens::estimate;

use super::common::model::{Kind, Plan, words};
use super::common::*;

const CUTS: &str = "silently dropped the oldest part";

fn is_note(event: &Event) -> bool {
    matches!(event, Event::Delivery(DeliveryEvent::Intended { note: Some(note), .. }) if note.contains(CUTS))
}

fn is_cut(event: &Event) -> bool {
    matches!(event, Event::Turn(TurnEvent::ModelLearnt(ModelNews { cut: true, .. })))
}

fn window(live: &Live, conversation: &cairn_core::conversation::Conversation) -> (u64, WindowSource) {
    let settings = live.runtime.agent(&"main".into()).unwrap().settings(conversation);
    (settings.window.window_tokens, settings.window.source)
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_told_once_that_the_server_cuts_and_nothing_larger_is_sent() {
    let mut world = World::new();
    world.settings.window.window_tokens = 12_000;
    world.model.cuts_at(3_000);
    let live = world.start().await;
    for n in 0..200 {
        if world.store.count(is_note) > 0 {
            break;
        }
        live.ask_in_group(&format!("m{n}"), &chatter(n)).await;
    }
    assert_eq!((world.store.count(is_note), world.store.count(is_cut)), (1, 1));
    world.net.until(1, |act| format!("{act:?}").contains(CUTS)).await;
    let (tokens, source) = window(&live, &world.store.conversation(&group()).unwrap());
    assert_eq!(source, WindowSource::Cut);
    assert!((2_500..=3_500).contains(&tokens), "{tokens}, with a reserve of 500");
    // A restart changes nothing of it, and nobody is told again.
    drop(live);
    let world = world.killed();
    let at = world.model.requests(Kind::Reply).len();
    let live = world.start().await;
    for n in 0..60 {
        live.ask_in_group(&format!("n{n}"), &chatter(n)).await;
    }
    let conversation = world.store.conversation(&group()).unwrap();
    assert_eq!(window(&live, &conversation), (tokens, WindowSource::Cut));
    assert_eq!((world.store.count(is_note), world.store.count(is_cut)), (1, 1));
    for request in &world.model.requests(Kind::Reply)[at..] {
        assert!(estimate(&words(request)) <= 3_000);
    }
    let ratio = conversation.correction("fake").ratio;
    assert!((0.9..=1.1).contains(&ratio), "{ratio}");
}

#[tokio::test(start_paused = true)]
async fn another_conversation_learns_it_without_a_note() {
    let mut world = World::new();
    world.settings.window.window_tokens = 12_000;
    world.model.cuts_at(3_000);
    let live = world.start().await;
    for n in 0..200 {
        if world.store.count(is_note) > 0 {
            break;
        }
        live.ask_in_group(&format!("m{n}"), &chatter(n)).await;
    }
    live.ask("a", "hello").await;
    assert_eq!(window(&live, &world.conversation()).1, WindowSource::Cut);
    assert_eq!((world.store.count(is_note), world.store.count(is_cut)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_before_its_first_token_is_an_overflow() {
    let world = World::new();
    let live = world.start().await;
    for n in 0..14 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let asked = estimate(&words(world.model.requests(Kind::Reply).last().unwrap()));
    world.model.plan(Kind::Reply, Plan::Silent(u64::from(asked)));
    assert_eq!(live.ask("last", "still there?").await, "re: still there?");
    assert_eq!(window(&live, &world.conversation()), (u64::from(asked), WindowSource::Learnt));
    let shorter = estimate(&words(world.model.requests(Kind::Reply).last().unwrap()));
    assert!(shorter < asked, "{shorter} of {asked}");
    assert_eq!(world.conversation().correction("fake").ratio, 1.0, "it says nothing of the estimate");
    // A request that is far below that window ends so for another reason.
    world.model.plan(Kind::Reply, Plan::Silent(u64::from(asked) / 2));
    assert_eq!(failure_code(live.say("again", "and now?").await).await, "cut_off");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_ends_before_its_first_token_is_tried_with_less() {
    let world = World::new();
    let live = world.start().await;
    world.model.plan(Kind::Run, Plan::Silent(1_500));
    for n in 0..60 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let committed = |event: &Event| matches!(event, Event::Compaction(CompactionEvent::RunEnded(end)) if end.outcome == RunOutcome::Committed);
    world.store.until(1, committed).await;
    let runs = world.model.requests(Kind::Run);
    let (first, second) = (estimate(&words(&runs[0])), estimate(&words(&runs[1])));
    assert!(second < first && second <= 1_500, "{second} of {first}");
}
