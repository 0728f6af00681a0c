//! Pruning, number by number: what is sent shorter, when, and how it reads.

use std::sync::Arc;

use cairn_core::compaction::{self, Decision};
use cairn_core::prune;
use cairn_core::result_guard::ResultRoom;
use cairn_core::settings::PruneMode;
use cairn_core::window::measure;
use cairn_types::event::{CompactionEvent, Event, PruneCause, PruneForm, PrunedResult, Record, TurnEvent};
use cairn_types::ids::{ArtifactId, Seq};
use cairn_types::message::{Entry, Part, Role, text_of};
use cairn_types::model::ChatMessage;
use cairn_types::tier::Tier;
use cairn_types::tokens::estimate;
use cairn_types::tool::result_class::ResultClass;
use rstest::rstest;

use crate::invariants::sim::Sim;

const SHRUNK: PruneForm = PruneForm::Shrunk { bytes: 3_000 };
const EDGES: PruneForm = PruneForm::Edges { chars: 1_500 };
const CLEARED: PruneForm = PruneForm::Cleared;

/// A channel in whose window so many tokens may be used.
fn room(usable: u64) -> Sim {
    let mut sim = Sim::new(usable + 1_000);
    sim.agent.window.output_reserve_tokens = 1_000;
    sim
}

/// Words of so many tokens, or a few more.
fn text(tokens: u64) -> String {
    let line = "The ferry to Cacilhas leaves at ten past every hour and costs one euro thirty. ";
    let per_line = f64::from(estimate(&line.repeat(1_000))) / 1_000.0;
    line.repeat((tokens as f64 / per_line).ceil() as usize)
}

/// Fills the window with what people say, up to that usage.
fn fill(sim: &mut Sim, usage: f64) {
    let gauge = measure(&sim.conversation, &sim.agent);
    let usable = sim.agent.window.usable_tokens() as f64;
    let missing = (usable * usage) as u64 - gauge.tokens;
    sim.accept(&text(missing));
    sim.start_turn();
    sim.stop();
}

/// A turn whose one call has a result of so many tokens.
fn tool_turn(sim: &mut Sim, tokens: u64) {
    sim.accept("and that?");
    sim.start_turn();
    sim.use_tool("fetch", Some(&text(tokens)));
    answer(sim);
}

/// The answer, without anything that is due before a call.
fn answer(sim: &mut Sim) {
    let mode = std::mem::replace(&mut sim.agent.pruning.mode, PruneMode::Off);
    let window = sim.agent.window;
    sim.agent.window.window_tokens = 10_000_000;
    sim.answer("so it is");
    (sim.agent.pruning.mode, sim.agent.window) = (mode, window);
}

/// The forms of a batch by the ordinals, from 0, of the results.
fn forms(sim: &Sim, event: Option<Event>) -> Vec<Option<PruneForm>> {
    let results = sim.conversation.live.iter().filter(|entry| entry.role == Role::Tool);
    let batch = match event {
        Some(Event::Compaction(CompactionEvent::ResultsPruned { results, .. })) => results,
        None => Vec::new(),
        Some(event) => panic!("{event:?}"),
    };
    results
        .map(|entry| batch.iter().find(|pruned| pruned.seq == entry.seq).map(|pruned| pruned.form))
        .collect()
}

fn pressure(sim: &Sim) -> Vec<Option<PruneForm>> {
    forms(sim, prune::pressure(&sim.conversation, &sim.agent))
}

#[test]
fn results_older_than_the_two_newest_messages_shrink_in_one_batch_and_no_run_starts() {
    let mut sim = room(200_000);
    (0..5).for_each(|_| tool_turn(&mut sim, 34_000));
    assert!(sim.tier() >= Tier::Background);
    assert_eq!(pressure(&sim), [Some(SHRUNK), Some(SHRUNK), Some(SHRUNK), None, None]);
    let raw = sim.live();
    assert_eq!(sim.watch(), None, "a run started before it was measured again");
    assert_eq!(sim.tier(), Tier::Calm);
    assert_eq!(compaction::next_run(&sim.conversation, &sim.agent, sim.now), Decision::Idle);
    assert_eq!(sim.live(), raw, "what is kept was changed");
    let old = sim.conversation.sent(raw.iter().find(|entry| entry.role == Role::Tool).unwrap());
    let words = text_of(&old.parts);
    assert!(words.len() <= 3_000 && words.len() > 2_900, "{} bytes", words.len());
    assert!(words.starts_with("The ferry") && words.ends_with("thirty. "), "{words}");
    assert_eq!(pressure(&sim), [None; 5], "the same again");
}

