//! Words that try to be markup, wherever people, models and tools have some: they are shown as words and do nothing.

use cairn_testkit::mcp::Script;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::telegram::{FakeTelegram, Fault};
use serde_json::json;

use super::chromium::Browser;
use super::scene::Scene;
use super::visitor;

/// It would be seen in the document, in a variable, and in what the browser complains about.
const STRIKE: &str = "\"'><b class=\"canary\">x</b><script>window.struck = 1</script><img src=/canary onerror=\"window.struck = 1\">";

/// Whether it has become more than words.
const STRUCK: &str = "window.struck !== undefined || document.querySelectorAll('.canary, [onerror], main script:not([src])').length > 0";

fn in_query(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn harmless(browser: &Browser, scene: &Scene, view: &str) {
    browser.open(&scene.at(view)).await;
    let shown = "document.body.textContent.includes('class=\"canary\"')";
    assert_eq!(browser.eval(shown).await, true, "{view} shows it as words");
    assert_eq!(browser.eval(STRUCK).await, false, "{view}");
    assert_eq!(browser.complaints().await, [] as [String; 0], "{view}");
}

/// Everybody says it: people in a local channel and in Telegram, the model in answers, calls, summaries and memories, the tool
/// in its result, the network in its refusal.
async fn said_everywhere(scene: &Scene, telegram: &FakeTelegram) {
    let rig = &scene.rig;
    let push = |answer: Answer| rig.model.push(Kind::Reply, answer);
    let body = json!({ "user": "anna", "text": STRIKE });
    push(Answer::call("files__echo", json!({ "text": STRIKE })).and_call(STRIKE, json!({})));
    push(Answer::text(STRIKE));
    assert_eq!(rig.post("/v1/channels/main/messages", &body).await.0, 200);
    let memory = json!({ "text": STRIKE, "kind": "fact", "scope": "agent", "subject": STRIKE });
    let ban = json!({ "user": "telegram/77", "reason": STRIKE });
    assert_eq!(rig.post("/v1/bans", &ban).await.0, 200);
    for text in [STRIKE.to_owned(), format!("again {STRIKE}")] {
        let mut memory = memory.clone();
        memory["text"] = text.into();
        assert_eq!(rig.post("/v1/memories", &memory).await.0, 200);
    }
    for n in 0..12 {
        let text = format!("{n} {STRIKE} {}", "and so on ".repeat(200));
        let body = json!({ "user": "anna", "text": text });
        assert_eq!(rig.post("/v1/channels/main/messages", &body).await.0, 200);
    }
    let compacted = rig.post("/v1/channels/main/compact", &json!({ "wait": true })).await;
    assert_eq!(compacted.1["outcome"], "committed", "{compacted:?}");
    let person = telegram.person(STRIKE);
    telegram.fail_next("sendMessage", Fault::error(403, &format!("Forbidden: {STRIKE}")));
    push(Answer::text(STRIKE));
    telegram.say(person.id, &person, STRIKE);
    rig.until("/v1/outbox", |list| list.as_array().unwrap().iter().any(|item| item["state"] == "dead")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: `.ci/browser` installs it, `.ci/run` runs these"]
async fn markup_in_names_messages_memories_summaries_and_results_stays_words() {
    let server = Script::default()
        .tool(json!({ "name": "strike", "description": STRIKE, "inputSchema": { "type": "object" } }));
    let server = server.start_http().await;
    let telegram = FakeTelegram::start().await;
    let home = crate::home();
    home.secret("telegram.token", telegram.token());
    let more = format!(
        "tools = [\"files/*\"]\n\n[agents.trust]\ntrusted = [\"local/anna\"]\n\n[[mcp]]\nid = \"files\"\nurl = {:?}\n\n\
         [telegram]\ntoken_file = \"telegram.token\"\ngather_ms = 0\ndrafts = false\napi_url = \"{}\"\ndirect = \"open\"\n",
        server.url(),
        telegram.api_url()
    );
    let model = FakeModel::builder().lenient().respond(|seen| {
        let summary = || Answer::text(format!("## Progress\n- they said {STRIKE} and so on and so on"));
        (seen.kind == Kind::Compaction).then(summary)
    });
    let scene = Scene::start_in(home, model, &more).await;
    let browser = visitor(&scene).await;
    scene.rig.cairn(&["mcp", "approve", "files", "--yes"]).ended(0);
    browser.open(&scene.at("/events")).await;
    browser.until_shown("Live.").await;
    said_everywhere(&scene, &telegram).await;
    browser.until("document.querySelector('#events li.tool_ended')").await;
    assert_eq!(browser.eval(STRUCK).await, false, "what came live");
    let memories = scene.rig.get("/v1/memories").await;
    let [one, other] = [0, 1].map(|idx| memories[idx]["id"].as_str().unwrap());
    let history = scene.rig.get("/v1/channels/main/history?from=1&limit=1").await;
    let turn = history[0]["turn"].as_str().unwrap();
    let views = [
        "/channels/main%2Flocal%2Fmain".to_owned(),
        "/channels/main%2Flocal%2Fmain/window".to_owned(),
        "/search?q=canary".to_owned(),
        "/channels/main%2Flocal%2Fmain/summaries/s1".to_owned(),
        format!("/channels/main%2Flocal%2Fmain/turns/{turn}"),
        "/memories".to_owned(),
        format!("/memories?q={}", "canary"),
        format!("/memories/{one}"),
        format!("/memories/chosen?id={one}&id={other}"),
        "/tools".to_owned(),
        "/tools/servers/files".to_owned(),
        "/people".to_owned(),
        format!("/channels/main%2Flocal%2Fmain?name={}", in_query(STRIKE)),
        "/outbox".to_owned(),
        "/events".to_owned(),
    ];
    for view in &views {
        harmless(&browser, &scene, view).await;
    }
    // It is sent again from here, and arrives.
    browser.open(&scene.at("/outbox")).await;
    browser.click("form[action$='/retry'] button").await;
    browser.until("location.pathname === '/outbox'").await;
    scene.rig.until("/v1/outbox", |list| list.as_array().unwrap().is_empty()).await;
    browser.quit().await;
}
