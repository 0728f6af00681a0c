//! Text of a size, for what is measured by its text: it says nothing, and weighs what it should.

use std::sync::LazyLock;

use crate::tokens::estimate;

/// Few characters weigh more, so that little is scanned.
const HEAVY: &str = "\u{1f642}";

/// As many bytes for a token as most results of tools.
const PLAIN: &str = "abc ";

static HEAVY_TOKENS: LazyLock<f64> = LazyLock::new(|| each(HEAVY));
static PLAIN_TOKENS: LazyLock<f64> = LazyLock::new(|| each(PLAIN));

fn each(unit: &str) -> f64 {
    f64::from(estimate(&unit.repeat(1_000))) / 1_000.0
}

/// A text of about so many tokens, as short as can be.
pub(super) fn text(tokens: u64) -> String {
    HEAVY.repeat((tokens as f64 / *HEAVY_TOKENS).floor().max(1.0) as usize)
}

/// A text of about so many tokens, with as many bytes as a tool's result of that size.
pub(super) fn result(tokens: u32) -> String {
    PLAIN.repeat((f64::from(tokens) / *PLAIN_TOKENS).round().max(1.0) as usize)
}