#[rstest]
#[case::below_the_threshold(0.79, PruneMode::Pressure, false)]
#[case::at_the_threshold(0.81, PruneMode::Pressure, true)]
#[case::off(0.9, PruneMode::Off, false)]
#[case::another_mode(0.9, PruneMode::CacheTtl, false)]
fn pressure_begins_at_the_background_threshold(
    #[case] usage: f64,
    #[case] mode: PruneMode,
    #[case] due: bool,
) {
    let mut sim = room(200_000);
    (0..3).for_each(|_| tool_turn(&mut sim, 30_000));
    fill(&mut sim, usage);
    sim.agent.pruning.mode = mode;
    assert_eq!(prune::pressure(&sim.conversation, &sim.agent).is_some(), due);
}

#[rstest]
#[case(200_000, 19_800, false)]
#[case(200_000, 21_500, true)]
#[case(400_000, 19_800, false)]
#[case(400_000, 21_500, true)]
#[case::scaled_down(20_000, 2_400, false)]
#[case::scaled_down(20_000, 2_700, true)]
fn a_batch_must_win_20_000_tokens_or_less_in_small_windows(
    #[case] usable: u64,
    #[case] tokens: u64,
    #[case] due: bool,
) {
    let mut sim = room(usable);
    tool_turn(&mut sim, tokens);
    (0..2).for_each(|_| tool_turn(&mut sim, 10));
    fill(&mut sim, 0.85);
    let event = prune::pressure(&sim.conversation, &sim.agent);
    assert_eq!(event.is_some(), due, "{event:?}");
}

#[test]
fn what_is_older_than_40_000_tokens_of_results_is_cleared_when_shrinking_is_not_enough() {
    let mut sim = room(200_000);
    fill(&mut sim, 0.85);
    (0..10).for_each(|_| tool_turn(&mut sim, 8_050));
    let expected = [&[Some(CLEARED); 5][..], &[Some(SHRUNK); 3], &[None; 2]].concat();
    assert_eq!(pressure(&sim), expected, "the newest five have 40,000 tokens");
}

#[test]
fn what_is_spared_shrinks_with_the_window() {
    let mut sim = room(20_000);
    sim.agent.pruning.shrink_bytes = 600;
    fill(&mut sim, 0.85);
    (0..10).for_each(|_| tool_turn(&mut sim, 830));
    let expected =
        [&[Some(CLEARED); 5][..], &[Some(PruneForm::Shrunk { bytes: 600 }); 3], &[None; 2]].concat();
    assert_eq!(pressure(&sim), expected, "the newest five have 4,000 tokens");
}

#[test]
fn the_two_latest_turns_are_spared_from_clearing() {
    let mut sim = room(200_000);
    sim.agent.pruning.protect_tokens = 0;
    fill(&mut sim, 0.85);
    tool_turn(&mut sim, 10_000);
    for _ in 0..2 {
        sim.accept("look at all of them");
        sim.start_turn();
        (0..3).for_each(|_| sim.use_tool("fetch", Some(&text(10_000))));
        answer(&mut sim);
    }
    let (cleared, shrunk) = (Some(CLEARED), Some(SHRUNK));
    assert_eq!(pressure(&sim), [cleared, shrunk, shrunk, shrunk, shrunk, None, None]);
}

#[test]
fn a_result_is_pruned_only_after_a_call_has_seen_it() {
    let mut sim = room(200_000);
    sim.accept("look at all of them");
    sim.start_turn();
    (0..5).for_each(|_| sim.use_tool("fetch", Some(&text(39_000))));
    let shrunk = Some(SHRUNK);
    assert_eq!(pressure(&sim), [shrunk, shrunk, shrunk, None, None], "in the open turn, too");
    let seen = prune::shrink_seen(&sim.conversation, &sim.agent, PruneCause::Overflow);
    let overflow = forms(&sim, seen);
    assert_eq!(overflow.last(), Some(&None), "the newest was seen by no call");
}

#[test]
fn the_newest_result_of_a_keep_recent_tool_does_not_shrink() {
    let mut sim = room(200_000);
    sim.agent.result_guard.classes.insert("read_file".to_owned(), ResultClass::KeepRecent);
    for tool in ["read_file", "read_file", "fetch", "fetch", "fetch"] {
        sim.accept("go on");
        sim.start_turn();
        sim.use_tool(tool, Some(&text(34_000)));
        answer(&mut sim);
    }
    assert_eq!(pressure(&sim), [Some(SHRUNK), None, Some(SHRUNK), None, None]);
}

