//! What there is of a person in the journal: who they are called, what they said, where, and which of their words are
//! theirs alone. Two walks over the journal: [`Survey::hear`] collects, [`Survey::weigh`] strikes out what others say, too,
//! and what they are called.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::scrub::{Naming, RUN, Scrub};
use super::words::{Word, run_key, words};
use crate::event::{Event, Record};
use crate::ids::{ChannelId, LOCAL_PLATFORM, MemoryId, MessageId, Seq, TurnId};
use crate::memory::{MemorySave, Scope};
use crate::message::{Author, Part, text_of};

/// Fewest letters of an ordinary word that is known as somebody's.
const LONG: usize = 5;

/// Fewest digits of a number that is known as somebody's.
const DIGITS: usize = 5;

/// Fewest digits of numbers in a row, such as those of a telephone.
const DIGITS_IN_A_ROW: usize = 7;

/// Most words of what is taken for one sign, such as an address.
const SIGN_WORDS: usize = 16;

/// Words of content that a run has at the least.
const RUN_CONTENT: usize = 2;

/// Something that they said, and nobody else, as far as the walks have come.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) first: u64,
    /// It is a word like others: whoever else says it, and when, it is not theirs alone.
    pub(super) ordinary: bool,
}

/// What the journal has of a person.
#[derive(Debug, Clone)]
pub struct Survey {
    person: String,
    names: BTreeSet<String>,
    /// Ids and names of others, and what tells them by itself in those, in lower case.
    others: HashSet<String>,
    known: bool,
    pub(super) words: HashMap<u64, Own>,
    pub(super) signs: HashMap<Vec<u64>, u64>,
    pub(super) sign_starts: HashMap<u64, Vec<Vec<u64>>>,
    pub(super) runs: HashMap<u64, u64>,
    /// Messages that no turn has taken up yet, and whether they are theirs.
    pending: HashMap<(ChannelId, MessageId), bool>,
    pub(super) turns: HashSet<(ChannelId, TurnId)>,
    seqs: HashMap<ChannelId, BTreeSet<Seq>>,
    /// Memories of others of which nothing is out of their turns, as far as the second walk has come.
    pub(super) of_others: HashSet<MemoryId>,
    pub(super) private: BTreeSet<ChannelId>,
    named_after_them: BTreeSet<ChannelId>,
    heard_others: HashSet<ChannelId>,
    /// Channels in which they had something summarised to their wishes.
    pub(super) wishes: HashSet<ChannelId>,
    erasures: u64,
    ids: HashSet<String>,
}

impl Survey {
    /// Of the person of that id, `PLATFORM/USER`.
    pub fn new(person: &str) -> Self {
        Self {
            person: person.to_owned(),
            names: BTreeSet::new(),
            others: HashSet::new(),
            known: false,
            words: HashMap::new(),
            signs: HashMap::new(),
            sign_starts: HashMap::new(),
            runs: HashMap::new(),
            pending: HashMap::new(),
            turns: HashSet::new(),
            seqs: HashMap::new(),
            of_others: HashSet::new(),
            private: BTreeSet::new(),
            named_after_them: BTreeSet::new(),
            heard_others: HashSet::new(),
            wishes: HashSet::new(),
            erasures: 0,
            ids: HashSet::new(),
        }
    }

    pub(super) fn person(&self) -> &str {
        &self.person
    }

    pub fn is_known(&self) -> bool {
        self.known
    }

    pub(super) fn is_theirs(&self, author: &Author) -> bool {
        author.id == self.person
    }

    /// Messages of theirs that no turn has taken up.
    pub(super) fn waits(&self, channel: &ChannelId, message: &MessageId) -> bool {
        self.pending.contains_key(&(channel.clone(), message.clone()))
    }

    /// Whether a channel is a private one with them, or nobody but them was heard in one that is named after them.
    pub(super) fn is_private(&self, channel: &ChannelId) -> bool {
        self.private.contains(channel)
            || (self.named_after_them.contains(channel) && !self.heard_others.contains(channel))
    }

    /// The person's id without its platform.
    pub(super) fn bare(&self) -> &str {
        self.person.split_once('/').map_or(self.person.as_str(), |(_, bare)| bare)
    }

    pub(super) fn platform(&self) -> &str {
        self.person.split_once('/').map_or("", |(platform, _)| platform)
    }

