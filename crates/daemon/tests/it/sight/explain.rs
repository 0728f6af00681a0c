//! What the model saw at a past moment: the request of every call, made again from the journal, is the one that the server got,
//! to the last byte; and where it cannot be, that is said.

use cairn_testkit::daemon::PATIENCE;
use cairn_testkit::home::Home;
use cairn_testkit::model::{Answer, FakeModel, Kind, Seen};
use cairn_testkit::rig::{Rig, one_model};
use serde_json::{Value, json};

use crate::compaction::rig::{LONG, WINDOW, configured, run_ended, talk_until_run};
use crate::home;

/// The requests for answers that the server got, in order.
fn replies(model: &FakeModel) -> Vec<Seen> {
    model.seen().into_iter().filter(|seen| seen.kind == Kind::Reply).collect()
}

/// Turn and number of every call of a channel, in order.
async fn calls(rig: &Rig) -> Vec<(String, u64)> {
    let mut turns = Vec::new();
    let mut turn = Some("last".to_owned());
    while let Some(id) = turn {
        let explained = rig.get(&rig.path_of(&format!("turns/{id}/explain"))).await;
        let n_calls = explained["calls"].as_array().unwrap().len() as u64;
        let id = explained["turn"].as_str().unwrap().to_owned();
        turns.extend((1..=n_calls).rev().map(|call| (id.clone(), call)));
        turn = explained["before"].as_str().map(str::to_owned);
    }
    turns.reverse();
    turns
}

async fn prompt(rig: &Rig, turn: &str, call: u64) -> Value {
    rig.get(&rig.path_of(&format!("turns/{turn}/prompt?call={call}"))).await
}

/// Every call of the channel is made again as the server got it.
async fn check_all(rig: &Rig, when: &str) {
    let (calls, sent) = (calls(rig).await, replies(&rig.model));
    assert_eq!(calls.len(), sent.len(), "{when}");
    for ((turn, call), seen) in calls.iter().zip(&sent) {
        let made = prompt(rig, turn, *call).await;
        assert_eq!(
            made["body"].as_str().unwrap(),
            &*seen.sent,
            "{when}: {turn}, call {call}: {}",
            made["why_not"]
        );
        assert_eq!((&made["exact"], &made["why_not"]), (&json!(true), &json!([])), "{when}: {turn}");
    }
}

/// The runs of the channel that have ended, explained.
async fn told_runs(rig: &Rig) -> Vec<Value> {
    let is_idle = |context: &Value| context["run"].is_null();
    let context = rig.client().until(&rig.path_of("context"), is_idle).await.unwrap();
    let mut told = Vec::new();
    for run in context["outcomes"].as_array().unwrap() {
        let run = run["run"].as_str().unwrap();
        told.push(rig.get(&rig.path_of(&format!("runs/{run}/explain"))).await);
        assert_eq!(told.last().unwrap()["run"], run);
    }
    told
}

/// Every call of every run of the channel is made again as the server got it. Returns how many rounds the longest talk
/// had, and how many calls were merges.
async fn check_runs(rig: &Rig, when: &str) -> (u64, u64) {
    let sent = || -> Vec<String> {
        let seen = rig.model.seen().into_iter().filter(|seen| seen.kind != Kind::Reply);
        seen.map(|seen| seen.sent.to_string()).collect()
    };
    // A merge may follow a run at once: its request is with the server before the run has an end.
    let all_ended = async {
        loop {
            let told = told_runs(rig).await;
            let n_calls: usize = told.iter().map(|run| run["calls"].as_array().unwrap().len()).sum();
            let sent = sent();
            if n_calls >= sent.len() {
                return (told, sent);
            }
            tokio::task::yield_now().await;
        }
    };
    let mut made = Vec::new();
    let (mut rounds, mut merges) = (0, 0);
    let (all_told, sent) = tokio::time::timeout(PATIENCE, all_ended).await.unwrap();
    for told in all_told {
        let run = told["run"].as_str().unwrap();
        assert_eq!(told["missing"], json!([]), "{when}: {told}");
        for call in told["calls"].as_array().unwrap() {
            let number = call["call"].as_u64().unwrap();
            merges += u64::from(call["trace"]["work"]["entries"].is_null());
            rounds = rounds.max(call["trace"]["work"]["round"].as_u64().unwrap());
            let prompt = rig.get(&rig.path_of(&format!("runs/{run}/prompt?call={number}"))).await;
            assert_eq!(prompt["exact"], true, "{when}: {run}, call {number}: {}", prompt["why_not"]);
            assert_eq!(prompt["run"], *run, "{when}");
            made.push(prompt["body"].as_str().unwrap().to_owned());
        }
    }
    assert!(!sent.is_empty(), "{when}");
    assert_eq!(made, sent, "{when}");
    (rounds, merges)
}

