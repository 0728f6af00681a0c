//! The OpenAI-compatible endpoint over plain HTTP, in the shapes that OpenAI's reference of chat completions gives
//! (https://platform.openai.com/docs/api-reference/chat).

use std::net::SocketAddr;

use cairn_testkit::free_address;
use cairn_testkit::model::{Answer, FakeModel, Kind};
use cairn_testkit::rig::{Rig, one_model};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::home;

const KEY: &str = "sk-cairn-0123456789abcdef";

struct Site {
    rig: Rig,
    address: SocketAddr,
}

/// An answer to a client.
#[derive(Debug)]
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The text of a whole answer.
    #[track_caller]
    fn text(&self) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }

    /// The data of a stream's events.
    #[track_caller]
    fn events(&self) -> Vec<String> {
        assert!(self.head.to_lowercase().contains("content-type: text/event-stream"), "{self:?}");
        let blocks = self.body.split("\n\n").filter(|block| !block.trim().is_empty());
        let data = blocks.filter(|block| !block.starts_with(':')).map(|block| {
            let data = block.trim().strip_prefix("data: ").unwrap_or_else(|| panic!("{block}"));
            assert!(!data.contains('\n'), "{block}");
            data.to_owned()
        });
        data.collect()
    }

    /// An error in OpenAI's shape: its code and the field that it names.
    #[track_caller]
    fn error(&self, status: u16) -> (String, Value) {
        assert_eq!(self.status, status, "{self:?}");
        let error = &self.json()["error"];
        let mut keys: Vec<_> = error.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, ["code", "message", "param", "type"]);
        assert!(!error["message"].as_str().unwrap().is_empty() && error["type"].is_string());
        (error["code"].as_str().unwrap().to_owned(), error["param"].clone())
    }
}

/// The body of an HTTP answer, which may come in chunks.
fn unchunked(head: &str, body: &str) -> String {
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut out) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let n = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&after[..n]);
        rest = after[n..].trim_start_matches("\r\n");
    }
    out
}

impl Site {
    async fn start(model: FakeModel, more: &str) -> Self {
        let (home, address) = (home(), free_address());
        home.secret("desk.key", KEY);
        let config = format!(
            "{}prompt_text = \"You are Cairn.\"\n{more}\n[openai_api]\nlisten = \"{address}\"\n[[openai_api.keys]]\nname = \
             \"desk\"\nkey_file = \"desk.key\"\nagents = [\"main\"]\n",
            one_model(&model.base_url(), 32_000)
        );
        Self { rig: Rig::start(home, model, &config).await, address }
    }

    async fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut request = format!("{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        request
            .push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len()));
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{request}{body}").as_bytes()).await.unwrap();
        stream
    }

    async fn ask_with(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Got {
        let mut answer = Vec::new();
        self.send(line, headers, body).await.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Got { status, body: unchunked(head, body), head: head.to_owned() }
    }

    async fn ask(&self, line: &str, body: &str) -> Got {
        self.ask_with(line, &[("authorization", &format!("Bearer {KEY}"))], body).await
    }

    async fn complete(&self, body: &Value) -> Got {
        self.ask("POST /v1/chat/completions", &body.to_string()).await
    }

    /// Asks with a list, `> ` before the answers, in a conversation of that name, where the model answers so.
    async fn list(&self, name: Option<&str>, lines: &[&str], answer: &str) -> Got {
        self.rig.model.push(Kind::Reply, Answer::text(answer));
        let got = self.complete(&json!({ "model": "main", "user": name, "messages": messages(lines) })).await;
        assert_eq!(got.text(), answer);
        got
    }

    /// What stands in the window of a conversation, without the headers of messages: the last request to the model.
    fn window(&self) -> Vec<String> {
        let request = self.rig.model.requests_of(Kind::Reply).pop().unwrap();
        let messages = request["messages"].as_array().unwrap();
        let spoken = messages.iter().filter(|message| message["role"] != "system");
        let texts = spoken.map(|message| {
            let text = cairn_testkit::model::lasting_text_of(message);
            match text.strip_prefix('[').and_then(|text| text.split_once("] ")) {
                Some((_, text)) => text.trim().to_owned(),
                None => format!("> {}", text.trim()),
            }
        });
        texts.collect()
    }
}

