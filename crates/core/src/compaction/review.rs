//! Whether a summary keeps what it must, and what is mended without a model where it does not.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use self::loose::{Loose, loose};
use super::commit::Rejection;
use super::identifiers::{Kind, extract, find, words};
use super::sections::{Section, Sections, fit};
use cairn_types::ids::Seq;
use cairn_types::message::{Entry, Role};
use cairn_types::summary::Summary;
use cairn_types::tokens::estimate;

mod loose;
mod told;

pub use told::check_told;

const NAMED_MAX: usize = 8;

/// Numbers with fewer digits may be reckoned rather than copied: "for 3 days".
const COUNTED_DIGITS: usize = 2;

/// Letters that a name may have behind it where it is bent: "Anna's", "Annas".
const ENDING_LETTERS: usize = 2;

#[derive(Debug, Clone, Default)]
pub struct SummarySource {
    /// All that its author was shown, without case and without commas between digits.
    text: String,
    /// Tokens of what is to be summarised.
    tokens: u64,
    /// Who spoke in it, without case.
    people: BTreeSet<String>,
    /// It is made by extraction, without headings.
    is_plain: bool,
    /// Most estimated tokens.
    cap_tokens: Option<u64>,
}

impl SummarySource {
    /// The source of a run over entries; `beside`: what else its author was shown.
    pub fn of_entries<'a>(entries: &[Arc<Entry>], beside: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for entry in entries.iter().filter(|entry| !entry.is_deleted()) {
            if let Some(author) = &entry.author {
                text.push_str(&author.name);
                text.push(' ');
            }
            text.push_str(&words(entry));
            text.push('\n');
        }
        let people =
            entries.iter().filter_map(|entry| Some(entry.author.as_ref()?.name.to_lowercase())).collect();
        Self { people, ..Self::of(&text, beside) }
    }

    pub fn of_summaries<'a>(sources: &[Summary], beside: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for source in sources {
            text.push_str(&source.text);
            text.push('\n');
            text.push_str(&source.identifiers.join("\n"));
            text.push('\n');
        }
        Self::of(&text, beside)
    }

    fn of<'a>(text: &str, beside: impl IntoIterator<Item = &'a str>) -> Self {
        let tokens = u64::from(estimate(text));
        let mut text = plain(text);
        for more in beside {
            text.push('\n');
            text.push_str(&plain(more));
        }
        Self { text, tokens, ..Self::default() }
    }

    /// The source of a summary without headings.
    #[must_use]
    pub fn plain(self, is_plain: bool) -> Self {
        Self { is_plain, ..self }
    }

    /// The source of a summary of so many estimated tokens at most.
    #[must_use]
    pub fn capped(self, cap_tokens: u64) -> Self {
        Self { cap_tokens: Some(cap_tokens), ..self }
    }
}

/// What is wrong with a summary, and can be mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryFault {
    /// It has none of the headings.
    NoSections,
    /// It names what its source does not have.
    Invented(Vec<String>),
    /// It is over the size that it was asked for.
    TooLong {
        /// Its tokens.
        tokens: u64,
        cap_tokens: u64,
    },
}

impl std::fmt::Display for SummaryFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSections => {
                let names: Vec<String> =
                    Section::ALL.iter().map(|section| format!("`## {}`", section.heading())).collect();
                write!(f, "it has none of the headings {}", names.join(", "))
            }
            Self::Invented(names) => {
                write!(f, "it names what the source does not have: {}", names.join(", "))
            }
            Self::TooLong { tokens, cap_tokens } => {
                write!(f, "it is too long: about {tokens} tokens, {cap_tokens} at most are wanted")
            }
        }
    }
}

impl SummaryFault {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSections => "no_sections",
            Self::Invented(_) => "invented",
            Self::TooLong { .. } => "too_long",
        }
    }
}

/// What is wrong with a summary that [`super::check`] has let pass.
pub fn review(text: &str, source: &SummarySource) -> Vec<SummaryFault> {
    let mut faults = Vec::new();
    if !source.is_plain && !Sections::parse(text).is_headed() {
        faults.push(SummaryFault::NoSections);
    }
    let mut names = invented(text, source);
    if !names.is_empty() {
        names.truncate(NAMED_MAX);
        faults.push(SummaryFault::Invented(names));
    }
    let tokens = u64::from(estimate(text));
    if let Some(cap_tokens) = source.cap_tokens.filter(|cap| tokens > *cap) {
        faults.push(SummaryFault::TooLong { tokens, cap_tokens });
    }
    faults
}

fn invented(text: &str, source: &SummarySource) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for found in find(text) {
        if !source.has(found.kind, found.text) && seen.insert(found.text) {
            names.push(found.text.to_owned());
        }
    }
    names
}

/// The text without the lines that invented identifiers stand on. `None`: there are none.
fn without_invented(text: &str, source: &SummarySource) -> Option<String> {
    let found = find(text).into_iter().filter(|found| !source.has(found.kind, found.text));
    let places: Vec<usize> = found.map(|found| found.at).collect();
    let mut end = 0;
    let stays = |line: &&str| {
        let begin = end;
        end += line.len();
        !places.iter().any(|at| (begin..end).contains(at))
    };
    (!places.is_empty()).then(|| text.split_inclusive('\n').filter(stays).collect())
}

