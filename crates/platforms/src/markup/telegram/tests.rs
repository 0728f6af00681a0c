//! Markdown as Telegram shows it.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// Entities as tags, so that cases can be read.
fn tagged(markdown: &str) -> String {
    let rendered = render(markdown);
    let units: Vec<u16> = rendered.text.encode_utf16().collect();
    let mut marks: Vec<(usize, bool, usize, String)> = Vec::new();
    for (n, entity) in rendered.entities.iter().enumerate() {
        let tag = match &entity.kind {
            MessageEntityKind::Bold => "b".to_owned(),
            MessageEntityKind::Italic => "i".to_owned(),
            MessageEntityKind::Strikethrough => "s".to_owned(),
            MessageEntityKind::Code => "c".to_owned(),
            MessageEntityKind::Pre { language: None } => "pre".to_owned(),
            MessageEntityKind::Pre { language: Some(language) } => format!("pre:{language}"),
            MessageEntityKind::Blockquote => "q".to_owned(),
            other => panic!("never made: {other:?}"),
        };
        marks.push((entity.offset, true, n, format!("<{tag}>")));
        marks.push((entity.offset + entity.length, false, usize::MAX - n, format!("</{tag}>")));
    }
    marks.sort();
    let mut out = String::new();
    let mut at = 0;
    for (place, _, _, mark) in marks {
        out.push_str(&String::from_utf16(&units[at..place]).expect("a boundary"));
        out.push_str(&mark);
        at = place;
    }
    out + &String::from_utf16(&units[at..]).expect("a boundary")
}

#[rstest]
#[case::plain("Hello.", "Hello.")]
#[case::emphasis("**b** *i* ~~s~~ `c`", "<b>b</b> <i>i</i> <s>s</s> <c>c</c>")]
#[case::nested("**a *b* c**", "<b>a <i>b</i> c</b>")]
#[case::bold_in_a_heading("# A **b**", "<b>A b</b>")]
#[case::code_in_bold("**a `b` c**", "<b>a</b> <c>b</c> <b>c</b>")]
#[case::beyond_the_basic_plane("🦊 **🦊🦊** *x*", "🦊 <b>🦊🦊</b> <i>x</i>")]
#[case::paragraphs("a\nb\n\n\nc", "a\nb\n\nc")]
#[case::heading("# Head\ntext", "<b>Head</b>\n\ntext")]
#[case::lists("a\n- b\n  - c\n- d\n\n1. e\n2. f", "a\n\n• b\n  • c\n• d\n\n1. e\n2. f")]
#[case::list_that_goes_on("7. a\n8. b", "7. a\n8. b")]
#[case::empty_items("-\n-\n- a", "• \n• \n• a")]
#[case::code_block("x\n```rust\nfn a() {}\n```\ny", "x\n\n<pre:rust>fn a() {}</pre:rust>\n\ny")]
#[case::code_block_as_it_is("```\n  /a @b [c](d)\n```", "<pre>  /a @b [c](d)</pre>")]
#[case::open_fence("```py\nx = 1", "<pre:py>x = 1</pre:py>")]
#[case::open_emphasis("**a *b", "**a *b")]
#[case::quote("> a **b**\n> `c`", "<q>a <b>b</b>\n`c`</q>")]
#[case::code_block_in_a_quote("> a\n> ```\n> b\n> ```\n> c", "<q>a</q>\n\n<pre>b</pre>\n\n<q>c</q>")]
#[case::quote_in_a_quote("> a\n> > b", "<q>a\n\nb</q>")]
#[case::link("[a](https://x.example)", "a (https://x.example)")]
#[case::link_that_is_its_address("<https://x.example>", "https://x.example")]
#[case::link_that_lies(
    "[https://good.example](https://bad.example)",
    "https://good.example (https://bad.example)"
)]
#[case::picture("![a cat](https://x.example/c.png)", "a cat (https://x.example/c.png)")]
#[case::html("<b>x</b> <a href='tg://user?id=1'>y</a>", "<b>x</b> <a href='tg:\u{2060}//user?id=1'>y</a>")]
#[case::rule("a\n\n---\n\nb", "a\n\n———\n\nb")]
#[case::table("| a | long |\n|---|---|\n| 1 | **2** |", "<pre>a | long\n--+-----\n1 | 2</pre>")]
#[case::direction_and_control("a\u{202e}b\u{0}c\u{2066}", "abc")]
#[case::nothing_to_see("\u{202e}", "…")]
#[case::an_empty_fence("```\n```", "```\n```")]
fn markdown_is_shown(#[case] markdown: &str, #[case] shown: &str) {
    assert_eq!(tagged(markdown), shown);
}

