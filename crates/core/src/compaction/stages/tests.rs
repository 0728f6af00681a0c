//! Chunks: every entry in exactly one, no call without its results, none larger than it may be.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::testing::{self, agent};
use cairn_types::ids::{Seq, TurnId};
use cairn_types::message::ToolCall;

fn room(window: u64, reserve: u64, frame: u64) -> RequestRoom {
    RequestRoom::new(&agent(window, reserve), frame, 1.0)
}

#[rstest]
#[case::large_reserve(128_000, 32_000, (128_000.0 - 4_096.0) / 1.2)]
#[case::small_reserve(6_000, 1_000, 5_000.0 / 1.2)]
fn four_thousand_tokens_are_kept_for_the_answer_or_the_reserve(
    #[case] window: u64,
    #[case] reserve: u64,
    #[case] expected: f64,
) {
    assert_eq!(room(window, reserve, 0).whole(), expected as u64);
    assert_eq!(room(window, reserve, 100).whole(), (expected - 100.0) as u64);
}

#[rstest]
#[case::short(100.0, 0.40)]
#[case::a_tenth(10_000.0 / 1.2, 0.40)]
#[case::a_fifth(20_000.0 / 1.2, 0.30)]
#[case::a_third(35_000.0 / 1.2, 0.15)]
#[case::longer(60_000.0, 0.15)]
fn a_chunk_takes_less_of_the_window_as_messages_grow(#[case] mean: f64, #[case] share: f64) {
    let expected = share * 100_000.0 / 1.2;
    let chunk = room(100_000, 4_000, 0).chunk(mean) as f64;
    assert!((chunk - expected).abs() <= 1.0, "{chunk} is not {expected}");
}

#[test]
fn a_message_over_half_the_window_is_left_out() {
    let room = room(12_000, 1_000, 0);
    assert!(!room.leaves_out(5_000) && room.leaves_out(5_001));
}

/// Entries of turns: a question, calls with their results, an answer.
fn entries(turns: &[(usize, usize)]) -> Vec<Arc<Entry>> {
    let mut entries = Vec::new();
    let mut push = |turn: usize, role: Role, calls: Vec<ToolCall>| {
        let mut entry = testing::entry(role, "x");
        (entry.seq, entry.turn) = (Seq(entries.len() as u64 + 1), TurnId::from(format!("t{turn}")));
        (entry.author, entry.tool_calls, entry.tokens) = (None, calls, 1);
        entries.push(Arc::new(entry));
    };
    for (turn, (n_rounds, n_results)) in turns.iter().enumerate() {
        push(turn, Role::User, Vec::new());
        for _ in 0..*n_rounds {
            let call = |n: usize| ToolCall {
                id: format!("c{n}"),
                name: "look".to_owned(),
                arguments: serde_json::Value::Null,
            };
            push(turn, Role::Assistant, (0..*n_results).map(call).collect());
            for _ in 0..*n_results {
                push(turn, Role::Tool, Vec::new());
            }
        }
        push(turn, Role::Assistant, Vec::new());
    }
    entries
}

#[test]
fn what_fits_goes_in_one_request() {
    let entries = entries(&[(0, 0); 4]);
    let sizes = vec![500; entries.len()];
    assert_eq!(next_chunk(&entries, &sizes, &room(6_000, 1_000, 0)), 8);
    // 4,160 tokens would fit; 40 % of the window are 2,000.
    assert_eq!(next_chunk(&entries, &sizes, &room(5_500, 1_000, 0)), 2);
    assert_eq!(next_chunk(&[], &[], &room(5_500, 1_000, 0)), 0);
}

#[test]
fn a_chunk_ends_with_a_turn_where_one_ends_in_its_second_half() {
    let entries = entries(&[(1, 1), (0, 0), (6, 1)]);
    let sizes = vec![100; entries.len()];
    // 1,000 tokens of chunk: ten entries would fit, the second turn ends at six.
    let room = RequestRoom { window: 3_000.0, answer: 100.0, frame: 1_000.0, factor: 1.2 };
    assert_eq!(next_chunk(&entries, &sizes, &room), 6);
}

proptest! {
    #[test]
    fn chunks_cover_every_entry_once_and_part_no_call_from_its_results(
        turns in prop::collection::vec((0..4_usize, 1..4_usize), 1..40),
        seeds in prop::collection::vec(1..900_u64, 400),
        window in 2_000..40_000_u64,
        frame in 0..500_u64,
    ) {
        let entries = entries(&turns);
        let sizes: Vec<u64> = seeds.iter().cycle().take(entries.len()).copied().collect();
        let room = room(window, window / 6, frame);
        let mut at = 0;
        let mut n_chunks = 0;
        while at < entries.len() {
            let (rest, rest_sizes) = (&entries[at..], &sizes[at..]);
            let n = next_chunk(rest, rest_sizes, &room);
            prop_assert!(n > 0 && n <= rest.len());
            if let Some(next) = rest.get(n) {
                prop_assert!(next.role != Role::Tool, "a call was parted from its results");
                let taken: u64 = rest_sizes[..n].iter().sum();
                // More than the room only when a single call with its results is.
                let n_groups = rest[..n].iter().filter(|entry| entry.role != Role::Tool).count();
                prop_assert!(taken <= room.whole() || n_groups == 1, "{taken} tokens, {n_groups} groups");
            }
            at += n;
            n_chunks += 1;
        }
        prop_assert_eq!(at, entries.len());
        if sizes.iter().sum::<u64>() <= room.whole() {
            prop_assert_eq!(n_chunks, 1);
        }
    }
}
