//! What becomes of a result, by the numbers that the settings name.

use rstest::rstest;

use super::*;
use cairn_types::ids::ArtifactId;
use cairn_types::text::edges::{SHRUNK_NOTICE, count_lines, place};

const MAX: usize = 50_000;

fn wide() -> ResultRoom {
    with_free(100_000)
}

/// What the results of a round may take where so many tokens are free.
fn with_free(free_tokens: u64) -> ResultRoom {
    ResultRoom { tokens: free_tokens / 2, correction: Correction::default() }
}

/// Numbered lines of 20 bytes.
fn lines(bytes: usize) -> String {
    let mut text: String = (1..=bytes / 20).map(|n| format!("line {n:>7} {}\n", "abcdef")).collect();
    text.push_str(&"z".repeat(bytes - text.len()));
    assert_eq!(text.len(), bytes);
    text
}

fn tokens(text: &str) -> u64 {
    u64::from(estimate(text)) + FRAME_TOKENS
}

fn name(verdict: ResultVerdict) -> &'static str {
    match verdict {
        ResultVerdict::Whole => "whole",
        ResultVerdict::Kept => "kept",
        ResultVerdict::Edges(_) => "edges",
        ResultVerdict::Note => "note",
    }
}

#[rstest]
#[case::at_the_limit(ResultClass::Auto, 50_000, 100_000, "whole")]
#[case::a_byte_over(ResultClass::Auto, 50_001, 100_000, "edges")]
#[case::ten_megabytes(ResultClass::Auto, 10_000_000, 100_000, "edges")]
#[case::little_room_for_edges(ResultClass::Auto, 1_000_000, 20_000, "edges")]
#[case::small_and_no_room(ResultClass::Auto, 30_000, 10_000, "edges")]
#[case::no_useful_head(ResultClass::Auto, 30_000, 600, "note")]
#[case::smaller_than_a_note(ResultClass::Auto, 400, 0, "whole")]
#[case::nothing_free(ResultClass::Auto, 401, 0, "note")]
#[case::smallest(ResultClass::AlwaysOffload, 2_000, 100_000, "whole")]
#[case::offloaded(ResultClass::AlwaysOffload, 2_001, 100_000, "edges")]
#[case::recent_small(ResultClass::KeepRecent, 50_000, 100_000, "whole")]
#[case::recent_large(ResultClass::KeepRecent, 90_000, 100_000, "kept")]
#[case::recent_over_half(ResultClass::KeepRecent, 1_000_000, 100_000, "edges")]
#[case::recent_no_room(ResultClass::KeepRecent, 90_000, 10_000, "edges")]
fn verdicts(#[case] class: ResultClass, #[case] bytes: usize, #[case] free: u64, #[case] expected: &str) {
    let settings = ResultGuardSettings::default();
    let verdict = judge(&lines(bytes), class, &settings, &with_free(free));
    assert_eq!(name(verdict), expected);
    assert_eq!(verdict.is_stored(), expected != "whole");
    let off = ResultGuardSettings { enabled: false, ..settings };
    assert_eq!(judge(&lines(bytes), class, &off, &with_free(free)), ResultVerdict::Whole, "switched off");
}

#[test]
fn the_room_is_the_limit_after_correction() {
    let (settings, text) = (ResultGuardSettings::default(), lines(30_000));
    let judged = |room: &ResultRoom| name(judge(&text, ResultClass::Auto, &settings, room));
    let exact = ResultRoom { tokens: tokens(&text), ..wide() };
    assert_eq!(judged(&exact), "whole");
    assert_eq!(judged(&ResultRoom { tokens: exact.tokens - 1, ..exact }), "edges");
    let mut correction = Correction::default();
    correction.observe(1_000, 1_500);
    assert_eq!(judged(&ResultRoom { correction, ..exact }), "edges");
}

