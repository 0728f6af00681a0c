//! Voice messages: their words are the message, none is lost where there are no words, and answers are spoken.

use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::speech::FakeSpeech;
use cairn_testkit::telegram::{Attachment, Say};

use super::rig::{Rig, World, texts};

fn voice() -> Say {
    Say::default().with(Attachment::Voice(12))
}

async fn listening(world: World, speech: &FakeSpeech, keys: &str) -> Rig {
    std::fs::write(world.dir.path().join("speech.key"), "sk-speech").unwrap();
    let keys = format!(
        "direct = \"open\"\n{keys}\n[transcribe]\nmodel = \"whisper-1\"\nbase_url = \"{}\"\n\
         api_key_file = \"speech.key\"\nlanguage = \"en\"",
        speech.base_url()
    );
    world.start(&keys).await
}

#[tokio::test]
async fn the_words_are_the_message_asked_for_once_and_its_sound_is_kept() {
    let speech = FakeSpeech::start().await;
    let mut rig = keeping(&speech).await;
    speech.say("feed the quokka at nine");
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    let request = rig.last_request();
    assert!(request.contains("[voice message (12 s), transcribed]\nfeed the quokka at nine"), "{request}");
    let heard = speech.heard().remove(0);
    assert_eq!((heard.file_name.as_str(), heard.sound.as_slice()), ("sound.ogg", b"voice".as_slice()));
    let field = |name: &str| heard.fields.get(name).map(String::as_str);
    assert_eq!((field("model"), field("language")), (Some("whisper-1"), Some("en")));
    assert_eq!(field("response_format"), Some("json"));
    assert_eq!(heard.authorization.as_deref(), Some("Bearer sk-speech"));
    let (_, history) = rig.cairn(&["history", &format!("main/telegram/{}", rig.alice.id)]).await;
    assert!(history.contains("transcribed") && history.contains("feed the quokka"), "{history}");

    rig.telegram.wait_confirmed().await;
    rig.delivered().await;
    rig.kill().await;
    rig.restart().await;
    rig.ask(&rig.alice, "what was that, quokka?").await;
    assert!(rig.last_request().contains("feed the quokka at nine"));
    assert_eq!(speech.heard().len(), 1, "what is journalled is asked for by nobody");
    let channel = format!("main/telegram/{}", rig.alice.id);
    let listed = rig.json(&["artifact", "list", &channel]).await;
    assert_eq!(
        (listed.as_array().unwrap().len(), &listed[0]["name"]),
        (1, &"voice message (12 s).ogg".into())
    );
    let (_, drawn) = rig.cairn(&["artifact", "list", &channel]).await;
    assert!(drawn.contains("sent in "), "{drawn}");
    let (id, file) = (listed[0]["id"].as_str().unwrap(), rig.state().join("said.ogg"));
    let saved = rig.cairn(&["artifact", "save", &channel, id, file.to_str().unwrap()]).await;
    assert_eq!((saved.0, std::fs::read(&file).unwrap().as_slice()), (0, b"voice".as_slice()), "{saved:?}");
    rig.cairn(&["forget-user", &format!("telegram/{}", rig.alice.id), "--yes"]).await;
    let (code, _) = rig.cairn(&["artifact", "list", &channel]).await;
    let left = std::fs::read_dir(rig.state().join("artifacts")).unwrap().count();
    assert_eq!((code, left), (4, 0), "the private chat is gone with its recordings");
    speech.assert_clean();
    rig.end().await;
}

async fn keeping(speech: &FakeSpeech) -> Rig {
    let mut rig = listening(World::new().await, speech, "").await;
    rig.stop().await;
    rig.rewrite("[transcribe]", "[transcribe]\nkeep = true");
    rig.restart().await;
    rig
}

#[tokio::test]
async fn in_a_group_all_are_heard_and_no_chat_waits_for_another() {
    let speech = FakeSpeech::start().await;
    let world = World::new().await;
    let hut = world.telegram.supergroup("Quokka hut");
    let rig = listening(world, &speech, &format!("chats = [{hut}]")).await;
    speech.say("the roof of the quokka is red");
    let gate = speech.hold();
    rig.telegram.say(hut, &rig.alice, voice());
    speech.wait_heard(1).await;
    rig.telegram.say(hut, &rig.bob, Say::text("which colour, quokka?").mention());
    // Another chat is answered meanwhile.
    rig.ask(&rig.bob, "hello quokka").await;
    assert_eq!(rig.asked(), 1);
    gate.open();
    rig.telegram.wait_sent(hut, 1).await;
    let request = rig.last_request();
    let (said, asked) = (request.find("the roof of the quokka is red"), request.find("which colour"));
    assert!(said.is_some() && said < asked, "the order of the chat holds: {request}");
    assert_eq!(rig.asked(), 2, "what is not addressed is context");
    speech.assert_clean();
    rig.end().await;
}

