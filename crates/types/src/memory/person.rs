//! Who said a memory, and whom it is about. This decides what follows a person into their private chats, and what weighs
//! less.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::origin::said;
use super::{DraftMemory, Memory, Scope, SpokenWords, TYPED};
use crate::ids::LOCAL_PLATFORM;
use crate::message::{Author, Entry, Role};
use crate::text::words::{is_gapless, raw_words};

/// Weight of what a member of a chat typed about others, against what they typed about themselves.
const OF_OTHERS: f64 = 0.6;

/// Shortest id, in characters, that is looked for in texts without its platform: a shorter one may be any number.
const BARE_ID_MIN: usize = 5;

/// Sets in each memory when it was said and by whom: the person who certainly said it about themselves, else the one who most
/// likely told it.
pub fn credit(memories: &mut [DraftMemory], entries: &[Arc<Entry>]) {
    let said = said(memories, entries);
    for (memory, (said_at, teller)) in memories.iter_mut().zip(said) {
        memory.by = speaker_of(memory, entries);
        let subject = memory.subject.as_deref();
        let is_of_another = |teller: &Author| !subject.is_some_and(|subject| is_called(teller, subject));
        memory.told_by = teller.filter(is_of_another).filter(|_| memory.by.is_none());
        memory.said_at = said_at;
    }
}

/// The person who said a memory about themselves. Its subject must be their id, or a name that nobody else has in these
/// entries, and they must have said it there. `None` if that is not certain.
pub fn speaker_of(memory: &DraftMemory, entries: &[Arc<Entry>]) -> Option<Author> {
    let subject = memory.subject.as_deref()?;
    let authors = || entries.iter().filter_map(|entry| entry.author.as_ref());
    let mut about = authors().filter(|author| is_called(author, subject));
    let author = about.next()?;
    if about.any(|other| other.id != author.id) {
        return None;
    }
    // What they forward or quote is not theirs.
    let theirs = |entry: &&Arc<Entry>| {
        entry.role == Role::User
            && entry.author.as_ref().is_some_and(|by| by.id == author.id)
            && entry.provenance.is_empty()
    };
    SpokenWords::of(entries.iter().filter(theirs)).holds(&memory.text, &author.name).then(|| author.clone())
}

/// Whom a typed text is about: another person whom it names, else `speaker`, who typed it. `others`: people known in the
/// chat.
pub fn subject_of(text: &str, speaker: &Author, others: &[Author]) -> Option<String> {
    let mut named: Vec<&Author> =
        others.iter().filter(|other| other.id != speaker.id && is_named(text, other)).collect();
    named.sort_by(|a, b| a.id.cmp(&b.id));
    named.dedup_by(|a, b| a.id == b.id);
    match named.as_slice() {
        [] => Some(speaker.id.clone()),
        [one] => Some(one.id.clone()),
        // It is unknown which of them is meant.
        [first, ..] => Some(first.name.clone()).filter(|name| !is_called(speaker, name)),
    }
}

/// Who said a memory, as far as that makes it trustworthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// An operator typed it.
    Operator,
    /// The person whom it is about said it.
    Own,
    /// Somebody typed it about somebody else, and is no operator.
    Other,
    /// A model found it in what was said.
    Found,
}

impl Memory {
    /// The id of the person who said it. Memories of earlier versions do not have it: if somebody typed one in a chat, that
    /// is its subject.
    pub fn speaker(&self) -> Option<&str> {
        match &self.source.by {
            Some(by) => Some(&by.id),
            None => self.subject.as_deref().filter(|_| self.is_typed_by_unknown()),
        }
    }

    /// The name or id of the person who said it, where that is known; `None` for what an operator typed.
    pub fn said_by(&self) -> Option<&str> {
        match &self.source.by {
            Some(by) => (self.trust() != Trust::Operator).then_some(&by.name),
            None => self.speaker().or(self.source.told_by.as_ref().map(|teller| teller.name.as_str())),
        }
    }

    /// Whether it is about its speaker.
    pub fn is_of_speaker(&self) -> bool {
        match (&self.source.by, &self.subject) {
            (Some(by), Some(subject)) => is_called(by, subject),
            (None, Some(_)) => self.is_typed_by_unknown(),
            (_, None) => false,
        }
    }

    /// The person, `PLATFORM/USER`, in whose private chats it may be recalled, too, because they said it about themselves in
    /// a chat with others.
    pub fn follows(&self) -> Option<&str> {
        let Scope::Chat { platform, .. } = &self.scope else { return None };
        let speaker = self.speaker().filter(|_| self.is_of_speaker() && platform != LOCAL_PLATFORM)?;
        speaker.strip_prefix(platform.as_str())?.starts_with('/').then_some(speaker)
    }

