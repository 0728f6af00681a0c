//! Slash commands, from the call to the last word of the answer.

use super::*;

async fn scene(within: Duration) -> (FakeDiscord, Rest, Socket) {
    let builder = FakeDiscord::builder().identify_every(Duration::ZERO).answer_within(within);
    let discord = builder.start().await;
    discord.guild(100);
    discord.channel(100, 101);
    let rest = Rest::of(&discord);
    let commands = json!([{"name": "remember", "description": "d", "options": [
        {"name": "text", "description": "d", "type": 3, "required": true}]}]);
    rest.ask("PUT", &format!("/api/v10/applications/{BOT_ID}/commands"), commands).await;
    let (socket, _) = Socket::ready(&discord, 0).await;
    (discord, rest, socket)
}

const USUAL: Duration = Duration::from_secs(60);

fn words(text: &str) -> serde_json::Value {
    json!({"content": text, "allowed_mentions": {"parse": []}})
}

#[tokio::test]
async fn a_deferred_answer_is_completed_and_followed_up() {
    let (discord, rest, mut socket) = scene(USUAL).await;
    let id = discord.slash(101, "alice", "remember", &[("text", "Rex is a dog")]);
    let call = socket.event("INTERACTION_CREATE").await["d"].clone();
    assert_eq!(
        (call["id"].as_str().unwrap(), &call["data"]["options"][0]["value"]),
        (id.to_string().as_str(), &json!("Rex is a dog"))
    );
    assert_eq!(call["member"]["user"]["id"], discord.user("alice").to_string());
    let token = call["token"].as_str().unwrap();
    let deferred = json!({"type": 5, "data": {"flags": 64}});
    let path = format!("/api/v10/interactions/{id}/{token}/callback");
    assert_eq!(rest.post(&path, deferred).await.status, 204);
    assert!(discord.answer(id).deferred && discord.answer(id).words().is_empty());
    let hook = format!("/api/v10/webhooks/{BOT_ID}/{token}");
    assert_eq!(rest.ask("PATCH", &format!("{hook}/messages/@original"), words("kept")).await.status, 200);
    rest.post(&hook, words("and more")).await;
    let answer = discord.wait_answer(id).await;
    assert!(answer.ephemeral);
    assert_eq!(answer.words(), "kept\nand more");
    discord.assert_clean();
}

#[tokio::test]
async fn an_interaction_is_answered_once_and_first() {
    let (discord, rest, mut socket) = scene(USUAL).await;
    let id = discord.slash(discord.dm("alice"), "alice", "remember", &[("text", "x")]);
    let call = socket.event("INTERACTION_CREATE").await["d"].clone();
    assert!(call["user"].is_object() && call.get("member").is_none() && call.get("guild_id").is_none());
    let token = call["token"].as_str().unwrap();
    let hook = format!("/api/v10/webhooks/{BOT_ID}/{token}");
    assert_eq!(rest.post(&hook, words("too soon")).await.refusal(), (404, 10015));
    let path = format!("/api/v10/interactions/{id}/{token}/callback");
    let answer = json!({"type": 4, "data": words("done")});
    assert_eq!(rest.post(&path, answer.clone()).await.status, 204);
    assert_eq!(rest.post(&path, answer.clone()).await.refusal(), (400, 40060));
    let rules: Vec<Rule> = discord.violations().iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [Rule::Interaction, Rule::Interaction]);
    let wrong = format!("/api/v10/interactions/{id}/wrong/callback");
    assert_eq!(rest.post(&wrong, answer).await.refusal(), (404, 10062));
}

#[tokio::test]
async fn a_late_answer_finds_no_interaction() {
    let (discord, rest, mut socket) = scene(Duration::ZERO).await;
    let id = discord.slash(101, "alice", "remember", &[("text", "x")]);
    let call = socket.event("INTERACTION_CREATE").await["d"].clone();
    let path = format!("/api/v10/interactions/{id}/{}/callback", call["token"].as_str().unwrap());
    let got = rest.post(&path, json!({"type": 4, "data": words("late")})).await;
    assert_eq!(got.refusal(), (404, 10062));
    discord.assert_clean();
}

