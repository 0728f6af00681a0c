//! The window as a bar: its parts, and where the tiers begin.

use maud::{Markup, html};

use crate::pieces::{table, text};
use cairn_api::records::ContextRecord;
use cairn_api::show::bar::{REGIONS, amounts};
use cairn_api::text::{grouped, percent};

pub(super) fn drawn(record: &ContextRecord) -> Markup {
    let usable = record.usable_tokens() as f64;
    let tiers = [
        ('b', "background", record.thresholds.background),
        ('a', "aggressive", record.thresholds.aggressive),
        ('e', "emergency", record.thresholds.emergency),
    ];
    let used: u64 = amounts(record).iter().map(|region| region.tokens).sum();
    let label = format!(
        "{} of {} usable tokens, {}",
        grouped(used),
        grouped(record.usable_tokens()),
        percent(record.usage_ratio)
    );
    let mut at = 0.0;
    let parts: Vec<_> = amounts(record)
        .iter()
        .enumerate()
        .map(|(idx, region)| {
            let (from, width) = (at, share(region.tokens as f64 / usable, 1.0 - at));
            at += width;
            (idx, from, width)
        })
        .collect();
    html! {
        p.gauge { (label) ", tier " span class={ "tier " (record.tier.name()) } { (record.tier.name()) } }
        svg.bar role="img" aria-label=(label) {
            rect.room x="0" y="0" width="100%" height="22" {}
            @for (idx, from, width) in parts {
                @if width > 0.0 { rect class={ "r" (idx) } x=(of_all(from)) y="0" width=(of_all(width)) height="22" {} }
            }
            @for (sign, _, ratio) in tiers {
                line.tick x1=(of_all(ratio)) x2=(of_all(ratio)) y1="0" y2="27" {}
                text x=(of_all(ratio)) y="40" text-anchor="middle" { (sign) }
            }
        }
        p.note { @for (idx, (sign, name, ratio)) in tiers.iter().enumerate() { @if idx > 0 { ", " } b { (sign) } " " (name) " from " (percent(*ratio)) } }
        (legend(record, usable))
    }
}

fn legend(record: &ContextRecord, usable: f64) -> Markup {
    let part = |name: &str, class: &str, region: &cairn_core::window::Region| {
        vec![
            html! { span class={ "swatch " (class) } {} (name) },
            text(grouped(region.tokens)),
            text(percent(region.tokens as f64 / usable)),
            text(grouped(region.entries)),
        ]
    };
    let rows = amounts(record).into_iter().zip(REGIONS).enumerate();
    let rows = rows.filter(|(_, (region, _))| region.tokens > 0 || region.entries > 0);
    let mut rows: Vec<_> =
        rows.map(|(idx, (region, (name, _)))| part(name, &format!("r{idx}"), &region)).collect();
    if record.regions.pending.entries > 0 {
        rows.push(part("pending", "room", &record.regions.pending));
    }
    html! {
        (table("Parts of the window", &[("part", ""), ("tokens", "number"), ("share", "number"), ("items", "number")], &rows))
    }
}

/// A share of the bar that does not lead beyond its end.
fn share(share: f64, room: f64) -> f64 {
    share.clamp(0.0, room.max(0.0))
}

/// As an attribute of SVG.
pub(super) fn of_all(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}
