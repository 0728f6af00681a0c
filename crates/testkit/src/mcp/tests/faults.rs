//! What the server does wrong when it is told to.

use super::*;

/// What a client that is ready hears after one call of `echo`.
async fn after_call(fault: &str) -> (Client, String) {
    let mut client = Client::ready(Script::default().fault(fault)).await;
    client.say(&call(1, "echo", &json!({ "text": "x" }))).await;
    let line = client.line().await;
    (client, line)
}

#[tokio::test]
async fn an_answer_is_wrong_as_the_script_says() {
    let value = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let (_, line) = after_call("garbage").await;
    assert!(serde_json::from_str::<Value>(&line).is_err());
    let (mut client, line) = after_call("noise").await;
    assert!(line.contains("INFO") && client.hear().await["id"] == 1);
    let (_, line) = after_call("wrong-id").await;
    assert!(value(&line)["id"] != 1 && value(&line)["result"].is_object(), "{line}");
    let (_, line) = after_call("no-id").await;
    assert!(value(&line).get("id").is_none(), "{line}");
    let (_, line) = after_call("wrong-version").await;
    assert_eq!(value(&line)["jsonrpc"], "1.0");
    let (_, line) = after_call("error").await;
    assert!(value(&line)["error"]["message"].is_string(), "{line}");
    let (_, line) = after_call("misshapen").await;
    assert!(value(&line)["result"]["content"].is_object(), "{line}");
    let (mut client, line) = after_call("twice").await;
    assert_eq!(value(&line), client.hear().await);
    let (client, line) = after_call("exit").await;
    assert_eq!((line.as_str(), client.served.await.unwrap()), ("", Ended::AsTold));
    let (client, line) = after_call("cut").await;
    assert!(line.starts_with("{\"id\":1") && serde_json::from_str::<Value>(&line).is_err(), "{line}");
    assert_eq!(client.served.await.unwrap(), Ended::AsTold);
}

#[tokio::test]
async fn a_fault_strikes_in_its_place_alone() {
    let mut client = Client::start(Script::default().fault("error@initialize"));
    assert!(client.ask(&initialize(0)).await["error"].is_object());
    let mut client = Client::ready(Script::default().fault("error@list")).await;
    assert!(client.ask(&call(1, "echo", &json!({ "text": "x" }))).await["result"].is_object());
    assert!(client.ask(&list(2)).await["error"].is_object());
    let mut client = Client::ready(Script::default().fault("hang@list")).await;
    client.say(&list(1)).await;
    assert_eq!(client.ask(&request(2, "ping", &json!({}))).await["id"], 2, "the rest goes on");
}

#[tokio::test]
async fn the_client_is_asked_and_its_answer_is_recorded() {
    for (fault, method) in [
        ("ask-sampling", "sampling/createMessage"),
        ("ask-elicitation", "elicitation/create"),
        ("ask-roots", "roots/list"),
        ("ask-ping", "ping"),
    ] {
        let (mut client, line) = after_call(fault).await;
        let asked: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(asked["method"], method);
        let no =
            json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -32_601, "message": "no" } });
        assert_eq!(client.ask(&no).await["id"], 1, "then it answers");
        assert_eq!(client.log.replies(), [no]);
        client.log.assert_clean();
    }
}

#[tokio::test]
async fn a_list_is_wrong_as_the_script_says() {
    for (fault, name) in [
        ("schema-number", "schema_number"),
        ("schema-text", "schema_text"),
        ("schema-array", "schema_array"),
        ("schema-missing", "schema_missing"),
        ("schema-of-text", "schema_of_text"),
        ("schema-remote", "schema_remote"),
        ("schema-loop", "schema_loop"),
        ("doubled", "doubled"),
        ("built-in", "memory_save"),
        ("empty-name", ""),
        ("odd-name", "läs"),
        ("instructions", "lookup"),
        ("hidden", "hidden"),
        ("long-description", "long_description"),
    ] {
        let mut client = Client::ready(Script::default().only(&["echo"]).fault(fault)).await;
        let answer = client.ask(&list(1)).await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        assert!(tools.len() > 1 && tools.iter().any(|tool| tool["name"] == name), "{fault}: {answer}");
    }
    let mut client = Client::ready(Script::default().only(&[]).fault("long-name")).await;
    let answer = client.ask(&list(1)).await;
    assert_eq!(answer["result"]["tools"][0]["name"].as_str().map(str::len), Some(200));
}
