//! Candidate settings, and which of them is best.

use super::sim::{TuneOutcome, frame_tokens};
use crate::agent::{AgentSettings, WindowSize};
use crate::settings::CompactionSettings;

#[derive(Debug, Clone, PartialEq)]
pub struct TuneCandidate {
    pub name: String,
    pub settings: AgentSettings,
}

/// Absolute windows that are tried where they are smaller than the one in force, in tokens.
const WINDOWS: [u64; 4] = [24_000, 48_000, 96_000, 200_000];

/// The settings in force, then what is worth a try beside them; none twice. `resize`: the window that results when the
/// agent sets that size, if it can.
pub fn presets(current: &AgentSettings, resize: impl Fn(u64) -> Option<WindowSize>) -> Vec<TuneCandidate> {
    let compaction = &current.compaction;
    let mut candidates = vec![TuneCandidate { name: "current".to_owned(), settings: current.clone() }];
    let mut add = |name: String, settings: AgentSettings| {
        let known = candidates.iter().any(|candidate| candidate.settings == settings);
        if !known && settings.compaction.validate().is_ok() {
            candidates.push(TuneCandidate { name, settings });
        }
    };
    let with = |change: &dyn Fn(&mut CompactionSettings)| {
        let mut settings = current.clone();
        change(&mut settings.compaction);
        settings
    };
    let standard = CompactionSettings::default();
    add("thresholds by default".to_owned(), with(&|keys| thresholds_of(keys, &standard)));
    add("long tasks (0.70)".to_owned(), with(&|keys| thresholds(keys, [0.70, 0.85, 0.95])));
    add("needs context (0.90)".to_owned(), with(&|keys| thresholds(keys, [0.90, 0.93, 0.97])));
    for share in [0.3, 0.5] {
        add(format!("fraction {share}"), with(&|keys| fraction(keys, share)));
    }
    add(
        "0.70, fraction 0.5".to_owned(),
        with(&|keys| {
            thresholds(keys, [0.70, 0.85, 0.95]);
            fraction(keys, 0.5);
        }),
    );
    if !compaction.when_cold {
        add("when cold".to_owned(), with(&|keys| keys.when_cold = true));
    }
    for window in WINDOWS {
        let smaller = resize(window).filter(|size| size.window_tokens < current.window.window_tokens);
        if let Some(size) = smaller.filter(|size| frame_tokens(current) * 2 < size.usable_tokens()) {
            add(format!("window {} k", window / 1_000), AgentSettings { window: size, ..current.clone() });
        }
    }
    candidates
}

fn thresholds(keys: &mut CompactionSettings, [background, aggressive, emergency]: [f64; 3]) {
    keys.background_threshold = background;
    keys.aggressive_threshold = aggressive;
    keys.emergency_threshold = emergency;
}

fn thresholds_of(keys: &mut CompactionSettings, other: &CompactionSettings) {
    thresholds(keys, [other.background_threshold, other.aggressive_threshold, other.emergency_threshold]);
    keys.background_fraction = other.background_fraction;
    keys.aggressive_fraction = other.aggressive_fraction;
    keys.emergency_fraction = other.emergency_fraction;
    keys.reserve_ratio = other.reserve_ratio;
}

fn fraction(keys: &mut CompactionSettings, share: f64) {
    keys.background_fraction = share;
    keys.aggressive_fraction = keys.aggressive_fraction.max(share);
}

/// Retentions that differ by less count as equal.
pub const RETENTION_TOLERANCE: f64 = 0.02;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub best: usize,
    /// It does no better than the first one, which is in force.
    pub keeps_current: bool,
}

/// The cheapest of the candidates that retain no less than the first one (within [`RETENTION_TOLERANCE`]) and have no
/// more emergencies. What is not cheaper by half a percent is not worth a change.
pub fn choose(outcomes: &[TuneOutcome]) -> Option<Choice> {
    let current = outcomes.first()?;
    let equal = |other: &&(usize, &TuneOutcome)| {
        other.1.retention >= current.retention - RETENTION_TOLERANCE
            && other.1.emergencies <= current.emergencies
    };
    let cost = |outcome: &TuneOutcome| outcome.billed_per_turn();
    let candidates: Vec<(usize, &TuneOutcome)> = outcomes.iter().enumerate().collect();
    let cheapest = candidates
        .iter()
        .filter(equal)
        .min_by(|a, b| cost(a.1).total_cmp(&cost(b.1)))
        .map(|(idx, _)| *idx)?;
    let gains = cost(&outcomes[cheapest]) < cost(current) * 0.995;
    Some(Choice { best: if gains { cheapest } else { 0 }, keeps_current: !gains })
}
