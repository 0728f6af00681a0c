//! Whether a summary keeps what it must, and what is mended without a model where it does not.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::commit::Rejection;
use super::identifiers::{Kind, find, words};
use super::sections::{Section, Sections, fit};
use crate::message::{Entry, Role, text_of};
use crate::summary::Summary;
use crate::tokens::estimate;
use crate::window::escape_name;
use crate::words::{content_words, topic_words};

/// Latest messages of people in which an open todo is looked for.
const TODO_MESSAGES: usize = 6;

/// Words of a request by which it is recognised.
const REQUEST_WORDS: usize = 12;

/// Longest quotation of a request, in characters.
const QUOTED_CHARS: usize = 160;

const NAMED_MAX: usize = 8;

/// Numbers with fewer digits may be reckoned rather than copied: "for 3 days".
const COUNTED_DIGITS: usize = 2;

/// A request that is still open at the end of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    pub who: String,
    pub text: String,
    words: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub struct Source {
    /// All that its author was shown, without case and without commas between digits.
    text: String,
    /// Bytes of it that are the source itself; what was shown beside it stands behind.
    own: usize,
    request: Option<OpenRequest>,
    /// It is made by extraction, without headings.
    is_plain: bool,
    /// Most estimated tokens.
    cap_tokens: Option<u64>,
}

impl Source {
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
        Self { request: open_request(entries), ..Self::of(&text, beside) }
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
        let mut text = plain(text);
        let own = text.len();
        for more in beside {
            text.push('\n');
            text.push_str(&plain(more));
        }
        Self { text, own, ..Self::default() }
    }

    /// The same for a summary without headings, or for one that ends before its source does.
    #[must_use]
    pub fn holding(mut self, is_plain: bool, ends_here: bool) -> Self {
        self.is_plain = is_plain;
        self.request = self.request.filter(|_| ends_here);
        self
    }

    /// The same for a summary of so many estimated tokens at most.
    #[must_use]
    pub fn capped(self, cap_tokens: u64) -> Self {
        Self { cap_tokens: Some(cap_tokens), ..self }
    }
}

/// What is wrong with a summary, and can be mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It has none of the headings.
    NoSections,
    /// It names what its source does not have.
    Invented(Vec<String>),
    /// The latest open request is gone.
    RequestLost(OpenRequest),
    /// It is over the size that it was asked for.
    TooLong {
        /// Its tokens.
        tokens: u64,
        cap_tokens: u64,
    },
}

impl std::fmt::Display for Fault {
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
            Self::RequestLost(request) => {
                write!(f, "it has lost the open request of {}: \"{}\"", request.who, request.text)
            }
            Self::TooLong { tokens, cap_tokens } => {
                write!(f, "it is too long: about {tokens} tokens, {cap_tokens} at most are wanted")
            }
        }
    }
}

impl Fault {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSections => "no_sections",
            Self::Invented(_) => "invented",
            Self::RequestLost(_) => "request_lost",
            Self::TooLong { .. } => "too_long",
        }
    }
}

/// What is wrong with a summary that [`super::check`] has let pass.
pub fn review(text: &str, source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !source.is_plain && !Sections::parse(text).is_headed() {
        faults.push(Fault::NoSections);
    }
    let mut names = invented(text, source);
    if !names.is_empty() {
        names.truncate(NAMED_MAX);
        faults.push(Fault::Invented(names));
    }
    if let Some(request) = source.request.as_ref().filter(|request| !request.stands_in(text)) {
        faults.push(Fault::RequestLost(request.clone()));
    }
    let tokens = u64::from(estimate(text));
    if let Some(cap_tokens) = source.cap_tokens.filter(|cap| tokens > *cap) {
        faults.push(Fault::TooLong { tokens, cap_tokens });
    }
    faults
}

fn invented(text: &str, source: &Source) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for found in find(text) {
        if !source.has(found.kind, found.text) && seen.insert(found.text) {
            names.push(found.text.to_owned());
        }
    }
    names
}

impl Source {
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
}

/// One word of a summary in so many stands in its source, at least.
const SHARED_SHARE: usize = 10;

/// So many shared words are enough for any summary: one in another language than its source has names and numbers.
const SHARED_ENOUGH: usize = 3;

/// Fewest words by which it is judged.
const JUDGED_WORDS: usize = 3;

/// Script in which a source is written: one of this share of its words, at least.
const SCRIPT_SHARE: f64 = 0.1;

