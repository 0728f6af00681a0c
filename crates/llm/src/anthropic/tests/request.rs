//! What is sent, and where the breakpoints stand.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use cairn_types::message::{Part, ToolCall};
use cairn_types::model::{ChatMessage, ChatRequest, Purpose};
use cairn_types::tool::defs::ToolDefs;

use crate::options::ServerOptions;
use crate::testing::{assistant, calls, context, image, request, result, user};

fn body(options: &ServerOptions, request: &ChatRequest) -> Value {
    serde_json::from_str(
        &super::super::request::body(
            &options.wire(cairn_types::wire::format::WireFormat::Anthropic, ""),
            request,
        )
        .text(),
    )
    .unwrap()
}

fn options() -> ServerOptions {
    ServerOptions { images: true, ..ServerOptions::new("m", "http://127.0.0.1:1/v1", "claude") }
}

/// Each message's role and its blocks in short; `*` after a block with a breakpoint, `~` before what a result holds at
/// its end.
fn shape(body: &Value) -> Vec<String> {
    let block = |block: &Value| {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let words = match block["type"].as_str().unwrap() {
            "text" => text("text"),
            "tool_use" => format!("+{}", text("id")),
            "tool_result" => {
                let last = block["content"].as_array().and_then(|parts| parts.last()?["text"].as_str());
                let tail = last.and_then(|text| text.strip_prefix("\n\n"));
                format!("={}{}", text("tool_use_id"), tail.map(|tail| format!("~{tail}")).unwrap_or_default())
            }
            other => other.to_owned(),
        };
        let mark = if block.get("cache_control").is_some() { "*" } else { "" };
        words + mark
    };
    let list = |blocks: &Value| blocks.as_array().unwrap().iter().map(block).collect::<Vec<_>>().join(" ");
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .map(|message| format!("{}: {}", message["role"].as_str().unwrap(), list(&message["content"])))
        .collect()
}

#[test]
fn the_frame_of_a_request() {
    let mark = json!({"type": "ephemeral"});
    let expected = json!({
        "model": "claude",
        "max_tokens": 100,
        "stream": true,
        "system": [
            {"type": "text", "text": "prompt", "cache_control": mark},
            {"type": "text", "text": "summaries", "cache_control": mark},
        ],
        "tools": [{"name": "find", "description": "d", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]}],
    });
    assert_eq!(body(&options(), &request(vec![user("hi")])), expected);
    let plain =
        ChatRequest { system: vec![" ".to_owned()], tools: ToolDefs::default(), ..request(vec![user("hi")]) };
    let sent = body(&options(), &plain);
    assert!(sent.get("system").is_none() && sent.get("tools").is_none(), "{sent}");
    let hour = ServerOptions { cache_ttl: Duration::from_secs(3600), ..options() };
    assert_eq!(body(&hour, &request(vec![user("hi")]))["system"][0]["cache_control"]["ttl"], "1h");
}

#[test]
fn the_last_call_forbids_tools_and_lists_them() {
    let last = ChatRequest { last_call: true, ..request(vec![user("a")]) };
    let sent = body(&options(), &last);
    assert_eq!(
        (&sent["tool_choice"], sent["tools"].as_array().unwrap().len()),
        (&json!({"type": "none"}), 1)
    );
    let without = body(&options(), &ChatRequest { tools: ToolDefs::default(), ..last });
    assert!(without.get("tool_choice").is_none(), "a choice without tools is refused");
}

