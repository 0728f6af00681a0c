//! Large results of tools from outside: the real daemon with the testkit's tools, and a fake model server that refuses
//! what does not fit.

use std::path::Path;

use cairn_testkit::model::{Answer, FakeModel, Kind, lasting_text_of};
use cairn_testkit::rig::{Rig, one_model};
use cairn_testkit::tools::numbered_lines;
use serde_json::json;

use crate::home_with_tools;

const TEN_MB: usize = 10_000_000;
const NOTE: &str = "[truncated: output exceeded context limit]";

/// A daemon with tools, whose model has that window; `more` are keys of the agent.
async fn rig(window: u64, more: &str) -> Rig {
    let model = FakeModel::builder().window(window).start().await;
    let config = one_model(&model.base_url(), window) + more;
    Rig::start(home_with_tools(), model, &config).await
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata().unwrap() {
            there if there.is_dir() => bytes_in(&entry.path()),
            there => there.len(),
        })
        .sum()
}

/// The line that a note says to read on from.
fn named_line(told: &str) -> u64 {
    told.split("from = ").nth(1).unwrap().split(['.', ']', ',']).next().unwrap().parse().unwrap()
}

/// The numbered line of that number.
fn line(whole: &str, n: u64) -> &str {
    whole.lines().nth(n as usize - 1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_are_seen_at_both_ends_and_read_on_from_the_named_line() {
    let mut rig = rig(60_000, "").await;
    let whole = numbered_lines(TEN_MB);
    let told = rig.call("flood", json!({ "bytes": TEN_MB })).await;
    let (head, rest) = told.split_once(NOTE).unwrap();
    let (note, tail) = rest.split_once(".\n").unwrap();
    assert!(whole.starts_with(head) && whole.ends_with(tail), "{note}");
    assert!(
        told.len() <= 50_000 && head.len() > 20_000 && head.len().abs_diff(tail.len()) < 120,
        "{}",
        told.len()
    );
    assert!(note.contains("10000000 bytes") && note.contains("artifact a1"), "{note}");
    let next = named_line(&told);
    assert_eq!(head.lines().count() as u64, next - 1);

    let history = rig.get(&rig.path_of("history")).await;
    let result = history.as_array().unwrap().iter().find(|entry| entry["role"] == "tool").unwrap();
    assert_eq!((&result["artifact"], &result["parts"][0]["text"]), (&json!("a1"), &json!(told)));
    let context = rig.context().await;
    assert_eq!(context["artifacts"], json!({ "count": 1, "bytes": TEN_MB }));
    assert!(context["regions"]["live"]["tokens"].as_u64().unwrap() < 25_000, "{context}");
    assert!(bytes_in(&rig.state().join("journal")) < 1_000_000);
    assert!(bytes_in(&rig.state().join("artifacts")) == TEN_MB as u64);

    rig.crash().await;
    let page = rig.call("artifact_read", json!({ "id": "a1", "from": next, "count": 2 })).await;
    let expected = format!("]\n{}\n{}\n[", line(&whole, next), line(&whole, next + 1));
    assert!(page.contains(&expected), "{page}");
    assert_eq!(named_line(page.split('[').next_back().unwrap()), next + 2);
    rig.channel = "other".to_owned();
    let elsewhere = rig.call("artifact_read", json!({ "id": "a1", "from": next })).await;
    assert!(elsewhere.starts_with("error: there is no artifact `a1` in this channel"), "{elsewhere}");
    rig.channel = "main".to_owned();
    assert_eq!(
        rig.get(&rig.path_of("artifacts")).await.as_array().unwrap().len(),
        1,
        "a page is not stored again"
    );
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_of_ten_megabytes_is_read_in_pieces() {
    let rig = rig(60_000, "").await;
    let whole = numbered_lines(TEN_MB).replace('\n', " ");
    let told = rig.call("flood", json!({ "bytes": TEN_MB, "lines": false })).await;
    let offset: usize = told.split("offset = ").nth(1).unwrap().split('.').next().unwrap().parse().unwrap();
    assert!(told.starts_with(&whole[..offset]) && told.contains("from = 1 and offset"), "{offset}");
    let arguments = json!({ "id": "a1", "from": 1, "offset": offset });
    let page = rig.call("artifact_read", arguments).await;
    assert!(page.contains(&whole[offset..offset + 5_000]), "{}", &page[..200]);
    let next: usize = page.rsplit("offset = ").next().unwrap().trim_end_matches(']').parse().unwrap();
    assert!(page.contains(&whole[next - 1_000..next]) && next > offset + 5_000, "{next}");
    rig.model.assert_clean();
}

/// Head, note and tail of what the model was told.
fn in_three(told: &str) -> (&str, &str, &str) {
    let (head, rest) = told.split_once(NOTE).unwrap();
    let (note, tail) = rest.split_once(".\n").unwrap();
    (head, note, tail)
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_small_window_head_and_tail_are_shorter() {
    let rig = rig(8_000, "").await;
    let told = rig.call("flood", json!({ "bytes": TEN_MB })).await;
    let (head, note, tail) = in_three(&told);
    assert!(head.len() > 400 && tail.len() > 400 && told.len() < 15_000, "{told}");
    assert!(note.contains("artifact a1") && numbered_lines(TEN_MB).starts_with(head), "{note}");
    assert_eq!(named_line(note), head.lines().count() as u64 + 1);
    let page = rig.call("artifact_read", json!({ "id": "a1" })).await;
    assert!(page.contains("]\nline 1: ") && page.contains("goes on"), "{page}");
    let error = rig.call("fail", json!({ "bytes": 60_000 })).await;
    assert!(error.contains(NOTE) && error.contains("artifact a2"), "{error}");
    let broken = rig.call("fail", json!({ "panic": true })).await;
    assert_eq!(broken, "error: `fail` broke down; do without it");
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_room_only_the_note_is_left() {
    let rig = rig(8_000, "[agents.result_guard]\nfree_share = 0.02\n").await;
    for bytes in [30_000, TEN_MB] {
        let told = rig.call("flood", json!({ "bytes": bytes })).await;
        assert!(told.starts_with(NOTE) && told.len() < 400, "{told}");
        assert_eq!(named_line(&told), 1);
    }
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_large_results_of_one_round_all_show_their_ends() {
    let rig = rig(31_000, "").await;
    let one = || json!({ "bytes": 49_000 });
    let calls = (1..10).fold(Answer::call("flood", one()), |calls, _| calls.and_call("flood", one()));
    rig.model.push(Kind::Reply, calls);
    rig.model.push(Kind::Reply, Answer::text("I see."));
    rig.say("please look").await;
    let request = rig.model.requests_of(Kind::Reply).pop().unwrap();
    let results = request["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    let told: Vec<String> = results.map(lasting_text_of).collect();
    assert_eq!(told.len(), 10);
    let whole = numbered_lines(49_000);
    for one in told {
        let (head, note, tail) = in_three(&one);
        assert!(head.len() > 400 && whole.starts_with(head) && whole.ends_with(tail), "{one}");
        assert!(tail.len() > 400 && note.contains("artifact_read"), "{one}");
    }
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_and_limits_are_configured_for_an_agent() {
    let more = "[agents.result_guard]\nmax_bytes = 20000\nclasses = { flood = \"keep_recent\" }\n";
    let rig = rig(60_000, more).await;
    let told = rig.call("flood", json!({ "bytes": 40_000 })).await;
    assert_eq!(told, numbered_lines(40_000), "kept and shown whole");
    let told = rig.call("binary", json!({ "bytes": 9_000 })).await;
    assert!(told.contains(NOTE) && told.len() <= 2_000, "{}", told.len());
    let told = rig.call("fail", json!({ "bytes": 21_000 })).await;
    assert!(told.contains(NOTE) && told.len() <= 20_000, "{}", told.len());
    let sizes: Vec<_> = rig
        .get(&rig.path_of("artifacts"))
        .await
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["bytes"].clone())
        .collect();
    assert_eq!(sizes[0], 40_000);
    assert_eq!(sizes.len(), 3);
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_look_at_artifacts_with_and_without_a_daemon() {
    let mut rig = rig(60_000, "").await;
    let whole = numbered_lines(200_000);
    rig.call("flood", json!({ "bytes": 200_000 })).await;
    let show = ["artifact", "show", "main", "a1", "--from", "501", "--count", "2"];
    let expected = format!("{}\n{}\n2 of ", line(&whole, 501), line(&whole, 502));
    let said = |rig: &Rig| {
        let run = rig.cairn(&show).ended(0);
        run.stdout + &run.stderr
    };
    assert!(said(&rig).starts_with(&expected) && said(&rig).contains("--from 503"), "{}", said(&rig));
    assert!(rig.cairn(&["history", "main"]).ended(0).stdout.contains("artifact a1"));
    rig.stop().await;
    assert!(said(&rig).starts_with(&expected), "{}", said(&rig));
    let listed = rig.json(&["artifact", "list", "main"]);
    assert_eq!((&listed[0]["id"], &listed[0]["bytes"]), (&json!("a1"), &json!(200_000)));
    for (args, why) in [
        (["show", "main", "a2"].as_slice(), "no artifact `a2`"),
        (&["show", "nowhere", "a1"], "no channel"),
        (&["show", "main", "a1", "--from", "99999"], "there is no line 99999"),
        (&["list", "nowhere"], "no channel"),
    ] {
        let run = rig.cairn(&[&["artifact"], args].concat()).ended(4);
        assert!(run.stderr.contains(why), "{args:?}: {run:?}");
    }
    rig.cairn(&["store", "verify"]).ended(0);
    std::fs::remove_dir_all(rig.state().join("artifacts")).unwrap();
    let said = format!("{:?}", rig.cairn(&["store", "verify"]).ended(5));
    assert!(said.contains("artifact a1") && said.contains("is missing"), "{said}");
}

const LONG_MESSAGE: &str = "[truncated: message exceeded context limit]";

#[tokio::test(flavor = "multi_thread")]
async fn a_message_larger_than_the_window_is_kept_whole_shown_at_both_ends_and_told() {
    let mut rig = rig(8_000, "").await;
    let text = numbered_lines(120_000);
    rig.model.push(Kind::Reply, Answer::text("I see."));
    let reply = rig.say(&text).await;
    assert_eq!(reply["reply"], "I see.");
    let notice = reply["notice"].as_str().unwrap();
    assert!(notice.contains("more than I can take in at once") && !notice.contains('\n'), "{notice}");
    let request = rig.model.requests_of(Kind::Reply).pop().unwrap();
    let sent = request["messages"].to_string();
    assert!(sent.contains(LONG_MESSAGE) && sent.contains("artifact a1"), "{sent}");
    assert!(sent.contains("line 1: ") && sent.len() < 40_000, "{}", sent.len());

    let history = rig.get(&rig.path_of("history")).await;
    let message = &history[0];
    assert_eq!(message["parts"][0]["text"], text.as_str(), "what is kept is whole");
    assert_eq!((&message["shortened"], &message["artifact"]), (&json!(true), &json!("a1")));
    assert_eq!(rig.context().await["pruned"]["messages"], 1);
    for (args, words) in [
        (["history", "main"].as_slice(), "artifact a1  (the model sees head and tail)"),
        (&["context", "main"], "sent shorter     1 message, "),
        (&["artifact", "list", "main"], "message 1"),
    ] {
        assert!(rig.cairn(args).ended(0).stdout.contains(words), "{args:?}");
    }

    rig.crash().await;
    let next = named_line(sent.split(LONG_MESSAGE).nth(1).unwrap());
    let page = rig.call("artifact_read", json!({ "id": "a1", "from": next, "count": 2 })).await;
    assert!(page.contains(line(&text, next)) && page.contains(line(&text, next + 1)), "{page}");
    rig.model.assert_clean();
}
