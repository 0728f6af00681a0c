//! Who may have the model forget what, and what stays forgotten: the words of a forgotten memory, so that it does not come back
//! in other words.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use cairn_types::ids::MessageId;
use cairn_types::memory::{Memory, MemorySave, Scope, Source, Trust};
use cairn_types::message::{Entry, Role};
use cairn_types::text::words::{Term, topic_terms, topic_words};

use crate::trust::TrustSettings;

/// A number with so many digits tells a memory from others by itself, unless it may be a year.
const TELLING_DIGITS: usize = 4;

/// Years, which tell nothing by themselves.
const YEARS: std::ops::RangeInclusive<u64> = 1_900..=2_099;

/// The share of the ordinary words of a memory without names and numbers that make another one a paraphrase: 3 of 4.
const SHARE: (usize, usize) = (3, 4);

/// The person for whom the model may forget: the only author of what people said in the open turn. `None`: operators, who all
/// are.
///
/// # Errors
/// For the model: nobody asked, somebody else is in the turn, or the words are not the asker's own.
pub fn asker_of<'e>(
    turn: impl IntoIterator<Item = &'e Entry>,
    trust: &TrustSettings,
) -> Result<Option<String>, String> {
    let mut people = BTreeSet::new();
    for entry in turn.into_iter().filter(|entry| entry.role == Role::User) {
        let author = entry.author.as_ref().ok_or("nobody is known to have asked for it")?;
        if entry.message.as_ref().is_some_and(MessageId::is_reminder) || !entry.provenance.is_empty() {
            return Err(
                "a reminder, or what somebody forwarded or quoted, makes nothing forgotten".to_owned()
            );
        }
        people.insert(author.id.clone());
    }
    if !people.is_empty() && people.iter().all(|person| trust.operators.contains(person)) {
        return Ok(None);
    }
    let mut people = people.into_iter();
    match (people.next(), people.next()) {
        (Some(person), None) => Ok(Some(person)),
        (None, _) => Err("nobody asked for it".to_owned()),
        _ => Err("several people speak in this turn: ask the one who wants it to say so alone".to_owned()),
    }
}

/// Whether the model may forget a memory for somebody; `asker`: `None` for operators.
///
/// # Errors
/// Why not, for the model.
pub fn may_forget(memory: &Memory, asker: Option<&str>) -> Result<(), String> {
    let Some(asker) = asker else { return Ok(()) };
    if memory.trust() == Trust::Operator {
        return Err(format!("{} was written by an operator, who alone has it forgotten", memory.id));
    }
    let in_private = match &memory.scope {
        Scope::User { platform, user } => {
            asker.strip_prefix(platform.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(user)
        }
        Scope::Agent | Scope::Chat { .. } => false,
    };
    if in_private || (memory.is_of_speaker() && memory.speaker() == Some(asker)) {
        return Ok(());
    }
    Err(format!(
        "{} is not known to be what the person whom you answer said of themselves; they, or an operator, can use /forget {}",
        memory.id, memory.id
    ))
}

/// What is kept of a forgotten memory, to know it in other words: hashes of its words, not the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Who said it of themselves.
    by: Option<u64>,
    /// The words of whom or what it is about.
    about: Vec<u64>,
    /// Its other names and numbers.
    marks: Vec<u64>,
    /// One of the numbers is long enough to tell it from others by itself.
    telling: bool,
    /// Its other words.
    words: Vec<u64>,
    denies: bool,
}

/// The words of a text, hashed, as far as they are not those of whom it is about.
struct Hashed {
    marks: Vec<u64>,
    telling: bool,
    words: Vec<u64>,
    denies: bool,
}

impl Hashed {
    fn of(salt: &str, text: &str, about: &[u64]) -> Self {
        let mut hashed = Self { marks: Vec::new(), telling: false, words: Vec::new(), denies: false };
        for term in topic_terms(text) {
            let hash = hash(salt, &term.stem);
            if term.stem == "not" {
                hashed.denies = true;
            } else if about.contains(&hash) {
            } else if term.name || term.number {
                hashed.telling |= is_telling(&term);
                push_new(&mut hashed.marks, hash);
            } else {
                push_new(&mut hashed.words, hash);
            }
        }
        hashed
    }

