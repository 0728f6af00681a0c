//! The progress bar: how far, in which tier, how many runs. Only on a terminal.

use cairn_core::tier::Tier;
use indicatif::{ProgressBar, ProgressStyle};

use super::report::Tally;
use crate::cli::out;

/// A bar on stderr, hidden when that is no terminal.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn new(n_messages: u64) -> Self {
        let bar = ProgressBar::new(n_messages);
        let template = "[{bar:30}] {pos}/{len}  {elapsed}  {msg}";
        // A template that cannot be read leaves the default one in place.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar }
    }

    pub(super) fn step(&self, tally: &Tally) {
        let (tier, under_way) =
            tally.gauge.as_ref().map_or((Tier::Calm, false), |gauge| (gauge.tier, gauge.run.is_some()));
        let run = if under_way { ", 1 under way" } else { "" };
        let emergencies = match tally.n_emergencies() {
            0 => String::new(),
            n => format!("  {n} emergencies"),
        };
        self.bar.set_message(format!("{}  {} runs{run}{emergencies}", tier.name(), tally.n_runs()));
        self.bar.set_position(tally.n_done());
    }

    pub(super) fn note(&self, text: &str) {
        self.bar.suspend(|| out::note(text));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
