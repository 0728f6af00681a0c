//! Models of servers that rank search results, asked by the real binary.

use cairn_testkit::home::Home;
use cairn_testkit::ranking::{FakeRanking, KEY};

use crate::home;

fn config(ranking: &FakeRanking, timeout_ms: u64) -> String {
    let (url, key) = (ranking.base_url(), "api_key_file = \"ranking.key\"");
    format!(
        "[embeddings]\nmodel = \"vectors\"\nbase_url = \"{url}\"\n{key}\n\n\
         [rerank]\nmodel = \"judge\"\nbase_url = \"{url}\"\n{key}\ntimeout_ms = {timeout_ms}\n"
    )
}

fn found(home: &Home, question: &str) -> Vec<String> {
    let hits = home.json(&["search", "main", question]);
    hits.as_array().unwrap().iter().map(|hit| hit["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_makes_vectors_another_reranks_and_what_takes_too_long_is_left_out() {
    let ranking = FakeRanking::start().await;
    let home = home();
    home.secret("ranking.key", KEY);
    let daemon = home.daemon(Some(&home.config(&config(&ranking, 60_000)))).await;
    let client = daemon.client();
    // Longer than the model reads: it is refused at first.
    let long = format!("our greyhound is asleep {}", "zz ".repeat(900));
    for text in [long.as_str(), "late late late", "late, that is the answer to late"] {
        client.say("main", text).await.unwrap();
    }
    client.until("/v1/status", |status| status["store"]["embedded"]["entries"] == 3).await.unwrap();

    // A question whose vector comes too late is searched for by its words alone, which finds nothing.
    let by_meaning =
        (0..50).map(|_| found(&home, "puppy")).find(|found| !found.is_empty()).unwrap_or_default();
    assert!(by_meaning.first().unwrap().starts_with("our greyhound"), "{by_meaning:?}");
    let reranked = found(&home, "late");
    assert_eq!(reranked[0], "late, that is the answer to late");
    assert!(ranking.reranked().contains(&"late".to_owned()));
    let doctor = home.cairn(&["doctor"]).stdout;
    for words in ["vectors makes vectors of 3 numbers; 3 entries have vectors", "the server compares texts"] {
        assert!(doctor.contains(words) && !doctor.contains(KEY), "{doctor}");
    }
    daemon.stop().await.unwrap();

    let daemon = home.daemon(Some(&home.config(&config(&ranking, 50)))).await;
    let gate = ranking.hold_reranking();
    let as_found = found(&home, "late");
    drop(gate);
    assert_eq!(as_found.len(), reranked.len());
    assert_ne!(as_found[0], "late, that is the answer to late", "the order by words stands");
    assert_eq!(home.log().matches("search results are not reranked").count(), 1, "{}", home.log());
    daemon.stop().await.unwrap();
    ranking.assert_clean();
}
