//! After downtime: what was missed is fetched and answered as one turn a channel.

use std::time::Duration;

use crate::discord::rig::{OTHER_ROOM, ROOM, Rig, Setup};

#[tokio::test]
async fn what_was_said_while_the_daemon_was_away_is_one_turn_a_channel() {
    let mut rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    rig.ask(OTHER_ROOM, "alice", "before").await;
    rig.stop().await;
    rig.discord.forget_sessions();
    for n in 0..5 {
        rig.discord.say(ROOM, "bob", &format!("chatter {n}"));
        rig.discord.post(ROOM, "alice", &format!("missed {n}")).mention_bot().send();
    }
    rig.discord.say(OTHER_ROOM, "bob", "nobody asked");
    rig.back().await;
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    rig.ask(ROOM, "alice", "after").await;
    rig.ask(OTHER_ROOM, "alice", "after").await;
    assert_eq!((rig.discord.sent(ROOM).len(), rig.discord.sent(OTHER_ROOM).len()), (3, 2), "{sent:?}");
    let requests = rig.requests();
    let request = requests.iter().find(|request| request.contains("missed 4")).unwrap();
    for n in 0..5 {
        assert_eq!(request.matches(&format!("missed {n}")).count(), 1, "{request}");
        assert_eq!(request.matches(&format!("chatter {n}")).count(), 1, "{request}");
    }
    assert!(requests.last().unwrap().contains("nobody asked"), "{}", requests.last().unwrap());
    rig.assert_clean();
}

#[tokio::test]
async fn what_is_too_old_or_too_much_is_left_out() {
    let mut rig = Setup::default().keys("catch_up_hours = 1\ncatch_up_messages = 3").start().await;
    rig.discord.post(ROOM, "alice", "long before").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.stop().await;
    rig.discord.forget_sessions();
    for n in 0..6 {
        rig.discord.post(ROOM, "alice", &format!("missed {n}")).mention_bot().send();
    }
    rig.back().await;
    rig.discord.wait_sent(ROOM, 2).await;
    let request = rig.requests().pop().unwrap();
    assert!(request.contains("missed 5") && request.contains("missed 3"), "{request}");
    assert!(!request.contains("missed 2"), "{request}");
    assert!(rig.log().contains("left out"), "{}", rig.log());
    rig.assert_clean();
}

#[tokio::test]
async fn what_is_said_while_the_past_is_read_comes_after_it() {
    let mut rig = Rig::start().await;
    rig.ask(ROOM, "alice", "before").await;
    rig.stop().await;
    rig.discord.forget_sessions();
    rig.discord.post(ROOM, "alice", "missed").mention_bot().send();
    let gate = rig.discord.hold(cairn_testkit::discord::Route::Fetch);
    let n = rig.discord.arrived(cairn_testkit::discord::Route::Fetch);
    rig.back().await;
    rig.discord.wait_for(cairn_testkit::discord::Route::Fetch, n + 1).await;
    rig.discord.post(ROOM, "alice", "live").mention_bot().send();
    gate.open();
    let live = |discord: &cairn_testkit::discord::FakeDiscord| {
        discord.sent(ROOM).last().is_some_and(|sent| sent.content.ends_with("live"))
    };
    rig.discord.wait_until("the answer to what is said live", live).await;
    let request = rig.requests().pop().unwrap();
    assert!(request.find("missed") < request.rfind("live"), "{request}");
    rig.assert_clean();
}

#[tokio::test]
async fn what_is_older_than_the_limit_is_not_answered() {
    let mut rig = Setup::default().keys("catch_up_hours = 1").build().await;
    rig.discord.post(ROOM, "alice", "ancient").mention_bot().aged(Duration::from_secs(10 * 3_600)).send();
    rig.back().await;
    rig.ask(ROOM, "alice", "hello").await;
    assert!(!rig.requests()[0].contains("ancient"));
    assert_eq!(rig.discord.sent(ROOM).len(), 1);
    rig.assert_clean();
}

#[tokio::test]
async fn what_a_limit_refused_is_not_answered_after_a_restart() {
    let tables = "[limits]\nuser_messages_per_hour = 2\n".to_owned();
    let mut rig = Setup { tables, ..Setup::default() }.start().await;
    rig.ask(ROOM, "alice", "one").await;
    rig.ask(ROOM, "alice", "two").await;
    rig.discord.post(ROOM, "alice", "refused").mention_bot().send();
    rig.discord.wait_sent(ROOM, 3).await;
    rig.kill().await;
    rig.discord.forget_sessions();
    // The hour restarts, and the last five minutes are read again.
    rig.back().await;
    rig.ask(ROOM, "bob", "after").await;
    assert_eq!(rig.discord.sent(ROOM).len(), 4, "{:?}", rig.discord.sent(ROOM));
    assert!(rig.requests().iter().all(|request| !request.contains("refused")));
    rig.assert_clean();
}
