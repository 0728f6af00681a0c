//! From the text of a config file to its keys: wrong types and unknown keys are errors with their places.

use serde_ignored::Path as IgnoredPath;

use super::error::Problem;
use super::file::{FileConfig, unknown_key};
use super::source::{Seg, Source};

/// Reads the keys of a source. All unknown keys are reported together; of wrong types only the first.
pub(super) fn parse(source: &Source<'_>, text: &str) -> Result<FileConfig, Vec<Problem>> {
    let mut unknown = Vec::new();
    let parsed = toml::Deserializer::parse(text).and_then(|deserializer| {
        serde_ignored::deserialize(deserializer, |path| unknown.push(segments(&path)))
    });
    let mut problems: Vec<Problem> = unknown.iter().map(|path| unknown_problem(source, path)).collect();
    match parsed {
        Ok(file) if problems.is_empty() => Ok(file),
        Ok(_) => Err(problems),
        Err(error) => {
            problems.push(type_problem(source, &error));
            Err(problems)
        }
    }
}

fn unknown_problem(source: &Source<'_>, path: &[Seg]) -> Problem {
    let (message, hint) = unknown_key(path);
    Problem::new(message).at(source.key_place(path)).hint(hint)
}

fn type_problem(source: &Source<'_>, error: &toml::de::Error) -> Problem {
    let said = in_plain_words(error.message());
    let name = error.span().and_then(|span| source.name_at(&span));
    let message = match name {
        Some(name) => format!("`{name}`: {said}"),
        None => said,
    };
    let mut problem = Problem::new(message).at(error.span().map(|span| source.place(span)));
    if error.message().starts_with("invalid type: map, expected a sequence") {
        problem = problem.hint("write it as a list of tables, with two brackets: [[models]], [[agents]]");
    } else if error.message().starts_with("invalid type: string") && error.message().contains("expected f64")
    {
        problem = problem.hint("write the number without quotes");
    }
    problem
}

/// What the deserializer said, with Rust's names of types in words.
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

fn segments(path: &IgnoredPath<'_>) -> Vec<Seg> {
    let mut out = Vec::new();
    let mut next = Some(path);
    while let Some(path) = next {
        next = match path {
            IgnoredPath::Root => None,
            IgnoredPath::Seq { parent, index } => {
                out.push(Seg::Index(*index));
                Some(*parent)
            }
            IgnoredPath::Map { parent, key } => {
                out.push(Seg::Key(key.clone()));
                Some(*parent)
            }
            IgnoredPath::Some { parent }
            | IgnoredPath::NewtypeStruct { parent }
            | IgnoredPath::NewtypeVariant { parent } => Some(*parent),
        };
    }
    out.reverse();
    out
}
