//! Edits, deletions, undo, private chats: the rules one by one.

use cairn_core::compaction::{self, Decision};
use cairn_core::conversation::{EntryPlace, UndoError};
use cairn_core::window::{LookupTools, marker_text, measure};
use cairn_types::event::{CompactionEvent, Event, MessageEvent};
use cairn_types::ids::Seq;
use cairn_types::memory::{DraftMemory, MemoryKind, Replaces, Scope};
use cairn_types::message::{DELETED_TEXT, Part};

use crate::invariants::sim::Sim;

/// A window in which nothing is due by itself, and of which a run may take all but the last two turns.
fn roomy() -> Sim {
    let mut sim = Sim::new(20_000);
    sim.agent.compaction.reserve_ratio = 0.0;
    sim
}

fn texts(sim: &Sim) -> Vec<String> {
    sim.live().iter().map(|entry| entry.text()).collect()
}

fn places(sim: &Sim) -> Vec<String> {
    let place = |seq| sim.conversation.place(Seq(seq)).map(|place| place.to_string()).unwrap_or_default();
    (1..sim.conversation.next_seq.0).map(place).collect()
}

#[test]
fn an_edit_changes_a_pending_message_in_place() {
    let mut sim = roomy();
    sim.accept("at three");
    let before = sim.conversation.pending[0].tokens;
    let event = sim.edit(1, "at four, in the large garden behind the house");
    assert!(matches!(event, Some(Event::Message(MessageEvent::Edited { .. }))), "{event:?}");
    assert_eq!(sim.conversation.pending.len(), 1);
    assert!(sim.conversation.pending[0].tokens > before);
    assert_eq!(sim.edit(1, "at four, in the large garden behind the house"), None, "it changes nothing");
    sim.start_turn();
    assert_eq!(texts(&sim), ["at four, in the large garden behind the house"]);
}

#[test]
fn nobody_changes_what_another_person_said() {
    let mut sim = roomy();
    sim.turn("at three", "noted");
    sim.accept("at four");
    assert_eq!(sim.edit_by("local/mallory", 1, "at nine"), None, "answered");
    assert_eq!(sim.edit_by("local/mallory", 2, "at nine"), None, "pending");
    assert!(sim.edit(2, "at five").is_some());
}

#[test]
fn an_edit_of_what_a_turn_has_taken_up_is_a_correction_at_the_tail() {
    let mut sim = roomy();
    sim.turn("at three", "noted");
    let Some(Event::Message(MessageEvent::Accepted(correction))) = sim.edit(1, "at four") else {
        panic!("no correction")
    };
    assert_eq!(correction.message, sim.conversation.pending[0].message);
    assert!(correction.message.as_str().starts_with("m1#e"));
    assert!(!correction.addressed);
    let said = Part::text("(edited; it said before: \"at three\")");
    assert_eq!(correction.parts, [said.clone(), Part::text("at four")]);
    assert_eq!(sim.conversation.words_of(&"m1".into()), Some(&[Part::text("at four")][..]));
    assert_eq!(sim.edit(1, "at four"), None, "the latest correction counts");
    assert!(matches!(sim.edit(1, "at five"), Some(Event::Message(MessageEvent::Edited { .. }))));
    assert_eq!(sim.conversation.pending[0].parts, [said, Part::text("at five")]);
    assert!(!sim.conversation.pending[0].addressed);
    sim.start_turn();
    sim.stop();
    assert_eq!(sim.edit(1, "at five"), None);
    let Some(Event::Message(MessageEvent::Accepted(again))) = sim.edit(1, "at six") else {
        panic!("no correction")
    };
    assert_eq!(again.parts[0], Part::text("(edited; it said before: \"at five\")"));
    assert_eq!(texts(&sim)[0], "at three", "what was said stays as it was said");
    assert_eq!(sim.edit(99, "who?"), None, "it was never seen");
}

#[test]
fn a_long_message_is_quoted_by_its_beginning() {
    let mut sim = roomy();
    sim.turn(&"long\nwords ".repeat(100), "noted");
    let Some(Event::Message(MessageEvent::Accepted(correction))) = sim.edit(1, "short") else {
        panic!("no correction")
    };
    let Part::Text { text } = &correction.parts[0] else { panic!("not text") };
    assert!(text.chars().count() < 240 && text.ends_with("…\")") && !text.contains('\n'), "{text}");
}

