//! The text of a config file, and the positions of its keys and values.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{FilePosition, Problem};
use super::hints;
use super::redact::{is_about_secret, shown_line, without_quoted};

/// Longest excerpt of a line in an error, in characters.
const EXCERPT_MAX: usize = 160;

/// Longest value that a hint repeats, in bytes.
const VALUE_MAX: usize = 60;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seg {
    Key(String),
    /// An index of an array, from 0.
    Index(usize),
}

impl From<&str> for Seg {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Seg {
    fn from(idx: usize) -> Self {
        Self::Index(idx)
    }
}

/// A config file, read and parsed as TOML.
pub(super) struct Source<'t> {
    file: PathBuf,
    text: &'t str,
    root: Spanned<DeValue<'t>>,
}

/// The positions of a key and its value, in bytes.
#[derive(Debug, Clone)]
struct KeySpans {
    key: Range<usize>,
    value: Range<usize>,
}

impl<'t> Source<'t> {
    pub(super) fn parse(file: &Path, text: &'t str) -> Result<Self, Problem> {
        let file = file.to_owned();
        match DeTable::parse(text) {
            Ok(table) => {
                let span = table.span();
                let root = Spanned::new(span, DeValue::Table(table.into_inner()));
                Ok(Self { file, text, root })
            }
            Err(error) => {
                let span = error.span().unwrap_or(text.len()..text.len());
                let start = text[..span.start.min(text.len())].rfind('\n').map_or(0, |idx| idx + 1);
                let hint = hints::of_syntax(text[start..].lines().next().unwrap_or_default());
                let place = place(&file, text, span);
                let problem = Problem::new(format!("this is not TOML: {}", error.message())).at(Some(place));
                Err(match hint {
                    Some(hint) => problem.hint(hint),
                    None => problem,
                })
            }
        }
    }

    /// The folder that relative paths in the file start from.
    pub(super) fn dir(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }

    pub(super) fn root(&self) -> &DeValue<'t> {
        self.root.get_ref()
    }

    /// The line on which a span of bytes begins, from 1.
    pub(super) fn line_of(&self, span: &Range<usize>) -> usize {
        self.text[..span.start].matches('\n').count() + 1
    }

    /// The start of the line with a byte, in bytes.
    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |idx| idx + 1)
    }

    /// The place of a span of bytes.
    fn place(&self, span: Range<usize>) -> FilePosition {
        place(&self.file, self.text, span)
    }

    /// The place of a key; if the file does not have it, that of the nearest table above it.
    pub(super) fn key_place(&self, path: &[Seg]) -> Option<FilePosition> {
        (1..=path.len()).rev().find_map(|n| self.find(&path[..n])).map(|found| self.place(found.key))
    }

    /// The place of a value; `None`: the file does not have it.
    pub(super) fn value_place(&self, path: &[Seg]) -> Option<FilePosition> {
        self.find(path).map(|found| self.place(found.value))
    }

    pub(super) fn sets(&self, path: &[Seg]) -> bool {
        self.find(path).is_some()
    }

    /// The problem for an error of the deserializer about a key's value.
    pub(super) fn type_problem(&self, error: &toml::de::Error) -> Problem {
        let said = in_plain_words(error.message());
        let said = match error.span() {
            Some(span) if is_about_secret(self.text, self.line_start(span.start)) => without_quoted(&said),
            _ => said,
        };
        let name = error.span().and_then(|span| self.name_at(&span));
        let message = match name {
            Some(name) => format!("`{name}`: {said}"),
            None => said,
        };
        let problem = Problem::new(message).at(error.span().map(|span| self.place(span)));
        let Some(span) = error.span() else { return problem };
        let key = self.name_at(&span).unwrap_or_default();
        let key = key.rsplit('.').next().unwrap_or_default();
        // A value that may be a secret is not repeated.
        let value = self.text.get(span.clone()).filter(|value| value.len() <= VALUE_MAX);
        let value =
            value.filter(|_| !is_about_secret(self.text, self.line_start(span.start))).unwrap_or("\"…\"");
        match hints::of_type(error.message(), key, value) {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    /// The dotted name of the key whose value is at a span, such as `defaults.context_window`.
    fn name_at(&self, span: &Range<usize>) -> Option<String> {
        let mut names = Vec::new();
        name_at(&self.root, span, &mut names).then(|| names.join("."))
    }

    fn find(&self, path: &[Seg]) -> Option<KeySpans> {
        let mut value = &self.root;
        let mut found = None;
        for seg in path {
            let (key, next) = match (seg, value.get_ref()) {
                (Seg::Key(name), DeValue::Table(table)) => {
                    let (key, next) = table.iter().find(|(key, _)| key.get_ref() == name)?;
                    (key.span(), next)
                }
                (Seg::Index(idx), DeValue::Array(array)) => {
                    let next = array.get(*idx)?;
                    (next.span(), next)
                }
                _ => return None,
            };
            found = Some(KeySpans { key, value: next.span() });
            value = next;
        }
        found
    }
}

/// A message of the deserializer, with Rust's type names in plain words.
fn in_plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("expected f64", "expected a number, such as 0.8"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected a boolean", "expected true or false"),
        ("invalid type: map, expected a sequence", "expected a list, found a table"),
        ("invalid type: sequence, expected", "found a list, expected"),
    ];
    WORDS.iter().fold(message.to_owned(), |said, (theirs, ours)| said.replace(theirs, ours))
}

fn name_at(value: &Spanned<DeValue<'_>>, span: &Range<usize>, names: &mut Vec<String>) -> bool {
    match value.get_ref() {
        DeValue::Table(table) => table.iter().any(|(key, value)| {
            names.push(key.get_ref().to_string());
            let hit = value.span() == *span || name_at(value, span, names);
            if !hit {
                names.pop();
            }
            hit
        }),
        DeValue::Array(array) => {
            array.iter().any(|value| value.span() == *span || name_at(value, span, names))
        }
        _ => false,
    }
}

/// The place of a span of bytes in a text.
pub(super) fn place(file: &Path, text: &str, span: Range<usize>) -> FilePosition {
    let mut start = span.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let line_start = text[..start].rfind('\n').map_or(0, |idx| idx + 1);
    let line = text[..line_start].matches('\n').count() + 1;
    let whole = text[line_start..].lines().next().unwrap_or_default();
    // A line break is one place, even if it has two characters.
    let start = start.min(line_start + whole.len());
    let column = text[line_start..start].chars().count() + 1;
    let end = span.end.clamp(start, line_start + whole.len());
    let width = text.get(start..end).map_or(1, |part| part.chars().count()).max(1);
    let shown = excerpt(text, line_start);
    let room = shown.chars().count().saturating_sub(column - 1).max(1);
    FilePosition { file: file.to_owned(), line, column, width: width.min(room), text: shown }
}

/// A line of the text as it may be shown; a line over [`EXCERPT_MAX`] is cut.
fn excerpt(text: &str, line_start: usize) -> String {
    let shown = shown_line(text, line_start);
    if shown.chars().count() > EXCERPT_MAX {
        shown.chars().take(EXCERPT_MAX).chain(std::iter::once('…')).collect()
    } else {
        shown
    }
}
