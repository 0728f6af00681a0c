//! Servers of models that are silent about the size of their window, from outside.

use cairn_testkit::model::{Count, FakeModel, Kind, Ollama};
use cairn_testkit::rig::Rig;
use serde_json::Value;

use crate::home;

/// A small prompt, so that even a small window has room for a conversation.
fn config(base_url: &str, more: &str) -> String {
    format!(
        "[[models]]\nid = \"local\"\nbase_url = \"{base_url}\"\nmodel = \"fake\"\nmax_output_tokens = 512\n{more}\n\
         [[agents]]\nid = \"main\"\nmodels = [\"local\"]\n"
    )
}

async fn rig(ollama: Ollama, more: &str) -> Rig {
    let model = FakeModel::builder().ollama(ollama).start().await;
    let config = config(&model.base_url(), more);
    Rig::start(home(), model, &config).await
}

fn chatter(n: usize) -> String {
    format!(
        "note {n}: {}",
        "and more words about the orchard, its apples and the people who pick them ".repeat(18)
    )
}

/// Tokens of the requests for replies so far, as the server counts them before it cuts.
fn asked(rig: &Rig) -> Vec<u64> {
    rig.model.requests_of(Kind::Reply).iter().map(|body| Count::Estimate.request(body)).collect()
}

async fn window(rig: &Rig) -> (u64, String) {
    let context = rig.context().await;
    let source = context["window_source"].as_str().unwrap_or_default().to_owned();
    (context["window_tokens"].as_u64().unwrap_or_default(), source)
}

/// In both ways in which Ollama cuts, although it tells nobody its window.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cuts_requests_is_noticed_and_gets_no_larger_ones() {
    for ollama in [Ollama::new(4_096), Ollama::new(4_096).halving()] {
        let mut rig = rig(ollama.silent(), "").await;
        rig.say("hello").await;
        assert_eq!(window(&rig).await, (8_192, "assumed".to_owned()));
        let mut n = 0;
        while window(&rig).await.1 != "cut" {
            rig.say(&chatter(n)).await;
            n += 1;
            assert!(n < 30, "{:?}", asked(&rig));
        }
        let (tokens, _) = window(&rig).await;
        let at = asked(&rig).len();
        let log = rig.log();
        assert!(log.contains("silently cut a request") && log.contains("OLLAMA_CONTEXT_LENGTH"), "{log}");
        let says_so = |rig: &Rig| {
            let status = rig.cairn(&["status"]).ended(0).stdout;
            assert!(status.contains("silently cuts larger requests"), "{status}");
        };
        says_so(&rig);
        rig.crash().await;
        assert_eq!(window(&rig).await, (tokens, "cut".to_owned()));
        for n in n..n + 20 {
            rig.say(&chatter(n)).await;
        }
        says_so(&rig);
        let most = asked(&rig)[at..].iter().copied().max().unwrap_or_default();
        assert!(most <= 4_096, "{most} tokens were sent: {:?}", asked(&rig));
        let context = rig.context().await;
        assert!(context["correction"]["ratio"].as_f64().unwrap() > 0.95, "{context}");
        assert!(context["summaries"].as_array().is_some_and(|all| !all.is_empty()), "{context}");
        rig.model.assert_clean();
    }
}

/// Ollama tells the window of a model that it has loaded.
#[tokio::test(flavor = "multi_thread")]
async fn the_window_of_a_model_is_asked_for_again_once_it_has_answered() {
    let rig = rig(Ollama::new(16_384), "").await;
    let status = rig.status();
    assert_eq!(status["agents"][0]["chain"][0]["window_tokens"], 8_192, "{status}");
    rig.say("hello").await;
    let path = rig.path_of("context");
    let is_known = |context: &Value| context["window_source"] == "server";
    let context = rig.until(&path, is_known).await;
    assert_eq!(context["window_tokens"], 16_384, "{context}");
}

/// A server of which nothing is known, and which takes all that it gets.
#[tokio::test(flavor = "multi_thread")]
async fn an_assumed_window_grows_with_what_the_server_takes() {
    let rig = rig(Ollama::new(1_000_000).silent(), "").await;
    let mut windows = Vec::new();
    for n in 0..40 {
        rig.say(&chatter(n)).await;
        windows.push(window(&rig).await.0);
    }
    windows.dedup();
    assert_eq!(windows, [8_192, 16_384, 32_768, 65_536], "{:?}", asked(&rig));
    assert_eq!(rig.model.tally(Kind::Compaction).arrived, 0, "nothing had to leave: {:?}", asked(&rig));
}

/// What a wrong window has taught must not outlive it.
#[tokio::test(flavor = "multi_thread")]
async fn another_context_window_forgets_what_was_learnt_with_the_last_one() {
    let mut rig = rig(Ollama::new(4_096).silent().halving(), "").await;
    rig.say("hello").await;
    let mut n = 0;
    while window(&rig).await.1 != "cut" {
        rig.say(&chatter(n)).await;
        n += 1;
        assert!(n < 30, "{:?}", asked(&rig));
    }
    rig.stop().await;
    let text = config(&rig.model.base_url(), "context_window = 4096\n");
    rig.config(&text);
    rig.run().await;
    rig.say("and now?").await;
    assert_eq!(window(&rig).await, (4_096, "model".to_owned()));
    let context = rig.context().await;
    let reported = context["correction"]["reported"].as_f64().unwrap();
    let newest = *asked(&rig).last().unwrap() as f64;
    assert!((reported - newest).abs() < 1.0, "only the newest report counts: {context}");
}
