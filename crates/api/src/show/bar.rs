//! The bar of a window: cells by region, and the thresholds below it. Shared by the terminal and the chats.

use cairn_core::window::Region;

use crate::records::ContextRecord;

/// The regions of the bar, in the order of the window: name and sign.
pub const REGIONS: [(&str, char); 6] =
    [("system", '#'), ("tools", '='), ("summaries", '%'), ("sealed", '+'), ("live", '*'), ("recalled", '~')];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub sign: char,
    /// The index of its region in [`REGIONS`]; `None`: free room.
    pub region: Option<usize>,
}

pub struct Bar {
    pub cells: Vec<Cell>,
    /// The line below the cells: the first letter of each tier where it starts.
    pub ticks: String,
}

/// The window's regions, in the order of [`REGIONS`].
pub fn amounts(record: &ContextRecord) -> [Region; 6] {
    let regions = &record.regions;
    [regions.system, regions.tools, regions.summaries, regions.sealed, regions.live, regions.recalled]
}

/// The bar of a window, `n_cells` wide.
pub fn bar(record: &ContextRecord, n_cells: usize) -> Bar {
    let usable = record.usable_tokens() as f64;
    let thresholds = [
        (record.thresholds.background, 'b'),
        (record.thresholds.aggressive, 'a'),
        (record.thresholds.emergency, 'e'),
    ];
    let threshold_at = |cell: usize| {
        let at = |ratio: f64| ((ratio * n_cells as f64).round() as usize).min(n_cells - 1);
        thresholds.iter().rev().find(|(ratio, _)| at(*ratio) == cell).map(|(_, sign)| *sign)
    };
    let mut sum = 0;
    let edges = amounts(record).map(|region| {
        sum += region.tokens;
        (sum as f64 / usable * n_cells as f64).round() as usize
    });
    let (mut cells, mut ticks) = (Vec::with_capacity(n_cells), String::new());
    for cell in 0..n_cells {
        let tick = threshold_at(cell);
        let region = edges.iter().position(|edge| cell < *edge);
        let sign = match region {
            Some(idx) => REGIONS[idx].1,
            None if tick.is_some() => '|',
            None => '.',
        };
        cells.push(Cell { sign, region });
        ticks.push(tick.unwrap_or(' '));
    }
    Bar { cells, ticks: ticks.trim_end().to_owned() }
}
