//! The connection: it comes back by itself, in order and without loss, and says clearly when it cannot.

use std::time::Duration;

use cairn_platforms::discord::DiscordSettings;
use cairn_testkit::discord::{FakeDiscord, Fault, Route};
use cairn_types::ports::LinkState;

use crate::discord::runtime::{
    CHANNEL, CHANNEL_NAME, OTHER, Running, Runtime, connected, discord, furnished, settings, start, words,
};

#[tokio::test]
async fn a_broken_connection_is_resumed_and_nothing_is_lost() {
    let (discord, runtime, running) = start().await;
    discord.say(CHANNEL, "alice", "one");
    runtime.wait_taken(1).await;
    discord.disconnect();
    discord.say(CHANNEL, "alice", "two");
    discord.say(CHANNEL, "alice", "three");
    let taken = runtime.wait_taken(3).await;
    assert_eq!(taken.iter().map(words).collect::<Vec<_>>(), ["one", "two", "three"]);
    discord.wait_until("a resume", |discord| discord.resumed() == 1).await;
    assert_eq!(discord.identified(), 1);
    assert_eq!(running.wait_state(LinkState::Connected).await.reason, None);
    discord.assert_clean();
}

#[tokio::test]
async fn a_request_for_a_new_connection_is_met_with_a_resume() {
    let (discord, runtime, _running) = start().await;
    discord.ask_reconnect();
    discord.wait_until("a resume", |discord| discord.resumed() == 1).await;
    discord.say(CHANNEL, "alice", "one");
    runtime.wait_taken(1).await;
    discord.assert_clean();
}

#[tokio::test]
async fn a_session_that_may_not_be_resumed_is_begun_again_and_what_was_missed_is_read() {
    let (discord, runtime, _running) = start().await;
    discord.say(CHANNEL, "alice", "one");
    runtime.wait_taken(1).await;
    discord.forget_sessions();
    discord.post(CHANNEL, "alice", "two").undelivered().send();
    discord.disconnect();
    let taken = runtime.wait_taken(2).await;
    assert_eq!(taken.iter().map(words).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(discord.identified(), 2);
    discord.assert_clean();
}

#[tokio::test]
async fn a_silent_connection_is_dead() {
    let builder = FakeDiscord::builder().identify_every(Duration::ZERO).heartbeat(Duration::from_secs(2));
    let (discord, runtime) = (furnished(builder.start().await), Runtime::new());
    let running = connected(&discord, &runtime).await;
    discord.wait_until("a heartbeat", |discord| discord.heartbeats() >= 1).await;
    discord.stop_acks();
    discord.wait_until("a resume", |discord| discord.resumed() >= 1).await;
    discord.say(CHANNEL, "alice", "heard again");
    runtime.wait_taken(1).await;
    assert_eq!(running.status().state, LinkState::Connected);
    discord.assert_clean();
}

#[tokio::test]
async fn a_heartbeat_that_is_asked_for_is_sent_at_once() {
    let (discord, _runtime, _running) = start().await;
    let before = discord.heartbeats();
    discord.ask_heartbeat();
    discord.wait_until("a heartbeat", |discord| discord.heartbeats() > before).await;
}

#[tokio::test]
async fn a_missing_intent_names_the_switch() {
    let builder = FakeDiscord::builder().without_message_content();
    let (discord, runtime) = (furnished(builder.start().await), Runtime::new());
    let running = Running::start(settings(&discord), &runtime);
    let adapter = running.adapter.clone();
    let failure = running.failure().await;
    assert!(failure.lasting && failure.hint.contains("Message Content Intent"), "{failure}");
    let status = cairn_types::ports::Platform::status(&*adapter);
    assert_eq!(status.state, LinkState::Failed);
    assert_eq!(status.hint, Some(failure.hint));
}

#[tokio::test]
async fn a_wrong_token_is_a_lasting_failure_that_does_not_name_it() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.set_revoked(true);
    let failure = Running::start(settings(&discord), &runtime).failure().await;
    assert!(failure.lasting && failure.reason.contains("token"), "{failure}");
    assert!(!failure.to_string().contains(discord.token()));
    assert_eq!(discord.connected(), 0, "the gateway is not asked with a bad token");
}

