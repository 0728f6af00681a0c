//! Words and secrets that no output may have: everything is said, refused and broken once, and then all that the daemon wrote
//! is searched.

use cairn_testkit::model::{Answer, Kind};
use cairn_testkit::telegram::{Attachment, Fault, Say};
use serde_json::{Value, json};

use crate::sight::rig::{GUILD, KEY, ROOM, SECRET, Scene, WORD};
use crate::{home, home_with_tools};

async fn live_through(scene: &Scene) {
    tools(scene).await;
    // Beside each other: some wait for the model until the time of a turn is over.
    let refused = [400, 401, 403, 404, 413, 429, 500, 503].map(async |status| {
        let said = format!("{WORD} refuse with {status}");
        assert_eq!(scene.say(&format!("refused-{status}"), &said).await, 502);
    });
    futures::future::join_all(refused).await;
    memories(scene).await;
    runs(scene).await;
    telegram(scene).await;
    discord(scene).await;
}

/// Arguments, results, a tool that there is not, a tool that fails, a server that dies.
async fn tools(scene: &Scene) {
    let calls = [
        ("files__echo", json!({ "text": format!("{WORD} of a result") })),
        ("files__echo", json!({ "words": WORD })),
        (WORD, json!({ "argument": WORD })),
        ("files__fail", json!({ "text": WORD })),
        ("files__die", json!({})),
        ("memory_save", json!({ "text": format!("Anna likes the {WORD}"), "kind": "preference" })),
        ("fail", json!({ "panic": true })),
    ];
    for (tool, arguments) in calls {
        scene.rig.model.push(Kind::Reply, Answer::call(tool, arguments));
        scene.rig.model.push(Kind::Reply, Answer::text(format!("a {WORD} is extinct")).reasoning(WORD));
        assert_eq!(scene.say("main", &format!("I like the {WORD}, my key is {WORD}")).await, 200);
    }
}

async fn memories(scene: &Scene) {
    let body = json!({ "text": format!("the {WORD} is striped"), "kind": "fact", "scope": "agent" });
    let (status, memory) = scene.rig.client().ask("POST", "/v1/memories", &body).await.unwrap();
    assert!(status.is_success(), "{memory}");
    scene.rig.client().get(&format!("/v1/channels/main/search?q={WORD}")).await.unwrap();
}

/// A run whose model refuses, and repeats the transcript and the key.
async fn runs(scene: &Scene) {
    for n in 0..12 {
        assert_eq!(scene.say("long", &format!("{WORD} {n} {}", "and so on ".repeat(300))).await, 200);
    }
    let body = json!({ "instruction": format!("mind the {WORD}"), "wait": true });
    scene.rig.client().ask("POST", "/v1/channels/long/compact", &body).await.unwrap();
    let context = scene.rig.client().get("/v1/channels/long/context").await.unwrap();
    let outcomes = context["outcomes"].as_array().unwrap();
    assert!(!outcomes.is_empty(), "no run ended: {context}");
    for kept in [outcomes, scene.rig.client().get("/v1/status").await.unwrap()["agents"].as_array().unwrap()]
    {
        assert!(!json!(kept).to_string().contains(KEY), "the key is kept: {kept:?}");
    }
    assert!(
        !json!(outcomes).to_string().contains(WORD),
        "the transcript is kept in an outcome: {outcomes:?}"
    );
}

async fn telegram(scene: &Scene) {
    let anna = scene.telegram.person(&format!("Anna {WORD}"));
    let document = Attachment::Document {
        name: format!("{WORD}.txt"),
        mime: "text/plain".to_owned(),
        bytes: WORD.as_bytes().to_vec(),
    };
    scene.telegram.fail_next("file", Fault::error(404, &format!("no {WORD}")));
    scene.telegram.say(anna.id, &anna, Say::text(format!("the {WORD}")).with(document));
    scene.telegram.wait_sent(anna.id, 1).await;
    // What cannot be sent, in words that repeat it.
    scene.telegram.fail_next("sendMessage", Fault::error(403, &format!("Forbidden: there is no \"{WORD}\"")));
    scene.telegram.say(anna.id, &anna, format!("more of the {WORD}"));
    scene
        .rig
        .until("/v1/outbox", |list| list.as_array().unwrap().iter().any(|item| item["state"] == "dead"))
        .await;
    scene.telegram.push_raw(json!({ "message": { "text": WORD, "chat": WORD } }));
    scene.telegram.say(anna.id, &anna, format!("{WORD} refuse with 400"));
    scene.telegram.wait_sent(anna.id, 2).await;
}

async fn discord(scene: &Scene) {
    let said = format!("the {WORD} of the server");
    let post = scene.discord.post(ROOM, "anna", &said).mention_bot();
    post.attach(&format!("{WORD}.png"), "image/png", WORD.as_bytes()).send();
    scene.discord.wait_sent(ROOM, 1).await;
    scene.discord.dispatch("MESSAGE_CREATE", json!({ "content": WORD, "id": WORD, "guild_id": GUILD }));
    scene.discord.slash(ROOM, "anna", "remember", &[("text", &format!("the {WORD}"))]);
}

/// Panics if a line has one of the words.
fn assert_without(output: &str, words: &[&str]) {
    assert!(!output.is_empty(), "nothing was written");
    for line in output.lines() {
        let plain = line.to_lowercase();
        let found: Vec<_> = words.iter().filter(|word| plain.contains(&word.to_lowercase())).collect();
        assert!(found.is_empty(), "the output has {found:?}: {line}");
    }
}

fn secrets(scene: &Scene) -> Vec<String> {
    let telegram = scene.telegram.token().split_once(':').map(|(_, secret)| secret).unwrap_or_default();
    [KEY, SECRET, telegram, scene.discord.token()].map(str::to_owned).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_line_at_info_has_words_of_people_models_tools_or_networks_nor_a_secret() {
    let scene = Scene::start(home_with_tools(), "level = \"info\"\nformat = \"json\"").await;
    live_through(&scene).await;
    let secrets = secrets(&scene);
    let output = scene.stop().await;
    let mut words: Vec<&str> = secrets.iter().map(String::as_str).collect();
    words.push(WORD);
    assert_without(&output, &words);
    // It is no empty log: each kind of trouble has its line, by its code or its place.
    for said in [
        "turn ended",
        "turn failed",
        "model call failed",
        "(HTTP 400)",
        "HTTP 401",
        "panicked: a bug",
        "a tool server failed",
        "refused",
    ] {
        assert!(output.contains(said), "the log does not say {said:?}:\n{output}");
    }
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let unknown = lines.iter().find(|line| line["message"] == "tool call ended" && line["tool"] == "other");
    assert!(unknown.is_some(), "a tool that there is not goes by another name");
}

#[tokio::test(flavor = "multi_thread")]
async fn not_even_at_trace_has_a_line_a_secret() {
    let scene =
        Scene::start(home(), "level = \"trace,hyper=trace,serenity=trace,rmcp=trace,reqwest=trace\"").await;
    live_through(&scene).await;
    let secrets = secrets(&scene);
    let output = scene.stop().await;
    assert_without(&output, &secrets.iter().map(String::as_str).collect::<Vec<_>>());
    // Words of people are for debugging: it is the level that keeps them out.
    assert!(output.contains(WORD), "trace tells no more than info");
}