#[test]
fn pictures_of_a_result_are_measured_and_leave_with_its_words() {
    let mut sim = room(200_000);
    let tokens = |sim: &Sim| measure(&sim.conversation, &sim.agent).tokens;
    sim.accept("look");
    sim.start_turn();
    let before = tokens(&sim);
    let picture = |n: usize| Part::Image {
        name: Some(format!("{n}.png")),
        media_type: "image/png".to_owned(),
        data: "AAAA".to_owned(),
    };
    sim.use_tool_for(
        "camera",
        Some(std::iter::once(Part::text("seen")).chain((0..3).map(picture)).collect()),
    );
    assert!(tokens(&sim) - before > 3_000, "{}", tokens(&sim) - before);
    let sent = |sim: &Sim| {
        let results = sim.assemble().request.messages.into_iter().filter_map(|message| match message {
            ChatMessage::Tool { text, images, .. } => Some((text, images.len())),
            ChatMessage::User { .. } | ChatMessage::Assistant { .. } | ChatMessage::Context { .. } => None,
        });
        results.collect::<Vec<_>>()
    };
    assert_eq!(sent(&sim)[0], ("seen\n[image: 0.png]\n[image: 1.png]\n[image: 2.png]".to_owned(), 3));
    answer(&mut sim);
    (0..3).for_each(|_| tool_turn(&mut sim, 55_000));
    assert_eq!(pressure(&sim), [Some(SHRUNK), Some(SHRUNK), None, None], "few words, and large for all that");
    let full = tokens(&sim);
    let event = prune::pressure(&sim.conversation, &sim.agent).unwrap();
    sim.journal(event);
    assert!(full - tokens(&sim) > 3_000);
    let (text, images) = sent(&sim).remove(0);
    assert!(
        text.starts_with("seen\n[image: 0.png]") && text.ends_with("its pictures are left out"),
        "{text}"
    );
    assert_eq!(images, 0);
}

/// Five turns with a result each, the first one of that many characters; then a question, so long after.
fn waiting(usage: f64, chars: usize, secs: i64) -> Sim {
    let mut sim = room(200_000);
    sim.agent.pruning.mode = PruneMode::CacheTtl;
    sim.agent.cache_ttl_secs = 300;
    sim.accept("first");
    sim.start_turn();
    let words: String = text(10_000).chars().take(chars).collect();
    sim.use_tool("fetch", Some(&words));
    answer(&mut sim);
    (0..3).for_each(|_| tool_turn(&mut sim, 2_000));
    sim.report(1.0);
    fill(&mut sim, usage);
    sim.accept("are you there?");
    sim.start_turn();
    sim.pass(secs);
    sim
}

fn before_call(sim: &Sim) -> Vec<Option<PruneForm>> {
    forms(sim, prune::before_call(&sim.conversation, &sim.agent, sim.now))
}

#[rstest]
#[case::little_used(0.29, 4_001, 600, None)]
#[case::warm(0.31, 4_001, 200, None)]
#[case::short(0.31, 4_000, 600, None)]
#[case::long(0.31, 4_001, 600, Some(EDGES))]
#[case::half_full(0.49, 4_001, 600, Some(EDGES))]
#[case::more_than_half_full(0.51, 4_001, 600, Some(CLEARED))]
#[case::and_short(0.51, 1_000, 600, Some(CLEARED))]
fn a_cold_cache_has_old_results_shortened(
    #[case] usage: f64,
    #[case] chars: usize,
    #[case] secs: i64,
    #[case] expected: Option<PruneForm>,
) {
    let mut sim = waiting(usage, chars, secs);
    assert_eq!(before_call(&sim), [expected, None, None, None], "the last three replies are spared");
    if expected == Some(EDGES) {
        sim.emergency();
        let first = sim.conversation.live.iter().find(|entry| entry.role == Role::Tool).unwrap().clone();
        let (raw, sent) = (text_of(&first.parts), text_of(&sim.conversation.sent(&first).parts));
        let (head, rest) = sent.split_once("\n[...truncated...] ").unwrap();
        let (_notice, tail) = rest.split_once('\n').unwrap();
        assert_eq!((head.chars().count(), tail.chars().count()), (1_500, 1_500));
        assert!(raw.starts_with(head) && raw.ends_with(tail));
    }
}

