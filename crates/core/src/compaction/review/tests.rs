//! What a summary must keep, and how it is mended.

use rstest::rstest;

use super::*;
use crate::testing::said;

fn faults(text: &str, texts: &[&str]) -> Vec<&'static str> {
    review(text, &SummarySource::of_entries(&said(texts), [])).iter().map(SummaryFault::code).collect()
}

#[rstest]
#[case::sound("## Goal\n- Ann builds src/main.rs for 1,450 euros", &["It is in src/main.rs, 1450 euros"], &[])]
#[case::prose("Ann builds a thing.", &["I build"], &["no_sections"])]
#[case::invented("## Goal\n- see src/lib.rs", &["It is in src/main.rs"], &["invented"])]
#[case::part_of_a_path("## Goal\n- see main.rs", &["It is in src/main.rs"], &[])]
#[case::other_case("## Goal\n- proj-7 is PROJ-7", &["about Proj-7"], &[])]
#[case::number("## Goal\n- $900", &["$800"], &["invented"])]
#[case::reckoned("## Goal\n- within 3 days", &["until Friday"], &[])]
#[case::own_error_words("## Progress\n- fixed the build error: a missing file was added", &["it broke"], &[])]
#[case::all("See /etc/passwd.bak.", &["Can you book a table at Luigi's?"], &["no_sections", "invented"])]
fn faults_are_named(#[case] text: &str, #[case] source: &[&str], #[case] expected: &[&str]) {
    assert_eq!(faults(text, source), expected);
}

fn mended(text: &str, texts: &[&str]) -> Result<String, Rejection> {
    let source = SummarySource::of_entries(&said(texts), []);
    mend(text, &source)
}

#[test]
fn prose_goes_under_critical_context() {
    assert_eq!(mended("Ann builds.", &["I build"]).unwrap(), "## Critical context\nAnn builds.");
}

#[test]
fn lines_with_invented_identifiers_go() {
    let text = "## Goal\n- build a shed for the garden tools, with a window to the south\n- see docs/plan.md\n\n## Next steps\n- paint it";
    let expected = "## Goal\n- build a shed for the garden tools, with a window to the south\n\n## Next steps\n- paint it";
    assert_eq!(mended(text, &["a shed"]).unwrap(), expected);
}

#[test]
fn a_line_that_says_otherwise_without_one_before_it_goes_as_well() {
    let text = "## Goal\n- build a shed for the garden tools, with a window to the south, and paint it\n\
                - see docs/plan.md ```\n- ```<\nimportaCnce\":0";
    let source = SummarySource::of_entries(&said(&["a shed"]), []);
    let mended = mend(text, &source).unwrap();
    assert_eq!(review(&mended, &source), [], "{mended}");
}

#[test]
fn a_summary_that_is_mostly_invented_is_refused() {
    let text = "## Goal\n- see docs/plan.md and docs/more.md and src/a.rs\n- ok";
    let refused = mended(text, &["a shed"]).unwrap_err();
    assert!(refused.to_string().contains("docs/plan.md"), "{refused}");
}

#[test]
fn a_digest_needs_no_headings() {
    let source = SummarySource::of_entries(&said(&["Ann has a cellar"]), []);
    assert!(review("Ann has a cellar.", &source.clone().plain(true)).is_empty());
    assert_eq!(review("Ann has a cellar.", &source), [SummaryFault::NoSections]);
}

#[rstest]
#[case::nothing("Anna has 47 hens in Lisbon", "I have 47 hens in Lisbon", &[])]
#[case::number("Anna has hens", "I have 47 hens", &["number 47"])]
#[case::part_of_a_number("Anna has 1474 hens", "I have 47 hens", &["number 47"])]
#[case::commas("Anna has 1,474 hens", "I have 1474 hens", &[])]
#[case::name("Anna has hens", "my hens are in Lisbon", &["name Lisbon"])]
#[case::other_case_and_ending("LISBONS hens", "my hens are in Lisbon", &[])]
#[case::part_of_a_word("an annual report", "my hens are with Ann", &["name Ann"])]
#[case::identifier("Anna has 47 hens", "see /srv/hens/47.txt", &["path /srv/hens/47.txt"])]
fn what_a_text_leaves_out_is_told(#[case] text: &str, #[case] source: &str, #[case] expected: &[&str]) {
    let entries = said(&[source]);
    let shown = SummarySource::of(text, []);
    let mut found = LeftOut::new();
    left_out(&entries, &shown, &mut found);
    let told = found.into_keys().filter(|(kind, _)| *kind != "author");
    let mut told: Vec<String> = told.map(|(kind, text)| format!("{kind} {text}")).collect();
    told.sort();
    assert_eq!(told, expected);
}

#[test]
fn of_what_tools_return_only_numbers_are_looked_for() {
    let mut entry = (*said(&["it has 455 rows of Lisbon"])[0]).clone();
    entry.role = Role::Tool;
    let mut found = LeftOut::new();
    left_out(&[Arc::new(entry)], &SummarySource::default(), &mut found);
    let told: Vec<_> = found.into_keys().filter(|(kind, _)| *kind != "author").collect();
    assert_eq!(told, [("number", "455".to_owned())]);
}
