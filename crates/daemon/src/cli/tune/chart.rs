//! The chart: a row for each candidate, with its window over time and its figures, all to the same scales. One SVG file
//! without scripts, for light and dark backgrounds.

use std::fmt::Write;

use cairn_core::tune::{Candidate, Mark, Outcome};

use super::report::Report;
use crate::cli::text::{counted, grouped, one_line, percent};

/// Places of the columns, in pixels.
const WIDTH: f64 = 1_000.0;
const NAMES: f64 = 16.0;
const PLOT: f64 = 208.0;
const PLOT_WIDTH: f64 = 440.0;
const BARS: [f64; 3] = [676.0, 790.0, 894.0];
const BAR_WIDTH: f64 = 88.0;

const HEAD: f64 = 112.0;
const ROW: f64 = 84.0;
const PLOT_HEIGHT: f64 = 56.0;
const FOOT: f64 = 44.0;

/// Longest name that is drawn, in characters.
const NAME_MAX: usize = 26;

const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px;fill:#1f2328}\
.bg{fill:#ffffff}.title{font-size:17px;font-weight:600}.dim{fill:#59636e;font-size:11px}.name{font-weight:600}\
.best{fill:#ddf4e4}.grid{stroke:#d1d9e0;stroke-width:1}.axis{stroke:#818b98;stroke-width:1}\
.area{fill:#2f6fdb;fill-opacity:.28;stroke:#2f6fdb;stroke-width:1.2;stroke-linejoin:round}\
.limit{stroke:#b35900;stroke-width:1;stroke-dasharray:4 3}.run{stroke:#1a7f4b;stroke-width:1.4}\
.merge{stroke:#8250df;stroke-width:1.4}.emergency{fill:#cf222e}.bar{fill:#2f6fdb;fill-opacity:.75}.track{fill:#eaeef2}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.bg{fill:#0d1117}.dim{fill:#9198a1}.best{fill:#12301f}\
.grid{stroke:#2a313c}.axis{stroke:#656c76}.area{fill:#58a6ff;stroke:#58a6ff}.limit{stroke:#e09b4a}.run{stroke:#3fb950}\
.merge{stroke:#bc8cff}.emergency{fill:#ff6a69}.bar{fill:#58a6ff}.track{fill:#21262d}}";

/// The scales that all rows share.
struct Scales {
    turns: f64,
    tokens: f64,
    billed: f64,
}

impl Scales {
    fn of(report: &Report) -> Self {
        let outcomes = || report.rows.iter().map(|(_, outcome)| outcome);
        let tokens = outcomes().map(Outcome::max_tokens).max().unwrap_or(0);
        let billed = outcomes().map(Outcome::billed_per_turn).fold(1.0, f64::max);
        Self { turns: (report.n_turns() as f64 - 1.0).max(1.0), tokens: nice(tokens as f64), billed }
    }

    fn x(&self, turn: usize) -> f64 {
        PLOT + turn as f64 / self.turns * PLOT_WIDTH
    }

    fn y(&self, bottom: f64, tokens: u64) -> f64 {
        bottom - tokens as f64 / self.tokens * PLOT_HEIGHT
    }
}

/// The next number with one or two digits that count, from that on.
fn nice(number: f64) -> f64 {
    let unit = 10_f64.powf(number.max(10.0).log10().floor() - 1.0);
    let step = [10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0];
    step.into_iter().map(|step| step * unit).find(|step| *step >= number).unwrap_or(number)
}

pub(super) fn draw(report: &Report) -> String {
    let scales = Scales::of(report);
    let height = HEAD + ROW * report.rows.len() as f64 + FOOT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<title>Context size and cost of settings: {}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        escape(&report.source)
    );
    head(&mut svg, report);
    for (idx, (candidate, outcome)) in report.rows.iter().enumerate() {
        row(&mut svg, &scales, HEAD + ROW * idx as f64, candidate, outcome, idx == report.choice.best);
    }
    foot(&mut svg, &scales, HEAD + ROW * report.rows.len() as f64);
    svg.push_str("</svg>\n");
    svg
}

fn head(svg: &mut String, report: &Report) {
    text(svg, "title", NAMES, 28.0, &format!("Context size and cost: {}", cut(&report.source, 60)));
    let about = format!(
        "{}, {} tokens, agent {}; {}; the best at equal retention is marked",
        counted(report.n_turns() as u64, "turn", "turns"),
        grouped(report.tokens),
        report.agent,
        report.prices
    );
    text(svg, "dim", NAMES, 47.0, &about);
    legend(svg, 66.0);
    text(svg, "dim", PLOT, HEAD - 12.0, "context size in tokens, by turn");
    for (x, label) in BARS.into_iter().zip(["billed tokens / turn", "cached share", "retention"]) {
        text(svg, "dim", x, HEAD - 12.0, label);
    }
}

fn legend(svg: &mut String, y: f64) {
    let middle = y - 4.0;
    let _ =
        write!(svg, "<rect class=\"area\" x=\"{NAMES}\" y=\"{}\" width=\"16\" height=\"8\"/>", middle - 4.0);
    text(svg, "dim", NAMES + 22.0, y, "context, least to most");
    let marks = [
        ("limit", 172.0, "where runs begin"),
        ("run", 300.0, "compaction"),
        ("merge", 392.0, "merge of summaries"),
    ];
    for (class, x, label) in marks {
        let (x1, y1, x2, y2) = match class {
            "limit" => (x, middle, x + 16.0, middle),
            _ => (x + 8.0, middle - 5.0, x + 8.0, middle + 5.0),
        };
        let _ = write!(svg, "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>");
        text(svg, "dim", x + 20.0, y, label);
    }
    triangle(svg, 556.0, middle - 4.0);
    text(svg, "dim", 568.0, y, "emergency");
}

fn row(svg: &mut String, scales: &Scales, top: f64, candidate: &Candidate, outcome: &Outcome, best: bool) {
    if best {
        let _ = writeln!(
            svg,
            "<rect class=\"best\" x=\"8\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/>",
            top - 4.0,
            WIDTH - 16.0,
            ROW - 4.0
        );
    }
    let name = cut(&candidate.name, NAME_MAX);
    text(svg, "name", NAMES, top + 14.0, &if best { format!("\u{2605} {name}") } else { name });
    let (mean, most) = (grouped(outcome.mean_tokens().round() as u64), grouped(outcome.max_tokens()));
    text(svg, "dim", NAMES, top + 31.0, &format!("mean {mean}, most {most}"));
    text(svg, "dim", NAMES, top + 46.0, &happened(outcome));
    plot(svg, scales, top, candidate, outcome);
    let billed = outcome.billed_per_turn();
    let bars = [
        (billed / scales.billed, grouped(billed.round() as u64)),
        (outcome.cached_share(), percent(outcome.cached_share())),
        (outcome.retention, percent(outcome.retention)),
    ];
    for (x, (share, label)) in BARS.into_iter().zip(bars) {
        bar(svg, x, top + 16.0, share, &label);
    }
}

fn happened(outcome: &Outcome) -> String {
    let runs = counted((outcome.compactions.len() + outcome.merges.len()) as u64, "run", "runs");
    match outcome.emergencies.len() as u64 {
        0 => runs,
        n => format!("{runs}, {}", counted(n, "emergency", "emergencies")),
    }
}

fn plot(svg: &mut String, scales: &Scales, top: f64, candidate: &Candidate, outcome: &Outcome) {
    let bottom = top + PLOT_HEIGHT + 4.0;
    for (share, class) in [(1.0, "grid"), (0.5, "grid"), (0.0, "axis")] {
        let (y, right) = (bottom - share * PLOT_HEIGHT, PLOT + PLOT_WIDTH);
        let _ = write!(svg, "<line class=\"{class}\" x1=\"{PLOT}\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\"/>");
        let label = short(scales.tokens * share);
        let _ = write!(
            svg,
            "<text class=\"dim\" text-anchor=\"end\" x=\"{}\" y=\"{}\">{label}</text>",
            PLOT - 5.0,
            y + 4.0
        );
    }
    let _ = writeln!(svg, "<path class=\"area\" d=\"{}\"/>", envelope(scales, bottom, outcome));
    let usable = candidate.settings.window.usable_tokens() as f64;
    let limit = candidate.settings.compaction.background_threshold * usable;
    if limit <= scales.tokens && candidate.settings.compaction.enabled {
        let (y, right) = (scales.y(bottom, limit as u64), PLOT + PLOT_WIDTH);
        let _ =
            write!(svg, "<line class=\"limit\" x1=\"{PLOT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>");
    }
    ticks(svg, scales, "run", bottom + 2.0, &outcome.compactions);
    ticks(svg, scales, "merge", bottom + 8.0, &outcome.merges);
    for x in pixels(scales, &outcome.emergencies) {
        triangle(svg, x, bottom - PLOT_HEIGHT - 4.0);
    }
}

/// The least and the most of each column of pixels, as one closed line.
fn envelope(scales: &Scales, bottom: f64, outcome: &Outcome) -> String {
    let mut columns: Vec<(f64, u64, u64)> = Vec::new();
    for point in &outcome.points {
        let x = scales.x(point.turn).round();
        match columns.last_mut() {
            Some((last, least, most)) if *last == x => {
                *least = point.tokens.min(*least);
                *most = point.tokens.max(*most);
            }
            _ => columns.push((x, point.tokens, point.tokens)),
        }
    }
    let there = columns.iter().map(|(x, _, most)| (*x, *most));
    let back = columns.iter().rev().map(|(x, least, _)| (*x, *least));
    let mut path = String::new();
    for (idx, (x, tokens)) in there.chain(back).enumerate() {
        let _ = write!(path, "{}{x:.0} {:.1}", if idx == 0 { 'M' } else { 'L' }, scales.y(bottom, tokens));
    }
    path.push('Z');
    path
}

/// Places of marks, each pixel once.
fn pixels(scales: &Scales, marks: &[Mark]) -> Vec<f64> {
    let mut pixels: Vec<f64> = marks.iter().map(|mark| scales.x(mark.turn).round()).collect();
    pixels.dedup();
    pixels
}

fn ticks(svg: &mut String, scales: &Scales, class: &str, y: f64, marks: &[Mark]) {
    let mut path = String::new();
    for x in pixels(scales, marks) {
        let _ = write!(path, "M{x:.0} {y}v5");
    }
    if !path.is_empty() {
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }
}

fn triangle(svg: &mut String, x: f64, y: f64) {
    let _ = write!(svg, "<path class=\"emergency\" d=\"M{:.1} {y}h9l-4.5 8z\"/>", x - 4.5);
}

fn bar(svg: &mut String, x: f64, y: f64, share: f64, label: &str) {
    let filled = share.clamp(0.0, 1.0) * BAR_WIDTH;
    let _ = write!(
        svg,
        "<rect class=\"track\" x=\"{x}\" y=\"{y}\" width=\"{BAR_WIDTH}\" height=\"10\" rx=\"2\"/>"
    );
    let _ =
        write!(svg, "<rect class=\"bar\" x=\"{x}\" y=\"{y}\" width=\"{filled:.1}\" height=\"10\" rx=\"2\"/>");
    text(svg, "", x, y + 26.0, label);
}

fn foot(svg: &mut String, scales: &Scales, top: f64) {
    let last = scales.turns + 1.0;
    for (share, anchor) in [(0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end")]
    {
        let turn = if share == 0.0 { 1.0 } else { (last * share).round() };
        let _ = writeln!(
            svg,
            "<text class=\"dim\" text-anchor=\"{anchor}\" x=\"{}\" y=\"{}\">{}{}</text>",
            PLOT + share * PLOT_WIDTH,
            top + 12.0,
            if share == 0.0 { "turn " } else { "" },
            grouped(turn as u64)
        );
    }
    text(svg, "dim", BARS[0], top + 12.0, "billed: in units of a plain input token, runs included");
}

fn text(svg: &mut String, class: &str, x: f64, y: f64, words: &str) {
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(words));
}

/// Thousands as `24 k`.
fn short(tokens: f64) -> String {
    if tokens < 1_000.0 { format!("{tokens:.0}") } else { format!("{} k", (tokens / 100.0).round() / 10.0) }
}

fn cut(words: &str, most: usize) -> String {
    let words = one_line(words);
    if words.chars().count() <= most {
        return words;
    }
    words.chars().take(most - 1).chain(['\u{2026}']).collect()
}

fn escape(words: &str) -> String {
    one_line(words).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
