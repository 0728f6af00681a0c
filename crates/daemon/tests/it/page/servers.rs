//! Tool servers on the page: looked at, approved as they were shown, and revoked.

use cairn_testkit::mcp::Script;
use cairn_testkit::model::FakeModel;
use cairn_testkit::rig::one_model;
use serde_json::{Value, json};

use super::rig::Site;

const SERVER: &str = "/tools/servers/files";

fn digest(shown: &str) -> &str {
    let at = shown.split("name=\"digest\" value=\"").nth(1).unwrap();
    at.split('"').next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_approved_as_it_was_shown_and_what_changes_is_shown_line_by_line() {
    let script = || Script::default().only(&["echo", "write"]);
    let (model, server) = (FakeModel::start().await, script().start_http().await);
    let tools = format!("[[mcp]]\nid = \"files\"\nurl = {:?}\n", server.url());
    let site = Site::start(&format!("\n{}{tools}", one_model(&model.base_url(), 16_000))).await;
    let (cookie, reader) = (site.login(&[]).await, site.login(&["--read-only"]).await);
    let approved = async || {
        let list = site.daemon.client().get("/v1/mcp").await.unwrap();
        (list[0]["approved"] == true, list[0]["tools"].clone())
    };

    // Whoever may only read starts no server.
    let list = site.view("/tools/servers", &reader).await.is(200).body;
    assert!(list.contains("/tools/servers/files\"") && list.contains(server.url().as_str()), "{list}");
    let shown = site.view(SERVER, &reader).await.is(200).body;
    assert!(shown.contains("read-only access") && !shown.contains("digest"), "{shown}");
    assert_eq!(server.log().requests("initialize"), [] as [Value; 0]);

    let shown = site.view(SERVER, &cookie).await.is(200).body;
    assert!(shown.contains("Gives back a text.") && shown.contains("cairn mcp show files"), "{shown}");
    let body = format!("digest={}&tool=echo", digest(&shown));
    site.post(&format!("{SERVER}/approve"), &reader, &body).await.is(403);
    site.ask(&format!("POST {SERVER}/approve"), &[("cookie", &cookie)], &body).await.is(403);
    assert!(!approved().await.0);
    site.post(&format!("{SERVER}/approve"), &cookie, &body).await.is(303);
    assert_eq!(approved().await, (true, json!(["echo"])));

    // It changes: what was shown before is not approved.
    let before = digest(&shown).to_owned();
    let other = json!({ "name": "echo", "description": "Gives back a text, or so it says." });
    server.change(|now| *now = script().tool(other));
    let shown = site.view(SERVER, &cookie).await.is(200).body;
    assert!(shown.contains("<del>- Gives back a text.</del>"), "{shown}");
    assert!(shown.contains("<ins>+ Gives back a text, or so it says.</ins>"), "{shown}");
    assert!(shown.contains("CHANGED: description"), "{shown}");
    let stale =
        site.post(&format!("{SERVER}/approve"), &cookie, &format!("digest={before}&tool=echo")).await.is(409);
    assert!(stale.body.contains("has changed since it was shown"), "{stale:?}");
    site.post(&format!("{SERVER}/approve"), &cookie, &format!("digest={}&tool=nope", digest(&shown)))
        .await
        .is(404);
    site.post(
        &format!("{SERVER}/approve"),
        &cookie,
        &format!("digest={}&tool=echo&tool=write", digest(&shown)),
    )
    .await
    .is(303);
    assert_eq!(approved().await, (true, json!(["echo", "write"])));
    assert!(site.home.cairn(&["mcp", "show", "files"]).stdout.contains("or so it says"));

    site.post(&format!("{SERVER}/revoke"), &cookie, "").await.is(303);
    assert!(!approved().await.0);
    site.view("/tools/servers/none", &cookie).await.is(404);
    assert!(site.daemon.stop().await.unwrap().success());
}
