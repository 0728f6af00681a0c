//! The ribbon of coverage: what stands for every entry, from the first to now.

use cairn_core::conversation::{Conversation, EntryPlace};
use cairn_types::ids::Seq;
use cairn_types::summary::Summary;
use maud::{Markup, html};

use crate::links::summary_path;
use crate::pieces::{table, text};
use crate::window_bar::of_all;
use cairn_api::records::{Stretch, coverage};
use cairn_api::text::{counted, grouped, one_line};

/// Least share of the width that a stretch gets, so that it can be seen.
const LEAST: f64 = 0.006;

/// Levels that have a colour of their own; those above have the last one's.
const LEVELS: u32 = 3;

struct Piece<'a> {
    stretch: Stretch,
    summary: Option<&'a Summary>,
    /// Entries whose words have expired.
    expired: u64,
}

fn pieces<'a>(conversation: &'a Conversation, expired: &[(Seq, Seq)]) -> Vec<Piece<'a>> {
    let piece = |stretch: Stretch| {
        let summary = match &stretch.place {
            EntryPlace::Summary(id) => conversation.stack.summary(id),
            _ => None,
        };
        let expired = expired.iter().map(|(from, to)| {
            let (from, to) = (from.0.max(stretch.from_seq.0), to.0.min(stretch.to_seq.0));
            (to + 1).saturating_sub(from)
        });
        Piece { expired: expired.sum(), summary, stretch }
    };
    coverage(conversation).into_iter().map(piece).collect()
}

impl Piece<'_> {
    fn class(&self) -> String {
        match (&self.stretch.place, self.summary) {
            (EntryPlace::Summary(_), Some(summary)) if summary.provisional => "provisional".to_owned(),
            (EntryPlace::Summary(_), summary) => {
                format!("level{}", summary.map_or(0, |summary| summary.level.min(LEVELS - 1)))
            }
            (place, _) => place.to_string(),
        }
    }

    fn named(&self) -> String {
        match (&self.stretch.place, self.summary) {
            (EntryPlace::Summary(id), Some(summary)) => {
                let provisional = if summary.provisional { ", provisional" } else { "" };
                format!("summary {id}, level {}{provisional}", summary.level)
            }
            (EntryPlace::Summary(id), None) => format!("summary {id}"),
            (place, _) => place.to_string(),
        }
    }

    fn described(&self) -> String {
        let Stretch { from_seq, to_seq, .. } = self.stretch;
        let expired = match self.expired {
            0 => String::new(),
            n => format!(", text of {} expired", grouped(n)),
        };
        format!("{}: entries {from_seq} to {to_seq}{expired}", self.named())
    }
}

/// Where each begins and how wide it is, as shares of the whole; none is too narrow to be seen.
fn widths(entries: &[u64]) -> Vec<(f64, f64)> {
    let all: u64 = entries.iter().sum();
    let wide: Vec<f64> = entries.iter().map(|n| (*n as f64 / all.max(1) as f64).max(LEAST)).collect();
    let sum: f64 = wide.iter().sum();
    let mut at = 0.0;
    let places = wide.iter().map(|width| {
        let place = (at, width / sum);
        at += width / sum;
        place
    });
    places.collect()
}

pub(super) fn drawn(conversation: &Conversation, expired: &[(Seq, Seq)]) -> Markup {
    let pieces = pieces(conversation, expired);
    if pieces.is_empty() {
        return html! { p { "There are no entries yet." } };
    }
    let entries: Vec<u64> = pieces.iter().map(|piece| piece.stretch.entries()).collect();
    let placed: Vec<_> = pieces.iter().zip(widths(&entries)).collect();
    let mut kinds: Vec<(String, &str)> = Vec::new();
    for (class, name) in KINDS {
        if pieces.iter().any(|piece| piece.class() == class) {
            kinds.push((class.to_owned(), name));
        }
    }
    html! {
        svg.ribbon role="group" aria-label={ "Entries 1 to " (conversation.next_seq.0 - 1) ", and how each is kept" } {
            @for (piece, (from, width)) in &placed {
                @let bar = html! {
                    rect class=(piece.class()) x=(of_all(*from)) y="0" width=(of_all(*width)) height="30" { title { (one_line(&piece.described())) } }
                };
                @match piece.summary {
                    Some(summary) => a href=(summary_path(&conversation.channel, summary.id.as_str())) tabindex="-1" aria-label=(one_line(&piece.described())) { (bar) },
                    None => (bar),
                }
                @if piece.expired > 0 {
                    @let share = piece.expired as f64 / piece.stretch.entries() as f64;
                    rect.expired x=(of_all(*from)) y="33" width=(of_all(width * share)) height="5" {}
                }
            }
        }
        p.ends.note { span { "1" } span { (grouped(conversation.next_seq.0 - 1)) } }
        ul.legend {
            @for (class, name) in &kinds { li { span class={ "swatch " (class) } {} (name) } }
            @if pieces.iter().any(|piece| piece.expired > 0) { li { span.swatch.expired {} "text expired" } }
        }
    }
}

/// Classes of the ribbon, each with its name.
const KINDS: [(&str, &str); 8] = [
    ("archived", "archived"),
    ("level0", "summary"),
    ("level1", "merged summary"),
    ("level2", "merged again"),
    ("provisional", "provisional summary"),
    ("marker", "marker"),
    ("sealed", "sealed for a run"),
    ("live", "live"),
];

/// The pieces of the ribbon as a table.
pub(super) fn listed(conversation: &Conversation, expired: &[(Seq, Seq)]) -> Markup {
    let rows: Vec<_> = pieces(conversation, expired)
        .iter()
        .map(|piece| {
            let name = piece.named();
            vec![
                html! {
                    @match piece.summary {
                        Some(summary) => a href=(summary_path(&conversation.channel, summary.id.as_str())) { (one_line(&name)) },
                        None => (one_line(&name)),
                    }
                },
                text(piece.stretch.from_seq),
                text(piece.stretch.to_seq),
                text(counted(piece.stretch.entries(), "entry", "entries")),
                text(grouped(piece.expired)),
            ]
        })
        .collect();
    let columns = [
        ("kept as", ""),
        ("from", "number"),
        ("to", "number"),
        ("in all", "number"),
        ("text expired", "number"),
    ];
    table("How each entry is kept", &columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stretch_beside_long_ones_is_seen_and_all_fill_the_width() {
        let placed = widths(&[10_000, 1, 5_000]);
        assert!(placed[1].1 > 0.005, "{placed:?}");
        let (from, width) = placed[2];
        assert!((from + width - 1.0).abs() < 1e-9, "{placed:?}");
        assert!(placed[0].1 > placed[2].1);
    }
}
