//! What was said while nobody listened is read, in order, within limits, and asks for one answer.

use cairn_testkit::discord::{Fault, Route};
use jiff::SignedDuration;

use crate::discord::runtime::{
    CHANNEL, CHANNEL_NAME, GUILD, OTHER, OTHER_NAME, Running, Runtime, connected, discord, id, settings,
    start, words,
};

#[tokio::test]
async fn after_a_restart_each_known_channel_is_read_on_and_asks_once() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has(CHANNEL_NAME, known);
    for text in ["first?", "second?", "third?"] {
        discord.post(CHANNEL, "alice", text).mention_bot().send();
    }
    discord.say(CHANNEL, "bob", "an aside");
    let _running = connected(&discord, &runtime).await;
    runtime.wait_taken(4).await;
    let live = discord.post(CHANNEL, "alice", "and now?").mention_bot().send();
    let taken = runtime.wait_taken(5).await;
    let all: Vec<_> = taken.iter().map(|inbound| (words(inbound), inbound.addressed)).collect();
    let missed = [("first?", false), ("second?", false), ("third?", true), ("an aside", false)];
    for (n, (text, addressed)) in missed.into_iter().enumerate() {
        assert_eq!(all[n], (text.to_owned(), addressed), "{all:?}");
    }
    assert_eq!(taken[4].message, id(live));
    assert!(taken[4].addressed);
    discord.assert_clean();
}

#[tokio::test]
async fn a_question_in_a_channel_or_thread_that_was_never_heard_in_is_taken_in() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.post(OTHER, "bob", "long before").aged(std::time::Duration::from_secs(3600)).send();
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has(CHANNEL_NAME, known);
    discord.thread(CHANNEL, 150);
    discord.channel(GUILD, 151);
    discord.hide(151);
    discord.post(OTHER, "bob", "are you there?").mention_bot().send();
    discord.post(150, "bob", "and here?").mention_bot().send();
    discord.post(151, "bob", "and where you see nothing?").mention_bot().send();
    let running = connected(&discord, &runtime).await;
    let mut taken: Vec<_> = runtime.wait_taken(2).await.iter().map(words).collect();
    taken.sort();
    assert_eq!(taken, ["and here?", "are you there?"]);
    assert_eq!(discord.arrived(Route::Fetch), 3, "the known one and the two");
    assert!(running.status().troubles.is_empty(), "{:?}", running.status().troubles);
    discord.assert_clean();
}

#[tokio::test]
async fn channels_that_were_silent_for_longer_than_is_caught_up_are_not_read() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let days = |days: u64| std::time::Duration::from_secs(days * 86_400);
    let old = discord.post(CHANNEL, "alice", "a week ago").aged(days(7)).send();
    runtime.has(CHANNEL_NAME, old);
    let other = discord.post(OTHER, "alice", "also a week ago").aged(days(7)).send();
    runtime.has(OTHER_NAME, other);
    discord.say(OTHER, "alice", "and now");
    let _running = connected(&discord, &runtime).await;
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "and now");
    discord.say(CHANNEL, "alice", "here, too");
    assert_eq!(words(&runtime.wait_taken(2).await[1]), "here, too");
    assert_eq!(discord.arrived(Route::Fetch), 1);
    discord.assert_clean();
}

#[tokio::test]
async fn much_that_was_missed_is_cut_to_the_newest() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has(CHANNEL_NAME, known);
    for n in 0..350 {
        discord.say(CHANNEL, "alice", &format!("line {n}"));
    }
    let mut settings = settings(&discord);
    settings.chat.catch_up.max_messages = 120;
    let _running = Running::start(settings, &runtime);
    let taken = runtime.wait_taken(120).await;
    assert_eq!(words(&taken[0]), "line 230");
    assert_eq!(words(&taken[119]), "line 349");
}

#[tokio::test]
async fn what_is_older_than_the_limit_is_left_out() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let age = |secs| std::time::Duration::from_secs(secs);
    let known = discord.post(CHANNEL, "alice", "known").aged(age(9000)).send();
    runtime.has(CHANNEL_NAME, known);
    discord.post(CHANNEL, "alice", "old").aged(age(8000)).send();
    discord.post(CHANNEL, "alice", "young").aged(age(60)).send();
    let mut settings = settings(&discord);
    settings.chat.catch_up.max_age = SignedDuration::from_hours(1);
    let _running = Running::start(settings, &runtime);
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "young");
}

#[tokio::test]
async fn what_does_not_fit_a_queue_is_read_again_in_order() {
    let (discord, runtime, _running) = start().await;
    let gate = runtime.hold(CHANNEL);
    for n in 0..150 {
        discord.say(CHANNEL, "alice", &format!("line {n}"));
    }
    // Comes after all of them over the same connection: the queue is full by then.
    discord.say(OTHER, "alice", "elsewhere");
    runtime.wait_taken(1).await;
    gate.open();
    let taken = runtime.wait_taken(151).await;
    let lines: Vec<_> = taken[1..].iter().map(words).collect();
    let expected: Vec<_> = (0..150).map(|n| format!("line {n}")).collect();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_channel_that_cannot_be_read_holds_no_other_up() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let [one, two] = [CHANNEL, OTHER].map(|channel| discord.say(channel, "alice", "known"));
    runtime.has(CHANNEL_NAME, one);
    runtime.has(OTHER_NAME, two);
    discord.hide(CHANNEL);
    discord.say(OTHER, "alice", "missed");
    discord.fail_next(Route::Fetch, Fault::Status(500));
    let running = connected(&discord, &runtime).await;
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "missed");
    let status = running.wait_status(|status| !status.troubles.is_empty()).await;
    assert!(status.troubles[0].starts_with("history of channel 101: "), "{:?}", status.troubles);
    discord.allow(CHANNEL);
    discord.say(CHANNEL, "alice", "seen again");
    assert_eq!(words(&runtime.wait_taken(2).await[1]), "seen again");
    // The next session reads it again.
    discord.forget_sessions();
    discord.disconnect();
    running.wait_status(|status| status.troubles.is_empty()).await;
}
