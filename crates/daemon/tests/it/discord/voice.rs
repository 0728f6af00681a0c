//! Voice messages and recordings: their words are the message.

use cairn_testkit::speech::FakeSpeech;

use crate::discord::rig::{ROOM, Rig, Setup};

#[tokio::test]
async fn the_words_of_recordings_are_the_message() {
    let speech = FakeSpeech::start().await;
    let tables =
        format!("[transcribe]\nmodel = \"base\"\nbase_url = \"{}\"\nmax_mib = 1\n", speech.base_url());
    let rig = Setup { tables, ..Setup::default() }.start().await;
    speech.say("the heron is in the reeds");
    speech.say("the second one is a song");
    rig.discord.post(ROOM, "alice", "").attach("voice-message.ogg", "audio/ogg", *b"opus").send();
    rig.discord.post(ROOM, "alice", "").attach("Song.mp3", "audio/mpeg", *b"ID3").send();
    rig.discord.post(ROOM, "alice", "").attach_zeros("long.wav", "audio/wav", 2 << 20).send();
    rig.ask(ROOM, "bob", "where is the heron?").await;
    let request = rig.requests().remove(0);
    for said in [
        "[voice message (2 s), transcribed]\\nthe heron is in the reeds",
        "[audio Song.mp3, transcribed]\\nthe second one is a song",
        "audio long.wav (too large to be transcribed)",
    ] {
        assert!(request.contains(said), "{said} is not in {request}");
    }
    let names: Vec<_> = speech.heard().into_iter().map(|heard| heard.file_name).collect();
    assert_eq!(names, ["sound.ogg", "sound.mp3"]);
    speech.assert_clean();
    rig.assert_clean();
}

#[tokio::test]
async fn without_a_server_only_who_addresses_the_bot_is_told() {
    let rig = Rig::start().await;
    let voice = |who| rig.discord.post(ROOM, who, "").attach("voice-message.ogg", "audio/ogg", *b"opus");
    voice("alice").send();
    rig.ask(ROOM, "bob", "hello").await;
    voice("alice").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 3).await;
    let told = sent.iter().filter(|sent| sent.content.contains("transcribe")).count();
    assert_eq!(told, 1, "{sent:?}");
    rig.assert_clean();
}

#[tokio::test]
async fn who_asks_by_voice_is_answered_by_voice_too() {
    let speech = FakeSpeech::start().await;
    let url = speech.base_url();
    let tables = format!(
        "[transcribe]\nmodel = \"base\"\nbase_url = \"{url}\"\n\n[speak]\nmodel = \"tts\"\nbase_url = \"{url}\"\n"
    );
    let rig = Setup { tables, ..Setup::default() }.start().await;
    let voice = rig.discord.post(ROOM, "alice", "").attach("voice-message.ogg", "audio/ogg", *b"opus");
    voice.mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    assert!(!sent[0].content.is_empty() && sent[0].uploads.is_empty(), "{sent:?}");
    let upload = &sent[1].uploads[0];
    assert_eq!((upload.name.as_str(), upload.bytes.as_slice()), ("answer.ogg", FakeSpeech::OPUS));
    speech.assert_clean();
    rig.assert_clean();
}
