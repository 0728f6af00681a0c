//! Refusals for which a server gives no reason: the request may be too large, and nobody says so.

use cairn_types::model::{Attempt, ModelError, RefusalCause};
use cairn_types::window_bounds::WindowBounds;

use super::common::model::{Kind, Plan, words};
use super::common::*;

fn refused(cause: RefusalCause) -> Plan {
    Plan::Broken("", ModelError::BadRequest { message: "HTTP 400: fnord".to_owned(), cause })
}

/// A conversation of a size that its model has taken, in a window that holds much more.
async fn talked() -> (World, Live) {
    let mut world = World::new();
    world.settings.window.window_tokens = 40_000;
    let live = world.start().await;
    for n in 0..20 {
        live.ask(&format!("m{n}"), &chatter(n).repeat(6)).await;
    }
    (world, live)
}

fn bounds(world: &World) -> WindowBounds {
    world.conversation().bounds.get("fake").copied().unwrap_or_default()
}

fn n_replies(world: &World) -> usize {
    world.model.requests(Kind::Reply).len()
}

#[tokio::test(start_paused = true)]
async fn a_request_as_large_as_any_is_made_smaller_and_twice_bounds_the_window() {
    let (world, live) = talked().await;
    let before = n_replies(&world);
    world.model.plan(Kind::Reply, refused(RefusalCause::Unknown));
    assert_eq!(live.ask("a", "still there?").await, "re: still there?");
    let requests = world.model.requests(Kind::Reply);
    let sizes: Vec<_> = requests[before..].iter().map(|request| words(request).len()).collect();
    assert!(sizes.len() == 2 && sizes[1] < sizes[0], "{sizes:?}");
    assert!(world.store.count(is_emergency) >= 1);
    assert_eq!(bounds(&world).overflows, 1, "a smaller one was taken: it was the size");
    let mut n = 0;
    while world.conversation().learnt.is_empty() {
        live.ask(&format!("n{n}"), &chatter(n).repeat(30)).await;
        world.model.plan(Kind::Reply, refused(RefusalCause::Unknown));
        live.ask(&format!("o{n}"), &chatter(n + 1).repeat(6)).await;
        n += 1;
        assert!(n < 10, "nothing is learnt of the window");
    }
    settle().await;
    check_coverage(&world.conversation());
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_at_any_size_costs_the_window_once() {
    let (world, live) = talked().await;
    world.model.refuse(Some("walnut"));
    let before = n_replies(&world);
    assert_eq!(failure_code(live.say("a", "a walnut").await).await, "refused");
    let cut = world.store.count(is_emergency);
    let attempts: Vec<_> =
        world.model.requests(Kind::Reply)[before..].iter().map(|request| request.attempt).collect();
    assert!(cut >= 1 && attempts.contains(&Attempt::Bare), "{cut} {attempts:?}");
    assert!(bounds(&world).blameless > 0, "{:?}", bounds(&world));
    // From here on the size is not suspected.
    assert_eq!(failure_code(live.say("b", "another walnut").await).await, "refused");
    assert_eq!(world.store.count(is_emergency), cut);
    assert_eq!(live.ask("c", "hello?").await, "re: hello?");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_with_a_reason_and_one_of_a_small_request_cut_nothing() {
    for cause in [RefusalCause::Content, RefusalCause::Field, RefusalCause::Address, RefusalCause::Account] {
        let (world, live) = talked().await;
        let before = n_replies(&world);
        world.model.plan(Kind::Reply, refused(cause));
        answer(live.say("a", "hello").await).await;
        assert!(n_replies(&world) - before <= 2, "{cause:?}");
        assert_eq!(world.store.count(is_emergency), 0, "{cause:?}");
    }
    let (world, live) = started().await;
    world.model.plan(Kind::Reply, refused(RefusalCause::Unknown));
    assert_eq!(
        live.ask("a", "hello").await,
        "re: hello",
        "nothing is known of the model, and the request is small"
    );
    assert_eq!(world.store.count(is_emergency), 0);
}
