//! Ids, expiry and pages of artifacts, by tables.

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::*;
use cairn_types::tokens::Correction;

fn at(days: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap() + SignedDuration::from_hours(24 * days)
}

fn artifact(id: &str, used: i64) -> Artifact {
    Artifact {
        id: id.into(),
        tool: "flood".to_owned(),
        message: None,
        sent_in: None,
        bytes: 100_000,
        lines: 1_000,
        stored_at: at(0),
        used_at: at(used),
        expired_at: None,
        sha256: None,
        lost: false,
        file: None,
    }
}

fn channel(artifacts: impl IntoIterator<Item = Artifact>) -> Conversation {
    let mut conversation = Conversation::new("main/local/main".parse().unwrap());
    conversation.newest_artifact = artifacts.into_iter().filter_map(|a| ordinal(&a.id)).max().unwrap_or(0);
    conversation
}

#[test]
fn ids_go_on_after_the_highest_and_are_never_used_again() {
    assert_eq!(next_id(&channel([]), 0).as_str(), "a1");
    assert_eq!(next_id(&channel([]), 2).as_str(), "a3");
    let mut gone = artifact("a10", 0);
    gone.expired_at = Some(at(5));
    let conversation = channel([artifact("a2", 0), artifact("a9", 0), gone]);
    assert_eq!(next_id(&conversation, 0).as_str(), "a11");
    assert_eq!(next_id(&conversation, 1).as_str(), "a12");
}

