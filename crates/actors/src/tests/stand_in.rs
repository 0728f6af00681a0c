//! A smaller model that stands in for the first of the chain: its requests are smaller, the history stays.

use std::time::Duration;

use cairn_types::message::Part;
use cairn_types::model::{ChatRequest, ModelError};
use cairn_types::summary::StackItem;
use cairn_types::tokens::estimate;

use super::common::model::{FakeModel, Kind, Plan, words};
use super::common::*;

const SMALL: u64 = 1_500;

/// Usable tokens of the smaller model.
const USABLE: u64 = SMALL - 500;

fn world() -> World {
    World::new().followed_by("second", |settings| settings.window.window_tokens = SMALL)
}

/// A conversation of so many turns with the first model.
async fn talked(turns: usize) -> (World, Live) {
    let world = world();
    let live = world.start().await;
    for n in 0..turns {
        live.ask(&format!("m{n}"), &chatter(n)).await;
    }
    (world, live)
}

fn second(world: &World) -> &FakeModel {
    &world.others[0].1
}

fn breaks(world: &World) {
    world.model.plan(Kind::Reply, Plan::Broken("", overloaded()));
}

/// Longer than a model is skipped after one failure.
async fn recovers() {
    tokio::time::sleep(Duration::from_secs(3_600)).await;
}

fn size(request: &ChatRequest) -> u64 {
    u64::from(estimate(&words(request)))
}

fn last(model: &FakeModel) -> ChatRequest {
    model.requests(Kind::Reply).pop().unwrap()
}

/// What the history keeps: the live entries, and the ranges of summaries and markers.
fn kept(world: &World) -> (Vec<String>, Vec<String>) {
    let conversation = world.conversation();
    let live = conversation.live.iter().map(|entry| format!("{} {}", entry.seq, entry.text())).collect();
    let item = |item: &StackItem| match item {
        StackItem::Summary(_) => format!("a summary of {:?}", item.range()),
        StackItem::Marker(_) => format!("a marker for {:?}", item.range()),
    };
    (live, conversation.stack.items().iter().map(item).collect())
}

#[tokio::test(start_paused = true)]
async fn it_gets_a_smaller_request_and_nothing_leaves() {
    let (world, live) = talked(24).await;
    let (before, _) = kept(&world);
    assert!(size(&last(&world.model)) > USABLE, "it would not fit: {}", size(&last(&world.model)));
    breaks(&world);
    assert_eq!(live.ask("away", "still there?").await, "re: still there?");
    let view = last(second(&world));
    assert!(size(&view) <= USABLE && size(&view) > USABLE / 2, "{}", size(&view));
    let left_out = view.system.last().unwrap();
    assert!(left_out.starts_with("[System: ") && left_out.contains("number 0"), "{left_out}");
    assert!(words(&view).contains("number 23"), "the newest are whole");
    assert_eq!((world.store.count(is_emergency), world.store.count(is_run_started)), (0, 0));
    recovers().await;
    live.ask("back", "and now?").await;
    let (after, _) = kept(&world);
    assert_eq!(after[..before.len()], before[..]);
    assert!(words(&last(&world.model)).contains("number 0:"), "it sees what it saw before");
}

#[tokio::test(start_paused = true)]
async fn its_requests_begin_alike() {
    let (world, live) = talked(24).await;
    breaks(&world);
    for n in 0..12 {
        live.ask(&format!("away{n}"), "hm").await;
    }
    let requests = second(&world).requests(Kind::Reply);
    let begins = |request: &ChatRequest| (request.system.clone(), request.messages[0].clone());
    let cuts = requests.windows(2).filter(|pair| begins(&pair[0]) != begins(&pair[1])).count();
    assert!(requests.len() == 12 && cuts <= 4, "{cuts} of {}", requests.len());
}

#[tokio::test(start_paused = true)]
async fn the_window_follows_it_when_it_has_answered_twenty_turns() {
    let (world, live) = talked(18).await;
    breaks(&world);
    for n in 0..19 {
        live.ask(&format!("away{n}"), "hm").await;
        settle().await;
    }
    assert_eq!(kept(&world).0.len(), 2 * (18 + 19));
    for n in 19..21 {
        live.ask(&format!("away{n}"), "hm").await;
        settle().await;
    }
    let n_kept = kept(&world).0.len();
    assert!(n_kept < 2 * (18 + 10), "{n_kept}");
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn when_it_finds_a_request_too_large_the_next_is_smaller_and_nothing_leaves() {
    let (world, live) = talked(24).await;
    breaks(&world);
    let too_long = ModelError::ContextOverflow { message: "too long".to_owned(), limit: None };
    second(&world).plan(Kind::Reply, Plan::Broken("", too_long));
    assert_eq!(live.ask("away", "still there?").await, "re: still there?");
    let requests = second(&world).requests(Kind::Reply);
    assert!(size(&requests[1]) < size(&requests[0]) * 4 / 5, "{} {}", size(&requests[0]), size(&requests[1]));
    assert_eq!(world.store.count(is_emergency), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_larger_than_its_window_is_whole_again_for_the_first() {
    let world = world();
    let live = world.start().await;
    breaks(&world);
    let long = (0..46).map(chatter).collect::<Vec<_>>().join(" ");
    live.ask("long", &long).await;
    assert!(size(&last(second(&world))) <= USABLE);
    recovers().await;
    live.ask("back", "and now?").await;
    let is_whole = |part: &Part| matches!(part, Part::Text { text } if text.contains(&long));
    let request = last(&world.model);
    let whole = request.messages.iter().any(|message| match message {
        cairn_types::model::ChatMessage::User { parts } => parts.iter().any(is_whole),
        _ => false,
    });
    assert!(whole, "{}", words(&request));
}

/// The same talk, with and without turns in which the first model fails.
#[tokio::test(start_paused = true)]
async fn a_history_with_failovers_equals_the_one_without() {
    let mut n_with_stack = 0;
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let turns = random.usize(10..70);
        let fails: Vec<bool> = (0..turns).map(|_| random.u8(0..4) == 0).collect();
        let mut histories = Vec::new();
        for has_failovers in [false, true] {
            let world = world();
            let live = world.start().await;
            for (n, fails) in fails.iter().enumerate() {
                if *fails && has_failovers {
                    breaks(&world);
                }
                live.ask(&format!("m{n}"), &chatter(n)).await;
                recovers().await;
            }
            let stood_in = second(&world).requests(Kind::Reply);
            assert_eq!(!stood_in.is_empty(), has_failovers && fails.contains(&true), "{seed}");
            assert!(stood_in.iter().all(|request| size(request) <= USABLE), "seed {seed}");
            // What a summary says is not lost on it.
            let words_of_stack =
                |request: &ChatRequest| request.system.concat().contains("walked by the lake");
            let has_stack = |request: &&ChatRequest| request.system.len() > 1;
            n_with_stack +=
                stood_in.iter().filter(has_stack).filter(|request| words_of_stack(request)).count();
            histories.push(kept(&world));
        }
        assert_eq!(histories[0], histories[1], "seed {seed}");
    }
    assert!(n_with_stack > 20, "{n_with_stack}");
}
