//! Whether a summary keeps what it must, and what is mended without a model where it does not.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use self::loose::{Loose, loose};
use super::commit::Rejection;
use super::identifiers::{Found, Kind, find, words};
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
    let lacking = source.lacking(find(text)).into_iter().filter(|found| seen.insert(found.text));
    lacking.map(|found| found.text.to_owned()).collect()
}

/// The text without the lines that invented identifiers stand on. `None`: there are none.
fn without_invented(text: &str, source: &SummarySource) -> Option<String> {
    let places: Vec<usize> = source.lacking(find(text)).iter().map(|found| found.at).collect();
    let mut end = 0;
    let stays = |line: &&str| {
        let begin = end;
        end += line.len();
        places.partition_point(|at| *at < begin) == places.partition_point(|at| *at < end)
    };
    (!places.is_empty()).then(|| text.split_inclusive('\n').filter(stays).collect())
}

impl SummarySource {
    /// The identifiers that it does not have.
    fn lacking<'a>(&self, found: Vec<Found<'a>>) -> Vec<Found<'a>> {
        let needles: Vec<Option<String>> = found.iter().map(|found| needle(found.kind, found.text)).collect();
        let there = occurring(&self.text, needles.iter().flatten().map(String::as_str), |_, _| true);
        let lacks =
            |needle: &Option<String>| needle.as_ref().is_some_and(|text| !there.contains(text.as_str()));
        found.into_iter().zip(&needles).filter(|(_, needle)| lacks(needle)).map(|(found, _)| found).collect()
    }

    /// The words that do not stand there by themselves.
    fn unsaid<'a>(&self, words: Vec<Loose<'a>>) -> Vec<Loose<'a>> {
        let plain: Vec<String> = words.iter().map(|word| plain(word.parts().1)).collect();
        let stands = |word: &str, at: usize| {
            let before = self.text[..at].chars().next_back();
            let mut behind = self.text[at + word.len()..].chars();
            if word.starts_with(|c: char| c.is_ascii_digit()) {
                let is_digit = |c: char| c.is_ascii_digit();
                return !before.is_some_and(is_digit) && !behind.next().is_some_and(is_digit);
            }
            let n_more = behind.take(ENDING_LETTERS + 1).take_while(|c| c.is_alphanumeric()).count();
            !before.is_some_and(char::is_alphanumeric) && n_more <= ENDING_LETTERS
        };
        let there = occurring(&self.text, plain.iter().map(String::as_str), stands);
        let is_unsaid = |(_, plain): &(Loose<'a>, &String)| !there.contains(plain.as_str());
        words.into_iter().zip(&plain).filter(is_unsaid).map(|(word, _)| word).collect()
    }
}

/// What is looked for of an identifier in a source. `None`: it counts as there.
fn needle(kind: Kind, identifier: &str) -> Option<String> {
    match kind {
        // Models name errors in their own words; what is exact in them is looked at by itself.
        Kind::Error => None,
        Kind::Number => {
            let digits: String = identifier.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
            let digits = digits.trim_matches('.');
            (digits.len() >= COUNTED_DIGITS).then(|| digits.to_owned())
        }
        Kind::Path | Kind::Url | Kind::Id | Kind::Function => {
            let bare = identifier.trim_end_matches("()").trim_end_matches('/');
            Some(plain(bare)).filter(|text| !text.is_empty())
        }
    }
}

/// Which of the needles occur in a text where they may stand. All are looked for at once: there can be as many as the text
/// has words.
fn occurring<'n>(
    text: &str,
    needles: impl Iterator<Item = &'n str>,
    stands: impl Fn(&str, usize) -> bool,
) -> HashSet<&'n str> {
    let needles: Vec<&str> = needles.collect::<BTreeSet<_>>().into_iter().collect();
    let is_there = |needle: &&str| text.match_indices(*needle).any(|(at, _)| stands(needle, at));
    let Ok(automaton) = AhoCorasick::new(&needles) else {
        // They are too many for it.
        return needles.iter().copied().filter(is_there).collect();
    };
    let mut found = HashSet::new();
    for place in automaton.find_overlapping_iter(text) {
        let needle = needles[place.pattern().as_usize()];
        if !found.contains(needle) && stands(needle, place.start()) {
            found.insert(needle);
        }
    }
    found
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
        let mut seen = HashSet::new();
        let exact = find(&text).into_iter().filter(|found| seen.insert(found.text)).collect();
        let exact = shown.lacking(exact);
        let exact = exact.into_iter().map(|found| (found.kind.name(), found.text));
        let author = entry.author.iter().map(|author| ("author", author.name.as_str()));
        for what in exact.chain(author.filter(|(_, name)| !shown.text.contains(&plain(name)))) {
            note(found, what, entry.seq, LEFT_OUT_MAX);
        }
        let said = entry.text();
        for word in shown.unsaid(loose(&said)) {
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
        let each: Vec<(&str, Vec<Found<'_>>)> = mended.lines().map(|line| (line, find(line))).collect();
        let lacking = source.lacking(each.iter().flat_map(|(_, found)| found.iter().copied()).collect());
        let lacking: HashSet<(Kind, &str)> = lacking.iter().map(|found| (found.kind, found.text)).collect();
        let is_sound = |found: &Found<'_>| !lacking.contains(&(found.kind, found.text));
        let sound = each.iter().filter(|(_, found)| found.iter().all(is_sound));
        let kept = sound.map(|(line, _)| *line).collect::<Vec<_>>().join("\n");
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
