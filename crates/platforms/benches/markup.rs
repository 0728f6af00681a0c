//! How fast replies are cut and rendered, of ordinary and of hostile texts: `cargo bench -p cairn-platforms`. The throughput
//! of a unit is the same at every length.

use cairn_platforms::markup::{discord, telegram};
use cairn_types::testing::hostile::{self, Case};
use divan::Bencher;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

fn cases() -> impl Iterator<Item = Case> {
    hostile::cases(&[])
}

fn bench<T>(bencher: Bencher<'_, '_>, case: Case, work: impl Fn(&str) -> T) {
    let text = case.text();
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
