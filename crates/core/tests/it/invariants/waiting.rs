//! When a run starts that is due: the number of messages, the cold cache, the hour's budget; and the cap of the stack.

use cairn_core::agent::AgentSettings;
use cairn_core::compaction::{Decision, NothingToCompact, give_up, next_run, over_budget, request_manual};
use cairn_core::summary::{StackSizes, stack_cap};
use cairn_types::event::{CompactionEvent, Event, Run, RunOutcome, RunWork, Trigger};
use cairn_types::ids::Seq;
use cairn_types::model::Usage;
use cairn_types::tier::Tier;
use cairn_types::tokens::Correction;
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;

use crate::invariants::sim::Sim;

const LONG: &str = "We looked at seven flats in Lisbon and Anna liked the third one best, near the river, with two \
                    balconies and a lemon tree, for 1,450 euros a month from 1 June on.";

fn filled_to(tier: Tier) -> Sim {
    let mut sim = Sim::new(3_000);
    while sim.tier() < tier {
        sim.accept(LONG);
        sim.start_turn();
        sim.stop();
    }
    sim.agent.cache_ttl_secs = 300;
    sim
}

fn due(sim: &Sim) -> Decision {
    next_run(&sim.conversation, &sim.agent, sim.now)
}

fn started(sim: &Sim) -> Trigger {
    match due(sim) {
        Decision::Start(run) => run.trigger,
        other => panic!("no run: {other:?}"),
    }
}

fn waits_until(sim: &Sim) -> Timestamp {
    match due(sim) {
        Decision::WaitUntil(until) => until,
        other => panic!("it does not wait: {other:?}"),
    }
}

fn spend(sim: &mut Sim, tokens: u64) -> Timestamp {
    let usage =
        Usage { input_tokens: tokens - 10, output_tokens: 10, cached_tokens: 0, cache_write_tokens: 0 };
    let model = "offline".to_owned();
    sim.journal(Event::Compaction(CompactionEvent::UsageSpent {
        model,
        usage,
        is_estimate: false,
        trace: None,
    }));
    sim.now
}

#[test]
fn what_a_cancelled_run_took_and_tells_late_is_not_counted_to_the_next() {
    let mut sim = filled_to(Tier::Background);
    sim.manual();
    let run = sim.conversation.run.clone().unwrap().id;
    let usage = Usage { input_tokens: 90, output_tokens: 10, cached_tokens: 0, cache_write_tokens: 0 };
    let mut told = |of: &str| {
        let trace = json!({
            "at_n": 1, "asked_at": 0, "frame": "f0", "total_ms": 9, "work": { "run": of, "round": 1 },
        });
        sim.journal(Event::Compaction(CompactionEvent::UsageSpent {
            model: "offline".to_owned(),
            usage,
            is_estimate: false,
            trace: serde_json::from_value(trace).unwrap(),
        }));
        let run = sim.conversation.run.as_ref().unwrap();
        (
            run.spent.values().map(|usage| usage.tokens()).sum::<u64>(),
            sim.conversation.spent_within_hour(sim.now),
        )
    };
    assert_eq!(told("r0"), (0, 100), "the hour counts it all the same");
    assert_eq!(told(run.as_str()), (100, 200));
}

#[rstest]
#[case::waits(Tier::Background, true, true)]
#[case::by_default_not(Tier::Background, false, false)]
#[case::urgent(Tier::Aggressive, true, false)]
fn a_run_that_is_not_urgent_waits_for_the_cache_to_go_cold(
    #[case] tier: Tier,
    #[case] when_cold: bool,
    #[case] waits: bool,
) {
    let mut sim = filled_to(tier);
    sim.report(1.0);
    let asked = sim.now;
    sim.agent.compaction.when_cold = when_cold;
    sim.pass(299);
    if waits {
        assert_eq!(waits_until(&sim), asked + SignedDuration::from_secs(300));
        sim.pass(1);
    }
    assert_eq!(started(&sim), Trigger::Threshold);
}

