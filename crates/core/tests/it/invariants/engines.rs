//! The contract of context engines, by generated sequences over each of them, and what is special to `sliding`.

use std::collections::BTreeSet;
use std::sync::Arc;

use cairn_core::compaction::Decision;
use cairn_core::engine::{self, ContextEngine, MakeRoom, due};
use cairn_core::window::{Assembled, Tail, measure};
use cairn_types::event::{CompactionEvent, Event, Record, RunOutcome, TurnEvent};
use cairn_types::ids::{Seq, TurnId};
use cairn_types::model::ChatMessage;
use cairn_types::summary::MarkerKind;
use cairn_types::tier::Tier;
use proptest::prelude::*;
use rstest::rstest;

use crate::invariants::latest::Latest;
use crate::invariants::sim::Sim;

const LONG: &str = "We looked at seven flats in Lisbon and Anna liked the third one best, near the river, with two \
                    balconies and a lemon tree, for 1,450 euros a month from 1 June on.";

type Make = fn() -> Arc<dyn ContextEngine>;

fn standard() -> Arc<dyn ContextEngine> {
    engine::by_name(engine::STANDARD).unwrap()
}

fn sliding() -> Arc<dyn ContextEngine> {
    engine::by_name(engine::SLIDING).unwrap()
}

fn latest() -> Arc<dyn ContextEngine> {
    Arc::new(Latest::default())
}

/// A channel whose window an engine keeps, as the actors let it.
struct Stage {
    sim: Sim,
    make: Make,
    engine: Arc<dyn ContextEngine>,
    /// Records that the engine was told.
    told: usize,
    /// The request that was made last, and how many records there were then.
    made: Option<(Assembled, usize)>,
}

impl Stage {
    fn new(make: Make, window_tokens: u64) -> Self {
        let (sim, engine) = (Sim::new(window_tokens), make());
        engine.bootstrap(&sim.conversation);
        Self { sim, make, engine, told: 0, made: None }
    }

    fn tell(&mut self) {
        self.engine.ingest_many(&self.sim.conversation, &self.sim.journal[self.told..]);
        self.told = self.sim.journal.len();
    }

