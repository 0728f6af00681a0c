//! What the tools of the runtime do.

use super::*;

#[tokio::test]
async fn a_tool_that_is_not_marked_as_reading_leaves_an_effect() {
    let script = Script::default().tool(json!({ "name": "echo", "annotations": null }));
    let mut client = Client::ready(script).await;
    client.ask(&call(1, "add", &json!({ "a": 1, "b": 2 }))).await;
    for (id, tool) in [(2, "write"), (3, "unmarked"), (4, "echo")] {
        client.ask(&call(id, tool, &json!({ "text": "x" }))).await;
    }
    let effects: Vec<String> = client.log.effects().into_iter().map(|(tool, _)| tool).collect();
    assert_eq!(effects, ["write", "unmarked", "echo"]);
    assert_eq!(client.log.calls("write"), [json!({ "text": "x" })]);
    client.log.assert_clean();
}

#[tokio::test]
async fn every_kind_of_content_is_there() {
    let mut client = Client::ready(Script::default()).await;
    let mixed = client.ask(&call(1, "mixed", &json!({}))).await;
    let content = mixed["result"]["content"].as_array().unwrap().clone();
    let kinds: Vec<&str> = content.iter().filter_map(|part| part["type"].as_str()).collect();
    assert_eq!(kinds, ["text", "image", "resource_link", "resource", "resource", "audio", "text"]);
    let structured = client.ask(&call(2, "structured", &json!({}))).await;
    assert_eq!(structured["result"]["structuredContent"]["unit"], "C");
    let failed = client.ask(&call(3, "fail", &json!({}))).await;
    assert_eq!(failed["result"]["isError"], true);
    let big = client.ask(&call(4, "big", &json!({ "bytes": 300_000 }))).await;
    assert_eq!(big["result"]["content"][0]["text"].as_str().map(str::len), Some(300_000));
    assert_eq!(client.ask(&call(5, "nothing", &json!({}))).await["result"]["content"], json!([]));
    client.log.assert_clean();
}

#[tokio::test]
async fn a_change_is_told_before_the_answer() {
    let mut client = Client::ready(Script::default()).await;
    let first = client.ask(&call(1, "change", &json!({}))).await;
    assert_eq!(first["method"], "notifications/tools/list_changed");
    assert_eq!(client.hear().await["id"], 1);
}