#[test]
fn neither_a_manual_run_nor_a_truncated_range_waits_for_anything() {
    let mut sim = filled_to(Tier::Emergency);
    sim.agent.compaction.when_cold = true;
    sim.agent.compaction.tokens_per_hour = 100;
    assert!(sim.emergency());
    spend(&mut sim, 1_000);
    sim.report(1.0);
    assert_eq!(started(&sim), Trigger::Emergency);
    sim.manual();
    assert_eq!(sim.conversation.run.as_ref().map(|run| run.trigger), Some(Trigger::Manual));
}

#[test]
fn a_run_over_the_budget_waits_until_it_frees_unless_it_is_urgent() {
    let mut sim = filled_to(Tier::Background);
    sim.agent.compaction.tokens_per_hour = 1_000;
    assert_eq!(started(&sim), Trigger::Threshold);
    let first = spend(&mut sim, 600);
    assert!(!over_budget(&sim.conversation, &sim.agent, sim.now));
    sim.pass(600);
    let second = spend(&mut sim, 400);
    sim.pass(600);
    spend(&mut sim, 700);
    assert!(over_budget(&sim.conversation, &sim.agent, sim.now));
    let hour = SignedDuration::from_hours(1);
    assert_eq!(waits_until(&sim), second + hour, "the first alone frees too little");
    sim.now = first + hour;
    assert!(over_budget(&sim.conversation, &sim.agent, sim.now));
    sim.now = second + hour;
    assert_eq!(started(&sim), Trigger::Threshold);
    sim.now = first + SignedDuration::from_mins(30);
    sim.agent.compaction.aggressive_threshold = 0.801;
    while sim.tier() < Tier::Aggressive {
        sim.accept(LONG);
        sim.start_turn();
        sim.stop();
    }
    assert!(over_budget(&sim.conversation, &sim.agent, sim.now));
    assert_eq!(started(&sim), Trigger::Threshold, "at the aggressive tier it is urgent");
    sim.agent.compaction.tokens_per_hour = 0;
    assert!(!over_budget(&sim.conversation, &sim.agent, sim.now), "0 is no cap");
}

#[test]
fn what_runs_took_within_the_hour_is_kept_by_the_minute_however_many_they_are() {
    let mut sim = filled_to(Tier::Background);
    let taken: Vec<Timestamp> = (0..4_000).map(|_| spend(&mut sim, 100)).collect();
    assert!(sim.conversation.spent.len() <= 61, "{}", sim.conversation.spent.len());
    let within = |minutes: i64| {
        let since = sim.now - SignedDuration::from_mins(minutes);
        100 * taken.iter().filter(|at| **at > since).count() as u64
    };
    let counted = sim.conversation.spent_within_hour(sim.now);
    assert!((within(60)..=within(61)).contains(&counted), "{counted} of {}", within(60));
    assert!(within(61) < 400_000, "some is older");
}

#[test]
fn too_many_messages_are_a_run_below_every_threshold() {
    let mut sim = Sim::new(40_000);
    sim.agent.compaction.reserve_ratio = 0.0;
    sim.agent.compaction.max_messages = 20;
    (0..10).for_each(|_| sim.turn(LONG, "yes"));
    assert_eq!(due(&sim), Decision::Idle, "20 are not more than 20");
    sim.turn(LONG, "yes");
    assert_eq!(sim.tier(), Tier::Calm);
    let run = sim.watch().unwrap();
    assert_eq!((run.trigger, run.messages), (Trigger::Messages, 12), "then 50 % of 20 are free");
    sim.commit("They agreed.");
    assert_eq!(due(&sim), Decision::Idle);
    sim.agent.compaction.max_messages = 0;
    (0..30).for_each(|_| sim.turn("and?", "yes"));
    assert_eq!(due(&sim), Decision::Idle, "off by default");
}