#[test]
fn a_pending_message_gives_way_at_once_when_it_is_deleted() {
    let mut sim = roomy();
    sim.accept("my number is 555");
    assert!(sim.delete(1).is_some());
    assert_eq!(sim.delete(1), None, "it is deleted already");
    assert_eq!(sim.edit(1, "my number is 556"), None, "it stays deleted");
    assert!(!sim.conversation.pending[0].addressed);
    assert_eq!(sim.conversation.words_of(&"m1".into()), None);
    sim.start_turn();
    assert_eq!(texts(&sim), [DELETED_TEXT]);
    assert!(!sim.conversation.open_turn.as_ref().unwrap().addressed, "nobody waits for an answer");
    assert_eq!(sim.restored_from(2), sim.conversation);
}

#[test]
fn a_deleted_message_leaves_the_window_at_once_and_what_a_run_reads() {
    let mut sim = roomy();
    for n in 1..=6 {
        sim.turn(&format!("my number is 55{n} and it always was"), "noted");
    }
    sim.edit(6, "my number is 999");
    sim.start_turn();
    sim.stop();
    let (before, tokens) = (texts(&sim), measure(&sim.conversation, &sim.agent).tokens);
    assert!(sim.delete(6).is_some());
    assert_eq!(sim.delete(6), None);
    let after = texts(&sim);
    assert!(after.iter().all(|text| !text.contains("556") && !text.contains("999")), "{after:?}");
    let n_gone = after.iter().filter(|text| *text == DELETED_TEXT).count();
    assert_eq!((n_gone, after.len()), (2, before.len()), "the message and its correction");
    assert!(measure(&sim.conversation, &sim.agent).tokens < tokens);
    assert_eq!(sim.conversation.words_of(&"m6".into()), None);
    sim.agent.compaction.max_messages = 2;
    sim.watch().unwrap();
    assert_eq!(texts(&sim), after, "sealing changes nothing");
    assert!(sim.delete(1).is_some());
    let run = sim.conversation.run.clone().unwrap();
    let source = sim.conversation.readable(&run, sim.live());
    assert_eq!(source[0].text(), DELETED_TEXT, "deleted after it was sealed");
    let draft = sim.digest(&run, &source, &[]);
    assert!(draft.text.contains("552") && !draft.text.contains("551"), "{}", draft.text);
    let channel = sim.conversation.channel.clone();
    let brief = compaction::Brief {
        channel: &channel,
        run: &run,
        reader: &sim.agent,
        tools: true,
        correction: 1.0,
        mask: None,
    };
    let beside = compaction::Beside::default();
    let script = brief.script(&source, &brief.room(&beside));
    let request = brief.summarise(source.into(), &script, &beside, 100);
    let request = format!("{:?}", request.messages);
    assert!(request.contains("552") && !request.contains("551") && !request.contains(DELETED_TEXT));
    sim.commit("Numbers were told.");
    for n in [0, sim.journal.len() / 2, sim.journal.len()] {
        assert_eq!(sim.restored_from(n), sim.conversation);
    }
}

#[test]
fn a_marker_quotes_no_deleted_message() {
    let mut sim = Sim::new(4_000);
    sim.agent.compaction.emergency_fraction = 0.5;
    for n in 1..=4 {
        sim.turn(&format!("Anna's flat number {n} is Xq{n}z in Lisbon"), &"noted, as always ".repeat(20));
    }
    assert!(sim.delete(1).is_some());
    for event in compaction::emergency_on_overflow(&sim.conversation, &sim.agent, u64::MAX) {
        sim.journal(event);
    }
    let shown = |sim: &Sim| -> String {
        sim.conversation.stack.markers().map(|marker| marker_text(marker, LookupTools::ALL)).collect()
    };
    assert!(shown(&sim).contains("Xq2z") && !shown(&sim).contains("Xq1z"), "{}", shown(&sim));
    assert!(sim.delete(2).is_some(), "it is known from the archive");
    for event in compaction::emergency_on_overflow(&sim.conversation, &sim.agent, u64::MAX) {
        sim.journal(event);
    }
    assert!(!shown(&sim).contains("Xq2z"), "{}", shown(&sim));
    sim.check_coverage();
}

