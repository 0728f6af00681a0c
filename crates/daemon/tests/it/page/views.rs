//! The views over a real conversation: what they show, and that text of others is text.

use std::collections::BTreeSet;

use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::one_model;
use serde_json::{Value, json};

use super::rig::Site;

/// Markup of others, which no view may repeat as markup.
const EVIL: &str = "<img src=canary><script src=canary></script>\"'&amp;</pre>";

/// A daemon with its page, and a model of that window.
async fn site(window: u64) -> (Site, FakeModel) {
    let model = FakeModel::start().await;
    let site = Site::start(&format!("\n{}", one_model(&model.base_url(), window))).await;
    (site, model)
}

/// Somebody says something in the channel `main`.
async fn say(site: &Site, user: &str, text: &str) -> Value {
    let body = json!({ "user": user, "text": text });
    let (status, answer) =
        site.daemon.client().ask("POST", "/v1/channels/main/messages", &body).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    answer
}

/// A text as a value of a query or a form.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Somebody is banned for a reason that is markup, and a backup goes to a folder that is called so.
async fn ban_and_back_up(site: &Site, cookie: &str) {
    let ban = format!("user=telegram%2F7&reason={}", encoded(EVIL));
    site.post("/people/ban", cookie, &ban).await.is(303);
    let dir = site.home.path(&EVIL.replace('/', "-"));
    site.post("/store/backup", cookie, &format!("dir={}", encoded(&dir.display().to_string()))).await.is(303);
}

async fn compact(site: &Site) {
    let body = json!({ "wait": true });
    let (status, answer) =
        site.daemon.client().ask("POST", "/v1/channels/main/compact", &body).await.unwrap();
    assert!(status == 200 && answer["outcome"] == "committed", "{answer}");
}

