//! Tables without lines, two spaces between their columns. Where a line has no room, its last cell is cut, or goes on below.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Width, presets};

pub(crate) struct Table {
    inner: comfy_table::Table,
    right: &'static [usize],
    is_wrapped: bool,
}

/// Columns that the last cell keeps in any case.
const LAST_MIN: u16 = 24;

impl Table {
    /// A table with that heading; columns in `right` are set flush right.
    pub(crate) fn new(heading: &[&str], right: &'static [usize]) -> Self {
        let mut inner = comfy_table::Table::new();
        inner.load_preset(presets::NOTHING).set_truncation_indicator("…").add_row(heading);
        Self { inner, right, is_wrapped: false }
    }

    /// The last cells go on below instead of being cut.
    pub(crate) fn wrapped(mut self) -> Self {
        self.is_wrapped = true;
        self
    }

    /// Adds a row with as many cells as the heading.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        let mut row = Row::from(cells);
        if !self.is_wrapped {
            row.max_height(1);
        }
        self.inner.add_row(row);
    }

    /// The table as text; `usize::MAX`: nothing is cut.
    pub(crate) fn render(mut self, width: usize) -> String {
        match u16::try_from(width) {
            Ok(width) => {
                self.inner.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            }
            Err(_) => {
                self.inner.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        let last = self.inner.column_count().saturating_sub(1);
        for (idx, column) in self.inner.column_iter_mut().enumerate() {
            let is_last = idx == last;
            column.set_padding((0, if is_last { 0 } else { 2 }));
            column.set_constraint(match is_last {
                true => ColumnConstraint::LowerBoundary(Width::Fixed(LAST_MIN)),
                false => ColumnConstraint::ContentWidth,
            });
            if self.right.contains(&idx) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.inner.trim_fmt() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["name", "n", "text"], &[1]);
        table.row(vec!["a".into(), "1".into(), "short".into()]);
        table.row(vec!["longer".into(), "100".into(), "a text that is too long for the line".into()]);
        table
    }

    #[test]
    fn columns_align_and_the_last_cell_is_cut() {
        let head = "name      n  text\na         1  short\nlonger  100  ";
        assert_eq!(table().render(40), format!("{head}a text that is too long fo…\n"));
        let whole = format!("{head}a text that is too long for the line\n");
        assert_eq!(table().render(100), whole);
        assert_eq!(table().render(usize::MAX), whole);
    }

    #[test]
    fn a_wrapped_cell_goes_on_below() {
        let mut table = Table::new(&["n", "text"], &[0]).wrapped();
        table.row(vec!["1".into(), "a text that is too long for the line".into()]);
        assert_eq!(table.render(30), "n  text\n1  a text that is too long for\n   the line\n");
    }
}