    /// What stands in the place of their id from now on; it names nobody else.
    pub(super) fn pseudonym(&self) -> String {
        let mut n = self.erasures + 1;
        loop {
            let pseudonym = format!("{}/erased-{n}", self.platform());
            if !self.ids.contains(&pseudonym) {
                return pseudonym;
            }
            n += 1;
        }
    }

    pub fn hear(&mut self, record: &Record) {
        if let Some(channel) = &record.channel
            && channel.platform() == self.platform()
            && channel.chat() == self.bare()
        {
            self.named_after_them.insert(channel.clone());
            self.known |= channel.platform() != LOCAL_PLATFORM;
        }
        match (&record.event, &record.channel) {
            (Event::Accepted(pending), Some(channel)) => {
                let theirs = self.meet(&pending.author);
                self.pending.insert((channel.clone(), pending.message.clone()), theirs);
                if theirs {
                    if pending.direct && channel.platform() != LOCAL_PLATFORM {
                        self.private.insert(channel.clone());
                    }
                    self.hear_parts(&pending.parts, record.n);
                } else {
                    self.heard_others.insert(channel.clone());
                }
                self.known |= pending.voices.people.contains(&self.person);
            }
            (Event::MessageEdited { message, parts, .. }, Some(channel)) => {
                let key = (channel.clone(), message.clone());
                if self.pending.get(&key).is_some_and(|theirs| *theirs) {
                    self.hear_parts(parts, record.n);
                }
            }
            (Event::TurnStarted { turn, messages, first_seq }, Some(channel)) => {
                for (seq, message) in (first_seq.0..).map(Seq).zip(messages) {
                    // Of a message whose line was set aside nobody knows whose it was: its answer may be to them.
                    if self.pending.remove(&(channel.clone(), message.clone())) != Some(false) {
                        self.turns.insert((channel.clone(), turn.clone()));
                        self.seqs.entry(channel.clone()).or_default().insert(seq);
                    }
                }
            }
            (Event::CommandTaken { caller, command, .. }, Some(channel)) => {
                if self.meet(caller) && command == "compact" {
                    self.wishes.insert(channel.clone());
                }
            }
            _ => self.hear_aside(record),
        }
    }

    /// What names them beside what is said.
    fn hear_aside(&mut self, record: &Record) {
        match &record.event {
            Event::PairingRequested { user, .. } => drop(self.meet(user)),
            Event::PairingApproved { user } | Event::PairingRevoked { user } => {
                self.known |= *user == self.person;
            }
            Event::EntryAdded { entry } => {
                let by_them = entry.author.as_ref().is_some_and(|author| self.meet(author));
                self.known |= by_them || entry.voices.people.contains(&self.person);
                if let Some(channel) = &record.channel
                    && (by_them || self.turns.contains(&(channel.clone(), entry.turn.clone())))
                {
                    self.seqs.entry(channel.clone()).or_default().insert(entry.seq);
                }
            }
            Event::MemorySaved(save) => self.known |= self.is_of_them(save),
            Event::RunEnded(end) => {
                self.known |= end.memories.iter().any(|save| self.is_of_them(save));
            }
            Event::ToolUsed(used) => self.known |= used.caused_by.contains(&self.person),
            Event::ApprovalSettled { by, .. } => self.known |= by.as_ref() == Some(&self.person),
            Event::PersonErased { pseudonym, .. } => {
                self.erasures += u64::from(pseudonym.starts_with(&format!("{}/", self.platform())));
            }
            _ => {}
        }
    }

    /// The memory is in their scope, or by them, or about their id.
    pub(super) fn is_of_them(&self, save: &MemorySave) -> bool {
        let own = matches!(&save.scope, Scope::User { platform, user } if platform == self.platform() && user == self.bare());
        let by_them = save.source.by.as_ref().is_some_and(|by| self.is_theirs(by));
        own || by_them || save.subject.as_ref() == Some(&self.person)
    }

    fn meet(&mut self, author: &Author) -> bool {
        let theirs = self.is_theirs(author);
        if theirs {
            self.known = true;
            self.names.insert(author.name.clone());
        } else if self.ids.insert(author.id.clone()) || !self.is_other(&author.name) {
            let bare = author.id.split_once('/').map_or(author.id.as_str(), |(_, bare)| bare);
            let telling = words(&author.name).into_iter().filter(tells).map(|word| word.text.to_lowercase());
            self.others.extend(telling);
            self.others.extend([&author.id, bare, author.name.trim()].map(str::to_lowercase));
        }
        theirs
    }