/// What follows each time behind that beginning, up to the quote.
fn links<'b>(body: &'b str, begins: &str) -> Vec<&'b str> {
    body.match_indices(begins).filter_map(|(at, _)| body[at + begins.len()..].split('"').next()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn why_an_answer_ended_is_beside_it() {
    let (site, model) = site(16_000).await;
    model.push(Kind::Reply, Answer::text("oak, ash and").finish("length"));
    say(&site, "anna", "name trees").await;
    let cookie = site.login(&[]).await;
    for path in ["/channels/main%2Flocal%2Fmain", "/channels/main%2Flocal%2Fmain/turns/last"] {
        let body = site.view(path, &cookie).await.is(200).body;
        assert!(body.contains("cut off at its length limit"), "{path}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_people_models_memories_and_tools_is_text_in_every_view() {
    let (site, model) = site(16_000).await;
    let memory =
        json!({ "text": format!("the gate {EVIL}"), "kind": "fact", "scope": "agent", "subject": EVIL });
    let (status, answer) = site.daemon.client().ask("POST", "/v1/memories", &memory).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    model.push(Kind::Reply, Answer::call("history_search", json!({ "query": EVIL })));
    model.push(Kind::Reply, Answer::text(format!("the answer {EVIL}")));
    say(&site, EVIL, &format!("what of the gate? {EVIL}")).await;
    for n in 0..6 {
        say(&site, EVIL, &format!("{n} {EVIL} {}", "and so on ".repeat(60))).await;
    }
    compact(&site).await;
    say(&site, EVIL, &format!("the gate {EVIL}")).await;

    let cookie = site.login(&[]).await;
    ban_and_back_up(&site, &cookie).await;
    let list = site.view("/channels", &cookie).await.is(200).body;
    let channel = format!("/channels/{}", links(&list, "href=\"/channels/")[0]);
    let window = format!("{channel}/window");
    let shown = site.view(&window, &cookie).await.is(200).body;
    let mut paths: BTreeSet<String> =
        ["/", "/channels", "/search?q=gate+img", &channel, &window].map(str::to_owned).into();
    let talk = format!("{channel}?name={}", encoded(EVIL));
    paths.extend(["/people", "/spend?by=person", "/store", "/memories", "/tools"].map(str::to_owned));
    paths.insert(talk);
    for below in ["turns", "summaries"] {
        let found = links(&shown, &format!("href=\"{channel}/{below}/"));
        assert!(!found.is_empty(), "{below}: {shown}");
        paths.extend(found.iter().map(|id| format!("{channel}/{below}/{id}")));
    }
    let turns: Vec<String> = paths.iter().filter(|path| path.contains("/turns/")).cloned().collect();
    assert!(turns.len() >= 8, "{turns:?}");
    for turn in turns {
        paths.extend(["prompt", "diff"].map(|view| format!("{turn}/{view}")));
    }
    let mut escaped = 0;
    for path in &paths {
        let body = site.view(path, &cookie).await.is(200).body;
        assert!(!body.contains("<img src=canary") && !body.contains("<script src=canary"), "{path}: {body}");
        escaped += usize::from(body.contains("&lt;img src=canary&gt;"));
    }
    assert!(escaped + 2 >= paths.len() - 1, "all but lists show it: {escaped} of {}", paths.len());
    // A name that is none is refused with words that may repeat it.
    let refused = site.view(&format!("/talk?name={}", encoded(EVIL)), &cookie).await;
    assert!(refused.status == 400 && !refused.body.contains("<img src=canary"), "{refused:?}");
    let raw = site.view(&format!("{channel}/turns/last/body"), &cookie).await.is(200);
    assert_eq!(raw.header("content-type"), Some("text/plain; charset=utf-8"), "a body is no page");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_shows_its_window_what_stands_for_every_entry_and_its_calls() {
    let (site, model) = site(16_000).await;
    let cookie = site.login(&[]).await;
    for n in 0..8 {
        say(&site, "anna", &format!("{n} the invoice INV-{n}00 {}", "and so on ".repeat(60))).await;
    }
    compact(&site).await;
    say(&site, "anna", "and now?").await;
    let shown = site.view("/channels/main/window", &cookie).await.is(200).body;
    let context = site.home.json(&["context", "main"]);
    for (name, key) in [("b", "background"), ("a", "aggressive"), ("e", "emergency")] {
        let ratio = context["thresholds"][key].as_f64().unwrap();
        assert!(shown.contains(&format!("<b>{name}</b> {key} from {:.1} %", ratio * 100.0)), "{shown}");
    }
    assert_eq!(shown.matches("class=\"tick\"").count(), 3, "{shown}");
    let summary = context["summaries"][0].clone();
    let (id, to) = (summary["id"].as_str().unwrap(), summary["to_seq"].as_u64().unwrap());
    assert!(shown.contains(&format!("summary {id}, level 0: entries 1 to {to}")), "{shown}");
    assert!(shown.contains(&format!("live: entries {} to 18", to + 1)), "{shown}");
    // The chart has a point for each call, and a line for the compaction between them.
    let points: Value =
        serde_json::from_str(&links(&shown, "data-points=\"")[0].replace("&quot;", "\"")).unwrap();
    assert_eq!(points["tokens"].as_array().unwrap().len(), model.tally(Kind::Reply).arrived, "{points}");
    assert_eq!(points["runs"].as_array().unwrap().len(), 1);
    assert!(shown.contains("<polyline class=\"tokens\"") && shown.contains("<line class=\"run\""), "{shown}");
    assert!(shown.contains("cairn context main/local/main"), "{shown}");
    // The run has a view of its own, with the exact request of its call.
    let run = site.view("/channels/main/runs/r1", &cookie).await.is(200).body;
    assert!(run.contains("Model calls") && run.contains("committed"), "{run}");
    assert!(
        run.contains("runs/r1/prompt?call=1") && run.contains("cairn explain main/local/main --run r1"),
        "{run}"
    );
    let prompt = site.view("/channels/main/runs/r1/prompt?call=1", &cookie).await.is(200).body;
    assert!(prompt.contains("byte for byte") && prompt.contains("transcript"), "{prompt}");
    let body = site.view("/channels/main/runs/r1/body?call=1", &cookie).await.is(200).body;
    assert!(model.seen().iter().any(|seen| *seen.sent == *body), "{body}");
    site.view("/channels/main/runs/r99", &cookie).await.is(404);
    // What a script asks for again and again is the live part, and nothing that was drawn once.
    let headers = [("cookie", cookie.as_str()), ("hx-request", "true"), ("hx-target", "now")];
    let live = site.ask("GET /channels/main/window", &headers, "").await.is(200).body;
    assert!(live.starts_with("<div id=\"now\"") && live.contains("<svg class=\"ribbon\""), "{live}");
    assert!(!live.contains("data-points") && !live.contains("<html"), "{live}");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_turns_show_each_once() {
    let (site, _model) = site(64_000).await;
    let cookie = site.login(&["--read-only"]).await;
    for n in 0..130 {
        say(&site, "anna", &format!("question {n}")).await;
    }
    let (mut path, mut seen, mut pages) = ("/channels/main/window".to_owned(), Vec::new(), 0);
    loop {
        let shown = site.view(&path, &cookie).await.is(200).body;
        let turns = links(&shown, "href=\"/channels/main%2Flocal%2Fmain/turns/");
        seen.extend(turns.iter().map(|turn| (*turn).to_owned()));
        pages += 1;
        let older = links(&shown, "rel=\"next\" href=\"");
        let Some(next) = older.first() else { break };
        path = next.split('#').next().unwrap().to_owned();
    }
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), once.len()), (130, 130), "on {pages} pages");
    assert!(pages > 2);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_read_back_page_by_page_and_what_is_summarised_is_a_divider() {
    let (site, model) = site(16_000).await;
    let cookie = site.login(&["--read-only"]).await;
    for n in 0..8 {
        say(&site, "anna", &format!("{n} the invoice INV-{n}00 {}", "and so on ".repeat(60))).await;
    }
    compact(&site).await;
    model.push(Kind::Reply, Answer::call("history_search", json!({ "query": "invoice" })));
    model.push(Kind::Reply, Answer::text("It was INV-300."));
    say(&site, "bo", "which invoice was it?").await;
    let newest = site.view("/channels/main", &cookie).await.is(200).body;
    let to = site.home.json(&["context", "main"])["summaries"][0]["to_seq"].as_u64().unwrap();
    assert!(newest.contains(&format!("Messages 1 to {to}: summarised")), "{newest}");
    for part in [
        "<b title=\"local/bo\">bo</b>",
        "1 tool call: history_search",
        "It was INV-300.",
        "How this answer was made",
    ] {
        assert!(newest.contains(part), "{part}: {newest}");
    }
    assert!(!newest.contains("id=\"e1\""), "what is summarised is not among it: {newest}");
    let show = format!("/channels/main?before={}", to + 1);
    assert!(newest.contains(&show.replace("/main?", "/main%2Flocal%2Fmain?")), "{newest}");
    let summarised = site.view(&show, &cookie).await.is(200).body;
    assert!(summarised.contains("INV-000") && summarised.contains(": in the window"), "{summarised}");
    // All entries are there once, the oldest on the last page.
    for n in 0..80 {
        say(&site, "anna", &format!("question {n}")).await;
    }
    let (mut path, mut seen) = ("/channels/main".to_owned(), Vec::new());
    loop {
        let shown = site.view(&path, &cookie).await.is(200).body;
        let page: Vec<u64> = links(&shown, " id=\"e").iter().map(|seq| seq.parse().unwrap()).collect();
        assert!(page.len() <= 50 && page.is_sorted(), "{page:?}");
        seen.splice(0..0, page.iter().copied());
        let begins = page[0];
        let Some(older) = links(&shown, "rel=\"prev\" href=\"").first().map(|link| (*link).to_owned()) else {
            if begins == 1 {
                break;
            }
            path = format!("/channels/main?before={begins}");
            continue;
        };
        path = older;
    }
    let last = site.home.json(&["history", "main", "--tail", "1"])[0]["seq"].as_u64().unwrap();
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    let around = site.view("/channels/main?at=3", &cookie).await.is(200).body;
    assert!(around.contains("id=\"e3\"") && around.contains("INV-100"), "{around}");
    // A script asks for what is newer, and is told where to ask on.
    let headers = [("cookie", cookie.as_str()), ("hx-target", "newer")];
    let newer = site.ask(&format!("GET /channels/main?after={}", last - 1), &headers, "").await.is(200).body;
    assert!(
        newer.contains(&format!("id=\"e{last}\"")) && newer.contains(&format!("?after={last}\"")),
        "{newer}"
    );
    assert!(!newer.contains("<html"), "{newer}");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_searched_for_is_marked_and_leads_to_its_place_in_the_conversation() {
    let (site, _model) = site(64_000).await;
    let cookie = site.login(&["--read-only"]).await;
    say(&site, "anna", "the heron stands at the sluice").await;
    say(&site, "bo", "the ferry goes at noon").await;
    let memory = json!({ "text": "Anna counts herons.", "kind": "fact", "scope": "agent" });
    assert_eq!(site.daemon.client().ask("POST", "/v1/memories", &memory).await.unwrap().0, 200);
    let empty = site.view("/search", &cookie).await.is(200).body;
    assert!(empty.contains("Words may be in any order"), "{empty}");
    let found = site.view("/search?q=heron&user=anna&kind=entry", &cookie).await.is(200).body;
    assert!(found.contains("the <mark>heron</mark> stands"), "{found}");
    assert!(found.contains("href=\"/channels/main%2Flocal%2Fmain?at=1#e1\""), "{found}");
    assert!(found.contains("cairn search heron --kind entry --user anna"), "{found}");
    let memories = site.view("/search?q=herons&kind=memory", &cookie).await.is(200).body;
    assert!(memories.contains("href=\"/memories/") && memories.contains("Anna counts"), "{memories}");
    let nothing = site.view("/search?q=heron&channel=main&since=2099-01-01", &cookie).await.is(200).body;
    assert!(nothing.contains("Nothing was found"), "{nothing}");
    let unknown = site.view("/search?q=heron&channel=nowhere", &cookie).await.is(404).body;
    assert!(
        unknown.contains("no channel main/local/nowhere") && unknown.contains("aria-label=\"Sections\""),
        "{unknown}"
    );
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_banned_and_let_in_again_and_what_they_cost_is_shown() {
    let (site, _model) = site(64_000).await;
    let cookie = site.login(&[]).await;
    say(&site, "anna", "hello").await;
    site.post("/people/ban", &cookie, "user=telegram%2F7&lasts=3d&reason=sells+watches").await.is(303);
    let shown = site.view("/people", &cookie).await.is(200).body;
    assert!(shown.contains("telegram/7") && shown.contains("sells watches"), "{shown}");
    assert_eq!(site.home.json(&["ban"])[0]["user"], "telegram/7");
    site.post("/people/ban", &cookie, "user=nobody&lasts=&reason=").await.is(400);
    site.post("/people/unban", &cookie, "user=telegram%2F7").await.is(303);
    assert!(site.view("/people", &cookie).await.is(200).body.contains("Nobody is banned."));
    site.post("/people/private", &cookie, "on=true&user=telegram%2F7&chat=").await.is(303);
    site.post("/people/private", &cookie, "on=true&user=&chat=").await.is(400);
    site.home.cairn(&["private", "on", "main/telegram/-100"]).ended(0);
    site.home.cairn(&["private", "on"]).ended(2);
    let both = site.home.json(&["private"]);
    assert_eq!((&both[0]["who"], &both[1]["who"]), (&json!("telegram/7"), &json!("telegram/-100")));
    let shown = site.view("/people", &cookie).await.is(200).body;
    assert!(shown.contains("telegram/-100"), "{shown}");
    site.post("/people/private", &cookie, "chat=telegram%2F-100").await.is(303);
    let left = site.home.cairn(&["private", "off", "--user", "telegram/7"]).ended(0);
    assert_eq!(left.stdout, "nobody is private\n");
    site.home.cairn(&["private", "on", "--user", "local/anna"]).ended(0);
    assert_eq!(site.home.json(&["private"])[0]["who"], "local/anna");
    let spend = site.view("/spend?by=person&then=model", &cookie).await.is(200).body;
    assert!(spend.contains("local/anna") && spend.contains("cairn spend --by person,model"), "{spend}");
    site.view("/spend?from=yesterday", &cookie).await.is(400);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_checked_and_backed_up() {
    let (site, _model) = site(64_000).await;
    let cookie = site.login(&[]).await;
    say(&site, "anna", "hello").await;
    let ended = async |words: &str| loop {
        let shown = site.view("/store", &cookie).await.is(200).body;
        if !shown.contains("role=\"status\"><progress") {
            assert!(shown.contains(words), "{shown}");
            break;
        }
    };
    ended("No check or backup was started").await;
    site.post("/store/check", &cookie, "quick=no").await.is(303);
    ended("No problems found.").await;
    let dir = site.home.path("backup");
    let form = format!("dir={}", dir.display().to_string().replace('/', "%2F"));
    site.post("/store/backup", &cookie, &form).await.is(303);
    ended("The backup is complete.").await;
    assert!(dir.join("journal").is_dir());
    site.post("/store/backup", &cookie, &form).await.is(303);
    ended("class=\"trouble\"").await;
    site.post("/store/backup", &cookie, "dir=backup").await.is(400);
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_talks_in_a_channel_of_their_name() {
    let (site, model) = site(64_000).await;
    let cookie = site.login(&[]).await;
    assert!(site.view("/talk", &cookie).await.is(200).body.contains("Your name"));
    let there = site.view("/talk?name=wanda", &cookie).await.is(303);
    let path = there.header("location").unwrap().to_owned();
    let empty = site.view(&path, &cookie).await.is(200).body;
    assert!(empty.contains("There are no messages here") && empty.contains("value=\"wanda\""), "{empty}");
    model.push(Kind::Reply, Answer::text("At noon."));
    let to = "/channels/main%2Flocal%2Fwanda/messages";
    site.post(to, &cookie, "name=wanda&text=when%3F%0D%0Aagain").await.is(303);
    let told = site.home.json(&["history", "main/local/wanda"]);
    assert_eq!(told[0]["parts"][0]["text"], "when?\nagain");
    // What a script gets: the events of the socket's own call.
    let origin = site.origin();
    let headers = [("cookie", cookie.as_str()), ("origin", origin.as_str()), ("accept", "text/event-stream")];
    model.push(Kind::Reply, Answer::text("At one."));
    let events = site.ask(&format!("POST {to}"), &headers, "name=wanda&text=and+then%3F").await.is(200).body;
    assert!(
        events.contains("event: accepted") && events.contains("event: reply") && events.contains("At one."),
        "{events}"
    );
    let shown = site.view(&path, &cookie).await.is(200).body;
    assert!(
        shown.contains("At noon.")
            && shown.contains("At one.")
            && shown.contains("<b title=\"local/wanda\">"),
        "{shown}"
    );
    let help = site.post(to, &cookie, "name=wanda&text=%2Fhelp").await.is(200).body;
    assert!(help.contains("id=\"reply\"") && help.contains("/new"), "{help}");
    site.post(to, &cookie, "name=wanda&text=+").await.is(422);
    let elsewhere = site.post("/channels/main%2Ftelegram%2F7/messages", &cookie, "name=wanda&text=a").await;
    assert_eq!(elsewhere.status, 400, "{elsewhere:?}");
    assert!(site.view(&path, &cookie).await.is(200).body.contains("Write a message"));
    let reader = site.login(&["--read-only"]).await;
    assert!(!site.view(&path, &reader).await.is(200).body.contains("Write a message"));
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_marks_in_its_source_what_it_leaves_out() {
    let (site, _model) = site(16_000).await;
    let cookie = site.login(&[]).await;
    for n in 0..8 {
        let so_on = "and so on ".repeat(60);
        say(&site, "anna", &format!("{n}: see /srv/plans/plan-{n}.txt {so_on}")).await;
    }
    compact(&site).await;
    let summaries = site.home.json(&["summary", "list", "main"]);
    let id = summaries[0]["id"].as_str().unwrap();
    let view = site.home.json(&["summary", "show", "main", id]);
    let left_out = view["left_out"].as_array().unwrap();
    assert!(!left_out.is_empty(), "{view}");
    let shown = site.view(&format!("/channels/main/summaries/{id}"), &cookie).await.is(200).body;
    for one in left_out {
        let text = one["text"].as_str().unwrap();
        assert!(shown.contains(&format!("<mark>{text}</mark>")), "{text}: {shown}");
    }
    assert!(shown.contains(&format!("cairn summary show main/local/main {id}")), "{shown}");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_shows_the_request_as_it_was_sent_and_what_differs() {
    let (site, model) = site(32_000).await;
    let cookie = site.login(&[]).await;
    model.push(Kind::Reply, Answer::text("At plot seven."));
    say(&site, "anna", "where is the shed?").await;
    let asked = say(&site, "bo", "and the harbour?").await;
    let turn = asked["turn"].as_str().unwrap();
    let path = format!("/channels/main/turns/{turn}");
    let shown = site.view(&path, &cookie).await.is(200).body;
    for part in
        ["and the harbour?", "bo (local/bo)", "Model calls", &format!("cairn explain main/local/main {turn}")]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let body: Value =
        serde_json::from_str(&site.view(&format!("{path}/body"), &cookie).await.is(200).body).unwrap();
    assert_eq!(&body, model.requests_of(Kind::Reply).last().unwrap());
    let prompt = site.view(&format!("{path}/prompt"), &cookie).await.is(200).body;
    assert!(prompt.contains("byte for byte") && prompt.contains("where is the shed?"), "{prompt}");
    let diff = site.view(&format!("{path}/diff"), &cookie).await.is(200).body;
    assert!(diff.contains("<ins>+ ") && diff.contains("and the harbour?"), "{diff}");
    assert!(!diff.contains("where is the shed?"), "what is the same is not shown: {diff}");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_shows_what_became_of_it_the_turns_that_had_it_and_no_edit_over_a_newer_one() {
    let (site, _model) = site(16_000).await;
    let memory = json!({ "text": "The gate code is 4711.", "kind": "fact", "scope": "agent" });
    let (status, saved) = site.daemon.client().ask("POST", "/v1/memories", &memory).await.unwrap();
    assert_eq!(status, 200, "{saved}");
    say(&site, "anna", "what is the gate code?").await;
    let cookie = site.login(&[]).await;
    let path = format!("/memories/{}", saved["id"].as_str().unwrap());
    let before = site.view(&path, &cookie).await.is(200).body;
    assert!(before.contains("an operator&#39;s word") || before.contains("an operator's word"), "{before}");
    assert!(before.contains("href=\"/channels/main%2Flocal%2Fmain/turns/t1\""), "{before}");
    let shown = links(&before, "name=\"shown\" value=\"")[0].replace(':', "%3A");
    let edit = |text: &str| format!("text={text}&kind=fact&importance=0.8&shown={shown}");
    site.post(&path, &cookie, &edit("It+is+4712.")).await.is(303);
    let refused = site.post(&path, &cookie, &edit("It+is+4713.")).await.is(409);
    assert!(refused.body.contains("changed since you loaded it"), "{}", refused.body);
    let after = site.view(&path, &cookie).await.is(200).body;
    for text in ["The gate code is 4711.", "It is 4712.", "edited"] {
        assert!(after.contains(text), "{text}: {after}");
    }
    assert!(!after.contains("It is 4713"), "{after}");
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_as_a_page() {
    let (site, _model) = site(32_000).await;
    let cookie = site.login(&[]).await;
    say(&site, "anna", "hello").await;
    for (path, words) in [
        ("/channels/nowhere", "no channel main/local/nowhere"),
        ("/channels/main/turns/t99", "no turn `t99`"),
        ("/channels/main/summaries/s99", "there is no summary s99"),
        ("/channels/a%2Fb", "`a/b`"),
        ("/nowhere", "there is no such page"),
    ] {
        let answer = site.view(path, &cookie).await;
        assert!(answer.status == 404 || answer.status == 400, "{answer:?}");
        assert!(answer.body.contains(words) && answer.body.contains("<!DOCTYPE html>"), "{answer:?}");
        assert!(answer.body.contains("aria-label=\"Sections\""), "with the menu: {answer:?}");
    }
    assert!(site.daemon.stop().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn several_memories_are_forgotten_all_or_none() {
    let site = Site::start("").await;
    let cookie = site.login(&[]).await;
    let mut ids = Vec::new();
    for text in ["The gate is green.", "The boat is new."] {
        let memory = site.home.json(&["memory", "add", text, "--kind", "fact", "--scope", "agent"]);
        ids.push(memory["id"].as_str().unwrap().to_owned());
    }
    let left = || site.home.json(&["memory", "list"]).as_array().unwrap().len();
    site.post("/memories/forget", &cookie, &format!("id={}&id=m404&id={}", ids[0], ids[1])).await.is(404);
    assert_eq!(left(), 2, "one of them is not there");
    site.post("/memories/forget", &cookie, &format!("id={0}&id={0}&id={1}", ids[0], ids[1])).await.is(303);
    assert_eq!(left(), 0, "one of them is named twice");
}
