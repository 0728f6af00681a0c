//! What a summary must keep, and how it is mended.

use rstest::rstest;

use super::*;
use crate::ids::{Generation, Seq, TurnId};
use crate::message::{Author, Part};

fn entry(role: Role, text: &str) -> Arc<Entry> {
    Arc::new(Entry {
        seq: Seq(1),
        turn: TurnId::from("t1"),
        generation: Generation::default(),
        at: jiff::Timestamp::UNIX_EPOCH,
        role,
        author: (role == Role::User).then(|| Author { id: "local/ann".to_owned(), name: "Ann".to_owned() }),
        message: None,
        parts: vec![Part::text(text)],
        reasoning: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        voices: crate::voices::Voices::default(),
        quotes: false,
        tokens: 1,
    })
}

fn said(texts: &[&str]) -> Vec<Arc<Entry>> {
    texts
        .iter()
        .map(|text| match text.strip_prefix("bot: ") {
            Some(text) => entry(Role::Assistant, text),
            None => entry(Role::User, text),
        })
        .collect()
}

#[rstest]
#[case::question(&["Hello", "bot: Hi", "Where is the key to the cellar?"], Some("Where is the key to the cellar?"))]
#[case::answered(&["Where is the key?", "bot: In the box."], None)]
#[case::latest(&["bot: Hi", "Can you book the table?", "Please call the dentist tomorrow."], Some("Please call the dentist tomorrow."))]
#[case::request_before_chatter(&["bot: Hi", "Can you book the table?", "Nice weather."], Some("Can you book the table?"))]
#[case::todo(&["Remind me to water the roses on Friday.", "bot: I will."], Some("Remind me to water the roses on Friday."))]
#[case::chinese(&["bot: 好", "请帮我预订周五的餐厅"], Some("请帮我预订周五的餐厅"))]
#[case::nothing(&["Hello", "bot: Hi", "Fine weather."], None)]
fn the_latest_open_request_is_found(#[case] texts: &[&str], #[case] expected: Option<&str>) {
    let found = open_request(&said(texts));
    assert_eq!(found.map(|request| request.text).as_deref(), expected);
}

fn faults(text: &str, texts: &[&str]) -> Vec<&'static str> {
    review(text, &Source::of_entries(&said(texts), [])).iter().map(Fault::code).collect()
}

#[rstest]
#[case::sound("## Goal\n- Ann builds src/main.rs for 1,450 euros", &["It is in src/main.rs, 1450 euros"], &[])]
#[case::prose("Ann builds a thing.", &["I build"], &["no_sections"])]
#[case::invented("## Goal\n- see src/lib.rs", &["It is in src/main.rs"], &["invented"])]
#[case::part_of_a_path("## Goal\n- see main.rs", &["It is in src/main.rs"], &[])]
#[case::other_case("## Goal\n- proj-7 is PROJ-7", &["about Proj-7"], &[])]
#[case::number("## Goal\n- 900 euros", &["800 euros"], &["invented"])]
#[case::reckoned("## Goal\n- within 3 days", &["until Friday"], &[])]
#[case::own_error_words("## Progress\n- fixed the build error: a missing file was added", &["it broke"], &[])]
#[case::request("## Goal\n- Ann has a cellar", &["bot: Hi", "Where did Bob put the spare keys?"], &["request_lost"])]
#[case::request_kept("## Active topics and open commitments\n- Ann asks where Bob has put the keys", &["bot: Hi", "Where did Bob put the spare keys?"], &[])]
#[case::all("See /etc/passwd.bak.", &["Can you book a table at Luigi's?"], &["no_sections", "invented", "request_lost"])]
fn faults_are_named(#[case] text: &str, #[case] source: &[&str], #[case] expected: &[&str]) {
    assert_eq!(faults(text, source), expected);
}

fn mended(text: &str, texts: &[&str]) -> Result<String, Rejection> {
    let source = Source::of_entries(&said(texts), []);
    let faults = review(text, &source);
    mend(text, &faults, &source)
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
fn a_summary_that_is_mostly_invented_is_refused() {
    let text = "## Goal\n- see docs/plan.md and docs/more.md and src/a.rs\n- ok";
    let refused = mended(text, &["a shed"]).unwrap_err();
    assert!(refused.to_string().contains("docs/plan.md"), "{refused}");
}

#[test]
fn a_lost_request_is_put_back() {
    let text =
        mended("## Goal\n- Ann has a cellar", &["bot: Hi", "Where did Bob put the \"spare\" keys?"]).unwrap();
    let line = "## Active topics and open commitments\n- Open request of Ann: \"Where did Bob put the 'spare' keys?\"";
    assert_eq!(text, format!("## Goal\n- Ann has a cellar\n\n{line}"));
    assert!(faults(&text, &["bot: Hi", "Where did Bob put the spare keys?"]).is_empty());
}

#[test]
fn a_digest_needs_no_headings_and_a_chunk_no_request() {
    let entries = said(&["bot: Hi", "Where did Bob put the spare keys?"]);
    let source = Source::of_entries(&entries, []);
    assert!(review("Ann has a cellar.", &source.clone().holding(true, false)).is_empty());
    assert_eq!(review("Ann has a cellar.", &source.holding(false, true)).len(), 2);
}