    fn has(&self, hash: u64) -> bool {
        self.marks.contains(&hash) || self.words.contains(&hash)
    }
}

impl Tombstone {
    pub fn of(memory: &Memory) -> Self {
        let salt = salt(memory.agent.as_str(), &memory.scope);
        let about = about(&salt, &memory.source, memory.subject.as_deref());
        let Hashed { marks, telling, words, denies } = Hashed::of(&salt, &memory.text, &about);
        let by = memory.source.by.as_ref().map(|by| hash(&salt, &by.id));
        Self { by, about, marks, telling, words, denies }
    }

    /// Whether a save in the same scope says nearly the same about the same. By words alone: it does not know what words mean.
    pub fn covers(&self, save: &MemorySave) -> bool {
        let salt = salt(save.agent.as_str(), &save.scope);
        let new = Hashed::of(&salt, &save.text, &self.about);
        if !self.is_about_same(&salt, save) {
            return false;
        }
        let common = |hashes: &[u64]| hashes.iter().filter(|hash| new.has(**hash)).count();
        let (marks, words) = (common(&self.marks), common(&self.words));
        let known = |hash: &&u64| self.marks.contains(hash) || self.words.contains(hash);
        let more = new.words.iter().filter(|hash| !known(hash)).count();
        let adds_marks = new.marks.iter().any(|hash| !known(&hash));
        let has_marks = marks == self.marks.len();
        let half_of_words = words * 2 >= self.words.len();
        match self.marks.len() {
            0 if self.denies != new.denies || adds_marks => false,
            0 if self.words.len() < 2 => words > 0 && more <= 1,
            0 => words * SHARE.1 >= self.words.len() * SHARE.0,
            _ if has_marks && self.telling => true,
            1 => has_marks && half_of_words && !adds_marks && self.denies == new.denies,
            _ if has_marks => words > 0 || more <= 1,
            n => marks * 2 >= n && half_of_words && !adds_marks,
        }
    }

    /// Whether a save may be about the same person or thing.
    fn is_about_same(&self, salt: &str, save: &MemorySave) -> bool {
        if let (Some(old), Some(by)) = (self.by, &save.source.by) {
            return old == hash(salt, &by.id);
        }
        // In a private chat one person is spoken with.
        if self.about.is_empty() || save.subject.is_none() || matches!(save.scope, Scope::User { .. }) {
            return true;
        }
        let new = about(salt, &save.source, save.subject.as_deref());
        let within = |some: &[u64], all: &[u64]| some.iter().all(|hash| all.contains(hash));
        let text: Vec<u64> = topic_words(&save.text).iter().map(|stem| hash(salt, stem)).collect();
        (!new.is_empty() && within(&new, &self.about))
            || within(&self.about, &new)
            || within(&self.about, &text)
    }
}

/// Words of the name of who said it of themselves, else of the subject.
fn about(salt: &str, source: &Source, subject: Option<&str>) -> Vec<u64> {
    let name = source.by.as_ref().map(|by| by.name.as_str()).or(subject).unwrap_or_default();
    topic_words(name).iter().map(|stem| hash(salt, stem)).collect()
}

fn is_telling(term: &Term) -> bool {
    let digits = term.stem.bytes().filter(u8::is_ascii_digit).count();
    term.number
        && digits >= TELLING_DIGITS
        && !term.stem.parse::<u64>().is_ok_and(|number| YEARS.contains(&number))
}

fn push_new(hashes: &mut Vec<u64>, hash: u64) {
    if !hashes.contains(&hash) {
        hashes.push(hash);
    }
}

fn salt(agent: &str, scope: &Scope) -> String {
    format!("{agent}\0{scope}\0")
}

