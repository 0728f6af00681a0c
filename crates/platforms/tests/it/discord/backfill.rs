//! What was said while nobody listened is read, in order, within limits, and asks for one answer.

use std::collections::BTreeSet;

use cairn_platforms::discord::DiscordSettings;
use cairn_testkit::discord::{Fault, Route};
use cairn_types::ids::OutboxId;
use cairn_types::message::Change;
use cairn_types::people::access::AccessPolicy;
use cairn_types::ports::{LinkState, Platform as _, PlatformStatus, SendPart};
use jiff::SignedDuration;

use crate::discord::runtime::{
    CHANNEL, CHANNEL_NAME, GUILD, OTHER, OTHER_NAME, Running, Runtime, access, connected, discord, id,
    settings, start, words,
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
    runtime.ruled(600, access());
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
    let status = running.wait_status(|status| status.caught_up.is_some()).await;
    let done = status.caught_up.expect("is told");
    assert_eq!((done.read, done.messages, done.quiet, done.unread), (3, 2, 1, 0), "{done:?}");
    assert_eq!(
        discord.arrived(Route::Fetch),
        3,
        "where all is known something may be deleted, and nothing is read that is hidden"
    );
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
    discord.say(CHANNEL, "alice", "missed here");
    discord.hide(CHANNEL);
    discord.say(OTHER, "alice", "missed");
    discord.fail_next(Route::Fetch, Fault::Status(500));
    let running = connected(&discord, &runtime).await;
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "missed");
    let status = running.wait_status(|status| status.caught_up.is_some()).await;
    assert!(status.troubles[0].to_string().starts_with("history of channel 101: "), "{:?}", status.troubles);
    assert_eq!(status.caught_up.map(|done| (done.read, done.unread)), Some((1, 1)));
    discord.allow(CHANNEL);
    discord.say(CHANNEL, "alice", "seen again");
    let taken: Vec<_> = runtime.wait_taken(3).await.iter().map(words).collect();
    assert_eq!(taken, ["missed", "missed here", "seen again"]);
    running.wait_status(|status| status.troubles.is_empty()).await;
}

fn ago(secs: u64) -> std::time::Duration {
    std::time::Duration::from_secs(secs)
}

#[tokio::test]
async fn what_a_stranger_said_before_they_were_let_in_is_not_taken_in_later() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let (dm, eve) = (discord.dm("eve"), format!("discord/{}", discord.user("eve")));
    runtime.ruled(3600, access());
    runtime.pair(&eve);
    runtime.state.update(|state| {
        let who = cairn_types::message::Author { id: eve.clone(), name: "eve".to_owned() };
        state.asked.push((who, dm.to_string()));
        let since = cairn_testkit::clock::wall_time() - SignedDuration::from_secs(60);
        state.let_in.insert(eve, since);
    });
    discord.post(dm, "eve", "let me in").aged(ago(120)).send();
    discord.post(dm, "eve", "now?").aged(ago(30)).send();
    let running = connected(&discord, &runtime).await;
    let done = running.wait_status(|status| status.caught_up.is_some()).await.caught_up.expect("is told");
    assert_eq!((done.read, done.messages), (1, 1), "{done:?}");
    let taken = runtime.wait_taken(1).await;
    assert_eq!((words(&taken[0]).as_str(), taken[0].addressed), ("now?", true));
    discord.assert_clean();
}

#[tokio::test]
async fn whoever_was_no_member_when_they_spoke_is_not_heard_later() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let alice = BTreeSet::from([discord.user("alice").to_string()]);
    runtime.ruled(3600, AccessPolicy { members: alice, ..access() });
    runtime.ruled(60, access());
    // Said before the last that was taken in, and after it.
    discord.post(CHANNEL, "bob", "shut out").mention_bot().aged(ago(150)).send();
    let known = discord.post(CHANNEL, "alice", "known").aged(ago(140)).send();
    runtime.has(CHANNEL_NAME, known);
    discord.post(CHANNEL, "bob", "shut out still").mention_bot().aged(ago(130)).send();
    discord.post(CHANNEL, "alice", "missed").aged(ago(120)).send();
    discord.post(CHANNEL, "bob", "let in").mention_bot().aged(ago(30)).send();
    discord.post(OTHER, "bob", "shut out here").mention_bot().aged(ago(130)).send();
    let running = connected(&discord, &runtime).await;
    let done = running.wait_status(|status| status.caught_up.is_some()).await.caught_up.expect("is told");
    assert_eq!((done.read, done.messages), (2, 2), "{done:?}");
    let taken: Vec<_> = runtime.wait_taken(2).await.iter().map(words).collect();
    assert_eq!(taken, ["missed", "let in"]);
}