#[tokio::test]
async fn a_revoked_token_ends_the_run() {
    let (discord, _runtime, running) = start().await;
    discord.set_revoked(true);
    let failure = running.failure().await;
    assert!(failure.lasting && failure.reason.contains("token"), "{failure}");
}

#[tokio::test]
async fn a_single_refusal_of_the_token_does_not_end_the_run() {
    let (discord, runtime, running) = start().await;
    discord.fail_next(Route::Typing, Fault::Status(401));
    let channel = CHANNEL_NAME.parse().expect("is a channel");
    let adapter = running.adapter.clone();
    assert!(cairn_types::ports::Platform::typing(&*adapter, channel).await.is_err());
    discord.wait_until("the token is asked for", |discord| discord.arrived(Route::Me) == 1).await;
    discord.say(CHANNEL, "alice", "still there?");
    runtime.wait_taken(1).await;
    assert_eq!(running.wait_state(LinkState::Connected).await.reason, None);
    assert_eq!(discord.identified(), 1);
}

#[tokio::test]
async fn a_refusal_of_before_does_not_end_the_next_run() {
    let (discord, runtime, running) = start().await;
    let adapter = running.adapter.clone();
    drop(running);
    discord.fail_next(Route::Typing, Fault::Status(401));
    let channel = CHANNEL_NAME.parse().expect("is a channel");
    assert!(cairn_types::ports::Platform::typing(&*adapter, channel).await.is_err());
    let again = Running::again(adapter, &runtime);
    discord.wait_until("a new session", |discord| discord.identified() == 2).await;
    again.wait_state(LinkState::Connected).await;
}

#[tokio::test]
async fn a_gateway_of_another_host_is_refused_and_never_connected_to() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.name_gateway("wss://gateway.evil.example");
    let failure = Running::start(settings(&discord), &runtime).failure().await;
    assert!(failure.lasting && failure.reason.contains("gateway.evil.example"), "{failure}");
    assert!(failure.hint.contains("api_url"), "{failure}");
    assert_eq!(discord.connected(), 0);
    assert!(!failure.to_string().contains(discord.token()));
}

#[tokio::test]
async fn an_api_with_a_fault_is_asked_again() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.fail_next(Route::Gateway, Fault::Html(502));
    discord.fail_next(Route::Gateway, Fault::Garbage("<html>hello</html>".to_owned()));
    discord.fail_next(Route::Gateway, Fault::Nothing);
    let running = Running::start(settings(&discord), &runtime);
    let status = running.wait_state(LinkState::Reconnecting).await;
    assert!(status.reason.is_some_and(|reason| reason.contains("502")));
    discord.wait_ready().await;
    running.wait_state(LinkState::Connected).await;
}

#[tokio::test]
async fn an_api_that_cannot_be_reached_is_said_so_and_reached_again() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.set_unreachable(true);
    let running = Running::start(settings(&discord), &runtime);
    assert!(running.wait_state(LinkState::Reconnecting).await.reason.is_some());
    discord.set_unreachable(false);
    discord.wait_ready().await;
}

#[tokio::test]
async fn a_session_survives_an_outage_and_what_was_missed_comes_with_it() {
    let (discord, runtime, running) = start().await;
    discord.say(CHANNEL, "alice", "before");
    runtime.wait_taken(1).await;
    discord.set_unreachable(true);
    discord.say(CHANNEL, "alice", "meanwhile");
    // The fourth try asks the API first, which cannot be reached either.
    discord.wait_until("four tries in vain", |discord| discord.turned_away() >= 4).await;
    running.wait_state(LinkState::Reconnecting).await;
    discord.set_unreachable(false);
    let taken = runtime.wait_taken(2).await;
    assert_eq!(taken.iter().map(words).collect::<Vec<_>>(), ["before", "meanwhile"]);
    assert_eq!((discord.identified(), discord.resumed()), (1, 1));
    running.wait_state(LinkState::Connected).await;
    discord.assert_clean();
}

#[tokio::test]
async fn without_budget_no_session_is_begun() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.set_identify_budget(0);
    let running = Running::start(settings(&discord), &runtime);
    let status = running.wait_state(LinkState::Reconnecting).await;
    assert!(status.reason.is_some_and(|reason| reason.contains("sessions")));
    assert_eq!(discord.identified(), 0);
    discord.assert_clean();
}

