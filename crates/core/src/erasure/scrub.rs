//! What names a person or repeats their words, found by its shape within other texts and taken out of them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::ERASED;
use super::words::{Word, run_key, words};
use crate::message::Part;

/// Words in a row that repeat somebody; fewer may be anybody's.
pub(super) const RUN: usize = 5;

/// How adapters begin the line that says what a message answers.
const IN_REPLY: &str = "[in reply to ";

/// What is taken out of texts. Empty: nothing.
#[derive(Debug, Clone, Default)]
pub struct Scrub {
    /// Words in a row, by the first of them.
    sequences: HashMap<u64, Vec<Sequence>>,
    /// Runs of [`RUN`] words that only they said.
    runs: HashSet<u64>,
    /// Names as adapters write them in quotes, in lower case.
    names: Vec<String>,
    /// What stands in the place of a name.
    alias: String,
}

#[derive(Debug, Clone)]
struct Sequence {
    keys: Vec<u64>,
    /// As it must be written, where case counts.
    exact: Option<String>,
    names: Option<Naming>,
}

/// How surely a text that has a name of theirs speaks of them. The alias stands in the place of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Naming {
    Part,
    /// By a name that no more than one word tells.
    Word,
    /// By an id, or a name that several words tell.
    Sure,
}

struct Hit {
    range: Range<usize>,
    /// None: words that only they said.
    names: Option<Naming>,
}

impl Scrub {
    /// Takes nothing out yet; `alias` is to stand in the place of names.
    pub fn new(alias: &str) -> Self {
        Self { alias: alias.to_owned(), ..Self::default() }
    }

    /// A name or an id of the person. `exact`: as it is written only, since it is a common word, too. One without letters
    /// and digits is in the texts of everybody, and not looked for there.
    pub(super) fn add_name(&mut self, name: &str, exact: bool, naming: Naming) {
        let name = name.trim();
        let keys = words(name).iter().map(|word| word.key).collect();
        self.push(Sequence { keys, exact: exact.then(|| name.to_owned()), names: Some(naming) });
    }

    /// A name that is taken out of the lines that say whom a message answers.
    pub(super) fn add_quoted(&mut self, name: &str) {
        let name = name.trim();
        if !name.is_empty() {
            self.names.push(name.to_lowercase());
        }
    }

    /// Words in a row that only they said, by their keys.
    pub(super) fn add_keys(&mut self, keys: Vec<u64>) {
        self.push(Sequence { keys, exact: None, names: None });
    }

    /// A run of [`RUN`] words that only they said.
    pub(super) fn add_run(&mut self, key: u64) {
        self.runs.insert(key);
    }

    fn push(&mut self, sequence: Sequence) {
        if let Some(first) = sequence.keys.first() {
            self.sequences.entry(*first).or_default().push(sequence);
        }
    }

    /// Whether a text has anything that is taken out.
    pub fn hits(&self, text: &str) -> bool {
        self.clean(text).is_some()
    }

    /// Whether a text names the person.
    pub fn names_them(&self, text: &str) -> bool {
        self.found(text).iter().any(|hit| hit.names.is_some())
    }

    /// Whether a text has their id, or a name of theirs that several words tell.
    pub(super) fn names_surely(&self, text: &str) -> bool {
        self.names_from(text, Naming::Sure)
    }

    /// Whether a text has their id or a whole name of theirs.
    pub(super) fn names_in_full(&self, text: &str) -> bool {
        self.names_from(text, Naming::Word)
    }

    /// Whether a text begins with a name of theirs, or a word of one.
    pub(super) fn begins(&self, text: &str) -> bool {
        let first = words(text).first().map(|word| word.start);
        self.found(text).iter().any(|hit| hit.names.is_some() && Some(hit.range.start) == first)
    }

    fn names_from(&self, text: &str, from: Naming) -> bool {
        self.found(text).iter().any(|hit| hit.names.is_some_and(|naming| naming >= from))
    }

    /// Whether a text is theirs or about them, and does not merely have a word that is a name of theirs, too.
    pub fn hits_surely(&self, text: &str) -> bool {
        self.speaks_of_them(text, Naming::Sure)
    }

    /// The same for a text of which nobody says whom it is about: their name in it is enough, and a part of it where it
    /// begins.
    pub(super) fn is_about_them(&self, text: &str) -> bool {
        self.speaks_of_them(text, Naming::Word)
            || words(text)
                .first()
                .is_some_and(|word| self.found(text).iter().any(|hit| hit.range.start == word.start))
    }

    fn speaks_of_them(&self, text: &str, from: Naming) -> bool {
        self.without_quotes(text).is_some()
            || self.found(text).iter().any(|hit| hit.names.is_none_or(|naming| naming >= from))
    }

    /// The text without it; `None`: there is nothing to take out.
    pub fn clean(&self, text: &str) -> Option<String> {
        let unquoted = self.without_quotes(text);
        let text_now = unquoted.as_deref().unwrap_or(text);
        let out = self.without(self.found(text_now), text_now);
        (out != text).then_some(out)
    }