    fn hear_parts(&mut self, parts: &[Part], n: u64) {
        let text = own_words(&text_of(parts));
        let found = words(&text);
        for (idx, word) in found.iter().enumerate() {
            if let Some(ordinary) = is_own(word, idx > 0 && !ends_sentence(&text, word.start)) {
                let own = self.words.entry(word.key).or_insert(Own { first: n, ordinary });
                own.ordinary &= ordinary;
            }
        }
        for run in found.windows(RUN) {
            if run.iter().filter(|word| word.has_content() && !word.is_gapless()).count() >= RUN_CONTENT {
                self.runs.entry(run_key(run)).or_insert(n);
            }
        }
        for sign in signs(&text, &found) {
            if !self.signs.contains_key(&sign) {
                self.sign_starts.entry(sign[0]).or_default().push(sign.clone());
                self.signs.insert(sign, n);
            }
        }
    }

    /// What is taken out of other texts, after both walks.
    pub fn scrub(&self) -> Scrub {
        let mut scrub = self.naming();
        self.words.keys().for_each(|key| scrub.add_keys(vec![*key]));
        self.signs.keys().for_each(|sign| scrub.add_keys(sign.clone()));
        self.runs.keys().for_each(|run| scrub.add_run(*run));
        scrub
    }

    /// Of that their ids and names, after the first walk.
    pub(super) fn naming(&self) -> Scrub {
        let pseudonym = self.pseudonym();
        let mut scrub = Scrub::new(pseudonym.split_once('/').map_or(pseudonym.as_str(), |(_, alias)| alias));
        let bare = self.bare();
        scrub.add_quoted(&self.person);
        if !words(bare).is_empty() {
            scrub.add_name(&self.person, false, Naming::Sure);
        }
        let is_number = bare.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || bare.len() >= DIGITS {
            name(&mut scrub, bare);
        }
        for known in &self.names {
            name(&mut scrub, known);
        }
        for word in self.parts_of_names() {
            scrub.add_quoted(word.text);
            scrub.add_name(word.text, false, Naming::Part);
        }
        scrub
    }

    /// Words of names of several that are nobody else's, and no words of everybody: those that tell the person by themselves.
    fn parts_of_names(&self) -> impl Iterator<Item = Word<'_>> {
        let words = self.names.iter().map(|name| words(name)).filter(|words| words.len() > 1).flatten();
        words.filter(|word| tells(word) && !self.is_other(word.text))
    }

    /// The names that they have borne and nobody else's first or last name, in lower case.
    pub(super) fn is_called(&self, subject: &str) -> bool {
        let lower = subject.trim().to_lowercase();
        subject == self.person
            || lower == self.bare().to_lowercase()
            || self.names.iter().any(|name| name.to_lowercase() == lower)
            || self.parts_of_names().any(|word| word.text.to_lowercase() == lower)
    }

    /// Somebody else's id or name, or a word of it that tells them by itself.
    pub(super) fn is_other(&self, subject: &str) -> bool {
        self.others.contains(&subject.trim().to_lowercase())
    }

    /// Somebody else bears a name of theirs.
    pub(super) fn has_namesake(&self) -> bool {
        self.names.iter().any(|name| self.is_other(name))
    }

    /// They took part in a turn of those in which the memory was found.
    pub(super) fn is_out_of_their_turns(&self, save: &MemorySave) -> bool {
        let source = &save.source;
        match (&source.channel, source.from_seq, source.to_seq) {
            (Some(channel), Some(from), Some(to)) if from <= to => {
                self.seqs.get(channel).is_some_and(|seqs| seqs.range(from..=to).next().is_some())
            }
            _ => false,
        }
    }
}

/// A word of a name that tells its bearer by itself.
fn tells(word: &Word<'_>) -> bool {
    word.text.chars().count() > 2 && word.digits() == 0 && !word.is_common()
}