/// A model whose requests need not go on from an earlier one: clients take back what was said.
async fn branching() -> FakeModel {
    FakeModel::builder().expect_stable_prefix(false).start().await
}

fn messages(lines: &[&str]) -> Value {
    let message = |line: &&str| match (line.strip_prefix("> "), line.strip_prefix("! ")) {
        (Some(text), _) => json!({ "role": "assistant", "content": text }),
        (_, Some(text)) => json!({ "role": "system", "content": text }),
        _ => json!({ "role": "user", "content": line }),
    };
    lines.iter().map(message).collect()
}

#[track_caller]
fn check_usage(usage: &Value) {
    let tokens = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{name}: {usage}"));
    assert!(tokens("prompt_tokens") > 0 && tokens("completion_tokens") > 0);
    assert_eq!(tokens("total_tokens"), tokens("prompt_tokens") + tokens("completion_tokens"));
    assert!(usage["prompt_tokens_details"]["cached_tokens"].is_u64(), "{usage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_the_shapes_of_the_reference() {
    let site = Site::start(FakeModel::start().await, "").await;
    let models = site.ask("GET /v1/models", "").await.json();
    assert_eq!(models["object"], "list");
    let model = &models["data"][0];
    assert_eq!((&model["id"], &model["object"]), (&json!("main"), &json!("model")));
    assert!(model["created"].is_u64() && model["owned_by"].is_string(), "{model}");
    assert_eq!(site.ask("GET /v1/models/main", "").await.json(), *model);

    let whole = site.list(None, &["hello"], "Good day.").await.json();
    assert_eq!((&whole["object"], &whole["model"]), (&json!("chat.completion"), &json!("main")));
    assert!(whole["id"].as_str().unwrap().starts_with("chatcmpl-") && whole["created"].is_u64());
    let choice = &whole["choices"][0];
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    assert_eq!(choice["message"]["role"], "assistant");
    check_usage(&whole["usage"]);

    for include_usage in [false, true] {
        site.rig.model.push(Kind::Reply, Answer::text("One, two, three.").finish("length"));
        let mut body = json!({ "model": "main", "stream": true, "messages": messages(&["count"]) });
        if include_usage {
            body["stream_options"] = json!({ "include_usage": true });
        }
        let got = site.complete(&body).await;
        let mut events = got.events();
        assert_eq!(events.pop().unwrap(), "[DONE]");
        let mut chunks: Vec<Value> = events.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
        let ids: std::collections::BTreeSet<String> =
            chunks.iter().map(|chunk| chunk["id"].to_string()).collect();
        assert_eq!(ids.len(), 1, "{chunks:?}");
        assert!(
            chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["model"] == "main")
        );
        if include_usage {
            let last = chunks.pop().unwrap();
            assert_eq!(last["choices"], json!([]));
            check_usage(&last["usage"]);
            assert!(chunks.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
        } else {
            assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
        }
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        let last = chunks.pop().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "length");
        assert!(chunks.iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
        let text: String =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert!(text.starts_with("One, two, three.") && text.contains("reached its length limit"), "{text}");
    }
    let metrics = site.rig.client().raw("GET", "/metrics", "*/*", Vec::new()).await.unwrap().1;
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    assert!(metrics.contains("cairn_openai_requests_total{outcome=\"answered\"} 3"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_shape_of_the_reference() {
    let site = Site::start(FakeModel::start().await, "").await;
    let hello = json!({ "model": "main", "messages": messages(&["hello"]) });
    for header in ["Bearer wrong-0123456789abcdef", KEY, "Basic x", ""] {
        for line in ["POST /v1/chat/completions", "GET /v1/models"] {
            let got = site.ask_with(line, &[("authorization", header)], &hello.to_string()).await;
            assert_eq!(got.error(401).0, "invalid_api_key");
        }
    }
    assert_eq!(site.ask_with("GET /v1/models", &[], "").await.error(401).0, "invalid_api_key");
    assert_eq!(site.ask("GET /v2/models", "").await.error(404).0, "unknown_url");
    assert_eq!(site.ask("GET /v1/chat/completions", "").await.error(405).0, "method_not_supported");
    assert_eq!(site.ask("POST /v1/chat/completions", "{").await.error(400).0, "invalid_json");
    let with = |key: &str, value: Value| {
        let mut body = hello.clone();
        body[key] = value;
        body
    };
    let no_model = site.complete(&with("model", json!("gpt-4o"))).await.error(404);
    assert_eq!(no_model, ("model_not_found".to_owned(), json!("model")));
    let choices = site.complete(&with("n", json!(2))).await.error(400);
    assert_eq!(choices, ("unsupported_parameter".to_owned(), json!("n")));
    assert_eq!(site.complete(&with("messages", json!([]))).await.error(400).1, json!("messages"));
    let long =
        site.complete(&with("messages", messages(&[&format!("! {}", "1 ".repeat(20_000)), "hi"]))).await;
    assert_eq!(long.error(400).0, "context_length_exceeded");
    assert_eq!(site.rig.model.requests().len(), 0);
    assert_eq!(site.rig.get("/v1/channels").await, json!([]), "a refused request leaves no conversation");

    // It is asked a second time.
    for _ in 0..2 {
        site.rig.model.push(Kind::Reply, Answer::text("").finish("content_filter"));
    }
    let got = site.complete(&with("user", json!("bob"))).await;
    assert_eq!(got.error(502).0, "content_filter");
    assert!(got.head.contains("x-should-retry: false"), "its clients must not try it again: {}", got.head);
    // It is asked a second time.
    for _ in 0..2 {
        site.rig.model.push(Kind::Reply, Answer::text("").finish("content_filter"));
    }
    let mut streamed = with("user", json!("bob"));
    streamed["stream"] = json!(true);
    assert_eq!(site.complete(&streamed).await.error(502).0, "content_filter", "nothing was sent yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sends_its_whole_list_and_only_what_is_new_is_taken() {
    let site = Site::start(branching().await, "").await;
    let bob = Some("bob");
    site.list(bob, &["! Speak like a sailor.", "hello"], "Ahoy.").await;
    site.list(bob, &["! Speak like a sailor.", "hello", "> Ahoy.", "where is the key?"], "In the box.").await;
    assert_eq!(site.window(), ["hello", "> Ahoy.", "where is the key?"]);
    let request = site.rig.model.requests_of(Kind::Reply).pop().unwrap();
    let system = request["messages"][0]["content"].to_string();
    let (own, client) =
        (system.find("You are Cairn.").unwrap(), system.find("Speak like a sailor.").unwrap());
    assert!(own < client, "{system}");
    // The same again: another try of the last answer.
    site.list(bob, &["hello", "> Ahoy.", "where is the key?"], "Under the mat.").await;
    assert_eq!(site.window(), ["hello", "> Ahoy.", "where is the key?"]);
    let request = site.rig.model.requests_of(Kind::Reply).pop().unwrap();
    assert!(!request.to_string().contains("sailor"), "the system message was left out");
    // An earlier message, edited.
    site.list(bob, &["hello", "> Ahoy.", "where is the lamp?"], "On the hook.").await;
    assert_eq!(site.window(), ["hello", "> Ahoy.", "where is the lamp?"]);
    // The client has trimmed its list, and had an answer from elsewhere.
    site.list(bob, &["where is the lamp?", "> On the hook.", "and the oil?", "> Gone.", "why?"], "Burnt.")
        .await;
    let all = ["hello", "> Ahoy.", "where is the lamp?", "> On the hook.", "and the oil?", "> Gone.", "why?"];
    assert_eq!(site.window(), all);
    let path = "/v1/channels/main%2Flocal%2Fopenai.desk%2Fbob";
    let explained = site.rig.get(&format!("{path}/turns/last/prompt")).await;
    assert_eq!(explained["exact"], true, "{explained}");
    let history = site.rig.client().history("main%2Flocal%2Fopenai.desk%2Fbob").await.unwrap().1;
    let n = history.as_array().unwrap().len();
    assert_eq!(n, 8 + 4, "what was taken back is archived: {history}");
    site.rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_without_a_name_are_told_apart() {
    let site = Site::start(FakeModel::start().await, "").await;
    site.list(None, &["hi"], "Hello Ann.").await;
    site.list(None, &["hi", "> Hello Ann.", "I like tea"], "Noted.").await;
    // Somebody else begins alike.
    site.list(None, &["hi"], "Hello Ben.").await;
    assert_eq!(site.window(), ["hi"]);
    site.list(None, &["hi", "> Hello Ben.", "what do I like?"], "No idea.").await;
    assert_eq!(site.window(), ["hi", "> Hello Ben.", "what do I like?"]);
    site.list(None, &["hi", "> Hello Ann.", "I like tea", "> Noted.", "what do I like?"], "Tea.").await;
    assert_eq!(site.window(), ["hi", "> Hello Ann.", "I like tea", "> Noted.", "what do I like?"]);
    // A header names one whatever its messages are.
    let named =
        |text: &str| json!({ "model": "main", "user": "x", "messages": messages(&[text]) }).to_string();
    for (text, seen) in [("one", 1), ("two", 3)] {
        site.rig.model.push(Kind::Reply, Answer::text("Yes."));
        let bearer = format!("Bearer {KEY}");
        let headers = [("authorization", bearer.as_str()), ("x-cairn-conversation", "kitchen")];
        assert_eq!(site.ask_with("POST /v1/chat/completions", &headers, &named(text)).await.text(), "Yes.");
        assert_eq!(site.window().len(), seen);
    }
    let channels = site.rig.get("/v1/channels").await;
    let names = channels.as_array().unwrap().iter().map(|channel| channel["channel"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&"main/local/openai.desk/kitchen") && names.len() == 3, "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_runs_its_own_tools() {
    let site = Site::start(branching().await, "").await;
    let tool = json!({ "type": "function", "function": {
        "name": "lamp", "description": "switches the lamp",
        "parameters": { "type": "object", "properties": { "on": { "type": "boolean" } }, "required": ["on"] },
    } });
    let mut list = vec![json!({ "role": "user", "content": "light, please" })];
    let ask = |list: &Vec<Value>, stream: bool| json!({ "model": "main", "stream": stream, "messages": list, "tools": [tool] });
    site.rig.model.push(Kind::Reply, Answer::text("One moment.").and_call("lamp", json!({ "on": true })));
    let first = site.complete(&ask(&list, false)).await.json();
    let choice = &first["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!("One moment."))
    );
    let call = choice["message"]["tool_calls"][0].clone();
    assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("lamp")));
    assert_eq!(call["function"]["arguments"], "{\"on\":true}");
    list.push(choice["message"].clone());
    list.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "it is on" }));
    site.rig.model.push(Kind::Reply, Answer::text("There is light."));
    assert_eq!(site.complete(&ask(&list, false)).await.text(), "There is light.");
    let request = site.rig.model.requests_of(Kind::Reply).pop().unwrap().to_string();
    assert!(request.contains("it is on") && request.contains("switches the lamp"), "{request}");
    let path = "/v1/channels/main%2Flocal%2Fopenai.desk%2F";
    let channels = site.rig.get("/v1/channels").await;
    let name = channels[0]["channel"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let explained = site.rig.get(&format!("{path}{name}/turns/last/prompt")).await;
    assert_eq!(explained["exact"], true, "{explained}");

    // As a stream. The client does not answer the call but sends a new message, which stops the turn.
    list.push(json!({ "role": "assistant", "content": "There is light." }));
    list.push(json!({ "role": "user", "content": "and dark" }));
    site.rig.model.push(Kind::Reply, Answer::call("lamp", json!({ "on": false })));
    let got = site.complete(&ask(&list, true)).await;
    let mut events = got.events();
    assert_eq!(events.pop().unwrap(), "[DONE]");
    let chunks: Vec<Value> = events.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let [.., calls, last] = chunks.as_slice() else { panic!("{chunks:?}") };
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    let call = &calls["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!((&call["index"], &call["function"]["name"]), (&json!(0), &json!("lamp")));
    list.push(json!({ "role": "user", "content": "never mind" }));
    site.rig.model.push(Kind::Reply, Answer::text("Very well."));
    assert_eq!(site.complete(&ask(&list, false)).await.text(), "Very well.");
    // A result that nobody waits for any more: the message before it is asked again.
    list.pop();
    list.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
    list.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "it is off" }));
    site.rig.model.push(Kind::Reply, Answer::text("It is dark."));
    assert_eq!(site.complete(&ask(&list, false)).await.text(), "It is dark.");
    site.rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_stops_its_answer() {
    let site = Site::start(FakeModel::start().await, "").await;
    for stream in [false, true] {
        let gate = site.rig.model.hold(Kind::Reply);
        let arrived = site.rig.model.tally(Kind::Reply).arrived;
        let name = format!("bob-{stream}");
        let body =
            json!({ "model": "main", "user": name, "stream": stream, "messages": messages(&["tell me"]) });
        let bearer = format!("Bearer {KEY}");
        let client =
            site.send("POST /v1/chat/completions", &[("authorization", &bearer)], &body.to_string()).await;
        site.rig.model.wait_for(Kind::Reply, arrived + 1).await;
        drop(client);
        let path = format!("/v1/channels/main%2Flocal%2Fopenai.desk%2F{name}/turns/last/explain");
        let ended =
            site.rig.until(&path, |turn| turn["outcome"] != "open" && !turn["outcome"].is_null()).await;
        assert_eq!(ended["outcome"], "stopped", "{ended}");
        drop(gate);
        // It asks again, and gets an answer in the same place.
        site.list(Some(&name), &["tell me"], "All right.").await;
        assert_eq!(site.window(), ["tell me"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_served_without_a_key() {
    let home = home();
    let none = home.file("none.toml", "[openai_api]\nlisten = \"127.0.0.1:8787\"\n");
    home.cairn(&["config", "check", none.to_str().unwrap()]).told(2, &["has no key", "[[openai_api.keys]]"]);
    let keys = "[openai_api]\nlisten = \"127.0.0.1:8787\"\n[[openai_api.keys]]\nname = \"desk\"\nkey_file = \
                \"desk.key\"\nagents = [\"main\"]\n";
    let config = home.config(keys);
    home.cairn(&["config", "check", config.to_str().unwrap()]).told(2, &["desk.key"]);
    home.cairn(&["run"]).told(2, &["`key_file` of the key `desk`", "desk.key"]);
    home.secret("desk.key", "short");
    home.cairn(&["run"]).told(2, &["fewer than 16 characters"]);
    let nobody = home.file("nobody.toml", keys.replace("main", "nobody"));
    home.cairn(&["config", "check", nobody.to_str().unwrap()])
        .told(2, &["`nobody`, which is not configured"]);
    let shown = home.cairn(&["config", "show"]).ended(0).stdout;
    assert!(shown.contains("[[openai_api.keys]]") && !shown.contains("short"), "{shown}");
}