fn hash(salt: &str, word: &str) -> u64 {
    let digest = Sha256::new().chain_update(salt).chain_update(word).finalize();
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use cairn_types::memory::{MemoryKind, Replaces, TYPED, TYPED_BY_MEMBER};
    use cairn_types::message::{Author, Provenance};
    use rstest::rstest;

    use super::*;
    use crate::testing;

    fn memory(subject: &str, text: &str) -> Memory {
        let subject = Some(subject.to_owned()).filter(|subject| !subject.is_empty());
        Memory { subject, ..testing::memory("agent", text) }
    }

    fn save(subject: &str, text: &str) -> MemorySave {
        let Memory { agent, scope, subject, text, source, .. } = memory(subject, text);
        MemorySave {
            agent,
            scope,
            kind: MemoryKind::Fact,
            text,
            subject,
            importance: 0.5,
            source,
            sighting: "s".to_owned(),
            explicit: false,
            replaces: Replaces::default(),
        }
    }

    #[rstest]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Rita", "Rita's address is 12 Mill Lane.")]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Rita", "Rita lives in Mill Lane.")]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Rita", "12 Mill Lane is where Rita lives now.")]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "address", "The home of Rita is Mill Lane 12.")]
    #[case(
        "Rita",
        "Rita lives at 12 Mill Lane.",
        "",
        "On 2026-03-02 Rita said that she lives at 12 Mill Lane."
    )]
    #[case("Rita Berg", "Rita Berg lives at 12 Mill Lane.", "Rita", "Rita's home is at 12 Mill Lane.")]
    #[case("Vic", "Vic's locker code is 7719.", "Vic", "Vic opens his locker with 7719.")]
    #[case("Mira", "Mira's phone number is 0170 5550101.", "Mira", "Call Mira at 0170 5550101.")]
    #[case(
        "Rita",
        "Rita is allergic to peanuts.",
        "Rita",
        "Rita is very allergic to peanuts, also in sauces."
    )]
    #[case(
        "Omar",
        "Omar's daughter was born on 2019-05-12.",
        "Omar",
        "Omar has a daughter, born on 2019-05-12."
    )]
    #[case("Rita", "Rita has a cat called Miso.", "Rita", "Rita's cat is called Miso.")]
    #[case("Jana", "Jana wohnt in Leipzig.", "Jana", "Jana wohnt jetzt in Leipzig.")]
    #[case("stand-up", "The stand-up is at 9:30.", "stand-up", "The stand-up begins at 9:30.")]
    fn paraphrases_stay_forgotten(
        #[case] subject: &str,
        #[case] forgotten: &str,
        #[case] new_subject: &str,
        #[case] new: &str,
    ) {
        assert!(Tombstone::of(&memory(subject, forgotten)).covers(&save(new_subject, new)), "{new}");
    }

    #[rstest]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Rita", "Rita lives at 14 Mill Lane.")]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Rita", "Rita lives in Oslo.")]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Rita", "Rita likes the bakery in Mill Lane.")]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Tom", "Tom lives at 12 Mill Lane.")]
    #[case("Rita", "Rita lives at 12 Mill Lane.", "Rita", "Rita has 12 cousins.")]
    #[case("Vic", "Vic's locker code is 7719.", "Vic", "Vic's locker code is 8841.")]
    #[case("Vic", "Vic's locker code is 7719.", "Vic", "Vic's locker is blue.")]
    #[case("Rita", "Rita is allergic to peanuts.", "Rita", "Rita is allergic to cats.")]
    #[case("Rita", "Rita is allergic to peanuts.", "Rita", "Rita sells peanuts.")]
    #[case("Mira", "Mira is leaving the company.", "Mira", "Mira is not leaving the company.")]
    #[case("Omar", "Omar's daughter was born in 2019.", "Omar", "Omar bought his boat in 2019.")]
    #[case(
        "Anna Berg",
        "Anna Berg has a cat called Miso.",
        "Anna Kraus",
        "Anna Kraus has a cat called Miso."
    )]
    #[case("Rita", "Rita has a cat called Miso.", "Rita", "Rita moved to Oslo, where Miso has a garden.")]
    #[case("Rita", "Rita likes strong coffee.", "Rita", "Rita likes coffee with milk.")]
    #[case("stand-up", "The stand-up is at 9:30.", "stand-up", "The stand-up is at 10:00.")]
    fn different_facts_are_not_forgotten(
        #[case] subject: &str,
        #[case] forgotten: &str,
        #[case] new_subject: &str,
        #[case] new: &str,
    ) {
        assert!(!Tombstone::of(&memory(subject, forgotten)).covers(&save(new_subject, new)), "{new}");
    }

    #[test]
    fn two_of_one_name_are_told_apart_by_their_ids() {
        let by = |id: &str| Some(Author { id: id.to_owned(), name: "Max".to_owned() });
        let mut old = memory("Max", "Max lives at 12 Mill Lane.");
        old.source.by = by("telegram/7");
        let mut new = save("Max", "Max's address is 12 Mill Lane.");
        new.source.by = by("telegram/8");
        assert!(!Tombstone::of(&old).covers(&new));
        new.source.by = by("telegram/7");
        assert!(Tombstone::of(&old).covers(&new));
        let kept = serde_json::to_string(&Tombstone::of(&old)).unwrap();
        assert!(!kept.contains("mill"), "{kept}");
    }

    #[rstest]
    #[case::of_oneself("fake", Some("telegram/7"), "Ann", "agent", true)]
    #[case::of_somebody_else("fake", Some("telegram/8"), "Ann", "agent", false)]
    #[case::about_another("fake", Some("telegram/7"), "Ben", "agent", false)]
    #[case::of_unknown("fake", None, "Ann", "agent", false)]
    #[case::typed_by_oneself(TYPED_BY_MEMBER, Some("telegram/7"), "telegram/7", "chat:telegram/-1", true)]
    #[case::an_operators(TYPED, Some("telegram/7"), "telegram/7", "agent", false)]
    #[case::learnt_in_private("fake", None, "boat", "user:telegram/7", true)]
    #[case::learnt_in_anothers_private("fake", None, "boat", "user:telegram/8", false)]
    fn only_what_the_asker_said_of_themselves(
        #[case] model: &str,
        #[case] by: Option<&str>,
        #[case] subject: &str,
        #[case] scope: &str,
        #[case] may: bool,
    ) {
        let mut memory = Memory { scope: scope.parse().unwrap(), ..memory(subject, "Ann sails") };
        memory.source.model = model.to_owned();
        memory.source.by = by.map(|id| Author { id: id.to_owned(), name: "Ann".to_owned() });
        assert_eq!(may_forget(&memory, Some("telegram/7")).is_ok(), may);
        assert_eq!(may_forget(&memory, None), Ok(()), "operators may");
    }

    #[test]
    fn one_person_asks_alone_or_operators_do() {
        let said = |id: &str| {
            let mut entry = testing::entry(Role::User, "forget it");
            entry.author = Some(Author { id: id.to_owned(), name: id.to_owned() });
            entry
        };
        let mut trust = TrustSettings::default();
        let asker = |turn: &[Entry], trust: &TrustSettings| asker_of(turn, trust);
        assert_eq!(asker(&[said("local/a"), said("local/a")], &trust), Ok(Some("local/a".to_owned())));
        assert!(asker(&[said("local/a"), said("local/b")], &trust).is_err());
        assert!(asker(&[], &trust).is_err());
        let forwarded = Entry { provenance: Provenance::of_strangers(), ..said("local/a") };
        assert!(asker(&[forwarded], &trust).is_err());
        trust.operators.insert("local/a".to_owned());
        assert_eq!(asker(&[said("local/a")], &trust), Ok(None));
        assert!(asker(&[said("local/a"), said("local/b")], &trust).is_err(), "one is no operator");
    }
}