#[tokio::test]
async fn what_another_agent_took_in_is_not_answered_again_and_what_it_missed_is() {
    let (discord, runtime) = (discord().await, Runtime::new());
    runtime.ruled(3600, access());
    let poet = AccessPolicy { agent: "poet".into(), ..access() };
    runtime.ruled(60, poet.clone());
    let known = discord.post(CHANNEL, "alice", "answered by main").mention_bot().aged(ago(150)).send();
    runtime.has(CHANNEL_NAME, known);
    discord.post(CHANNEL, "alice", "said while nobody ran").mention_bot().aged(ago(120)).send();
    let mut settings = settings(&discord);
    settings.chat.access = poet;
    let running = Running::start(settings, &runtime);
    let done = running.wait_status(|status| status.caught_up.is_some()).await.caught_up.expect("is told");
    assert_eq!((done.read, done.messages), (1, 1), "{done:?}");
    let taken = runtime.wait_taken(1).await;
    assert_eq!(words(&taken[0]), "said while nobody ran");
    assert_eq!(taken[0].channel.to_string(), "poet/discord/101");
}

#[tokio::test]
async fn a_deletion_during_downtime_is_noticed_in_what_is_read_again() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let [kept, gone, last] = ["kept", "gone", "last"].map(|text| discord.say(CHANNEL, "alice", text));
    for known in [kept, gone, last] {
        runtime.has(CHANNEL_NAME, known);
    }
    discord.delete(CHANNEL, &[gone]);
    discord.delete(CHANNEL, &[last]);
    discord.say(CHANNEL, "alice", "new");
    // Nothing new was said there.
    let other = discord.say(OTHER, "alice", "also gone");
    runtime.has(OTHER_NAME, other);
    discord.delete(OTHER, &[other]);
    let running = connected(&discord, &runtime).await;
    let done = running.wait_status(|status| status.caught_up.is_some()).await.caught_up.expect("is told");
    assert_eq!((done.read, done.messages, done.deleted), (2, 1, 3), "{done:?}");
    let mut deleted: Vec<_> = runtime.wait_amended(3).await;
    deleted.sort_by_key(|amendment| amendment.message.clone());
    assert!(deleted.iter().all(|amendment| amendment.change == Change::Deleted), "{deleted:?}");
    let ids: Vec<_> = deleted.into_iter().map(|amendment| amendment.message).collect();
    assert_eq!(ids, [id(gone), id(last), id(other)]);
    assert_eq!(discord.arrived(Route::Fetch), 2);
    discord.assert_clean();
}

#[tokio::test]
async fn a_private_chat_that_is_gone_is_asked_for_once() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has_private("main/discord/777", known);
    let running = connected(&discord, &runtime).await;
    let unread = |n: u64| {
        move |status: &cairn_types::ports::PlatformStatus| {
            status.caught_up.is_some_and(|done| done.unread == n)
        }
    };
    let status = running.wait_status(unread(1)).await;
    assert!(status.troubles.is_empty(), "{:?}", status.troubles);
    discord.forget_sessions();
    discord.disconnect();
    running.wait_status(unread(0)).await;
    assert_eq!((discord.identified(), discord.arrived(Route::Fetch)), (2, 1));
}

#[tokio::test]
async fn a_channel_that_could_not_be_read_is_read_after_a_restart_once_a_role_gives_the_right() {
    let (discord, runtime, folder) =
        (discord().await, Runtime::new(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("sessions");
    let kept = || DiscordSettings { sessions: Some(path.clone()), ..settings(&discord) };
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has(CHANNEL_NAME, known);
    discord.say(CHANNEL, "alice", "missed");
    discord.hide_history(CHANNEL);
    let running = Running::start(kept(), &runtime);
    running.wait_status(|status| !status.troubles.is_empty()).await;
    // What is heard live must not hide what was missed before it.
    discord.say(CHANNEL, "alice", "live");
    runtime.wait_taken(1).await;
    running.stopped(&discord).await;
    let running = Running::start(kept(), &runtime);
    running.wait_state(LinkState::Connected).await;
    assert_eq!(discord.arrived(Route::Fetch), 0);
    discord.allow_by_role(GUILD);
    let taken: Vec<_> = runtime.wait_taken(2).await.iter().map(words).collect();
    assert_eq!(taken, ["live", "missed"]);
    discord.assert_clean();
}

#[tokio::test]
async fn a_single_refusal_of_the_token_leaves_nothing_unread() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has(CHANNEL_NAME, known);
    discord.say(CHANNEL, "alice", "missed");
    discord.fail_next(Route::Fetch, Fault::Status(401));
    let _running = connected(&discord, &runtime).await;
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "missed");
}