/// A name that is a common word, too, is taken out where it is written as a name alone; one that no text can be told by,
/// such as a sign, a letter or `The`, only where a message answers theirs.
fn name(scrub: &mut Scrub, name: &str) {
    let name = name.trim();
    scrub.add_quoted(name);
    let found = words(name);
    let common = found.iter().all(Word::is_common);
    let tells = match &found[..] {
        [] => false,
        [word] => {
            let letters = word.text.chars().count();
            let digits = word.digits();
            word.has_content() && letters > 1 && (digits < letters || digits >= DIGITS)
        }
        _ => true,
    };
    let lower = name.to_lowercase();
    if tells && !(common && lower == name) {
        let short = found.len() == 1 && name.chars().count() < 3;
        let told_by_two = found.iter().filter(|word| !word.is_common()).count() > 1;
        let sure = told_by_two || found.iter().any(|word| word.digits() > 0);
        let naming = if sure { Naming::Sure } else { Naming::Word };
        scrub.add_name(name, common || short, naming);
    }
}

/// A text without the lines in which adapters say whom it answers: those are of others.
pub(super) fn own_words(text: &str) -> String {
    let quotes = |line: &&str| line.starts_with("[in reply to ") || line.starts_with("[forwarded");
    text.lines().filter(|line| !quotes(line)).collect::<Vec<_>>().join("\n")
}

/// Whether a word may be known as somebody's by itself, and whether it is a word like others (`true`) or a number or sign
/// (`false`). `inside`: it does not begin a sentence.
fn is_own(word: &Word<'_>, inside: bool) -> Option<bool> {
    let letters = word.text.chars().count();
    if word.is_gapless() {
        return None;
    }
    if word.is_mixed() {
        return (letters >= LONG - 1).then_some(false);
    }
    if word.digits() > 0 {
        return (word.digits() >= DIGITS).then_some(false);
    }
    let is_name = inside && letters > 2 && word.text.chars().next().is_some_and(char::is_uppercase);
    ((letters >= LONG || is_name) && !word.is_common()).then_some(true)
}

fn ends_sentence(text: &str, at: usize) -> bool {
    text[..at].trim_end().ends_with(['.', '!', '?', '\n', ':'])
}

/// Addresses, links, numbers with letters, telephone numbers: words in a row that are one sign.
fn signs(text: &str, found: &[Word<'_>]) -> Vec<Vec<u64>> {
    let mut signs = Vec::new();
    let gap = |a: &Word<'_>, b: &Word<'_>| &text[a.end()..b.start];
    let solid =
        |a: &Word<'_>, b: &Word<'_>| !gap(a, b).contains(char::is_whitespace) && !gap(a, b).is_empty();
    for chunk in found.chunk_by(|a, b| solid(a, b)).filter(|chunk| (2..=SIGN_WORDS).contains(&chunk.len())) {
        let digits: usize = chunk.iter().map(Word::digits).sum();
        let whole = &text[chunk[0].start..chunk[chunk.len() - 1].end()];
        let has_letters = whole.chars().any(char::is_alphabetic);
        if is_date(chunk) {
            continue;
        }
        if whole.contains(['@', '_'])
            || whole.contains("://")
            || (digits > 1 && has_letters)
            || digits >= DIGITS
        {
            signs.push(chunk.iter().map(|word| word.key).collect());
        }
    }
    let near = |a: &Word<'_>, b: &Word<'_>| {
        gap(a, b).chars().all(|c| " -./()+".contains(c)) && a.digits() > 0 && b.digits() > 0
    };
    for row in found.chunk_by(|a, b| near(a, b)).filter(|row| (2..=SIGN_WORDS).contains(&row.len())) {
        let all_digits = row.iter().all(|word| word.digits() == word.text.len());
        if all_digits && !is_date(row) && row.iter().map(Word::digits).sum::<usize>() >= DIGITS_IN_A_ROW {
            signs.push(row.iter().map(|word| word.key).collect());
        }
    }
    signs
}

/// A day or a time of day: everybody's.
fn is_date(row: &[Word<'_>]) -> bool {
    let all_digits = row.iter().all(|word| word.digits() == word.text.len());
    let lengths: Vec<usize> = row.iter().map(|word| word.text.len()).collect();
    all_digits
        && (matches!(lengths[..], [4, 1..=2, 1..=2] | [1..=2, 1..=2, 4])
            || lengths.iter().all(|len| *len <= 2) && row.len() <= 3)
}
