//! The stack over long conversations: whatever models count, write or refuse, it stands for everything and keeps its share.

use std::sync::Arc;

use cairn_core::compaction::{self, Decision};
use cairn_core::summary::stack_cap;
use cairn_types::event::{CompactionEvent, Event, Run, RunWork, Trigger};
use cairn_types::message::Entry;
use cairn_types::summary::{Marker, MarkerKind, StackItem, Summary};
use cairn_types::tokens::estimate;
use proptest::prelude::*;

use crate::invariants::sim::Sim;

#[derive(Debug, Clone, Copy)]
enum Fate {
    /// A summary of that share of what it may take.
    Written(f64),
    /// No model answers: a digest stands in, or it fails.
    Unanswered,
    /// It is still under way for so many turns.
    Late(usize),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => (0.0..3.0_f64).prop_map(Fate::Written),
        2 => Just(Fate::Unanswered),
        1 => (1..12_usize).prop_map(Fate::Late),
    ]
}

/// A summary of so many tokens, with headings or without.
fn summary(n: u64, tokens: u64, headed: bool) -> String {
    let mut text = String::new();
    let headings = ["## Progress", "## Key decisions", "## Active topics and open commitments"];
    let mut line = 0;
    while u64::from(estimate(&text)) < tokens {
        if headed && line % 7 == 0 {
            text.push_str(headings[line / 7 % headings.len()]);
            text.push('\n');
        }
        text.push_str(&format!("- Anna agreed on point {n}.{line} with Ben, for {} euros\n", 100 + line));
        line += 1;
    }
    text
}

struct Long {
    sim: Sim,
    ratio: f64,
    /// Turns for which the run under way goes on.
    late: usize,
}

impl Long {
    fn new(window: u64, ratio: f64) -> Self {
        Self { sim: Sim::new(window), ratio, late: 0 }
    }

    /// A turn of about a fortieth of the window.
    fn turn(&mut self, n: usize) {
        let words = self.sim.agent.window.usable_tokens() as usize / 60;
        let said =
            |what: &str| format!("{what} {n}: {}", "and the lemon tree by the river ".repeat(words / 6 + 1));
        self.sim.turn(&said("question"), &said("answer"));
        self.sim.report(self.ratio);
    }

    fn sources(&self, run: &Run) -> (Vec<Arc<Entry>>, Vec<Summary>) {
        match &run.work {
            RunWork::Merge { sources, .. } => {
                let stack = &self.sim.conversation.stack;
                (Vec::new(), sources.iter().filter_map(|id| stack.summary(id)).cloned().collect())
            }
            RunWork::Sealed | RunWork::Truncated => {
                let said = self.sim.spoken.range(run.from_seq..=run.to_seq);
                (said.map(|(_, entry)| entry.clone()).collect(), Vec::new())
            }
        }
    }

    fn end(&mut self, run: &Run, fate: Fate) {
        let sizes = self.sim.sizes();
        let (entries, sources) = self.sources(run);
        match fate {
            Fate::Written(share) if share > 0.05 => {
                let asked = match run.work {
                    RunWork::Merge { level, .. } => sizes.level(level + 1),
                    RunWork::Sealed | RunWork::Truncated => sizes.fresh,
                };
                let tokens = (asked as f64 * share) as u64;
                self.sim.commit(&summary(run.from_seq.0, tokens, share < 1.5));
            }
            Fate::Written(_) | Fate::Unanswered => {
                if run.takes_digest() {
                    let draft = self.sim.digest(run, &entries, &sources);
                    self.sim.commit_digest(&draft.text);
                } else {
                    self.sim.give_up();
                }
            }
            Fate::Late(turns) => self.late = turns,
        }
    }

    /// What the compactor does until nothing is due, or until it waits.
    fn look(&mut self, fates: &mut dyn Iterator<Item = Fate>) {
        self.late = self.late.saturating_sub(1);
        if self.late > 0 {
            return;
        }
        for _ in 0..40 {
            if let Some(run) = self.sim.conversation.run.clone() {
                self.end(&run, fates.next().unwrap());
                if self.late > 0 {
                    return;
                }
            }
            match compaction::next_run(&self.sim.conversation, &self.sim.agent, self.sim.now) {
                Decision::Start(run) => {
                    self.sim.journal(Event::Compaction(CompactionEvent::RunStarted { run: *run }))
                }
                Decision::Apply(events) => events.into_iter().for_each(|event| self.sim.journal(event)),
                Decision::Idle | Decision::WaitUntil(_) => return,
            }
        }
    }

