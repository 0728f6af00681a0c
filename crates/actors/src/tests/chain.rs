//! A chain of models: the next one answers at once where one fails, and the first comes back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::{AgentSettings, WindowSource};
use cairn_core::store_port::Store as _;
use cairn_types::event::{DeliveryEvent, Event, ModelNews, NewRecord, TurnEvent};
use cairn_types::message::Part;
use cairn_types::model::{ChatMessage, ModelError, Usage};
use cairn_types::ports::{Answer, Progress};
use cairn_types::tokens::estimate;
use futures::StreamExt as _;
use tokio::time::Instant;

use super::common::model::{FakeModel, Kind, Plan, words};
use super::common::*;
use crate::{AgentRuntime, ModelCandidate};
use cairn_core::chain::ModelState;

fn broken(error: ModelError) -> Plan {
    Plan::Broken("", error)
}

fn limited(secs: u64) -> ModelError {
    ModelError::RateLimited { message: "slow".to_owned(), retry_after: Some(Duration::from_secs(secs)) }
}

fn overflow(limit: Option<u64>) -> Plan {
    broken(ModelError::ContextOverflow { message: "too long".to_owned(), limit })
}

fn pair() -> World {
    World::new().followed_by("second", |_| {})
}

fn second(world: &World) -> &FakeModel {
    &world.others[0].1
}

/// The models that were chosen, in order, with the reasons.
fn chosen(world: &World) -> Vec<(String, String)> {
    let events = world.store.events().into_iter();
    let chosen = events.filter_map(|event| match event {
        Event::Turn(TurnEvent::ModelChosen { model, reason }) => Some((model, reason)),
        _ => None,
    });
    chosen.collect()
}

fn names(world: &World) -> Vec<String> {
    chosen(world).into_iter().map(|(model, _)| model).collect()
}

fn n(model: &FakeModel) -> usize {
    model.requests(Kind::Reply).len()
}

