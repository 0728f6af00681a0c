//! Approvals of servers, and what has changed since.

use cairn_testkit::mcp::Script;
use rstest::rstest;
use serde_json::{Value, json};

use crate::tools::rig::{Over, Plan};

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
    let rig = Plan::one(over, few()).unapproved().start().await;
    rig.say("hello").await;
    assert!(!rig.offered().iter().any(|tool| tool.starts_with("files__")));
    let result = rig.call("files__echo", json!({ "text": "x" })).await;
    assert!(result.contains("approve"), "{result}");
    assert_eq!(rig.files().requests("initialize"), [] as [Value; 0], "nothing was needed of it");
    let shown = rig.cairn(&["mcp", "show", "files"]);
    assert!(shown.stdout.contains("echo") && shown.stdout.contains("Gives back a text."), "{shown:?}");
    rig.approve("files");
    let result = rig.call("files__echo", json!({ "text": "it works" })).await;
    assert!(result.contains("it works"), "{result}");
    assert!(rig.offered().contains(&"files__echo".to_owned()));
    rig.cairn(&["mcp", "revoke", "files"]).ended(0);
    let result = rig.call("files__echo", json!({ "text": "x" })).await;
    assert!(result.contains("approve"), "{result}");
    assert_eq!(rig.files().calls("echo").len(), 1);
    rig.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_changed_blocks_its_tool_until_it_is_approved() {
    let mut rig = Plan::one(Over::Stdio, few()).start().await;
    rig.call("files__echo", json!({ "text": "x" })).await;
    rig.server("files").rewrite(another());
    rig = rig.restart().await;
    let result = rig.call("files__echo", json!({ "text": "x" })).await;
    assert!(result.contains("changed") || result.contains("approve"), "{result}");
    assert_eq!(rig.files().calls("echo").len(), 1, "it was not called again");
    let result = rig.call("files__change", json!({})).await;
    assert!(result.contains("it has changed"), "what is as it was goes on: {result}");
    let shown = rig.cairn(&["mcp", "show", "files"]);
    assert!(shown.stdout.contains("or so it says"), "{shown:?}");
    rig.approve("files");
    let result = rig.call("files__echo", json!({ "text": "again" })).await;
    assert!(result.contains("again"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_that_changes_while_the_server_runs_blocks_its_tool() {
    let rig = Plan::one(Over::Http, few()).start().await;
    rig.call("files__echo", json!({ "text": "x" })).await;
    rig.server("files").rewrite(another());
    rig.call("files__change", json!({})).await;
    rig.files().wait_until("a new look", |log| log.requests("tools/list").len() > 1).await;
    rig.drifted("files").await;
    let result = rig.call("files__echo", json!({ "text": "x" })).await;
    assert!(result.contains("changed") || result.contains("approve"), "{result}");
    assert_eq!(rig.files().calls("echo").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_of_what_was_shown() {
    let rig = Plan::one(Over::Stdio, few()).unapproved().start().await;
    let shown = rig.client().get("/v1/mcp/files").await.unwrap();
    rig.server("files").rewrite(another());
    let body = json!({ "digest": shown["digest"] });
    let (status, answer) = rig.client().ask("POST", "/v1/mcp/files/approve", &body).await.unwrap();
    let result = rig.call("files__echo", json!({ "text": "x" })).await;
    assert!(status == 409 || result.contains("approve"), "{status} {answer}: {result}");
    assert_eq!(rig.files().calls("echo"), [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_the_tools_of_its_list_and_no_others() {
    let rig = Plan::one(Over::Stdio, few()).tools(&["files/echo"]).start().await;
    rig.say("hello").await;
    let offered: Vec<String> = rig.offered().into_iter().filter(|tool| tool.starts_with("files__")).collect();
    assert_eq!(offered, ["files__echo"]);
    let result = rig.call("files__write", json!({})).await;
    assert_eq!(rig.files().effects(), [], "{result}");
    let rig = Plan::one(Over::Stdio, few()).tools(&[]).start().await;
    rig.say("hello").await;
    assert!(!rig.offered().iter().any(|tool| tool.starts_with("files__")), "none by default");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_suspicious_is_pointed_out_before_it_is_approved() {
    let script = few().fault("instructions").fault("hidden");
    let rig = Plan::one(Over::Stdio, script).unapproved().start().await;
    let shown = rig.cairn(&["mcp", "show", "files"]).stdout;
    assert!(shown.contains("lookup") && shown.contains("instruction"), "{shown}");
    assert!(shown.contains("hidden characters") && !shown.contains('\u{202e}'), "{shown}");
}