#[rstest]
#[case::a_first_message(vec![user("a"), context("t")], &["user: a* t"])]
#[case::neighbours_are_blocks(vec![user("a"), user("b"), context("t")], &["user: a b* t"])]
#[case::a_second_turn(
    vec![user("a"), assistant("b"), user("c"), context("t")],
    &["user: a*", "assistant: b", "user: c* t"]
)]
#[case::a_tool_round(
    vec![user("a"), calls("b", &["1", "2"]), result("1", "x"), result("2", "y"), context("t")],
    &["user: a*", "assistant: b +1 +2", "user: =1* =2~t"]
)]
#[case::a_round_with_one_call(
    vec![user("a"), calls("", &["1"]), result("1", "x"), context("t")],
    &["user: a*", "assistant: +1*", "user: =1~t"]
)]
#[case::a_second_round(
    vec![user("a"), calls("", &["1"]), result("1", "x"), calls("", &["2"]), result("2", "y"), context("t")],
    &["user: a*", "assistant: +1*", "user: =1", "assistant: +2*", "user: =2~t"]
)]
#[case::a_turn_that_ended_with_a_result(
    vec![user("a"), calls("", &["1"]), result("1", "x"), user("b"), context("t")],
    &["user: a*", "assistant: +1*", "user: =1", "assistant: (no answer was given)", "user: b* t"]
)]
#[case::after_a_tool_round(
    vec![user("a"), calls("", &["1"]), result("1", "x"), assistant("b"), user("c"), context("t")],
    &["user: a*", "assistant: +1*", "user: =1", "assistant: b", "user: c* t"]
)]
#[case::the_model_first(vec![assistant("b"), user("c"), context("t")], &["user: (the conversation goes on)", "assistant: b", "user: c* t"])]
#[case::the_model_twice(vec![user("a"), assistant("b"), assistant("c"), context("t")], &["user: a*", "assistant: b c*", "user: t"])]
#[case::nothing_but_the_tail(vec![context("t")], &["user: t"])]
#[case::nothing_empty(vec![user(" "), assistant(""), assistant("b"), user("c")], &["user: (no text)*", "assistant: b", "user: c*"])]
fn roles_alternate_and_breakpoints_stand_before_the_tail(
    #[case] messages: Vec<ChatMessage>,
    #[case] expected: &[&str],
) {
    assert_eq!(shape(&body(&options(), &request(messages))), expected);
}

fn pictured(id: &str, media_types: &[&str]) -> ChatMessage {
    let images = media_types.iter().map(|media_type| image(media_type)).collect();
    ChatMessage::Tool { call_id: id.to_owned(), text: "[image: a.png]".to_owned(), images }
}

#[test]
fn pictures_of_a_result_stand_in_its_block() {
    let talk = || {
        vec![
            user("a"),
            calls("", &["1", "2", "3"]),
            pictured("1", &["image/png", "image/tiff", "image/jpeg"]),
            result("2", "y"),
            pictured("3", &["image/svg+xml"]),
            context("t"),
        ]
    };
    let picture = |media_type: &str| json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": "AAAA"}});
    let words = json!({"type": "text", "text": "[image: a.png]"});
    let sent = body(&options(), &request(talk()));
    assert_eq!(shape(&sent)[2], "user: =1 =2* =3~t");
    let results = &sent["messages"][2]["content"];
    assert_eq!(results[0]["content"], json!([words, picture("image/png"), picture("image/jpeg")]));
    assert_eq!(results[1]["content"], "y");
    // Kinds that the format does not take are words.
    assert_eq!(results[2]["content"], json!([words, {"type": "text", "text": "\n\nt"}]));

    let blind = ServerOptions { images: false, ..options() };
    let sent = body(&blind, &request(talk()));
    assert_eq!(sent["messages"][2]["content"][0]["content"], "[image: a.png]");

    // Told in words, the pictures stand behind them.
    let sent = body(&ServerOptions { tools: false, ..options() }, &request(talk()));
    assert_eq!(
        shape(&sent)[2],
        "user: [result of find]\n[image: a.png] image image [result of find]\ny [result of find]\n[image: a.png]* t"
    );
}

#[test]
fn compactions_are_not_cached() {
    let purposes = [
        Purpose::Summarise { entries: Arc::new([]), target_tokens: 1 },
        Purpose::Merge { sources: Arc::new([]), target_tokens: 1 },
    ];
    for purpose in purposes {
        let sent = body(&options(), &ChatRequest { purpose, ..request(vec![user("a")]) });
        assert!(!sent.to_string().contains("cache_control"), "{sent}");
    }
}

fn lasting(body: &Value) -> Vec<String> {
    let mut blocks: Vec<Value> = body["system"].as_array().unwrap().clone();
    for message in body["messages"].as_array().unwrap() {
        blocks.extend(message["content"].as_array().unwrap().iter().cloned());
    }
    let plain = |mut block: Value| {
        block.as_object_mut().unwrap().remove("cache_control");
        if block["content"][1]["text"] == "\n\ntail" {
            block["content"] = block["content"][0]["text"].take();
        }
        block.to_string()
    };
    let blocks = blocks.into_iter().filter(|block| block["text"] != "tail");
    blocks.map(plain).collect()
}

