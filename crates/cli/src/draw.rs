//! The drawing of a window: a bar with its thresholds, the regions, the stack, the run, the last outcomes.

use cairn_types::event::{RunOutcome, RunReport};
use cairn_types::tier::Tier;
use console::{Style, style};

use crate::commands::channel::run_end;
use cairn_api::records::{ContextRecord, MarkerRecord, SummaryRecord};
use cairn_api::show::bar;
use cairn_api::show::bar::{REGIONS, amounts};
use cairn_api::text::{counted, cut, day, grouped, minute, one_line, percent};

/// Outcomes that are drawn; `--json` has all.
const OUTCOMES_DRAWN: usize = 5;

/// Colours of the regions, in the order of [`REGIONS`].
const COLORS: [u8; 6] = [5, 4, 3, 6, 2, 7];

/// Draws a window, no line wider than `width`. Colours are left out where stdout takes none.
pub fn context(record: &ContextRecord, width: usize) -> String {
    let mut lines = vec![
        format!(
            "{}  {}",
            style(record.channel.to_string()).bold(),
            style(format!(
                "agent {}, model {}, engine {}, session {}",
                record.agent, record.model, record.engine.id, record.generation.0
            ))
            .dim()
        ),
        fill(record),
        String::new(),
    ];
    lines.extend(bar(record, width));
    lines.push(String::new());
    lines.extend(regions(record));
    lines.extend(bar::pruned(record).map(|line| format!("  {line}")));
    lines.push(String::new());
    lines.extend(stack(record));
    lines.extend(recalled(record));
    lines.extend(run(record));
    lines.extend(outcomes(&record.outcomes));
    lines.extend(figures(record));
    lines.iter().map(|line| format!("{}\n", cut(line, width).trim_end())).collect()
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
        return vec![style("no summaries yet").dim().to_string()];
    }
    let mut items: Vec<_> = record.summaries.iter().map(|item| (item.from_seq, summary(item))).collect();
    items.extend(record.markers.iter().map(|item| (item.from_seq, marker(item))));
    items.sort_by_key(|(from, _)| *from);
    let counts = [
        counted(record.summaries.len() as u64, "summary", "summaries"),
        counted(record.markers.len() as u64, "marker", "markers"),
    ];
    let mut lines = vec![format!("{} {}", style("stack").bold(), counts.join(", "))];
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
    let mut lines = vec![format!("{} {n}", style("recalled").bold())];
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

fn run(record: &ContextRecord) -> Vec<String> {
    if record.engine.owns_compaction && record.run.is_none() {
        return vec![format!(
            "{} none: the engine {} makes room by itself",
            style("run").bold(),
            record.engine.id
        )];
    }
    let Some(run) = &record.run else {
        return vec![format!("{} none", style("run").bold())];
    };
    vec![format!(
        "{} {} over entries {}-{}, {} at tier {}, attempt {}, since {}",
        style("run").bold(),
        style(run.id.to_string()).cyan(),
        run.from_seq,
        run.to_seq,
        run.trigger.name(),
        run.tier.name(),
        run.attempt,
        minute(run.started_at)
    )]
}

fn outcomes(outcomes: &[RunReport]) -> Vec<String> {
    let drawn: Vec<_> = outcomes.iter().rev().take(OUTCOMES_DRAWN).collect();
    if drawn.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![style("last runs").bold().to_string()];
    lines.extend(drawn.into_iter().map(|end| {
        let sign = match end.outcome {
            RunOutcome::Committed => style("+").green(),
            RunOutcome::Superseded | RunOutcome::Cancelled => style("-").yellow(),
            RunOutcome::Rejected | RunOutcome::Failed => style("!").red(),
        };
        format!("  {sign} {}", run_end(end))
    }));
    lines
}

fn figures(record: &ContextRecord) -> Vec<String> {
    let window = format!(
        "window {} tokens ({}), {} kept for the answer",
        grouped(record.window_tokens),
        record.window_source.origin(),
        grouped(record.output_reserve_tokens)
    );
    let counting = format!(
        "estimates x {:.3} (recently {} estimated, {} reported), cached {}",
        record.correction.ratio,
        grouped(record.correction.estimated),
        grouped(record.correction.reported),
        percent(record.cached_share)
    );
    let answers = record.answers().map(|answers| one_line(&answers));
    let artifacts = (record.artifacts.count > 0).then(|| {
        let artifacts = counted(record.artifacts.count, "artifact", "artifacts");
        format!("{artifacts} outside of it, {} bytes", grouped(record.artifacts.bytes))
    });
    [Some(window), answers, Some(counting), artifacts]
        .into_iter()
        .flatten()
        .map(|line| style(line).dim().to_string())
        .collect()
}
