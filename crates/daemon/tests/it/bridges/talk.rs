//! What goes through a bridge: messages, edits, deletions, commands, files, and who is let in.

use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::speech::FakeSpeech;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::rig::{Rig, TOKEN, hello, said};

#[tokio::test]
async fn a_message_is_answered_once_and_the_answer_has_the_networks_shape() {
    let rig = Rig::start("").await;
    let mut stream = rig.connect().await;
    rig.model.push(Kind::Reply, Answer::text(format!("**bold** <b> {}", "oak ash elm. ".repeat(30))));
    let message = said("m1", "which trees?");
    assert_eq!(rig.called("messages", &message).await, json!({ "outcome": "accepted" }));
    let mut whole = String::new();
    for n in 0..3 {
        let part = stream.next("message").await;
        let (text, html) = (part["text"].as_str().unwrap(), part["html"].as_str().unwrap());
        assert!(text.chars().count() <= 200 && !text.contains("**"), "{part}");
        assert_eq!((&part["chat"], &part["repeat"]), (&json!("dm-ann"), &json!(false)), "{part}");
        if n == 0 {
            assert_eq!(part["reply_to"], "m1");
            assert!(html.starts_with("<strong>bold</strong> &lt;b&gt; oak"), "{html}");
        }
        whole.push_str(text);
        rig.sent(&part, &format!("b{n}")).await;
    }
    assert_eq!(whole.matches("elm").count(), 30, "{whole}");
    rig.settled().await;
    // It came again, as after a crash of the bridge.
    assert_eq!(rig.called("messages", &message).await, json!({ "outcome": "accepted" }));
    rig.called("messages", &said("m2", "more?")).await;
    let part = stream.next("message").await;
    assert_eq!(part["text"], "echo: more?");
    rig.sent(&part, "b3").await;
    assert_eq!(rig.requests().len(), 2);
    let link = rig.until_link(|link| link["last_outbound"].is_string()).await;
    assert_eq!((&link["platform"], &link["state"]), (&json!("meadow"), &json!("connected")), "{link}");
    assert_eq!(link["name"], "Rowan (fake 1)");
    rig.assert_clean();
}

#[tokio::test]
async fn strangers_get_a_code_and_groups_are_served_only_where_listed() {
    let rig = {
        let mut rig = Rig::build("chats = [\"grove\"]\nusers = [\"@bob:example.org\"]").await;
        rig.run().await;
        rig
    };
    let mut stream = rig.connect().await;
    assert_eq!(rig.called("messages", &said("m1", "hi")).await, json!({ "outcome": "pairing" }));
    let notice = stream.next("message").await;
    let words = notice["text"].as_str().unwrap();
    assert!(words.starts_with("I do not know you yet."), "{words}");
    rig.sent(&notice, "n1").await;
    let code = words.split("cairn pair approve ").nth(1).unwrap().trim_end_matches(['.', '`']);
    // The command waits for the person to be told.
    let told = async {
        let welcome = stream.next("message").await;
        rig.sent(&welcome, "n2").await;
    };
    let approve = ["pair", "approve", code];
    let (approved, ()) = tokio::join!(rig.cairn(&approve), told);
    approved.ended(0);
    rig.called("messages", &said("m2", "hi again")).await;
    let answer = stream.next("message").await;
    assert_eq!(answer["text"], "echo: hi again");
    rig.sent(&answer, "b1").await;
    let bob = json!({ "id": "@bob:example.org", "name": "Bob" });
    let group = |id: &str, chat: &str, addressed: bool| json!({ "id": id, "chat": chat, "direct": false, "title": "Grove", "author": bob, "text": "hm", "addressed": addressed });
    let elsewhere = rig.called("messages", &group("g1", "elsewhere", false)).await;
    assert_eq!(elsewhere["outcome"], "ignored", "{elsewhere}");
    let own = json!({ "id": "g2", "chat": "grove", "direct": false, "author": { "id": "bot", "name": "Rowan" }, "text": "I" });
    assert_eq!(rig.called("messages", &own).await["outcome"], "ignored");
    assert_eq!(rig.called("messages", &group("g3", "grove", false)).await["outcome"], "accepted");
    assert_eq!(rig.called("messages", &group("g4", "grove", true)).await["outcome"], "accepted");
    let answer = stream.next("message").await;
    assert_eq!((&answer["chat"], &answer["reply_to"]), (&json!("grove"), &json!("g4")), "{answer}");
    rig.sent(&answer, "b2").await;
    rig.settled().await;
    rig.assert_clean();
}