    /// Contiguous from the first entry, within its share, no item without words, no text rewritten more often than it may be.
    fn check(&self) {
        let conversation = &self.sim.conversation;
        let stack = &conversation.stack;
        let mut next = conversation.first_seq;
        for item in stack.items() {
            assert_eq!(item.range().0, next, "the stack has a gap");
            next = item.range().1.next();
            match item {
                StackItem::Summary(summary) => {
                    // While there is room it stays whole. It was bounded by the correction of then, which grows a little with
                    // some reports.
                    let most = self.sim.sizes().soft * 11 / 10;
                    assert!(!summary.text.trim().is_empty(), "{} says nothing", summary.id);
                    assert!(
                        u64::from(summary.tokens) <= most.max(48),
                        "{} takes {} of {most} tokens",
                        summary.id,
                        summary.tokens
                    );
                }
                StackItem::Marker(marker) => {
                    assert!(!marker.digest.is_empty(), "the marker at {} says nothing", marker.from_seq);
                }
            }
        }
        assert_eq!(conversation.live.front().map_or(conversation.next_seq, |entry| entry.seq), next);
        let correction = conversation.correction(&self.sim.agent.model);
        let (is, most) = (correction.apply(stack.tokens()), stack_cap(&self.sim.agent));
        // Beside a run under way an emergency may add a line, until the run has ended.
        let more = if conversation.run.is_some() { correction.apply(80) } else { 0 };
        assert!(is <= most + more, "the stack takes {is} of {most} tokens");
        let n = conversation.next_seq.0 as f64;
        let rewrites = stack.summaries().map(|summary| summary.level + 1).max().unwrap_or(0);
        assert!(f64::from(rewrites) <= 4.0 + n.ln(), "{rewrites} rewrites after {n} entries");
    }

    /// All models are well, and time goes by.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            if let Some(run) = self.sim.conversation.run.clone() {
                self.late = 0;
                self.end(&run, Fate::Written(0.8));
            }
            match compaction::next_run(&self.sim.conversation, &self.sim.agent, self.sim.now) {
                Decision::Start(run) => {
                    self.sim.journal(Event::Compaction(CompactionEvent::RunStarted { run: *run }))
                }
                Decision::Apply(events) => events.into_iter().for_each(|event| self.sim.journal(event)),
                Decision::WaitUntil(until) => self.sim.now = until,
                Decision::Idle => return,
            }
        }
        panic!("the compactor never rests");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_stack_stands_for_everything_within_its_share(
        scale in 0.0..1.0_f64,
        ratio in 0.7..2.5_f64,
        length in 40..200_usize,
        fates in proptest::collection::vec(fate(), 1..30),
        restart_at in 0..120_usize,
    ) {
        let window = (4_000.0 * 50.0_f64.powf(scale)) as u64;
        // Texts grow with the window: fewer of them fill it as well.
        let turns = (length as f64 / (1.0 + 4.0 * scale)) as usize;
        let mut long = Long::new(window, ratio);
        let mut fates = fates.into_iter().chain([Fate::Written(1.0)]).cycle();
        for n in 0..turns {
            long.turn(n);
            long.look(&mut fates);
            if n == restart_at {
                long.sim.conversation = long.sim.restored_from(long.sim.journal.len() / 2);
            }
            long.check();
        }
        long.settle();
        long.check();
        long.sim.check_coverage();
        prop_assert_eq!(long.sim.n_markers(), 0, "a range without a summary");
        let provisional = long.sim.conversation.stack.summaries().filter(|summary| summary.provisional).count();
        prop_assert_eq!(provisional, 0, "a digest that was never made again");
    }
}

