//! What names the person, taken out of everything that stays: ids and names, in fields and within texts.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use serde_json::Value;

use super::ERASED;
use cairn_types::ids::{ChannelId, MessageId, OutboxId};
use cairn_types::message::{Author, Part};
use cairn_types::text::words::{is_gapless, is_word};

/// How adapters begin the line that says what a message answers.
const IN_REPLY: &str = "[in reply to ";

/// How they begin the line that says whose words follow.
const FORWARDED: &str = "[forwarded from ";

/// Most ends of a name that are tried in such a line: a name may hold what ends it.
const ENDS_MAX: usize = 8;

/// Stands in the place of what such a line quotes.
const ERASED_QUOTE: &str = "\"[erased]\"";

/// Letters of a name that is found whatever its case. A shorter one is found as they write it or with a capital: "will" is
/// also a word.
const ANY_CASE_FROM: usize = 6;

/// Fewest letters of a word of their name that is taken out by itself.
const PART_MIN: usize = 3;

/// Fewest digits of a number that is an id of theirs within a text: a shorter one may be any number.
const DIGITS_MIN: usize = 5;

/// What stands in the place of what.
#[derive(Debug)]
pub(super) struct Mask {
    person: String,
    /// `PLATFORM/erased-1`.
    pub(super) pseudonym: String,
    /// Names and ids as words in a row, by the first of them in lower case.
    names: HashMap<String, Vec<Name>>,
    /// Names as adapters write them in their lines, in lower case.
    quoted: BTreeSet<String>,
    /// Ids of messages that name the person, by the ids that they had.
    messages: HashMap<String, String>,
}

#[derive(Debug, PartialEq)]
struct Name {
    words: Vec<String>,
    any_case: bool,
}

impl Mask {
    /// `names`: what they are called. `is_other`: a word is what somebody else is called, too.
    pub(super) fn new(
        person: &str,
        pseudonym: &str,
        names: &BTreeSet<String>,
        is_other: impl Fn(&str) -> bool,
    ) -> Self {
        let mut mask = Self {
            person: person.to_owned(),
            pseudonym: pseudonym.to_owned(),
            names: HashMap::new(),
            quoted: BTreeSet::new(),
            messages: HashMap::new(),
        };
        let bare = mask.bare().to_owned();
        if words(&bare).next().is_some() {
            mask.add(person);
        }
        for name in names.iter().chain([&bare]) {
            mask.quoted.insert(lowered(name));
            if tells(name) {
                mask.add(name);
            }
        }
        for part in names.iter().flat_map(|name| parts(name)).filter(|part| !is_other(part)) {
            mask.quoted.insert(part.to_lowercase());
            mask.add(part);
        }
        mask.quoted.remove("");
        mask
    }

