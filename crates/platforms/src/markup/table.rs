//! Renders a table as monospace text.

/// Widest column, in characters; longer cells stick out.
const WIDEST: usize = 24;

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(String::new());
        }
    }

    pub(super) fn words(&mut self) -> Option<&mut String> {
        self.rows.last_mut()?.last_mut()
    }

    /// The table as lines, with a rule under its head.
    pub(super) fn lines(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for (column, cell) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            widths[column] = widths[column].max(cell.trim().chars().count().min(WIDEST));
        }
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (n, row) in self.rows.iter().enumerate() {
            let cells = widths.iter().enumerate().map(|(column, width)| {
                let cell = row.get(column).map_or("", |cell| cell.trim());
                format!("{cell:width$}")
            });
            lines.push(cells.collect::<Vec<_>>().join(" | ").trim_end().to_owned());
            if n == 0 {
                let rule = widths.iter().map(|width| "-".repeat(*width));
                lines.push(rule.collect::<Vec<_>>().join("-+-"));
            }
        }
        lines.join("\n")
    }
}