#[rstest]
#[case::lines(lines(1_000_000))]
#[case::one_giant_line("x".repeat(1_000_000))]
#[case::giant_lines(format!("{}\n", "y".repeat(80_000)).repeat(20))]
#[case::chinese("今天天气很好我们去湖边散步".repeat(20_000))]
#[case::chinese_lines("今天天气很好我们去湖边散步\n".repeat(20_000))]
#[case::emoji("🪨👩‍👩‍👧‍👦".repeat(9_000))]
#[case::breaks_alone("\n".repeat(60_000))]
#[case::carriage_returns("a line of it\r\n".repeat(6_000))]
#[case::no_break_at_the_end(format!("{}end", lines(60_000)))]
#[case::head_has_breaks_tail_has_none(format!("{}{}", "short\n".repeat(9_000), "x".repeat(90_000)))]
fn head_and_tail_are_equal_and_below_the_limit(#[case] text: String) {
    let settings = ResultGuardSettings::default();
    let room = with_free(1_000_000);
    let verdict = judge(&text, ResultClass::Auto, &settings, &room);
    let ResultVerdict::Edges(edges) = verdict else { panic!("{verdict:?}") };
    let (head, tail) = (&text[..edges.head], &text[edges.tail..]);
    let side = (MAX - NOTE_BYTES) / 2;
    for part in [head, tail] {
        assert!(part.len() <= side && part.len() >= side / 2, "{} of {side}", part.len());
    }
    let id = ArtifactId::from("a12345");
    let shown = shown(&text, verdict, FullTextAt::Artifact(&id));
    assert!(shown.len() <= MAX, "{}", shown.len());
    assert!(shown.starts_with(head) && shown.ends_with(tail));
    let note = &shown[head.len()..shown.len() - tail.len()];
    assert!(note.trim_start().starts_with(SHRUNK_NOTICE), "{note}");
    assert!(note.len() <= NOTE_BYTES, "{}", note.len());
    // The line to read on from is the one at which the head ends.
    let (line, offset) = place(&text, edges.head);
    let rest = text.split_inclusive('\n').skip(line as usize - 1).collect::<String>();
    assert_eq!(&rest[offset..], &text[edges.head..]);
    let said =
        if offset == 0 { format!("from = {line}.") } else { format!("from = {line} and offset = {offset}.") };
    assert!(note.contains(&said), "{note}");
}

#[test]
fn short_lines_are_never_cut() {
    let text = lines(60_000);
    let Edges { head, tail } = edges(&text, MAX);
    assert!(text[..head].ends_with('\n') && text[..tail].ends_with('\n'));
    assert!(head.abs_diff(text.len() - tail) < 20);
}

#[test]
fn notes_keep_their_words() {
    let settings = ResultGuardSettings { max_bytes: 1_000, ..ResultGuardSettings::default() };
    let id = ArtifactId::from("a3");
    let note = |text: &str, room: &ResultRoom, whereabouts| {
        let verdict = judge(text, ResultClass::Auto, &settings, room);
        let shown = shown(text, verdict, whereabouts);
        let start = shown.find(SHRUNK_NOTICE).unwrap();
        shown[start..].lines().take(2).collect::<Vec<_>>().join("\n")
    };
    let (by_lines, giant) = (lines(10_000), "x".repeat(10_000));
    let kept = FullTextAt::Artifact(&id);
    insta::assert_snapshot!(
        [
            note(&by_lines, &wide(), kept),
            note(&giant, &wide(), kept),
            note(&by_lines, &with_free(0), kept),
            note(&by_lines, &wide(), FullTextAt::Lost),
            note(&by_lines, &with_free(0), FullTextAt::Lost),
        ]
        .join("\n\n")
    );
}

#[test]
fn a_shortened_result_as_a_whole() {
    let settings = ResultGuardSettings { max_bytes: 600, ..ResultGuardSettings::default() };
    let text = lines(1_000);
    let verdict = judge(&text, ResultClass::Auto, &settings, &wide());
    insta::assert_snapshot!(shown(&text, verdict, FullTextAt::Artifact(&ArtifactId::from("a1"))));
}

#[test]
fn what_cannot_be_stored_is_shown_as_far_as_there_is_room() {
    let (settings, text) = (ResultGuardSettings::default(), lines(200_000));
    for (free, least) in [(100_000, 49_000), (20_000, 10_000), (5_000, 3_000), (0, 100)] {
        let room = with_free(free);
        let verdict = judge(&text, ResultClass::Auto, &settings, &room);
        let shown = shown(&text, verdict, FullTextAt::Lost);
        assert!(shown.len() >= least && shown.len() <= MAX, "{} with {free} free", shown.len());
        assert!(shown.contains("could not be stored") && !shown.contains("artifact_read"), "{shown}");
        assert!(free == 0 || tokens(&shown) <= free / 2);
    }
    let recent = judge(&lines(60_000), ResultClass::KeepRecent, &settings, &wide());
    assert_eq!(shown(&lines(60_000), recent, FullTextAt::Lost), lines(60_000), "nothing is lost");
}