    /// Whether both remove the same.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.pseudonym == other.pseudonym && self.names == other.names && self.quoted == other.quoted
    }

    fn add(&mut self, name: &str) {
        let words: Vec<String> = words(name).map(|range| name[range].to_owned()).collect();
        let letters: usize = words.iter().map(|word| word.chars().count()).sum();
        if let Some(first) = words.first() {
            let name = Name { any_case: letters >= ANY_CASE_FROM, words: words.clone() };
            self.names.entry(first.to_lowercase()).or_default().push(name);
        }
    }

    /// The pseudonym without its platform.
    fn alias(&self) -> &str {
        self.pseudonym.split_once('/').map_or(&self.pseudonym, |(_, alias)| alias)
    }

    fn bare(&self) -> &str {
        self.person.split_once('/').map_or(&self.person, |(_, bare)| bare)
    }

    fn platform(&self) -> &str {
        self.person.split_once('/').map_or("", |(platform, _)| platform)
    }

    /// Whether a text names them.
    pub(super) fn names(&self, text: &str) -> bool {
        !self.found(text).is_empty()
    }

    /// The subject of a memory is what they are called.
    pub(super) fn is_called(&self, subject: &str) -> bool {
        subject == self.person || self.quoted.contains(&lowered(subject))
    }

    /// The text without them; `None`: there is nothing to take out.
    pub(super) fn clean(&self, text: &str) -> Option<String> {
        self.replaced(text, |span| span.with.to_owned())
    }

    /// The text with stars for what is theirs, as long as before; `None`: there is nothing to take out.
    pub(super) fn blanked(&self, text: &str) -> Option<String> {
        self.replaced(text, |span| "*".repeat(span.range.len()))
    }

    fn replaced(&self, text: &str, with: impl Fn(&Span<'_>) -> String) -> Option<String> {
        let mut spans = self.quotes(text);
        for range in self.found(text) {
            if spans.iter().all(|span| range.end <= span.range.start || span.range.end <= range.start) {
                spans.push(Span { range, with: self.alias() });
            }
        }
        spans.sort_by_key(|span| span.range.start);
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for span in &spans {
            out.push_str(&text[at..span.range.start]);
            out.push_str(&with(span));
            at = span.range.end;
        }
        out.push_str(&text[at..]);
        (!spans.is_empty()).then_some(out)
    }

    /// What a message quotes of them, by the lines in which adapters say so, is theirs: what it answers, and all that it
    /// forwards.
    fn quotes(&self, text: &str) -> Vec<Span<'_>> {
        let mut spans = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let next = at + line.len();
            if let Some(name) = self.name_behind(line, FORWARDED, "]") {
                spans.push(Span { range: at + name.start..at + name.end, with: self.alias() });
                spans.extend((next < text.len()).then_some(Span { range: next..text.len(), with: ERASED }));
                break;
            }
            if let Some(name) = self.name_behind(line, IN_REPLY, ": ") {
                let said = at + name.end + 2..at + line.trim_end().trim_end_matches(']').len();
                spans.push(Span { range: at + name.start..at + name.end, with: self.alias() });
                spans.extend((!said.is_empty()).then_some(Span { range: said, with: ERASED_QUOTE }));
            }
            at = next;
        }
        spans
    }

    /// Where their name stands in a line of an adapter, between what it begins with and what follows.
    fn name_behind(&self, line: &str, begin: &str, end: &str) -> Option<Range<usize>> {
        let name = names_behind(line, begin, end).find(|name| self.quoted.contains(&lowered(name)))?;
        Some(begin.len()..begin.len() + name.len())
    }

    /// The part of a message with the line that says that it forwards them: all behind that part is theirs, such as the words
    /// of a recording.
    pub(super) fn forwarded_in(&self, parts: &[Part]) -> Option<usize> {
        let says_so = |part: &Part| match part {
            Part::Text { text } => text.lines().any(|line| self.name_behind(line, FORWARDED, "]").is_some()),
            Part::Image { .. } | Part::File { .. } => false,
        };
        parts.iter().position(says_so)
    }

    /// Whether a message quotes or forwards them, by the lines in which adapters say so.
    pub(super) fn is_quoted_in(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| matches!(part, Part::Text { text } if !self.quotes(text).is_empty()))
    }

    /// Where a text names them, in order; names that overlap, or have nothing but gaps between them, as one.
    fn found(&self, text: &str) -> Vec<Range<usize>> {
        let words: Vec<Range<usize>> = words(text).collect();
        let mut found: Vec<Range<usize>> = Vec::new();
        for (idx, word) in words.iter().enumerate() {
            let here = self.names.get(&text[word.clone()].to_lowercase());
            let longest = here.into_iter().flatten().filter(|name| name.is_at(&words[idx..], text));
            let Some(n_words) = longest.map(|name| name.words.len()).max() else { continue };
            let end = words[idx + n_words - 1].end;
            match found.last_mut() {
                Some(last)
                    if word.start < last.end
                        || text[last.end..word.start].chars().all(char::is_whitespace) =>
                {
                    last.end = last.end.max(end);
                }
                _ => found.push(word.start..end),
            }
        }
        found
    }

    /// Takes them out of a text. True: there was something.
    pub(super) fn text(&self, text: &mut String) -> bool {
        let clean = self.clean(text);
        let changed = clean.is_some();
        *text = clean.unwrap_or_else(|| std::mem::take(text));
        changed
    }

    /// Masks all that is in a JSON value, numbers and names of keys included.
    pub(super) fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::Number(number) => match self.clean(&number.to_string()) {
                Some(clean) => {
                    *value = Value::String(clean);
                    true
                }
                None => false,
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().fold(false, |changed, item| changed | self.value(item)),
            Value::Object(map) => {
                let mut changed = false;
                let clean = |(mut key, mut item): (String, Value)| {
                    changed |= self.text(&mut key) | self.value(&mut item);
                    (key, item)
                };
                *map = std::mem::take(map).into_iter().map(clean).collect();
                changed
            }
        }
    }

    pub(super) fn person(&self, id: &mut String) -> bool {
        let theirs = *id == self.person;
        if theirs {
            id.clone_from(&self.pseudonym);
        }
        theirs
    }

    /// The id of a person or a chat, without its platform. It is not removed: an empty list may mean that everybody is heard.
    pub(super) fn bare_id(&self, platform: &str, id: &mut String) -> bool {
        let theirs = platform == self.platform() && id == self.bare();
        if theirs {
            self.alias().clone_into(id);
        }
        theirs
    }

    /// Id and name. The name of somebody else loses theirs, unless both are called alike.
    pub(super) fn author(&self, author: &mut Author) -> bool {
        let Author { id, name } = author;
        if self.person(id) {
            self.alias().clone_into(name);
            return true;
        }
        !self.is_called(name) && self.text(name)
    }

    /// A channel; one that is named after the person is named after the pseudonym.
    pub(super) fn channel(&self, channel: &ChannelId) -> ChannelId {
        if channel.platform() != self.platform() || channel.chat() != self.bare() {
            return channel.clone();
        }
        let renamed = ChannelId::new(&channel.agent(), channel.platform(), self.alias(), channel.thread());
        renamed.unwrap_or_else(|_| channel.clone())
    }

    /// A message's id: one that names them gets another, the corrections of it, too.
    pub(super) fn message(&mut self, message: &mut MessageId) -> bool {
        let text = message.as_str();
        let (base, rest) = text.find('#').map_or((text, ""), |at| text.split_at(at));
        if !self.names(base) {
            return false;
        }
        let n = self.messages.len() + 1;
        let alias = self.alias().to_owned();
        let other = self.messages.entry(base.to_owned()).or_insert_with(|| format!("{alias}-{n}"));
        *message = MessageId::from(format!("{other}{rest}"));
        true
    }

    /// The text with the channel that it begins with as it is called now.
    fn in_channel(&self, text: &str, channel: &ChannelId) -> Option<String> {
        let rest = text.strip_prefix(channel.as_str())?;
        let renamed = self.channel(channel);
        (renamed != *channel).then(|| format!("{renamed}{rest}"))
    }

    /// A delivery's id begins with its channel.
    pub(super) fn delivery(&self, id: &mut OutboxId, channel: &ChannelId) -> bool {
        let renamed = self.in_channel(id.as_str(), channel);
        renamed.map(|renamed| *id = OutboxId::from(renamed)).is_some()
    }

    /// The key of a sighting begins with its channel and may end with a message's id.
    pub(super) fn sighting(&mut self, sighting: &mut String, channel: &ChannelId) -> bool {
        let command = format!("{channel}/command/");
        let mut message = sighting.strip_prefix(&command).map(MessageId::from);
        let changed = message.as_mut().is_some_and(|message| self.message(message));
        if let Some(message) = message {
            *sighting = format!("{command}{message}");
        }
        let renamed = self.in_channel(sighting, channel);
        renamed.map(|renamed| *sighting = renamed).is_some() | changed
    }
}

