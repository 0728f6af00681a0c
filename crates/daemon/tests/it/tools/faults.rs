//! Servers that do wrong: a clear error to the model, and the conversation goes on.

use cairn_testkit::mcp::Script;
use rstest::rstest;
use serde_json::{Value, json};

use crate::tools::rig::{Over, Plan, Rig, Server};

const SHORT: &str = "timeout_secs = 5\nstart_timeout_secs = 8\nmax_message_mib = 1";

/// A daemon with a server that will do wrong, and one that is well.
async fn rig(over: Over) -> Rig {
    let plan = Plan::none().server("files", over, Script::default(), SHORT);
    plan.server("well", Over::Stdio, Script::default(), "").start().await
}

/// The call fails, the one beside it does not, and the talk goes on.
async fn fails_alone(rig: &Rig, fault: &str) {
    let calls = [("files__echo", json!({ "text": "lost" })), ("well__echo", json!({ "text": "well" }))];
    let results = rig.calls(&calls).await;
    assert!(results[0].contains("error"), "{fault}: {}", results[0]);
    assert!(results[0].len() < 4_000, "{fault}: it is said in few words");
    assert!(results[1].ends_with("well"), "{fault}: {}", results[1]);
    rig.say("and now?").await;
}

/// A call fails alone, and the server is used again once it is well.
async fn a_call_fails_alone(over: Over, fault: &str) {
    let rig = rig(over).await;
    rig.server("files").rewrite(Script::default().fault(fault));
    fails_alone(&rig, fault).await;
    rig.server("files").rewrite(Script::default());
    let mut tries = 0;
    while !rig.call("files__echo", json!({ "text": "back" })).await.ends_with("back") {
        tries += 1;
        assert!(tries < 200, "{fault}: it is not used any more: {:?}", rig.cairn(&["mcp", "list"]));
    }
}

#[rstest]
#[case("hang")]
#[case("exit")]
#[case("garbage")]
#[case("huge=100000000")]
#[case("endless")]
#[case("half")]
#[case("cut")]
#[case("wrong-id")]
#[case("no-id")]
#[case("wrong-version")]
#[case("error")]
#[case("misshapen")]
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_goes_wrong_fails_alone(#[case] fault: &str) {
    for over in Over::BOTH {
        a_call_fails_alone(over, fault).await;
    }
}

#[rstest]
#[case("status=500")]
#[case("status=404")]
#[case("status=401")]
#[case("redirect")]
#[case("wrong-type")]
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_http_fails_fails_alone(#[case] fault: &str) {
    a_call_fails_alone(Over::Http, fault).await;
}

#[rstest]
#[case(Over::Stdio)]
#[case(Over::Http)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_odd_is_put_up_with(#[case] over: Over) {
    for fault in
        ["noise", "flood", "twice", "ask-sampling", "ask-elicitation", "ask-roots", "ask-ping", "ask-unknown"]
    {
        let rig = rig(over).await;
        rig.server("files").rewrite(Script::default().fault(fault));
        let result = rig.call("files__echo", json!({ "text": "all the same" })).await;
        assert!(result.contains("all the same") || result.contains("error"), "{fault}: {result}");
        rig.say("and now?").await;
        let replies = rig.files().replies();
        assert!(!replies.iter().any(|reply| reply["result"]["content"].is_object()), "{fault}: {replies:?}");
        match fault {
            "ask-ping" => assert!(replies[0]["result"].is_object(), "{replies:?}"),
            _ if fault.starts_with("ask-") => {
                assert!(replies[0]["error"].is_object(), "{fault}: {replies:?}")
            }
            _ => {}
        }
    }
}

#[rstest]
#[case(Over::Stdio)]
#[case(Over::Http)]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_start_fails_its_calls_alone(#[case] over: Over) {
    let mut rig = rig(over).await;
    let at_start: &[&str] = match over {
        Over::Stdio => &["exit@initialize", "deaf", "exit-at-start"],
        Over::Http => &["hang@initialize"],
    };
    for fault in at_start.iter().chain(&[
        "garbage@initialize",
        "error@initialize",
        "misshapen@initialize",
        "endless@initialize",
        "hang@list",
        "error@list",
        "misshapen@list",
        "huge=100000000@list",
        "endless-pages",
    ]) {
        rig.server("files").rewrite(Script::default().fault(fault));
        rig = rig.restart().await;
        if let Server::Http(server) = rig.server("files") {
            server.forget_sessions();
        }
        fails_alone(&rig, fault).await;
        let listed = rig.cairn(&["mcp", "list"]);
        assert!(listed.code == 0 && listed.stdout.contains("files"), "{fault}: {listed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_cannot_be_offered_are_left_out_and_the_rest_is_there() {
    let faults = ["schema-number", "schema-missing", "schema-of-text", "empty-name", "long-name", "odd-name"];
    let script = faults.iter().fold(Script::default().only(&["echo"]), |script, fault| script.fault(fault));
    let rig = Plan::one(Over::Stdio, script).start().await;
    let result = rig.call("files__echo", json!({ "text": "there" })).await;
    assert!(result.ends_with("there"), "{result}");
    let offered: Vec<String> = rig.offered().into_iter().filter(|tool| tool.starts_with("files__")).collect();
    assert_eq!(offered, ["files__echo"]);
    rig.cairn(&["mcp", "show", "files"]).ended(0);
    rig.model.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tool_passes_for_a_built_in_one_or_for_anothers() {
    let script = Script::default().only(&["echo"]).fault("built-in");
    let plan = Plan::none().server("files", Over::Stdio, script.clone(), "");
    let rig = plan.server("other", Over::Http, script, "").start().await;
    rig.say("hello").await;
    let offered = rig.offered();
    for tool in ["memory_save", "files__memory_save", "other__memory_save", "files__echo", "other__echo"] {
        assert_eq!(offered.iter().filter(|name| *name == tool).count(), 1, "{tool}: {offered:?}");
    }
    rig.call("memory_save", json!({ "kind": "fact", "text": "Rex is a dog" })).await;
    for id in ["files", "other"] {
        assert_eq!(rig.server(id).log().calls("memory_save"), [] as [Value; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tools_over_pages_are_read_and_the_turn_is_told_what_it_can_have() {
    for over in Over::BOTH {
        let plan = Plan::one(over, Script::default().only(&["echo"]).fault("many"));
        let rig = plan.tools(&["files/echo", "files/tool_999"]).start().await;
        let result = rig.call("files__tool_999", json!({})).await;
        assert!(result.contains("{}"), "{result}");
        assert_eq!(rig.offered().iter().filter(|tool| tool.starts_with("files__")).count(), 2);
        rig.assert_clean();
    }
}
