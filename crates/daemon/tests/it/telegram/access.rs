//! Who is heard where: pairing, groups, a group that moves, another list while the bot is connected.

use cairn_testkit::telegram::Say;
use serde_json::json;

use super::rig::World;

#[tokio::test]
async fn a_stranger_is_let_in_by_a_code() {
    let rig = World::new().await.start("").await;
    let told = rig.ask(&rig.alice, "hello quokka").await;
    let list = rig.json(&["pair", "list"]).await;
    assert_eq!(
        (list[0]["state"].as_str(), list[0]["name"].as_str()),
        (Some("waiting"), Some("Alice Quokka"))
    );
    let code = list[0]["code"].as_str().unwrap();
    assert!(told.text.contains(code), "{told:?}");
    assert_eq!(rig.asked(), 0, "a stranger's words reach no model");

    let (status, text) = rig.cairn(&["pair", "approve", "WRONGCODE"]).await;
    assert_ne!(status, 0, "{text}");
    let (status, text) = rig.cairn(&["pair", "approve", code]).await;
    assert_eq!(status, 0, "{text}");
    let sent = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert!(!sent[1].text.contains("echo"), "{sent:?}");
    assert_eq!(rig.ask(&rig.alice, "now, quokka?").await.text, "echo: now, quokka?");

    let user = format!("telegram/{}", rig.alice.id);
    assert_eq!(rig.cairn(&["pair", "revoke", &user]).await.0, 0);
    rig.telegram.say(rig.alice.id, &rig.alice, "still, quokka?");
    rig.telegram.wait_confirmed().await;
    assert_eq!(rig.cairn(&["pair", "approve", &user]).await.0, 0);
    let told = rig.telegram.wait_sent(rig.alice.id, 4).await;
    assert!(told[3].text.contains("approved"), "what came between was answered by nothing: {told:?}");
    assert_eq!(rig.asked(), 1);
    rig.end().await;
}

#[tokio::test]
async fn in_a_group_it_answers_who_calls_it_and_knows_what_was_said_before() {
    let world = World::new().await;
    let (hut, other) = (world.telegram.supergroup("Quokka hut"), world.telegram.supergroup("Other quokkas"));
    let rig = world.start(&format!("chats = [{hut}]")).await;
    rig.telegram.say(other, &rig.alice, "does anybody hear me, quokka?");
    rig.telegram.say(hut, &rig.alice, "the hut is green, quokka");
    let question = rig.telegram.say(hut, &rig.bob, Say::text("which colour, quokka?").mention());
    let first = rig.telegram.wait_sent(hut, 1).await.swap_remove(0);
    assert_eq!(first.reply_to, Some(question));
    let request = rig.last_request();
    assert!(request.contains("the hut is green") && request.contains("Alice Quokka"), "{request}");
    assert!(!request.contains("cairn_test_bot "), "its own name is no part of the words: {request}");

    let channels = rig.json(&["channels"]).await;
    assert_eq!(channels[0]["name"], "Quokka hut", "{channels}");
    rig.telegram.say(hut, &rig.bob, Say::text("sure, quokka?").reply_to(first.id));
    assert!(rig.telegram.wait_sent(hut, 2).await[1].text.contains("sure, quokka?"));
    rig.telegram.say(hut, &rig.bob, "nobody is asked, quokka");
    rig.telegram.wait_confirmed().await;
    assert_eq!(rig.asked(), 2);
    assert!(rig.telegram.sent(other).is_empty());
    assert!(rig.log().contains(&other.to_string()), "the log tells by which id a group can be served");
    rig.telegram.kick(hut, &rig.alice);
    let place = format!("chat {hut} (Quokka hut): the bot was put out of the chat");
    rig.status_until(|line| line["troubles"].to_string().contains(&place)).await;
    rig.end().await;
}

