//! Answers that the model did not end itself, over both wires: told in the reply, the history, the explanation, the figures.

use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::Rig;
use serde_json::{Value, json};

use crate::compaction::rig::configured;

/// What a provider says, and what Cairn makes of it.
struct Row {
    provider: &'static str,
    says: &'static str,
    finish: &'static str,
    in_words: &'static str,
}

const ROWS: [Row; 8] = [
    Row { provider: "openai", says: "length", finish: "length", in_words: "cut off at its length limit" },
    Row {
        provider: "openai",
        says: "content_filter",
        finish: "content_filter",
        in_words: "stopped by the content filter",
    },
    Row {
        provider: "openai",
        says: "model_context_window_exceeded",
        finish: "context_window",
        in_words: "cut off: the context window was full",
    },
    Row { provider: "openai", says: "refusal", finish: "refusal", in_words: "the model declined" },
    Row {
        provider: "anthropic",
        says: "max_tokens",
        finish: "length",
        in_words: "cut off at its length limit",
    },
    Row {
        provider: "anthropic",
        says: "model_context_window_exceeded",
        finish: "context_window",
        in_words: "cut off: the context window was full",
    },
    Row {
        provider: "anthropic",
        says: "pause_turn",
        finish: "pause",
        in_words: "cut off: the model's server paused",
    },
    Row { provider: "anthropic", says: "refusal", finish: "refusal", in_words: "the model declined" },
];

const WORDS: &str = "Oak, ash, elm and then the";

async fn rig(provider: &str) -> Rig {
    let rig = configured(provider, FakeModel::builder(), 32_000, "").await;
    // The first page of metrics has them at zero.
    rig.say("hello").await;
    rig
}

async fn said(rig: &Rig, text: &str) -> (u16, Value) {
    rig.post(&rig.path_of("messages"), &json!({ "user": "anna", "text": text, "id": text })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_cut_or_refused_is_told_everywhere() {
    for provider in ["openai", "anthropic"] {
        let rig = rig(provider).await;
        for Row { says, finish, in_words, .. } in ROWS.iter().filter(|row| row.provider == provider) {
            rig.model.push(Kind::Reply, Answer::text(WORDS).finish(*says));
            let (status, reply) = said(&rig, &format!("trees, {says}")).await;
            assert_eq!((status, &reply["finish"]), (200, &json!(finish)), "{reply}");
            let words = reply["reply"].as_str().unwrap();
            assert!(words.starts_with(&format!("{WORDS}\n\n(")), "{words}");
            assert_eq!(
                said(&rig, &format!("trees, {says}")).await,
                (200, reply.clone()),
                "the stored answer"
            );

            let history = rig.get(&rig.path_of("history?tail=1")).await;
            assert_eq!(
                (&history[0]["finish"], &history[0]["parts"][0]["text"]),
                (&json!(finish), &json!(WORDS))
            );
            let shown = rig.cairn(&["history", "main", "--tail", "1"]).ended(0).stdout;
            assert!(shown.contains(&format!("({in_words})")), "{shown}");

            let turn = rig.get(&rig.path_of("turns/last/explain")).await;
            assert_eq!(
                (&turn["answer"]["finish"], &turn["calls"][0]["finish"]),
                (&json!(finish), &json!(finish))
            );
            let shown = rig.cairn(&["explain", "main"]).ended(0).stdout;
            assert!(shown.contains(in_words) && !shown.contains("answered;"), "{shown}");

            let next = rig.say("go on").await;
            assert_eq!(next["finish"], Value::Null, "{next}");
            let request = rig.model.requests_of(Kind::Reply).pop().unwrap().to_string();
            assert!(
                request.contains(&words.replace('\n', "\\n")),
                "the model sees what people saw: {request}"
            );
        }
        let (_, body) = rig.client().raw("GET", "/metrics", "text/plain", Vec::new()).await.unwrap();
        let metrics = String::from_utf8(body.to_vec()).unwrap();
        for Row { finish, .. } in ROWS.iter().filter(|row| row.provider == provider) {
            let line = format!("cairn_answers_cut_total{{model=\"main\",reason=\"{finish}\"}} 1");
            assert!(metrics.contains(&line), "{line} in {metrics}");
        }
        let log = rig.log();
        assert!(log.contains("reason=\"refusal\"") && !log.contains("Oak"), "{log}");
        rig.model.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_a_word_is_told_as_that() {
    for (provider, says, code) in [
        ("openai", "content_filter", "content_filter"),
        ("openai", "refusal", "refusal"),
        ("anthropic", "refusal", "refusal"),
    ] {
        let rig = rig(provider).await;
        // As it is, without what was said before, and by itself.
        (0..3).for_each(|_| rig.model.push(Kind::Reply, Answer::text("").finish(says)));
        let (status, failed) = said(&rig, "hm").await;
        assert_eq!((status, &failed["error"]["code"]), (502, &json!(code)), "{failed}");
        assert!(failed["error"]["hint"].as_str().unwrap().contains("another way"), "{failed}");
        let (status, reply) = said(&rig, "and now?").await;
        assert_eq!((status, &reply["reply"]), (200, &json!("echo: and now?")), "{reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_cut_is_not_made_and_goes_on_when_asked_to() {
    for provider in ["openai", "anthropic"] {
        let rig = rig(provider).await;
        let memory =
            json!({ "kind": "preference", "text": "Anna prefers gooseberries to plums", "importance": 0.5 });
        rig.model.push(Kind::Reply, Answer::call("memory_save", memory.clone()).cut_in_call());
        let (status, reply) = said(&rig, "note what I like").await;
        assert_eq!((status, &reply["finish"]), (200, &json!("length")), "{reply}");
        assert!(reply["reply"].as_str().unwrap().contains("in the middle of a tool call"), "{reply}");
        assert_eq!(rig.get("/v1/memories").await, json!([]), "{provider}");
        rig.model.push(Kind::Reply, Answer::call("memory_save", memory));
        rig.say("go on").await;
        let memories = rig.get("/v1/memories").await;
        assert_eq!(memories[0]["text"], "Anna prefers gooseberries to plums", "{memories}");
        rig.model.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_pipes_messages_reads_why_an_answer_ended() {
    let rig = rig("openai").await;
    rig.model.push(Kind::Reply, Answer::text("```sh\ncargo bu").finish("length"));
    let run = rig.cairn(&["chat", "how do I build it?"]).ended(0);
    assert!(run.stdout.contains("cargo bu\n```\n\n(Cut off here: "), "{run:?}");
}
