//! The words by which rules tell what a sentence does, for the digest and for memories without a model.
//!
//! They cover languages that Snowball stems, as far as a few words do. None of them decides alone: with them go numbers, names,
//! places in a sentence and what else was said.

use std::collections::HashMap;
use std::sync::LazyLock;

use cairn_types::memory::MemoryKind::{self, Decision, Event, Fact, Goal, Identity, Preference, Todo};

/// How people begin a statement about themselves, or about what was decided: the words, lowercased, with a space between them; what
/// it is; how important, from 0 to 1.
pub type Lead = (&'static str, MemoryKind, f64);

/// The first that fits counts: longer ones stand before shorter ones.
pub const LEADS: &[Lead] = &[
    ("my name is", Identity, 0.9),
    ("call me", Identity, 0.8),
    ("i'm from", Identity, 0.7),
    ("i am from", Identity, 0.7),
    ("i come from", Identity, 0.7),
    ("i live", Identity, 0.7),
    ("i work", Identity, 0.7),
    ("i'm a", Identity, 0.6),
    ("i'm an", Identity, 0.6),
    ("i am a", Identity, 0.6),
    ("i am an", Identity, 0.6),
    ("i'm allergic", Fact, 0.9),
    ("i am allergic", Fact, 0.9),
    ("i'm vegan", Fact, 0.8),
    ("i am vegan", Fact, 0.8),
    ("i'm vegetarian", Fact, 0.8),
    ("i am vegetarian", Fact, 0.8),
    ("my birthday is", Event, 0.8),
    ("my goal is", Goal, 0.7),
    ("i want to", Goal, 0.6),
    ("i plan to", Goal, 0.6),
    ("i have to", Todo, 0.6),
    ("i need to", Todo, 0.6),
    ("my favourite", Preference, 0.7),
    ("my favorite", Preference, 0.7),
    ("i prefer", Preference, 0.7),
    ("i like", Preference, 0.6),
    ("i love", Preference, 0.6),
    ("i hate", Preference, 0.6),
    ("i don't like", Preference, 0.7),
    ("i don't eat", Preference, 0.7),
    ("i can't eat", Fact, 0.9),
    ("i cannot eat", Fact, 0.9),
    ("i promised", Todo, 0.8),
    ("i promise", Todo, 0.8),
    ("my", Fact, 0.6),
    ("we decided", Decision, 0.8),
    ("we have decided", Decision, 0.8),
    ("we've decided", Decision, 0.8),
    ("we agreed", Decision, 0.8),
    ("let's go with", Decision, 0.7),
    ("let's use", Decision, 0.7),
    // German
    ("mein name ist", Identity, 0.9),
    ("ich heiße", Identity, 0.9),
    ("ich wohne", Identity, 0.7),
    ("ich arbeite", Identity, 0.7),
    ("ich bin allergisch", Fact, 0.9),
    ("ich mag", Preference, 0.6),
    ("ich habe versprochen", Todo, 0.8),
    ("ich verspreche", Todo, 0.8),
    ("wir haben beschlossen", Decision, 0.8),
    ("wir haben entschieden", Decision, 0.8),
    // French
    ("je m'appelle", Identity, 0.9),
    ("j'habite", Identity, 0.7),
    ("je travaille", Identity, 0.7),
    ("je suis allergique", Fact, 0.9),
    ("j'aime", Preference, 0.6),
    ("je préfère", Preference, 0.7),
    ("j'ai promis", Todo, 0.8),
    ("je promets", Todo, 0.8),
    ("nous avons décidé", Decision, 0.8),
    ("on a décidé", Decision, 0.8),
    // Spanish
    ("me llamo", Identity, 0.9),
    ("vivo en", Identity, 0.7),
    ("trabajo en", Identity, 0.7),
    ("me gusta", Preference, 0.6),
    ("prefiero", Preference, 0.7),
    ("he prometido", Todo, 0.8),
    ("prometo", Todo, 0.8),
    ("hemos decidido", Decision, 0.8),
    // Portuguese, the first Spanish, too
    ("decidimos", Decision, 0.8),
    ("chamo-me", Identity, 0.9),
    ("moro em", Identity, 0.7),
    ("gosto de", Preference, 0.6),
    ("prometi", Todo, 0.8),
    // Italian
    ("mi chiamo", Identity, 0.9),
    ("abito a", Identity, 0.7),
    ("lavoro in", Identity, 0.7),
    ("mi piace", Preference, 0.6),
    ("ho promesso", Todo, 0.8),
    ("abbiamo deciso", Decision, 0.8),
    // Dutch
    ("ik heet", Identity, 0.9),
    ("ik woon", Identity, 0.7),
    ("ik werk", Identity, 0.7),
    ("ik heb beloofd", Todo, 0.8),
    ("we hebben besloten", Decision, 0.8),
    // Swedish, Danish, Norwegian
    ("jag heter", Identity, 0.9),
    ("jag bor", Identity, 0.7),
    ("jag lovade", Todo, 0.8),
    ("vi har bestämt", Decision, 0.8),
    ("jeg hedder", Identity, 0.9),
    ("jeg heter", Identity, 0.9),
    ("jeg bor", Identity, 0.7),
    ("jeg lovede", Todo, 0.8),
    ("jeg lovet", Todo, 0.8),
    ("vi har besluttet", Decision, 0.8),
    ("vi har bestemt", Decision, 0.8),
    // Russian
    ("меня зовут", Identity, 0.9),
    ("я живу", Identity, 0.7),
    ("я работаю", Identity, 0.7),
    ("я обещаю", Todo, 0.8),
    ("мы решили", Decision, 0.8),
    // Finnish, Romanian, Greek
    ("asun", Identity, 0.7),
    ("lupaan", Todo, 0.8),
    ("päätimme", Decision, 0.8),
    ("locuiesc", Identity, 0.7),
    ("am promis", Todo, 0.8),
    ("am hotărât", Decision, 0.8),
    ("μένω", Identity, 0.7),
    ("υπόσχομαι", Todo, 0.8),
    ("αποφασίσαμε", Decision, 0.8),
];

/// What stands before a colon where something is put right.
pub(crate) const CORRECTIONS: &[&str] = &[
    "correction",
    "update",
    "korrektur",
    "berichtigung",
    "rectificatif",
    "corrección",
    "correzione",
    "correção",
    "correctie",
    "rättelse",
    "rettelse",
    "исправление",
    "поправка",
    "korjaus",
    "javítás",
    "corectură",
    "διόρθωση",
    "düzeltme",
    "تصحيح",
];

/// What stands before a colon where something was decided.
const DECISIONS: &[&str] = &[
    "decided",
    "decision",
    "agreed",
    "beschlossen",
    "entschieden",
    "décidé",
    "décision",
    "decidido",
    "decisión",
    "deciso",
    "decisione",
    "decisão",
    "besloten",
    "bestämt",
    "besluttet",
    "bestemt",
    "решено",
    "päätetty",
    "hotărât",
    "karar",
    "قرار",
];

/// "X is *now* Y".
pub(crate) const NOW: &[&str] = &[
    "now",
    "jetzt",
    "nun",
    "maintenant",
    "désormais",
    "ahora",
    "adesso",
    "ora",
    "agora",
    "nu",
    "nå",
    "теперь",
    "nyt",
    "mostantól",
    "acum",
    "τώρα",
    "artık",
    "الآن",
];

/// Words that may stand before a statement and change nothing.
pub const OPENERS: &[&str] = &[
    "and",
    "but",
    "so",
    "oh",
    "ok",
    "okay",
    "hi",
    "hey",
    "hello",
    "yes",
    "yeah",
    "well",
    "also",
    "btw",
    "fyi",
    "please",
    "actually",
    "now",
    "und",
    "aber",
    "übrigens",
    "hallo",
    "bonjour",
    "salut",
    "et",
    "mais",
    "hola",
    "y",
    "pero",
    "ciao",
    "e",
    "olá",
    "en",
    "och",
    "og",
    "привет",
];

/// How many words a phrase takes at the beginning of these; `None`: they begin otherwise.
pub fn begins(words: &[&str], phrase: &str) -> Option<usize> {
    let mut n_words = 0;
    for part in phrase.split(' ') {
        if words.get(n_words) != Some(&part) {
            return None;
        }
        n_words += 1;
    }
    Some(n_words)
}

/// The lead with which these words begin.
fn lead_of(words: &[&str]) -> Option<&'static Lead> {
    static BY_FIRST: LazyLock<HashMap<&str, Vec<&Lead>>> = LazyLock::new(|| {
        let mut by_first: HashMap<&str, Vec<&Lead>> = HashMap::new();
        for lead in LEADS {
            by_first.entry(lead.0.split(' ').next().unwrap_or_default()).or_default().push(lead);
        }
        by_first
    });
    BY_FIRST.get(words.first()?)?.iter().copied().find(|lead| begins(words, lead.0).is_some())
}

