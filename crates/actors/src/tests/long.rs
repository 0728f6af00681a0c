//! A message larger than what the window takes: kept whole, shown as head and tail, and told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_types::event::{ArtifactEvent, CompactionEvent, DeliveryEvent, Event, PruneCause};
use cairn_types::message::{Entry, Role};
use cairn_types::ports::{Answer, Reply};
use cairn_types::text::edges::MESSAGE_NOTICE;
use cairn_types::tokens::estimate;
use serde_json::json;

use super::common::model::{Kind, Plan};
use super::common::*;

const TOLD: &str = "more than I can take in at once";

fn world() -> World {
    let mut world = World::new().with_tools();
    world.settings.window.window_tokens = 8_000;
    world
}

fn giant() -> String {
    (1..=2_500).map(|n| format!("line {n}: {}\n", chatter(n % 7))).collect()
}

async fn asked(live: &Live, id: &str, text: &str) -> Reply {
    match answer(live.say(id, text).await).await {
        Answer::Reply(reply) => reply,
        Answer::Failed(failure) => panic!("{failure:?}"),
    }
}

fn is_shortened(event: &Event) -> bool {
    matches!(event, Event::Compaction(CompactionEvent::ResultsPruned { cause: PruneCause::Message, .. }))
}

#[tokio::test(start_paused = true)]
async fn it_is_kept_whole_and_the_model_can_read_on() {
    let world = world();
    let live = world.start().await;
    for n in 0..5 {
        live.ask(&format!("before-{n}"), &chatter(n)).await;
    }
    world.model.plan(Kind::Reply, Plan::Text("I see.".to_owned()));
    let text = giant();
    let reply = asked(&live, "giant", &text).await;
    let told = reply.notice.unwrap();
    assert!(told.contains(TOLD) && told.contains("can read on in it"), "{told}");
    let request = last_request(&world);
    assert!(request.contains(MESSAGE_NOTICE) && request.contains("artifact a1"), "{request}");
    assert!(
        request.contains("line 1: ") && request.contains("line 2500: ") && !request.contains("line 1250: ")
    );
    assert!(u64::from(estimate(&request)) < 7_500);
    assert_eq!(world.store.count(is_emergency), 0, "nothing else had to leave for it");
    let history = world.store.history(&local());
    assert_eq!(history[10].text(), text, "what is kept is whole");

    // The file is durable before anything names it, and both records are one batch.
    let events = world.store.events();
    let at = events.iter().position(is_shortened).unwrap();
    assert!(
        matches!(&events[at - 1], Event::Artifact(ArtifactEvent::Stored { artifact }) if artifact.message == Some(history[10].seq))
    );
    assert_eq!(world.store.artifacts.names(), ["main/local/main a1"]);

    // The same id again has the same answer, with what is to be known of it.
    assert_eq!(asked(&live, "giant", &text).await.notice, Some(told));
    let next = request.split("from = ").nth(1).unwrap().split('.').next().unwrap().parse::<u64>().unwrap();
    drop(live);
    let world = world.killed();
    let live = world.start().await;
    let call = json!({ "id": "a1", "from": next, "count": 1 });
    world.model.plan(Kind::Reply, Plan::Calls(vec![("artifact_read", call)]));
    world.model.plan(Kind::Reply, Plan::Text("Now I see.".to_owned()));
    assert_eq!(asked(&live, "go-on", "read on").await.notice, None, "it is told with its own answer alone");
    let is_result = |entry: &&Arc<Entry>| entry.role == Role::Tool;
    let page = world.store.history(&local()).iter().rfind(is_result).unwrap().text();
    assert!(page.contains(&format!("line {next}: ")), "{page}");
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_told_once_before_the_answer() {
    let world = world();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Text("I see.".to_owned()));
    live.ask_in_group("giant", &giant()).await;
    let note = world.store.events().into_iter().find_map(|event| match event {
        Event::Delivery(DeliveryEvent::Intended { note: Some(note), reply_to, .. }) => Some((note, reply_to)),
        _ => None,
    });
    let (words, reply_to) = note.unwrap();
    assert!(words.contains(TOLD) && reply_to == Some("giant".into()), "{words}");
    world.net.until(2, |act| format!("{act:?}").contains("see")).await;
    let said = world.net.words(&group());
    assert!(said[0].contains(TOLD) && said[1] == "I see.", "{said:?}");
    live.ask_in_group("next", "and now?").await;
    assert_eq!(world.net.words(&group()).iter().filter(|words| words.contains(TOLD)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_taken_up_again_stores_and_tells_nothing_twice() {
    let world = world();
    let live = world.start().await;
    let _held = world.model.hold(Kind::Reply);
    drop(live.say_in_group("giant", &giant()).await);
    world.store.until(1, is_shortened).await;
    world.model.until(1, Kind::Reply).await;
    drop(live);
    let world = world.killed();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Text("I see.".to_owned()));
    world.store.until(1, is_turn_ended).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.store.count(is_shortened), 1);
    assert_eq!(world.store.artifacts.names().len(), 1);
    let is_told = |event: &Event| matches!(event, Event::Delivery(DeliveryEvent::Intended { note: Some(note), .. }) if note.contains(TOLD));
    assert_eq!(world.store.count(is_told), 1);
    drop(live);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_costs_the_reading_on_and_no_word() {
    let world = world();
    let live = world.start().await;
    world.store.artifacts.full.store(true, Ordering::SeqCst);
    world.model.plan(Kind::Reply, Plan::Text("I see.".to_owned()));
    let text = giant();
    let told = asked(&live, "giant", &text).await.notice.unwrap();
    assert!(told.contains(TOLD) && !told.contains("read on"), "{told}");
    let request = last_request(&world);
    assert!(request.contains(MESSAGE_NOTICE) && !request.contains("artifact a1"), "{request}");
    assert_eq!(world.store.history(&local())[0].text(), text);
}

#[tokio::test(start_paused = true)]
async fn the_copy_goes_when_the_message_has_left_the_window() {
    let world = world();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Text("I see.".to_owned()));
    asked(&live, "giant", &giant()).await;
    live.runtime.new_generation(&local()).await.unwrap();
    assert_eq!(world.store.artifacts.names().len(), 1);
    tokio::time::sleep(Duration::from_secs(25 * 3_600)).await;
    live.ask("later", "hello").await;
    settle().await;
    assert_eq!(world.store.artifacts.names(), Vec::<String>::new());
    assert_eq!(world.store.history(&local())[0].text(), giant(), "the history keeps it");
}

#[tokio::test(start_paused = true)]
async fn where_even_the_note_has_no_room_it_is_cut_and_told_all_the_same() {
    let mut world = World::new();
    world.settings.window.window_tokens = 700;
    world.settings.window.output_reserve_tokens = 100;
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Text("I see.".to_owned()));
    let told = asked(&live, "giant", &giant()).await.notice.unwrap();
    assert!(told.contains(TOLD), "{told}");
}