fn button(label: &str, id: &str) -> serde_json::Value {
    json!({"type": 2, "style": 3, "label": label, "custom_id": id})
}

fn asked(buttons: &[serde_json::Value]) -> serde_json::Value {
    let mut asked = words("may I?");
    asked["components"] = json!([{"type": 1, "components": buttons}]);
    asked
}

const SEND: &str = "/api/v10/channels/101/messages";

#[tokio::test]
async fn a_press_names_its_message_and_is_answered_by_a_change_of_it() {
    let (discord, rest, mut socket) = scene(USUAL).await;
    rest.post(SEND, asked(&[button("Yes", "y"), button("No", "n")])).await;
    let question = discord.sent(101)[0].clone();
    assert_eq!(question.buttons[0], ("Yes".to_owned(), "y".to_owned()));
    let mut press = async |label: &str| {
        let id = discord.press(101, question.id, label, "alice");
        let call = socket.event("INTERACTION_CREATE").await["d"].clone();
        assert_eq!((&call["type"], &call["data"]["component_type"]), (&json!(3), &json!(2)));
        assert_eq!(call["message"]["id"], question.id.to_string());
        let token = call["token"].as_str().unwrap().to_owned();
        (id, format!("/api/v10/interactions/{id}/{token}/callback"), token)
    };
    let (later, path, token) = press("No").await;
    assert_eq!(rest.post(&path, json!({"type": 6})).await.status, 204);
    assert!(discord.answer(later).deferred && discord.sent(101)[0].buttons.len() == 2);
    let original = format!("/api/v10/webhooks/{BOT_ID}/{token}/messages/@original");
    assert_eq!(rest.ask("PATCH", &original, words("I may")).await.status, 200);
    assert_eq!((discord.sent(101)[0].content.as_str(), discord.sent(101)[0].buttons.len()), ("I may", 2));
    let (_, path, _) = press("Yes").await;
    let update = json!({"type": 7, "data": {"components": [], "allowed_mentions": {"parse": []}}});
    assert_eq!(rest.post(&path, update.clone()).await.status, 204);
    assert_eq!((discord.sent(101)[0].content.as_str(), discord.sent(101)[0].buttons.len()), ("I may", 0));
    discord.assert_clean();
    assert_eq!(rest.post(&path, update.clone()).await.refusal(), (400, 40060));
    let command = discord.slash(101, "alice", "remember", &[("text", "x")]);
    let call = socket.event("INTERACTION_CREATE").await["d"].clone();
    let path = format!("/api/v10/interactions/{command}/{}/callback", call["token"].as_str().unwrap());
    assert_eq!(rest.post(&path, update).await.refusal(), (400, 50035), "a command has no message to change");
}

#[tokio::test]
async fn malformed_buttons_are_refused() {
    let (discord, rest, _socket) = scene(USUAL).await;
    let bad = [
        asked(&[]),
        asked(&vec![button("Yes", "y"); 6]),
        asked(&[button("Yes", "y"), button("No", "y")]),
        asked(&[button("", "y")]),
        asked(&[button(&"x".repeat(81), "y")]),
        asked(&[button("Yes", "")]),
        asked(&[button("Yes", &"x".repeat(101))]),
        asked(&[json!({"type": 2, "style": 9, "label": "Yes", "custom_id": "y"})]),
        json!({"content": "may I?", "allowed_mentions": {"parse": []}, "components": [button("Yes", "y")]}),
        json!({"content": "may I?", "allowed_mentions": {"parse": []}, "components": {}}),
    ];
    for body in &bad {
        assert_eq!(rest.post(SEND, body.clone()).await.refusal(), (400, 50035), "{body}");
    }
    let rules: Vec<Rule> = discord.violations().iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, vec![Rule::Components; bad.len()]);
    assert!(discord.sent(101).is_empty());
}