/// The words of a text as the lists have them: lowercased, with straight apostrophes, without marks around them.
pub fn plain_words(lower: &str) -> Vec<&str> {
    let word = |word| str::trim_matches(word, |c: char| !c.is_alphanumeric());
    lower.split_whitespace().map(word).filter(|word| !word.is_empty()).collect()
}

/// A text in the spelling of the lists, for [`plain_words`].
pub fn spelled(text: &str) -> String {
    text.to_lowercase().replace('’', "'")
}

/// What a sentence does, as far as its words tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// It decides, promises or tells something of its speaker.
    pub binding: bool,
    /// It puts something right that was said before.
    pub corrects: bool,
}

impl Told {
    /// Reads one sentence.
    pub fn of(sentence: &str) -> Self {
        let lower = spelled(sentence);
        let mut told = Self::default();
        for clause in lower.split([',', ';', ':', '–', '—']) {
            let words = plain_words(clause);
            let from = words.iter().position(|word| !OPENERS.contains(word)).unwrap_or(words.len());
            let words = &words[from..];
            told.binding |= lead_of(words).is_some_and(|(_, _, importance)| *importance >= BINDING);
        }
        if let Some(label) = label(&lower) {
            told.corrects |= CORRECTIONS.contains(&label);
            told.binding |= DECISIONS.contains(&label);
        }
        let words = plain_words(&lower);
        // "Now" begins a tale, within a sentence it tells a change.
        told.corrects |= words.iter().skip(2).any(|word| NOW.contains(word)) && words.len() <= NOW_MAX_WORDS;
        told
    }
}

/// Least importance of a lead that binds.
const BINDING: f64 = 0.7;

/// Longest sentence, in words, in which "now" tells a change.
const NOW_MAX_WORDS: usize = 14;

/// The one word before a colon at the beginning of a text that is [`spelled`].
fn label(lower: &str) -> Option<&str> {
    let (label, _) = lower.trim_start().split_once(':')?;
    let label = label.trim();
    (!label.contains(char::is_whitespace)).then_some(label)
}
