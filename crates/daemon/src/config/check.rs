//! What checks share: the file under check, what is wrong with it, what is worth a warning.

use super::error::Problem;
use super::source::{Seg, Source};

pub(super) struct Check<'s, 't> {
    pub(super) source: &'s Source<'t>,
    /// What is wrong, in the order of finding.
    pub(super) problems: Vec<Problem>,
    /// What works and is probably not meant.
    pub(super) warnings: Vec<String>,
}

impl<'s, 't> Check<'s, 't> {
    pub(super) fn new(source: &'s Source<'t>) -> Self {
        Self { source, problems: Vec::new(), warnings: Vec::new() }
    }

    /// Notes a problem with the value of a key, or with the table that lacks it.
    pub(super) fn wrong(&mut self, path: &[Seg], message: impl Into<String>, hint: &str) {
        let place = self.source.value_place(path).or_else(|| self.source.key_place(path));
        self.problems.push(Problem::new(message).at(place).hint(hint));
    }

    pub(super) fn money(&mut self, path: &[Seg], value: f64) {
        if !(0.0..=1e9).contains(&value) {
            let message = format!("`{}` = {value} is no sum of money", last_key(path));
            self.wrong(path, message, "write a number, 0 or more, such as 2.50");
        }
    }

    /// Checks that a number lies within bounds, both included.
    pub(super) fn within(&mut self, path: &[Seg], value: u64, low: u64, high: u64, unit: &str) {
        if !(low..=high).contains(&value) {
            let message = format!("`{}` = {value} is out of range", last_key(path));
            self.wrong(path, message, &format!("write a number of {unit} from {low} to {high}"));
        }
    }
}

fn last_key(path: &[Seg]) -> &str {
    let key = path.iter().rev().find_map(|seg| match seg {
        Seg::Key(key) => Some(key.as_str()),
        Seg::Index(_) => None,
    });
    key.unwrap_or_default()
}

/// 1 to 64 of `A-Z a-z 0-9 . _ -`: what ids of agents and models are made of.
pub(super) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// A path of keys and indices into the file.
macro_rules! key_path {
    ($($seg:expr),* $(,)?) => {
        [$($crate::config::source::Seg::from($seg)),*]
    };
}
pub(super) use key_path;
