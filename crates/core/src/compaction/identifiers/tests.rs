//! What counts as an identifier, in English, code, JSON and Chinese.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::{self, said};
use cairn_types::ids::ChannelId;
use cairn_types::message::{Role, ToolCall};

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
#[case::urls_in_brackets_without_gaps(
    "[http://a.example/b](http://c.example/d(e)), (http://f.example)",
    "url=http://a.example/b url=http://c.example/d(e)) url=http://f.example"
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
    "number=1,450 number=16GB number=3.5 number=30% number=$20 number=20 °C"
)]
#[case::no_units("3 cats and 2 dogs, the 3rd of 12", "")]
#[case::functions(
    "call parse_memory() or Vec::new, set MAX_LEN",
    "function=parse_memory() function=Vec::new function=MAX_LEN"
)]
#[case::camel_in_code("`fooBar` but not iPhone", "function=fooBar")]
#[case::call("then main() ends", "function=main()")]
#[case::error(
    "It said error: cannot open /tmp/a.txt today",
    "error=error: cannot open /tmp/a.txt today path=/tmp/a.txt"
)]
#[case::after_a_word(
    "file:src/main.rs sha256:08843fe9 std::fs",
    "path=src/main.rs id=08843fe9 function=std::fs"
)]
#[case::after_several_words("a:b:c:src/main.rs a:b:c:d:e:src/main.rs", "path=src/main.rs path=e:src/main.rs")]
#[case::windows_in_chinese(r"打开C:\文档\a.txt文件，然后", r"path=C:\文档\a.txt")]
#[case::exception("ValueError: bad value 3", "error=ValueError: bad value 3")]
#[case::no_message("an error: none", "")]
#[case::json(r#"{"path":"/var/log/a.log","id":"PROJ-7","n":3}"#, "path=/var/log/a.log id=PROJ-7")]
#[case::code("```\nlet x = loadConfig(path);\n```", "function=loadConfig")]
#[case::chinese("请看/var/log/app.log文件,版本v2.1,价格450元,共3公里", "path=/var/log/app.log id=v2.1")]
#[case::chinese_url("地址是https://example.com/页面。", "url=https://example.com/")]
#[case::chinese_date("2026年11月21日见", "")]
fn identifiers_are_found_by_their_shape(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(found(text), expected);
}

fn entry(role: Role, text: &str, calls: &[(&str, serde_json::Value)]) -> Arc<Entry> {
    let call = |(name, arguments): &(&str, serde_json::Value)| ToolCall {
        id: "c1".to_owned(),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
    };
    let tool_calls = calls.iter().map(call).collect();
    let mut entry = Entry { tool_calls, ..testing::entry(role, text) };
    entry.tokens = crate::window::entry_tokens(&entry);
    Arc::new(entry)
}

#[test]
fn the_rare_and_the_late_come_first_and_whichever_fits_stays() {
    let entries = said(&["/a/one.rs and /a/two.rs", "/a/three.rs", "/a/one.rs and /a/four.rs", "/a/one.rs"]);
    let list = |budget| of_entries(&entries, "", budget);
    assert_eq!(list(1_000), ["/a/one.rs", "/a/two.rs", "/a/three.rs", "/a/four.rs"]);
    let cost = estimate("/a/one.rs") + 1;
    assert_eq!(list(cost), ["/a/four.rs"], "late, and said once");
    assert_eq!(list(cost * 2), ["/a/three.rs", "/a/four.rs"]);
    assert!(list(0).is_empty());
    let long = format!("see https://example.org/{}/long.html", "very-".repeat(20));
    let entries = said(&["/a/one.rs", &long]);
    assert_eq!(of_entries(&entries, "", cost), ["/a/one.rs"], "what is too large leaves room to others");
    let endless = format!("see https://example.org/{} and /a/one.rs", "very-".repeat(100));
    assert_eq!(of_entries(&said(&[&endless]), "", 1_000), ["/a/one.rs"], "half an address is another one");
}

