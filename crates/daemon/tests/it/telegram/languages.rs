//! What the bot itself says, in the language of its agent and of its places: the texts of `prompts/texts`.

use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::telegram::Say;

use super::rig::World;

#[tokio::test]
async fn a_german_bot_says_all_of_its_own_in_german() {
    let world = World::new().await;
    let hut = world.telegram.supergroup("Quokka hut");
    let keys = format!(
        "[[telegram.places]]\nchat = {hut}\nagent = \"second\"\n\n[[agents]]\nid = \"second\"\nmodels = [\"fake\"]\n\
         language = \"en\"\n\n[defaults]\nlanguage = \"de\"\n\n[limits]\nuser_messages_per_hour = 2\n"
    );
    let rig = world.start(&keys).await;
    let told = rig.ask(&rig.alice, "hallo quokka").await.text;
    let code = rig.json(&["pair", "list"]).await[0]["code"].as_str().unwrap().to_owned();
    assert_eq!(
        told,
        format!(
            "Ich kenne Sie noch nicht. Ihr Code ist {code}. Wer diesen Bot betreibt, kann Sie mit cairn pair approve \
             {code} zulassen."
        )
    );
    assert_eq!(rig.cairn(&["pair", "approve", &code]).await.0, 0);
    let told = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(told[1].text, "Sie sind zugelassen: Sie können jetzt mit mir sprechen.");

    rig.telegram.command(rig.alice.id, &rig.alice, "/help");
    let told = rig.telegram.wait_sent(rig.alice.id, 3).await;
    let help = &told[2].text;
    assert!(help.starts_with("Sprechen Sie mit mir, oder geben Sie einen Befehl:"), "{help}");
    assert!(help.contains("/undo: Die letzte Frage und ihre Antwort zurücknehmen"), "{help}");
    let stop = ("stop".to_owned(), "Die laufende Antwort anhalten".to_owned());
    rig.telegram.wait_until("the menu", |telegram| telegram.commands("default").contains(&stop)).await;

    assert_eq!(rig.ask(&rig.alice, "eins, quokka").await.text, "echo: eins, quokka");
    rig.telegram.command(rig.alice.id, &rig.alice, "/remember Quokkas sind klein");
    rig.telegram.wait_sent(rig.alice.id, 5).await;
    let limited = rig.ask(&rig.alice, "drei, quokka").await.text;
    assert!(
        limited.starts_with("Sie haben mir innerhalb einer Stunde viele Nachrichten geschickt."),
        "{limited}"
    );
    assert!(limited.contains("Weiter geht es in etwa einer Stunde."), "{limited}");
    let told = rig.telegram.sent(rig.alice.id);
    assert!(told[4].text.starts_with("Gemerkt, nur für Sie ("), "{told:?}");

    rig.telegram.command(hut, &rig.bob, &format!("/help@{}", rig.telegram.username()));
    let told = rig.telegram.wait_sent(hut, 1).await;
    assert!(
        told[0].text.starts_with("Talk to me, or use a command:"),
        "the other agent speaks English: {told:?}"
    );
    rig.end().await;
}

#[tokio::test]
async fn a_place_has_a_language_of_its_own_and_a_reload_takes_another() {
    let world = World::new().await;
    let (hut, other) = (world.telegram.supergroup("Quokka hut"), world.telegram.supergroup("Other quokkas"));
    let keys = format!(
        "direct = \"open\"\nchats = [{other}]\n[[telegram.places]]\nchat = {hut}\nlanguage = \"fr\"\n\n[[agents]]\n\
         id = \"second\"\nmodels = [\"fake\"]\nlanguage = \"ja\"\n"
    );
    let rig = world.start(&keys).await;
    let nothing =
        [(hut, "Je ne réponds à rien en ce moment."), (other, "I am not answering anything just now.")];
    let stop = format!("/stop@{}", rig.telegram.username());
    for (chat, words) in nothing {
        rig.telegram.say(chat, &rig.alice, Say::text("ici, quokka").mention());
        rig.telegram.wait_sent(chat, 1).await;
        rig.delivered().await;
        rig.telegram.command(chat, &rig.alice, &stop);
        assert_eq!(rig.telegram.wait_sent(chat, 2).await[1].text, words);
    }
    // A note behind an answer is journalled as it is said: nothing that is made of it later depends on the language.
    rig.model.push(Kind::Reply, Answer::text("Il y a un quokka").finish("length"));
    rig.telegram.say(hut, &rig.alice, Say::text("encore, quokka").mention());
    let cut = rig.telegram.wait_sent(hut, 3).await.swap_remove(2).text;
    rig.delivered().await;
    assert!(cut.contains("(Interrompu ici : cette réponse a atteint sa longueur maximale."), "{cut}");
    rig.rewrite("language = \"fr\"", "language = \"uk\"");
    let (code, text) = rig.cairn(&["reload"]).await;
    assert_eq!(code, 0, "{text}");
    rig.telegram.command(hut, &rig.alice, &stop);
    assert_eq!(rig.telegram.wait_sent(hut, 4).await[3].text, "Зараз я ні на що не відповідаю.");
    rig.rewrite("language = \"uk\"", "language = \"xx\"");
    let (code, text) = rig.cairn(&["config", "check"]).await;
    assert!(code != 0 && text.contains("`language` = \"xx\" has no texts"), "{text}");
    rig.rewrite("language = \"xx\"", "language = \"uk\"");
    rig.end().await;
}
