//! The simulation: what it bills, keeps and names as the best.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::agent::{AgentSettings, WindowSize};
use crate::limits::Price;
use cairn_types::event::{self, RunOutcome, SummarySize};
use cairn_types::ids::Generation;
use cairn_types::model::Usage;

fn agent(window_tokens: u64) -> AgentSettings {
    crate::testing::agent(window_tokens, 1_024)
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// So many turns, so many seconds apart, each of a message and an answer of so many tokens.
fn talk(n: usize, gap_secs: i64, message: u32, answer: u32) -> ConversationSizes {
    let turn = |idx: usize| ScriptTurn {
        at: start() + SignedDuration::from_secs(idx as i64 * gap_secs),
        generation: Generation::default().0,
        steps: vec![TuneStep::Message { tokens: message }, TuneStep::Answer { tokens: answer }],
    };
    ConversationSizes::new((0..n).map(turn).collect())
}

fn run(script: &ConversationSizes, agent: &AgentSettings) -> TuneOutcome {
    simulate(script, agent, &Billing::anthropic(), &Runs::ASSUMED).unwrap()
}

#[test]
fn usage_is_billed_by_the_rules_of_its_format() {
    let usage = Usage { input_tokens: 1_000, output_tokens: 10, cached_tokens: 600, cache_write_tokens: 300 };
    assert_eq!(Billing::anthropic().billed(usage), 100.0 + 300.0 * 1.25 + 600.0 * 0.1 + 10.0 * 5.0);
    let usage = Usage { cache_write_tokens: 0, ..usage };
    assert_eq!(Billing::openai().billed(usage), 400.0 + 600.0 * 0.1 + 10.0 * 8.0);
    let price = Price { input: 2.0, cached_input: 1.0, cache_write: Some(3.0), output: 8.0 };
    let rates = Billing::openai().priced(&price).rates;
    assert_eq!((rates.read, rates.write, rates.output), (0.5, 1.5, 4.0));
    assert_eq!(Billing::openai().priced(&Price::default()), Billing::openai());
}

/// Blocks of 1,000 tokens; a breakpoint stands behind those of `marks`.
fn request(keys: &[u64], marks: &[u64]) -> Vec<Block> {
    let block = |key: &u64| Block { key: *key, tokens: 1_000, mark: marks.contains(key) };
    keys.iter().map(block).collect()
}

/// Thousands of tokens that a cache has read and written.
fn taken(cache: &mut PrefixCache, keys: &[u64], marks: &[u64], secs: i64) -> (u64, u64) {
    let usage = cache.take(&request(keys, marks), start() + SignedDuration::from_secs(secs));
    assert_eq!(usage.input_tokens, 1_000 * keys.len() as u64);
    (usage.cached_tokens / 1_000, usage.cache_write_tokens / 1_000)
}

#[test]
fn what_ends_at_a_breakpoint_is_written_and_found_from_a_later_one() {
    let mut cache = PrefixCache::new(&Billing::anthropic());
    let mut take = |keys: &[u64], marks: &[u64], secs| taken(&mut cache, keys, marks, secs);
    assert_eq!(take(&[1, 2, 3, 10, 11, 99], &[1, 3, 11], 0), (0, 5), "all but the tail is written");
    assert_eq!(take(&[1, 2, 3, 10, 11, 12, 98], &[1, 3, 12], 10), (5, 1), "what was written is read");
    assert_eq!(take(&[1, 2, 3, 4, 12, 97], &[1, 4, 12], 20), (3, 2), "read up to the breakpoint before it");
    let short = [1, 2, 5, 12, 96];
    assert_eq!(take(&short, &[1, 5, 12], 30), (0, 4), "nothing ended at 2, and 1,000 are too few to be held");
    assert_eq!(take(&short, &[1, 5, 12], 329), (4, 0), "within five minutes of its last use");
    assert_eq!(take(&short, &[1, 5, 12], 630), (0, 4), "the cache has gone cold");
    assert_eq!(take(&short, &[], 640), (0, 0), "without breakpoints nothing is read");
    // 20 blocks back something is found, 21 back nothing.
    let far = |n: u64| [1, 2, 5, 12].into_iter().chain(200..200 + n).collect::<Vec<u64>>();
    assert_eq!(take(&far(21), &[220], 650), (0, 25));
    assert_eq!(take(&far(20), &[219], 650), (4, 20));
}

#[test]
fn newer_models_of_openai_read_at_breakpoints_alone_and_write_the_latest_four() {
    let mut cache = PrefixCache::new(&Billing::openai_breakpoints());
    let mut take = |keys: &[u64], marks: &[u64], secs| taken(&mut cache, keys, marks, secs);
    assert_eq!(take(&[1, 2, 3, 4, 99], &[2, 4], 0), (0, 4));
    assert_eq!(take(&[1, 2, 3, 4, 5, 98], &[5], 10), (0, 5), "there is no breakpoint where something ended");
    assert_eq!(take(&[1, 2, 3, 4, 5, 6, 97], &[5, 6], 20), (5, 1));
    assert_eq!(take(&[1, 2, 7, 96], &[2, 7], 1_800), (2, 1), "half an hour after its last use");
    assert_eq!(take(&[1, 2, 7, 95], &[2, 7], 3_601), (0, 3));
    assert_eq!(take(&[21, 22, 23, 24, 25, 26], &[22, 23, 24, 25, 26], 4_000), (0, 6));
    assert_eq!(take(&[21, 22, 30], &[22, 30], 4_010), (0, 3), "the first of five is not written");
    assert_eq!(take(&[21, 22, 23, 31], &[23, 31], 4_020), (3, 1));
}

#[test]
fn automatic_caches_hold_beginnings_in_steps() {
    let mut cache = PrefixCache::new(&Billing::openai());
    let mut take = |keys: &[u64], secs| {
        cache.take(&request(keys, &[]), start() + SignedDuration::from_secs(secs)).cached_tokens
    };
    assert_eq!(take(&[1, 10, 99], 0), 0);
    assert_eq!(take(&[1, 10, 11, 98], 10), 1_024 + 128 * 7, "2,000 in steps of 128 from 1,024 on");
    assert_eq!(take(&[1, 12, 97], 20), 0, "1,000 are too few");
    assert_eq!(take(&[1, 12, 13, 96], 330), 0, "the cache has gone cold");
}

#[test]
fn a_replay_makes_the_decisions_of_the_house() {
    let outcome = run(&talk(1_000, 60, 120, 180), &agent(32_000));
    assert_eq!((outcome.turns, outcome.requests), (1_000, 1_000));
    assert_eq!(outcome.emergencies, 0);
    assert!(outcome.compactions > 10 && outcome.merges > 0);
    let usable = agent(32_000).window.usable_tokens() as f64;
    assert!(outcome.max_tokens as f64 <= usable * 0.86, "{}", outcome.max_tokens);
    let mean = outcome.mean_tokens() / usable;
    assert!((0.5..0.8).contains(&mean), "{mean}");
    assert!((0.85..1.0).contains(&outcome.cached_share()), "{}", outcome.cached_share());
    assert!((0.5..1.0).contains(&outcome.retention), "{}", outcome.retention);
}

fn ended(ms: u64, size: Option<(u32, u64, bool)>, outcome: RunOutcome) -> event::RunReport {
    let summary_size =
        size.map(|(tokens, source_tokens, merge)| SummarySize { tokens, source_tokens, merge });
    event::RunReport {
        run: "r1".into(),
        trigger: event::Trigger::Threshold,
        outcome,
        reason: None,
        tokens_before: 0,
        tokens_after: 0,
        messages: 0,
        first_kept_seq: None,
        duration_ms: ms,
        memories: 0,
        summary_size,
        ended_at: None,
        attempts: 0,
        spent: Default::default(),
    }
}

#[test]
fn runs_are_as_they_were_and_what_is_not_known_is_assumed() {
    use RunOutcome::{Committed, Failed};
    let agent = agent(32_000);
    assert_eq!(Runs::of(&[], &agent), Runs::ASSUMED);
    assert_eq!(Runs::of(&[ended(9, None, Failed)], &agent), Runs::ASSUMED, "a failed run tells nothing");
    let sizes = crate::summary::StackSizes::of(&agent, &cairn_types::tokens::Correction::default(), 0);
    let half = (sizes.summary(4_000) / 2 + crate::compaction::HEAD_TOKENS) as u32;
    let outcomes = [
        ended(400, Some((half, 4_000, false)), Committed),
        ended(900, Some((half, 4_000, false)), Committed),
        ended(100_000, None, Committed),
        ended(5, Some((1, 1, false)), Failed),
    ];
    let runs = Runs::of(&outcomes, &agent);
    assert_eq!((runs.measured, runs.run_ms), (3, 900), "the median: one slow run is not the rule");
    assert_eq!((runs.summaries, runs.merges, runs.merge_share), (2, 0, 1.0));
    assert!((0.49..=0.5).contains(&runs.summary_share), "{}", runs.summary_share);
}

#[test]
fn runs_that_were_short_leave_no_room_for_emergencies_that_never_were() {
    let (script, agent) = (talk(400, 2, 500, 900), agent(32_000));
    let with = |runs: Runs| simulate(&script, &agent, &Billing::anthropic(), &runs).unwrap();
    let (assumed, measured) = (with(Runs::ASSUMED), with(Runs { measured: 9, run_ms: 700, ..Runs::ASSUMED }));
    assert!(assumed.emergencies > 10, "{}", assumed.emergencies);
    assert!(measured.emergencies == 0 && measured.compactions > 0);
    let small = with(Runs { run_ms: 700, summary_share: 0.3, ..Runs::ASSUMED });
    assert!(small.merges < measured.merges, "smaller summaries fill the stack later");
}

#[test]
fn nothing_is_lost_where_all_fits() {
    let outcome = run(&talk(20, 60, 50, 50), &agent(32_000));
    assert_eq!(outcome.retention, 1.0);
    assert_eq!(outcome.compactions + outcome.merges, 0);
    assert_eq!(outcome.billed_runs, 0.0);
}

#[test]
fn a_cold_cache_costs_more_and_an_emergency_retains_less() {
    let (warm, cold) =
        (run(&talk(300, 60, 120, 180), &agent(32_000)), run(&talk(300, 3_600, 120, 180), &agent(32_000)));
    assert_eq!(cold.cached_share(), 0.0);
    assert!(cold.billed_per_turn() > 3.0 * warm.billed_per_turn());
    let mut off = agent(32_000);
    off.compaction.enabled = false;
    let off = run(&talk(1_000, 60, 120, 180), &off);
    assert!(off.emergencies > 0 && off.compactions == 0);
    assert!(off.retention < run(&talk(1_000, 60, 120, 180), &agent(32_000)).retention, "{}", off.retention);
}

#[test]
fn a_smaller_window_is_cheaper_and_retains_less() {
    let script = talk(2_000, 60, 120, 180);
    let (large, small) = (run(&script, &agent(128_000)), run(&script, &agent(24_000)));
    assert!(small.billed_per_turn() < large.billed_per_turn() / 2.0);
    assert!(small.retention < large.retention);
}

#[test]
fn results_are_counted_and_generations_begin_empty() {
    let steps = vec![
        TuneStep::Message { tokens: 40 },
        TuneStep::Call { tokens: 30, results: vec![2_000, 300] },
        TuneStep::Answer { tokens: 100 },
    ];
    let turn = |idx: i64| ScriptTurn {
        at: start() + SignedDuration::from_secs(idx * 60),
        generation: Generation::default().0 + u32::from(idx >= 30),
        steps: steps.clone(),
    };
    let of_turns = |n| run(&ConversationSizes::new((0..n).map(turn).collect()), &agent(32_000));
    let (one, two) = (of_turns(30), of_turns(60));
    assert_eq!(two.requests, 120, "two calls a turn");
    assert_eq!(two.max_tokens, one.max_tokens, "the second session grows from nothing, too");
    assert!(one.max_tokens > 5_000, "{}", one.max_tokens);
}

#[test]
fn settings_that_cannot_work_are_named() {
    let mut bad = agent(2_000);
    bad.system_prompt = "word ".repeat(3_000);
    let error = simulate(&talk(3, 60, 10, 10), &bad, &Billing::openai(), &Runs::ASSUMED).unwrap_err();
    assert!(matches!(error, SimError::NoRoom { .. }), "{error}");
    let bad = AgentSettings { engine: "none".to_owned(), ..agent(8_000) };
    let error = simulate(&talk(3, 60, 10, 10), &bad, &Billing::openai(), &Runs::ASSUMED).unwrap_err();
    assert_eq!(error, SimError::NoEngine("none".to_owned()));
}

#[test]
fn presets_are_all_valid_and_none_is_there_twice() {
    let current = agent(128_000);
    let resize = |window_tokens| Some(WindowSize { window_tokens, ..current.window });
    let presets = presets(&current, resize);
    assert_eq!(presets[0].settings, current);
    let names: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
    let expected = [
        "current",
        "long tasks (0.70)",
        "needs context (0.90)",
        "fraction 0.3",
        "when cold",
        "window 24 k",
        "window 48 k",
        "window 96 k",
    ];
    assert_eq!(names, expected);
    for (idx, preset) in presets.iter().enumerate() {
        preset.settings.compaction.validate().unwrap();
        assert!(presets[..idx].iter().all(|other| other.settings != preset.settings));
    }
}

fn outcome(billed: f64, retention: f64, emergencies: usize) -> TuneOutcome {
    TuneOutcome { turns: 1, billed, retention, emergencies, ..TuneOutcome::default() }
}

#[test]
fn the_cheapest_of_equal_retention_is_best() {
    type Row = (f64, f64, usize);
    let cases: [(&str, &[Row], usize); 6] = [
        ("alone", &[(100.0, 0.8, 0)], 0),
        ("cheaper, the same retained", &[(100.0, 0.8, 0), (90.0, 0.79, 0), (95.0, 0.9, 0)], 1),
        ("cheaper, less retained", &[(100.0, 0.8, 0), (50.0, 0.77, 0)], 0),
        ("cheaper, with an emergency", &[(100.0, 0.8, 0), (50.0, 0.8, 1)], 0),
        ("fewer emergencies", &[(100.0, 0.8, 2), (90.0, 0.8, 1)], 1),
        ("hardly cheaper", &[(100.0, 0.8, 0), (99.8, 0.8, 0)], 0),
    ];
    for (case, rows, best) in cases {
        let outcomes: Vec<TuneOutcome> =
            rows.iter().map(|(billed, kept, n)| outcome(*billed, *kept, *n)).collect();
        let choice = choose(&outcomes).unwrap();
        assert_eq!((choice.best, choice.keeps_current), (best, best == 0), "{case}");
    }
    assert_eq!(choose(&[]), None);
}
