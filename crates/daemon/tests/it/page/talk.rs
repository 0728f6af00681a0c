//! Files in conversations of the page: what visitors attach reaches the model, and what people are handed is downloaded.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_testkit::documents::pdf;
use cairn_testkit::mcp::{FakeMcp, PNG, Script, WAV};
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::{model_table, one_model};
use cairn_testkit::speech::FakeSpeech;
use serde_json::{Value, json};

use super::rig::Site;

/// A daemon with its page, a model that takes pictures, and a tool server.
async fn site() -> (Site, FakeModel, FakeMcp) {
    let (model, server) = (FakeModel::start().await, Script::default().start_http().await);
    let table = model_table("main", &model.base_url(), 64_000);
    let agent = "[[agents]]\nid = \"main\"\nmodels = [\"main\"]\ntools = [\"files/*\"]\n\
                 [agents.trust]\ntrusted = [\"local/anna\"]\n";
    let tools = format!("[[mcp]]\nid = \"files\"\nurl = {:?}\n", server.url());
    let site = Site::start(&format!("\n{table}images = true\n{agent}{tools}")).await;
    (site, model, server)
}

fn bytes(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// What the model was asked last.
fn last(model: &FakeModel) -> String {
    model.requests_of(Kind::Reply).last().map(Value::to_string).unwrap_or_default()
}

async fn answered(site: &Site, n: usize) {
    let path = "/v1/channels/anna/history";
    let is_answered = |list: &Value| {
        list.as_array().is_some_and(|list| list.iter().filter(|entry| !entry["end"].is_null()).count() >= n)
    };
    while !site.daemon.client().get(path).await.is_ok_and(|list| is_answered(&list)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_files_reach_the_model_and_are_named_in_the_conversation() {
    let (site, model, _server) = site().await;
    let cookie = site.login(&[]).await;
    let (picture, report) = (bytes(PNG), pdf(&["The quokka counts to nine."]));
    let files: [(&str, &str, &[u8]); 4] = [
        ("cat.png", "image/png", &picture),
        ("report.pdf", "application/pdf", &report),
        ("<b>.txt", "text/plain", b"feed the <i>cat</i>"),
        ("data.bin", "application/octet-stream", b"\x00\x01"),
    ];
    let fields = [("name", "anna"), ("text", "what is this?")];
    let sent = site.post_files("/channels/anna/messages", &cookie, &fields, &files).await.is(303);
    assert_eq!(sent.header("location"), Some("/channels/main%2Flocal%2Fanna?name=anna#talk"));
    answered(&site, 1).await;
    let told = last(&model);
    for part in [PNG, "counts to nine", "feed the <i>cat</i>", "data.bin (2 bytes)", "what is this?"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let shown = site.view("/channels/main%2Flocal%2Fanna", &cookie).await.is(200).body;
    for name in ["image: cat.png", "file: report.pdf", "file: &lt;b&gt;.txt", "file: data.bin (2 bytes)"] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
    assert!(shown.contains("feed the &lt;i&gt;cat") && !shown.contains("<b>.txt") && !shown.contains(PNG));
    // Files need no words, and what looks like a command is none beside them.
    let one: [(&str, &str, &[u8]); 1] = [("b.txt", "text/plain", b"second")];
    site.post_files("/channels/anna/messages", &cookie, &[("name", "anna"), ("text", "")], &one)
        .await
        .is(303);
    site.post_files("/channels/anna/messages", &cookie, &[("name", "anna"), ("text", "/new")], &one)
        .await
        .is(303);
    answered(&site, 3).await;
    assert!(last(&model).contains("/new"), "{}", last(&model));
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_that_are_none_are_refused_and_take_nothing_in() {
    let (site, model, _server) = site().await;
    let cookie = site.login(&[]).await;
    let path = "/channels/anna/messages";
    let small: (&str, &str, &[u8]) = ("a.txt", "text/plain", b"x");
    let fields = [("name", "anna"), ("text", "hello")];
    site.post_files(path, &cookie, &fields, &[small; 11]).await.is(400);
    site.post_files(path, &cookie, &[("name", "anna"), ("more", "x")], &[]).await.is(400);
    // As a browser sends a form in which nothing was chosen.
    let none: (&str, &str, &[u8]) = ("", "application/octet-stream", b"");
    site.post_files(path, &cookie, &[("name", "anna"), ("text", " ")], &[none]).await.is(422);
    site.post_files(path, &cookie, &[("name", " "), ("text", "x")], &[small]).await.is(400);
    let large = vec![b'x'; (16 << 20) + 1];
    let refused = site.post_files(path, &cookie, &fields, &[("a.bin", "x/y", &large)]).await.is(413);
    assert!(refused.body.contains("larger than 16 MiB"), "{refused:?}");
    // What is larger than is read is named all the same.
    let medium = vec![b'x'; 100 << 10];
    site.post_files(path, &cookie, &fields, &[("long.txt", "text/plain", &medium)]).await.is(303);
    answered(&site, 1).await;
    assert!(last(&model).contains("long.txt (102 kB, too large to be read)"), "{}", last(&model));
    let reader = site.login(&["--read-only"]).await;
    site.post_files(path, &reader, &fields, &[small]).await.is(403);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_that_are_being_transcribed_hold_up_nobody_else() {
    let (model, speech) = (FakeModel::start().await, FakeSpeech::start().await);
    let config = one_model(&model.base_url(), 64_000);
    let transcribe = format!("[transcribe]\nmodel = \"whisper-1\"\nbase_url = {:?}\n", speech.base_url());
    let site = Site::start(&format!("\n{config}{transcribe}")).await;
    let cookie = site.login(&[]).await;
    let (gate, large) = (speech.hold(), vec![1; 100 << 10]);
    let post = async |path: &str, name: &str, media_type: &str| {
        let file = [(name, media_type, large.as_slice())];
        site.post_files(path, &cookie, &[("name", "anna"), ("text", "listen")], &file).await
    };
    let sound = async |path: &str| post(path, "a.ogg", "audio/ogg").await.is(303);
    let others = async {
        speech.wait_heard(2).await;
        post("/channels/three/messages", "b.txt", "text/plain").await.is(303);
        post("/channels/main%2Ftelegram%2F1/messages", "b.ogg", "audio/ogg").await.is(400);
        post("/channels/nobody%2Flocal%2Fx/messages", "b.ogg", "audio/ogg").await.is(404);
        gate.open();
    };
    futures::join!(sound("/channels/one/messages"), sound("/channels/two/messages"), others);
    assert_eq!(speech.heard().len(), 2, "nothing is transcribed for a channel that there is not");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_people_are_handed_are_shown_as_pictures_or_downloaded() {
    let (site, model, _server) = site().await;
    site.home.cairn(&["mcp", "approve", "files", "--yes"]).ended(0);
    let cookie = site.login(&["--read-only"]).await;
    model.push(Kind::Reply, Answer::call("files__mixed", json!({})));
    model.push(Kind::Reply, Answer::text("Here they are."));
    let body = json!({ "user": "anna", "text": "show me" });
    site.daemon.client().ask("POST", "/v1/channels/anna/messages", &body).await.unwrap();
    let told = last(&model);
    assert!(told.contains("[sent to the chat: a1.png (image/png, 75 bytes), artifact a1]"), "{told}");
    let again =
        json!({ "id": "a2", "name": "of/the <b>.html", "caption": "Five <b>bytes</b>", "alt": "bytes" });
    model.push(Kind::Reply, Answer::call("send_file", again));
    model.push(Kind::Reply, Answer::text("Again."));
    site.daemon.client().ask("POST", "/v1/channels/anna/messages", &body).await.unwrap();

    let channel = "/channels/main%2Flocal%2Fanna";
    let shown = site.view(channel, &cookie).await.is(200).body;
    let paths: Vec<&str> = shown.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let files: Vec<&str> =
        paths.into_iter().filter(|path| path.contains("/files/") && path.contains("/entries/")).collect();
    assert_eq!(files.len(), 4, "{shown}");
    assert!(shown.contains(&format!("<img src=\"{}\" alt=\"a1.png\"", files[0])), "{shown}");
    assert_eq!(shown.matches("<img").count(), 1, "{shown}");
    assert!(shown.contains("the &lt;b&gt;.html") || shown.contains("the b.html"), "{shown}");
    assert!(shown.contains("Five &lt;b&gt;bytes"), "{shown}");

    let picture = site.view(files[0], &cookie).await.is(200);
    assert_eq!(picture.bytes, bytes(PNG));
    assert_eq!(picture.header("content-type"), Some("image/png"));
    assert_eq!(picture.header("x-content-type-options"), Some("nosniff"));
    assert!(picture.header("content-security-policy").unwrap().contains("sandbox"));
    let sound = site.view(files[2], &cookie).await.is(200);
    assert_eq!(sound.bytes, bytes(WAV));
    let page = site.view(files[3], &cookie).await.is(200);
    assert_eq!(page.bytes, bytes("AAECAwQ="));
    for download in [&sound, &page] {
        assert_eq!(download.header("content-type"), Some("application/octet-stream"), "never a page");
        assert!(download.header("content-disposition").unwrap().starts_with("attachment; filename="));
    }
    assert!(page.header("content-disposition").unwrap().contains(".html\""), "{page:?}");
    // By their ids, and for clients of the socket.
    let by_id = site.view(&format!("{channel}/artifacts/a2"), &cookie).await.is(200);
    assert_eq!(by_id.bytes, page.bytes);
    let saved = site.home.path("saved.bin");
    let save = ["artifact", "save", "anna", "a2", saved.to_str().unwrap()];
    site.home.cairn(&save).ended(0);
    assert_eq!(std::fs::read(&saved).unwrap(), page.bytes);
    assert_eq!(std::fs::metadata(&saved).unwrap().permissions().mode() & 0o777, 0o600);
    site.home.cairn(&save).told(1, &["cannot write"]);
    let entry = files[0].trim_end_matches("/files/0");
    for path in [
        format!("{entry}/files/9"),
        format!("{channel}/artifacts/a99"),
        format!("{channel}/entries/x/files/0"),
    ] {
        assert!([400, 404].contains(&site.view(&path, &cookie).await.status), "{path}");
    }
    assert_eq!(site.view(files[0], "").await.status, 401, "nobody is handed anything without a login");
    let other = files[0].replace("anna", "bo");
    site.view(&other, &cookie).await.is(404);
    assert!(site.daemon.stop().await.unwrap().success());
}