#[tokio::test]
async fn all_that_was_said_in_a_private_chat_may_be_deleted_during_downtime() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let dm = discord.dm("alice");
    let gone = discord.say(dm, "alice", "regretted");
    runtime.has_private(&format!("main/discord/{dm}"), gone);
    discord.delete(dm, &[gone]);
    let _running = connected(&discord, &runtime).await;
    let deleted = runtime.wait_amended(1).await;
    assert_eq!((&deleted[0].message, &deleted[0].change), (&id(gone), &Change::Deleted));
}

#[tokio::test]
async fn without_the_right_to_read_the_history_nothing_is_taken_for_deleted_and_nobody_waits() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has(CHANNEL_NAME, known);
    discord.say(CHANNEL, "alice", "missed");
    discord.hide_history(CHANNEL);
    let running = connected(&discord, &runtime).await;
    discord.say(CHANNEL, "alice", "live");
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "live");
    let status = running.wait_status(|status| status.caught_up.is_some()).await;
    assert!(status.troubles[0].to_string().contains("Read Message History"), "{:?}", status.troubles);
    assert!(runtime.state.lock().amended.is_empty());
    discord.allow(CHANNEL);
    assert_eq!(words(&runtime.wait_taken(2).await[1]), "missed");
    assert_eq!(discord.arrived(Route::Fetch), 1);
}

#[tokio::test]
async fn a_new_session_reads_no_channel_whose_last_messages_were_all_heard_and_have_left_the_window() {
    let (discord, runtime, running) = start().await;
    discord.say(CHANNEL, "alice", "well?");
    discord.say(OTHER, "alice", "known");
    runtime.wait_taken(2).await;
    let answer = SendPart {
        delivery: OutboxId::from("o1"),
        part: 0,
        channel: CHANNEL_NAME.parse().expect("is a channel"),
        reply_to: None,
        words: "it depends".to_owned(),
        approval: None,
        files: Vec::new(),
    };
    running.adapter.send(answer).await.expect("is sent");
    // Comes after the event of the answer.
    discord.say(OTHER, "alice", "known, too");
    let taken = runtime.wait_taken(3).await;
    // Nothing of it is in the window any more, so no deletion of it matters.
    let well = taken.iter().find(|inbound| words(inbound) == "well?").expect("is taken").message.clone();
    runtime.state.update(|state| state.summarised.insert(well));
    discord.forget_sessions();
    discord.post(OTHER, "alice", "missed").undelivered().send();
    discord.disconnect();
    assert_eq!(words(&runtime.wait_taken(4).await[3]), "missed");
    let is_done = |status: &PlatformStatus| status.caught_up.is_some_and(|done| done.messages == 1);
    let done = running.wait_status(is_done).await.caught_up.expect("is told");
    assert_eq!((done.read, done.quiet, discord.arrived(Route::Fetch)), (1, 1, 1), "{done:?}");
    discord.assert_clean();
}

#[tokio::test]
async fn a_last_message_that_was_deleted_in_downtime_is_found_though_its_channel_is_quiet() {
    let (discord, runtime, _running) = start().await;
    let gone = discord.say(CHANNEL, "alice", "regretted");
    discord.say(OTHER, "alice", "kept");
    runtime.wait_taken(2).await;
    discord.forget_sessions();
    discord.delete(CHANNEL, &[gone]);
    discord.disconnect();
    let deleted = runtime.wait_amended(1).await;
    assert_eq!((&deleted[0].message, &deleted[0].change), (&id(gone), &Change::Deleted));
    // One page of each channel that has something live.
    assert_eq!((deleted.len(), discord.arrived(Route::Fetch)), (1, 2));
    discord.assert_clean();
}

#[tokio::test]
async fn while_channels_cannot_be_read_the_status_says_so() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let known = discord.say(CHANNEL, "alice", "known");
    runtime.has(CHANNEL_NAME, known);
    discord.say(CHANNEL, "alice", "missed");
    discord.fail(Route::Fetch, Fault::Status(500));
    let running = Running::start(settings(&discord), &runtime);
    let is_told = |status: &PlatformStatus| {
        status
            .troubles
            .iter()
            .any(|trouble| trouble.to_string().starts_with("reading: missed messages cannot be read"))
    };
    running.wait_status(is_told).await;
    discord.fail(Route::Fetch, None);
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "missed");
    assert_eq!(running.status().troubles, []);
}
