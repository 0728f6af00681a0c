//! Who is heard where: pairing, groups, context, topics.

use cairn_testkit::telegram::Say;
use serde_json::json;

use super::rig::{Rig, World, texts};

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
    let told = rig.ask(&rig.alice, "still, quokka?").await;
    assert!(!told.text.contains("echo"), "{told:?}");
    assert_eq!(rig.asked(), 1);
    rig.end().await;
}

#[tokio::test]
async fn a_pairing_outlives_a_kill() {
    let mut rig = World::new().await.start("").await;
    rig.ask(&rig.alice, "hello quokka").await;
    let code = rig.json(&["pair", "list"]).await[0]["code"].as_str().unwrap().to_owned();
    assert_eq!(rig.cairn(&["pair", "approve", &code]).await.0, 0);
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    rig.kill().await;
    rig.restart().await;
    assert_eq!(rig.ask(&rig.alice, "there, quokka?").await.text, "echo: there, quokka?");
    rig.end().await;
}

#[tokio::test]
async fn in_a_group_it_answers_who_calls_it_and_knows_what_was_said_before() {
    let world = World::new().await;
    let (hut, other) = (world.telegram.supergroup("Quokka hut"), world.telegram.supergroup("Other quokkas"));
    let rig = world.start(&format!("chats = [{hut}]")).await;
    rig.telegram.say(other, &rig.alice, Say::text("do you hear me, quokka?").mention());
    rig.telegram.say(hut, &rig.alice, "the hut is green, quokka");
    let question = rig.telegram.say(hut, &rig.bob, Say::text("which colour, quokka?").mention());
    let first = rig.telegram.wait_sent(hut, 1).await.swap_remove(0);
    assert_eq!(first.reply_to, Some(question));
    let request = rig.last_request();
    assert!(request.contains("the hut is green") && request.contains("Alice Quokka"), "{request}");
    assert!(!request.contains("cairn_test_bot "), "its own name is no part of the words: {request}");

    rig.telegram.say(hut, &rig.bob, Say::text("sure, quokka?").reply_to(first.id));
    assert!(rig.telegram.wait_sent(hut, 2).await[1].text.contains("sure, quokka?"));
    rig.telegram.say(hut, &rig.bob, "nobody is asked, quokka");
    rig.telegram.wait_confirmed().await;
    assert_eq!(rig.asked(), 2);
    assert!(rig.telegram.sent(other).is_empty());
    assert!(rig.log().contains(&other.to_string()), "the log tells by which id a group can be served");
    rig.end().await;
}

#[tokio::test]
async fn everything_is_answered_where_the_place_says_all() {
    let world = World::new().await;
    let hut = world.telegram.group("Quokka hut");
    let keys = format!("[[telegram.places]]\nchat = {hut}\nrespond = \"all\"");
    let rig = world.start(&keys).await;
    rig.telegram.say(hut, &rig.alice, "hello, quokkas");
    assert_eq!(rig.telegram.wait_sent(hut, 1).await[0].text, "echo: hello, quokkas");
    rig.end().await;
}

#[tokio::test]
async fn each_topic_is_a_channel_of_its_own() {
    let world = World::new().await;
    let forum = world.telegram.forum("Quokka forum");
    let weather = world.telegram.topic(forum, &world.alice, "weather");
    let food = world.telegram.topic(forum, &world.alice, "food");
    let rig = world.start(&format!("chats = [{forum}]\nrespond = \"all\"")).await;
    let topical = |topic: Option<i64>, text: &str| {
        let say = Say::text(text);
        rig.telegram.say(forum, &rig.alice, topic.map_or(say.clone(), |topic| say.topic(topic)))
    };
    topical(Some(weather), "it rains on the quokka");
    rig.telegram.wait_sent(forum, 1).await;
    topical(Some(food), "leaves for the quokka");
    rig.telegram.wait_sent(forum, 2).await;
    assert!(!rig.last_request().contains("it rains"), "topics know nothing of each other");
    topical(None, "general quokka");
    let sent = rig.telegram.wait_sent(forum, 3).await;
    assert_eq!(sent.iter().map(|sent| sent.thread).collect::<Vec<_>>(), [Some(weather), Some(food), None]);
    assert_eq!(texts(&sent)[2], "echo: general quokka");
    let channels = rig.json(&["channels"]).await;
    let mut names: Vec<&str> =
        channels.as_array().unwrap().iter().map(|channel| channel["channel"].as_str().unwrap()).collect();
    names.sort_unstable();
    let base = format!("main/telegram/{forum}");
    let mut wanted = [base.clone(), format!("{base}/{weather}"), format!("{base}/{food}")];
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    rig.end().await;
}

#[tokio::test]
async fn other_bots_are_not_heard() {
    let rig = Rig::open().await;
    rig.telegram.say(rig.bob.id, &rig.bob, Say::text("I am a quokka bot").by_bot());
    assert_eq!(rig.ask(&rig.alice, "hello quokka").await.text, "echo: hello quokka");
    rig.telegram.wait_confirmed().await;
    assert!(rig.telegram.sent(rig.bob.id).is_empty());
    assert_eq!(rig.asked(), 1);
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

#[tokio::test]
async fn a_reply_on_its_way_follows_a_group_that_moves() {
    let world = World::new().await;
    let hut = world.telegram.group("Quokka hut");
    let rig = world.start(&format!("chats = [{hut}]\nrespond = \"all\"")).await;
    let gate = rig.model.hold(cairn_testkit::model::Kind::Reply);
    rig.telegram.say(hut, &rig.alice, "hello, quokkas");
    rig.model.wait_for(cairn_testkit::model::Kind::Reply, 1).await;
    let held = rig.telegram.hold_updates();
    let new = rig.telegram.migrate(hut, &rig.alice);
    gate.open();
    assert_eq!(rig.telegram.wait_sent(new, 1).await[0].text, "echo: hello, quokkas");
    drop(held);
    rig.delivered().await;
    assert!(rig.telegram.sent(hut).is_empty());
    rig.end().await;
}
