//! The line before the stack, and how summaries and markers say what they stand for.

use cairn_core::window::{LookupTools, guide_text, measure};
use cairn_types::tokens::estimate;
use cairn_types::tool::defs::ToolDef;

use crate::invariants::sim::Sim;

const LONG: &str = "We looked at seven flats in Lisbon and Anna liked the third one best, near the river, with two \
                    balconies and a lemon tree, for 1,450 euros a month from 1 June on.";

fn tool(name: &str) -> ToolDef {
    ToolDef { name: name.to_owned(), description: name.to_owned(), parameters: serde_json::json!({}) }
}

/// A conversation with a summary, and a turn open.
fn summarised(tools: &[&str]) -> Sim {
    let mut sim = Sim::new(4_000);
    sim.agent.tools = tools.iter().map(|name| tool(name)).collect();
    while sim.watch().is_none() {
        sim.turn(LONG, LONG);
    }
    sim.commit("Seven flats were seen.");
    sim.accept("and now?");
    sim.start_turn();
    sim
}

#[test]
fn the_stack_begins_with_a_line_that_never_changes() {
    let mut sim = summarised(&["history_search", "history_read"]);
    let line = guide_text(LookupTools::of(&sim.agent.tools));
    assert!(!line.contains('\n'));
    assert!(line.contains("Continue it; do not do or say again"), "{line}");
    let first = sim.assemble().request.system[1..].join("\n\n");
    assert!(first.starts_with(&format!("{line}\n\n[Compaction Summary]: messages 1 to ")), "{first}");
    sim.answer("later");
    while sim.watch().is_none() {
        sim.turn(LONG, LONG);
    }
    sim.commit("More flats were seen.");
    sim.accept("and now?");
    sim.start_turn();
    let second = sim.assemble().request.system[1..].join("\n\n");
    assert!(second.starts_with(&first), "what stood there was rewritten");
}

#[test]
fn a_summary_says_what_it_stands_for() {
    let sim = summarised(&["history_search", "history_read"]);
    let summary = sim.conversation.stack.summaries().next().unwrap().clone();
    let expected = format!(
        "[Compaction Summary]: messages 1 to {to} ({to} messages), 2026-01-01\nSeven flats were seen.",
        to = summary.to_seq
    );
    let block = sim.assemble().request.system[1..].join("\n\n");
    assert!(block.ends_with(&expected), "{block}");
}

#[test]
fn no_tool_is_named_that_the_agent_lacks() {
    for (tools, named) in [
        (&[][..], [false, false]),
        (&["history_search"], [true, false]),
        (&["history_read"], [false, true]),
        (&["history_search", "history_read"], [true, true]),
    ] {
        let sim = summarised(tools);
        let block = sim.assemble().request.system[1..].join("\n\n");
        let found = [block.contains("history_search"), block.contains("history_read")];
        assert_eq!(found, named, "{tools:?}: {block}");
    }
}

#[test]
fn the_whole_block_is_measured() {
    for tools in [&[][..], &["history_search", "history_read"]] {
        let sim = summarised(tools);
        let block = estimate(&sim.assemble().request.system[1..].join("\n\n"));
        let measured = measure(&sim.conversation, &sim.agent).regions.summaries.tokens;
        assert!(u64::from(block) <= measured, "{block} tokens are measured as {measured}");
    }
}