/// A talk with memories, tools, a refused field and a compaction.
async fn talked(provider: &str) -> Rig {
    let model = FakeModel::builder().window(WINDOW);
    let rig = configured(provider, model, WINDOW, "max_rounds = 2\n").await;
    let add = |text: &str| {
        rig.cairn(&["memory", "add", text, "--kind", "fact", "--scope", "agent"]).ended(0);
    };
    add("The parrot of Anna is called Zorblax");
    add("The ferry to Gdynia leaves at seven");
    add("Anna called the harbour office about the ferry");
    rig.say("What is my parrot called?").await;
    rig.model.push(
        Kind::Reply,
        Answer::call("history_search", json!({"query": "parrot"}))
            .and_call("memory_search", json!({"query": "ferry"})),
    );
    rig.model.push(Kind::Reply, Answer::text("At seven."));
    rig.say("And when does the ferry leave, \"Zorblax\"\u{202e} & <b>?").await;
    let run = rig.model.hold(Kind::Compaction);
    let mut events = talk_until_run(&rig).await;
    rig.model.wait_for(Kind::Compaction, 1).await;
    // The run ends while a turn is under way, and the next one has its summary.
    let (reply, asked) = (rig.model.hold(Kind::Reply), replies(&rig.model).len());
    let ending = async {
        rig.model.wait_for(Kind::Reply, asked + 1).await;
        run.open();
        let ended = run_ended(&mut events).await;
        reply.open();
        ended
    };
    let (_, ended) = tokio::join!(rig.say(LONG), ending);
    assert_eq!(ended["outcome"], "committed");
    rig.say(LONG).await;
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_made_again_byte_for_byte_over_compactions_restarts_and_sessions() {
    for provider in ["openai", "responses", "anthropic"] {
        let mut rig = talked(provider).await;
        check_all(&rig, provider).await;
        rig.crash().await;
        check_all(&rig, "after a restart").await;
        rig.cairn(&["new", "main"]).ended(0);
        rig.say("What is my parrot called, again?").await;
        check_all(&rig, "after a new session").await;
        // An edited memory is shown as it was.
        let ids = rig.json(&["memory", "list"]);
        let id = ids[0]["id"].as_str().unwrap().to_owned();
        rig.cairn(&["memory", "edit", &id, "The parrot of Anna is called Quux"]).ended(0);
        check_all(&rig, "after an edit of a memory").await;
        let before = rig.get(&rig.path_of("turns/last/explain")).await;
        assert_eq!(before["recalled"][0]["changed"], true, "{before}");
        assert_eq!(before["recalled"][0]["text"], "The parrot of Anna is called Zorblax");

        let last = replies(&rig.model).pop().unwrap();
        rig.stop().await;
        let printed = rig.cairn(&["explain", "main", "--prompt"]).ended(0);
        assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), (&*last.sent, ""), "without a daemon");
        rig.model.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_a_run_is_made_again_byte_for_byte_over_talks_merges_and_a_restart() {
    for provider in ["openai", "responses", "anthropic"] {
        let model = FakeModel::builder().window(WINDOW);
        let more = "compaction = { instructions = \"Keep every price.\", identifiers = \"anonymize\", fan_out = 2, stack_tokens = 160 }\n";
        let mut rig = configured(provider, model, WINDOW, more).await;
        let save = json!({"text": "Anna likes flats by the river", "kind": "preference"});
        rig.model.push(Kind::Compaction, Answer::call("memory_save", save));
        rig.model.push(Kind::Compaction, Answer::text("none"));
        let merged = |context: &Value| {
            let outcomes = context["outcomes"].as_array().unwrap();
            outcomes.iter().any(|outcome| outcome["summary_size"]["merge"] == true)
        };
        for n in 0..300 {
            rig.say(&format!("{LONG} ({n})")).await;
            if merged(&rig.context().await) {
                break;
            }
        }
        let (rounds, merges) = check_runs(&rig, provider).await;
        assert!(rounds >= 3 && merges > 0, "a call of a tool, a correction and a merge: {rounds}, {merges}");
        rig.crash().await;
        check_runs(&rig, "after a restart").await;

        let shown = rig.cairn(&["explain", "main", "--run", "r1"]).ended(0).stdout;
        for part in
            ["  r1\n", "  main/local/main\n", "  committed\n", "round 2 of the talk", "--run r1 --prompt"]
        {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        let printed = rig.cairn(&["explain", "main", "--run", "r1", "--prompt", "--call", "2"]).ended(0);
        let second = rig.model.seen().into_iter().filter(|seen| seen.kind != Kind::Reply).nth(1).unwrap();
        assert_eq!((printed.stdout.as_str(), printed.stderr.as_str()), (&*second.sent, ""));
        rig.cairn(&["explain", "main", "--run", "r99"]).ended(4);
        rig.cairn(&["explain", "main", "--run", "r1", "--prompt", "--call", "99"]).ended(4);
        rig.model.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_explained_from_its_question_to_its_cost() {
    let rig = talked("openai").await;
    let turn = rig.get(&rig.path_of("turns/t2/explain")).await;
    let told = |list: &str| -> Vec<Value> { turn[list].as_array().unwrap().clone() };
    assert_eq!(
        (&turn["outcome"], &turn["before"], &turn["after"]),
        (&json!("answered"), &json!("t1"), &json!("t3"))
    );
    assert_eq!(turn["answer"]["text"], "At seven.");
    let ferry =
        told("recalled").into_iter().find(|memory| memory["text"].to_string().contains("Gdynia")).unwrap();
    assert_eq!(ferry["words"], json!(["ferry", "leave"]), "{ferry}");
    assert!(ferry["score"].as_f64().unwrap() > 0.0);
    assert_eq!(told("calls").len(), 2);
    let call = &turn["calls"][0];
    assert_eq!((&call["tools"], &call["frame"]["wire"]["format"]), (&json!(2), &json!("openai")), "{call}");
    assert!(call["trace"]["total_ms"].is_u64() && call["trace"]["first_ms"].is_u64(), "{call}");
    assert_eq!(turn["calls"][1]["trace"]["last_call"], true, "{turn}");
    let tools: Vec<_> = told("tools").iter().map(|used| used["tool"].clone()).collect();
    assert_eq!(tools.len(), 2, "{tools:?}");
    let times: Vec<String> =
        told("times").iter().map(|stage| stage["part"].as_str().unwrap().to_owned()).collect();
    for part in ["waiting", "recall and assembling", "to the first word", "models", "tools", "whole turn"] {
        assert!(times.iter().any(|time| time == part), "{part} in {times:?}");
    }
    assert_eq!(turn["missing"], json!([]));

    let last = rig.get(&rig.path_of("turns/last/explain")).await;
    assert_eq!(last["stands"][0]["id"], "s1", "{last}");
    let before = rig.get(&rig.path_of(&format!("turns/{}/explain", last["before"].as_str().unwrap()))).await;
    let of_run = before["beside"].as_array().unwrap().iter().chain(last["beside"].as_array().unwrap()).next();
    let work = &of_run.unwrap()["trace"]["work"];
    assert_eq!((&work["run"], &work["round"]), (&json!("r1"), &json!(1)), "{before}");
    assert!(last["stands"][0]["line"].as_str().is_some_and(|line| !line.is_empty()), "{last}");

    let shown = rig.cairn(&["explain", "main", "t2"]).ended(0).stdout;
    for part in [
        "  t2\n",
        "  main/local/main\n",
        "Question",
        "Recalled memories",
        "matched words",
        "Model calls",
        "At seven.",
        "Time",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains('\u{202e}'), "what is hidden is escaped: {shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_found_by_its_time_and_by_a_message_and_differs_from_the_one_before_in_what_is_new() {
    let rig = talked("openai").await;
    let body = json!({ "user": "anna", "text": "a marked question", "id": "m-77" });
    rig.post(&rig.path_of("messages"), &body).await;
    let by_message = rig.json(&["explain", "main", "--message", "m-77"]);
    assert_eq!(by_message["question"][0]["text"], "a marked question");
    let started = by_message["started_at"].as_str().unwrap();
    assert_eq!(rig.json(&["explain", "main", "--at", started])["turn"], by_message["turn"]);
    assert_eq!(rig.json(&["explain", "main", "--at", "2100-01-01 00:00"])["turn"], by_message["turn"]);
    rig.cairn(&["explain", "main", "--at", "2001-01-01 00:00"]).ended(4);
    rig.cairn(&["explain", "main", "t999"]).ended(4);
    rig.cairn(&["explain", "main", "--call", "9", "--prompt"]).ended(4);

    let diff = rig.json(&["explain", "main", "--diff"]);
    assert_eq!((&diff["exact"], &diff["against"][0]), (&json!(true), &by_message["before"]), "{diff}");
    let regions = diff["regions"].as_array().unwrap();
    let of = |change: &str| -> Vec<String> {
        let changed = regions.iter().filter(|region| region["change"] == change);
        changed.map(|region| region["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("added"), ["assistant", "user"], "{regions:?}");
    assert!(of("same").contains(&"system".to_owned()) && of("removed").is_empty(), "{regions:?}");
    let shown = rig.cairn(&["explain", "main", "--diff"]).ended(0).stdout;
    assert!(
        shown.contains("+ user\n") && shown.contains("a marked question") && shown.contains("unchanged)"),
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_is_named_and_no_request_without_it_passes_for_the_one_that_was_sent() {
    let (home, model) = (home(), FakeModel::start().await);
    let config = one_model(&model.base_url(), 32_000);
    let rig = Rig::start(home, model, &config).await;
    rig.cairn(&[
        "memory",
        "add",
        "The parrot of Anna is called Zorblax",
        "--kind",
        "fact",
        "--scope",
        "agent",
    ])
    .ended(0);
    rig.say("What is my parrot called?").await;
    let id = rig.json(&["memory", "list"])[0]["id"].as_str().unwrap().to_owned();
    rig.cairn(&["memory", "forget", &id]).ended(0);
    let made = prompt(&rig, "t1", 1).await;
    assert_eq!(
        (&made["exact"], &made["gaps"]),
        (&json!(false), &json!([{ "gap": "memory", "id": id }])),
        "{made}"
    );
    assert!(!made["body"].as_str().unwrap().contains("Zorblax"), "what was forgotten is not shown: {made}");
    let explained = rig.get(&rig.path_of("turns/t1/explain")).await;
    assert_eq!(explained["recalled"][0]["text"], Value::Null, "{explained}");

    let say = async |user: &str, text: &str| {
        let (status, reply) =
            rig.post(&rig.path_of("messages"), &json!({ "user": user, "text": text })).await;
        assert_eq!(status, 200, "{reply}");
    };
    say("ben", "the quillonite bowl is mine").await;
    say("anna", "and what else?").await;
    let whole = prompt(&rig, "t3", 1).await;
    assert_eq!(whole["exact"], true, "{whole}");
    rig.cairn(&["forget-user", "local/ben", "--yes"]).ended(0);
    let made = prompt(&rig, "t3", 1).await;
    assert_eq!(made["exact"], false, "{made}");
    assert_eq!(made["gaps"][0]["gap"], "erased", "{made}");
    assert!(!made.to_string().contains("quillonite"), "{made}");
    let run = rig.cairn(&["explain", "main", "t3", "--prompt"]).ended(0);
    assert!(run.stderr.contains("not the exact request") && run.stderr.contains("erased"), "{}", run.stderr);
}

/// The journal of an earlier version has no traces: what it has is told, and what is missing is said.
#[test]
fn a_turn_of_an_earlier_version_is_explained_as_far_as_its_journal_goes() {
    let home = lived_in();
    let channel = home.json(&["channels"])[0]["channel"].as_str().unwrap().to_owned();
    let turn = home.json(&["explain", &channel]);
    assert!(!turn["question"].as_array().unwrap().is_empty(), "{turn}");
    let missing = turn["missing"].to_string();
    assert!(missing.contains("no trace") || turn["calls"] == json!([]), "{turn}");
    home.cairn(&["explain", &channel]).ended(0);
}

fn lived_in() -> Home {
    let home = home();
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/fixtures/lived-in/state");
    let copied = std::process::Command::new("cp").args(["-r", from]).arg(home.state()).status().unwrap();
    assert!(copied.success());
    home
}
