//! Tables: columns as wide as their cells, the last one cut to the width of the terminal.

use super::text::{columns, cut};

/// A table under construction.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: &'static [usize],
}

impl Table {
    /// A table with that heading; columns in `right` are set flush right.
    pub(crate) fn new(heading: &[&str], right: &'static [usize]) -> Self {
        Self { rows: vec![heading.iter().map(|cell| (*cell).to_owned()).collect()], right }
    }

    /// Adds a row with as many cells as the heading.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as text, no line wider than `width`.
    pub(crate) fn render(&self, width: usize) -> String {
        let n_columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..n_columns)
            .map(|idx| self.rows.iter().filter_map(|row| row.get(idx)).map(|cell| columns(cell)).max())
            .map(Option::unwrap_or_default)
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (idx, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths.get(idx).copied().unwrap_or(0).saturating_sub(columns(cell)));
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
}
