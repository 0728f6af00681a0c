//! How fast texts from outside are read, hostile ones and such as never repeat themselves: `cargo bench -p cairn-core --bench
//! hostile`. The throughput of a unit is the same at every length.

use std::sync::Arc;

use cairn_core::compaction::identifiers::{Mask, extract, of_entries};
use cairn_core::compaction::sections::{added_to, digest_by_sections};
use cairn_core::compaction::{SummarySource, check_told, left_out, mend, review, split_memories};
use cairn_core::digest::{digest, gist};
use cairn_types::ids::ChannelId;
use cairn_types::message::{Entry, Role};
use cairn_types::testing::entry;
use cairn_types::testing::hostile::{self, Case};
use cairn_types::text::escape::{escape_hidden, escape_result, escape_text};
use cairn_types::text::words::topic_terms;
use divan::Bencher;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// Units that are hard here alone. A `#` becomes another number each time.
const MORE: [(&str, &str); 14] = [
    ("addresses in brackets", "http://a)"),
    ("closed addresses", "aa://)"),
    ("leads", "a:"),
    ("leads of paths", "ab:c/d.e:"),
    ("paths before script without gaps", "c:\\a、"),
    ("errors", "error: a b c "),
    ("sections", "## Goal\n"),
    ("speakers", "Anna: hello\n"),
    ("initials", "J. "),
    ("different lines", "line # of the same words\n"),
    ("different addresses", "http://a.example/# "),
    ("different paths", "src/a_#.rs\n"),
    ("different names", "we met Anna# Berg in Rome. "),
    ("different words", "w#x "),
];

fn text(case: Case) -> String {
    if !MORE.iter().any(|(name, _)| *name == case.name) {
        return case.text();
    }
    let text = case.text();
    let numbered = text.split_inclusive('#').zip(1000..);
    numbered.map(|(unit, n)| unit.replace('#', &n.to_string())).collect()
}

fn cases() -> impl Iterator<Item = Case> {
    hostile::cases(&MORE)
}

fn bench<T>(bencher: Bencher<'_, '_>, case: Case, work: impl Fn(&str) -> T) {
    let text = text(case);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| work(divan::black_box(&text)));
}

fn said(text: &str) -> Vec<Arc<Entry>> {
    vec![Arc::new(entry(Role::User, text))]
}

#[divan::bench(args = cases(), max_time = 0.02)]
fn identifiers(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, |text| extract(text).len() + of_entries(&said(text), "a summary", 400).len());
}

#[divan::bench(args = cases(), max_time = 0.02)]
fn masking(bencher: Bencher<'_, '_>, case: Case) {
    let channel = "main/local/main".parse::<ChannelId>();
    let mask = Mask::new(&channel.unwrap_or_else(|error| panic!("{error}")));
    bench(bencher, case, |text| mask.apply(text));
}

#[divan::bench(args = cases(), max_time = 0.02)]
fn digesting(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, |text| (digest(&said(text), 500), gist(&said(text), 20)));
}

#[divan::bench(args = cases(), max_time = 0.02)]
fn merging(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, |text| (digest_by_sections(&["## Goal\na", text], 500), added_to(Some(text), text)));
}

#[divan::bench(args = cases(), max_time = 0.02)]
fn reviewing(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, |text| {
        let own = SummarySource::of_entries(&said(text), []).capped(500);
        let other = SummarySource::of_entries(&said("We met Anna in Rome."), []).capped(500);
        let mut found = std::collections::HashMap::new();
        left_out(&said(text), &other, &mut found);
        (review(text, &own), check_told(text, &own), mend(text, &own), mend(text, &other), found)
    });
}

#[divan::bench(args = cases(), max_time = 0.02)]
fn reading(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, |text| {
        let n = escape_text(text).len() + escape_hidden(text).len() + escape_result(text).len();
        n + topic_terms(text).len() + split_memories(text).1.len()
    });
}
