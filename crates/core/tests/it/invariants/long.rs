//! Messages that are larger than what the window takes.

use cairn_core::artifact::{due, readable};
use cairn_core::notice::long_messages;
use cairn_core::window::{measure, pending_tokens};
use cairn_types::event::{ArtifactEvent, Event, MessageEvent};
use cairn_types::ids::Seq;
use cairn_types::message::Part;
use cairn_types::model::ChatMessage;
use cairn_types::text::edges::{MESSAGE_NOTICE, READ_TOOL};
use cairn_types::tool::defs::ToolDef;
use rstest::rstest;

use crate::invariants::sim::Sim;

const WINDOW: u64 = 16_000;

fn sim(tools: &[&str]) -> Sim {
    let mut sim = Sim::new(WINDOW);
    let tool = |name: &&str| ToolDef {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: serde_json::json!({}),
    };
    sim.agent.tools = tools.iter().map(tool).collect();
    sim
}

/// Numbered lines of about so many tokens, before correction.
fn long(tokens: u64) -> String {
    let line = |n: u64| format!("line {n}: the quick brown fox jumps over the lazy dog once more\n");
    let mut pending = Sim::new(WINDOW).pending(&line(1_000).repeat(100));
    let per_line = u64::from(pending_tokens(&pending)) as f64 / 100.0;
    pending.parts.clear();
    (1..=(tokens as f64 / per_line) as u64).map(line).collect()
}

/// A message of these parts begins a turn.
fn ask(sim: &mut Sim, parts: Vec<Part>) {
    let mut pending = sim.pending("");
    pending.parts = parts;
    pending.tokens = pending_tokens(&pending);
    sim.journal(Event::Message(MessageEvent::Accepted(pending)));
    sim.start_turn();
}

/// The parts of the newest message as it is sent.
fn sent(sim: &Sim) -> Vec<Part> {
    let assembled = sim.assemble();
    assert_eq!(assembled.shortened, [], "nothing is cut beyond that");
    assert!(assembled.tokens <= sim.agent.window.usable_tokens());
    let user = assembled.request.messages.into_iter().rev().find_map(|message| match message {
        ChatMessage::User { parts } => Some(parts),
        _ => None,
    });
    user.unwrap()
}