#[test]
fn what_the_summary_has_takes_no_room_in_the_list() {
    let entries = said(&["src/lib.rs, src/lib.rs.bak and v1.2, then lib.rs, PROJ-7"]);
    let summary = "## Progress\n- v1.2.3 is built from `src/lib.rs`, for PROJ-7.";
    assert_eq!(of_entries(&entries, summary, 1_000), ["src/lib.rs.bak", "v1.2", "lib.rs"]);
}

#[test]
fn an_error_is_listed_by_its_beginning_and_what_it_names_competes_by_itself() {
    let error = format!("error: cannot open /srv/plans/lake.md: {}", "the disk said no ".repeat(50));
    let entries = said(&[&format!("{error}\nnext line"), "the plan is PROJ-9"]);
    let listed = of_entries(&entries, "", 1_000);
    assert_eq!(listed.len(), 2, "the path stands in the message already: {listed:?}");
    assert!(
        listed[0].starts_with("error: cannot open /srv/plans/lake.md: the disk") && listed[0].len() <= 120
    );
    let few = of_entries(&entries, "", estimate("/srv/plans/lake.md") + estimate("PROJ-9") + 2);
    assert_eq!(few, ["/srv/plans/lake.md", "PROJ-9"], "without room for the message");
}

/// A day of coding: each piece of work has its ticket, its files, a commit, numbers, and an error on the way.
fn coding_session(n_works: usize) -> Vec<Arc<Entry>> {
    let mut entries = Vec::new();
    for n in 0..n_works {
        let (file, test) = (format!("src/part{n}/engine_{n}.rs"), format!("tests/part{n}_test.rs"));
        entries.push(entry(
            Role::User,
            &format!("Please look at CAIRN-{}: the export is wrong.", 400 + n),
            &[],
        ));
        let calls = [
            ("read_file", json!({ "path": file })),
            ("run", json!({ "command": format!("cargo test -p part{n}") })),
        ];
        entries.push(entry(Role::Assistant, "I look at it.", &calls));
        entries.push(entry(
            Role::Tool,
            &format!("pub fn export_part_{n}() {{\n{}}}", "    write(row);\n".repeat(20)),
            &[],
        ));
        let error = format!(
            "{}error[E0{}]: mismatched types in the expression that was written for the rows of the export, expected a \
             reference to a slice of rows but found an iterator over owned rows, see {file}:{} for the place\n{}",
            "   Compiling things\n".repeat(12),
            300 + n,
            17 + n,
            "   | more\n".repeat(9)
        );
        entries.push(entry(Role::Tool, &error, &[]));
        let calls = [("edit_file", json!({ "path": file, "new": "rows.iter()".repeat(20) }))];
        entries.push(entry(
            Role::Assistant,
            &format!("The rows in {file} were moved; {test} covers it."),
            &calls,
        ));
        entries.push(entry(Role::Tool, "ok", &[]));
        let commit = format!("{:07x}a", 0x51_7c3_u64 * (n as u64 + 3));
        entries.push(entry(
            Role::Assistant,
            &format!("Done in commit {commit}: {} ms instead of 90 ms.", 12 + n),
            &[],
        ));
    }
    entries
}

#[test]
fn most_identifiers_of_a_long_session_are_kept() {
    let entries = coding_session(14);
    let all: std::collections::HashSet<String> = entries
        .iter()
        .flat_map(|entry| {
            extract(&words(entry)).iter().map(|(_, text)| (*text).to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let source: u32 = entries.iter().map(|entry| entry.tokens).sum();
    let listed = of_entries(&entries, "", source * 7 / 100).join(", ");
    let n_kept = all.iter().filter(|identifier| stands_in(&listed, identifier)).count();
    assert!(all.len() > 100 && n_kept * 3 >= all.len() * 2, "{n_kept} of {}: {listed}", all.len());
}

#[test]
fn a_placeholder_is_the_same_for_the_same_identifier_in_one_channel() {
    let mask = |name: &str| Mask::new(&name.parse::<ChannelId>().unwrap());
    let here = mask("main/local/a");
    let text = "Open /etc/hosts.conf, then /etc/hosts.conf again; error: no such file /x/y.z here";
    let masked = here.apply(text);
    assert!(!masked.contains("/etc") && !masked.contains("/x/y"), "{masked}");
    assert!(masked.contains("; error: no such file <path-") && masked.ends_with("> here"), "{masked}");
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