impl SummarySource {
    fn has(&self, kind: Kind, identifier: &str) -> bool {
        match kind {
            // Models name errors in their own words; what is exact in them is looked at by itself.
            Kind::Error => true,
            Kind::Number => {
                let digits: String = identifier.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
                let digits = digits.trim_matches('.');
                digits.len() < COUNTED_DIGITS || self.text.contains(digits)
            }
            Kind::Path | Kind::Url | Kind::Id | Kind::Function => {
                let bare = identifier.trim_end_matches("()").trim_end_matches('/');
                self.text.contains(&plain(bare))
            }
        }
    }

    /// It stands there by itself.
    fn says(&self, word: Loose<'_>) -> bool {
        let (_, text) = word.parts();
        let text = plain(text);
        self.text.match_indices(text.as_str()).any(|(at, _)| {
            let before = self.text[..at].chars().next_back();
            let mut behind = self.text[at + text.len()..].chars();
            match word {
                Loose::Number(_) => {
                    let is_digit = |c: char| c.is_ascii_digit();
                    !before.is_some_and(is_digit) && !behind.next().is_some_and(is_digit)
                }
                Loose::Name(_) => {
                    let n_more = behind.take_while(|c| c.is_alphanumeric()).count();
                    !before.is_some_and(char::is_alphanumeric) && n_more <= ENDING_LETTERS
                }
            }
        })
    }
}

/// Without case, and without commas between digits.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let between = before.is_ascii_digit() && chars.peek().is_some_and(char::is_ascii_digit);
        if c != ',' || !between {
            out.extend(c.to_lowercase());
        }
        before = c;
    }
    out
}

/// What entries say exactly and a text does not: identifiers, numbers, names (`name`), and who spoke (`author`). By kind
/// and words: the first entry that says it, and how many do.
pub type LeftOut = HashMap<(&'static str, String), (Seq, u64)>;

/// Most of what is told; more would be no help.
const LEFT_OUT_MAX: usize = 5_000;

/// Behind so many, plain numbers and names leave the room to what is told by its shape.
const LOOSE_MAX: usize = LEFT_OUT_MAX / 2;

/// Adds what these entries say and a text does not have, up to a bound.
pub fn left_out(entries: &[Arc<Entry>], shown: &SummarySource, found: &mut LeftOut) {
    for entry in entries {
        let text = words(entry);
        let exact = extract(&text).into_iter().filter(|(kind, text)| !shown.has(*kind, text));
        let exact = exact.map(|(kind, text)| (kind.name(), text));
        let author = entry.author.iter().map(|author| ("author", author.name.as_str()));
        for what in exact.chain(author.filter(|(_, name)| !shown.text.contains(&plain(name)))) {
            note(found, what, entry.seq, LEFT_OUT_MAX);
        }
        let said = entry.text();
        for word in loose(&said).into_iter().filter(|word| !shown.says(*word)) {
            // What a tool returns is mostly no prose: its capitals tell little.
            if entry.role != Role::Tool || matches!(word, Loose::Number(_)) {
                note(found, word.parts(), entry.seq, LOOSE_MAX);
            }
        }
    }
}

/// Counts an entry that says it, unless there are so many already.
fn note(found: &mut LeftOut, (kind, text): (&'static str, &str), seq: Seq, most: usize) {
    let (is_full, key) = (found.len() >= most, (kind, text.to_owned()));
    if !is_full || found.contains_key(&key) {
        found.entry(key).or_insert((seq, 0)).1 += 1;
    }
}

/// Mends what can be mended: prose without headings goes under `Critical context`, lines with invented identifiers
/// go, what is too long is cut by sections.
///
/// # Errors
/// Most of the text would go.
pub fn mend(text: &str, source: &SummarySource) -> Result<String, Rejection> {
    let mut mended = text.trim().to_owned();
    let names = invented(&mended, source);
    if !names.is_empty() {
        let is_sound = |line: &&str| find(line).iter().all(|found| source.has(found.kind, found.text));
        let sound: Vec<&str> = mended.lines().filter(is_sound).collect();
        let kept = sound.join("\n");
        if estimate(&kept) < estimate(&mended) / 2 || Sections::parse(&kept).is_empty() {
            return Err(named(&names));
        }
        mended = kept;
    }
    if let Some(cap) = source.cap_tokens.filter(|cap| u64::from(estimate(&mended)) > *cap) {
        mended = fit(&mended, cap);
    }
    let mut whole = Sections::parse(&mended).render();
    // In another order, and without other lines, a line may say otherwise: such as behind code that begins before it.
    while let Some(less) = without_invented(&whole, source) {
        let names = invented(&whole, source);
        whole = Sections::parse(&less).render();
        if whole.is_empty() {
            return Err(named(&names));
        }
    }
    Ok(whole)
}

fn named(invented: &[String]) -> Rejection {
    let names: Vec<&str> = invented.iter().take(NAMED_MAX).map(String::as_str).collect();
    Rejection::Invented(names.join(", "))
}

#[cfg(test)]
mod tests;
