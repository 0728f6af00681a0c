//! How large the requests to the model were over time, with the compactions between them.

use cairn_types::ids::ChannelId;
use cairn_types::model::Usage;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::json;

use crate::asset::File;
use crate::error::PageError;
use crate::pieces::{table, text, time};
use cairn_api::text::{counted, grouped};
use cairn_server::api::Shared;

/// Calls in the chart.
const CALLS: usize = 200;

/// Size of the drawing that stands where no script runs.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 160.0;

/// A compaction that was committed.
struct Compaction {
    at: Timestamp,
    before: u64,
    after: u64,
}

pub(super) async fn section(admin: &Shared, channel: &ChannelId) -> Result<Markup, PageError> {
    let calls = admin.store.call_usages(channel.clone(), CALLS).await?;
    let Some((first, _)) = calls.first() else { return Ok(html! {}) };
    let ends = admin.store.summaries(channel.clone()).await?;
    let runs: Vec<_> = ends
        .iter()
        .filter(|(at, _)| at >= first)
        .map(|(at, end)| Compaction { at: *at, before: end.tokens_before, after: end.tokens_after })
        .collect();
    // For the script, in the form that the chart takes: times, and values for each line.
    let data = json!({
        "at": calls.iter().map(|(at, _)| at.as_second()).collect::<Vec<_>>(),
        "tokens": calls.iter().map(|(_, usage)| usage.input_tokens).collect::<Vec<_>>(),
        "cached": calls.iter().map(|(_, usage)| usage.cached_tokens).collect::<Vec<_>>(),
        "runs": runs.iter().map(|run| place(&calls, run.at)).collect::<Vec<_>>(),
    });
    Ok(html! {
        section aria-labelledby="tokens" {
            h2 #tokens { "Tokens sent, call by call" }
            figure #chart data-points=(data) {
                (drawn(&calls, &runs))
                figcaption {
                    "The last " (counted(calls.len() as u64, "call", "calls")) ", at most " (grouped(most(&calls)))
                    " tokens; upright lines: " (counted(runs.len() as u64, "compaction", "compactions"))
                }
            }
            @if !runs.is_empty() { details { summary { "Compactions as a table" } (listed(&runs)) } }
            link rel="stylesheet" href=(File::ChartStyle.path());
            script src=(File::Chart.path()) defer {}
        }
    })
}

fn most(calls: &[(Timestamp, Usage)]) -> u64 {
    calls.iter().map(|(_, usage)| usage.input_tokens).max().unwrap_or(0)
}

/// Where a time is among the calls, which stand at 0, 1, 2 and so on: between the one before it and the one after.
fn place(calls: &[(Timestamp, Usage)], at: Timestamp) -> f64 {
    calls.partition_point(|(call, _)| *call <= at) as f64 - 0.5
}

/// The calls one beside the other, whatever the time between them: days of silence would hide the rest.
fn drawn(calls: &[(Timestamp, Usage)], runs: &[Compaction]) -> Markup {
    let top = most(calls).max(1) as f64;
    let step = WIDTH / (calls.len().max(2) - 1) as f64;
    let point = |idx: usize, tokens: u64| {
        format!("{:.1},{:.1}", idx as f64 * step, HEIGHT - tokens as f64 / top * (HEIGHT - 4.0))
    };
    let points: Vec<_> =
        calls.iter().enumerate().map(|(idx, (_, usage))| point(idx, usage.input_tokens)).collect();
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label="Tokens of each call" {
            @for run in runs {
                @let x = format!("{:.1}", (place(calls, run.at) * step).clamp(0.0, WIDTH));
                line.run x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
            }
            polyline.tokens points=(points.join(" ")) {}
        }
    }
}

fn listed(runs: &[Compaction]) -> Markup {
    let row = |run: &Compaction| vec![time(run.at), text(grouped(run.before)), text(grouped(run.after))];
    let rows: Vec<_> = runs.iter().rev().map(row).collect();
    table("Compactions, newest first", &[("at", ""), ("tokens before", "number"), ("after", "number")], &rows)
}
