//! Servers that refuse what stands in the conversation: no refusal silences a channel.

use cairn_core::notice::Withheld;
use cairn_types::event::{DeliveryEvent, Event};
use cairn_types::message::REFUSED_TEXT;
use cairn_types::texts::Saying;

use super::common::model::{Kind, words};
use super::common::*;

const POISON: &str = "walnut";

fn n_requests(world: &World) -> usize {
    world.model.requests(Kind::Reply).len()
}

fn notes(world: &World) -> Vec<String> {
    let events = world.store.events().into_iter();
    let notes = events.filter_map(|event| match event {
        Event::Delivery(DeliveryEvent::Intended { note, .. }) => note,
        _ => None,
    });
    notes.collect()
}

#[tokio::test(start_paused = true)]
async fn an_old_message_that_a_server_refuses_is_left_out_and_the_rest_stays() {
    let (world, live) = started().await;
    for n in 0..8 {
        let text = if n == 1 { format!("a {POISON} of old") } else { format!("apple {n}") };
        live.ask_in_group(&format!("m{n}"), &text).await;
    }
    world.model.refuse(Some(POISON));
    assert_eq!(live.ask_in_group("now", "still there?").await, "re: still there?");
    let sent = words(world.model.requests(Kind::Reply).last().unwrap());
    assert!(!sent.contains(POISON) && sent.contains("apple 7"), "{sent}");
    assert_eq!(notes(&world), [Saying::from(Withheld::Part.told()).to_string()], "the chat is told, once");
    let before = n_requests(&world);
    for n in 0..3 {
        assert_eq!(live.ask_in_group(&format!("later{n}"), "and now?").await, "re: and now?");
    }
    assert_eq!(n_requests(&world), before + 3, "what is known is not tried again");
    assert_eq!(notes(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_server_refuses_is_left_out_of_what_others_ask() {
    let (world, live) = started().await;
    live.ask("before", "hello").await;
    world.model.refuse(Some(POISON));
    let refused = live.say("alice", &format!("a {POISON}")).await;
    assert_eq!(failure_code(refused).await, "refused");
    let before = n_requests(&world);
    assert_eq!(live.ask("bob", "good morning").await, "re: good morning");
    assert_eq!(n_requests(&world), before + 1, "it is not refused for what Alice said");
    let sent = last_request(&world);
    assert!(sent.contains("hello") && sent.contains(REFUSED_TEXT) && !sent.contains(POISON), "{sent}");
}

#[tokio::test(start_paused = true)]
async fn no_message_goes_without_an_answer_for_what_was_said_before() {
    for seed in 0..40_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (world, live) = started().await;
        for n in 0..14 {
            match random.u8(0..5) {
                0 => world.model.refuse(Some(POISON)),
                1 => world.model.refuse(None),
                _ => {}
            }
            let is_bad = random.u8(0..4) == 0;
            let text = if is_bad { format!("{POISON} {n}") } else { format!("apple {n}") };
            let said = live.say(&format!("m{n}"), &text).await;
            if is_bad {
                answer(said).await;
            } else {
                assert_eq!(reply(said).await, format!("re: apple {n}"), "seed {seed}, message {n}");
            }
        }
    }
}
