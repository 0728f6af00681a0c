//! Memories without a model: what people state of themselves, decide, promise or put right, told as statements about them.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_core::cues::{self, begins, lead_of};
use cairn_types::memory::MemoryKind::{self, Decision, Fact, Todo};
use cairn_types::memory::{DraftMemory, Replaces};
use cairn_types::message::{Entry, Role};
use cairn_types::text::sentences::sentences;

/// Most memories from one entry, and from one call: who pastes a page does not fill the store.
const ENTRY_MAX: usize = 3;
const CALL_MAX: usize = 40;

/// Longest sentence that is looked at, in bytes: a longer one is no statement about oneself.
const SENTENCE_MAX: usize = 400;

/// Longest text of a memory and of a name in it, in characters.
const TEXT_MAX: usize = 240;
const NAME_MAX: usize = 40;

/// Most words of a thing that is somebody's, as in "my dentist appointment is …".
const THING_MAX: usize = 6;

/// Importance of what somebody asked to be remembered, and of what was put right.
const ASKED: f64 = 0.9;
const PUT_RIGHT: f64 = 0.7;

/// What is worth remembering of what people said; the same once.
pub(super) fn find(entries: &[Arc<Entry>]) -> Vec<DraftMemory> {
    let mut found = Vec::new();
    let mut known = HashSet::new();
    for entry in entries.iter().filter(|entry| entry.role == Role::User) {
        let (text, name) = (entry.text(), speaker(entry));
        let mut fenced = false;
        let spoken = text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fence && !fenced && !line.trim_start().starts_with('>')
        });
        let of_entry = spoken.flat_map(sentences).flat_map(|sentence| statements(sentence, &name));
        found.extend(of_entry.filter(|memory| known.insert(memory.text.to_lowercase())).take(ENTRY_MAX));
        if found.len() >= CALL_MAX {
            break;
        }
    }
    found.truncate(CALL_MAX);
    found
}

fn speaker(entry: &Entry) -> String {
    let author = entry.author.as_ref();
    let name =
        author.map_or("", |author| if author.name.trim().is_empty() { &author.id } else { &author.name });
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() { "a person".to_owned() } else { name }
}

/// What somebody wants remembered, as a fact told by somebody else.
pub(super) fn asked(words: &str, speaker: Option<&str>) -> DraftMemory {
    let sentence = Sentence::of(words);
    let name = plain_name(speaker.unwrap_or("a person"));
    let text = sentence.retold(0..sentence.words.len(), &name);
    memory(Fact, capitalised(&text), speaker, ASKED)
}

/// A sentence by its words: as they were written, and as the lists have them.
struct Sentence {
    written: Vec<String>,
    words: Vec<String>,
}

impl Sentence {
    fn of(text: &str) -> Self {
        let written: Vec<String> =
            text.split_whitespace().map(without_markup).filter(|word| !word.is_empty()).collect();
        let plain =
            |word: &String| cues::spelled(word).trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let words = written.iter().map(plain).collect();
        Self { written, words }
    }

    fn plain(&self, from: usize) -> Vec<&str> {
        self.words[from..].iter().map(String::as_str).collect()
    }

    /// Where the clause ends that begins there: behind a comma or the like, or before a word that joins another statement.
    fn clause_end(&self, from: usize) -> usize {
        let ends = |at: &usize| {
            let joins = *at > from
                && cues::JOINING.contains(&self.words[*at].as_str())
                && lead_of(&self.plain(at + 1)).is_some();
            joins
                || self.written[*at].ends_with([',', ';', ':'])
                || ["–", "—"].contains(&self.written[*at].as_str())
        };
        match (from..self.words.len()).find(ends) {
            Some(at) if cues::JOINING.contains(&self.words[at].as_str()) && at > from => at,
            Some(at) => at + 1,
            None => self.words.len(),
        }
    }

    /// Behind the words that may stand before a statement.
    fn skip_openers(&self, mut from: usize, to: usize) -> usize {
        let openers = || cues::OPENERS.iter().chain(cues::GREETINGS).chain(cues::JOINING);
        while from < to {
            let rest = self.plain(from);
            match openers().filter_map(|opener| begins(&rest, opener)).max() {
                Some(n_words) => from += n_words,
                None if rest[0].is_empty() => from += 1,
                None => break,
            }
        }
        from.min(to)
    }

    /// Where the statement ends that begins there: it goes on over commas, unless another one begins.
    fn statement_end(&self, from: usize) -> usize {
        let mut end = self.clause_end(from);
        while end < self.words.len()
            && self.skip_openers(end, self.words.len()) == end
            && lead_of(&self.plain(end)).is_none()
        {
            end = self.clause_end(end).max(end + 1);
        }
        end
    }