#[tokio::test]
async fn a_group_is_shown_and_let_in_by_a_code() {
    let world = World::new().await;
    let hut = world.telegram.supergroup("Quokka hut");
    let rig = world.start("").await;
    rig.telegram.say(hut, &rig.alice, "nobody is asked, quokka");
    let place = format!("chat {hut}: the group \"Quokka hut\" is not served");
    rig.status_until(|line| line["troubles"].to_string().contains(&place.replace('"', "\\\""))).await;
    assert!(rig.telegram.sent(hut).is_empty());

    rig.telegram.say(hut, &rig.alice, Say::text("do you hear me, quokka?").mention());
    let told = rig.telegram.wait_sent(hut, 1).await;
    let list = rig.json(&["pair", "list"]).await;
    let (group, code) = (format!("telegram/chat:{hut}"), list[0]["code"].as_str().unwrap());
    assert_eq!((list[0]["user"].as_str(), list[0]["state"].as_str()), (Some(&*group), Some("waiting")));
    assert_eq!(list[0]["name"], "Quokka hut, asked by Alice Quokka");
    assert!(told[0].text.contains(code), "{told:?}");
    assert_eq!(rig.asked(), 0, "its words reach no model");

    let (status, text) = rig.cairn(&["pair", "approve", code]).await;
    assert_eq!(status, 0, "{text}");
    rig.telegram.wait_sent(hut, 2).await;
    rig.telegram.say(hut, &rig.bob, Say::text("and now, quokka?").mention());
    assert!(rig.telegram.wait_sent(hut, 3).await[2].text.contains("and now, quokka?"));

    assert_eq!(rig.cairn(&["pair", "revoke", &group]).await.0, 0);
    rig.telegram.say(hut, &rig.bob, Say::text("still, quokka?").mention());
    rig.telegram.wait_confirmed().await;
    assert_eq!((rig.telegram.sent(hut).len(), rig.asked()), (3, 1));
    rig.end().await;
}

#[tokio::test]
async fn who_talks_in_a_group_alone_is_shown_in_private_what_is_stored_about_them() {
    let world = World::new().await;
    let hut = world.telegram.supergroup("Quokka hut");
    let rig = world.start(&format!("chats = [{hut}]")).await;
    rig.telegram.say(hut, &rig.alice, "/new");
    let refused = rig.telegram.wait_sent(hut, 1).await.swap_remove(0).text;
    assert_eq!(refused, "/new is for private chats; here only operators may use it.");
    rig.telegram.say(hut, &rig.alice, "/export");
    let aside = rig.telegram.wait_sent(hut, 2).await.swap_remove(1).text;
    assert!(
        aside.contains("https://t.me/cairn_test_bot"),
        "a link, since no mention of the bot's can be tapped: {aside}"
    );
    for command in ["/export", "/forgetme"] {
        let told = rig.ask(&rig.alice, command).await.text;
        assert!(!told.contains("code") && told.contains("memor"), "{command}: {told}");
    }
    assert!(
        rig.ask(&rig.alice, "hello, quokka").await.text.contains("code"),
        "for all else they are a stranger"
    );
    assert_eq!(rig.asked(), 0);
    rig.end().await;
}

#[tokio::test]
async fn a_group_that_moves_keeps_its_conversation() {
    let world = World::new().await;
    let hut = world.telegram.group("Quokka hut");
    let mut rig = world.start(&format!("chats = [{hut}]\nrespond = \"all\"")).await;
    rig.telegram.say(hut, &rig.alice, "the first quokka is called Kiki");
    rig.telegram.wait_sent(hut, 1).await;
    let new = rig.telegram.migrate(hut, &rig.alice);
    rig.telegram.say(new, &rig.alice, "what is the quokka called?");
    rig.telegram.wait_sent(new, 1).await;
    assert!(rig.last_request().contains("Kiki"), "{}", rig.last_request());
    rig.delivered().await;
    rig.kill().await;
    rig.restart().await;
    rig.telegram.say(new, &rig.alice, "and now, quokka?");
    rig.telegram.wait_sent(new, 2).await;
    assert!(rig.last_request().contains("Kiki"), "{}", rig.last_request());
    let channels = rig.json(&["channels"]).await;
    assert_eq!(channels.as_array().unwrap().len(), 1, "{channels}");
    assert_eq!(channels[0]["channel"], json!(format!("main/telegram/{hut}")));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_heard_changes_at_once_and_the_connection_stays() {
    let world = World::new().await;
    let (alice, bob) = (world.alice.clone(), world.bob.clone());
    let rig = world.start(&format!("direct = \"allowlist\"\nusers = [{}]", alice.id)).await;
    let before = rig.status_until(|line| line["state"] == "connected").await;
    assert_eq!(rig.ask(&alice, "hello").await.text, "echo: hello");
    let unheard = rig.asked();
    rig.telegram.say(bob.id, &bob, "is anybody there?");

    rig.rewrite(&format!("users = [{}]", alice.id), &format!("users = [{}]", bob.id));
    let reloaded = rig.json(&["reload"]).await;
    assert_eq!(reloaded["changed"][0]["key"], "telegram.users", "{reloaded}");
    assert_eq!(rig.ask(&bob, "and now?").await.text, "echo: and now?");
    rig.telegram.say(alice.id, &alice, "and me?");
    assert_eq!(rig.ask(&bob, "who is next?").await.text, "echo: who is next?");
    assert_eq!(rig.asked(), unheard + 2, "neither was answered while they were on no list");

    let after = rig.status_until(|line| line["state"] == "connected").await;
    assert_eq!(after["connected_since"], before["connected_since"]);
    rig.end().await;
}