#[tokio::test]
async fn a_message_without_words_is_named_and_not_lost() {
    let speech = FakeSpeech::start().await;
    let rig = listening(World::new().await, &speech, "").await;
    speech.fail(503);
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    assert!(rig.last_request().contains("voice message (12 s) (could not be transcribed)"));
    assert!(rig.log().contains("the server answered 503"), "{}", rig.log());
    speech.say(" ");
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert!(rig.last_request().contains("voice message (12 s) (no words were heard)"));
    rig.end().await;
}

#[tokio::test]
async fn without_a_server_who_speaks_is_told_once_how_it_is_switched_on() {
    let rig = Rig::open().await;
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert!(rig.last_request().contains("voice message (12 s)"));
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    rig.telegram.wait_sent(rig.alice.id, 3).await;
    rig.ask(&rig.alice, "hello quokka").await;
    let sent = rig.telegram.sent(rig.alice.id);
    let told = texts(&sent).iter().filter(|text| text.contains("[transcribe]")).count();
    assert_eq!((sent.len(), told), (4, 1), "{sent:?}");
    rig.end().await;
}

#[tokio::test]
async fn doctor_asks_the_server() {
    let speech = FakeSpeech::start().await;
    let rig = listening(World::new().await, &speech, "").await;
    let (_, found) = rig.cairn(&["doctor"]).await;
    assert!(found.contains("the server takes recordings"), "{found}");
    speech.fail(401);
    let (code, found) = rig.cairn(&["doctor"]).await;
    assert!(code == 1 && found.contains("the server answered 401"), "{found}");
    rig.end().await;
    let rig = speaking(&speech).await;
    let (_, found) = rig.cairn(&["doctor"]).await;
    assert!(found.contains("the server speaks") && speech.spoken()[0].input == "Hello", "{found}");
    speech.stay_silent(404);
    let (code, found) = rig.cairn(&["doctor"]).await;
    assert!(code == 1 && found.contains("correct `base_url`, `model` and `voice` of [speak]"), "{found}");
    speech.assert_clean();
    rig.end().await;
}

async fn speaking(speech: &FakeSpeech) -> Rig {
    let speak = format!(
        "[speak]\nmodel = \"tts-1\"\nvoice = \"nova\"\nbase_url = \"{}\"\napi_key_file = \"speech.key\"\n",
        speech.base_url()
    );
    let mut rig = listening(World::new().await, speech, "").await;
    rig.stop().await;
    rig.rewrite("[transcribe]", &format!("{speak}\n[transcribe]"));
    rig.restart().await;
    rig
}

#[tokio::test]
async fn what_was_asked_by_voice_is_answered_by_text_then_by_voice() {
    let speech = FakeSpeech::start().await;
    let rig = speaking(&speech).await;
    let gate = speech.hold_speech();
    rig.model.push(Kind::Reply, Answer::text("At **nine**, quokka.\n\n```\ncron\n```"));
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    let sent = rig.telegram.wait_sent(rig.alice.id, 1).await;
    assert!(sent[0].text.starts_with("At nine, quokka."), "the text waits for nothing: {sent:?}");
    let asked = speech.wait_spoken(1).await.remove(0);
    assert_eq!((asked.model.as_str(), asked.voice.as_str()), ("tts-1", "nova"));
    assert_eq!(asked.input, "At nine, quokka.");
    assert_eq!(asked.authorization.as_deref(), Some("Bearer sk-speech"));
    gate.open();
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    let uploads = rig.telegram.uploads(rig.alice.id);
    assert_eq!((uploads[0].kind.as_str(), uploads[0].bytes.as_slice()), ("voice", FakeSpeech::OPUS));
    assert!(uploads[0].caption.is_empty(), "{uploads:?}");
    // What is written is answered in writing.
    rig.ask(&rig.alice, "and in writing, quokka?").await;
    rig.ask(&rig.alice, "[voice message (3 s), transcribed]\nand typed, quokka?").await;
    rig.delivered().await;
    assert_eq!((speech.spoken().len(), rig.telegram.uploads(rig.alice.id).len()), (1, 1));
    let channel = format!("main/telegram/{}", rig.alice.id);
    let (_, listed) = rig.cairn(&["artifact", "list", &channel]).await;
    assert!(listed.contains("v2  message 2"), "{listed}");
    speech.assert_clean();
    rig.end().await;
}

#[tokio::test]
async fn where_speech_fails_the_chat_has_the_text_alone() {
    let speech = FakeSpeech::start().await;
    let rig = speaking(&speech).await;
    speech.stay_silent(500);
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    speech.wait_spoken(1).await;
    speech.record(b"ID3 this is no Ogg");
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    speech.wait_spoken(2).await;
    rig.telegram.say(rig.alice.id, &rig.alice, voice());
    let sent = rig.telegram.wait_sent(rig.alice.id, 4).await;
    let uploads = rig.telegram.uploads(rig.alice.id);
    assert_eq!((uploads.len(), uploads[0].kind.as_str()), (1, "voice"), "{sent:?}");
    let log = rig.log();
    assert!(log.contains("the server answered 500") && log.contains("its answer is no Opus in Ogg"), "{log}");
    rig.end().await;
}