fn sent_text(sim: &Sim) -> String {
    match sent(sim).first() {
        Some(Part::Text { text }) => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// Of a usable window of 12,000 tokens.
#[rstest]
#[case::in_an_empty_window(11_000, 0, 1.0, false)]
#[case::larger_than_the_window(46_000, 0, 1.0, true)]
#[case::it_fits_when_the_rest_has_left(8_000, 9_000, 1.0, false)]
#[case::it_does_not_fit_beside_the_stack(10_500, 9_000, 1.0, true)]
#[case::by_what_the_server_counts(8_000, 0, 2.0, true)]
fn a_message_is_shortened_when_the_window_cannot_take_it(
    #[case] tokens: u64,
    #[case] before: u64,
    #[case] ratio: f64,
    #[case] expected: bool,
) {
    let mut sim = sim(&[READ_TOOL]);
    if before > 0 {
        sim.turn(&long(before), "yes");
    }
    sim.report(ratio);
    let text = long(tokens);
    ask(&mut sim, vec![Part::text(&text)]);
    let seq = sim.conversation.open_turn.as_ref().unwrap().first_seq;
    assert_eq!(sim.shorten() > 0, expected);
    assert_eq!(sim.shorten(), 0, "it is shortened once");
    sim.emergency();
    assert!(measure(&sim.conversation, &sim.agent).usage_ratio < 0.95);
    let shown = sent_text(&sim);
    assert_eq!(shown.contains(MESSAGE_NOTICE), expected);
    assert_eq!(shown.ends_with(&text), !expected);
    if expected {
        let (head, rest) = shown.split_once(MESSAGE_NOTICE).unwrap();
        let tail = rest.lines().skip(2).map(|line| format!("{line}\n")).collect::<String>();
        assert!(head.len() > 4_000 && head.contains("line 1: ") && text.ends_with(&tail), "{shown}");
        let lines = text.lines().count();
        let note = format!("The whole message ({} bytes, {lines} lines) is artifact a1.", text.len());
        assert!(rest.contains(&note) && rest.contains("artifact_read with id = \"a1\", from = "), "{rest}");
    }
    let kept = sim.live().into_iter().find(|entry| entry.seq == seq).unwrap();
    assert_eq!(kept.text(), text, "what is kept is whole");
    sim.check_weights();
}

#[test]
fn a_note_names_no_tool_that_is_not_there() {
    let mut sim = sim(&["history_search"]);
    ask(&mut sim, vec![Part::text(long(46_000))]);
    sim.shorten();
    let shown = sent_text(&sim);
    assert!(shown.contains("is kept, but cannot be read here") && !shown.contains(READ_TOOL), "{shown}");
    assert_eq!(sim.conversation.artifacts.len(), 1, "whoever runs it can read it");
}

#[test]
fn text_files_count_and_pictures_stay() {
    let mut sim = sim(&[READ_TOOL]);
    let file = |text| Part::File { name: "log.txt".to_owned(), media_type: None, text: Some(text) };
    let image = Part::Image { name: None, media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    ask(&mut sim, vec![Part::text("What went wrong?"), file(long(46_000)), image.clone()]);
    assert!(sim.shorten() > 0);
    let parts = sent(&sim);
    assert_eq!(parts.get(1), Some(&image));
    let Part::Text { text } = &parts[0] else { panic!("{parts:?}") };
    assert!(text.contains("What went wrong?\n[file: log.txt]\nline 1: "), "{text}");
    sim.check_weights();
}

#[test]
fn in_a_smaller_window_it_is_shortened_further_and_stays_the_same_artifact() {
    let mut sim = sim(&[READ_TOOL]);
    ask(&mut sim, vec![Part::text(long(46_000))]);
    sim.shorten();
    let before = sent_text(&sim).len();
    sim.agent.window.window_tokens /= 4;
    sim.agent.window.output_reserve_tokens /= 4;
    assert_eq!(sim.shorten(), 1, "no second artifact");
    let shown = sent_text(&sim);
    assert!(shown.len() < before / 2 && shown.contains("artifact a1"), "{}", shown.len());
}

#[test]
fn the_copy_stays_while_the_window_shows_the_message() {
    let due = |sim: &Sim| {
        let artifacts: Vec<_> = sim.artifacts.values().cloned().collect();
        due(&artifacts, &sim.conversation, &sim.agent.result_guard, sim.now).len()
    };
    let asked = || {
        let mut sim = sim(&[READ_TOOL]);
        sim.agent.result_guard.artifact_days = 1;
        ask(&mut sim, vec![Part::text(long(46_000))]);
        sim.answer("I see.");
        sim.pass(10 * 24 * 3600);
        assert_eq!(due(&sim), 0, "the note names it");
        assert_eq!(sim.conversation.artifacts.len(), 1);
        sim
    };
    let mut undone = asked();
    undone.undo().unwrap();
    assert_eq!(due(&undone), 1);
    assert!(undone.conversation.artifacts.is_empty(), "the window refers to none");
    let mut archived = asked();
    archived.new_generation();
    assert_eq!(due(&archived), 1);
    assert!(archived.conversation.artifacts.is_empty());
    let mut deleted = asked();
    deleted.delete(1);
    assert_eq!(due(&deleted), 1);
    let ids = vec!["a1".into()];
    deleted.journal(Event::Artifact(ArtifactEvent::Expired { ids, lost: false }));
    let why = readable(deleted.artifacts.get(&"a1".into()).cloned(), 1, "a1", 1).unwrap_err().to_string();
    assert_eq!(
        why,
        "artifact a1 was a copy of message 1, which has left the window; read that with history_read"
    );
}

#[test]
fn whoever_wrote_it_is_told_in_one_line() {
    let told = |sim: &Sim, cut| {
        let messages = &sim.conversation.open_turn.as_ref().unwrap().messages;
        long_messages(&sim.conversation, &sim.agent, messages, cut)
    };
    let mut small = sim(&[READ_TOOL]);
    ask(&mut small, vec![Part::text("hello")]);
    assert_eq!(told(&small, false), None);
    assert!(told(&small, true).unwrap().contains("only part of it"));
    let mut large = sim(&[READ_TOOL]);
    ask(&mut large, vec![Part::text(long(46_000))]);
    large.shorten();
    let words = told(&large, false).unwrap();
    assert!(words.starts_with("This message is more than I can take in at once (4"), "{words}");
    assert!(
        words.ends_with(" tokens) and can read on in it. All of it is kept.") && !words.contains('\n'),
        "{words}"
    );
    assert_eq!(large.conversation.live[0].seq, Seq(1));
}

#[test]
fn a_snapshot_does_not_grow_with_what_has_left_the_window() {
    let size = |n_sessions: u64| {
        let mut sim = sim(&[READ_TOOL]);
        for _ in 0..n_sessions {
            ask(&mut sim, vec![Part::text(long(46_000))]);
            assert!(sim.shorten() > 0);
            sim.answer("I see.");
            sim.turn("hello", "hi");
            sim.new_generation();
        }
        sim.turn("hello", "hi");
        assert_eq!((sim.artifacts.len() as u64, sim.conversation.newest_artifact), (n_sessions, n_sessions));
        serde_json::to_string(&sim.conversation.to_snapshot()).unwrap().len()
    };
    // A few more digits.
    let (short, long) = (size(1), size(60));
    assert!(long < short + 100, "{short} bytes, then {long}");
}
