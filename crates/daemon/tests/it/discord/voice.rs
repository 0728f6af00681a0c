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

#[tokio::test]
async fn recordings_are_kept_byte_for_byte_until_their_message_or_author_goes() {
    let speech = FakeSpeech::start().await;
    let url = speech.base_url();
    let tables = format!("[transcribe]\nmodel = \"base\"\nbase_url = \"{url}\"\nkeep = true\n");
    let rig = Setup { tables, ..Setup::default() }.start().await;
    let channel = format!("main/discord/{ROOM}");
    let attach = |who, name, sound: &[u8]| {
        rig.discord.post(ROOM, who, "").attach(name, "audio/ogg", sound.to_vec()).send()
    };
    let first = attach("alice", "voice-message.ogg", b"OggS alice\xff\x00");
    attach("alice", "voice-message.ogg", b"OggS alice again");
    attach("bob", "voice-message.ogg", b"OggS bob\xfe alice");
    rig.ask(ROOM, "bob", "what did we say?").await;
    let list = async || rig.json_of(&["artifact", "list", &channel]).await;
    let listed = list().await;
    let sent_in = |n: usize| listed[n]["sent_in"].as_str().unwrap().to_owned();
    assert_eq!(
        (sent_in(0), &listed[0]["name"]),
        (first.to_string(), &"voice-message.ogg".into()),
        "{listed}"
    );
    let id = |n: usize| listed[n]["id"].as_str().unwrap().to_owned();
    let save = async |id: &str, to: &str| {
        let to = rig.state().join(to);
        let args = ["artifact", "save", &channel, id, to.to_str().unwrap()];
        (rig.cairn_with(&args).await, std::fs::read(&to).unwrap_or_default())
    };
    let (saved, bytes) = save(&id(0), "said.ogg").await;
    assert_eq!(bytes, b"OggS alice\xff\x00");
    saved.ended(0);
    save(&id(1), "said.ogg").await.0.told(1, &["cannot write"]);

    rig.discord.delete(ROOM, &[first]);
    let is_gone = async || list().await[0]["expired_at"].is_string().then_some(());
    rig.until("gone with its message", is_gone).await;
    save(&id(0), "gone.ogg").await.0.told(4, &["expired"]);

    let alice = format!("discord/{}", rig.discord.user("alice"));
    rig.cairn_with(&["forget-user", &alice, "--yes"]).await.ended(0);
    let left = list().await;
    let kept: Vec<bool> = (0..3).map(|n| left[n]["expired_at"].is_null()).collect();
    assert_eq!(kept, [false, false, true], "{left}");
    let artifacts = rig.state().join("artifacts");
    let folder = std::fs::read_dir(artifacts).unwrap().next().unwrap().unwrap().path();
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(std::fs::read(&files[0]).unwrap(), b"OggS bob\xfe alice", "what bob said is as it was");
    assert_eq!(save(&id(2), "bob.ogg").await.1, b"OggS bob\xfe alice");
    speech.assert_clean();
    rig.assert_clean();
}