/// A part of a text that is theirs, and what stands in its place.
struct Span<'a> {
    range: Range<usize>,
    with: &'a str,
}

impl Name {
    fn is_at(&self, words: &[Range<usize>], text: &str) -> bool {
        let alike = |(name, range): (&String, &Range<usize>)| {
            let word = &text[range.clone()];
            let has_capital = word.chars().next().is_some_and(char::is_uppercase);
            word == name || ((self.any_case || has_capital) && word.to_lowercase() == name.to_lowercase())
        };
        words.len() >= self.words.len() && self.words.iter().zip(words).all(alike)
    }
}

/// Everything that may be the name in a line of an adapter, between what it begins with and what follows.
fn names_behind<'a>(line: &'a str, begin: &str, end: &'a str) -> impl Iterator<Item = &'a str> {
    let rest = line.strip_prefix(begin).unwrap_or_default();
    rest.match_indices(end).take(ENDS_MAX).map(|(at, _)| &rest[..at])
}

pub(super) fn lowered(name: &str) -> String {
    name.trim().to_lowercase()
}

/// Everything that may be the name of somebody whom a message quotes or forwards, in lower case.
pub(super) fn quoted_names(parts: &[Part]) -> impl Iterator<Item = String> {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Image { .. } | Part::File { .. } => None,
    });
    texts.flat_map(str::lines).flat_map(|line| {
        names_behind(line, FORWARDED, "]").chain(names_behind(line, IN_REPLY, ": ")).map(lowered)
    })
}

/// The name in the line that says what a message answers, where that is its first line.
pub(super) fn answered_name(parts: &[Part]) -> Option<&str> {
    let Some(Part::Text { text }) = parts.first() else { return None };
    let rest = text.lines().next()?.strip_prefix(IN_REPLY)?;
    Some(rest[..rest.find(": \"")?].trim()).filter(|name| !name.is_empty())
}

/// The name in the line that says whom a message forwards, where that is its first line.
pub(super) fn forwarded_name(parts: &[Part]) -> Option<&str> {
    let Some(Part::Text { text }) = parts.first() else { return None };
    let name = text.lines().next()?.strip_prefix(FORWARDED)?.strip_suffix(']')?;
    Some(name.trim()).filter(|name| !name.is_empty())
}

/// Texts can be searched for it: it is no sign, no single letter and no short number.
fn tells(name: &str) -> bool {
    let text: String = words(name).map(|range| &name[range]).collect();
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    text.chars().count() > 1 && (digits < text.chars().count() || digits >= DIGITS_MIN)
}

/// Words of a name of several that tell its bearer by themselves, as first and last names do.
pub(super) fn parts(name: &str) -> impl Iterator<Item = &str> {
    let is_one = words(name).nth(1).is_none();
    let is_part = |word: &&str| {
        word.chars().count() >= PART_MIN
            && word.chars().next().is_some_and(|c| c.is_alphabetic() && !c.is_lowercase())
    };
    words(name).map(|range| &name[range]).filter(is_part).filter(move |_| !is_one)
}

/// Where the words of a text are: runs of letters and digits; of scripts without gaps each character.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.find(|(_, c)| is_word(*c))?;
        let mut end = start + first.len_utf8();
        while let Some((at, c)) = chars.next_if(|(_, c)| !is_gapless(first) && is_word(*c) && !is_gapless(*c))
        {
            end = at + c.len_utf8();
        }
        Some(start..end)
    })
}
