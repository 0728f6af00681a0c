//! Answers that the model did not end itself: cut, refused, filtered.

use cairn_types::event::{DeliveryEvent, Event, TurnEvent};
use cairn_types::message::{Entry, REFUSED_TEXT, Role};
use cairn_types::model::Finish;
use cairn_types::ports::{Answer, Progress, Reply};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::common::model::{Kind, Plan, words};
use super::common::*;

const CUTS: [Finish; 5] =
    [Finish::Length, Finish::ContextWindow, Finish::Pause, Finish::Refusal, Finish::ContentFilter];

fn ended(finish: Finish, text: &'static str, calls: Vec<(&'static str, Value)>) -> Plan {
    Plan::Ended(finish, text, calls)
}

/// What is shown of an answer while it comes, and the answer.
async fn shown(live: &Live, id: &str, text: &str) -> (String, Reply) {
    let progress: Vec<_> = live.say(id, text).await.progress.collect().await;
    let deltas = progress.iter().filter_map(|piece| match piece {
        Progress::Delta(text) => Some(text.as_str()),
        _ => None,
    });
    let shown = deltas.collect();
    match progress.last() {
        Some(Progress::Ended(Answer::Reply(reply))) => (shown, reply.clone()),
        other => panic!("no reply: {other:?}"),
    }
}