/// What is shown of results that end in these batches, of a round that may take so many tokens.
fn round(tokens: u64, batches: &[&[String]]) -> Vec<String> {
    let settings = ResultGuardSettings::default();
    let (mut room, id) = (ResultRoom { tokens, ..wide() }, ArtifactId::from("a1"));
    let mut n_open: usize = batches.iter().map(|batch| batch.len()).sum();
    let mut out = Vec::new();
    for batch in batches {
        let wanted: Vec<u64> =
            batch.iter().map(|text| wanted(text, ResultClass::Auto, &settings, &room)).collect();
        n_open -= batch.len();
        let share = room.share(&wanted, n_open);
        for text in *batch {
            let verdict = judge(text, ResultClass::Auto, &settings, &share);
            let shown = shown(text, verdict, FullTextAt::Artifact(&id));
            room.take(&shown);
            out.push(shown);
        }
    }
    out
}

/// Ten large results in nine tenths of a window of 31,000, in one batch and one by one.
#[rstest]
#[case::at_once(10)]
#[case::in_pairs(2)]
#[case::one_by_one(1)]
fn results_of_one_round_share_the_room_whenever_they_end(#[case] at_once: usize) {
    let texts: Vec<String> = (0..10).map(|_| lines(49_000)).collect();
    let batches: Vec<&[String]> = texts.chunks(at_once).collect();
    let all = round(10_000, &batches);
    let taken: Vec<u64> = all.iter().map(|shown| tokens(shown)).collect();
    assert!(taken.iter().sum::<u64>() <= 10_000, "{taken:?}");
    assert!(taken.iter().all(|one| (750..=1_250).contains(one)), "equal parts: {taken:?}");
    for shown in &all {
        let (head, rest) = shown.split_once(SHRUNK_NOTICE).unwrap();
        let tail = rest.split_once("from = ").unwrap().1;
        assert!(head.len() > HEAD_BYTES && tail.len() > HEAD_BYTES, "{shown}");
    }
}

#[test]
fn what_small_results_leave_goes_to_the_large_ones() {
    let small: Vec<String> = (0..8).map(|_| lines(1_000)).collect();
    let large = [lines(45_000), lines(45_000)];
    let whole = |all: &[String]| small.iter().all(|text| all.contains(text));
    let mixed: Vec<String> = small.iter().chain(&large).cloned().collect();
    for batches in
        [vec![&mixed[..]], vec![&small[..], &large[..]], vec![&small[..], &large[..1], &large[1..]]]
    {
        let all = round(10_000, &batches);
        assert!(whole(&all), "small ones stay whole");
        let of_large: Vec<u64> = all[8..].iter().map(|shown| tokens(shown)).collect();
        assert!(of_large.iter().all(|one| *one > 2_500), "{of_large:?}");
        assert!(all.iter().map(|shown| tokens(shown)).sum::<u64>() <= 10_000);
    }
    // A large result that ends first leaves the others their parts.
    let all = round(10_000, &[&large[..1], &small[..], &large[1..]]);
    assert!(whole(&all[..9]) && tokens(&all[0]) <= 1_000 && tokens(&all[9]) > 4_000);
}

#[test]
fn where_no_head_would_be_of_use_the_note_stays() {
    let texts: Vec<String> = (0..64).map(|_| lines(20_000)).collect();
    let all = round(4_000, &[&texts]);
    assert!(all.iter().all(|shown| shown.starts_with(SHRUNK_NOTICE) && shown.contains("artifact a1")));
    assert_eq!(round(0, &[&[lines(400)]]), [lines(400)], "smaller than a note");
}

#[rstest]
#[case(50_000, 100_000, 50_000)]
#[case(50_000, 10_000, 5_000)]
#[case(50_000, 0, 300)]
fn a_beginning_fits_and_is_never_nothing(#[case] bytes: usize, #[case] free: u64, #[case] least: usize) {
    let room = with_free(free);
    for text in [lines(bytes), "語".repeat(bytes / 3)] {
        let beginning = beginning(&text, &room);
        assert!(beginning.len() >= least.min(text.len()) / 2, "{}", beginning.len());
        assert!(beginning.len() <= NOTE_BYTES || tokens(beginning) <= free / 2);
    }
}

#[rstest]
#[case("", 0)]
#[case("a", 1)]
#[case("a\n", 1)]
#[case("a\nb", 2)]
#[case("\n\n", 2)]
fn a_break_at_the_end_begins_no_line(#[case] text: &str, #[case] expected: u64) {
    assert_eq!(count_lines(text), expected);
}
