//! The tools of the channel's model.

use cairn_types::event::{CompactionEvent, Event, MemoryEvent, NewRecord, RegistryEvent, TurnEvent};
use cairn_types::ids::{MemoryId, Seq};
use cairn_types::memory::{Scope, Share};
use cairn_types::message::{Amendment, Author, Change, Inbound, Role};
use cairn_types::model::ModelError;
use cairn_types::ports::{Answer, Intake as _, Progress};
use cairn_types::tool::CALLS_MAX;
use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::json;

use super::common::model::{Kind, Plan, words};
use super::common::*;

/// Has the model make one call and returns what it was told.
async fn result_of(world: &World, live: &Live, name: &'static str, arguments: serde_json::Value) -> String {
    world.model.plan(Kind::Reply, Plan::Calls(vec![(name, arguments)]));
    let id = format!("call-{}", world.store.records().len());
    live.ask(&id, "please look").await;
    let history = world.store.history(&local());
    history.iter().rev().find(|entry| entry.role == Role::Tool).unwrap().text()
}

#[tokio::test(start_paused = true)]
async fn a_saved_memory_is_scoped_to_the_chat_and_recalled_in_the_next_turn() {
    let mut world = World::new().with_tools();
    world.settings.recall_limit = 3;
    let live = world.start().await;
    let memory = json!({ "kind": "preference", "text": "Ann prefers tea" });
    assert_eq!(result_of(&world, &live, "memory_save", memory).await, "saved");
    let [memory] = &world.store.saved_memories()[..] else { panic!("one memory") };
    assert_eq!(memory.scope, Scope::Chat { platform: "local".to_owned(), chat: "main".to_owned() });
    let admission = live.say("next", "what does Ann drink?").await;
    let cairn_types::ports::Answer::Reply(reply) = answer(admission).await else { panic!("failed") };
    assert_eq!(reply.recalled, std::slice::from_ref(&memory.id));
    assert!(words(world.model.requests(Kind::Reply).last().unwrap()).contains("Ann prefers tea"));
    let other = "main/local/other".parse().unwrap();
    let elsewhere = live.submit(message(&other, "x", "what does Ann drink?")).await.unwrap();
    let cairn_types::ports::Answer::Reply(reply) = answer(elsewhere).await else { panic!("failed") };
    assert!(reply.recalled.is_empty(), "another chat does not know");
}

#[tokio::test(start_paused = true)]
async fn a_save_tells_what_is_near_and_says_what_holds_no_longer_on_the_word_of_whoever_said_it() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let said = |text: &str| json!({ "kind": "fact", "text": text, "subject": "Ann" });
    assert_eq!(result_of(&world, &live, "memory_save", said("Ann lives in Lisbon")).await, "saved");
    let told = result_of(&world, &live, "memory_save", said("Ann lives in Berlin")).await;
    let old = world.store.saved_memories()[0].id.clone();
    assert!(
        told.contains(&format!("- {old}: Ann lives in Lisbon [")) && told.contains("`replaces`"),
        "{told}"
    );
    let mut again = said("Ann lives in Berlin");
    (again["replaces"], again["from"]) = (json!([old]), json!("2026-03-01"));
    result_of(&world, &live, "memory_save", again.clone()).await;
    let replaced = |event: &Event| matches!(event, Event::Memory(MemoryEvent::Saved(save)) if save.replaces.ids == [old.clone()]);
    assert_eq!(world.store.count(replaced), 1);
    again["replaces"] = json!(["m0000000000000000"]);
    let wrong = result_of(&world, &live, "memory_save", again).await;
    assert!(wrong.starts_with("error:") && wrong.contains("there is no memory m0000000000000000"), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_told_what_is_known_and_a_list_of_memories_replaces_only_what_is_there() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let known = json!({ "kind": "fact", "text": "Ann walks by the lake in the evening sun" });
    assert_eq!(result_of(&world, &live, "memory_save", known).await, "saved");
    let old = world.store.saved_memories()[0].id.clone();
    world.model.plan(Kind::Run, Plan::Broken("", ModelError::NoTools("tools?".to_owned())));
    let save = |text: &str, id: &str| json!({ "kind": "fact", "text": text, "replaces": [id] });
    let list = json!([save("Ann walks by the river", old.as_str()), save("Ann swims", "m0000000000000000")]);
    world.model.plan(Kind::Run, Plan::Text(format!("## Goal\n- walk by the river\n\n```json\n{list}\n```")));
    live.fill_until_run(&world).await;
    world.store.until(1, is_run_ended).await;
    for request in world.model.requests(Kind::Run) {
        let told = words(&request);
        assert!(told.contains(&format!("<known-memories>\n- {old}: Ann walks by the lake")), "{told}");
    }
    let memories = &ends(&world)[0].memories;
    let replaced: Vec<&[MemoryId]> = memories.iter().map(|memory| &memory.replaces.ids[..]).collect();
    assert_eq!(replaced, [&[old][..], &[]], "{memories:?}");
}