#[tokio::test]
async fn edits_deletions_quotes_and_files_reach_the_model() {
    let rig = Rig::start("").await;
    let mut stream = rig.connect().await;
    let gate = rig.model.hold(Kind::Reply);
    rig.called("messages", &said("m1", "first")).await;
    rig.model.wait_for(Kind::Reply, 1).await;
    rig.called("messages", &said("m2", "secnod")).await;
    rig.called("messages", &said("m3", "never mind this")).await;
    rig.called("edits", &said("m2", "second")).await;
    let gone = json!({ "id": "m3", "chat": "dm-ann", "direct": true });
    assert_eq!(rig.called("deletions", &gone).await, json!({ "outcome": "accepted" }));
    let mut with_file = said("m4", "look");
    with_file["files"] = json!([{ "name": "list.txt", "media_type": "text/plain", "data": "b2FrCg==" }]);
    with_file["reply_to"] =
        json!({ "id": "x", "author": { "id": "carl", "name": "Carl" }, "text": "what trees?" });
    rig.called("messages", &with_file).await;
    gate.open();
    for n in 0..2 {
        let part = stream.next("message").await;
        rig.sent(&part, &format!("b{n}")).await;
    }
    let request = rig.requests().pop().unwrap();
    assert!(
        request.contains("second") && !request.contains("secnod") && !request.contains("never mind"),
        "{request}"
    );
    assert!(request.contains("list.txt") && request.contains("oak"), "{request}");
    assert!(request.contains("in reply to Carl"), "{request}");
    rig.settled().await;
    rig.assert_clean();
}

#[tokio::test]
async fn a_command_is_run_once_and_a_draft_is_shown_by_edits() {
    let rig = Rig::start("drafts = true\ndraft_interval_ms = 500").await;
    let mut stream = rig.connect().await;
    let command = said("c1", "/remember the gate is green");
    for _ in 0..2 {
        assert_eq!(rig.called("messages", &command).await, json!({ "outcome": "command" }));
    }
    let notice = stream.next("message").await;
    assert!(notice["text"].as_str().unwrap().starts_with("Remembered"), "{notice}");
    rig.sent(&notice, "n1").await;
    let reply: Vec<String> = (0..60).map(|n| format!("tree {n}.")).collect();
    let reply = reply[..16].join(" ");
    let (answer, gate) = Answer::text(reply.clone()).gated();
    rig.model.push(Kind::Reply, answer);
    rig.called("messages", &said("m1", "count")).await;
    gate.pass(4);
    let draft = stream.next("message").await;
    rig.sent(&draft, "b1").await;
    gate.open();
    let mut edit = stream.next("edit").await;
    while edit["text"] != reply.as_str() {
        assert_eq!(edit["message"], "b1", "{edit}");
        rig.sent(&edit, "b1").await;
        edit = stream.next("edit").await;
    }
    rig.sent(&edit, "b1").await;
    rig.settled().await;
    rig.assert_clean();
}

#[tokio::test]
async fn whoever_has_another_token_or_says_nonsense_is_refused() {
    let rig = Rig::start("").await;
    let path = "/v1/bridges/meadow/messages";
    for client in [rig.client(), rig.client().with_token("wrong"), rig.client().with_token("")] {
        let (status, answer) = client.ask("POST", path, &said("m1", "hi")).await.unwrap();
        assert_eq!((status, &answer["error"]["code"]), (StatusCode::UNAUTHORIZED, &json!("unauthorized")));
        assert!(client.stream("/v1/bridges/meadow/deliveries").await.is_err());
    }
    let other = rig.client().with_token(TOKEN).ask("POST", "/v1/bridges/hill/hello", &hello()).await.unwrap();
    assert_eq!(other.0, StatusCode::NOT_FOUND);
    let unheard = rig.client().with_token(TOKEN).stream("/v1/bridges/meadow/deliveries").await;
    assert!(unheard.unwrap_err().to_string().contains("409"));
    let mut stream = rig.connect().await;
    let changed = |key: &str, value: Value| {
        let mut message = said("m1", "hi");
        message[key] = value;
        message
    };
    for bad in [
        changed("chat", json!("a/b")),
        changed("chat", json!("")),
        changed("id", json!("a#e1")),
        changed("author", json!({ "id": "chat:grove", "name": "x" })),
        changed("author", json!({ "id": "", "name": "x" })),
        changed("adressed", json!(true)),
        changed("text", json!(" ")),
        changed("text", json!("x".repeat(70_000))),
        changed("files", json!([{ "name": "x", "data": "?" }])),
        changed("at", json!("yesterday")),
        json!([]),
    ] {
        let (status, answer) = rig.call("messages", &bad).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (StatusCode::BAD_REQUEST, &json!("malformed")),
            "{answer}"
        );
    }
    let (status, _) = rig.call("hello", &json!({ "protocol": 2, "software": "x", "limit": 500 })).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, answer) = rig.call("deliveries/none", &json!({ "outcome": "sent", "message": "x" })).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::NOT_FOUND, &json!("no_such_delivery")));
    // Nothing of it was taken in.
    rig.called("messages", &said("m1", "hi")).await;
    let answer = stream.next("message").await;
    assert_eq!(answer["text"], "echo: hi");
    rig.sent(&answer, "b1").await;
    rig.settled().await;
    assert_eq!(rig.requests().len(), 1);
    rig.assert_clean();
}

