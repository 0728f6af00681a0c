//! A conversation as people see it: a reply, what waits meanwhile, a draft.

use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::telegram::{FakeTelegram, Say, Sent};
use serde_json::json;

use super::rig::{Rig, World, texts};

#[tokio::test]
async fn an_answer_that_was_cut_is_told_and_goes_on_and_a_refusal_is_told_as_one() {
    let rig = Rig::open().await;
    rig.model.push(Kind::Reply, Answer::text("one quokka, two quokkas and").finish("length"));
    rig.telegram.say(rig.alice.id, &rig.alice, "count quokkas");
    let sent = rig.telegram.wait_sent(rig.alice.id, 1).await;
    assert!(sent[0].text.starts_with("one quokka, two quokkas and\n\n(Cut off here: "), "{sent:?}");
    rig.telegram.say(rig.alice.id, &rig.alice, "go on, quokka");
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert!(rig.last_request().contains("(Cut off here: "), "{}", rig.last_request());
    // As it is, with less and less of what was said before, and by itself.
    (0..4).for_each(|_| rig.model.push(Kind::Reply, Answer::text("").finish("content_filter")));
    rig.telegram.say(rig.alice.id, &rig.alice, "a bad quokka");
    let sent = rig.telegram.wait_sent(rig.alice.id, 3).await;
    assert!(sent[2].text.contains("content filter") && !sent[2].text.contains("went wrong"), "{sent:?}");
    rig.end().await;
}

#[tokio::test]
async fn what_waits_while_it_thinks_is_answered_at_once() {
    let rig = Rig::open().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.telegram.say(rig.alice.id, &rig.alice, "first quokka");
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.telegram.say(rig.alice.id, &rig.alice, "second quokka");
    rig.telegram.say(rig.alice.id, &rig.alice, "third quokka");
    rig.telegram.wait_confirmed().await;
    gate.open();
    let sent = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(texts(&sent)[0], "echo: first quokka");
    let request = rig.last_request();
    assert!(request.contains("second quokka") && request.contains("third quokka"), "{request}");
    rig.delivered().await;
    assert_eq!(rig.asked(), 2);
    rig.end().await;
}

#[tokio::test]
async fn what_is_said_while_tools_are_called_goes_with_the_next_round_of_the_same_turn() {
    let rig = Rig::open().await;
    rig.model.push(Kind::Reply, Answer::call("history_search", json!({"query": "quokka"})));
    rig.model.push(Kind::Reply, Answer::text("a small quokka then"));
    let gate = rig.model.hold(Kind::Reply);
    rig.telegram.say(rig.alice.id, &rig.alice, "draw a quokka");
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.telegram.say(rig.alice.id, &rig.alice, "a small one");
    rig.telegram.wait_confirmed().await;
    gate.open();
    let sent = rig.telegram.wait_sent(rig.alice.id, 1).await;
    assert_eq!(texts(&sent), ["a small quokka then"]);
    let request = rig.last_request();
    assert!(request.contains("draw a quokka") && request.contains("a small one"), "{request}");
    rig.delivered().await;
    assert_eq!(rig.asked(), 2);
    rig.end().await;
}

#[tokio::test]
async fn a_draft_is_shown_by_edits_and_ends_as_the_reply() {
    let rig = World::new().await.start("direct = \"open\"\ndrafts = true\ndraft_interval_ms = 500").await;
    let reply: Vec<String> = (0..60).map(|n| format!("quokka number {n}.")).collect();
    let reply = reply.join(" ");
    let (answer, gate) = Answer::text(reply.clone()).gated();
    rig.model.push(Kind::Reply, answer);
    rig.telegram.say(rig.alice.id, &rig.alice, Say::text("count, quokka"));
    for n in 0..3 {
        gate.pass(10);
        let grown = |sent: &[Sent]| sent.first().is_some_and(|sent| sent.edits.len() >= n);
        rig.telegram.wait_until("a longer draft", |telegram| grown(&telegram.sent(rig.alice.id))).await;
    }
    gate.open();
    rig.telegram
        .wait_until("the whole reply", |telegram| {
            telegram.sent(rig.alice.id).first().is_some_and(|sent| sent.text == reply)
        })
        .await;
    rig.delivered().await;
    let sent = rig.telegram.sent(rig.alice.id);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].edits.len() > 1, "{sent:?}");
    assert!(sent[0].edits.is_sorted_by_key(String::len), "a draft only grows: {sent:?}");
    rig.end().await;
}