fn states(live: &Live) -> Vec<ModelState> {
    let agent = live.runtime.agent(&"main".into()).unwrap();
    live.runtime.models(&agent).into_iter().map(|model| model.state).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_model_answers_at_once() {
    let errors = [
        overloaded(),
        limited(600),
        ModelError::Timeout(Duration::from_secs(1)),
        ModelError::Transport("refused".to_owned()),
        ModelError::Protocol("cut off".to_owned()),
        ModelError::Auth("no key".to_owned()),
        no_such_model(),
    ];
    for error in errors {
        let world = pair();
        let live = world.start().await;
        let code = error.code();
        world.model.plan(Kind::Reply, broken(error));
        let start = Instant::now();
        assert_eq!(live.ask("a", "hello").await, "re: hello", "{code}");
        assert_eq!(start.elapsed(), Duration::ZERO, "{code}: it did not wait");
        assert_eq!((n(&world.model), n(second(&world))), (1, 1), "{code}");
        let chosen = chosen(&world);
        assert!(chosen.len() == 1 && chosen[0].0 == "second", "{chosen:?}");
        assert!(chosen[0].1.starts_with("`fake`: "), "{chosen:?}");
        let end = world.store.events().into_iter().find_map(|event| match event {
            Event::Turn(TurnEvent::Ended(end)) => end.model,
            _ => None,
        });
        assert_eq!(end.as_deref(), Some("second"), "{code}");
        let cooling = [ModelState::Cooling, ModelState::Answers];
        let well = [ModelState::Answers, ModelState::Ready];
        assert_eq!(states(&live), if code == "bad_request" { well } else { cooling }, "{code}");
        live.runtime.shutdown(Duration::ZERO).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_model_comes_back_when_its_cool_down_is_over() {
    let world = pair();
    let live = world.start().await;
    world.model.plan(Kind::Reply, broken(overloaded()));
    live.ask("a", "one").await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    live.ask("b", "two").await;
    assert_eq!((n(&world.model), n(second(&world))), (1, 2), "it was skipped");
    tokio::time::sleep(Duration::from_secs(2)).await;
    live.ask("c", "three").await;
    assert_eq!((n(&world.model), n(second(&world))), (2, 2));
    assert_eq!(names(&world), ["second", "fake"]);
    assert_eq!(states(&live), [ModelState::Answers, ModelState::Ready]);
    // It failed once more: twice in a row no longer, since it has answered meanwhile.
    world.model.plan(Kind::Reply, broken(limited(90)));
    live.ask("d", "four").await;
    tokio::time::sleep(Duration::from_secs(89)).await;
    live.ask("e", "five").await;
    assert_eq!((n(&world.model), n(second(&world))), (3, 4), "as long as its server asked for");
    tokio::time::sleep(Duration::from_secs(2)).await;
    live.ask("f", "six").await;
    assert_eq!(n(&world.model), 4);
}

#[tokio::test(start_paused = true)]
async fn what_one_conversation_finds_out_all_know() {
    let world = pair();
    let live = world.start().await;
    world.model.plan(Kind::Reply, broken(overloaded()));
    live.ask("a", "hello").await;
    assert_eq!(live.ask_in_group("b", "hi").await, "re: hi");
    assert_eq!((n(&world.model), n(second(&world))), (1, 2));
    assert!(chosen(&world)[1].1.contains("skipped until"), "{:?}", chosen(&world));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_failed_is_well_again_when_it_has_answered_and_not_when_it_was_skipped_for_long_enough()
{
    let (world, live) = started().await;
    let agent = live.runtime.agent(&"main".into()).unwrap();
    let is_well = || live.runtime.models(&agent).iter().map(|model| model.is_well).collect::<Vec<_>>();
    assert_eq!(is_well(), [true]);
    world.model.plan(Kind::Reply, broken(ModelError::refused("what?")));
    live.say("a", "hello").await.progress.collect::<Vec<_>>().await;
    assert_eq!(is_well(), [true], "that says nothing about the model");
    world.model.plan(Kind::Reply, broken(ModelError::Auth("no key".to_owned())));
    live.say("b", "hello").await.progress.collect::<Vec<_>>().await;
    tokio::time::sleep(Duration::from_secs(3 * 3_600)).await;
    assert_eq!((states(&live), is_well()), (vec![ModelState::Answers], vec![false]), "nobody has asked it");
    live.ask("c", "hello").await;
    assert_eq!(is_well(), [true]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_first_is_asked_again() {
    let world = pair();
    let live = world.start().await;
    world.model.plan(Kind::Reply, broken(limited(3_000)));
    live.ask("a", "hello").await;
    let world = world.killed();
    let live = world.start().await;
    assert_eq!(live.ask("b", "again").await, "re: again");
    assert_eq!(n(&world.model), 1);
    assert_eq!(names(&world), ["second", "fake"]);
}

#[tokio::test(start_paused = true)]
async fn with_all_down_a_local_turn_fails_when_its_time_is_over_and_names_each_of_them() {
    let world = pair();
    let live = world.start().await;
    for _ in 0..200 {
        world.model.plan(Kind::Reply, broken(overloaded()));
        second(&world).plan(Kind::Reply, broken(ModelError::Transport("refused".to_owned())));
    }
    let Answer::Failed(failure) = answer(live.say("a", "hello").await).await else { panic!("answered") };
    assert_eq!(failure.code, "turn_failed");
    assert!(failure.message.contains("`fake`") && failure.message.contains("`second`"), "{failure:?}");
    assert!(n(&world.model) > 1 && n(second(&world)) > 1, "both are tried again");
    assert!(states(&live).contains(&ModelState::Down));
}

#[tokio::test(start_paused = true)]
async fn with_all_down_a_chat_is_told_once_and_answered_by_whichever_comes_back() {
    let world = pair();
    let live = world.start().await;
    for _ in 0..400 {
        world.model.plan(Kind::Reply, broken(overloaded()));
    }
    for _ in 0..10 {
        second(&world).plan(Kind::Reply, broken(overloaded()));
    }
    let open = live.say_in_group("a", "hello").await;
    assert_eq!(reply(open).await, "re: hello");
    let notes = world
        .store
        .count(|event| matches!(event, Event::Delivery(DeliveryEvent::Intended { note: Some(_), .. })));
    assert_eq!(notes, 1);
    assert_eq!(names(&world).last().map(String::as_str), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_told_nothing_while_the_next_model_thinks() {
    let world = pair();
    let live = world.start().await;
    world.model.plan(Kind::Reply, broken(overloaded()));
    second(&world).plan(Kind::Reply, Plan::Slow(Duration::from_secs(20), vec!["at last".to_owned()]));
    assert_eq!(live.ask_in_group("a", "hello").await, "at last");
    assert_eq!(
        world
            .store
            .count(|event| matches!(event, Event::Delivery(DeliveryEvent::Intended { note: Some(_), .. }))),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn words_of_a_model_that_broke_do_not_stand_beside_those_of_the_next() {
    let world = pair();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Broken("half of an", overloaded()));
    let progress: Vec<_> = live.say("a", "hello").await.progress.collect().await;
    let restarted = progress.iter().position(|one| matches!(one, Progress::Restarted)).expect("void");
    let delta = |one: &Progress| match one {
        Progress::Delta(words) => Some(words.clone()),
        _ => None,
    };
    let shown: String = progress[restarted..].iter().filter_map(delta).collect();
    assert_eq!(shown, "re: hello");
    assert_eq!(world.store.history(&local())[1].text(), "re: hello");
}

#[tokio::test(start_paused = true)]
async fn a_draft_of_a_model_that_broke_gives_way_to_the_words_of_the_next() {
    let world = pair();
    world.net.show_drafts(Duration::from_secs(1));
    let live = world.start().await;
    let pause = Duration::from_secs(3);
    world.model.plan(Kind::Reply, Plan::SlowBroken(pause, "half of an", overloaded()));
    second(&world).plan(Kind::Reply, Plan::Slow(pause, vec!["a whole".to_owned(), " answer".to_owned()]));
    let open = live.say_in_group("a", "hello").await;
    assert_eq!(reply(open).await, "a whole answer");
    world.store.until(1, |event| matches!(event, Event::Delivery(DeliveryEvent::Settled { .. }))).await;
    assert_eq!(world.net.words(&group()), ["a whole answer"]);
    let shown = format!("{:?}", world.net.acts());
    assert!(shown.contains("half of an") && !shown.contains("half of ana"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_model_without_tools_is_asked_again_at_once_without_them() {
    let world = World::new().with_tools();
    let live = world.start().await;
    world.model.plan(Kind::Reply, broken(ModelError::NoTools("tools?".to_owned())));
    let start = Instant::now();
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    assert_eq!(start.elapsed(), Duration::ZERO);
    live.ask("b", "again").await;
    live.ask_in_group("c", "here, too").await;
    let tools: Vec<_> = world.model.requests(Kind::Reply).iter().map(|request| request.tools.len()).collect();
    assert!(tools[0] > 0 && tools[1..] == [0, 0, 0], "{tools:?}");
    let learnt = world.store.count(|event| {
        matches!(event, Event::Turn(TurnEvent::ModelLearnt(ModelNews { no_tools: Some(true), .. })))
    });
    assert_eq!(learnt, 2, "once for each conversation");
    assert_eq!(states(&live), [ModelState::Answers], "that is no failure of the model");
    // A server that goes on about tools where there are none is asked no more.
    world.model.plan(Kind::Reply, broken(ModelError::NoTools("tools?".to_owned())));
    assert_eq!(failure_code(live.say_in_group("d", "hm").await).await, "turn_failed");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_refused_tools_is_offered_them_again_after_a_day_and_after_a_start() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let refuses = || world.model.plan(Kind::Reply, broken(ModelError::NoTools("tools?".to_owned())));
    // Whether the requests since the last look had tools.
    let seen = std::cell::Cell::new(0);
    let tools = |model: &FakeModel| {
        let requests = model.requests(Kind::Reply);
        let had: Vec<_> = requests[seen.get()..].iter().map(|request| !request.tools.is_empty()).collect();
        seen.set(requests.len());
        had
    };
    refuses();
    live.ask("a", "hello").await;
    live.ask_in_group("b", "here, too").await;
    assert_eq!(tools(&world.model), [true, false, false]);
    world.off.fetch_add(86_400, std::sync::atomic::Ordering::SeqCst);
    refuses();
    live.ask("c", "and now?").await;
    live.ask_in_group("d", "and here?").await;
    assert_eq!(tools(&world.model), [true, false, false], "one refusal a day for all conversations");
    world.off.fetch_add(86_400, std::sync::atomic::Ordering::SeqCst);
    live.ask("e", "and now?").await;
    live.ask_in_group("f", "and here?").await;
    assert_eq!(tools(&world.model), [true, true], "the server was mended");
    refuses();
    live.ask("g", "and now?").await;
    assert_eq!(tools(&world.model), [true, false]);
    drop(live);
    let world = world.killed();
    let live = world.start().await;
    live.ask("h", "and now?").await;
    assert_eq!(world.model.requests(Kind::Reply).last().map(|request| request.tools.is_empty()), Some(false));
}

#[tokio::test(start_paused = true)]
async fn a_window_that_the_server_names_is_learnt_and_kept() {
    let (world, live) = started().await;
    for n in 0..14 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    world.model.plan(Kind::Reply, overflow(Some(1_600)));
    assert_eq!(live.ask("last", "still there?").await, "re: still there?");
    let world = world.killed();
    let live = world.start().await;
    let settings = live.runtime.agent(&"main".into()).unwrap().settings(&world.conversation());
    assert_eq!((settings.window.window_tokens, settings.window.source), (1_600, WindowSource::Learnt));
    for n in 20..40 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    for request in world.model.requests(Kind::Reply) {
        assert!(estimate(&words(&request)) <= 1_100);
    }
    assert_eq!(states(&live), [ModelState::Answers], "an overflow cools nothing down");
}

#[tokio::test(start_paused = true)]
async fn a_window_that_was_learnt_is_forgotten_when_the_server_lists_or_the_configuration_says_another() {
    let world = World::new();
    let live = world.start().await;
    for n in 0..14 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    world.model.plan(Kind::Reply, overflow(Some(1_600)));
    live.ask("last", "still there?").await;
    let window = |world: &World, live: &Live| {
        let settings = live.runtime.agent(&"main".into()).unwrap().settings(&world.conversation());
        (settings.window.window_tokens, settings.window.source)
    };
    assert_eq!(window(&world, &live), (1_600, WindowSource::Learnt));
    drop(live);
    let mut world = world.killed();
    world.settings.window.window_tokens = 9_000;
    let live = world.start().await;
    assert_eq!(window(&world, &live).0, 9_000);
    live.ask("more", "and now?").await;
    assert_eq!(window(&world, &live).0, 9_000, "nor is it taken from what others have learnt");
    // Refused again, it is learnt again.
    world.model.plan(Kind::Reply, overflow(Some(2_000)));
    live.ask("again", "and now?").await;
    assert_eq!(window(&world, &live), (2_000, WindowSource::Learnt));
}

fn learnt(world: &World) -> Vec<u64> {
    let windows = world.store.events().into_iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::ModelLearnt(ModelNews { window_tokens, bounds: Some(_), .. })) => {
            window_tokens
        }
        _ => None,
    });
    windows.collect()
}

#[tokio::test(start_paused = true)]
async fn a_window_that_no_refusal_names_is_learnt_at_the_second_call_and_raised_by_a_larger_one() {
    let (world, live) = started().await;
    for call in ["a", "b"] {
        for n in 0..10 {
            live.ask(&format!("{call}{n}"), &chatter(n)).await;
        }
        world.model.plan(Kind::Reply, overflow(None));
        world.model.plan(Kind::Reply, overflow(None));
        assert_eq!(learnt(&world).len(), 0, "further tries of one call count once");
        live.ask(call, "still there?").await;
    }
    let first = *learnt(&world).last().unwrap();
    assert!(first < WINDOW, "{first}");
    let window = |world: &World, live: &Live| {
        let settings = live.runtime.agent(&"main".into()).unwrap().settings(&world.conversation());
        (settings.window.window_tokens, settings.window.source)
    };
    assert_eq!(window(&world, &live), (first, WindowSource::Learnt));

    // The server takes more than that after all.
    drop(live);
    let world = world.killed();
    let usage = Usage { input_tokens: 2_300, output_tokens: 10, ..Usage::default() };
    let event = Event::Turn(TurnEvent::UsageReported {
        model: "fake".into(),
        estimated: 2_300,
        usage,
        disbelieved: None,
        is_estimate: false,
        set_window: None,
        caused_by: BTreeSet::new(),
        trace: None,
    });
    let reported = NewRecord { channel: Some(local()), at: world.conversation().last_at, event };
    world.store.append(vec![reported]).await.unwrap();
    let live = world.start().await;
    live.ask("last", "still there?").await;
    assert_eq!(learnt(&world).last(), Some(&2_800), "what was taken, and the answer's reserve");
    assert_eq!(window(&world, &live), (2_800, WindowSource::Learnt));
}

#[tokio::test(start_paused = true)]
async fn a_window_that_cannot_be_is_not_learnt() {
    let (world, live) = started().await;
    // Larger than what we believe; smaller than the prompt.
    for limit in [1_000_000, 17] {
        world.model.plan(Kind::Reply, overflow(Some(limit)));
        assert_eq!(live.ask(&format!("{limit}"), "hello").await, "re: hello");
    }
    assert_eq!(world.store.count(|event| matches!(event, Event::Turn(TurnEvent::ModelLearnt(_)))), 0);
}

#[tokio::test(start_paused = true)]
async fn a_model_with_a_larger_window_is_asked_before_a_turn_fails_for_its_size() {
    let world = World::new()
        .followed_by("as-small", |_| {})
        .followed_by("large", |settings| settings.window.window_tokens = 30_000);
    let live = world.start().await;
    for _ in 0..4 {
        world.model.plan(Kind::Reply, overflow(None));
    }
    let question = chatter(1).repeat(10);
    assert_eq!(live.ask("a", &question).await, format!("re: {question}"));
    assert_eq!((n(&world.model), n(&world.others[0].1), n(&world.others[1].1)), (4, 0, 1));
    assert!(chosen(&world)[0].1.contains("4 times"), "{:?}", chosen(&world));
    assert_eq!(live.ask("b", "smaller").await, "re: smaller");
    assert_eq!(n(&world.model), 5, "the first is as well as before");
}

#[tokio::test(start_paused = true)]
async fn attachments_survive_an_overflow() {
    let (world, live) = started().await;
    for n in 0..4 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    let picture = Part::Image { name: None, media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let mut asked = message(&local(), "pic", "what is this?");
    asked.parts.push(picture.clone());
    for _ in 0..3 {
        world.model.plan(Kind::Reply, overflow(None));
    }
    reply(live.submit(asked).await.unwrap()).await;
    let requests = world.model.requests(Kind::Reply);
    for request in &requests[4..] {
        let has = request.messages.iter().any(|message| match message {
            ChatMessage::User { parts } => parts.contains(&picture),
            _ => false,
        });
        assert!(has, "{request:?}");
    }
    assert_eq!(requests.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_model_whose_listed_window_is_too_small_is_passed_over() {
    let mut world = World::new();
    world.settings.window.source = WindowSource::Server;
    let world = world.followed_by("second", |settings| {
        settings.window.source = WindowSource::Server;
        settings.window.window_tokens = 2_000;
    });
    let live = world.start().await;
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    assert_eq!((n(&world.model), n(second(&world))), (0, 1), "the last of the chain is never refused");
    assert_eq!(states(&live), [ModelState::PassedOver, ModelState::Answers]);
    assert!(chosen(&world).is_empty(), "it is no failover");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_leaves_no_room_goes_to_a_model_with_a_larger_window() {
    let mut world = World::new();
    world.settings.system_prompt = chatter(1).repeat(400);
    let world = world.followed_by("second", |settings| settings.window.window_tokens = 100_000);
    let live = world.start().await;
    assert_eq!(live.ask("a", "hello").await, "re: hello");
    assert_eq!(live.ask("b", "hello").await, "re: hello");
    assert_eq!((n(&world.model), n(second(&world))), (0, 2));
    assert_eq!(names(&world), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn a_window_too_small_for_prompt_and_tools_costs_no_history_where_another_model_has_the_room() {
    let world = World::new().followed_by("second", |settings| settings.window.window_tokens *= 4);
    let live = world.start().await;
    for text in ["one", "two", "three"] {
        live.ask(text, text).await;
    }
    world.model.plan(Kind::Reply, overflow(Some(20)));
    assert_eq!(live.ask("four", "four").await, "re: four");
    assert_eq!(names(&world), ["second"]);
    assert!(chosen(&world)[0].1.contains("takes 20 tokens"), "{:?}", chosen(&world));
    assert_eq!((n(&world.model), n(second(&world))), (4, 1));
    assert_eq!(world.store.count(is_emergency), 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_keeps_its_agent_through_a_reload() {
    let world = World::new().with_tools();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Calls(vec![("no_such_tool", serde_json::json!({}))]));
    let gate = world.model.hold(Kind::Reply);
    let first = live.say("a", "who are you?").await;
    world.model.until(1, Kind::Reply).await;
    let newer = FakeModel::named("newer");
    let settings = AgentSettings {
        model: "newer".to_owned(),
        system_prompt: "You are a pirate.".to_owned(),
        ..world.settings.clone()
    };
    live.runtime.set_agents(vec![AgentRuntime::new(ModelCandidate {
        settings: Arc::new(settings),
        model: Arc::clone(&newer) as Arc<dyn cairn_types::ports::ChatModel>,
    })]);
    gate.add_permits(10);
    assert_eq!(reply(first).await, "re: who are you?");
    assert_eq!((world.model.requests(Kind::Reply).len(), newer.requests(Kind::Reply).len()), (2, 0));
    live.ask("b", "and now?").await;
    let requests = newer.requests(Kind::Reply);
    assert!(requests.len() == 1 && words(&requests[0]).contains("You are a pirate."));
    let used: Vec<String> = world
        .store
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Turn(TurnEvent::UsageReported { model, .. }) => Some(model),
            _ => None,
        })
        .collect();
    assert_eq!(used, ["fake", "fake", "newer"]);
}