    fn journal(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|event| self.sim.journal(event));
        self.tell();
    }

    fn make_room(&mut self, cause: MakeRoom) -> bool {
        let events = self.engine.compact(&self.sim.conversation, &self.sim.agent, cause, self.sim.now);
        let made = !events.is_empty();
        self.journal(events);
        made
    }

    fn look(&mut self) {
        for _ in 0..8 {
            match due(&*self.engine, &self.sim.conversation, &self.sim.agent, self.sim.now) {
                Decision::Apply(events) => self.journal(events),
                Decision::Start(run) => {
                    assert!(!self.engine.info().owns_compaction, "an engine without runs got one");
                    return self.journal(vec![Event::Compaction(CompactionEvent::RunStarted { run: *run })]);
                }
                Decision::WaitUntil(until) => return self.sim.now = until,
                Decision::Idle => return,
            }
        }
        panic!("the engine finds no end");
    }

    fn turn(&mut self, text: &str) {
        self.sim.accept(text);
        self.sim.start_turn();
        self.tell();
        self.make_room(MakeRoom::Tier);
        self.check();
        self.sim.answer(text);
        self.tell();
        self.look();
    }

    /// A daemon that starts: nothing is known but what the journal says.
    fn restart(&mut self) {
        self.engine.dispose();
        self.sim.conversation = self.sim.restored_from(self.sim.journal.len());
        self.engine = (self.make)();
        self.engine.bootstrap(&self.sim.conversation);
        self.told = self.sim.journal.len();
    }

    fn new_generation(&mut self) {
        if self.sim.conversation.run.is_some() {
            self.sim.new_generation();
        } else {
            self.sim.stop();
            let generation = cairn_types::ids::Generation(self.sim.conversation.generation.0 + 1);
            self.sim.journal(Event::Turn(TurnEvent::SessionStarted { generation }));
        }
        self.tell();
        self.engine.reset(&self.sim.conversation);
    }

    fn check(&mut self) {
        let sim = &self.sim;
        sim.check_coverage();
        let live: BTreeSet<Seq> = sim.conversation.live.iter().map(|entry| entry.seq).collect();
        let turns: BTreeSet<&TurnId> = sim.conversation.live.iter().map(|entry| &entry.turn).collect();
        for entry in sim.spoken.values().filter(|entry| turns.contains(&entry.turn)) {
            assert!(live.contains(&entry.seq), "turn {} was parted at {}", entry.turn, entry.seq);
        }
        if let Some(open) = &sim.conversation.open_turn {
            assert!(live.contains(&open.first_seq), "the open turn has left");
        }
        self.check_fresh();
        self.check_request();
    }

    /// A fresh engine with the same conversation decides the same.
    fn check_fresh(&self) {
        let (conversation, agent, now) = (&self.sim.conversation, &self.sim.agent, self.sim.now);
        let fresh = (self.make)();
        fresh.bootstrap(conversation);
        assert_eq!(due(&*fresh, conversation, agent, now), due(&*self.engine, conversation, agent, now));
        for cause in [MakeRoom::Tier, MakeRoom::Overflow, MakeRoom::Manual] {
            let (theirs, ours) = (
                fresh.compact(conversation, agent, cause, now),
                self.engine.compact(conversation, agent, cause, now),
            );
            assert_eq!(theirs, ours, "{cause:?}");
        }
    }

    /// The request fits, and begins as the one before unless something was decided in between.
    fn check_request(&mut self) {
        let sim = &self.sim;
        if sim.conversation.open_turn.is_none() {
            return;
        }
        let tail = Tail {
            now: sim.now,
            zone: jiff::tz::TimeZone::UTC,
            recalled: Vec::new(),
            quotes: Vec::new(),
            last_call: false,
        };
        let made = self.engine.assemble(&sim.conversation, &sim.agent, &tail).unwrap();
        assert!(made.tokens <= sim.agent.window.usable_tokens(), "{} tokens do not fit", made.tokens);
        let n = sim.journal.len();
        let is_whole = made.shortened.is_empty() && made.request.messages.len() > sim.conversation.live.len();
        if let Some((before, since)) = self.made.take().filter(|_| is_whole) {
            let decided = |record: &Record| match &record.event {
                Event::Compaction(
                    CompactionEvent::WindowSlid { .. }
                    | CompactionEvent::EmergencyApplied { .. }
                    | CompactionEvent::StackRetired { .. }
                    | CompactionEvent::ResultsPruned { .. },
                )
                | Event::Turn(TurnEvent::SessionStarted { .. } | TurnEvent::Undone { .. }) => true,
                Event::Compaction(CompactionEvent::RunEnded(end)) => end.summary.is_some(),
                _ => false,
            };
            if !sim.journal[since..n].iter().any(decided) {
                assert_eq!(before.request.system, made.request.system);
                let (last, stable) = before.request.messages.split_last().unwrap();
                assert!(matches!(last, ChatMessage::Context { .. }));
                assert_eq!(stable, &made.request.messages[..stable.len()], "the prefix changed by itself");
            }
        }
        self.made = is_whole.then_some((made, n));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Accept(usize),
    Start,
    CallTool(usize),
    Answer(usize),
    Look,
    Commit,
    Overflow,
    Manual,
    Undo,
    New,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..200_usize).prop_map(Step::Accept),
        1 => (2_000..4_000_usize).prop_map(Step::Accept),
        8 => Just(Step::Start),
        3 => (0..300_usize).prop_map(Step::CallTool),
        8 => (0..200_usize).prop_map(Step::Answer),
        6 => Just(Step::Look),
        4 => Just(Step::Commit),
        1 => Just(Step::Overflow),
        1 => Just(Step::Manual),
        1 => Just(Step::Undo),
        1 => Just(Step::New),
        2 => Just(Step::Restart),
    ]
}