#[rstest]
#[case(4, 150)]
#[case(20, 100)]
#[case(60, 35)]
fn so_many_messages_are_kept_in_sight_however_small_and_no_turn_has_its_own_run(
    #[case] most: u64,
    #[case] runs_max: u32,
) {
    let mut sim = Sim::new(40_000);
    sim.agent.compaction.max_messages = most;
    let mut runs = 0;
    for _ in 0..300 {
        sim.turn(&LONG.repeat(4), "yes");
        while let Some(run) = sim.watch() {
            runs += u32::from(run.trigger == Trigger::Messages);
            sim.commit("They agreed.");
        }
        assert!(sim.live().len() as u64 <= most.max(6), "{} in sight", sim.live().len());
    }
    assert!(runs <= runs_max, "{runs} runs in 300 turns");
    sim.check_coverage();
}

#[rstest]
#[case(0.25, 0, 25_000)]
#[case(0.25, 4_000, 4_000)]
#[case(0.25, 40_000, 25_000)]
#[case(0.10, 0, 10_000)]
fn the_stack_is_capped_by_its_share_or_its_tokens(#[case] share: f64, #[case] tokens: u64, #[case] cap: u64) {
    let mut sim = Sim::new(101_000);
    sim.agent.window.output_reserve_tokens = 1_000;
    sim.agent.compaction.stack_share = share;
    sim.agent.compaction.stack_tokens = tokens;
    assert_eq!(stack_cap(&sim.agent), cap);
}

#[test]
fn the_stack_keeps_to_its_cap_in_tokens_and_leaves_nothing_out() {
    let mut sim = Sim::new(4_000);
    sim.agent.compaction.stack_tokens = 320;
    sim.agent.compaction.fan_out = 20;
    for _ in 0..120 {
        sim.turn(LONG, LONG);
        while sim.watch().is_some() {
            sim.commit("Anna wants the third flat, near the river, for 1,450 euros a month.");
        }
        assert!(sim.conversation.stack.tokens() <= 320, "{} tokens", sim.conversation.stack.tokens());
    }
    assert_eq!(sim.n_markers(), 0);
    sim.check_coverage();
}

#[test]
fn without_compaction_only_what_is_asked_for_runs_and_the_emergency_stays() {
    let mut sim = filled_to(Tier::Emergency);
    sim.agent.compaction.enabled = false;
    assert_eq!(due(&sim), Decision::Idle);
    assert!(sim.emergency());
    assert_eq!(due(&sim), Decision::Idle, "not even over the range that it left");
    sim.manual();
    let run = sim.conversation.run.clone().unwrap();
    assert_eq!((run.trigger, run.work), (Trigger::Manual, RunWork::Sealed));
}

#[test]
fn what_a_clock_that_was_ahead_has_spent_holds_no_run_up() {
    let mut sim = filled_to(Tier::Background);
    sim.agent.compaction.tokens_per_hour = 1_000;
    let now = sim.now;
    sim.pass(365 * 24 * 3_600);
    spend(&mut sim, 5_000);
    assert!(over_budget(&sim.conversation, &sim.agent, sim.now));
    sim.now = now;
    assert!(!over_budget(&sim.conversation, &sim.agent, sim.now));
    assert_eq!(started(&sim), Trigger::Threshold);
}

#[test]
fn who_asks_for_a_run_comes_after_those_who_asked_before() {
    let mut sim = filled_to(Tier::Background);
    sim.manual();
    (0..4).for_each(|_| sim.turn(LONG, LONG));
    sim.manual();
    let ended = give_up(&sim.conversation, &sim.agent, RunOutcome::Failed, "no model", sim.now).unwrap();
    sim.journal(ended);
    assert_eq!((sim.conversation.run.is_none(), sim.conversation.queued_runs.len()), (true, 1));
    let asked = request_manual(&sim.conversation, &sim.agent, Some("prices".to_owned()), true, sim.now);
    assert!(matches!(asked, Some(Event::Compaction(CompactionEvent::RunQueued { .. }))), "{asked:?}");
}

/// The run that somebody asks for, as it begins.
fn asked(sim: &mut Sim, instruction: Option<&str>) -> Option<Run> {
    let instruction = instruction.map(str::to_owned);
    match request_manual(&sim.conversation, &sim.agent, instruction, false, sim.now)? {
        Event::Compaction(CompactionEvent::RunStarted { run }) => {
            sim.journal(Event::Compaction(CompactionEvent::RunStarted { run: run.clone() }));
            Some(run)
        }
        queued => {
            sim.journal(queued);
            None
        }
    }
}

