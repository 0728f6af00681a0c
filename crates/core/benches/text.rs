//! How fast texts are estimated and digested, and answers taken apart: `cargo bench -p cairn-core --bench text`.

use std::sync::Arc;

use cairn_core::answer_text::AnswerText;
use cairn_core::digest::digest;
use cairn_types::ids::{Generation, Seq, TurnId};
use cairn_types::message::{Author, Entry, Part, Role};
use cairn_types::tokens::estimate;
use cairn_types::tool::defs::ToolDefs;
use divan::Bencher;
use divan::counter::BytesCount;
use jiff::Timestamp;

fn main() {
    divan::main();
}

const SAMPLES: [(&str, &str); 4] = [
    ("english", "The archive keeps every record twice, and on Saturday we walk along the river at 10:30. "),
    ("russian", "Архив хранит каждую запись дважды, а в субботу мы гуляем у реки в 10:30. "),
    ("chinese", "档案馆把每一份记录都保存两份，星期六上午十点半我们沿着河边散步。"),
    ("json", r#"{"id":"3f2a9c1e-77b0-4d1f","createdAt":"2026-11-02T09:00:00Z","tags":["river","bridge"]},"#),
];

#[divan::bench(args = SAMPLES.map(|(name, _)| name))]
fn estimating(bencher: Bencher<'_, '_>, name: &str) {
    let sample = SAMPLES.iter().find(|sample| sample.0 == name).map_or("", |sample| sample.1);
    let text = sample.repeat(1 + 1_000_000 / sample.len().max(1));
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| estimate(divan::black_box(&text)));
}

/// Answers of a megabyte in pieces of some 20 bytes, as servers stream them.
#[divan::bench(args = ["plain", "code", "amid reasoning", "a call that does not end"])]
fn sorting(bencher: Bencher<'_, '_>, kind: &str) {
    let line = match kind {
        "code" => "```rust\nlet a = b[0] < c[1] && `d`;\n```\n",
        _ => SAMPLES[0].1,
    };
    let lead = if kind.starts_with("a call") { "<tool_call>{\"name\": \"" } else { "" };
    let text = format!("{lead}{}", line.repeat(1 + 1_000_000 / line.len()));
    let pieces: Vec<&str> = text.split_inclusive(' ').collect();
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let mut answer = AnswerText::new(ToolDefs::default(), kind.starts_with("amid"));
        let n: usize = pieces.iter().map(|piece| answer.push(divan::black_box(piece)).len()).sum();
        n + answer.end(false).len()
    });
}

/// What an answer may be made of that is hard to take apart. The throughput of a text eight times as long is the same.
const HOSTILE: [&str; 11] = [
    "<",
    "{\"name\": ",
    "<tool_call>{",
    "\n{\"name\": \"find\", \"a\": {",
    "<think>",
    "</think>",
    " ",
    "\n```json\n{\"name\": \"find\"",
    "[called find {",
    "<function=find><parameter=a>",
    "a </think>",
];

#[divan::bench(args = HOSTILE, consts = [32, 256])]
fn sorting_hostile<const KIB: usize>(bencher: Bencher<'_, '_>, unit: &str) {
    let text = unit.repeat(KIB * 1024 / unit.len());
    let pieces: Vec<&str> =
        text.as_bytes().chunks(40).filter_map(|piece| std::str::from_utf8(piece).ok()).collect();
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let mut answer = AnswerText::new(ToolDefs::default(), false);
        let n: usize = pieces.iter().map(|piece| answer.push(divan::black_box(piece)).len()).sum();
        n + answer.end(false).len()
    });
}

/// Entries of three sentences each, with words of their own.
fn entries(n: u64) -> Vec<Arc<Entry>> {
    let entry = |seq: u64| Entry {
        seq: Seq(seq),
        turn: TurnId::new(format!("t{seq}")),
        generation: Generation::default(),
        at: Timestamp::UNIX_EPOCH,
        role: Role::User,
        author: Some(Author { id: "local/anna".to_owned(), name: "Anna".to_owned() }),
        message: None,
        parts: vec![Part::text(format!(
            "I moved shelf {} to room {}. My cat{} likes the window, and the weather was nice. \
             We should call Mr. Popov about invoice {} next week.",
            seq * 7 % 113,
            seq % 17,
            seq % 29,
            seq * 31
        ))],
        reasoning: None,
        provider_state: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        files: Vec::new(),
        provenance: cairn_types::message::Provenance::default(),
        spoken: false,
        quotes: false,
        finish: None,
        tokens: 40,
    };
    (1..=n).map(entry).map(Arc::new).collect()
}

#[divan::bench(args = [200, 2_000])]
fn digesting(bencher: Bencher<'_, '_>, n: u64) {
    let entries = entries(n);
    let budget = u32::try_from(n * 10).unwrap_or(u32::MAX);
    bencher.bench_local(|| digest(divan::black_box(&entries), budget));
}