#[rstest]
#[case("@durov, (@durov)", "@\u{2060}durov, (@\u{2060}durov)")]
#[case("write to a@b.example", "write to a@b.example")]
#[case("/start and /stop@bot", "/\u{2060}start and /\u{2060}stop@bot")]
#[case("either/or 1/2 https://x.example/a/-/b", "either/or 1/2 https://x.example/a/-/b")]
#[case("https://x.example/@durov", "https://x.example/%40durov")]
#[case("@**durov**", "@<b>\u{2060}durov</b>")]
#[case("@`durov`", "@\u{2060}<c>durov</c>")]
#[case("`@`durov", "<c>@</c>\u{2060}durov")]
#[case("@\u{202e}durov", "@\u{2060}durov")]
#[case("&#64;durov \\@durov", "@\u{2060}durov @\u{2060}durov")]
#[case("[x](tg://user?id=1)", "x (tg:\u{2060}//user?id=1)")]
#[case("TG://resolve", "TG:\u{2060}//resolve")]
#[case("`@durov /start`", "<c>@durov /start</c>")]
fn what_telegram_would_make_live_is_broken_up(#[case] markdown: &str, #[case] shown: &str) {
    assert_eq!(tagged(markdown), shown);
}

/// The rules of the Bot API for entities.
fn check(rendered: &Rendered) -> Result<(), TestCaseError> {
    let units: Vec<u16> = rendered.text.encode_utf16().collect();
    for (n, entity) in rendered.entities.iter().enumerate() {
        let end = entity.offset + entity.length;
        prop_assert!(entity.length > 0 && end <= units.len());
        let inside = String::from_utf16(&units[entity.offset..end]);
        prop_assert!(inside.is_ok_and(|text| !text.trim().is_empty() && text.trim_end() == text));
        let is_code = |entity: &MessageEntity| {
            matches!(entity.kind, MessageEntityKind::Code | MessageEntityKind::Pre { .. })
        };
        for other in &rendered.entities[n + 1..] {
            let other_end = other.offset + other.length;
            prop_assert!(other.offset >= end || other_end <= end, "{rendered:?}");
            prop_assert!(
                other.offset >= end || !(is_code(entity) || is_code(other) || entity.kind == other.kind),
                "{rendered:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn code_beyond_the_most_entities_is_inert_all_the_same() {
    let rendered = render(&"`@ann` and `/new`; ".repeat(60));
    assert_eq!(rendered.entities.len(), MOST_ENTITIES);
    let last = rendered.entities.last().expect("there are some");
    let end = last.offset + last.length;
    let units: Vec<u16> = rendered.text.encode_utf16().collect();
    let formatted = String::from_utf16(&units[..end]).expect("a boundary");
    let rest = String::from_utf16(&units[end..]).expect("a boundary");
    assert!(formatted.starts_with("@ann and /new;"), "code is left as it is: {formatted}");
    let inert = "; @\u{2060}ann and /\u{2060}new".repeat(10);
    assert_eq!(rest, format!("{inert};"));
}

proptest! {
    #[test]
    fn entities_obey_the_rules(
        text in "(\\*|\\*\\*|_|~~|`|```\n|~~~|\n|\n\n|> |- |1\\. |# |\\||[ab ]|🦊|\\[|\\]\\(u\\)|@|/|<b>|\u{202e}){0,60}"
    ) {
        let rendered = render(&text);
        check(&rendered)?;
        prop_assert!(!rendered.text.is_empty());
    }

    #[test]
    fn any_text_is_rendered(text in any::<String>()) {
        let rendered = render(&text);
        check(&rendered)?;
        prop_assert!(!rendered.text.trim().is_empty());
    }

    #[test]
    fn nobody_is_mentioned_by_code_without_its_entities(text in "(@|a|durov|`|``|```\n|\n|/|https://x/| |\\|){0,30}") {
        let text = plain(&text);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let live = |(at, mark): (usize, &str)| {
            let (before, after) = (&text[..at], &text[at + mark.len()..]);
            let parted = before.ends_with(is_name) || mark == "/" && (before.contains("https:") || before.ends_with(['/', '<']));
            !parted && after.starts_with(is_name)
        };
        prop_assert!(!text.match_indices('@').chain(text.match_indices('/')).any(live), "{text:?}");
    }

    #[test]
    fn nobody_is_mentioned(text in "(@|a|durov|\\*|\\[|\\]\\(https://x\\)|https://x/| |\\(|\\\\|&#64;|\u{202e}|<|>){0,30}") {
        let text = render(&text).text;
        let live = |(at, _): (usize, &str)| {
            !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                && text[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        };
        prop_assert!(!text.match_indices('@').any(live), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn parts_are_within_the_limit(text in "(word |`|```\n|\n|\\[a\\]\\(https://x\\)|@here |\\| a |🦊){1200,1300}") {
        for part in split(&text) {
            prop_assert!(render(&part).text.encode_utf16().count() <= LIMIT);
        }
    }
}
