//! Tests of estimates and corrections.

use proptest::prelude::*;
use rstest::rstest;

use super::{Correction, estimate};

#[rstest]
#[case::nothing("", 0, 0)]
#[case::a_word("hello", 1, 2)]
#[case::a_sentence("The quick brown fox jumps over the lazy dog.", 9, 12)]
#[case::digits("1234567", 3, 3)]
#[case::chinese("我们明天早上八点在车站见面，不要忘记带护照。", 12, 22)]
#[case::a_nul("\0", 1, 2)]
fn an_estimate_is_near_the_count(#[case] text: &str, #[case] low: u32, #[case] high: u32) {
    let tokens = estimate(text);
    assert!((low..=high).contains(&tokens), "{text:?} is estimated at {tokens}, not {low} to {high}");
}

#[rstest]
#[case::spaces(" ", 0.0, 0.05)]
#[case::line_breaks("\n", 0.0, 0.5)]
#[case::one_word("a", 0.05, 0.7)]
#[case::nul("\0", 0.2, 2.0)]
#[case::family("👨‍👩‍👧‍👦", 3.0, 20.0)]
#[case::dashes("-", 0.0, 0.3)]
fn a_million_characters_of_one_kind_are_counted_in_proportion(
    #[case] piece: &str,
    #[case] low: f64,
    #[case] high: f64,
) {
    let n = 1_000_000 / piece.len();
    let tokens = f64::from(estimate(&piece.repeat(n))) / n as f64;
    assert!((low..=high).contains(&tokens), "{tokens} tokens each");
}

proptest! {
    #[test]
    fn an_estimate_of_a_whole_is_near_that_of_its_parts(a in any::<String>(), b in any::<String>()) {
        let (whole, parts) = (estimate(&format!("{a}{b}")), estimate(&a) + estimate(&b));
        prop_assert!(whole <= parts + 4, "{whole} for the whole, {parts} for its parts");
        prop_assert!(whole + 4 + parts / 4 >= parts, "{whole} for the whole, {parts} for its parts");
    }

    #[test]
    fn an_estimate_is_never_nothing_nor_above_four_tokens_a_character(text in any::<String>()) {
        let n_chars = u32::try_from(text.chars().count()).unwrap();
        let tokens = estimate(&text);
        prop_assert_eq!(tokens == 0, text.is_empty());
        prop_assert!(tokens <= n_chars * 4 + 1);
    }
}

#[test]
fn no_report_leaves_estimates_as_they_are() {
    let mut correction = Correction::default();
    correction.observe(0, 500);
    correction.observe(500, 0);
    assert_eq!(correction, Correction::default());
    assert_eq!(correction.apply(1234), 1234);
}

#[test]
fn a_steady_error_is_corrected_within_three_percent() {
    for true_ratio in [0.6, 0.9, 1.0, 1.3, 2.5] {
        let mut correction = Correction::default();
        let mut reported = 0;
        for turn in 1..=20u64 {
            reported = (true_ratio * (1000 * turn) as f64) as u64;
            correction.observe(1000 * turn, reported);
        }
        let corrected = correction.apply(20_000);
        assert!(corrected >= reported, "{corrected} errs downward from {reported}");
        assert!(corrected as f64 <= reported as f64 * 1.03, "{corrected} is far from {reported}");
    }
}

#[test]
fn a_rise_is_followed_at_once_and_a_fall_slowly() {
    let mut correction = Correction::default();
    for _ in 0..10 {
        correction.observe(1000, 1000);
    }
    correction.observe(1000, 1500);
    assert!(correction.apply(1000) >= 1500);
    correction.observe(1000, 1000);
    assert!(correction.apply(1000) > 1010, "one low report does not undo it");
}

#[test]
fn an_absurd_report_is_forgotten_as_soon_as_any_other() {
    let mut correction = Correction::default();
    correction.observe(1000, u64::MAX);
    // As it was kept before reports were bounded.
    let kept = Correction { estimated: 1000.0, reported: u64::MAX as f64, ratio: 4.0 };
    for mut correction in [correction, kept] {
        for _ in 0..20 {
            correction.observe(1000, 1000);
        }
        assert!(correction.ratio < 1.1, "{correction:?}");
    }
}

#[test]
fn an_absurd_report_moves_the_ratio_within_its_range() {
    let mut correction = Correction::default();
    correction.observe(1, u64::MAX);
    assert_eq!(correction.ratio, 4.0);
    let mut correction = Correction::default();
    correction.observe(u64::MAX, 1);
    assert_eq!(correction.ratio, 0.5);
}