impl Source {
    /// The summary has words in common with what it is made of; headings do not count. What cannot be compared, for it
    /// is short or written in another script, passes.
    pub(super) fn shares_words(&self, summary: &str) -> bool {
        if self.is_plain {
            return true;
        }
        let is_said = |line: &&str| !line.trim_start().starts_with('#');
        let summary = plain(summary);
        let mut wanted: HashSet<String> = summary.lines().filter(is_said).flat_map(topic_words).collect();
        let scripts: Vec<u32> = wanted.iter().filter_map(|word| script(word)).collect();
        let enough = |n_words: usize| n_words.div_ceil(SHARED_SHARE).clamp(1, SHARED_ENOUGH);
        let most = enough(scripts.len());
        let (mut n_shared, mut n_words, mut by_script) = (0, 0_u32, HashMap::<u32, u32>::new());
        for word in self.text[..self.own].lines().flat_map(topic_words) {
            if let Some(script) = script(&word) {
                n_words += 1;
                *by_script.entry(script).or_default() += 1;
            }
            // A lone digit is in every text.
            n_shared += usize::from(word.len() > 1 && wanted.remove(&word));
            if n_shared >= most {
                return true;
            }
        }
        let is_written = |script: &&u32| {
            f64::from(by_script.get(script).copied().unwrap_or(0)) > f64::from(n_words) * SCRIPT_SHARE
        };
        let n_judged = scripts.iter().filter(is_written).count();
        n_judged < JUDGED_WORDS || n_shared >= enough(n_judged)
    }
}

/// The script of a word, told from its first letter; numbers have none.
fn script(word: &str) -> Option<u32> {
    match word.chars().find(|c| c.is_alphabetic())? {
        '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Some(0),
        // Chinese and Japanese share theirs.
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'.. => {
            Some(1)
        }
        '\u{ac00}'..='\u{d7af}' => Some(2),
        c => Some(u32::from(c) >> 8),
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

/// Mends what can be mended: prose without headings goes under `Critical context`, lines with invented identifiers
/// go, what is too long is cut by sections, a lost request is put back.
///
/// # Errors
/// Most of the text would go.
pub fn mend(text: &str, faults: &[Fault], source: &Source) -> Result<String, Rejection> {
    let mut mended = text.trim().to_owned();
    let names = invented(&mended, source);
    if !names.is_empty() {
        let is_sound = |line: &&str| find(line).iter().all(|found| source.has(found.kind, found.text));
        let sound: Vec<&str> = mended.lines().filter(is_sound).collect();
        let kept = sound.join("\n");
        if estimate(&kept) < estimate(&mended) / 2 || Sections::parse(&kept).is_empty() {
            return Err(Rejection::Invented(
                names.into_iter().take(NAMED_MAX).collect::<Vec<_>>().join(", "),
            ));
        }
        mended = kept;
    }
    if let Some(cap) = source.cap_tokens.filter(|cap| u64::from(estimate(&mended)) > *cap) {
        mended = fit(&mended, cap);
    }
    let mut sections = Sections::parse(&mended);
    for fault in faults {
        if let Fault::RequestLost(request) = fault {
            let line = format!("- Open request of {}: \"{}\"", request.who, request.text);
            sections.add(Section::Active, &line);
        }
    }
    Ok(sections.render())
}

impl OpenRequest {
    fn stands_in(&self, text: &str) -> bool {
        let there: HashSet<String> = content_words(text).into_iter().collect();
        let n_there = self.words.iter().filter(|word| there.contains(*word)).count();
        n_there >= self.words.len().div_ceil(3)
    }
}

/// The latest request that is open at the end of the entries: of people whom nobody answered, or a todo among the
/// latest messages. By key words, so with errors on both sides: what is missing is asked for, never refused.
pub fn open_request(entries: &[Arc<Entry>]) -> Option<OpenRequest> {
    let of_people = |entry: &&Arc<Entry>| entry.role == Role::User && !entry.is_deleted();
    let unanswered = entries.iter().rev().take_while(|entry| entry.role == Role::User);
    let asked = unanswered.filter(of_people).find(|entry| asks(&text_of(&entry.parts)));
    let todo = || {
        let latest = entries.iter().rev().filter(of_people).take(TODO_MESSAGES);
        latest.into_iter().find(|entry| is_todo(&text_of(&entry.parts)))
    };
    let entry = asked.or_else(todo)?;
    let text = text_of(&entry.parts);
    let line = text.lines().find(|line| asks(line) || is_todo(line)).unwrap_or(&text).trim();
    let mut words = topic_words(line);
    words.dedup();
    words.truncate(REQUEST_WORDS);
    let who = entry.author.as_ref().map_or_else(|| "somebody".to_owned(), |author| escape_name(&author.name));
    let quoted: String = line.chars().take(QUOTED_CHARS).collect();
    (!words.is_empty()).then(|| OpenRequest { who, text: quoted.replace('"', "'"), words })
}

fn asks(text: &str) -> bool {
    let lower = text.to_lowercase();
    let asking =
        ["please", "can you", "could you", "would you", "bitte", "请", "帮我", "por favor", "s'il te plaît"];
    text.contains(['?', '？']) || asking.iter().any(|words| lower.contains(words))
}

fn is_todo(text: &str) -> bool {
    let lower = text.to_lowercase();
    let owed = [
        "todo",
        "to-do",
        "remind me",
        "don't forget",
        "do not forget",
        "still need to",
        "别忘",
        "提醒我",
        "erinner",
    ];
    owed.iter().any(|words| lower.contains(words))
}

#[cfg(test)]
mod tests;
