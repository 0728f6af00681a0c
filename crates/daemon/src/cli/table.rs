//! Tables: columns as wide as their cells; the flexible one gives way when a line is wider than the terminal: its cells
//! are cut, or, where they are names, stand on a line of their own.

use crate::text::{columns, cut};

pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: &'static [usize],
    flexible: usize,
    whole: bool,
}

/// Columns that the flexible column keeps in any case.
const FLEXIBLE_MIN: usize = 24;

impl Table {
    /// A table with that heading; columns in `right` are set flush right. The last column is the flexible one.
    pub(crate) fn new(heading: &[&str], right: &'static [usize]) -> Self {
        let rows = vec![heading.iter().map(|cell| (*cell).to_owned()).collect()];
        Self { rows, right, flexible: heading.len().saturating_sub(1), whole: false }
    }

    /// That column is the flexible one, and none of its cells is cut: one that finds no room stands on a line of its
    /// own above the rest of its row.
    pub(crate) fn whole(mut self, column: usize) -> Self {
        (self.flexible, self.whole) = (column, true);
        self
    }

    /// Adds a row with as many cells as the heading.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text, no line wider than `width` but for cells that are not cut.
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
            let wide = row
                .get(self.flexible)
                .filter(|cell| self.whole && columns(cell) > widths.get(self.flexible).copied().unwrap_or(0));
            if let Some(cell) = wide {
                out.push_str(cell);
                out.push('\n');
            }
            for (idx, cell) in row.iter().enumerate() {
                let room = widths.get(idx).copied().unwrap_or(0);
                let above = wide.is_some() && idx == self.flexible;
                let cell = &if above { String::new() } else { cut(cell, room) };
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
    fn a_name_that_finds_no_room_stands_whole_above_its_row() {
        let mut table = Table::new(&["name", "n"], &[1]).whole(0);
        table.row(vec!["a name longer than the room that there is".into(), "1".into()]);
        table.row(vec!["a short one".into(), "2".into()]);
        let gap = " ".repeat(16);
        let expected = format!(
            "name{}  n\na name longer than the room that there is\n{}  1\na short one{gap}  2\n",
            " ".repeat(23),
            " ".repeat(27),
        );
        assert_eq!(table.render(30), expected);
        let wide = table.render(usize::MAX);
        assert!(
            wide.lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("a name longer") && line.ends_with("is  1"))
        );
    }
}
