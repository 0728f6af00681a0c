//! Markdown as Discord shows it.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case::own_markdown(
    "# Head\n-# small\n**b** *i* ~~s~~ ||no||\n> q\n- a\n  - b",
    "# Head\n-# small\n**b** *i* ~~s~~ ||no||\n> q\n- a\n  - b"
)]
#[case::a_link("see [the page](https://x.example/a) now", "see the page (<https://x.example/a>) now")]
#[case::a_link_with_emphasis("[**a** `b`](https://x.example)", "**a** `b` (<https://x.example>)")]
#[case::a_link_that_is_its_address("[https://x.example](https://x.example)", "<https://x.example>")]
#[case::a_link_that_lies(
    "[https://good.example](https://bad.example)",
    "https://good.example (<https://bad.example>)"
)]
#[case::a_link_of_another_kind("[a](javascript:x)", "a (javascript:x)")]
#[case::a_picture("![a cat](https://x.example/c.png)", "a cat (<https://x.example/c.png>)")]
#[case::a_picture_without_words("![](https://x.example/c.png)", "<https://x.example/c.png>")]
#[case::a_picture_in_a_link(
    "[![alt](https://i.example)](https://l.example)",
    "alt (<https://i.example>) (<https://l.example>)"
)]
#[case::an_address_in_brackets("<https://x.example>", "<https://x.example>")]
#[case::a_link_in_html("<div>[a](https://x.example)</div>", "<div>[a]\u{2060}(https://x.example)</div>")]
#[case::tildes("~~~py\nx\n~~~", "```py\nx\n```")]
#[case::an_open_fence("```rust\nlet a = 1;", "```rust\nlet a = 1;\n```")]
#[case::a_long_run_within("~~~\n`````\nx\n~~~", "```\n``\u{2060}``\u{2060}`\nx\n```")]
#[case::a_fence_within("````\n```\nx\n```\n````", "```\n``\u{2060}`\nx\n``\u{2060}`\n```")]
#[case::a_fence_in_a_quote("> ```\n> a\n> b\n> ```", "> ```\n> a\n> b\n> ```")]
#[case::a_fence_in_a_list("- a\n  ```c\n  x\n  ```\n- b", "- a\n  ```c\nx\n```\n- b")]
#[case::code_is_as_it_is("```\n[a](b) <t:1> </a:1>\n```", "```\n[a](b) <t:1> </a:1>\n```")]
#[case::inline_code("call `a[0](b)` </div>", "call `a[0](b)` </div>")]
#[case::a_lone_backtick("a ` b", "a \\` b")]
#[case::a_table("| a | long |\n|---|---|\n| 1 | `2` |", "```\na | long\n--+-----\n1 | 2\n```")]
#[case::direction_and_control("a\u{202e}b\u{0}c\u{7}", "abc")]
#[case::nothing_to_see("\u{202e}", "…")]
#[case::an_empty_fence("```\n```", "\\`\\`\\`\n\\`\\`\\`")]
fn markdown_is_shown(#[case] markdown: &str, #[case] shown: &str) {
    assert_eq!(render(markdown), shown);
}

#[rstest]
#[case("@everyone and @here", "@\u{2060}everyone and @\u{2060}here")]
#[case("`@everyone`", "`@\u{2060}everyone`")]
#[case("<@1> <@!1> <@&1> <#1>", "<\u{2060}@1> <\u{2060}@!1> <\u{2060}@&1> <\u{2060}#1>")]
#[case("</ban:1> </a b:22>", "<\u{2060}/ban:1> <\u{2060}/a b:22>")]
#[case("<t:1> <id:guide> <:e:1> <a:e:1>", "<\u{2060}t:1> <\u{2060}id:guide> <\u{2060}:e:1> <\u{2060}a:e:1>")]
#[case("@\u{202e}everyone", "@\u{2060}everyone")]
#[case("@[everyone](https://x.example)", "@\u{2060}everyone (<https://x.example>)")]
#[case("<[@1>](https://x.example)", "<\u{2060}@1> (<https://x.example>)")]
#[case("[x](@1)", "x (@1)")]
#[case("[x](https://x.example/@everyone)", "x (<https://x.example/%40everyone>)")]
#[case("` open\n\n`@everyone` <@1>", "\\` open\n\n`@\u{2060}everyone` <\u{2060}@1>")]
fn mentions_are_broken_up(#[case] markdown: &str, #[case] shown: &str) {
    assert_eq!(render(markdown), shown);
}

fn is_live(text: &str) -> bool {
    let text = text.to_lowercase();
    ["@everyone", "@here", "<@"].iter().any(|live| text.contains(live))
}

proptest! {
    #[test]
    fn nothing_that_leaves_mentions_anybody(
        text in "(@everyone|@here|<@1>|<#1>|\\[|\\]\\(https://x\\)|\\(|`|```|~~~|\n|> |- |\\||\\PC|\\\\|[a ]|\u{202e}){0,40}"
    ) {
        let shown = render(&text);
        prop_assert!(!is_live(&shown), "{shown:?}");
        prop_assert!(!shown.is_empty());
    }

    #[test]
    fn any_text_is_rendered(text in any::<String>()) {
        prop_assert!(!render(&text).trim().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn parts_are_within_the_limit(text in "(word |`|```\n|\n|\\[a\\]\\(https://x\\)|@here|\\| a ){600,700}") {
        for part in split(&text) {
            prop_assert!(render(&part).chars().count() <= LIMIT);
        }
    }
}