    fn without(&self, hits: Vec<Hit>, text: &str) -> String {
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for hit in joined(hits, text) {
            out.push_str(&text[at..hit.range.start]);
            out.push_str(if hit.names.is_some() { &self.alias } else { ERASED });
            at = hit.range.end;
        }
        out.push_str(&text[at..]);
        out
    }

    /// Takes their names out of what somebody else is called; what they said is no part of it. True: there was something.
    pub(super) fn scrub_name(&self, name: &mut String) -> bool {
        let mut hits = self.found(name);
        hits.retain(|hit| hit.names.is_some());
        let changed = !hits.is_empty();
        *name = self.without(hits, name);
        changed
    }

    /// The text with stars for it, as long as before; `None`: there is nothing to take out.
    pub fn blanked(&self, text: &str) -> Option<String> {
        let hits = joined(self.found(text), text);
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for hit in &hits {
            out.push_str(&text[at..hit.range.start]);
            out.push_str(&"*".repeat(hit.range.len()));
            at = hit.range.end;
        }
        out.push_str(&text[at..]);
        (!hits.is_empty()).then_some(out)
    }

    /// What was quoted of them in a message that answers one of theirs is gone, however short it is.
    fn without_quotes(&self, text: &str) -> Option<String> {
        let quotes = |line: &str| {
            let rest = line.strip_prefix(IN_REPLY).map(str::to_lowercase);
            rest.is_some_and(|rest| self.names.iter().any(|name| rest.starts_with(&format!("{name}: "))))
        };
        if !text.contains(IN_REPLY) || !text.lines().any(quotes) {
            return None;
        }
        let clean = |line: &str| match quotes(line) {
            true => format!("{IN_REPLY}{}: \"{ERASED}\"]", self.alias),
            false => line.to_owned(),
        };
        Some(text.split('\n').map(clean).collect::<Vec<_>>().join("\n"))
    }

    fn found(&self, text: &str) -> Vec<Hit> {
        if self.sequences.is_empty() && self.runs.is_empty() {
            return Vec::new();
        }
        let words = words(text);
        let mut hits = Vec::new();
        for (idx, word) in words.iter().enumerate() {
            let here = self.sequences.get(&word.key).into_iter().flatten();
            hits.extend(here.filter_map(|sequence| sequence.at(&words[idx..], text)));
            if let Some(run) = words.get(idx..idx + RUN)
                && self.runs.contains(&run_key(run))
            {
                hits.push(Hit { range: word.start..run[RUN - 1].end(), names: None });
            }
        }
        hits
    }

    /// Takes it out of a text. True: there was something.
    pub(super) fn scrub(&self, text: &mut String) -> bool {
        match self.clean(text) {
            Some(clean) => {
                *text = clean;
                true
            }
            None => false,
        }
    }

    /// The same for a text that may be missing.
    pub(super) fn scrub_option(&self, text: &mut Option<String>) -> bool {
        text.as_mut().is_some_and(|text| self.scrub(text))
    }

    /// The same for all parts of a message; pictures keep what they show.
    pub(super) fn scrub_parts(&self, parts: &mut [Part]) -> bool {
        let mut changed = false;
        for part in parts {
            changed |= match part {
                Part::Text { text } => self.scrub(text),
                Part::Image { name, .. } => self.scrub_option(name),
                Part::File { name, text, .. } => self.scrub(name) | self.scrub_option(text),
            };
        }
        changed
    }

    /// The same for all that is in a JSON value, numbers and names of keys included.
    pub(super) fn scrub_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => match self.clean(&number.to_string()) {
                Some(clean) => {
                    *value = Value::String(clean);
                    true
                }
                None => false,
            },
            Value::String(text) => self.scrub(text),
            Value::Array(items) => {
                items.iter_mut().fold(false, |changed, item| changed | self.scrub_value(item))
            }
            Value::Object(map) => {
                let mut changed = false;
                let clean = |(mut key, mut item): (String, Value)| {
                    changed |= self.scrub(&mut key) | self.scrub_value(&mut item);
                    (key, item)
                };
                *map = std::mem::take(map).into_iter().map(clean).collect();
                changed
            }
        }
    }
}

impl Sequence {
    fn at(&self, words: &[Word<'_>], text: &str) -> Option<Hit> {
        let here = words.get(..self.keys.len())?;
        let same = here.iter().zip(&self.keys).all(|(word, key)| word.key == *key);
        let range = here.first()?.start..here.last()?.end();
        let as_written = self.exact.as_ref().is_none_or(|exact| text[range.clone()] == **exact);
        (same && as_written).then_some(Hit { range, names: self.names })
    }
}

/// Hits that overlap, or have nothing but gaps between them, as one: it is a name only where all of it is.
fn joined(mut hits: Vec<Hit>, text: &str) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.range.start, std::cmp::Reverse(hit.range.end)));
    let mut out: Vec<Hit> = Vec::new();
    for hit in hits {
        match out.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                let inside = hit.range.end <= last.range.end;
                last.names = if inside { last.names } else { last.names.and(hit.names) };
                last.range.end = last.range.end.max(hit.range.end);
            }
            Some(last)
                if last.names.is_some() == hit.names.is_some()
                    && text[last.range.end..hit.range.start].trim().is_empty() =>
            {
                last.range.end = hit.range.end;
            }
            _ => out.push(hit),
        }
    }
    out
}
