//! Errors of a configuration: where, why, and what to do. Commands exit with code 2.

use std::fmt;
use std::path::PathBuf;

use super::secrets::without_secrets;

/// One or more things wrong with a configuration. Displays all of them, each with its place and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// In the order of the file; never empty.
    pub problems: Vec<Problem>,
}

/// One thing wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong, naming key and value.
    pub message: String,
    pub place: Option<FilePosition>,
    pub hint: Option<String>,
}

/// A place in a file, with the line itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePosition {
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    pub text: String,
    /// Characters to underline, at least 1.
    pub width: usize,
}

impl Problem {
    /// A problem without place and hint. What looks like a key or a token is left out of the message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: without_secrets(&message.into()), place: None, hint: None }
    }

    #[must_use]
    pub fn at(mut self, place: Option<FilePosition>) -> Self {
        self.place = place;
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(without_secrets(&hint.into()));
        self
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{}:{}:{}: ", place.file.display(), place.line, place.column)?;
        }
        f.write_str(&self.message)?;
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            let gutter = " ".repeat(number.len());
            // Tabs stay tabs, so that the caret stands below its character at any tab width.
            let indent: String = (place.text.chars().chain(std::iter::repeat(' ')))
                .take(place.column.saturating_sub(1))
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            let carets = "^".repeat(place.width.max(1));
            write!(f, "\n {gutter} |\n {number} | {}\n {gutter} | {indent}{carets}", place.text)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n   = {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, problem) in self.problems.iter().enumerate() {
            if idx > 0 {
                f.write_str("\n\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
