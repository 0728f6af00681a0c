//! What results become: pictures reach the model, links stay links, what is large stays out of the window.

use cairn_testkit::home::write_secret;
use cairn_testkit::mcp::{PNG, Script};
use cairn_testkit::model::Kind;
use cairn_testkit::search::{FakeSearch, KEY};
use serde_json::json;

use crate::tools::rig::{ANNA, Over, Plan};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_content_reaches_the_model_as_what_it_is() {
    for over in Over::BOTH {
        let rig = Plan::one(over, Script::default()).start().await;
        for (tool, words) in [
            ("link", "https://example.org/report.pdf"),
            ("resource", "the text of a resource"),
            ("structured", "21.5"),
            ("fail", "it went wrong"),
            ("audio", "audio"),
            ("mixed", "last"),
        ] {
            let result = rig.call(&format!("files__{tool}"), json!({})).await;
            assert!(result.contains(words), "{over:?} {tool}: {result}");
        }
        assert!(!rig.call("files__nothing", json!({})).await.is_empty());
        rig.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_reaches_a_model_that_takes_pictures() {
    let rig = Plan::one(Over::Stdio, Script::default()).start().await;
    rig.call("files__image", json!({})).await;
    let request = rig.model.requests_of(Kind::Reply).pop().unwrap().to_string();
    assert!(request.contains(PNG) || request.contains("image/png"), "{request}");
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_stays_out_of_the_window() {
    let rig = Plan::one(Over::Stdio, Script::default()).start().await;
    let result = rig.call("files__big", json!({ "bytes": 3_000_000 })).await;
    assert!(result.len() < 1_000_000 && result.contains("truncated"), "{} bytes", result.len());
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_counts_for_a_tool_by_the_name_that_people_see() {
    for entry in ["files/big", "files/*", "big"] {
        let more = format!("{ANNA}\n\n[agents.result_guard]\nclasses = {{ {entry:?} = \"always_offload\" }}");
        let rig = Plan::one(Over::Stdio, Script::default()).trust(&more).start().await;
        let result = rig.call("files__big", json!({ "bytes": 9_000 })).await;
        assert!(result.contains("artifact a1") && result.len() <= 2_000, "{entry}: {} bytes", result.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_search_service_is_asked_by_the_model_and_tried_by_doctor() {
    let (fake, keys) = (FakeSearch::start().await, tempfile::tempdir().unwrap());
    let key = keys.path().join("search.key");
    write_secret(&key, KEY).unwrap();
    for provider in ["searxng", "brave", "tavily"] {
        let table = format!(
            "{ANNA}\n\n[search]\nprovider = {provider:?}\nbase_url = {:?}\napi_key_file = {:?}",
            fake.url(),
            key.display().to_string()
        );
        let rig = Plan::none().tools(&["web_search"]).trust(&table).start().await;
        let result = rig.call("web_search", json!({ "query": "otters" })).await;
        assert!(
            result.contains("1. About otters\nhttps://one.example/tall%20otters"),
            "{provider}: {result}"
        );
        let failed = rig.call("web_search", json!({ "query": "status 429" })).await;
        assert!(failed.contains("takes no more searches now"), "{provider}: {failed}");
        let doctor = rig.cairn(&["doctor"]).stdout;
        assert!(doctor.contains("the search service answers, with 3 results"), "{provider}: {doctor}");
        assert!(!doctor.contains(KEY));
        rig.assert_clean();
    }
    assert_eq!(fake.queries().len(), 9);
    fake.assert_clean();
}