fn answers(world: &World) -> Vec<Entry> {
    let entries = world.store.history(&local()).into_iter();
    entries.filter(|entry| entry.role == Role::Assistant).map(|entry| Entry::clone(&entry)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_or_refused_says_so_to_people_and_to_the_model() {
    for finish in CUTS {
        let (world, live) = started().await;
        world.model.plan(Kind::Reply, ended(finish, "The first three are oak, ash and", Vec::new()));
        let (shown, reply) = shown(&live, "a", "name five trees").await;
        assert_eq!(reply.finish, Some(finish));
        assert!(reply.reply.starts_with("The first three are oak, ash and\n\n("), "{}", reply.reply);
        assert_eq!(shown, reply.reply, "{finish:?}: who watched it come saw all of it");
        let entry = &answers(&world)[0];
        assert_eq!((entry.finish, entry.text()), (Some(finish), reply.reply.clone()));
        let offers = matches!(finish, Finish::Length | Finish::ContextWindow | Finish::Pause);
        assert_eq!(reply.reply.contains("`go on`"), offers, "{finish:?}");

        assert_eq!(live.ask("b", "go on").await, "re: go on");
        let request = words(&world.model.requests(Kind::Reply)[1]);
        assert!(request.contains(&reply.reply), "the model sees what people saw: {request}");
        assert_eq!(answers(&world)[1].finish, None);
        // The same from the journal.
        let world = world.killed();
        let live = world.start().await;
        let again = answer(live.say("a", "name five trees").await).await;
        assert_eq!(again, Answer::Reply(reply), "{finish:?}");
        check_coverage(&world.conversation());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_a_word_is_told_as_that() {
    for (finish, code, note, n_asked) in [
        (Finish::Refusal, "refusal", "declined to answer", 2),
        (Finish::ContentFilter, "content_filter", "content filter", 2),
        (Finish::Length, "cut_off", "no room left for an answer", 1),
    ] {
        let (world, live) = started().await;
        (0..n_asked).for_each(|_| world.model.plan(Kind::Reply, ended(finish, "", Vec::new())));
        assert_eq!(failure_code(live.say_in_group("a", "hm").await).await, code);
        let told = world.store.events().into_iter().find_map(|event| match event {
            Event::Delivery(DeliveryEvent::Intended { note, .. }) => note,
            _ => None,
        });
        let told = told.unwrap();
        assert!(told.contains(note) && !told.contains("something went wrong"), "{told}");
        assert_eq!(
            world.model.requests(Kind::Reply).len(),
            n_asked,
            "as it is, and by itself where that may help"
        );
        assert_eq!(live.ask_in_group("b", "and now?").await, "re: and now?");
        let is_left_out = last_request(&world).contains(REFUSED_TEXT);
        assert_eq!(is_left_out, n_asked > 1, "{code}: others are not refused for it");
    }
}

#[tokio::test(start_paused = true)]
async fn where_one_model_declines_the_next_of_the_chain_is_asked() {
    let world = World::new().followed_by("second", |_| {});
    let live = world.start().await;
    world.model.plan(Kind::Reply, ended(Finish::Refusal, "", Vec::new()));
    assert_eq!(live.ask("a", "hm").await, "re: hm");
    let chosen = |event: &Event| matches!(event, Event::Turn(TurnEvent::ModelChosen { model, .. }) if model == "second");
    assert_eq!(world.store.count(chosen), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_is_not_made_and_the_cut_is_told() {
    for finish in CUTS {
        for arguments in [json!("{\"kind\": \"fact\", \"text\": \"Ann pre"), json!("")] {
            let world = World::new().with_tools();
            let live = world.start().await;
            let calls = vec![("memory_save", arguments)];
            world.model.plan(Kind::Reply, ended(finish, "I note that.", calls));
            let reply = live.ask("a", "note that I prefer tea").await;
            assert!(reply.starts_with("I note that.\n\n("), "{reply}");
            let entries = world.store.history(&local());
            assert!(entries.iter().all(|entry| entry.role != Role::Tool && entry.tool_calls.is_empty()));
            assert!(world.store.saved_memories().is_empty());
            assert_eq!(live.ask("b", "go on").await, "re: go on");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_call_without_words_is_an_answer_that_says_so() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let calls = vec![("memory_save", json!("{\"text\": \"Ann"))];
    world.model.plan(Kind::Reply, ended(Finish::Length, "", calls));
    let (shown, reply) = shown(&live, "a", "note that").await;
    assert!(reply.reply.starts_with("(Cut off here in the middle of a tool call"), "{}", reply.reply);
    assert_eq!((shown, reply.finish), (reply.reply.clone(), Some(Finish::Length)));
    live.ask("b", "go on").await;
    assert!(words(&world.model.requests(Kind::Reply)[1]).contains("which was not made"));
}

#[tokio::test(start_paused = true)]
async fn whole_calls_before_a_cut_are_made_and_those_of_a_refused_answer_are_not() {
    for (finish, saved) in [(Finish::Length, 1), (Finish::Refusal, 0)] {
        let world = World::new().with_tools();
        let live = world.start().await;
        let memory = json!({ "kind": "preference", "text": "Ann prefers tea" });
        let calls = vec![("memory_save", memory), ("memory_save", json!("{\"kind\": \"fa"))];
        world.model.plan(Kind::Reply, ended(finish, "Wait.", calls));
        live.ask("a", "note all that").await;
        assert_eq!(world.store.saved_memories().len(), saved, "{finish:?}");
        assert_eq!(answers(&world)[0].finish, Some(finish));
        assert_eq!(answers(&world)[0].tool_calls.len(), saved);
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_without_room_for_a_word_is_an_overflow() {
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, ended(Finish::ContextWindow, "", Vec::new()));
    assert_eq!(live.ask("a", "hello").await, "re: hello", "it is asked again, with less");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_was_cut_or_refused_is_never_committed() {
    for finish in CUTS {
        let (world, live) = started().await;
        let half = || ended(finish, "## Critical context\nThey spoke of the lake and", Vec::new());
        (0..2).for_each(|_| world.model.plan(Kind::Run, half()));
        live.fill_until_run(&world).await;
        world.store.until(1, is_run_ended).await;
        let end = &ends(&world)[0];
        assert_eq!(end.attempts, 2, "{finish:?}: the first was of no use");
        assert!(!end.summary.as_ref().unwrap().text.contains("the lake and"), "{finish:?}");
    }
}