fn carry_out(stage: &mut Stage, step: &Step) {
    let words = |n: &usize| format!("{n} {}", "on 12 May ".repeat(n / 3));
    match step {
        Step::Accept(n) => stage.sim.accept(&words(n)),
        Step::Start => stage.sim.start_turn(),
        Step::CallTool(n) => stage.sim.call_tool(Some(&words(n))),
        Step::Answer(n) => {
            stage.make_room(MakeRoom::Tier);
            stage.sim.answer(&words(n));
        }
        Step::Look => stage.look(),
        Step::Commit => stage.sim.commit("They talked about a date in May."),
        Step::Overflow => drop(stage.make_room(MakeRoom::Overflow)),
        Step::Manual if stage.engine.info().owns_compaction => drop(stage.make_room(MakeRoom::Manual)),
        Step::Manual => stage.sim.manual(),
        Step::Undo => drop(stage.sim.undo()),
        Step::New => stage.new_generation(),
        Step::Restart => stage.restart(),
    }
    stage.tell();
    // As every turn does before it calls the model.
    if stage.sim.conversation.open_turn.is_some() {
        stage.make_room(MakeRoom::Tier);
    }
}

fn hold_to_contract(make: Make, steps: &[Step]) {
    let mut stage = Stage::new(make, 3_000);
    for step in steps {
        carry_out(&mut stage, step);
        stage.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_standard_engine_keeps_the_contract(steps in proptest::collection::vec(step(), 1..60)) {
        hold_to_contract(standard, &steps);
    }

    #[test]
    fn the_sliding_engine_keeps_the_contract(steps in proptest::collection::vec(step(), 1..60)) {
        hold_to_contract(sliding, &steps);
    }

    #[test]
    fn an_engine_with_a_state_of_its_own_keeps_the_contract(steps in proptest::collection::vec(step(), 1..60)) {
        hold_to_contract(latest, &steps);
    }
}

#[rstest]
#[case(standard)]
#[case(sliding)]
#[case(latest)]
fn a_long_talk_fits_under_every_engine(#[case] make: Make) {
    let mut stage = Stage::new(make, 3_000);
    for n in 0..80 {
        stage.turn(&format!("{LONG} ({n})"));
        stage.sim.commit("Seven flats were seen.");
        stage.tell();
        if n % 9 == 0 {
            stage.restart();
        }
        stage.check();
    }
    let owns = stage.engine.info().owns_compaction;
    assert_eq!(stage.sim.conversation.runs == 0, owns, "runs under an engine that has none, or none at all");
}

#[test]
fn engines_are_known_by_name() {
    assert_eq!(engine::names(), [engine::STANDARD, engine::SLIDING]);
    for name in engine::names() {
        assert_eq!(engine::by_name(name).unwrap().info().id, name);
    }
    assert!(engine::by_name("none").is_none());
}

#[test]
fn the_window_slides_from_the_background_tier_on_and_not_at_every_turn() {
    let mut stage = Stage::new(sliding, 6_000);
    let (mut n_slides, mut n_turns) = (0, 0);
    while n_slides < 4 {
        let before = stage.sim.journal.len();
        stage.turn(LONG);
        n_turns += 1;
        for record in &stage.sim.journal[before..] {
            let Event::Compaction(CompactionEvent::WindowSlid {
                marker,
                messages,
                tokens_before,
                tokens_after,
            }) = &record.event
            else {
                continue;
            };
            n_slides += 1;
            let usable = stage.sim.agent.window.usable_tokens() as f64;
            assert!(*tokens_before as f64 >= 0.80 * usable, "it slid below the threshold");
            assert!(*tokens_after as f64 <= 0.60 * usable, "it slid too little: {tokens_after}");
            assert_eq!((marker.kind, messages % 2), (MarkerKind::Retired, 0), "a turn was parted");
        }
        assert!(n_turns < 200);
    }
    assert!(n_turns > 4 * 3, "{n_turns} turns for four slides");
    let items = stage.sim.conversation.stack.items();
    assert_eq!(items.len(), 1, "one marker leads, whatever has left");
    assert_eq!(items[0].range().0, Seq(1));
    assert_eq!(stage.sim.conversation.emergencies, 0);
}

#[test]
fn sliding_spares_the_reserved_tail_until_an_emergency() {
    let mut stage = Stage::new(sliding, 1_500);
    stage.turn(&LONG.repeat(3));
    stage.turn(&LONG.repeat(3));
    assert_eq!(stage.sim.live().len(), 4, "the two latest turns stay");
    stage.sim.accept(LONG);
    stage.sim.start_turn();
    while stage.sim.tier() < Tier::Emergency {
        stage.sim.call_tool(Some(LONG));
    }
    stage.tell();
    assert!(stage.make_room(MakeRoom::Tier), "only the open turn is spared then");
    assert!(stage.sim.tier() < Tier::Emergency);
    stage.check();
}

#[test]
fn a_model_that_takes_less_is_sent_less_at_once() {
    let mut stage = Stage::new(sliding, 20_000);
    for _ in 0..10 {
        stage.turn(LONG);
    }
    assert_eq!(stage.sim.tier(), Tier::Calm);
    let refused = measure(&stage.sim.conversation, &stage.sim.agent).tokens;
    assert!(stage.make_room(MakeRoom::Overflow));
    let sent = measure(&stage.sim.conversation, &stage.sim.agent).tokens;
    assert!(sent as f64 <= refused as f64 * 0.75, "{sent} after {refused}");
    assert!(stage.sim.live().len() > 4, "more than was needed has left");
    stage.check();
}

#[test]
fn room_is_made_when_somebody_asks_below_every_threshold() {
    let mut stage = Stage::new(sliding, 20_000);
    stage.sim.agent.compaction.reserve_ratio = 0.0;
    for _ in 0..10 {
        stage.turn(LONG);
    }
    assert!(stage.make_room(MakeRoom::Manual));
    assert_eq!(stage.sim.live().len(), 2, "all but the last turn leave");
    assert!(!stage.make_room(MakeRoom::Manual));
}

#[test]
fn from_summaries_to_sliding_and_back() {
    let mut stage = Stage::new(standard, 3_000);
    let summaries = |stage: &Stage| stage.sim.conversation.stack.summaries().count();
    while summaries(&stage) < 2 {
        stage.turn(LONG);
        stage.sim.commit("Seven flats were seen.");
        stage.tell();
    }
    while stage.sim.conversation.run.is_none() {
        stage.turn(LONG);
    }
    let request = cairn_types::event::RunRequest {
        trigger: cairn_types::event::Trigger::Manual,
        instruction: None,
        tell: false,
    };
    stage.journal(vec![Event::Compaction(CompactionEvent::RunQueued { request })]);
    let kept = summaries(&stage);

    stage.make = sliding;
    stage.restart();
    stage.look();
    let ended =
        |stage: &Stage| stage.sim.conversation.outcomes.iter().map(|end| end.outcome).collect::<Vec<_>>();
    assert_eq!(ended(&stage).iter().filter(|outcome| **outcome == RunOutcome::Cancelled).count(), 2);
    assert!(!stage.sim.conversation.is_unfinished());
    for _ in 0..30 {
        stage.turn(LONG);
    }
    assert_eq!(summaries(&stage), kept, "what was summarised is still shown");
    assert_eq!(stage.sim.n_markers(), 1);
    let runs = stage.sim.conversation.runs;

    stage.make = standard;
    stage.restart();
    while stage.sim.conversation.runs == runs {
        stage.turn(LONG);
    }
    stage.sim.commit("More flats were seen.");
    stage.tell();
    stage.check();
    assert!(summaries(&stage) > kept, "summaries follow the marker");
}