#[tokio::test]
async fn what_was_said_too_long_ago_is_kept_and_not_answered() {
    let rig = Rig::start("catch_up_hours = 1").await;
    let mut stream = rig.connect().await;
    let mut old = said("m1", "long ago");
    old["at"] = json!("2020-01-01T00:00:00Z");
    assert_eq!(rig.called("messages", &old).await, json!({ "outcome": "accepted" }));
    let mut command = said("c1", "/new");
    command["at"] = json!("2020-01-01T00:00:00Z");
    assert_eq!(rig.called("messages", &command).await["outcome"], "ignored");
    rig.called("messages", &said("m2", "now")).await;
    let answer = stream.next("message").await;
    assert_eq!((&answer["text"], &answer["reply_to"]), (&json!("echo: now"), &json!("m2")), "{answer}");
    rig.sent(&answer, "b1").await;
    rig.settled().await;
    let requests = rig.requests();
    assert!(requests.len() == 1 && requests[0].contains("long ago"), "{requests:?}");
    rig.assert_clean();
}

#[tokio::test]
async fn a_transcription_outlasts_its_call_and_a_repeat_waits_for_it() {
    let speech = FakeSpeech::start().await;
    let rig =
        Rig::start(&format!("\n[transcribe]\nmodel = \"base\"\nbase_url = \"{}\"\n", speech.base_url()))
            .await;
    let mut stream = rig.connect().await;
    speech.say("the ash is in leaf");
    let gate = speech.hold();
    let mut message = said("m1", "");
    message["files"] =
        json!([{ "name": "leaf.ogg", "media_type": "audio/ogg", "spoken": true, "data": "b2FrCg==" }]);
    tokio::select! {
        _ = rig.call("messages", &message) => panic!("answered before anything was heard"),
        _ = speech.wait_heard(1) => {} // the bridge gives the call up
    }
    let repeat = rig.called("messages", &message);
    let opened = async {
        rig.called("messages", &said("m2", "and this?")).await;
        let answer = stream.next("message").await;
        rig.sent(&answer, "b1").await;
        drop(gate);
    };
    assert_eq!(tokio::join!(repeat, opened).0, json!({ "outcome": "accepted" }));
    let answer = stream.next("message").await;
    rig.sent(&answer, "b2").await;
    rig.settled().await;
    assert_eq!(speech.heard().len(), 1);
    assert!(rig.requests().concat().contains("the ash is in leaf"));
    rig.assert_clean();
}

#[tokio::test]
async fn a_voice_message_is_heard_kept_and_answered_by_voice() {
    let speech = FakeSpeech::start().await;
    let url = speech.base_url();
    let tables = format!(
        "[transcribe]\nmodel = \"base\"\nbase_url = \"{url}\"\nkeep = true\n\n[speak]\nmodel = \"tts\"\nbase_url = \"{url}\"\n"
    );
    let rig = Rig::start(&format!("\n{tables}")).await;
    let mut stream = rig.connect().await;
    speech.say("the ash is in leaf");
    speech.say("a song of elms");
    let with = |id: &str, name: &str, spoken: bool| {
        let mut message = said(id, "");
        message["files"] =
            json!([{ "name": name, "media_type": "audio/ogg", "spoken": spoken, "data": "b2FrCg==" }]);
        message
    };
    rig.called("messages", &with("m1", "leaf.ogg", true)).await;
    let answer = stream.next("message").await;
    rig.sent(&answer, "b1").await;
    let voice = stream.next("message").await;
    assert_eq!(voice["files"][0]["name"], "answer.ogg", "{voice}");
    rig.sent(&voice, "b2").await;
    // A file of sound is none, whatever it is called.
    rig.called("messages", &with("m2", "voice message (1 s), transcribed.ogg", false)).await;
    let answer = stream.next("message").await;
    rig.sent(&answer, "b3").await;
    rig.settled().await;
    assert_eq!(speech.spoken().len(), 1);
    assert!(rig.requests()[0].contains("[voice message, transcribed]\\nthe ash is in leaf"));
    let listed = rig.cairn(&["artifact", "list", "main/meadow/dm-ann", "--json"]).await.ended(0).json();
    let sent_in: Vec<&Value> = listed.as_array().unwrap().iter().map(|one| &one["sent_in"]).collect();
    assert_eq!(sent_in, [&json!("m1"), &Value::Null, &json!("m2")], "{listed}");
    rig.assert_clean();
}
