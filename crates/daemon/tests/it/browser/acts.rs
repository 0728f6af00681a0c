//! What people do with the page: they log in and out, look on at a compaction, answer a request by keyboard, and put memories
//! and thresholds right.

use std::sync::Arc;

use cairn_testkit::mcp::Script;
use cairn_testkit::model::{Answer, Kind};
use serde_json::json;

use super::chromium::Browser;
use super::scene::{self, Scene};
use super::{of_channel, visitor};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: `.ci/browser` installs it, `.ci/run` runs these"]
async fn a_link_logs_in_once_and_who_logs_out_is_out() {
    let scene = Scene::start(scene::model()).await;
    let browser = Browser::start().await;
    let link = scene.link(&[]);
    browser.open(&link).await;
    browser.until_shown("All is well.").await;
    assert!(!browser.url().await.as_str().contains('#'), "no code is left in the address");
    assert_eq!(browser.eval("document.cookie").await, "", "no script sees the session");
    browser.tab_to("header form button").await;
    browser.press("Enter").await;
    browser.until_shown("Log in").await;
    browser.open(&link).await;
    browser.until_shown("This link was used already").await;
    browser.open(&scene.at("/memories")).await;
    browser.until_shown("Log in").await;
    // A view that was wanted is where a login leads.
    let code = scene.link(&["--read-only"]);
    browser.write("#code", &code).await;
    browser.press("Enter").await;
    browser.until("location.pathname === '/memories' && document.querySelector('h1')").await;
    browser.open(&scene.at("/config")).await;
    assert_eq!(browser.eval("document.querySelectorAll('main form[method=post]').length").await, 0);
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: `.ci/browser` installs it, `.ci/run` runs these"]
async fn a_compaction_is_seen_while_it_goes_on_and_when_it_ends() {
    let scene = Scene::start(scene::model()).await;
    let browser = visitor(&scene).await;
    scene.say_nth(0).await;
    let gate = scene.rig.model.hold(Kind::Compaction);
    browser.open(&scene.at(&of_channel("/runs"))).await;
    assert!(browser.text().await.contains("No run is active."));
    browser.complaints().await;
    let mut n = 1;
    while scene.rig.get(&scene::path("context")).await["run"].is_null() {
        scene.say_nth(n).await;
        n += 1;
    }
    // The view that was open shows it by itself.
    browser.until_shown("Active run").await;
    browser.open(&scene.at(&of_channel("/window"))).await;
    browser.until_shown("run r1 over entries").await;
    browser.open(&scene.at("/events")).await;
    browser.until_shown("Live.").await;
    assert_eq!(browser.eval("document.querySelectorAll('#events .run_started').length").await, 1);
    assert_eq!(browser.eval("document.querySelectorAll('#events .run_ended').length").await, 0);
    gate.open();
    browser.until("document.querySelector('#events li.run_ended')?.innerText.includes('committed')").await;
    for _ in 0..120 {
        scene.say_nth(n).await;
        n += 1;
    }
    browser.until("document.querySelectorAll('#events li').length === 200").await;
    browser.click("#pause").await;
    let newest = "document.querySelector('#events li').innerText";
    let before = browser.eval(newest).await;
    scene.say_nth(n).await;
    browser.until_shown(" waiting.").await;
    assert_eq!(browser.eval(newest).await, before);
    browser.click("#pause").await;
    browser.until(&format!("{newest} !== {before}")).await;
    assert_eq!(browser.complaints().await, [] as [String; 0]);
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: `.ci/browser` installs it, `.ci/run` runs these"]
async fn a_call_that_waits_is_answered_by_keyboard_alone() {
    let server = Script::default().start_http().await;
    let more = format!("tools = [\"files/*\"]\n\n[[mcp]]\nid = \"files\"\nurl = {:?}\n", server.url());
    let scene = Arc::new(Scene::start_in(crate::home(), scene::model(), &more).await);
    let browser = visitor(&scene).await;
    scene.rig.cairn(&["mcp", "approve", "files", "--yes"]).ended(0);
    for (n, (key, done)) in [("[value=no]", 0), ("[value=yes]", 1)].into_iter().enumerate() {
        browser.open(&scene.at("/tools")).await;
        browser.until_shown("No call is waiting.").await;
        scene
            .rig
            .model
            .push(Kind::Reply, Answer::call("files__write", json!({ "text": format!("note {n}") })));
        scene.rig.model.push(Kind::Reply, Answer::text("I see."));
        let asking = Arc::clone(&scene);
        let asked = tokio::spawn(async move { asking.rig.say("please write it down").await });
        // It comes up by itself in the view that is open.
        browser.until_shown(&format!("note {n}")).await;
        browser.tab_to(&format!("main form button{key}")).await;
        browser.press("Enter").await;
        asked.await.unwrap();
        browser.until_shown("No call is waiting.").await;
        assert_eq!(server.log().effects().len(), done, "{key}");
    }
    browser.until_shown("denied").await;
    assert_eq!(browser.complaints().await, [] as [String; 0]);
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: `.ci/browser` installs it, `.ci/run` runs these"]
async fn memories_are_put_right_without_any_script() {
    let scene = Scene::start(scene::model()).await;
    let browser = visitor(&scene).await;
    let add = async |text: &str, importance: f64| {
        let body = json!({ "text": text, "kind": "fact", "scope": "agent", "importance": importance });
        scene.rig.post("/v1/memories", &body).await.1["id"].as_str().unwrap().to_owned()
    };
    let (one, other, third) = (
        add("The slip is dry at noon.", 0.2).await,
        add("At noon one can walk on the slip.", 0.9).await,
        add("Ben snores.", 0.5).await,
    );
    browser.set_scripts(false).await;
    browser.open(&scene.at(&format!("/memories/{one}"))).await;
    browser.write("#text", "The slip is dry at one.").await;
    browser.click(".stack button").await;
    browser.until_shown("The slip is dry at one.").await;
    let texts = async || {
        let list = scene.rig.get("/v1/memories").await;
        let texts = list.as_array().unwrap().iter().map(|memory| memory["text"].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert!(texts().await.contains(&"The slip is dry at one.".to_owned()));
    browser.open(&scene.at("/memories")).await;
    for id in [&one, &other] {
        browser.click(&format!("input[value={id}]")).await;
    }
    browser.click("main form[action='/memories/chosen'] button").await;
    browser.until_shown("Combine them").await;
    browser.write("#text", "The slip is dry from noon to one.").await;
    browser.click("form[action='/memories/unite'] button").await;
    browser.until("location.pathname.startsWith('/memories/m')").await;
    assert_eq!(texts().await, ["The slip is dry from noon to one.", "Ben snores."]);
    assert_eq!(scene.rig.get(&format!("/v1/memories/{one}")).await["importance"], 0.9);
    browser.open(&scene.at(&format!("/memories/{third}"))).await;
    browser.click("form[action='/memories/chosen'] button").await;
    browser.until_shown("Forget it").await;
    browser.click("form[action='/memories/forget'] button").await;
    browser.until("location.pathname === '/memories'").await;
    assert_eq!(texts().await, ["The slip is dry from noon to one."]);
    assert_eq!(browser.complaints().await, [] as [String; 0]);
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: `.ci/browser` installs it, `.ci/run` runs these"]
async fn thresholds_are_tried_before_they_are_set_and_the_file_is_read_again() {
    let scene = Scene::start(scene::model()).await;
    let browser = visitor(&scene).await;
    scene.talk(300).await;
    browser.open(&scene.at("/config")).await;
    assert!(
        browser.text().await.contains("agents.main.compaction.tokens_per_hour"),
        "with what it takes from [defaults]"
    );
    browser.open(&scene.at(&format!("/config/try?channel={}", super::encoded(scene::CHANNEL)))).await;
    browser.write("#background_threshold", "0.5").await;
    browser.press("Enter").await;
    browser.until_shown("To use it").await;
    let lines = browser.eval("document.querySelector('pre').innerText").await;
    assert_eq!(lines, "[agents.compaction]\nbackground_threshold = 0.5\n");
    // What cannot be is told as `cairn tune` tells it, and nothing is tried.
    browser.write("#background_threshold", "0.99").await;
    browser.press("Enter").await;
    browser.until_shown("aggressive_threshold").await;
    browser.until("document.querySelector('[role=alert]') && !document.querySelector('pre')").await;
    let file = scene.rig.path("config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config + lines.as_str().unwrap()).unwrap();
    browser.open(&scene.at("/config")).await;
    browser.click("form[action='/config/reload'] button").await;
    browser.until_shown("Now in force").await;
    browser.until_shown("background_threshold").await;
    assert_eq!(scene.rig.get(&scene::path("context")).await["thresholds"]["background"], 0.5);
    assert_eq!(browser.complaints().await, [] as [String; 0]);
    browser.quit().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: `.ci/browser` installs it, `.ci/run` runs these"]
async fn an_answer_is_seen_while_it_is_written_and_then_in_the_conversation() {
    let scene = Scene::start(scene::model()).await;
    let browser = visitor(&scene).await;
    browser.open(&scene.at("/talk")).await;
    browser.write("#name", "wanda").await;
    browser.press("Enter").await;
    browser.until_shown("Write a message").await;
    let say = async |text: &str| {
        browser.write("#text", text).await;
        browser.press("Enter").await;
    };
    // The first message begins the channel: the page is loaded again with it.
    scene.rig.model.push(Kind::Reply, Answer::text("At noon, at the slip."));
    say("when do we meet?").await;
    browser.until("document.querySelector('#newer')").await;
    browser.until_shown("At noon, at the slip.").await;
    let gate = scene.rig.model.hold(Kind::Reply);
    scene.rig.model.push(Kind::Reply, Answer::text("Bring gloves."));
    say("what do I bring?").await;
    browser.until_shown("An answer is being written.").await;
    browser.until("!document.getElementById('draft').hidden").await;
    gate.open();
    browser.until("document.getElementById('draft').hidden").await;
    browser.until("document.body.innerText.split('Bring gloves.').length === 2").await;
    assert_eq!(browser.eval("document.body.innerText.split('what do I bring?').length").await, 2);
    say("/help").await;
    browser.until_shown("/new").await;
    assert_eq!(browser.complaints().await, [] as [String; 0]);
    browser.quit().await;
}
