//! Commands as people give them.

use super::rig::{Rig, World};

/// The bot's answer to a command in a private chat.
async fn command(rig: &Rig, command: &str) -> String {
    let before = rig.telegram.sent(rig.alice.id).len();
    rig.telegram.command(rig.alice.id, &rig.alice, command);
    rig.telegram.wait_sent(rig.alice.id, before + 1).await.swap_remove(before).text
}

#[tokio::test]
async fn all_commands_are_registered_and_answer() {
    let rig = Rig::open().await;
    rig.telegram.wait_for("setMyCommands", 1).await;
    rig.ask(&rig.alice, "hello quokka").await;
    let help = command(&rig, "/help").await;
    let names: Vec<String> = {
        let calls = rig.telegram.calls("setMyCommands");
        let commands = calls.iter().flat_map(|call| call.params["commands"].as_array().unwrap().clone());
        commands.map(|command| command["command"].as_str().unwrap().to_owned()).collect()
    };
    for name in [
        "compact", "context", "status", "memory", "remember", "forget", "export", "forgetme", "new", "undo",
        "stop", "approve", "deny", "help",
    ] {
        assert!(names.iter().any(|registered| registered == name), "{name} is not registered: {names:?}");
        assert!(help.contains(&format!("/{name}")), "{name} is not in the help: {help}");
    }
    let context = command(&rig, "/context").await;
    assert!(context.contains("calm") && context.contains('%'), "{context}");
    assert!(!command(&rig, "/status").await.is_empty());
    let kept = command(&rig, "/remember the quokka is called Kiki").await;
    assert!(!kept.is_empty());
    assert!(command(&rig, "/memory Kiki").await.contains("Kiki"));
    assert!(command(&rig, "/export").await.contains("Kiki"));
    command(&rig, "/forget Kiki").await;
    assert!(!command(&rig, "/memory").await.contains("is called Kiki"));
    assert!(command(&rig, "/remember").await.contains("/remember TEXT"), "what is missing is said");
    assert!(!command(&rig, "/compact").await.is_empty());
    assert!(!command(&rig, "/stop").await.is_empty());
    assert!(!command(&rig, "/dance").await.is_empty(), "an unknown command is told privately");
    assert_eq!(rig.asked(), 1, "commands are no words for the model");
    rig.end().await;
}

#[tokio::test]
async fn undo_and_new_take_words_out_of_the_window() {
    let rig = Rig::open().await;
    rig.ask(&rig.alice, "first quokka").await;
    rig.ask(&rig.alice, "second quokka").await;
    command(&rig, "/undo").await;
    rig.ask(&rig.alice, "third quokka").await;
    let request = rig.last_request();
    assert!(request.contains("first quokka") && !request.contains("second quokka"), "{request}");
    command(&rig, "/new").await;
    rig.ask(&rig.alice, "fourth quokka").await;
    assert!(!rig.last_request().contains("first quokka"), "{}", rig.last_request());
    let found = rig.json(&["search", &format!("main/telegram/{}", rig.alice.id), "second"]).await;
    assert!(found.to_string().contains("second quokka"), "the archive keeps it: {found}");
    rig.end().await;
}

#[tokio::test]
async fn what_somebody_says_of_themselves_follows_them_and_says_whose_word_it_is() {
    let world = World::new().await;
    let (hut, other) = (world.telegram.supergroup("Quokka hut"), world.telegram.supergroup("Other quokkas"));
    let keys = format!("direct = \"open\"\nchats = [{hut}, {other}]\nrespond = \"all\"");
    let rig = world.start(&keys).await;
    let say = async |chat: i64, who, text: &str| {
        let before = rig.telegram.sent(chat).len();
        rig.telegram.say(chat, who, text);
        rig.telegram.wait_sent(chat, before + 1).await;
        rig.last_request()
    };
    say(hut, &rig.alice, "hello, quokka").await;
    for (who, text) in [
        (&rig.alice, "/remember I keep a quokka, and I am allergic to nuts"),
        (&rig.bob, "/remember Alice Quokka hates nuts"),
    ] {
        let before = rig.telegram.sent(hut).len();
        rig.telegram.command(hut, who, text);
        rig.telegram.wait_sent(hut, before + 1).await;
    }
    let question = "which nuts may I have, quokka?";
    let own = "Alice Quokka said: \"I keep a quokka, and I am allergic to nuts\"";
    let hearsay = "Bob Quokka said: \"Alice Quokka hates nuts\"";
    let here = say(hut, &rig.bob, question).await;
    assert!(here.find(own) < here.find(hearsay) && here.contains(own), "her own word comes first: {here}");
    let private = say(rig.alice.id, &rig.alice, question).await;
    assert!(private.contains(own) && !private.contains("hates nuts"), "{private}");
    for (chat, who) in [(other, &rig.alice), (rig.bob.id, &rig.bob)] {
        let elsewhere = say(chat, who, question).await;
        assert!(!elsewhere.contains("allergic") && !elsewhere.contains("hates"), "{elsewhere}");
    }
    let shown = async |word: &str| {
        let list = rig.json(&["memory", "list"]).await;
        let memory = list.as_array().unwrap().iter().find(|memory| memory["text"].to_string().contains(word));
        let id = memory.unwrap()["id"].as_str().unwrap().to_owned();
        rig.cairn(&["memory", "show", &id]).await.1
    };
    let (alice, bob) = (format!("telegram/{}", rig.alice.id), format!("telegram/{}", rig.bob.id));
    let hers = shown("allergic").await;
    assert!(hers.contains(&format!("private chats with {alice}")), "{hers}");
    let his = shown("hates").await;
    assert!(his.contains(&format!("Bob Quokka ({bob}), a member, not an operator")), "{his}");
    assert!(his.contains(&format!("about        {alice}")) && !his.contains("by operator"), "{his}");
    rig.end().await;
}