#[test]
fn clearing_can_be_turned_off_and_a_later_call_of_the_turn_prunes_nothing() {
    let mut sim = waiting(0.51, 5_000, 600);
    sim.agent.pruning.hard_clear.enabled = false;
    assert_eq!(before_call(&sim)[0], Some(EDGES));
    sim.use_tool("fetch", Some("something"));
    sim.pass(600);
    assert_eq!(before_call(&sim), [None; 5]);
}

#[rstest]
#[case::a_short_one(1, "fake", Some(EDGES))]
#[case::a_long_one(900, "fake", None)]
#[case::a_long_one_that_another_model_has_not(900, "another", None)]
fn a_result_is_spared_for_as_long_as_the_cache_of_the_model_lives(
    #[case] ttl: u64,
    #[case] model: &str,
    #[case] at_once: Option<PruneForm>,
) {
    let mut sim = waiting(0.31, 5_000, 5);
    (sim.agent.cache_ttl_secs, sim.agent.model) = (ttl, model.to_owned());
    assert_eq!(before_call(&sim)[0], at_once);
    sim.pass(1_000);
    assert_eq!(before_call(&sim)[0], Some(EDGES));
}

#[test]
fn an_emergency_is_avoided_when_the_largest_results_shrink() {
    let mut sim = room(20_000);
    sim.agent.pruning.min_win_tokens = 1_000_000;
    sim.accept("look");
    sim.start_turn();
    for tokens in [2_000, 6_000, 4_000, 7_000, 500] {
        sim.use_tool("fetch", Some(&text(tokens)));
    }
    assert_eq!(sim.tier(), Tier::Emergency);
    let events = compaction::relieve(&sim.conversation, &sim.agent, sim.now);
    let [Event::Compaction(CompactionEvent::ResultsPruned { cause: PruneCause::Emergency, results, .. })] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    let calls = sim.conversation.live.iter().filter(|entry| entry.role == Role::Tool).map(|entry| entry.seq);
    let calls: Vec<Seq> = calls.collect();
    assert_eq!(results.iter().map(|pruned| pruned.seq).collect::<Vec<_>>(), [calls[3]], "one is enough");
    sim.emergency();
    assert!(sim.tier() < Tier::Emergency);
}

