//! Slash commands.

use std::sync::Arc;

use cairn_testkit::discord::{FakeDiscord, Fault, Route};
use cairn_types::command::{COMMANDS, Command};
use serde_json::json;

use crate::discord::runtime::{CHANNEL, CHANNEL_NAME, CODE, Running, Runtime, connected, discord, id, start};

/// The flag of a message that shows no preview of links.
const QUIET: u64 = 1 << 2;

/// An adapter whose commands are registered.
async fn registered() -> (FakeDiscord, Arc<Runtime>, Running) {
    let (discord, runtime, running) = start().await;
    discord.wait_until("commands", |discord| discord.commands().len() == COMMANDS.len()).await;
    (discord, runtime, running)
}

#[tokio::test]
async fn commands_are_registered_once() {
    let (discord, runtime) = (discord().await, Runtime::new());
    let first = connected(&discord, &runtime).await;
    discord.wait_until("commands", |discord| discord.commands().len() == COMMANDS.len()).await;
    drop(first);
    let asked = discord.arrived(Route::Commands);
    discord.forget_sessions();
    discord.disconnect();
    let _again = connected(&discord, &runtime).await;
    discord.wait_for(Route::Commands, asked + 1).await;
    let call = discord.slash(CHANNEL, "alice", "help", &[]);
    runtime.answers("help", false);
    discord.wait_answer(call).await;
    assert_eq!(discord.arrived(Route::Commands), asked + 1, "asked, and left as they are");
}

#[tokio::test]
async fn a_command_is_put_off_run_and_answered() {
    let (discord, runtime, _running) = registered().await;
    runtime.answers("remembered", false);
    let call = discord.slash(CHANNEL, "alice", "remember", &[("text", "the key is under the mat")]);
    let answer = discord.wait_answer(call).await;
    assert!(answer.deferred && !answer.ephemeral, "{answer:?}");
    assert_eq!((answer.flags, answer.shown.as_ref().map(|shown| shown.flags)), (QUIET, Some(QUIET)));
    assert_eq!(answer.words(), "remembered");
    let calls = runtime.wait_called(1).await;
    assert_eq!(calls[0].channel.as_str(), CHANNEL_NAME);
    assert_eq!(calls[0].message, id(call));
    assert_eq!(calls[0].command, Ok(Command::Remember { text: "the key is under the mat".to_owned() }));
    assert!(!calls[0].direct);
    discord.assert_clean();
}

#[tokio::test]
async fn a_private_answer_is_seen_by_the_caller_alone() {
    let (discord, runtime, _running) = registered().await;
    runtime.answers("all about you", true);
    let export = discord.slash(CHANNEL, "alice", "export", &[]);
    let answer = discord.wait_answer(export).await;
    assert!(answer.ephemeral && answer.flags & QUIET != 0, "{answer:?}");
    // Nobody knew beforehand that this one would be private.
    let status = discord.slash(CHANNEL, "alice", "status", &[]);
    discord
        .wait_until("a private answer", |discord| {
            let answer = discord.answer(status);
            answer.words().contains("all about you") && answer.followups.iter().all(|more| more.ephemeral)
        })
        .await;
    assert!(discord.answer(status).shown.is_none_or(|shown| shown.content.is_empty()));
}

#[tokio::test]
async fn a_long_answer_goes_on_behind_the_first_part() {
    let (discord, runtime, _running) = registered().await;
    let long = "a line of it\n".repeat(400);
    runtime.answers(&long, false);
    let call = discord.slash(CHANNEL, "alice", "context", &[]);
    discord.wait_until("two more parts", |discord| discord.answer(call).followups.len() == 2).await;
    let answer = discord.answer(call);
    assert_eq!(answer.words().matches("a line of it").count(), 400);
    assert!(answer.followups.iter().all(|more| !more.ephemeral && more.shown.flags == QUIET));
    discord.assert_clean();
}

#[tokio::test]
async fn who_is_not_served_is_told_so_privately() {
    let (discord, runtime) = (discord().await, Runtime::new());
    discord.guild(200);
    discord.channel(200, 201);
    let _running = connected(&discord, &runtime).await;
    discord.wait_until("commands", |discord| discord.commands().len() == COMMANDS.len()).await;
    let call = discord.slash(201, "mallory", "export", &[]);
    let answer = discord.wait_answer(call).await;
    assert!(answer.ephemeral && !answer.deferred && answer.words().contains("not set up"), "{answer:?}");
    let stranger = discord.slash(discord.dm("eve"), "eve", "help", &[]);
    assert!(discord.wait_answer(stranger).await.words().contains(CODE));
    runtime.answers("hello", false);
    let served = discord.slash(CHANNEL, "alice", "help", &[]);
    discord.wait_answer(served).await;
    assert_eq!(runtime.wait_called(1).await.len(), 1, "only the served one came to the runtime");
}

#[tokio::test]
async fn a_command_among_others_is_not_run() {
    let (discord, runtime, _running) = registered().await;
    let all = discord.commands();
    assert!(all.iter().all(|known| known["contexts"] == json!([0, 1])), "{all:?}");
    assert!(all.iter().all(|known| known["integration_types"] == json!([0])), "{all:?}");
    runtime.answers("all about you", true);
    runtime.pair(&format!("discord/{}", discord.user("alice")));
    let dm = discord.dm("alice");
    let own = discord.slash(dm, "alice", "export", &[]);
    discord.wait_answer(own).await;
    // Two people's chat in which the bot has no part: by its kind alone it is a private chat like that with the bot.
    discord.dispatch(
        "INTERACTION_CREATE",
        json!({
            "id": own.to_string(), "application_id": "1", "type": 2, "context": 2, "token": format!("aW50ZXJhY3Rpb246{own}"),
            "data": {"name": "export", "type": 1}, "channel_id": dm.to_string(),
            "channel": {"id": dm.to_string(), "type": 1},
            "user": {"id": discord.user("alice").to_string(), "username": "alice"},
        }),
    );
    discord.wait_for(Route::Callback, 2).await;
    let again = discord.slash(dm, "alice", "export", &[]);
    discord.wait_answer(again).await;
    assert_eq!(runtime.wait_called(2).await.len(), 2, "the one among others did not come to the runtime");
}

#[tokio::test]
async fn an_interaction_whose_token_is_refused_leaves_the_connection_alone() {
    let (discord, runtime, running) = registered().await;
    runtime.answers("hello", false);
    for route in [Route::Webhook, Route::Callback] {
        discord.fail_next(route, Fault::Status(401));
        discord.slash(CHANNEL, "alice", "help", &[]);
        discord.wait_until("the refusal", |discord| discord.unmet(route) == 0).await;
    }
    let served = discord.slash(CHANNEL, "alice", "help", &[]);
    assert_eq!(discord.wait_answer(served).await.words(), "hello");
    assert_eq!(running.status().reason, None);
    assert_eq!(discord.identified(), 1);
}