#[test]
fn a_digest_is_made_again_from_its_entries_when_a_model_is_well() {
    let mut long = Long::new(8_000, 1.0);
    let mut failing = std::iter::repeat(Fate::Unanswered);
    let mut n = 0;
    while long.sim.conversation.stack.summaries().next().is_none() {
        long.turn(n);
        long.look(&mut failing);
        n += 1;
    }
    let digest = long.sim.conversation.stack.summaries().next().unwrap().clone();
    assert!(digest.provisional);
    long.sim.conversation = long.sim.restored_from(long.sim.journal.len());
    let run = loop {
        match compaction::next_run(&long.sim.conversation, &long.sim.agent, long.sim.now) {
            Decision::Start(run) => break *run,
            Decision::WaitUntil(until) => long.sim.now = until,
            other => panic!("nothing is made again: {other:?}"),
        }
    };
    assert_eq!((run.trigger, &run.work), (Trigger::Provisional, &RunWork::Truncated));
    assert_eq!((run.from_seq, run.to_seq), (digest.from_seq, digest.to_seq));
    // It fails: the digest stays as it is, nothing else waits for it, and it is tried again later.
    long.sim.journal(Event::Compaction(CompactionEvent::RunStarted { run }));
    long.sim.give_up();
    assert_eq!(long.sim.conversation.stack.summaries().next(), Some(&digest));
    assert_eq!(long.sim.conversation.failures.n, 0);
    let again = compaction::next_run(&long.sim.conversation, &long.sim.agent, long.sim.now);
    assert!(matches!(again, Decision::WaitUntil(_)), "{again:?}");
    // A part is made: the digest stands for the rest.
    long.sim.pass(3_600);
    let run = long.sim.watch().unwrap();
    let half = cairn_types::ids::Seq(u64::midpoint(digest.from_seq.0, digest.to_seq.0));
    let draft = compaction::SummaryDraft { to_seq: Some(half), ..Sim::draft("Anna and the lemon tree.") };
    let events = compaction::commit(&long.sim.conversation, &long.sim.agent, &run.id, draft, long.sim.now);
    events.unwrap().into_iter().for_each(|event| long.sim.journal(event));
    let stack: Vec<_> = long.sim.conversation.stack.summaries().cloned().collect();
    assert_eq!((stack[0].to_seq, stack[0].provisional), (half, false));
    assert_eq!((stack[1].from_seq, stack[1].provisional, &stack[1].text), (half.next(), true, &digest.text));
    long.settle();
    assert!(long.sim.conversation.stack.summaries().all(|summary| !summary.provisional));
    long.sim.check_coverage();
}

#[test]
fn a_provisional_summary_is_no_source_of_a_merge() {
    let mut long = Long::new(8_000, 1.0);
    let mut failing = std::iter::repeat(Fate::Unanswered);
    for n in 0..120 {
        long.turn(n);
        long.look(&mut failing);
        long.check();
    }
    let merges = long.sim.journal.iter().filter_map(|record| match &record.event {
        Event::Compaction(CompactionEvent::RunStarted { run }) if run.trigger == Trigger::Merge => {
            Some(&run.id)
        }
        _ => None,
    });
    // Those that were made at once, where the stack was over its share, are provisional themselves.
    let merges: Vec<_> = merges.cloned().collect();
    for record in &long.sim.journal {
        if let Event::Compaction(CompactionEvent::RunEnded(end)) = &record.event
            && merges.contains(&end.run)
        {
            assert!(end.summary.as_ref().is_some_and(|summary| summary.provisional), "{end:?}");
        }
    }
    long.settle();
    assert!(long.sim.conversation.stack.summaries().all(|summary| !summary.provisional));
}

/// An erasure leaves such a run and such a source.
#[test]
fn a_merge_under_way_of_what_has_become_provisional_is_so_too() {
    let mut long = Long::new(8_000, 1.0);
    let mut n = 0;
    let run = 'due: loop {
        long.turn(n);
        n += 1;
        loop {
            match compaction::next_run(&long.sim.conversation, &long.sim.agent, long.sim.now) {
                Decision::Start(run) => {
                    long.sim.journal(Event::Compaction(CompactionEvent::RunStarted { run: (*run).clone() }));
                    if matches!(run.work, RunWork::Merge { .. }) {
                        break 'due *run;
                    }
                    long.end(&run, Fate::Written(0.8));
                }
                Decision::Apply(events) => events.into_iter().for_each(|event| long.sim.journal(event)),
                Decision::WaitUntil(_) | Decision::Idle => break,
            }
        }
    };
    let RunWork::Merge { sources, .. } = &run.work else { unreachable!() };
    for record in &mut long.sim.journal {
        if let Event::Compaction(CompactionEvent::RunEnded(end)) = &mut record.event
            && let Some(summary) = end.summary.as_mut().filter(|summary| summary.id == sources[0])
        {
            summary.provisional = true;
        }
    }
    long.sim.conversation = long.sim.restored_from(long.sim.journal.len());
    long.end(&run, Fate::Written(0.8));
    assert!(long.sim.conversation.stack.summaries().next().unwrap().provisional);
    long.settle();
    assert!(long.sim.conversation.stack.summaries().all(|summary| !summary.provisional));
}