#[rstest]
#[case::never(0, 1_000, &[])]
#[case::just_before(3, 12, &[])]
#[case::on_the_day(3, 13, &["a2", "a10"])]
#[case::read_meanwhile(3, 15, &["a2", "a10"])]
#[case::all(3, 18, &["a2", "a10", "a11"])]
fn artifacts_are_due_so_many_days_after_their_last_use(
    #[case] days: u32,
    #[case] now: i64,
    #[case] expected: &[&str],
) {
    let mut gone = artifact("a1", 0);
    gone.expired_at = Some(at(4));
    let artifacts = [gone, artifact("a11", 13), artifact("a2", 10), artifact("a10", 10)];
    let settings = ResultGuardSettings { artifact_days: days, ..ResultGuardSettings::default() };
    let due = due(&artifacts, &channel([]), &settings, at(now));
    assert_eq!(due.iter().map(ArtifactId::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn too_many_of_a_channel_expire_by_their_last_use() {
    let mib = |id, used, mib: u64| Artifact { bytes: mib * 1024 * 1024, ..artifact(id, used) };
    let mut gone = mib("a1", 1, 9);
    gone.expired_at = Some(at(4));
    let artifacts = [gone, mib("a2", 9, 4), mib("a3", 5, 4), mib("a10", 5, 1), mib("a4", 8, 4)];
    let due = |artifact_mib, artifact_days| {
        let settings = ResultGuardSettings { artifact_mib, artifact_days, ..ResultGuardSettings::default() };
        let due = due(&artifacts, &channel([]), &settings, at(10));
        due.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(due(0, 0).is_empty() && due(13, 0).is_empty(), "13 MiB are kept");
    assert_eq!(due(12, 0), ["a3"]);
    assert_eq!(due(8, 0), ["a3", "a10"]);
    assert_eq!(due(7, 0), ["a3", "a4", "a10"]);
    assert_eq!(due(12, 5), ["a3", "a10"], "those that are old count for nothing");
}

#[test]
fn what_cannot_be_read_says_why_and_what_to_do() {
    let mut gone = artifact("a1", 2);
    gone.expired_at = Some(at(9));
    let mut crowded_out = artifact("a4", 9);
    crowded_out.expired_at = Some(at(9));
    let two = [gone, artifact("a2", 0), crowded_out];
    let why = |artifacts: &[Artifact], id: &str, from| {
        let found = artifacts.iter().find(|artifact| artifact.id == named(id)).cloned();
        let found = readable(found, artifacts.len() as u64, id, from);
        found.map(|a| a.id.to_string()).map_err(|e| e.to_string())
    };
    insta::assert_debug_snapshot!([
        why(&two, " a2 ", 1_000),
        why(&two, "a2", 1_001),
        why(&two, "a1", 1),
        why(&two, "a4", 1),
        why(&two, "a3", 1),
        why(&two, "other/local/main/a2", 1),
        why(&[], "a1", 1),
        why(&[artifact("a1", 0)], &"x".repeat(1_000_000), 1),
    ]);
}

fn found(text: &str, lines: u64, offset: u64, cut_bytes: u64) -> ArtifactLines {
    ArtifactLines { text: text.to_owned(), lines, offset, cut_bytes }
}

#[rstest]
#[case::lines(990, found("a\nb\nc", 3, 0, 0), 5, Some((993, 0)))]
#[case::the_last(998, found("a\nb\nc", 3, 0, 0), 5, None)]
#[case::cut_after_a_line(990, found("aa\nbb\ncc", 3, 0, 0), 6, Some((992, 0)))]
#[case::cut_within_a_line(990, found("aa\nbb\ncc", 3, 0, 0), 4, Some((991, 1)))]
#[case::cut_within_the_first(990, found("aaaa\nbb", 2, 100, 0), 3, Some((990, 103)))]
#[case::cut_by_the_store(1, found("aaaa", 1, 100, 7), 4, Some((1, 104)))]
#[case::end_of_a_giant(1_000, found("aaaa", 1, 100, 0), 4, None)]
fn reading_on_begins_where_reading_ended(
    #[case] from: u64,
    #[case] found: ArtifactLines,
    #[case] shown: usize,
    #[case] expected: Option<(u64, u64)>,
) {
    let next = read_on(&artifact("a1", 0), from, &found, &found.text[..shown]);
    assert_eq!(next.map(|next| (next.from, next.offset)), expected);
}

#[test]
fn a_page_says_what_it_is_and_how_to_read_on() {
    let artifact = artifact("a7", 0);
    let wide = ResultRoom { tokens: 50_000, correction: Correction::default() };
    let narrow = ResultRoom { tokens: 300, ..wide };
    let page = |from, found: &ArtifactLines, room| page(&artifact, from, found, room);
    let lines: Vec<String> = (501..=600).map(|n| format!("line {n}: some words of it")).collect();
    let long = page(501, &found(&lines.join("\n"), 100, 0, 0), &narrow);
    assert!(narrow.tokens + 80 > u64::from(cairn_types::tokens::estimate(&long)), "{long}");
    insta::assert_snapshot!(
        [
            page(501, &found("line 501\nline 502", 2, 0, 0), &wide),
            page(999, &found("line 999\nline 1000", 2, 0, 0), &wide),
            page(3, &found("aaaa", 1, 40_000, 20_000), &wide),
            long,
        ]
        .join("\n\n")
    );
}

#[test]
fn a_page_never_needs_the_guard() {
    let (settings, artifact) = (ResultGuardSettings::default(), artifact("a123456", 0));
    let wide = ResultRoom { tokens: 500_000, correction: Correction::default() };
    let text = "x".repeat(settings.max_bytes - PAGE_FRAME_BYTES);
    let page = page(&artifact, 1_234_567, &found(&text, 1, 12_345_678, 1), &wide);
    assert!(page.len() <= settings.max_bytes, "{}", page.len());
}

#[test]
fn the_words_of_a_lost_artifact_are_told_with_what_to_do_instead() {
    let two = [artifact("a1", 0), Artifact { message: Some(Seq(7)), ..artifact("a2", 0) }];
    let mut artifacts = two.into_iter().map(|artifact| (artifact.id.clone(), artifact)).collect();
    let event = ArtifactEvent::Expired { ids: vec!["a1".into(), "a2".into()], lost: true };
    fold(&mut artifacts, at(9), &event);
    let told = |id: &str| readable(artifacts.get(&named(id)).cloned(), 2, id, 1).unwrap_err().to_string();
    assert_eq!(told("a1"), "the words of artifact a1 are lost; call the tool again");
    assert_eq!(told("a2"), "the words of artifact a2 are lost; read message 7 with history_read");
}
