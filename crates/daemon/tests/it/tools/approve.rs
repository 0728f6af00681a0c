//! Approvals of servers, and what has changed since.

use cairn_testkit::mcp::Script;
use rstest::rstest;
use serde_json::{Value, json};

use crate::tools::house::{Over, Plan};

fn few() -> Script {
    Script::default().only(&["echo", "write", "change"])
}

fn another() -> Script {
    few().tool(json!({ "name": "echo", "description": "Gives back a text, or so it says." }))
}

#[rstest]
#[case(Over::Stdio)]
#[case(Over::Http)]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_used_once_it_is_approved_and_until_that_is_revoked(#[case] over: Over) {
    let house = Plan::one(over, few()).unapproved().start().await;
    house.say("hello").await;
    assert!(!house.offered().iter().any(|tool| tool.starts_with("files__")));
    let told = house.call("files__echo", json!({ "text": "x" })).await;
    assert!(told.contains("approve"), "{told}");
    assert_eq!(house.files().requests("initialize"), [] as [Value; 0], "nothing was needed of it");
    let shown = house.cairn(&["mcp", "show", "files"]);
    assert!(shown.stdout.contains("echo") && shown.stdout.contains("Gives back a text."), "{shown:?}");
    house.approve("files");
    let told = house.call("files__echo", json!({ "text": "it works" })).await;
    assert!(told.contains("it works"), "{told}");
    assert!(house.offered().contains(&"files__echo".to_owned()));
    let run = house.cairn(&["mcp", "revoke", "files"]);
    assert_eq!(run.code, 0, "{run:?}");
    let told = house.call("files__echo", json!({ "text": "x" })).await;
    assert!(told.contains("approve"), "{told}");
    assert_eq!(house.files().calls("echo").len(), 1);
    house.assert_clean();
}

#[rstest]
#[case(Over::Stdio)]
#[case(Over::Http)]
#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_changed_blocks_its_tool_until_it_is_approved(#[case] over: Over) {
    let mut house = Plan::one(over, few()).start().await;
    house.call("files__echo", json!({ "text": "x" })).await;
    house.server("files").rewrite(another());
    house = house.restart().await;
    let told = house.call("files__echo", json!({ "text": "x" })).await;
    assert!(told.contains("changed") || told.contains("approve"), "{told}");
    assert_eq!(house.files().calls("echo").len(), 1, "it was not called again");
    let told = house.call("files__change", json!({})).await;
    assert!(told.contains("it has changed"), "what is as it was goes on: {told}");
    let shown = house.cairn(&["mcp", "show", "files"]);
    assert!(shown.stdout.contains("or so it says"), "{shown:?}");
    house.approve("files");
    let told = house.call("files__echo", json!({ "text": "again" })).await;
    assert!(told.contains("again"), "{told}");
}

#[rstest]
#[case(Over::Stdio)]
#[case(Over::Http)]
#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_changes_while_the_server_runs_blocks_its_tool(#[case] over: Over) {
    let house = Plan::one(over, few()).start().await;
    house.call("files__echo", json!({ "text": "x" })).await;
    house.server("files").rewrite(another());
    house.call("files__change", json!({})).await;
    house.files().wait_until("a new look", |log| log.requests("tools/list").len() > 1).await;
    house.drifted("files").await;
    let told = house.call("files__echo", json!({ "text": "x" })).await;
    assert!(told.contains("changed") || told.contains("approve"), "{told}");
    assert_eq!(house.files().calls("echo").len(), 1);
}

#[rstest]
#[case(Over::Stdio)]
#[case(Over::Http)]
#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_changed_is_shown_and_blocks(#[case] over: Over) {
    let mut house = Plan::one(over, few()).start().await;
    house.server("files").rewrite(few().version("6.6.6"));
    house = house.restart().await;
    let told = house.call("files__echo", json!({ "text": "x" })).await;
    assert!(told.contains("approve"), "{told}");
    assert!(house.cairn(&["mcp", "show", "files"]).stdout.contains("6.6.6"));
    house.approve("files");
    assert!(house.call("files__echo", json!({ "text": "y" })).await.contains('y'));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_of_what_was_shown() {
    let house = Plan::one(Over::Stdio, few()).unapproved().start().await;
    let shown = house.client().get("/v1/mcp/files").await.unwrap();
    house.server("files").rewrite(another());
    let body = json!({ "digest": shown["digest"] });
    let (status, answer) = house.client().ask("POST", "/v1/mcp/files/approve", &body).await.unwrap();
    let told = house.call("files__echo", json!({ "text": "x" })).await;
    assert!(status == 409 || told.contains("approve"), "{status} {answer}: {told}");
    assert_eq!(house.files().calls("echo"), [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_the_tools_of_its_list_and_no_others() {
    let house = Plan::one(Over::Stdio, few()).tools(&["files/echo"]).start().await;
    house.say("hello").await;
    let offered: Vec<String> =
        house.offered().into_iter().filter(|tool| tool.starts_with("files__")).collect();
    assert_eq!(offered, ["files__echo"]);
    let told = house.call("files__write", json!({})).await;
    assert_eq!(house.files().effects(), [], "{told}");
    let house = Plan::one(Over::Stdio, few()).tools(&[]).start().await;
    house.say("hello").await;
    assert!(!house.offered().iter().any(|tool| tool.starts_with("files__")), "none by default");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_suspicious_is_pointed_out_before_it_is_approved() {
    let script = few().fault("instructions").fault("hidden");
    let house = Plan::one(Over::Stdio, script).unapproved().start().await;
    let shown = house.cairn(&["mcp", "show", "files"]).stdout;
    assert!(shown.contains("lookup") && shown.contains("instruction"), "{shown}");
    assert!(shown.contains("hidden characters") && !shown.contains('\u{202e}'), "{shown}");
}
