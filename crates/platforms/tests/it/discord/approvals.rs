//! Questions whether a call may be made: their buttons, who presses them, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use cairn_testkit::discord::{BOT_ID, FakeDiscord, Fault, Route, Sent};
use cairn_testkit::runtime::{MAY_NOT, NOTHING_WAITS};
use cairn_types::command::Command;
use cairn_types::ids::ApprovalId;
use cairn_types::ports::Platform as _;
use serde_json::{Value, json};

use crate::discord::runtime::{
    CHANNEL, CHANNEL_NAME, GUILD, OTHER, Running, Runtime, connected, furnished, id,
};
use crate::question::{question_of, send_question};

const MESSAGE: u64 = 4;
const LATER: u64 = 6;
const UPDATE: u64 = 7;

/// A fake Discord with the server that waits for answers as long as a slow machine takes.
async fn discord() -> FakeDiscord {
    let builder =
        FakeDiscord::builder().identify_every(Duration::ZERO).answer_within(Duration::from_secs(60));
    furnished(builder.start().await)
}

async fn start() -> (FakeDiscord, Arc<Runtime>, Running) {
    let (discord, runtime) = (discord().await, Runtime::new());
    let running = connected(&discord, &runtime).await;
    (discord, runtime, running)
}

/// Sends a question. Its messages.
async fn ask(
    discord: &FakeDiscord,
    running: &Running,
    channel: &str,
    id: &ApprovalId,
    words: &str,
) -> Vec<Sent> {
    let number = channel.rsplit('/').next().and_then(|id| id.parse().ok()).expect("is a number");
    let before = discord.sent(number).len();
    let channel = channel.parse().expect("is a channel");
    send_question(&*running.adapter, &channel, id, words).await;
    discord.sent(number).split_off(before)
}

struct Scene {
    discord: FakeDiscord,
    runtime: Arc<Runtime>,
    running: Running,
    question: Sent,
}

/// A question in the channel, which these people may answer (nobody: everybody).
async fn scene(discord: FakeDiscord, approvers: &[&str]) -> Scene {
    let runtime = Runtime::new();
    let running = connected(&discord, &runtime).await;
    let approvers: Vec<String> =
        approvers.iter().map(|who| format!("discord/{}", discord.user(who))).collect();
    let approvers: Vec<&str> = approvers.iter().map(String::as_str).collect();
    let id = runtime.asks("abc234", &approvers);
    let asked = question_of(&id, json!({"path": "/tmp/x"}));
    let question = ask(&discord, &running, CHANNEL_NAME, &id, &asked).await.remove(0);
    Scene { discord, runtime, running, question }
}

impl Scene {
    fn press(&self, label: &str, user: &str) -> u64 {
        self.discord.press(CHANNEL, self.question.id, label, user)
    }

    fn now(&self) -> Sent {
        let sent = self.discord.sent(CHANNEL);
        sent.into_iter().find(|sent| sent.id == self.question.id).expect("is there")
    }

    async fn wait_closed(&self) -> Sent {
        let id = self.question.id;
        let closed = |discord: &FakeDiscord| {
            discord.sent(CHANNEL).iter().any(|sent| sent.id == id && sent.buttons.is_empty())
        };
        self.discord.wait_until("the buttons to go away", closed).await;
        self.now()
    }
}