#[test]
fn what_cannot_shrink_enough_leaves_with_the_emergency_in_the_same_batch() {
    let mut sim = room(20_000);
    fill(&mut sim, 0.9);
    tool_turn(&mut sim, 1_500);
    fill(&mut sim, 1.3);
    let events = compaction::relieve(&sim.conversation, &sim.agent, sim.now);
    let [
        Event::Compaction(CompactionEvent::ResultsPruned { .. }),
        Event::Compaction(CompactionEvent::EmergencyApplied { tokens_before, .. }),
        ..,
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert!(
        *tokens_before < measure(&sim.conversation, &sim.agent).tokens,
        "the emergency did not measure again"
    );
    sim.agent.pruning.mode = PruneMode::Off;
    let events = compaction::relieve(&sim.conversation, &sim.agent, sim.now);
    assert!(matches!(events[0], Event::Compaction(CompactionEvent::EmergencyApplied { .. })), "{events:?}");
}

#[test]
fn an_overflow_shrinks_results_first_though_our_own_measure_sees_room() {
    let mut sim = room(20_000);
    sim.accept("look");
    sim.start_turn();
    (0..4).for_each(|_| sim.use_tool("fetch", Some(&text(3_500))));
    assert_eq!(sim.tier(), Tier::Calm);
    let before = measure(&sim.conversation, &sim.agent).tokens;
    let events = compaction::relieve_on_overflow(&sim.conversation, &sim.agent, sim.now);
    let [
        Event::Compaction(CompactionEvent::ResultsPruned {
            cause: PruneCause::Overflow, tokens_after, ..
        }),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert!(*tokens_after as f64 <= before as f64 * 0.7, "{tokens_after} of {before}");
}

#[test]
fn notices_keep_their_words() {
    let mut sim = room(20_000);
    sim.accept("look");
    sim.start_turn();
    sim.use_tool("fetch_page", Some(&format!("BEGIN {} END", "~".repeat(5_000))));
    let entry = sim.conversation.live.back().unwrap().as_ref().clone();
    let mut kept = entry.clone();
    kept.artifact = Some(ArtifactId::from("a7"));
    let pruned = |form, whole_bytes| PrunedResult {
        seq: entry.seq,
        form,
        tokens: 9,
        tool: "fetch_page".to_owned(),
        whole_bytes,
        artifact: None,
    };
    let shown = |entry: &cairn_types::message::Entry, pruned: PrunedResult| {
        text_of(&prune::as_sent(entry, &pruned).parts).replace('~', "")
    };
    let all: Vec<String> = [PruneForm::Shrunk { bytes: 300 }, PruneForm::Edges { chars: 46 }, CLEARED]
        .into_iter()
        .flat_map(|form| [shown(&entry, pruned(form, 5_010)), shown(&kept, pruned(form, 10_485_760))])
        .collect();
    insta::assert_snapshot!(all.join("\n---\n"));
}

#[test]
fn a_pruned_result_is_the_same_after_a_restart_and_a_run_reads_the_raw_words() {
    let mut sim = room(200_000);
    (0..5).for_each(|_| tool_turn(&mut sim, 34_000));
    assert_eq!(sim.watch(), None);
    sim.accept("and now?");
    sim.start_turn();
    let request = sim.assemble().request;
    for n in [0, sim.journal.len() / 2, sim.journal.len()] {
        let restored = sim.restored_from(n);
        assert_eq!(restored, sim.conversation);
        sim.conversation = restored;
        assert_eq!(sim.assemble().request, request);
    }
    sim.answer("yes");
    sim.manual();
    let run = sim.conversation.run.clone().unwrap();
    let source = sim.conversation.readable(&run, sim.conversation.live.iter().cloned());
    let longest = source.iter().map(|entry| entry.text().len()).max();
    assert!(longest > Some(100_000), "a run reads what was pruned: {longest:?} bytes");
    sim.commit("They looked at ferries.");
    sim.check_weights();
    sim.check_coverage();
}

#[test]
fn a_request_that_is_cut_keeps_the_reference_of_a_result() {
    let mut sim = room(3_000);
    sim.accept("look");
    sim.start_turn();
    sim.use_tool("fetch", None);
    let mut record = sim.journal.last().cloned().unwrap();
    let Event::Turn(TurnEvent::EntryAdded { entry }) = &mut record.event else { panic!("no call") };
    let call = entry.tool_calls[0].id.clone();
    let mut result = entry.clone();
    (result.seq, result.role, result.tool_calls) = (entry.seq.next(), Role::Tool, Vec::new());
    result.parts = vec![cairn_types::message::Part::text(text(9_000))];
    (result.tool_call_id, result.artifact) = (Some(call), Some(ArtifactId::from("a7")));
    result.tokens = cairn_core::window::entry_tokens(&result);
    let record =
        Record { n: record.n + 1, event: Event::Turn(TurnEvent::EntryAdded { entry: result }), ..record };
    sim.conversation.apply(&record).unwrap();
    let request = format!("{:?}", sim.assemble().request);
    assert!(
        request.contains("[...truncated...] all of it is artifact a7: read it with artifact_read"),
        "{request}"
    );
}

/// A loop of calls in a small window, each with a large result.
#[test]
fn in_a_loop_of_calls_the_oldest_results_give_way_so_that_the_next_has_room() {
    let mut sim = room(16_000);
    sim.accept("look");
    sim.start_turn();
    let least = sim.agent.window.usable_tokens() / 12;
    for _ in 0..20 {
        for event in compaction::relieve(&sim.conversation, &sim.agent, sim.now) {
            sim.journal(event);
        }
        let room = ResultRoom::of(&sim.conversation, &sim.agent);
        assert!(room.tokens >= least, "{} of {least} tokens", room.tokens);
        // As the guard lets it in.
        sim.use_tool("fetch", Some(&text(room.tokens - 200)));
    }
    let results: Vec<_> = sim.conversation.live.iter().filter(|entry| entry.role == Role::Tool).collect();
    let sent = |entry: &Arc<Entry>| text_of(&sim.conversation.sent(entry).parts).len();
    let sizes: Vec<usize> = results.iter().map(|entry| sent(entry)).collect();
    assert!(sizes[0] < 400 && sizes[19] > 2_000, "{sizes:?}");
    let first_whole = sizes.iter().position(|size| *size > 2_000).unwrap();
    assert!(
        sizes[first_whole..].iter().all(|size| *size > 2_000),
        "the newest are those that stay: {sizes:?}"
    );
}
