//! Tables: columns as wide as their cells; the flexible one gives way when a line is wider than the terminal.

use super::text::{columns, cut};

/// A table under construction.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: &'static [usize],
    flexible: usize,
}

/// Columns that the flexible column keeps in any case.
const FLEXIBLE_MIN: usize = 24;

impl Table {
    /// A table with that heading; columns in `right` are set flush right. The last column is the flexible one.
    pub(crate) fn new(heading: &[&str], right: &'static [usize]) -> Self {
        let rows = vec![heading.iter().map(|cell| (*cell).to_owned()).collect()];
        Self { rows, right, flexible: heading.len().saturating_sub(1) }
    }

    /// Another column is the flexible one.
    pub(crate) fn flexible(mut self, column: usize) -> Self {
        self.flexible = column;
        self
    }

    /// Adds a row with as many cells as the heading.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text, no line wider than `width`.
    pub(crate) fn render(&self, width: usize) -> String {
        let n_columns = self.rows.first().map_or(0, Vec::len);
        let mut widths: Vec<usize> = (0..n_columns)
            .map(|idx| self.rows.iter().filter_map(|row| row.get(idx)).map(|cell| columns(cell)).max())
            .map(Option::unwrap_or_default)
            .collect();
        let excess = (widths.iter().sum::<usize>() + 2 * n_columns.saturating_sub(1)).saturating_sub(width);
        if let Some(flexible) = widths.get_mut(self.flexible) {
            *flexible = flexible.saturating_sub(excess).max(FLEXIBLE_MIN.min(*flexible));
        }
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (idx, cell) in row.iter().enumerate() {
                let room = widths.get(idx).copied().unwrap_or(0);
                let cell = &cut(cell, room);
                let pad = " ".repeat(room.saturating_sub(columns(cell)));
                if idx > 0 {
                    line.push_str("  ");
                }
                if self.right.contains(&idx) {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
            }
            out.push_str(cut(line.trim_end(), width).trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_are_cut() {
        let mut table = Table::new(&["name", "n", "text"], &[1]);
        table.row(vec!["a".into(), "1".into(), "short".into()]);
        table.row(vec!["longer".into(), "100".into(), "a text that is too long for the line".into()]);
        let expected = "name      n  text\na         1  short\nlonger  100  a text th…\n";
        assert_eq!(table.render(23), expected);
    }

    #[test]
    fn the_flexible_column_gives_way_to_the_others() {
        let mut table = Table::new(&["name", "n"], &[1]).flexible(0);
        table.row(vec!["a name longer than the room that there is".into(), "1".into()]);
        let expected = format!("name{}  n\na name longer than the roo…  1\n", " ".repeat(23));
        assert_eq!(table.render(30), expected);
    }
}