#[tokio::test]
async fn a_yes_is_a_command_and_the_question_says_who_gave_it() {
    let scene = scene(discord().await, &["alice"]).await;
    let carried: Vec<(&str, &str)> =
        scene.question.buttons.iter().map(|(label, id)| (label.as_str(), id.as_str())).collect();
    assert_eq!(carried, [("Yes", "approve:abc234"), ("No", "deny:abc234")]);
    let press = scene.press("Yes", "alice");
    assert_eq!(scene.discord.wait_answered(press).await.kind, Some(UPDATE));
    let now = scene.wait_closed().await;
    let (asked, outcome) = now.content.rsplit_once("\n\n").expect("two paragraphs");
    assert_eq!(asked, scene.question.content);
    assert!(outcome.starts_with("— yes, alice, ") && outcome.ends_with(" UTC"), "{outcome}");
    assert_eq!(now.flags, scene.question.flags, "no preview comes of it");
    let calls = scene.runtime.wait_called(1).await;
    assert_eq!(calls[0].command, Ok(Command::Approve { id: Some("abc234".into()) }));
    assert_eq!((calls[0].channel.as_str(), calls[0].direct), (CHANNEL_NAME, false));
    assert_eq!(calls[0].message, id(press));
    assert_eq!(calls[0].caller.id, format!("discord/{}", scene.discord.user("alice")));
    scene.discord.assert_clean();
}

#[tokio::test]
async fn a_no_in_a_thread_or_a_private_chat_is_a_no_there() {
    let discord = discord().await;
    let (dm, runtime) = (discord.dm("alice"), Runtime::new());
    discord.thread(CHANNEL, 301);
    runtime.pair(&format!("discord/{}", discord.user("alice")));
    let running = connected(&discord, &runtime).await;
    let places = [("main/discord/101/301".to_owned(), 301), (format!("main/discord/{dm}"), dm)];
    for (n, (name, channel)) in places.into_iter().enumerate() {
        let id = runtime.asks(&format!("abc23{n}"), &[]);
        let sent = ask(&discord, &running, &name, &id, "May I?").await;
        let press = discord.press(channel, sent[0].id, "No", "alice");
        discord.wait_answered(press).await;
        let now = discord.sent(channel).pop().expect("is there");
        assert!(now.content.starts_with("May I?\n\n— no, alice, ") && now.buttons.is_empty(), "{now:?}");
        let calls = runtime.wait_called(n + 1).await;
        assert_eq!((calls[n].channel.as_str(), calls[n].direct), (name.as_str(), channel == dm));
        assert_eq!(runtime.state.lock().decided[n], (id, false));
    }
    discord.assert_clean();
}

#[tokio::test]
async fn who_may_not_is_told_so_alone_and_the_question_stays() {
    let scene = scene(discord().await, &["alice"]).await;
    let press = scene.press("Yes", "bob");
    let answer = scene.discord.wait_answer(press).await;
    assert_eq!((answer.kind, answer.ephemeral, answer.words().as_str()), (Some(MESSAGE), true, MAY_NOT));
    assert_eq!(scene.now().buttons.len(), 2);
    scene.press("No", "alice");
    assert!(scene.wait_closed().await.content.contains("— no, alice, "));
    scene.discord.assert_clean();
}

#[tokio::test]
async fn the_press_of_a_button_that_is_not_the_bots_is_refused() {
    let scene = scene(discord().await, &[]).await;
    let said = scene.discord.say(CHANNEL, "alice", "my own");
    let own = scene.discord.seen(CHANNEL, scene.question.id);
    let mut unsaid = own.clone();
    unsaid.as_object_mut().expect("is an object").remove("author");
    for (message, carried) in [
        (scene.discord.seen(CHANNEL, said), "approve:abc234"),
        (unsaid, "approve:abc234"),
        (Value::Null, "approve:abc234"),
        (own.clone(), "forget:abc234"),
        (own.clone(), "approve:"),
        (own, ""),
    ] {
        let press = scene.discord.press_as_seen(CHANNEL, &message, carried, "alice");
        let answer = scene.discord.wait_answer(press).await;
        assert!(answer.ephemeral, "{carried}: {answer:?}");
    }
    assert!(scene.runtime.state.lock().calls.is_empty());
    assert_eq!(scene.now().buttons.len(), 2);
    scene.discord.assert_clean();
}