#[tokio::test(start_paused = true)]
async fn words_that_left_the_window_are_quoted_where_they_fit_and_never_once_they_are_deleted() {
    let mut world = World::new().with_tools();
    world.settings.quote_tokens = 300;
    let live = world.start().await;
    live.ask("ferry", "the Albatross leaves at ten").await;
    let last = |world: &World| words(world.model.requests(Kind::Reply).last().unwrap());
    live.ask("early", "when does the Albatross leave?").await;
    assert!(!last(&world).contains("Earlier words"), "all of it stands in the window");
    for n in 0..10 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    live.runtime.compact(&local(), None, false).await.unwrap().run().unwrap().ended.await.unwrap();
    live.ask("late", "Albatross").await;
    let quote = "#1 Ann said: \"the Albatross leaves at ten\"";
    assert!(last(&world).contains(quote), "{}", last(&world));
    let quoted = |event: &Event| matches!(event, Event::Memory(MemoryEvent::Recalled { quotes, .. }) if quotes[0].seq == Seq(1));
    assert_eq!(world.store.count(quoted), 1);
    let change = Amendment {
        channel: local(),
        message: "ferry".into(),
        at: Timestamp::UNIX_EPOCH,
        change: Change::Deleted,
    };
    live.runtime.amend(change).await.unwrap();
    live.ask("later", "Albatross").await;
    assert!(!last(&world).contains("#1 Ann said"), "{}", last(&world));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_said_of_themselves_in_a_group_is_recalled_in_their_private_chat_alone() {
    for (share, follows) in [(Share::Chat, false), (Share::Person, true)] {
        let mut world = World::new().with_tools();
        world.settings.recall_limit = 3;
        world.settings.memory.share = share;
        let live = world.start().await;
        let of = |name: &str| Author { id: format!("net/{}", name.to_lowercase()), name: name.to_owned() };
        let said = |channel: &str, id: &str, who: &str, text: &str| Inbound {
            author: of(who),
            direct: !channel.ends_with("group"),
            ..message(&channel.parse().unwrap(), id, text)
        };
        let hers = json!({ "kind": "fact", "text": "Ann is allergic to nuts", "subject": "Ann" });
        let his = json!({ "kind": "fact", "text": "Ann owes money for nuts", "subject": "Ann" });
        world.model.plan(Kind::Reply, Plan::Calls(vec![("memory_save", hers), ("memory_save", his)]));
        let group = "main/net/group";
        reply(live.submit(said(group, "a", "Bob", "does Ann owe any money?")).await.unwrap()).await;
        world.model.plan(
            Kind::Reply,
            Plan::Calls(vec![(
                "memory_save",
                json!({ "kind": "fact", "text": "Ann is allergic to fresh nuts", "subject": "Ann" }),
            )]),
        );
        reply(live.submit(said(group, "b", "Ann", "I am allergic to fresh nuts")).await.unwrap()).await;
        let (by, told_by): (Vec<_>, Vec<_>) = world
            .store
            .saved_memories()
            .into_iter()
            .map(|memory| (memory.source.by, memory.source.told_by))
            .unzip();
        assert_eq!(by, [None, None, Some(of("Ann"))], "only what she said herself is hers");
        assert_eq!(told_by, [None, Some(of("Bob")), None]);
        let recalled = async |channel: &str, who: &str| {
            let admission = live.submit(said(channel, "q", who, "allergic to nuts?")).await.unwrap();
            let Answer::Reply(reply) = answer(admission).await else { panic!("failed") };
            reply.recalled.len()
        };
        assert_eq!(recalled("main/net/ann", "Ann").await, usize::from(follows), "{share:?}");
        assert_eq!(recalled("main/net/bob", "Bob").await, 0, "{share:?}");
        assert_eq!(recalled("main/net/othergroup", "Ann").await, 0, "{share:?}");
        assert_eq!(recalled(group, "Bob").await, 2, "{share:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_model_forgets_only_what_the_asker_said_of_themselves() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let group: cairn_types::ids::ChannelId = "main/net/group".parse().unwrap();
    let said = |id: &str, who: &str, text: &str| Inbound {
        author: Author { id: format!("net/{}", who.to_lowercase()), name: who.to_owned() },
        ..message(&group, id, text)
    };
    let called = async |tool, arguments, inbound| {
        world.model.plan(Kind::Reply, Plan::Calls(vec![(tool, arguments)]));
        reply(live.submit(inbound).await.unwrap()).await;
        let history = world.store.history(&group);
        history.iter().rev().find(|entry| entry.role == Role::Tool).unwrap().text()
    };
    let nuts = json!({ "kind": "fact", "text": "Ann is allergic to fresh nuts", "subject": "Ann" });
    called("memory_save", nuts, said("a", "Ann", "I am allergic to fresh nuts")).await;
    let id = json!({ "id": world.store.saved_memories()[0].id });
    let forgotten =
        |event: &Event| matches!(event, Event::Memory(MemoryEvent::Forgotten { wished: true, .. }));
    let refused = called("memory_forget", id.clone(), said("b", "Bob", "forget what Ann said")).await;
    assert!(refused.starts_with("error:") && refused.contains("said of themselves"), "{refused}");
    assert_eq!(world.store.count(forgotten), 0);
    let none = called("memory_forget", json!({ "id": "m0" }), said("c", "Ann", "forget it")).await;
    assert!(none.contains("no memory `m0` here"), "{none}");
    let done = called("memory_forget", id, said("d", "Ann", "please forget my allergy")).await;
    assert!(done.starts_with("forgotten: "), "{done}");
    assert_eq!(world.store.count(forgotten), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_learnt_from_whoever_is_private() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let user = message(&local(), "x", "x").author.id;
    let event = Event::Registry(RegistryEvent::PrivacySet { user, chat: None, on: true });
    world.store.push(vec![NewRecord { channel: None, at: Timestamp::UNIX_EPOCH, event }]);
    let memory = json!({ "kind": "fact", "text": "Ann sails" });
    let refused = result_of(&world, &live, "memory_save", memory).await;
    assert!(refused.starts_with("error:") && refused.contains("is private"), "{refused}");
    assert!(world.store.saved_memories().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_history_can_be_searched_and_read() {
    let world = World::new().with_tools();
    let live = world.start().await;
    live.ask("a", "the boat is called Albatross").await;
    let found = result_of(&world, &live, "history_search", json!({ "query": "Albatross" })).await;
    assert!(found.contains("[#1 ") && found.contains("the boat is called"));
    let read = result_of(&world, &live, "history_read", json!({ "from": 1, "to": 2 })).await;
    assert!(read.contains("Ann] the boat") && read.contains("assistant] re: the boat"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_call_is_told_to_the_model_and_the_turn_goes_on() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let wrong = result_of(&world, &live, "memory_save", json!("not an object")).await;
    assert!(wrong.starts_with("error: `text` is missing"), "{wrong}");
    let unknown = result_of(&world, &live, "rm_rf", json!({})).await;
    assert!(unknown.contains("there is no tool `rm_rf`"), "{unknown}");
    let backwards = result_of(&world, &live, "history_read", json!({ "from": 9, "to": 2 })).await;
    assert!(backwards.contains("is after"), "{backwards}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_sees_the_tools_at_work() {
    let world = World::new().with_tools();
    let live = world.start().await;
    world.model.plan(Kind::Reply, Plan::Calls(vec![("history_search", json!({ "query": "x" }))]));
    let progress: Vec<_> = live.say("a", "look").await.progress.collect().await;
    let tools: Vec<_> = progress
        .iter()
        .filter_map(|progress| match progress {
            Progress::Tool { state, .. } => Some(*state),
            Progress::Delta(_)
            | Progress::Restarted
            | Progress::Approval(_)
            | Progress::Waiting(_)
            | Progress::Ended(_)
            | Progress::ClientCalls { .. } => None,
        })
        .collect();
    assert_eq!(tools, ["started", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_calls_tools_without_end_fails_the_turn_whole() {
    let world = World::new().with_tools();
    let live = world.start().await;
    for _ in 0..world.settings.max_rounds {
        world.model.plan(Kind::Reply, Plan::Calls(vec![("history_search", json!({ "query": "x" }))]));
    }
    assert_eq!(failure_code(live.say("a", "look").await).await, "turn_failed");
    let calls = world
        .store
        .count(|e| matches!(e, Event::Turn(TurnEvent::EntryAdded { entry }) if !entry.tool_calls.is_empty()));
    let results = world
        .store
        .count(|e| matches!(e, Event::Turn(TurnEvent::EntryAdded { entry }) if entry.role == Role::Tool));
    assert_eq!((calls, results), (8, 8));
    assert_eq!(live.ask("b", "never mind").await, "re: never mind");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_calls_only_what_there_is_not_must_soon_answer_in_words() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let wrong = |n: usize| {
        let malformed = Plan::Calls(vec![("memory_search", json!("{\"query\": \"x"))]);
        if n.is_multiple_of(2) {
            Plan::Calls(vec![("malformed_call", json!("<tool_call>x"))])
        } else {
            malformed
        }
    };
    (0..3).for_each(|n| world.model.plan(Kind::Reply, wrong(n)));
    assert_eq!(live.ask("a", "look").await, "re: look");
    let asked = world.model.requests(Kind::Reply);
    let last_calls: Vec<_> = asked.iter().map(|request| request.last_call).collect();
    assert_eq!(last_calls, [false, false, false, true]);
    assert!(words(&asked[1]).contains("there is no tool `malformed_call`"), "{}", words(&asked[1]));
    // One that is right in between begins the count again.
    world.model.plan(Kind::Reply, wrong(0));
    world.model.plan(Kind::Reply, Plan::Calls(vec![("memory_search", json!({ "query": "x" }))]));
    (0..2).for_each(|n| world.model.plan(Kind::Reply, wrong(n)));
    assert_eq!(live.ask("b", "look").await, "re: look");
    (0..4).for_each(|n| world.model.plan(Kind::Reply, wrong(n)));
    assert_eq!(failure_code(live.say("c", "look").await).await, "turn_failed");
    assert_eq!(live.ask("d", "never mind").await, "re: never mind");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_too_many_calls_is_cut_before_it_is_journalled_and_the_model_is_told() {
    let world = World::new().with_tools();
    let live = world.start().await;
    let calls = vec![("history_search", json!({ "query": "x" })); 5_000];
    world.model.plan(Kind::Reply, Plan::Calls(calls));
    assert_eq!(live.ask("a", "look").await, "re: look");
    let records = world.store.records().len();
    assert!(records < 200, "{records} records");
    let history = world.store.history(&local());
    let results: Vec<_> =
        history.iter().filter(|entry| entry.role == Role::Tool).map(|entry| entry.text()).collect();
    let (last, run) = results.split_last().unwrap();
    assert_eq!(run.len(), CALLS_MAX);
    assert!(run.iter().all(|result| !result.contains("not run")), "{run:?}");
    assert!(last.contains("this one and all after it were not run"), "{last}");
    let told = words(world.model.requests(Kind::Reply).last().unwrap());
    assert!(told.contains("were not run"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn results_shrink_between_the_calls_of_a_turn_so_that_no_emergency_comes() {
    let mut world = World::new().with_tools();
    world.settings.pruning.shrink_bytes = 400;
    world.settings.result_guard.enabled = false;
    world.settings.compaction.enabled = false;
    let live = world.start().await;
    for n in 0..3 {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    for _ in 0..6 {
        let range = json!({ "from": 1, "to": 6 });
        world
            .model
            .plan(Kind::Reply, Plan::Calls(vec![("history_read", range.clone()), ("history_read", range)]));
    }
    live.ask("look", "what did we say?").await;
    let pruned = |event: &Event| matches!(event, Event::Compaction(CompactionEvent::ResultsPruned { .. }));
    assert!(world.store.count(pruned) >= 1, "nothing was pruned");
    assert_eq!(world.store.count(is_emergency), 0);
    let last = words(world.model.requests(Kind::Reply).last().unwrap());
    assert!(last.contains("[truncated: output exceeded context limit] history_read, "), "{last}");
    let kept = world.store.history(&local());
    assert!(kept.iter().all(|entry| !entry.text().contains("[truncated")), "what is kept was shortened");
}