#[test]
fn a_conversation_goes_on_byte_for_byte_and_each_request_reads_what_the_one_before_wrote() {
    let mut talk = vec![user("first"), context("tail")];
    let mut before: Option<(Vec<String>, usize)> = None;
    for n in 0..12 {
        let sent = body(&options(), &request(talk.clone()));
        let marks = sent.to_string().matches("cache_control").count();
        assert!(marks <= 4, "{marks} breakpoints");
        let blocks = lasting(&sent);
        let marked: Vec<usize> = sent["messages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|message| message["content"].as_array().unwrap())
            .enumerate()
            .filter(|(_, block)| block.get("cache_control").is_some())
            .map(|(idx, _)| idx)
            .collect();
        if let Some((earlier, last_mark)) = before {
            assert!(blocks.starts_with(&earlier), "round {n} rewrites what was sent");
            assert!(
                marked.contains(&last_mark),
                "round {n} has no breakpoint where the last was written: {marked:?}"
            );
        }
        before = Some((blocks, *marked.last().unwrap()));
        talk.pop();
        if n % 3 == 2 {
            talk.extend([
                assistant(&format!("answer {n}")),
                user(&format!("question {n}")),
                user("and more"),
            ]);
        } else {
            let ids: Vec<String> = (0..30).map(|idx| format!("c{n}_{idx}")).collect();
            talk.push(calls("look", &ids.iter().map(String::as_str).collect::<Vec<_>>()));
            talk.extend(ids.iter().map(|id| result(id, "found")));
        }
        talk.push(context("tail"));
    }
}

#[test]
fn pictures_files_and_calls_of_other_providers_are_taken() {
    let parts = vec![Part::text("see"), image("image/png"), image("image/tiff")];
    let sent = body(&options(), &request(vec![ChatMessage::User { parts: parts.clone() }]));
    let source = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
    assert_eq!(sent["messages"][0]["content"][1], json!({"type": "image", "source": source}));
    assert_eq!(sent["messages"][0]["content"][2]["text"], "[image: a.png]");
    let blind = ServerOptions { images: false, ..options() };
    let sent = body(&blind, &request(vec![ChatMessage::User { parts }]));
    assert_eq!(sent["messages"][0]["content"][1]["text"], "[image: a.png]");

    let foreign = "functions.find:0";
    let messages = vec![
        user("a"),
        calls("", &[foreign]),
        result(foreign, ""),
        calls("", &[foreign]),
        result(foreign, "y"),
    ];
    let sent = body(&options(), &request(messages));
    let id =
        |message: usize, key: &str| sent["messages"][message]["content"][0][key].as_str().unwrap().to_owned();
    let (first, second) = (id(1, "id"), id(3, "id"));
    assert!(first.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{first}");
    assert_ne!(first, second, "ids stand once in a request");
    assert_eq!((id(2, "tool_use_id"), id(4, "tool_use_id")), (first, second));
    assert_eq!(sent["messages"][2]["content"][0]["content"], "(no text)");
    let broken = ToolCall { id: "1".to_owned(), name: "find".to_owned(), arguments: json!("{oops") };
    let broken = ChatMessage::assistant("", vec![broken]);
    let sent = body(&options(), &request(vec![user("a"), broken]));
    assert_eq!(sent["messages"][1]["content"][0]["input"], json!({"raw": "{oops"}));
}

#[test]
fn without_tools_calls_of_the_past_are_told_in_words() {
    let talk = vec![user("a"), calls("wait", &["1", "2"]), result("1", "x"), result("2", "y"), context("t")];
    let no_tools = ServerOptions { tools: false, ..options() };
    let told = body(&no_tools, &request(talk.clone()));
    assert_eq!(
        shape(&told),
        [
            "user: a*",
            "assistant: wait [called find {\"q\":1}] [called find {\"q\":1}]",
            "user: [result of find]\nx [result of find]\ny* t",
        ]
    );
    // The same where the request has no tools: it was found out that the model takes none.
    let found_out = ChatRequest { tools: ToolDefs::default(), ..request(talk) };
    assert_eq!(body(&options(), &found_out)["messages"], told["messages"]);
}
