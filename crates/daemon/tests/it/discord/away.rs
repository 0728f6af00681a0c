//! After downtime: what was missed is fetched and answered as one turn a channel.

use std::time::Duration;

use crate::discord::house::{House, OTHER_ROOM, ROOM, Setup};

#[tokio::test]
async fn what_was_said_while_the_daemon_was_away_is_one_turn_a_channel() {
    let mut house = House::start().await;
    house.ask(ROOM, "alice", "before").await;
    house.ask(OTHER_ROOM, "alice", "before").await;
    house.stop().await;
    house.discord.forget_sessions();
    for n in 0..5 {
        house.discord.say(ROOM, "bob", &format!("chatter {n}"));
        house.discord.post(ROOM, "alice", &format!("missed {n}")).mention_bot().send();
    }
    house.discord.say(OTHER_ROOM, "bob", "nobody asked");
    house.back().await;
    let sent = house.discord.wait_sent(ROOM, 2).await;
    house.ask(ROOM, "alice", "after").await;
    house.ask(OTHER_ROOM, "alice", "after").await;
    assert_eq!((house.discord.sent(ROOM).len(), house.discord.sent(OTHER_ROOM).len()), (3, 2), "{sent:?}");
    let requests = house.requests();
    let request = requests.iter().find(|request| request.contains("missed 4")).unwrap();
    for n in 0..5 {
        assert_eq!(request.matches(&format!("missed {n}")).count(), 1, "{request}");
        assert_eq!(request.matches(&format!("chatter {n}")).count(), 1, "{request}");
    }
    assert!(requests.last().unwrap().contains("nobody asked"), "{}", requests.last().unwrap());
    house.assert_clean();
}

#[tokio::test]
async fn what_is_too_old_or_too_much_is_left_out() {
    let mut house = Setup::default().keys("catch_up_hours = 1\ncatch_up_messages = 3").start().await;
    house.discord.post(ROOM, "alice", "long before").mention_bot().send();
    house.discord.wait_sent(ROOM, 1).await;
    house.stop().await;
    house.discord.forget_sessions();
    for n in 0..6 {
        house.discord.post(ROOM, "alice", &format!("missed {n}")).mention_bot().send();
    }
    house.back().await;
    house.discord.wait_sent(ROOM, 2).await;
    let request = house.requests().pop().unwrap();
    assert!(request.contains("missed 5") && request.contains("missed 3"), "{request}");
    assert!(!request.contains("missed 2"), "{request}");
    assert!(house.log().contains("left out"), "{}", house.log());
    house.assert_clean();
}

#[tokio::test]
async fn what_is_said_while_the_past_is_read_comes_after_it() {
    let mut house = House::start().await;
    house.ask(ROOM, "alice", "before").await;
    house.stop().await;
    house.discord.forget_sessions();
    house.discord.post(ROOM, "alice", "missed").mention_bot().send();
    let gate = house.discord.hold(cairn_testkit::discord::Route::Fetch);
    let n = house.discord.arrived(cairn_testkit::discord::Route::Fetch);
    house.back().await;
    house.discord.wait_for(cairn_testkit::discord::Route::Fetch, n + 1).await;
    house.discord.post(ROOM, "alice", "live").mention_bot().send();
    gate.open();
    let live = |discord: &cairn_testkit::discord::FakeDiscord| {
        discord.sent(ROOM).last().is_some_and(|sent| sent.content.ends_with("live"))
    };
    house.discord.wait_until("the answer to what is said live", live).await;
    let request = house.requests().pop().unwrap();
    assert!(request.find("missed") < request.rfind("live"), "{request}");
    house.assert_clean();
}

#[tokio::test]
async fn what_is_older_than_the_limit_is_not_answered() {
    let mut house = Setup::default().keys("catch_up_hours = 1").build().await;
    house.discord.post(ROOM, "alice", "ancient").mention_bot().aged(Duration::from_secs(10 * 3_600)).send();
    house.back().await;
    house.ask(ROOM, "alice", "hello").await;
    assert!(!house.requests()[0].contains("ancient"));
    assert_eq!(house.discord.sent(ROOM).len(), 1);
    house.assert_clean();
}

#[tokio::test]
async fn what_a_limit_refused_is_not_answered_after_a_restart() {
    let tables = "[limits]\nuser_messages_per_hour = 2\n".to_owned();
    let mut house = Setup { tables, ..Setup::default() }.start().await;
    house.ask(ROOM, "alice", "one").await;
    house.ask(ROOM, "alice", "two").await;
    house.discord.post(ROOM, "alice", "refused").mention_bot().send();
    house.discord.wait_sent(ROOM, 3).await;
    house.kill().await;
    house.discord.forget_sessions();
    // The hour begins anew, and the last five minutes are read again.
    house.back().await;
    house.ask(ROOM, "bob", "after").await;
    assert_eq!(house.discord.sent(ROOM).len(), 4, "{:?}", house.discord.sent(ROOM));
    assert!(house.requests().iter().all(|request| !request.contains("refused")));
    house.assert_clean();
}
