//! What counts as an identifier, in English, code, JSON and Chinese.

use rstest::rstest;

use super::*;
use crate::ids::ChannelId;

fn found(text: &str) -> String {
    let list: Vec<String> =
        extract(text).into_iter().map(|(kind, text)| format!("{}={text}", kind.name())).collect();
    list.join(" ")
}

#[rstest]
#[case::path("See /etc/nginx/nginx.conf, please.", "path=/etc/nginx/nginx.conf")]
#[case::relative("It is in src/main.rs:12.", "path=src/main.rs:12")]
#[case::file("Look at Cargo.toml and README.md!", "path=Cargo.toml path=README.md")]
#[case::home("in ~/notes or ./run", "path=~/notes path=./run")]
#[case::windows(r"Open C:\Users\Ann\a.txt now", r"path=C:\Users\Ann\a.txt")]
#[case::no_path("He and/or she, 24/7, km/h, 2026/11/21, /compact", "")]
#[case::url("(see https://example.com/a?b=1&c=2).", "url=https://example.com/a?b=1&c=2")]
#[case::url_in_text(
    "https://en.wikipedia.org/wiki/Rust_(language), yes",
    "url=https://en.wikipedia.org/wiki/Rust_(language)"
)]
#[case::mail("write to ann@example.org.", "url=ann@example.org")]
#[case::uuid("id 550e8400-e29b-41d4-a716-446655440000", "id=550e8400-e29b-41d4-a716-446655440000")]
#[case::hex("commit 08843fe, at 0xdeadbeef", "id=08843fe id=0xdeadbeef")]
#[case::no_hex("a decade of cafe facades", "")]
#[case::tickets("PROJ-1234 and #4711 are done", "id=PROJ-1234 id=#4711")]
#[case::versions("v1.2 became 1.3.0-rc1 on 10.0.0.1", "id=v1.2 id=1.3.0-rc1 id=10.0.0.1")]
#[case::codes("flight LH440, order 20981137", "id=LH440 id=20981137")]
#[case::dates("on 2026-11-21 at 10:30, room 12", "")]
#[case::units(
    "1,450 euros, 16GB, 3.5 km, 30%, $20, 20 °C",
    "number=1,450 euros number=16GB number=3.5 km number=30% number=$20 number=20 °C"
)]
#[case::no_units("3 cats and 2 dogs", "")]
#[case::functions(
    "call parse_memory() or Vec::new, set MAX_LEN",
    "function=parse_memory() function=Vec::new function=MAX_LEN"
)]
#[case::camel_in_code("`fooBar` but not iPhone", "function=fooBar")]
#[case::call("then main() ends", "function=main()")]
#[case::error("It said error: cannot open /tmp/a.txt today", "error=error: cannot open /tmp/a.txt today")]
#[case::exception("ValueError: bad value 3", "error=ValueError: bad value 3")]
#[case::no_message("an error: none", "")]
#[case::json(r#"{"path":"/var/log/a.log","id":"PROJ-7","n":3}"#, "path=/var/log/a.log id=PROJ-7")]
#[case::code("```\nlet x = loadConfig(path);\n```", "function=loadConfig")]
#[case::chinese(
    "请看/var/log/app.log文件,版本v2.1,价格450元,共3公里",
    "path=/var/log/app.log id=v2.1 number=450元 number=3公里"
)]
#[case::chinese_url("地址是https://example.com/页面。", "url=https://example.com/")]
#[case::chinese_date("2026年11月21日见", "")]
fn identifiers_are_found_by_their_shape(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(found(text), expected);
}

#[test]
fn those_that_recur_come_first_then_the_newest_in_the_order_of_the_source() {
    let texts = ["/a/one.rs and /a/two.rs", "/a/three.rs", "/a/one.rs and /a/four.rs"];
    let list =
        |budget| best(texts.iter().map(|text| extract(text).into_iter().map(|(_, t)| t).collect()), budget);
    assert_eq!(list(1_000), ["/a/one.rs", "/a/two.rs", "/a/three.rs", "/a/four.rs"]);
    let cost = estimate("/a/one.rs") + 1;
    assert_eq!(list(cost), ["/a/one.rs"]);
    assert_eq!(list(cost * 2), ["/a/one.rs", "/a/four.rs"]);
    assert!(list(0).is_empty());
}

#[test]
fn a_placeholder_is_the_same_for_the_same_identifier_in_one_channel() {
    let mask = |name: &str| Mask::new(&name.parse::<ChannelId>().unwrap());
    let here = mask("main/local/a");
    let text = "Open /etc/hosts.conf, then /etc/hosts.conf again; error: no such file /x/y.z here";
    let masked = here.apply(text);
    assert!(!masked.contains("/etc") && !masked.contains("/x/y"), "{masked}");
    let placeholder = masked.split(' ').nth(1).unwrap().trim_end_matches(',');
    assert!(placeholder.starts_with("<path-") && placeholder.len() == "<path-123456>".len(), "{placeholder}");
    assert_eq!(masked.matches(placeholder).count(), 2);
    assert_eq!(here.apply(&masked), masked, "placeholders stay");
    assert_ne!(mask("main/local/b").apply(text), masked);
    assert_eq!(here.apply("nothing to hide: 3 cats"), "nothing to hide: 3 cats");
}

#[test]
fn large_and_odd_texts_are_taken() {
    for text in ["/".repeat(50_000), "a_".repeat(50_000), "€".repeat(9), "`".repeat(7), "http://".to_owned()]
    {
        let _found = extract(&text);
    }
}