    /// Words as somebody else tells them, without the mark at their end.
    fn retold(&self, range: std::ops::Range<usize>, name: &str) -> String {
        let told = range.map(|at| {
            let person = cues::FIRST_PERSON.iter().find(|(word, _)| *word == self.words[at]);
            match person {
                Some((word, told)) => {
                    cues::spelled(&self.written[at]).replacen(word, &told.replace("{}", name), 1)
                }
                None => self.written[at].clone(),
            }
        });
        told.collect::<Vec<_>>()
            .join(" ")
            .trim_end_matches(['.', ',', ';', ':', '!', '…', '。', '！'])
            .to_owned()
    }

    fn as_written(&self, range: std::ops::Range<usize>) -> String {
        self.written[range].join(" ").trim_end_matches(['.', ',', ';', ':', '!', '…', '。', '！']).to_owned()
    }

    /// A number, or a name that does not begin the sentence.
    fn has_value(&self, range: std::ops::Range<usize>) -> bool {
        let is_value = |word: &String| {
            let first = word.chars().find(|c| c.is_alphanumeric());
            word.bytes().any(|byte| byte.is_ascii_digit()) || first.is_some_and(char::is_uppercase)
        };
        let from = range.start.max(1);
        self.written.get(from..range.end).is_some_and(|words| words.iter().any(is_value))
    }
}

/// What a sentence states. Nothing that asks, supposes, quotes, or says what others said.
fn statements(sentence: &str, speaker: &str) -> Vec<DraftMemory> {
    if sentence.len() > SENTENCE_MAX
        || sentence.ends_with(['?', '？', '؟'])
        || sentence.contains(['"', '“', '„', '«'])
    {
        return Vec::new();
    }
    let sentence = Sentence::of(sentence);
    let name = plain_name(speaker);
    let n_words = sentence.words.len();
    let mut found = Vec::new();
    let mut at = sentence.skip_openers(0, n_words);
    if sentence.is_unstated(at) {
        return found;
    }
    while at < n_words {
        let words = sentence.plain(at);
        if let Some((kind, text)) = sentence.labelled(at, &name) {
            found.push(memory(kind, text, (kind != Decision).then_some(speaker), PUT_RIGHT));
            break;
        }
        if let Some((kind, text, end)) = sentence.wished(at, &name) {
            found.push(memory(kind, text, Some(speaker), ASKED));
            at = end;
        } else if let Some((lead, n_lead)) = lead_of(&words) {
            let end = match lead.kind {
                Decision => n_words,
                _ => sentence.statement_end(at + n_lead),
            };
            let Some(text) = sentence.told(lead, at + n_lead..end, &name) else { break };
            found.push(memory(lead.kind, text, (lead.kind != Decision).then_some(speaker), lead.importance));
            at = end;
        } else if let Some(text) = sentence.owned(at, &name) {
            found.push(memory(Fact, text, Some(speaker), PUT_RIGHT));
            break;
        } else if sentence.is_address(at) {
            at += 1;
        } else {
            if found.is_empty() && sentence.is_changed(at) {
                let text = capitalised(&sentence.as_written(at..n_words));
                found.push(memory(Fact, text, Some(speaker), PUT_RIGHT));
            }
            break;
        }
        at = sentence.skip_openers(at, n_words);
    }
    found
}

impl Sentence {
    /// A word to somebody before a statement, as in "bot, my name is …".
    fn is_address(&self, at: usize) -> bool {
        self.written[at].ends_with(',')
            && self.words[at].chars().all(char::is_alphabetic)
            && at + 1 < self.words.len()
    }

    fn is_unstated(&self, at: usize) -> bool {
        let words = self.plain(at);
        let is_wish = cues::REMEMBER.iter().any(|wish| begins(&words, wish).is_some());
        !is_wish && words.first().is_some_and(|word| cues::UNSTATED.contains(word))
    }

    /// "Correction: …", "Decided: …".
    fn labelled(&self, at: usize, name: &str) -> Option<(MemoryKind, String)> {
        let (label, rest) = (self.words.get(at)?.as_str(), at + 1..self.words.len());
        if !self.written[at].ends_with(':') || rest.is_empty() {
            return None;
        }
        let said = self.as_written(rest);
        if cues::CORRECTIONS.contains(&label) {
            return Some((Fact, capitalised(&said)));
        }
        cues::DECISIONS
            .contains(&label)
            .then(|| (Decision, format!("{} {said} ({name})", capitalised(&self.written[at]))))
    }

