//! The findings, printed line by line or as JSON at the end.

use console::{StyledObject, style};
use serde::Serialize;

use cairn_api::text::{Wrap, columns, counted, one_line};
use cairn_cli::failure::Failure;
use cairn_cli::out;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::commands) enum Mark {
    Ok,
    /// It works, but is probably a mistake.
    Warning,
    Failed,
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::commands) struct Finding {
    /// The subject: `config`, `disk`, `model ID` and so on. Several findings may share it.
    pub(super) check: String,
    pub(in crate::commands) state: Mark,
    /// The finding, without secrets.
    pub(super) finding: String,
    /// How to fix it, if needed.
    pub(super) remedy: Option<String>,
    /// An address that a person opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<String>,
}

impl Finding {
    fn new(check: &str, state: Mark, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into()).filter(|remedy| !remedy.is_empty());
        Self { check: check.to_owned(), state, finding: finding.into(), remedy, link: None }
    }

    pub(super) fn ok(check: &str, finding: impl Into<String>) -> Self {
        Self::new(check, Mark::Ok, finding, "")
    }

    /// It works, but is probably a mistake.
    pub(super) fn warning(check: &str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, Mark::Warning, finding, remedy)
    }

    pub(super) fn failed(check: &str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, Mark::Failed, finding, remedy)
    }

    /// A check that was skipped, with the reason.
    pub(super) fn skipped(check: &str, why: impl Into<String>) -> Self {
        Self::new(check, Mark::Skipped, why, "")
    }
}

/// Width of the mark and of the subject, in columns.
const MARK: usize = 9;
const CHECK: usize = 14;

#[derive(Debug, Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    quiet: bool,
}

impl Report {
    /// `json`: prints all findings at the end, as JSON.
    pub(super) fn new(json: bool) -> Self {
        Self { findings: Vec::new(), quiet: json }
    }

    pub(super) fn add(&mut self, findings: impl IntoIterator<Item = Finding>) -> Result<(), Failure> {
        for finding in findings {
            if !self.quiet {
                out::text(&drawn(&finding, out::room()))?;
            }
            self.findings.push(finding);
        }
        Ok(())
    }

    pub(super) fn has_failed(&self) -> bool {
        self.count(Mark::Failed) > 0
    }

    pub(super) fn close(&self) -> Result<(), Failure> {
        if self.quiet {
            return out::json(&self.findings);
        }
        let verdict = match (self.count(Mark::Failed), self.count(Mark::Warning)) {
            (0, 0) => "everything is fine".to_owned(),
            (0, warnings) => format!("it works, with {}", counted(warnings, "warning", "warnings")),
            (failed, 0) => format!("{failed} failed"),
            (failed, warnings) => {
                format!("{failed} failed, {}", counted(warnings, "warning", "warnings"))
            }
        };
        out::line(&verdict)
    }

    fn count(&self, mark: Mark) -> u64 {
        self.findings.iter().filter(|finding| finding.state == mark).count() as u64
    }
}

/// A finding and its remedy, wrapped to `width` columns.
pub(super) fn drawn(finding: &Finding, width: usize) -> String {
    let (word, color): (&str, fn(&'static str) -> StyledObject<&'static str>) = match finding.state {
        Mark::Ok => ("ok", |word| style(word).green()),
        Mark::Warning => ("warning", |word| style(word).yellow()),
        Mark::Failed => ("failed", |word| style(word).red().bold()),
        Mark::Skipped => ("skipped", |word| style(word).dim()),
    };
    let indent = " ".repeat(MARK + CHECK);
    let room = width.saturating_sub(indent.len()).max(20);
    let check = one_line(&finding.check);
    let mut out = format!("{}{}", color(word), " ".repeat(MARK - word.len()));
    out.push_str(&check);
    if columns(&check) < CHECK {
        out.push_str(&" ".repeat(CHECK - columns(&check)));
    } else if width == usize::MAX {
        out.push_str("  ");
    } else {
        out.push_str(&format!("\n{indent}"));
    }
    out.push_str(&below(&finding.finding, room, &indent));
    if let Some(remedy) = &finding.remedy {
        let remedy = below(remedy, room.saturating_sub(2), &format!("{indent}  "));
        out.push_str(&format!("{indent}> {remedy}"));
    }
    if let Some(link) = &finding.link {
        // In one piece, so that it can be opened.
        out.push_str(&format!("{indent}{}\n", one_line(link)));
    }
    out
}

/// A text wrapped to `width` columns; lines after the first are indented.
fn below(text: &str, width: usize, indent: &str) -> String {
    let mut wrap = Wrap::new(width);
    let whole = wrap.feed(&one_line(text)) + &wrap.finish();
    format!("{}\n", whole.replace('\n', &format!("\n{indent}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_stands_in_its_column_and_its_remedy_below() {
        let finding = Finding::warning(
            "permissions",
            "everybody on this machine may read the file /etc/cairn/openai.key",
            "chmod 600 /etc/cairn/openai.key",
        );
        let expected = "\
warning  permissions   everybody on this machine may read the
                       file /etc/cairn/openai.key
                       > chmod 600 /etc/cairn/openai.key
";
        assert_eq!(drawn(&finding, 62), expected);
        let wide = drawn(&finding, usize::MAX);
        assert_eq!(wide.lines().count(), 2, "a line each where nobody looks on: {wide}");
    }

    #[test]
    fn a_long_name_has_a_line_of_its_own_and_others_words_move_no_cursor() {
        let finding = Finding::ok("model a-name-that-is-longer", "fine\u{1b}[2J\nindeed");
        let indent = " ".repeat(MARK + CHECK);
        let expected = format!("ok       model a-name-that-is-longer\n{indent}fine\\u{{1b}}[2J indeed\n");
        assert_eq!(drawn(&finding, 80), expected);
    }
}