    /// Its weight among memories that fit a question equally well, from 0 to 1. What members of a chat say about others
    /// weighs less.
    pub fn weight(&self) -> f64 {
        let among_others = matches!(self.scope, Scope::Chat { .. }) && self.source.is_of_member();
        if among_others && !self.is_of_speaker() { OF_OTHERS } else { 1.0 }
    }

    /// Who said it.
    pub fn trust(&self) -> Trust {
        if self.source.is_typed() && !self.source.is_of_member() && !self.is_typed_by_unknown() {
            Trust::Operator
        } else if self.is_of_speaker() {
            Trust::Own
        } else if self.source.is_of_member() {
            Trust::Other
        } else {
            Trust::Found
        }
    }

    fn is_typed_by_unknown(&self) -> bool {
        self.source.by.is_none() && self.source.model == TYPED && self.source.channel.is_some()
    }
}

/// Whether the subject is the person, by id or name.
fn is_called(person: &Author, subject: &str) -> bool {
    let name = |name: &str| name.trim().to_lowercase();
    subject == person.id || name(subject) == name(&person.name)
}

/// Whether the text names the person: by id, whole name, or the first word of the name as it is written.
fn is_named(text: &str, person: &Author) -> bool {
    let bare = person.id.split_once('/').map_or(person.id.as_str(), |(_, bare)| bare);
    let name: Vec<&str> = raw_words(&person.name).collect();
    let Some(first) = name.first() else { return text.contains(&person.id) };
    if first.chars().next().is_some_and(is_gapless) {
        return text.contains(person.name.trim());
    }
    let words: Vec<&str> =
        raw_words(text).map(|word| word.split(['\'', '’']).next().unwrap_or(word)).collect();
    let whole = |window: &[&str]| window.iter().zip(&name).all(|(a, b)| a.to_lowercase() == b.to_lowercase());
    text.contains(&person.id)
        || words.contains(first)
        || (name.len() > 1 && words.windows(name.len()).any(whole))
        || (bare.chars().count() >= BARE_ID_MIN && words.contains(&bare))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::memory::{MemoryKind, Replaces, Source, TYPED_BY_MEMBER};
    use crate::message::Provenance;
    use crate::testing;

    fn ann() -> Author {
        testing::author("telegram/7", "Ann")
    }

    fn bob() -> Author {
        testing::author("telegram/80000", "Bob Stone")
    }

    fn said(author: &Author, words: &str) -> Arc<Entry> {
        let mut entry = testing::entry(Role::User, words);
        entry.author = Some(author.clone());
        Arc::new(entry)
    }

    #[rstest]
    #[case::of_oneself("I am allergic to nuts", Some("telegram/7"))]
    #[case::in_another_language("Nem szeretem a diót", Some("telegram/7"))]
    #[case::by_own_name("Ann is allergic to nuts", Some("telegram/7"))]
    #[case::of_another("Bob is allergic to nuts", Some("telegram/80000"))]
    #[case::of_another_by_full_name("bob stone is allergic to nuts", Some("telegram/80000"))]
    #[case::of_what_is_anothers("Bob's desk is broken", Some("telegram/80000"))]
    #[case::of_another_in_ones_own_words("I think that Bob is a thief", Some("telegram/80000"))]
    #[case::of_another_by_id("<@80000> is allergic to nuts", Some("telegram/80000"))]
    #[case::of_a_thing("the shed is green", Some("telegram/7"))]
    fn what_is_typed_is_about_whom_it_names(#[case] text: &str, #[case] subject: Option<&str>) {
        assert_eq!(subject_of(text, &ann(), &[ann(), bob()]).as_deref(), subject);
    }

    #[test]
    fn a_name_that_several_bear_is_nobodys_own() {
        let two = [bob(), Author { id: "telegram/9".into(), name: "Bob".into() }];
        assert_eq!(subject_of("Bob is late", &ann(), &two).as_deref(), Some("Bob Stone"));
        let mallory = Author { id: "telegram/6".into(), name: "Ann".into() };
        assert_eq!(
            subject_of("Ann is a thief", &mallory, &[ann(), mallory.clone()]).as_deref(),
            Some("telegram/7"),
            "taking a name does not make it one's own word"
        );
    }

    fn draft(subject: &str, text: &str) -> DraftMemory {
        let subject = Some(subject.to_owned());
        let (kind, text) = (MemoryKind::Fact, text.to_owned());
        DraftMemory {
            kind,
            text,
            subject,
            importance: 0.5,
            by: None,
            said_at: None,
            told_by: None,
            replaces: Replaces::default(),
        }
    }

    #[rstest]
    #[case::by_name("Ann", "Ann is allergic to nuts.", true)]
    #[case::by_id("telegram/7", "Ann is allergic to nuts.", true)]
    #[case::of_another("Bob Stone", "Bob Stone is allergic to nuts.", false)]
    #[case::said_by_another("Ann", "Ann owes money in Monaco.", false)]
    #[case::said_by_nobody("Ann", "Ann collects stamps and coins.", false)]
    #[case::of_nobody("", "Somebody is allergic to nuts.", false)]
    fn only_what_is_surely_of_the_speaker_is_their_own_word(
        #[case] subject: &str,
        #[case] text: &str,
        #[case] own: bool,
    ) {
        let entries = [
            said(&ann(), "By the way, I'm allergic to nuts."),
            said(&bob(), "And Ann owes money in Monaco."),
        ];
        assert_eq!(speaker_of(&draft(subject, text), &entries), own.then(ann));
    }

    #[test]
    fn neither_a_namesake_nor_a_quotation_makes_a_word_ones_own() {
        let memory = draft("Ann", "Ann is allergic to nuts.");
        let namesake = Author { id: "telegram/6".into(), name: "ann".into() };
        let own = said(&ann(), "I am allergic to nuts");
        assert_eq!(speaker_of(&memory, &[Arc::clone(&own), said(&namesake, "hello")]), None);
        let mut forwarded = Entry::clone(&own);
        forwarded.provenance = Provenance::of_strangers();
        assert_eq!(speaker_of(&memory, &[Arc::new(forwarded)]), None);
        assert_eq!(speaker_of(&memory, &[own]), Some(ann()));
    }

    fn typed(scope: &str, model: &str, by: Option<Author>, subject: Option<&str>, text: &str) -> Memory {
        let source = Source { by, ..testing::source(Some("main/telegram/-100"), model) };
        let subject = subject.map(ToOwned::to_owned);
        Memory { subject, importance: 0.8, source, ..testing::memory(scope, text) }
    }

    const GROUP: &str = "chat:telegram/-100";

    #[rstest]
    #[case::own(GROUP, TYPED_BY_MEMBER, Some(ann()), Some("telegram/7"), Some("telegram/7"), 1.0)]
    #[case::found_by_a_model(GROUP, "gpt", Some(ann()), Some("Ann"), Some("telegram/7"), 1.0)]
    #[case::of_another(GROUP, TYPED_BY_MEMBER, Some(bob()), Some("telegram/7"), None, 0.6)]
    #[case::of_nobody_known(GROUP, TYPED_BY_MEMBER, Some(bob()), None, None, 0.6)]
    #[case::of_another_by_an_operator(GROUP, TYPED, Some(bob()), Some("telegram/7"), None, 1.0)]
    #[case::nobodys_word(GROUP, "gpt", None, Some("Ann"), None, 1.0)]
    #[case::before_it_was_noted(GROUP, TYPED, None, Some("telegram/7"), Some("telegram/7"), 1.0)]
    #[case::of_another_network("chat:discord/5", TYPED_BY_MEMBER, Some(ann()), Some("telegram/7"), None, 1.0)]
    #[case::in_private("user:telegram/7", TYPED_BY_MEMBER, Some(ann()), Some("telegram/7"), None, 1.0)]
    fn what_somebody_says_of_themselves_follows_them_and_weighs_more(
        #[case] scope: &str,
        #[case] model: &str,
        #[case] by: Option<Author>,
        #[case] subject: Option<&str>,
        #[case] follows: Option<&str>,
        #[case] weight: f64,
    ) {
        let memory = typed(scope, model, by, subject, "I like tea.");
        assert_eq!((memory.follows(), memory.weight()), (follows, weight));
    }

    #[rstest]
    #[case::typed_by_an_operator(TYPED, Some(bob()), Some("telegram/7"), Trust::Operator)]
    #[case::of_oneself(TYPED_BY_MEMBER, Some(ann()), Some("telegram/7"), Trust::Own)]
    #[case::of_oneself_found_by_a_model("gpt", Some(ann()), Some("Ann"), Trust::Own)]
    #[case::before_it_was_noted(TYPED, None, Some("telegram/7"), Trust::Own)]
    #[case::of_another(TYPED_BY_MEMBER, Some(bob()), Some("telegram/7"), Trust::Other)]
    #[case::nobodys_word("gpt", None, Some("Ann"), Trust::Found)]
    fn it_is_told_whose_word_a_memory_is(
        #[case] model: &str,
        #[case] by: Option<Author>,
        #[case] subject: Option<&str>,
        #[case] trust: Trust,
    ) {
        assert_eq!(typed(GROUP, model, by, subject, "I like tea.").trust(), trust);
    }

    #[test]
    fn local_chats_have_no_private_ones_beside_them() {
        let local = typed("chat:local/main", TYPED_BY_MEMBER, Some(ann()), Some("telegram/7"), "I like tea.");
        assert_eq!(local.follows(), None);
    }
}
