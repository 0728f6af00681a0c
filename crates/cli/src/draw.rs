//! The drawing of a window: a bar with its thresholds, the regions, the stack and the recalled memories, above its figures.

use cairn_types::tier::Tier;
use console::{Style, style};

use crate::paint::paint;
use cairn_api::records::{ContextRecord, MarkerRecord, SummaryRecord};
use cairn_api::show::Show as _;
use cairn_api::show::bar::{self, REGIONS, amounts};
use cairn_api::text::{counted, cut, day, grouped, one_line, percent};

/// Colours of the regions, in the order of [`REGIONS`].
const COLORS: [u8; 6] = [5, 4, 3, 6, 2, 7];

/// Draws a window, no line wider than `width`. Colours are left out where stdout takes none.
pub fn context(record: &ContextRecord, width: usize) -> String {
    let mut lines = vec![style(record.channel.to_string()).bold().to_string(), fill(record), String::new()];
    lines.extend(bar(record, width));
    lines.push(String::new());
    lines.extend(regions(record));
    lines.extend(stack(record));
    lines.extend(recalled(record));
    lines.push(String::new());
    let drawn: String = lines.iter().map(|line| format!("{}\n", cut(line, width).trim_end())).collect();
    drawn + &paint(&record.show(), width)
}

/// How full the window is, and which tier that is.
pub fn fill(record: &ContextRecord) -> String {
    format!(
        "{} of {} usable tokens, {}, tier {}",
        grouped(used(record)),
        grouped(record.usable_tokens()),
        percent(record.usage_ratio),
        tier_style(record.tier).apply_to(record.tier.name())
    )
}

fn used(record: &ContextRecord) -> u64 {
    amounts(record).iter().map(|region| region.tokens).sum()
}

fn tier_style(tier: Tier) -> Style {
    match tier {
        Tier::Calm => Style::new().green(),
        Tier::Background => Style::new().yellow(),
        Tier::Aggressive => Style::new().color256(208),
        Tier::Emergency => Style::new().red().bold(),
    }
}

/// The bar, and below it the thresholds.
pub fn bar(record: &ContextRecord, width: usize) -> Vec<String> {
    let bar = bar::bar(record, width.saturating_sub(4).clamp(20, 100));
    let painted = bar.cells.chunk_by(|a, b| a.region == b.region).map(|run| {
        let signs: String = run.iter().map(|cell| cell.sign).collect();
        match run.first().and_then(|cell| cell.region) {
            Some(region) => style(signs).color256(COLORS[region]).to_string(),
            None => style(signs).dim().to_string(),
        }
    });
    let cells: String = painted.collect();
    vec![
        format!(" [{cells}]"),
        format!("  {}", bar.ticks),
        format!(
            "  {}",
            style(format!(
                "tiers: b background {}, a aggressive {}, e emergency {}",
                percent(record.thresholds.background),
                percent(record.thresholds.aggressive),
                percent(record.thresholds.emergency)
            ))
            .dim()
        ),
    ]
}

fn regions(record: &ContextRecord) -> Vec<String> {
    let usable = record.usable_tokens() as f64;
    let rows = amounts(record);
    let mut lines: Vec<_> = rows
        .iter()
        .zip(REGIONS)
        .zip(COLORS)
        .map(|((region, (name, sign)), color)| {
            format!(
                "  {} {name:<10} {:>9} tokens  {:>7}  {:>6} {}",
                style(sign).color256(color),
                grouped(region.tokens),
                percent(region.tokens as f64 / usable),
                grouped(region.entries),
                unit(name, region.entries)
            )
        })
        .collect();
    let pending = record.regions.pending;
    if pending.entries > 0 {
        lines.push(format!(
            "    {:<10} {:>9} tokens  {:>7}  {:>6} {}",
            "pending",
            grouped(pending.tokens),
            "-",
            grouped(pending.entries),
            unit("pending", pending.entries)
        ));
    }
    lines
}

fn unit(region: &str, n: u64) -> &'static str {
    match (region, n) {
        ("tools", 1) => "tool",
        ("tools", _) => "tools",
        ("system", 1) => "prompt",
        ("system", _) => "prompts",
        ("summaries", 1) => "item",
        ("summaries", _) => "items",
        ("recalled", 1) => "memory",
        ("recalled", _) => "memories",
        (_, 1) => "entry",
        _ => "entries",
    }
}

/// Summaries and markers in order of time.
fn stack(record: &ContextRecord) -> Vec<String> {
    if record.summaries.is_empty() && record.markers.is_empty() {
        return Vec::new();
    }
    let mut items: Vec<_> = record.summaries.iter().map(|item| (item.from_seq, summary(item))).collect();
    items.extend(record.markers.iter().map(|item| (item.from_seq, marker(item))));
    items.sort_by_key(|(from, _)| *from);
    let mut lines = vec![String::new(), style("stack").bold().to_string()];
    lines.extend(items.into_iter().flat_map(|(_, lines)| lines));
    lines
}

fn summary(item: &SummaryRecord) -> [String; 2] {
    [
        format!(
            "  {} level {}  entries {}-{}  {} to {}  {} tokens  by {}{}",
            style(item.id.to_string()).yellow(),
            item.level,
            item.from_seq,
            item.to_seq,
            day(item.from_at),
            day(item.to_at),
            grouped(item.tokens),
            one_line(&item.made_by),
            if item.provisional { ", provisional: a model will rewrite it" } else { "" }
        ),
        format!("    {}", style(first_line(&item.text)).dim()),
    ]
}

fn marker(item: &MarkerRecord) -> [String; 2] {
    let messages = counted(item.messages, "entry", "entries");
    [
        format!("  {}  entries {}-{}  {messages}", style("marker").red(), item.from_seq, item.to_seq),
        format!("    {}", style(first_line(&item.text)).dim()),
    ]
}

/// The memories of the last question, by their ids.
fn recalled(record: &ContextRecord) -> Vec<String> {
    if record.recalled.is_empty() {
        return Vec::new();
    }
    let n = counted(record.recalled.len() as u64, "memory", "memories");
    let mut lines = vec![String::new(), format!("{} {n}", style("recalled").bold())];
    lines.extend(record.recalled.iter().map(|item| {
        let said = match (&item.kind, &item.text) {
            (Some(kind), Some(text)) => format!("{}  {}", kind.name(), style(first_line(text)).dim()),
            _ => style("forgotten since").dim().to_string(),
        };
        format!("  {}  {said}", style(item.id.to_string()).yellow())
    }));
    lines
}

fn first_line(text: &str) -> String {
    // A heading says nothing of what is below it.
    let says = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let line = text.lines().find(says).or_else(|| text.lines().find(|line| !line.trim().is_empty()));
    one_line(line.unwrap_or_default())
}