#[tokio::test]
async fn the_first_press_decides_and_a_later_one_finds_nothing_and_changes_no_words() {
    let scene = scene(discord().await, &[]).await;
    let seen = scene.discord.seen(CHANNEL, scene.question.id);
    scene.press("No", "alice");
    let closed = scene.wait_closed().await;
    // Bob's client has not seen the change yet.
    let late = scene.discord.press_as_seen(CHANNEL, &seen, "approve:abc234", "bob");
    let answer = scene.discord.wait_answer(late).await;
    assert_eq!(answer.words(), NOTHING_WAITS);
    assert!(answer.followups[0].ephemeral, "{answer:?}");
    assert_eq!(scene.now().content, closed.content);
    assert_eq!(scene.runtime.state.lock().decided, [("abc234".into(), false)]);
    scene.discord.assert_clean();
}

#[tokio::test]
async fn a_press_that_comes_again_after_a_crash_is_not_run_twice() {
    let Scene { discord, runtime, running, question } = scene(discord().await, &[]).await;
    let gate = runtime.hold("/approve");
    let press = discord.press(CHANNEL, question.id, "Yes", "alice");
    runtime.wait_called(1).await;
    drop(running);
    drop(gate);
    let running = connected(&discord, &runtime).await;
    discord.repeat_interaction(press);
    assert_eq!(discord.wait_answered(press).await.kind, Some(LATER));
    assert_eq!(runtime.state.lock().calls.len(), 1);
    let scene = Scene { discord, runtime, running, question };
    assert_eq!(scene.now().buttons.len(), 2, "nobody knows here how it ended");
    scene.press("No", "alice");
    scene.wait_closed().await;
    assert_eq!(scene.runtime.state.lock().decided, [("abc234".into(), true)]);
    scene.discord.assert_clean();
}

#[tokio::test]
async fn a_runtime_that_takes_its_time_is_answered_for_later() {
    let scene = scene(discord().await, &["alice"]).await;
    for (user, label) in [("bob", "Yes"), ("alice", "No"), ("alice", "No")] {
        let gate = scene.runtime.hold(if label == "Yes" { "/approve" } else { "/deny" });
        let closed = scene.now().buttons.is_empty();
        let press = if closed {
            let seen = scene.discord.seen(CHANNEL, scene.question.id);
            scene.discord.press_as_seen(CHANNEL, &seen, "deny:abc234", user)
        } else {
            scene.press(label, user)
        };
        assert_eq!(scene.discord.wait_answered(press).await.kind, Some(LATER));
        gate.pass(1);
        if user == "bob" || closed {
            let answer = scene.discord.wait_answer(press).await;
            assert!(answer.followups[0].ephemeral, "{answer:?}");
            assert_eq!(answer.words(), if closed { NOTHING_WAITS } else { MAY_NOT });
        } else {
            assert!(scene.wait_closed().await.content.contains("— no, alice, "));
        }
    }
    scene.discord.assert_clean();
}

#[tokio::test]
async fn a_press_that_is_too_old_for_an_answer_still_closes_its_question() {
    let builder = FakeDiscord::builder().identify_every(Duration::ZERO).answer_within(Duration::ZERO);
    let scene = scene(furnished(builder.start().await), &[]).await;
    scene.press("Yes", "alice");
    assert!(scene.wait_closed().await.content.contains("— yes, alice, "));
    assert_eq!(scene.discord.arrived(Route::Edit), 1);
    scene.discord.assert_clean();
}

#[tokio::test]
async fn a_lost_answer_closes_the_question_once() {
    let scene = scene(discord().await, &[]).await;
    scene.discord.fail_next(Route::Callback, Fault::LostAnswer);
    scene.press("Yes", "alice");
    scene.discord.wait_for(Route::Edit, 1).await;
    assert_eq!(scene.wait_closed().await.content.matches("— yes, alice, ").count(), 1);
    assert_eq!(scene.runtime.state.lock().decided.len(), 1);
}