#[test]
fn undo_archives_the_last_turn_and_the_one_before_it() {
    let mut sim = roomy();
    assert_eq!(sim.undo(), Err(UndoError::Nothing));
    sim.turn("one", "first");
    sim.turn("two", "second");
    sim.turn("three", "third");
    sim.accept("four");
    sim.start_turn();
    assert_eq!(sim.undo(), Err(UndoError::Open));
    sim.stop();
    sim.undo().unwrap();
    sim.undo().unwrap();
    assert_eq!(texts(&sim), ["one", "first", "two", "second"]);
    assert_eq!(places(&sim), ["live", "live", "live", "live", "archived", "archived", "archived"]);
    assert_eq!(sim.edit(3, "drei"), None, "what is archived is not corrected");
    sim.turn("five", "fifth");
    sim.undo().unwrap();
    sim.undo().unwrap();
    assert_eq!(texts(&sim), ["one", "first"]);
    sim.check_coverage();
    assert_eq!(sim.restored_from(9), sim.conversation);
}

#[test]
fn undone_turns_stay_archived_under_summaries_markers_and_new() {
    let mut sim = roomy();
    for (idx, text) in ["one", "two", "three", "four", "five"].iter().enumerate() {
        sim.turn(&text.repeat(200), "yes");
        if idx == 1 {
            sim.undo().unwrap();
        }
    }
    sim.manual();
    let run = sim.conversation.run.clone().unwrap();
    assert_eq!((run.from_seq, run.to_seq, run.messages), (Seq(1), Seq(8), 6));
    assert_eq!(sim.sealed_places(), 6);
    assert_eq!(sim.conversation.readable(&run, sim.spoken.values().cloned()).len(), 6);
    sim.commit("They counted.");
    sim.check_coverage();
    assert_eq!(sim.conversation.place(Seq(3)), Some(EntryPlace::Archived));
    assert_eq!(sim.conversation.stack.summaries().next().unwrap().messages, 6);
    sim.undo().unwrap();
    sim.turn("six", "yes");
    for event in compaction::emergency_on_overflow(&sim.conversation, &sim.agent, u64::MAX) {
        sim.journal(event);
    }
    sim.check_coverage();
    assert_eq!(sim.conversation.place(Seq(9)), Some(EntryPlace::Archived));
    sim.new_generation();
    sim.check_coverage();
    assert_eq!(sim.undo(), Err(UndoError::Nothing));
    for n in 0..=sim.journal.len() {
        assert_eq!(sim.restored_from(n), sim.conversation);
    }
}

#[test]
fn a_turn_that_is_summarised_or_about_to_be_cannot_be_undone() {
    let mut sim = roomy();
    for n in 0..4 {
        sim.turn(&format!("message {n}").repeat(60), "yes");
    }
    sim.manual();
    sim.undo().unwrap();
    let before = sim.conversation.clone();
    assert_eq!(sim.undo(), Err(UndoError::Sealed));
    assert_eq!(sim.conversation, before);
    sim.commit("They counted.");
    assert_eq!(sim.undo(), Err(UndoError::Summarised));
    assert_eq!(compaction::next_run(&sim.conversation, &sim.agent, sim.now), Decision::Idle);
    sim.check_coverage();
}

#[test]
fn what_a_run_learns_in_a_private_chat_is_the_persons_own() {
    let mut sim = roomy();
    sim.conversation = cairn_core::conversation::Conversation::new("main/telegram/77".parse().unwrap());
    let author = cairn_types::message::Author { id: "telegram/77".to_owned(), name: "Ana".to_owned() };
    let mut pending = sim.pending(&"I like tea. ".repeat(60));
    (pending.author, pending.direct) = (author, true);
    sim.journal(Event::Message(MessageEvent::Accepted(pending)));
    sim.start_turn();
    sim.answer("noted");
    sim.turn("and cake", "noted");
    sim.turn("and jam", "noted");
    sim.manual();
    let run = sim.conversation.run.clone().unwrap();
    let (kind, text) = (MemoryKind::Preference, "Ana likes tea.".to_owned());
    let said_at = Some(sim.now - jiff::SignedDuration::from_hours(720));
    let memory = DraftMemory {
        kind,
        text,
        subject: None,
        importance: 0.5,
        by: None,
        said_at,
        told_by: None,
        replaces: Replaces::default(),
    };
    let draft = compaction::SummaryDraft { memories: vec![memory], ..Sim::draft("Tea.") };
    let events = compaction::commit(&sim.conversation, &sim.agent, &run.id, draft, sim.now).unwrap();
    let Event::Compaction(CompactionEvent::RunEnded(end)) = &events[0] else { panic!("no end") };
    let own = Scope::User { platform: "telegram".to_owned(), user: "77".to_owned() };
    assert_eq!(end.memories[0].scope, own);
    assert_eq!(end.memories[0].source.said_at, said_at, "it keeps the time when it was said");
    assert_eq!("user:telegram/77".parse(), Ok(own));
}
