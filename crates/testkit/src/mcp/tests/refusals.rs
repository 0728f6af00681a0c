//! What a strict server refuses.

use super::*;

#[tokio::test]
async fn a_malformed_message_is_refused_and_recorded() {
    let initialize_without = |key: &str| {
        let mut message = initialize(1);
        message["params"].as_object_mut().unwrap().remove(key);
        message.to_string()
    };
    let cases = [
        ("{".to_owned(), Rule::Json),
        ("[]".to_owned(), Rule::Shape),
        (json!([initialize(1)]).to_string(), Rule::Shape),
        (json!({ "id": 1, "method": "ping" }).to_string(), Rule::Shape),
        (json!({ "jsonrpc": "1.0", "id": 1, "method": "ping" }).to_string(), Rule::Shape),
        (json!({ "jsonrpc": "2.0", "id": 1, "method": 7 }).to_string(), Rule::Shape),
        (json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": [] }).to_string(), Rule::Shape),
        (json!({ "jsonrpc": "2.0", "id": 1 }).to_string(), Rule::Shape),
        (json!({ "jsonrpc": "2.0", "method": "ping" }).to_string(), Rule::Id),
        (json!({ "jsonrpc": "2.0", "id": null, "method": "ping" }).to_string(), Rule::Id),
        (json!({ "jsonrpc": "2.0", "id": 1.5, "method": "ping" }).to_string(), Rule::Id),
        (json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string(), Rule::Id),
        (initialize_without("protocolVersion"), Rule::Params),
        (initialize_without("capabilities"), Rule::Params),
        (initialize_without("clientInfo"), Rule::Params),
        (initialized().to_string(), Rule::Stage),
        (list(1).to_string(), Rule::Stage),
        (call(1, "echo", &json!({ "text": "x" })).to_string(), Rule::Stage),
        (json!({ "jsonrpc": "2.0", "method": "notifications/nothing" }).to_string(), Rule::Method),
        (request(1, "prompts/list", &json!({})).to_string(), Rule::Method),
    ];
    for (line, rule) in cases {
        let mut client = Client::start(Script::default());
        client.send(&line).await;
        let answer = client.hear().await;
        assert!(answer["error"]["code"].is_i64(), "{line}: {answer}");
        assert_eq!(rules(&client.log), [rule], "{line}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_is_ready_may_ask_only_for_what_there_is() {
    let cases = [
        (initialize(5), Rule::Stage),
        (initialized(), Rule::Stage),
        (call(0, "echo", &json!({ "text": "x" })), Rule::Id),
        (request(5, "tools/call", &json!({})), Rule::Params),
        (request(5, "tools/call", &json!({ "name": "echo", "arguments": "x" })), Rule::Params),
        (request(5, "tools/call", &json!({ "name": "echo", "arguments": null })), Rule::Params),
        (request(5, "tools/list", &json!({ "cursor": 7 })), Rule::Params),
        (request(5, "tools/list", &json!({ "cursor": "page-7" })), Rule::Params),
        (call(5, "ghost", &json!({})), Rule::Tool),
        (call(5, "echo", &json!({})), Rule::Arguments),
        (call(5, "add", &json!({ "a": 1, "b": "2" })), Rule::Arguments),
        (json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }), Rule::Params),
    ];
    for (message, rule) in cases {
        let mut client = Client::ready(Script::default()).await;
        let answer = client.ask(&message).await;
        assert!(answer["error"]["code"].is_i64(), "{message}: {answer}");
        assert_eq!(rules(&client.log), [rule], "{message}: {answer}");
        assert_eq!(client.log.effects(), []);
    }
}

#[tokio::test]
async fn a_call_before_the_client_says_that_it_is_ready_is_refused() {
    let mut client = Client::start(Script::default());
    client.ask(&initialize(0)).await;
    let answer = client.ask(&call(1, "write", &json!({}))).await;
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    assert_eq!((rules(&client.log), client.log.effects()), (vec![Rule::Stage], vec![]));
}

#[tokio::test]
async fn what_is_in_order_is_not_refused() {
    let mut client = Client::start(Script::default());
    let old = client.ask(&request(7, "server/discover", &json!({}))).await;
    assert_eq!(old["error"]["code"], -32_601, "a client of the newest version learns that this one is older");
    assert_eq!(client.ask(&initialize(0)).await["result"]["protocolVersion"], "2025-06-18");
    client.say(&initialized()).await;
    assert_eq!(client.ask(&request(1, "ping", &json!({}))).await["result"], json!({}));
    let tools = client.ask(&list(2)).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "echo");
    let said = client.ask(&call(3, "echo", &json!({ "text": "hello" }))).await;
    assert_eq!(said["result"]["content"], json!([{ "type": "text", "text": "hello" }]));
    // Who could not read a message says so without an id.
    client.say(&json!({ "jsonrpc": "2.0", "error": { "code": -32_600, "message": "what?" } })).await;
    client.ask(&request(4, "ping", &json!({}))).await;
    client.log.assert_clean();
}

#[tokio::test]
async fn the_version_is_the_clients_unless_the_server_is_older() {
    for (speaks, asked, agreed) in [
        ("2025-11-25", "2025-11-25", "2025-11-25"),
        ("2025-11-25", "2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-11-25", "2025-06-18"),
        ("2024-11-05", "2026-07-28", "2024-11-05"),
        ("2025-11-25", "2026-07-28", "2025-11-25"),
    ] {
        let mut client = Client::start(Script::default().protocol(speaks));
        let mut message = initialize(0);
        message["params"]["protocolVersion"] = asked.into();
        let answer = client.ask(&message).await;
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{speaks} {asked}");
    }
}
