//! Files in a channel: the text of documents that people send, and pictures, sounds and files of tools, byte for byte, once, over
//! a kill before the answer came.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_testkit::discord::{Fault, Route};
use cairn_testkit::documents::{docx, pdf};
use cairn_testkit::mcp::{FakeMcp, PNG, Script, WAV};
use cairn_testkit::model::{Answer, Kind};
use serde_json::json;

use crate::discord::rig::{ROOM, Rig, Setup};

async fn rig() -> (Rig, FakeMcp) {
    let server = Script::default().start_http().await;
    let tables = format!("[[mcp]]\nid = \"files\"\nurl = {:?}", server.url());
    let mut rig = Setup { tables, ..Setup::default() }.build().await;
    rig.configure("models = [\"main\"]\n", "models = [\"main\"]\ntools = [\"files/*\"]\n");
    rig.back().await;
    rig.cairn_with(&["mcp", "approve", "files", "--yes"]).await.ended(0);
    (rig, server)
}

#[tokio::test]
async fn what_tools_return_is_attached_once_though_the_daemon_is_killed() {
    let (mut rig, _server) = rig().await;
    rig.model.push(Kind::Reply, Answer::call("files__mixed", json!({})));
    rig.model.push(Kind::Reply, Answer::text("Here they are."));
    rig.discord.fail_next(Route::Send, Fault::HungAnswer);
    rig.discord.post(ROOM, "alice", "show me").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.kill().await;
    rig.back().await;
    rig.discord.wait_until("the repeat", |discord| discord.sent(ROOM)[0].repeats == 1).await;
    let sent = rig.discord.wait_sent(ROOM, 2).await;
    let uploads: Vec<_> =
        sent[0].uploads.iter().map(|up| (up.name.as_str(), up.content_type.as_str())).collect();
    let expected =
        [("a1.png", "image/png"), ("blob.bin", "application/octet-stream"), ("a3.wav", "audio/wav")];
    assert_eq!(uploads, expected);
    let bytes: Vec<&[u8]> = sent[0].uploads.iter().map(|up| up.bytes.as_slice()).collect();
    let expected = [PNG, "AAECAwQ=", WAV].map(|text| STANDARD.decode(text).unwrap());
    assert_eq!(bytes, expected);
    assert_eq!((sent[0].content.as_str(), sent[0].repeats), ("", 1));

    let arguments = json!({ "id": "a1", "name": "cat.png", "caption": "a *cat*", "alt": "a cat on a mat" });
    rig.model.push(Kind::Reply, Answer::call("send_file", arguments));
    rig.model.push(Kind::Reply, Answer::text("Again."));
    let n = rig.discord.sent(ROOM).len();
    rig.discord.post(ROOM, "alice", "again").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, n + 2).await;
    let again = &sent[n].uploads[0];
    assert_eq!((again.name.as_str(), again.description.as_deref()), ("cat.png", Some("a cat on a mat")));
    assert_eq!((sent[n].content.as_str(), again.bytes.as_slice()), ("a *cat*", bytes[0]));
    rig.assert_clean();
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_tried() {
    let (rig, _server) = rig().await;
    rig.model.push(Kind::Reply, Answer::call("files__big", json!({ "bytes": 11_000_000 })));
    rig.model.push(Kind::Reply, Answer::call("send_file", json!({ "id": "a1" })));
    rig.model.push(Kind::Reply, Answer::text("It is too large."));
    rig.discord.post(ROOM, "alice", "show me").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 1).await;
    assert!(sent[0].uploads.is_empty() && sent[0].content == "It is too large.", "{sent:?}");
    let requests = rig.requests();
    let told = requests.last().unwrap();
    assert!(
        told.contains("discord takes files of up to 10.5 MB from bots, and this one has 11.0 MB"),
        "{told}"
    );
    rig.assert_clean();
}

#[tokio::test]
async fn the_text_of_documents_is_read() {
    let rig = Rig::start().await;
    let post =
        rig.discord.post(ROOM, "alice", "").attach("bill.pdf", "application/pdf", pdf(&["Invoice 4711"]));
    post.attach("letter.docx", "application/octet-stream", docx(&["Dear heron,"])).send();
    rig.ask(ROOM, "bob", "what did she send?").await;
    let request = rig.requests().remove(0);
    for text in ["(file bill.pdf)\\nInvoice 4711", "(file letter.docx)\\nDear heron,"] {
        assert!(request.contains(text), "{text} is not in {request}");
    }
    rig.assert_clean();
}

#[tokio::test]
async fn long_code_is_one_file_though_the_daemon_is_killed_and_the_history_has_it_as_it_was() {
    let mut rig = Rig::start().await;
    let code: String = (0..500).map(|n| format!("let x{n} = {n};\n")).collect();
    let short = "```sh\ncargo run\n```";
    rig.model.push(Kind::Reply, Answer::text(format!("Here:\n\n```rust\n{code}```\n\nRun it:\n\n{short}")));
    rig.discord.fail_next(Route::Send, Fault::HungAnswer);
    rig.discord.post(ROOM, "alice", "show me").mention_bot().send();
    rig.discord.wait_sent(ROOM, 1).await;
    rig.kill().await;
    rig.back().await;
    rig.discord.wait_until("the repeat", |discord| discord.sent(ROOM)[0].repeats == 1).await;
    let sent = rig.discord.sent(ROOM).remove(0);
    assert_eq!(sent.content, format!("Here:\n\n📎 `code.rs`\n\nRun it:\n\n{short}"));
    let upload = &sent.uploads[0];
    assert_eq!((upload.name.as_str(), sent.uploads.len()), ("code.rs", 1));
    assert_eq!(String::from_utf8(upload.bytes.clone()).unwrap(), code);
    let history = rig.json_of(&["history", &format!("main/discord/{ROOM}")]).await;
    assert!(history[1]["parts"][0]["text"].as_str().unwrap().contains("let x499 = 499;"), "{history}");

    rig.stop().await;
    rig.configure("[discord]\n", "[discord]\nlong_code_parts = 0\n");
    rig.back().await;
    rig.model.push(Kind::Reply, Answer::text(format!("```rust\n{code}```")));
    rig.discord.post(ROOM, "alice", "again").mention_bot().send();
    let sent = rig.discord.wait_sent(ROOM, 5).await;
    assert!(sent[1..].iter().all(|part| part.content.starts_with("```rust") && part.uploads.is_empty()));
    rig.assert_clean();
}