#[tokio::test]
async fn a_shard_that_is_up_serves_while_another_waits_to_begin() {
    let builder = FakeDiscord::builder().identify_every(Duration::ZERO).shards(2);
    let (discord, runtime) = (furnished(builder.start().await), Runtime::new());
    // The second one waits for its turn, and then for hours, since no session is left: however slow this machine is.
    discord.set_identify_budget(1);
    let running = Running::start(settings(&discord), &runtime);
    discord.wait_ready().await;
    for (n, text) in ["one", "two"].into_iter().enumerate() {
        discord.say(CHANNEL, "alice", text);
        assert_eq!(words(&runtime.wait_taken(n + 1).await[n]), text);
    }
    assert_eq!(running.status().shards.map(|shards| shards.down), Some(vec![1]));
    assert_eq!(discord.identified_shards(), [(0, 2)]);
    discord.assert_clean();
}

#[tokio::test]
async fn over_a_backup_that_was_restored_no_session_goes_on() {
    let (discord, runtime, folder) =
        (discord().await, Runtime::new(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("sessions");
    let kept = || DiscordSettings { sessions: Some(path.clone()), ..settings(&discord) };
    let restored = Runtime::new();
    let known = discord.say(CHANNEL, "alice", "in the backup");
    [&runtime, &restored].iter().for_each(|runtime| runtime.has("main/discord/101", known));
    let running = Running::start(kept(), &runtime);
    discord.wait_ready().await;
    discord.say(CHANNEL, "alice", "after the backup");
    runtime.wait_taken(1).await;
    // Has the session settled.
    discord.say(OTHER, "alice", "elsewhere");
    runtime.wait_taken(2).await;
    running.stopped(&discord).await;
    assert!(path.exists());
    let _running = Running::start(kept(), &restored);
    assert_eq!(words(&restored.wait_taken(1).await[0]), "after the backup");
    assert_eq!((discord.resumed(), discord.identified()), (0, 2));
}

#[tokio::test]
async fn a_stop_during_the_first_catching_up_loses_no_private_message() {
    let (discord, runtime, folder) =
        (discord().await, Runtime::new(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("sessions");
    let kept = || DiscordSettings { sessions: Some(path.clone()), ..settings(&discord) };
    runtime.pair(&format!("discord/{}", discord.user("alice")));
    let dm = discord.dm("alice");
    let known = discord.say(dm, "alice", "known");
    runtime.has_private(&format!("main/discord/{dm}"), known);
    discord.say(dm, "alice", "missed");
    let gate = discord.hold(Route::Fetch);
    let running = Running::start(kept(), &runtime);
    discord.wait_for(Route::Fetch, 1).await;
    running.stopped(&discord).await;
    gate.open();
    let _running = Running::start(kept(), &runtime);
    assert_eq!(words(&runtime.wait_taken(1).await[0]), "missed");
    assert_eq!((discord.resumed(), discord.identified()), (0, 2));
}

#[tokio::test]
async fn a_session_goes_on_after_a_stop_from_what_the_runtime_has() {
    let (discord, runtime, folder) =
        (discord().await, Runtime::new(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("sessions");
    let kept = || DiscordSettings { sessions: Some(path.clone()), ..settings(&discord) };
    let running = Running::start(kept(), &runtime);
    discord.wait_ready().await;
    discord.say(CHANNEL, "alice", "one");
    runtime.wait_taken(1).await;
    // While this one is on its way, nothing after it counts as taken in, whatever becomes of it.
    let gate = runtime.hold(CHANNEL);
    discord.say(CHANNEL, "alice", "two");
    discord.say(OTHER, "alice", "three");
    runtime.wait_taken(2).await;
    running.stopped(&discord).await;
    gate.open();
    assert!(path.exists());
    let running = Running::start(kept(), &runtime);
    let taken = runtime.wait_taken(3).await;
    assert_eq!(taken.iter().map(words).collect::<Vec<_>>(), ["one", "three", "two"]);
    assert_eq!((discord.resumed(), discord.identified()), (1, 1));
    assert!(!path.exists(), "it would be false from now on");
    assert_eq!(running.wait_state(LinkState::Connected).await.name.as_deref(), Some("cairn"));
    assert_eq!(discord.arrived(Route::Channel), 0, "where channels are is kept as well");
    discord.assert_clean();
}