#[tokio::test]
async fn what_people_react_with_is_told_to_the_model() {
    let rig = Rig::open().await;
    let answer = rig.ask(&rig.alice, "is it late?").await;
    // A reaction counts once its message is known to have been sent.
    rig.delivered().await;
    rig.telegram.react(rig.alice.id, &rig.alice, answer.id, &[], &["👍"]);
    rig.telegram.react(rig.alice.id, &rig.alice, answer.id, &["👍"], &["🎉"]);
    rig.telegram.wait_confirmed().await;
    rig.ask(&rig.alice, "and now?").await;
    let request = rig.last_request();
    assert!(request.contains("- Alice Quokka: 🎉 to \"echo: is it late?\""), "{request}");
    assert!(!request.contains('👍') && rig.asked() == 2, "{request}");
    rig.ask(&rig.alice, "once more").await;
    assert!(!rig.last_request().contains("Reactions"));
    rig.end().await;
}

#[tokio::test]
async fn messages_are_marked_by_reactions_while_their_turn_runs() {
    let keys = "direct = \"open\"\nreaction_seen = \"👀\"\nreaction_working = \"writing\"\nreaction_failed = \"sob\"";
    let rig = World::new().await.start(keys).await;
    let gate = rig.model.hold(Kind::Reply);
    let id = rig.telegram.say(rig.alice.id, &rig.alice, Say::text("hello, quokka"));
    let alice = rig.alice.id;
    let last = move |telegram: &FakeTelegram, mark: &str| {
        telegram.reactions(alice, id).last().is_some_and(|last| last == mark)
    };
    rig.telegram.wait_until("the mark", |telegram| last(telegram, "✍")).await;
    gate.open();
    rig.telegram.wait_until("the end of the mark", |telegram| last(telegram, "")).await;
    rig.telegram.wait_sent(alice, 1).await;
    rig.end().await;
}

#[tokio::test]
async fn a_topic_is_known_by_its_name_wherever_its_channel_is_named() {
    let world = World::new().await;
    let forum = world.telegram.forum("Quokka tea");
    let topic = world.telegram.topic(forum, &world.alice, "Cakes");
    let keys = format!("chats = [{forum}]\nrespond = \"all\"");
    let rig = world.start(&keys).await;
    let channel = format!("main/telegram/{forum}/{topic}");
    let say = |text: &str| rig.telegram.say(forum, &rig.alice, Say::text(text).topic(topic));
    say("which cake?");
    rig.telegram.wait_sent(forum, 1).await;
    rig.delivered().await;
    let named = async |name: &str| {
        let channels = rig.json(&["channels"]).await;
        assert_eq!(channels[0]["name"], format!("Quokka tea › {name}"));
        let explained = rig.cairn(&["explain", &channel]).await.1;
        assert!(explained.contains(&format!("{channel} (Quokka tea › {name})")), "{explained}");
    };
    named("Cakes").await;
    rig.telegram.rename_topic(forum, topic, &rig.alice, "Pies");
    rig.telegram.mute(forum);
    say("and which pie?");
    rig.outbox_until("dead", 1).await;
    named("Pies").await;
    let (_, outbox) = rig.cairn(&["outbox", "list"]).await;
    assert!(outbox.contains(&format!("{channel} (Quokka tea › Pies)")), "{outbox}");
    rig.end().await;
}