#[test]
fn all_but_the_last_turn_is_compacted_on_request_below_every_threshold() {
    let mut sim = Sim::new(200_000);
    (0..3).for_each(|_| sim.turn(LONG, LONG));
    assert_eq!(sim.tier(), Tier::Calm);
    let run = asked(&mut sim, None).unwrap();
    assert_eq!((run.from_seq, run.to_seq, run.work), (Seq(1), Seq(4), RunWork::Sealed));
    sim.commit("Flats.");
    assert_eq!(asked(&mut sim, None), None);
    let why = NothingToCompact::of(&sim.conversation, &sim.agent);
    assert_eq!((why.messages, why.turns, why.free_messages, why.compacted), (2, 1, 0, 4));
    let words = why.to_string();
    assert!(words.starts_with("nothing to compact: 2 messages in 1 turn ("), "{words}");
    assert!(
        words.ends_with("the last turn always stays; 4 messages before them summarised already"),
        "{words}"
    );
}

#[test]
fn an_instruction_behind_a_run_that_was_asked_for_makes_its_summary_again() {
    let mut sim = Sim::new(200_000);
    (0..3).for_each(|_| sim.turn(LONG, LONG));
    let first = asked(&mut sim, None).unwrap();
    assert_eq!(asked(&mut sim, None), None, "the same is about the run under way");
    assert!(sim.conversation.queued_runs.is_empty());
    assert_eq!(asked(&mut sim, Some("prices")), None);
    assert_eq!(sim.conversation.queued_runs.len(), 1);
    sim.turn(LONG, LONG);
    sim.commit("Flats.");
    let second = sim.watch().unwrap();
    assert_eq!(second.instruction.as_deref(), Some("prices"));
    assert_eq!((second.from_seq, second.to_seq, second.messages), (first.from_seq, Seq(6), 6));
    assert_eq!(sim.conversation.n_sealed(), 2, "what is new is sealed");
    sim.commit("Flats at 1,450 euros.");
    sim.check_coverage();
    let texts: Vec<_> = sim.conversation.stack.summaries().map(|summary| summary.text.as_str()).collect();
    assert_eq!(texts, ["Flats at 1,450 euros."]);
    assert_eq!(due(&sim), Decision::Idle);
}

#[test]
fn an_instruction_with_nothing_new_makes_the_newest_summary_again() {
    let mut sim = Sim::new(200_000);
    (0..3).for_each(|_| sim.turn(&LONG.repeat(4), LONG));
    asked(&mut sim, None).unwrap();
    sim.commit("Flats.");
    let again = asked(&mut sim, Some("prices")).unwrap();
    assert_eq!((again.from_seq, again.to_seq, &again.work), (Seq(1), Seq(4), &RunWork::Truncated));
    assert!(!again.takes_digest(), "a digest is no better than what is there");
    sim.give_up();
    assert_eq!(sim.conversation.stack.summaries().count(), 1, "what was there stays");
    asked(&mut sim, Some("prices")).unwrap();
    sim.commit("Flats at 1,450 euros.");
    sim.check_coverage();
    let texts: Vec<_> = sim.conversation.stack.summaries().map(|summary| summary.text.as_str()).collect();
    assert_eq!(texts, ["Flats at 1,450 euros."]);
    sim.turn(LONG, LONG);
    let next = asked(&mut sim, Some("prices")).unwrap();
    assert_eq!((next.from_seq, next.replaces), (Seq(5), None), "what is new comes alone");
}

#[test]
fn a_cap_of_the_stack_in_tokens_bounds_single_summaries() {
    let mut agent = Sim::new(32_000).agent;
    let largest = |agent: &AgentSettings| StackSizes::of(agent, &Correction::default(), 0).summary(100_000);
    let by_share = largest(&agent);
    agent.compaction.stack_tokens = 2_400;
    assert_eq!(largest(&agent), 480, "a fifth");
    assert!(by_share > 480);
}