#[tokio::test]
async fn a_long_question_has_its_buttons_under_the_last_part_alone() {
    let (discord, runtime, running) = start().await;
    let id = runtime.asks("abc234", &[]);
    let long = question_of(&id, json!({"text": "x ".repeat(3000)}));
    let sent = ask(&discord, &running, CHANNEL_NAME, &id, &long).await;
    assert!(sent.len() > 1);
    let (last, before) = sent.split_last().expect("some");
    assert!(before.iter().all(|part| part.buttons.is_empty()) && last.buttons.len() == 2);
    let press = discord.press(CHANNEL, last.id, "Yes", "alice");
    discord.wait_answered(press).await;
    let now = discord.sent(CHANNEL).pop().expect("is there");
    assert!(now.content.starts_with(&last.content) && now.content.contains("— yes, alice, "), "{now:?}");
    discord.assert_clean();
}

#[tokio::test]
async fn an_outcome_that_does_not_fit_is_told_beside_the_question() {
    let (discord, runtime, running) = start().await;
    let id = runtime.asks("abc234", &[]);
    let full = "x".repeat(1990);
    let sent = ask(&discord, &running, CHANNEL_NAME, &id, &full).await;
    let press = discord.press(CHANNEL, sent[0].id, "No", "alice");
    let answer = discord.wait_answer(press).await;
    assert!(answer.words().starts_with("— no, alice, ") && !answer.followups[0].ephemeral, "{answer:?}");
    let now = discord.sent(CHANNEL).pop().expect("is there");
    assert!(now.content == full && now.buttons.is_empty());
    discord.assert_clean();
}

#[tokio::test]
async fn hostile_arguments_and_names_stay_words() {
    let (discord, runtime, running) = start().await;
    let id = runtime.asks("abc234", &[]);
    let hostile = json!({
        "text": format!("```\n````\n@everyone <@{BOT_ID}> <@&5> [ok](https://evil.example) https://evil.example"),
    });
    let asked = question_of(&id, hostile);
    let sent = ask(&discord, &running, CHANNEL_NAME, &id, &asked).await;
    assert_eq!(sent[0].content.matches("```").count(), 2, "{}", sent[0].content);
    let name = "@everyone **x** ``` <@&5> https://evil.example";
    let press = discord.press(CHANNEL, sent[0].id, "Yes", name);
    discord.wait_answered(press).await;
    let now = discord.sent(CHANNEL).pop().expect("is there");
    assert!(now.pinged.is_empty() && !now.content.contains("@everyone"), "{}", now.content);
    assert_eq!(now.content.matches("```").count(), 2, "{}", now.content);
    assert!(now.content.contains("\\*\\*x\\*\\*"), "{}", now.content);
    discord.assert_clean();
}

#[tokio::test]
async fn an_edit_of_a_question_leaves_no_dead_buttons() {
    let scene = scene(discord().await, &[]).await;
    let channel = CHANNEL_NAME.parse().expect("is a channel");
    let edited = scene.running.adapter.edit(channel, id(scene.question.id), "It has expired.".to_owned());
    edited.await.expect("is edited");
    assert_eq!((scene.now().content.as_str(), scene.now().buttons.len()), ("It has expired.", 0));
    scene.discord.assert_clean();
}

#[tokio::test]
async fn a_press_among_others_is_not_run() {
    let scene = scene(discord().await, &[]).await;
    let press = scene.press("Yes", "alice");
    scene.wait_closed().await;
    let mut among = json!({
        "id": press.to_string(), "application_id": "1", "type": 3, "context": 2,
        "token": format!("aW50ZXJhY3Rpb246{press}"), "channel_id": OTHER.to_string(), "guild_id": GUILD.to_string(),
        "data": {"component_type": 2, "custom_id": "approve:abc234"},
        "user": {"id": scene.discord.user("alice").to_string(), "username": "alice"},
    });
    among["message"] = scene.discord.seen(CHANNEL, scene.question.id);
    let callbacks = scene.discord.arrived(Route::Callback);
    scene.discord.dispatch("INTERACTION_CREATE", among);
    scene.discord.wait_for(Route::Callback, callbacks + 1).await;
    assert_eq!(scene.runtime.state.lock().calls.len(), 1);
}