    /// What is to be remembered or reminded of, and where its words end.
    fn wished(&self, at: usize, name: &str) -> Option<(MemoryKind, String, usize)> {
        let (words, n_words) = (self.plain(at), self.words.len());
        let rest = |n: usize| {
            let joined = words.get(n).is_some_and(|word| cues::THAT.contains(word));
            at + n + usize::from(joined)
        };
        if let Some(n) = cues::REMIND.iter().find_map(|wish| begins(&words, wish)) {
            let from = at + n + usize::from(words.get(n) == Some(&"to"));
            let asks = words.get(n).is_some_and(|word| cues::INTERROGATIVE.contains(word));
            return (from < n_words && !asks).then(|| {
                (Todo, format!("{name} asked for a reminder: {}", self.retold(from..n_words, name)), n_words)
            });
        }
        let n = cues::REMEMBER.iter().filter_map(|wish| begins(&words, wish)).max()?;
        let from = rest(n);
        let is_nothing =
            from == at + n && cues::NO_THING.iter().any(|word| begins(&self.plain(from), word).is_some());
        if from >= n_words || is_nothing {
            return None;
        }
        let words = self.plain(from);
        if words[0] == "to" && from + 1 < n_words {
            return Some((Todo, format!("To do: {}", self.retold(from + 1..n_words, name)), n_words));
        }
        if let Some((lead, n_lead)) = lead_of(&words) {
            let end = self.statement_end(from + n_lead);
            return Some((lead.kind, self.told(lead, from + n_lead..end, name)?, end));
        }
        let text = self.owned(from, name).unwrap_or_else(|| capitalised(&self.retold(from..n_words, name)));
        Some((Fact, text, n_words))
    }

    /// What follows a lead, told by somebody else; of a decision who told it. `None` where that says nothing.
    fn told(&self, lead: &cues::Lead, rest: std::ops::Range<usize>, name: &str) -> Option<String> {
        let is_whole = lead.told.ends_with('.');
        let object = self.words.get(rest.start).filter(|_| !rest.is_empty());
        if !is_whole && object.is_none_or(|object| cues::VAGUE.contains(&object.as_str())) {
            return None;
        }
        let ends =
            rest.len() == 1 || self.written.get(rest.start).is_some_and(|word| word.ends_with([',', ';']));
        let is_cut_short = ends && object.is_some_and(|object| object.chars().count() <= 2);
        if is_cut_short && !self.has_value(rest.clone()) {
            return None;
        }
        // Somebody will do much; with a day, a name or a number it is a promise.
        if lead.told.ends_with(" will") && !self.has_value(rest.clone()) {
            return None;
        }
        let is_english =
            cues::FIRST_PERSON.iter().any(|(word, _)| lead.words.split(' ').next() == Some(word));
        let said = if is_english { self.retold(rest, name) } else { self.as_written(rest) };
        let told = lead.told.trim_end_matches('.').replace("{}", name);
        let text = format!("{told} {said}").trim_end().to_owned();
        Some(if lead.kind == Decision { format!("{text} ({name})") } else { text })
    }

    /// "My … is …" in a language where that is said otherwise by somebody else.
    fn owned(&self, at: usize, name: &str) -> Option<String> {
        let words = self.plain(at);
        cues::POSSESSIVES.iter().find_map(|(mine, is, form)| {
            let from = mine.iter().find_map(|word| begins(&words, word))?;
            let is_at =
                (from + 1..words.len().min(from + THING_MAX + 1)).find(|idx| is.contains(&words[*idx]))?;
            let thing = self.written[at + from..at + is_at].join(" ");
            let rest = self.as_written(at + is_at..self.words.len());
            let told = form.replace("{x}", &thing).replace("{}", name);
            (is_at + 1 < words.len()).then(|| capitalised(&format!("{told} {rest}")))
        })
    }

    /// "The alarm code is now 9046".
    fn is_changed(&self, at: usize) -> bool {
        let n_words = self.words.len();
        let now = (at + 2..n_words).find(|idx| cues::NOW.contains(&self.words[*idx].as_str()));
        let is_named = !cues::VAGUE.contains(&self.words[at].as_str())
            && !self.words[at..].iter().any(|said| cues::FIRST_PERSON.iter().any(|(word, _)| word == said))
            && !["he", "she", "they", "there"].contains(&self.words[at].as_str());
        n_words - at <= cues::NOW_MAX_WORDS
            && is_named
            && now.is_some_and(|now| self.has_value(now + 1..n_words))
    }
}

fn memory(kind: MemoryKind, text: String, subject: Option<&str>, importance: f64) -> DraftMemory {
    let text = shortened(&text, TEXT_MAX);
    DraftMemory {
        kind,
        text,
        subject: subject.map(str::to_owned),
        importance,
        by: None,
        said_at: None,
        told_by: None,
        replaces: Replaces::default(),
    }
}

/// A word without what could be markup, or turn the text around.
fn without_markup(word: &str) -> String {
    let is_markup = |c: char| {
        c.is_control()
            || matches!(c, '*' | '`' | '<' | '>' | '[' | ']' | '|' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let word: String = word.chars().filter(|c| !is_markup(*c)).collect();
    word.trim_matches(['_', '~', '#']).replace('’', "'")
}

fn plain_name(name: &str) -> String {
    let words: Vec<String> =
        name.split_whitespace().map(without_markup).filter(|word| !word.is_empty()).collect();
    let name = shortened(&words.join(" "), NAME_MAX);
    if name.is_empty() { "a person".to_owned() } else { name }
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            format!("{}…", text[..end].rsplit_once(' ').map_or(&text[..end], |(words, _)| words))
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
