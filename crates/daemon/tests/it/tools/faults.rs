//! Servers that do wrong: a clear error to the model, and the conversation goes on.

use cairn_testkit::mcp::Script;
use rstest::rstest;
use serde_json::{Value, json};

use crate::tools::rig::{Over, Plan, Rig, Server};

const SHORT: &str = "timeout_secs = 5\nstart_timeout_secs = 8\nmax_message_mib = 1";

/// A house with a server that will do wrong, and one that is well.
async fn rig(over: Over) -> Rig {
    let plan = Plan::none().server("files", over, Script::default(), SHORT);
    plan.server("well", Over::Stdio, Script::default(), "").start().await
}

/// The call fails, the one beside it does not, and the talk goes on.
async fn check(rig: &Rig, fault: &str) {
    let calls = [("files__echo", json!({ "text": "lost" })), ("well__echo", json!({ "text": "well" }))];
    let told = rig.calls(&calls).await;
    assert!(told[0].contains("error"), "{fault}: {}", told[0]);
    assert!(told[0].len() < 4_000, "{fault}: it is said in few words");
    assert!(told[1].ends_with("well"), "{fault}: {}", told[1]);
    rig.say("and now?").await;
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
        let rig = rig(over).await;
        rig.server("files").rewrite(Script::default().fault(fault));
        check(&rig, fault).await;
        rig.server("files").rewrite(Script::default());
        back(&rig, fault).await;
    }
}

/// The server is used again once it is well.
async fn back(rig: &Rig, fault: &str) {
    for _ in 0..200 {
        if rig.call("files__echo", json!({ "text": "back" })).await.ends_with("back") {
            return;
        }
    }
    panic!("{fault}: it is not used any more: {:?}", rig.cairn(&["mcp", "list"]));
}

#[rstest]
#[case("status=500")]
#[case("status=404")]
#[case("status=401")]
#[case("redirect")]
#[case("wrong-type")]
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_http_fails_fails_alone(#[case] fault: &str) {
    let rig = rig(Over::Http).await;
    rig.server("files").rewrite(Script::default().fault(fault));
    check(&rig, fault).await;
    rig.server("files").rewrite(Script::default());
    back(&rig, fault).await;
}

#[rstest]
#[case("noise")]
#[case("flood")]
#[case("twice")]
#[case("ask-sampling")]
#[case("ask-elicitation")]
#[case("ask-roots")]
#[case("ask-ping")]
#[case("ask-unknown")]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_odd_is_put_up_with(#[case] fault: &str) {
    for over in Over::BOTH {
        let rig = rig(over).await;
        rig.server("files").rewrite(Script::default().fault(fault));
        let told = rig.call("files__echo", json!({ "text": "all the same" })).await;
        assert!(told.contains("all the same") || told.contains("error"), "{fault}: {told}");
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
#[case("hang@initialize")]
#[case("exit@initialize")]
#[case("garbage@initialize")]
#[case("error@initialize")]
#[case("misshapen@initialize")]
#[case("endless@initialize")]
#[case("hang@list")]
#[case("exit@list")]
#[case("error@list")]
#[case("misshapen@list")]
#[case("huge=100000000@list")]
#[case("endless-pages")]
#[case("same-cursor")]
#[case("deaf")]
#[case("exit-at-start")]
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_start_fails_its_calls_alone(#[case] fault: &str) {
    for over in Over::BOTH {
        if over == Over::Http && ["deaf", "exit-at-start"].contains(&fault) {
            continue;
        }
        let mut rig = rig(over).await;
        rig.server("files").rewrite(Script::default().fault(fault));
        rig = rig.restart().await;
        if let Server::Http(server) = rig.server("files") {
            server.forget_sessions();
        }
        check(&rig, fault).await;
        let listed = rig.cairn(&["mcp", "list"]);
        assert!(listed.code == 0 && listed.stdout.contains("files"), "{fault}: {listed:?}");
    }
}

#[rstest]
#[case("schema-number", "schema_number")]
#[case("schema-text", "schema_text")]
#[case("schema-array", "schema_array")]
#[case("schema-missing", "schema_missing")]
#[case("schema-of-text", "schema_of_text")]
#[case("empty-name", "")]
#[case("long-name", "nnnn")]
#[case("odd-name", "read file")]
#[case("doubled", "doubled")]
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_cannot_be_offered_is_left_out_and_the_rest_is_there(
    #[case] fault: &str,
    #[case] name: &str,
) {
    for over in Over::BOTH {
        let plan = Plan::one(over, Script::default().only(&["echo"]).fault(fault));
        let rig = plan.start().await;
        let told = rig.call("files__echo", json!({ "text": "there" })).await;
        assert!(told.ends_with("there"), "{fault}: {told}");
        let offered = rig.offered();
        let n = offered.iter().filter(|tool| tool.starts_with(&format!("files__{name}"))).count();
        assert!(n <= usize::from(name.is_empty() || name == "doubled"), "{fault}: {offered:?}");
        assert!(rig.cairn(&["mcp", "show", "files"]).code == 0, "{fault}");
        rig.model.assert_clean();
    }
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
        let told = rig.call("files__tool_999", json!({})).await;
        assert!(told.contains("{}"), "{told}");
        assert_eq!(rig.offered().iter().filter(|tool| tool.starts_with("files__")).count(), 2);
        rig.assert_clean();
    }
}