/// As journals of earlier versions have it: the oldest summaries had left the window without a word.
#[test]
fn what_stands_behind_a_bare_marker_is_summarised_from_its_entries() {
    let mut long = Long::new(8_000, 1.0);
    let mut written = std::iter::repeat(Fate::Written(0.8));
    for n in 0..60 {
        long.turn(n);
        long.look(&mut written);
    }
    let (from, to) = long.sim.conversation.stack.items()[0].range();
    let marker = Marker::new(MarkerKind::Retired, from, to, Vec::new());
    long.sim.journal(Event::Compaction(CompactionEvent::StackRetired { marker }));
    assert_eq!(long.sim.n_markers(), 1);
    long.settle();
    assert_eq!(long.sim.n_markers(), 0);
    let first = long.sim.conversation.stack.summaries().next().unwrap();
    assert!(first.from_seq == from && !first.text.is_empty());
    long.sim.check_coverage();
}

/// Digests that wait for a model took all room but that of two summaries: each summary that came was merged with the oldest.
#[test]
fn digests_that_wait_do_not_have_the_oldest_words_rewritten_with_every_summary() {
    let mut long = Long::new(4_914, 2.1327);
    let unanswered = [Fate::Unanswered; 2];
    let fates =
        [Fate::Late(1), unanswered[0], unanswered[1], Fate::Written(1.2607), unanswered[0], unanswered[1]];
    let mut fates =
        fates.into_iter().chain([Fate::Written(0.5729), Fate::Late(1), Fate::Written(1.0)]).cycle();
    for n in 0..88 {
        long.turn(n);
        long.look(&mut fates);
        long.check();
    }
    long.settle();
    long.check();
    let level = long.sim.conversation.stack.summaries().map(|summary| summary.level).max();
    assert!(level <= Some(4), "{level:?} levels after 88 turns");
}

/// Two gists, of what the run works on and of the rest, took more than was meant for them.
#[test]
fn an_emergency_beside_a_run_adds_no_more_than_its_lines_may_take() {
    let (window, ratio) = ((4_000.0 * 50.0_f64.powf(0.05739488599240433)) as u64, 2.012215306832282);
    let mut long = Long::new(window, ratio);
    let fates = [
        Fate::Unanswered,
        Fate::Written(1.7452841383828974),
        Fate::Late(5),
        Fate::Unanswered,
        Fate::Written(0.9765870770985392),
        Fate::Written(0.6015017620769971),
        Fate::Unanswered,
    ];
    let mut fates = fates.into_iter().chain([Fate::Written(1.0)]).cycle();
    for n in 0..(40.0 / (1.0 + 4.0 * 0.05739488599240433)) as usize {
        long.turn(n);
        long.look(&mut fates);
        if n == 0 {
            long.sim.conversation = long.sim.restored_from(long.sim.journal.len() / 2);
        }
        long.check();
    }
}

/// Digests stood between the other summaries, so the oldest was the only one with a neighbour to merge with.
#[test]
fn digests_between_summaries_do_not_have_the_oldest_words_rewritten_with_every_summary() {
    let mut long = Long::new(5_207, 1.8285);
    let fates = [Fate::Unanswered, Fate::Unanswered, Fate::Written(2.4356), Fate::Unanswered];
    let mut fates = fates.into_iter().chain([Fate::Written(1.0)]).cycle();
    for n in 0..146 {
        long.turn(n);
        long.look(&mut fates);
        long.check();
    }
    long.settle();
    long.check();
    let level = long.sim.conversation.stack.summaries().map(|summary| summary.level).max();
    assert!(level <= Some(4), "{level:?} levels after 146 turns");
}
