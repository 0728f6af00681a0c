//! Files in a chat: the text of documents that people send, and pictures, sounds and files of tools, byte for byte, once, over a
//! kill in the midst of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_testkit::documents::{docx, pdf, pdf_encrypted};
use cairn_testkit::mcp::{FakeMcp, PNG, Script, WAV};
use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::telegram::{Attachment, Fault, Say, Stage, Uploaded};
use serde_json::{Value, json};

use super::rig::{Rig, World};

fn bytes(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// A daemon with a tool server, whose tools the agent has.
async fn rig(script: Script) -> (Rig, FakeMcp) {
    let server = script.start_http().await;
    let keys = format!("direct = \"open\"\n\n[[mcp]]\nid = \"files\"\nurl = {:?}", server.url());
    let mut rig = World::new().await.start(&keys).await;
    rig.stop().await;
    rig.rewrite("models = [\"fake\"]\n", "models = [\"fake\"]\ntools = [\"files/*\"]\n");
    rig.restart().await;
    assert_eq!(rig.cairn(&["mcp", "approve", "files", "--yes"]).await.0, 0);
    (rig, server)
}

/// The model calls a tool, then says some words.
fn script(rig: &Rig, tool: &str, arguments: Value, words: &str) {
    rig.model.push(Kind::Reply, Answer::call(tool, arguments));
    rig.model.push(Kind::Reply, Answer::text(words));
}

/// Kind, name, caption and bytes.
fn seen(uploads: &[Uploaded]) -> Vec<(&str, &str, &str, Vec<u8>)> {
    uploads
        .iter()
        .map(|up| (up.kind.as_str(), up.name.as_str(), up.caption.as_str(), up.bytes.clone()))
        .collect()
}

#[tokio::test]
async fn what_tools_return_is_sent_and_can_be_sent_again_by_its_name() {
    let (rig, _server) = rig(Script::default()).await;
    script(&rig, "files__mixed", json!({}), "Here they are, quokka.");
    rig.telegram.say(rig.alice.id, &rig.alice, "show me the quokka");
    let sent = rig.telegram.wait_sent(rig.alice.id, 4).await;
    assert_eq!(sent[3].text, "Here they are, quokka.");
    let uploads = rig.telegram.uploads(rig.alice.id);
    let expected = [
        ("photo", "a1.png", "", bytes(PNG)),
        ("document", "blob.bin", "", bytes("AAECAwQ=")),
        ("document", "a3.wav", "", bytes(WAV)),
    ];
    assert_eq!(seen(&uploads), expected);
    assert!(uploads[1].album.is_some() && uploads[1].album == uploads[2].album && uploads[0].album.is_none());
    let told = rig.last_request();
    assert!(told.contains("[sent to the chat: a1.png (image/png, 75 bytes), artifact a1]"), "{told}");

    let arguments =
        json!({ "id": "a2", "name": "of/the.quokka", "caption": "five **bytes**", "alt": "bytes" });
    script(&rig, "send_file", arguments, "Again.");
    rig.telegram.say(rig.alice.id, &rig.alice, "the second one again, quokka");
    rig.telegram.wait_sent(rig.alice.id, 6).await;
    let again = rig.telegram.uploads(rig.alice.id).pop().unwrap();
    let shown = (again.kind.as_str(), again.name.as_str(), again.caption.as_str());
    assert_eq!(shown, ("document", "the.quokka", "five bytes"));
    assert_eq!(again.bytes, bytes("AAECAwQ="));
    script(&rig, "send_file", json!({ "id": "a9" }), "There is none.");
    assert_eq!(rig.ask(&rig.alice, "and the ninth, quokka").await.text, "There is none.");
    assert!(
        rig.last_request().contains("there is no artifact `a9` in this channel"),
        "{}",
        rig.last_request()
    );
    let channel = format!("main/telegram/{}", rig.alice.id);
    let history = rig.cairn(&["history", &channel]).await.1;
    assert!(history.contains("a1.png") && history.contains("the.quokka"), "{history}");
    rig.delivered().await;
    rig.end().await;
}

#[tokio::test]
async fn a_kill_between_two_messages_of_a_delivery_repeats_none_that_is_there() {
    let (mut rig, _server) = rig(Script::default()).await;
    let gate = rig.telegram.hold("sendMediaGroup", Stage::Before);
    script(&rig, "files__mixed", json!({}), "Here they are, quokka.");
    rig.telegram.say(rig.alice.id, &rig.alice, "show me the quokka");
    rig.telegram.wait_for("sendMediaGroup", 1).await;
    rig.kill().await;
    gate.open();
    rig.restart().await;
    // Telegram does not show bots what they have sent: nobody knows whether the album is there.
    let outbox = rig.outbox_until("unknown", 1).await;
    assert!(outbox[0]["text"].as_str().unwrap().contains("blob.bin"), "{outbox:?}");
    assert_eq!(rig.cairn(&["outbox", "retry", outbox[0]["id"].as_str().unwrap()]).await.0, 0);
    rig.until("/v1/outbox", |list| list.as_array().unwrap().is_empty()).await;
    let uploads = rig.telegram.uploads(rig.alice.id);
    let names: Vec<&str> = uploads.iter().map(|up| up.name.as_str()).collect();
    assert_eq!(names, ["a1.png", "blob.bin", "a3.wav"]);
    assert_eq!(seen(&uploads)[0].3, bytes(PNG));
    rig.end().await;
}

#[tokio::test]
async fn a_picture_that_telegram_cannot_read_comes_as_a_document() {
    let (rig, _server) = rig(Script::default()).await;
    rig.telegram.fail_next("sendPhoto", Fault::error(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"));
    script(&rig, "files__image", json!({}), "Here it is, quokka.");
    rig.telegram.say(rig.alice.id, &rig.alice, "show me the quokka");
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert_eq!(seen(&rig.telegram.uploads(rig.alice.id)), [("document", "a1.png", "", bytes(PNG))]);
    rig.delivered().await;
    rig.end().await;
}

fn document(name: &str, bytes: Vec<u8>) -> Say {
    let (name, mime) = (name.to_owned(), "application/octet-stream".to_owned());
    Say::text("what does it say, quokka?").with(Attachment::Document { name, mime, bytes })
}

#[tokio::test]
async fn the_text_of_documents_is_read_and_what_has_none_is_named() {
    let rig = Rig::open().await;
    rig.telegram.say(
        rig.alice.id,
        &rig.alice,
        document("bill.pdf", pdf(&["Invoice quokka 4711", "Total 12 EUR"])),
    );
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    let request = rig.last_request();
    assert!(request.contains("(file bill.pdf)\nInvoice quokka 4711\n\nTotal 12 EUR"), "{request}");
    rig.telegram.say(rig.alice.id, &rig.alice, document("secret.pdf", pdf_encrypted("quokka")));
    rig.telegram.wait_sent(rig.alice.id, 2).await;
    let request = rig.last_request();
    assert!(request.contains("encrypted, no text could be read from it)"), "{request}");
    rig.telegram.say(rig.alice.id, &rig.alice, document("letter.docx", docx(&["Dear quokka,", "goodbye"])));
    rig.telegram.wait_sent(rig.alice.id, 3).await;
    assert!(rig.last_request().contains("(file letter.docx)\nDear quokka,\ngoodbye"));
    let (_, history) = rig.cairn(&["history", &format!("main/telegram/{}", rig.alice.id)]).await;
    assert!(history.contains("Invoice quokka 4711"), "{history}");
    rig.end().await;
}

#[tokio::test]
async fn in_a_long_document_the_model_reads_on() {
    let rig = Rig::open().await;
    let page =
        |page: usize| (1..=40).map(|n| format!("quokka page {page} line {n} of a long report\n")).collect();
    let pages: Vec<String> = (1..=70).map(page).collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    script(&rig, "artifact_read", json!({ "id": "a1", "from": 1200, "count": 5 }), "Now I know, quokka.");
    rig.telegram.say(rig.alice.id, &rig.alice, document("report.pdf", pdf(&pages)));
    let sent = rig.telegram.wait_sent(rig.alice.id, 2).await;
    assert!(sent[0].text.contains("I see the beginning and the end"), "{sent:?}");
    assert_eq!(sent[1].text, "Now I know, quokka.");
    let request = rig.last_request();
    assert!(request.contains("quokka page 1 line 1 of") && request.contains("quokka page 70 line 40 of"));
    assert!(!request.contains("quokka page 35 line 1 of"), "the middle is not shown");
    assert!(request.contains("[artifact a1 from line 1200"), "{request}");
    rig.end().await;
}

#[tokio::test]
async fn long_code_is_a_file_named_by_its_language() {
    let rig = Rig::open().await;
    let code: String = (0..1_000).map(|n| format!("quokka_{n} = {n}\n")).collect();
    rig.model.push(Kind::Reply, Answer::text(format!("Here, quokka:\n\n```python\n{code}```")));
    rig.telegram.say(rig.alice.id, &rig.alice, "show me the quokka");
    rig.telegram.wait_sent(rig.alice.id, 1).await;
    rig.delivered().await;
    let uploads = rig.telegram.uploads(rig.alice.id);
    let expected = ("document", "code.py", "Here, quokka:\n\n📎 code.py", code.into_bytes());
    assert_eq!(seen(&uploads), [expected]);
    assert_eq!(rig.telegram.sent(rig.alice.id).len(), 1);
    rig.end().await;
}

#[tokio::test]
async fn a_server_with_send_files_off_sends_no_file_unless_the_model_sends_it() {
    let (mut rig, _server) = rig(Script::default()).await;
    rig.stop().await;
    rig.rewrite("id = \"files\"\n", "id = \"files\"\nsend_files = false\n");
    rig.restart().await;
    script(&rig, "files__mixed", json!({}), "I keep them, quokka.");
    rig.telegram.say(rig.alice.id, &rig.alice, "show me the quokka");
    let sent = rig.telegram.wait_sent(rig.alice.id, 1).await;
    rig.delivered().await;
    assert_eq!(
        (sent[0].text.as_str(), rig.telegram.uploads(rig.alice.id).len()),
        ("I keep them, quokka.", 0)
    );
    let request = rig.last_request();
    assert_eq!(request.matches("kept, not sent to the chat").count(), 3, "{request}");
    script(&rig, "send_file", json!({ "id": "a1" }), "There, quokka.");
    rig.telegram.say(rig.alice.id, &rig.alice, "then send the quokka");
    rig.telegram.wait_sent(rig.alice.id, 3).await;
    assert_eq!(rig.telegram.uploads(rig.alice.id)[0].bytes, bytes(PNG));
    rig.end().await;
}
