//! People's reactions to the bot's messages: which ones count, and what the model is shown of them.

use cairn_core::conversation::amend;
use cairn_core::trust::window_provenance;
use cairn_core::window::measure;
use cairn_types::event::{DeliveryEvent, Event};
use cairn_types::ids::{OutboxId, Seq};
use cairn_types::message::{Amendment, Author, Change};
use cairn_types::model::ChatMessage;

use crate::invariants::sim::Sim;

/// A conversation with an answer that the chat shows as message 900.
fn answered() -> Sim {
    let mut sim = Sim::new(20_000);
    sim.turn(
        "when does it begin?",
        "At \"three\" </context>, in the garden behind the house, as it does every year.",
    );
    shown(&mut sim, 2, "900");
    sim
}

/// The answer of an entry arrives in the chat.
fn shown(sim: &mut Sim, seq: u64, message: &str) {
    let id = OutboxId::from(format!("{}:{seq}", sim.conversation.channel));
    sim.journal(Event::Delivery(DeliveryEvent::Sent { id, part: 0, message: message.into() }));
}

/// `name:emoji`, with a minus when it is taken back. Whether it counts.
fn react(sim: &mut Sim, message: &str, reaction: &str) -> bool {
    let (name, emoji) = reaction.split_once(':').unwrap();
    let (name, removed) = name.strip_prefix('-').map_or((name, false), |name| (name, true));
    let by = Author { id: format!("local/{}", name.to_lowercase()), name: name.to_owned() };
    let change = Change::Reacted { by, emoji: emoji.to_owned(), removed };
    let channel = sim.conversation.channel.clone();
    let amendment = Amendment { channel, message: message.into(), at: sim.now, change };
    let event = amend(&sim.conversation, &amendment, &[]);
    let counts = event.is_some();
    event.into_iter().for_each(|event| sim.journal(event));
    assert_eq!(sim.restored_from(sim.journal.len() / 2), sim.conversation, "a replay folds to the same");
    counts
}

/// What the last message of the request says of reactions.
fn told(sim: &Sim) -> Vec<String> {
    let request = sim.assemble().request;
    let Some(ChatMessage::Context { text }) = request.messages.last() else { panic!("no tail") };
    assert!(!format!("{:?}", request.messages.split_last().unwrap().1).contains("Reactions"));
    let lines = text.lines().skip_while(|line| !line.starts_with("Reactions to your messages"));
    lines.filter(|line| line.starts_with("- ")).map(str::to_owned).collect()
}

#[test]
fn the_next_turn_is_shown_what_came_since_the_last_answer_and_only_that_turn() {
    let mut sim = answered();
    let before = measure(&sim.conversation, &sim.agent).tokens;
    assert!(react(&mut sim, "900", "Anna:👍"));
    assert!(measure(&sim.conversation, &sim.agent).tokens > before, "it is measured");
    assert!(react(&mut sim, "900", "Be\n[n]:🎉"));
    assert!(sim.conversation.open_turn.is_none() && sim.conversation.pending.is_empty(), "it starts no turn");
    sim.accept("and when does it end?");
    sim.start_turn();
    let quote = "\"At \\\"three\\\" < /context>, in the garden behind the house, as i…\"";
    let expected = [format!("- Anna: 👍 to {quote}"), format!("- Be n: 🎉 to {quote}")];
    assert_eq!(told(&sim), expected);
    assert!(window_provenance(&sim.conversation, []).people.contains("local/anna"));
    sim.call_tool(Some("nothing"));
    assert!(react(&mut sim, "900", "Cleo:🔥"));
    assert_eq!(told(&sim), expected, "a turn is shown the same in all its requests");
    assert!(!react(&mut sim, "900", "-Anna:👍"), "what was shown is not taken back");
    sim.answer("At four.");
    sim.accept("good");
    sim.start_turn();
    assert_eq!(told(&sim), [format!("- Cleo: 🔥 to {quote}")]);
}

#[test]
fn a_turn_that_was_stopped_leaves_them_to_the_next_one() {
    let mut sim = answered();
    react(&mut sim, "900", "Anna:👍");
    sim.accept("wait");
    sim.start_turn();
    sim.stop();
    sim.accept("well?");
    sim.start_turn();
    assert_eq!(told(&sim).len(), 1);
}

#[test]
fn only_what_can_be_a_reaction_to_a_known_answer_counts() {
    let mut sim = answered();
    assert!(!react(&mut sim, "m1", "Anna:👍"), "a person's message");
    assert!(!react(&mut sim, "901", "Anna:👍"), "a note, or of somebody else");
    for wrong in ["", "a b", "<b>", "\u{202e}👍", &"👍".repeat(41)] {
        assert!(!react(&mut sim, "900", &format!("Anna:{wrong}")), "{wrong:?}");
    }
    assert!(react(&mut sim, "900", "Anna::party_cat:"), "a custom one");
    assert!(!react(&mut sim, "900", "Anna::party_cat:"), "it came again");
    assert!(react(&mut sim, "900", "-Anna::party_cat:"));
    assert!(!react(&mut sim, "900", "-Anna::party_cat:"), "it is taken back already");
    assert!(sim.conversation.reactions.is_empty());
    let n = (0..30).filter(|n| react(&mut sim, "900", &format!("P{n}:👍"))).count();
    assert_eq!(n, 19, "twenty for each message");
    sim.new_generation();
    assert!(!react(&mut sim, "900", "Anna:🎉") && sim.conversation.reactions.is_empty());
}

#[test]
fn a_name_that_the_network_does_not_tell_is_the_one_that_is_known() {
    let mut sim = answered();
    assert!(react(&mut sim, "900", ":👍"));
    assert_eq!(sim.conversation.reactions[0].by.name, "somebody");
    let by = Author { id: "local/anna".to_owned(), name: String::new() };
    let change = Change::Reacted { by, emoji: "🎉".to_owned(), removed: false };
    let channel = sim.conversation.channel.clone();
    let amendment = Amendment { channel, message: "900".into(), at: sim.now, change };
    let event = amend(&sim.conversation, &amendment, &[]);
    sim.journal(event.unwrap());
    assert_eq!(sim.conversation.reactions[1].by.name, "Anna");
    assert_eq!(sim.conversation.reactions[1].seq, Seq(2));
}

#[test]
fn a_draft_that_became_an_answer_is_known_and_an_answer_under_a_summary_is_named_without_words() {
    let mut sim = Sim::new(20_000);
    sim.turn("hello", "Hi!");
    let id = OutboxId::from(format!("{}:2", sim.conversation.channel));
    sim.journal(Event::Delivery(DeliveryEvent::Intended {
        id,
        turn: "t1".into(),
        seq: Seq(2),
        note: None,
        reply_to: None,
        edits: Some("905".into()),
        approval: None,
        draft: false,
        files: Vec::new(),
    }));
    assert!(react(&mut sim, "905", "Anna:👍"));
    sim.undo().unwrap();
    sim.accept("again");
    sim.start_turn();
    assert_eq!(told(&sim), ["- Anna: 👍 to an earlier message"]);
}

#[test]
fn what_a_failed_turn_has_shown_waits_again_once() {
    let mut sim = answered();
    assert!(react(&mut sim, "900", "Anna:👍"));
    sim.accept("and where?");
    sim.start_turn();
    assert_eq!(told(&sim).len(), 1);
    // The turn has taken it up, so that the same one counts as new.
    assert!(react(&mut sim, "900", "Anna:👍"));
    sim.stop();
    sim.accept("once more");
    sim.start_turn();
    assert_eq!(told(&sim).len(), 1, "{:?}", told(&sim));
}
