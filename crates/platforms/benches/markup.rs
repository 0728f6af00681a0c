//! How fast replies are cut and rendered, of ordinary and of hostile texts: `cargo bench -p cairn-platforms`. The throughput
//! of a unit is the same at every length.

use std::fmt;

use cairn_platforms::markup::{discord, telegram};
use cairn_types::testing::hostile;
use divan::Bencher;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// A repeated unit, and the length of the text in KiB.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    unit: &'static str,
    kib: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:3} KiB", self.name, self.kib)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    hostile::UNITS.iter().flat_map(|(name, unit)| [1, 16, 256].map(|kib| Case { name, unit, kib }))
}

fn bench<T>(bencher: Bencher<'_, '_>, case: Case, work: impl Fn(&str) -> T) {
    let text = hostile::text(case.unit, case.kib * 1024);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| work(divan::black_box(&text)));
}

#[divan::bench(args = cases(), max_time = 0.05)]
fn split_for_telegram(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, telegram::split);
}

#[divan::bench(args = cases(), max_time = 0.05)]
fn split_for_discord(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, discord::split);
}

#[divan::bench(args = cases(), max_time = 0.05)]
fn render_for_telegram(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, telegram::render);
}

#[divan::bench(args = cases(), max_time = 0.05)]
fn render_for_discord(bencher: Bencher<'_, '_>, case: Case) {
    bench(bencher, case, discord::render);
}
