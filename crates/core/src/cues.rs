//! The words by which rules tell what a sentence does: all lists of the digest, of memories by rule and of the offline model.
//!
//! They cover languages that Snowball stems, as far as a few words do. None of them decides alone: with them go numbers, names,
//! places in a sentence and what else was said.

use std::collections::HashMap;
use std::sync::LazyLock;

use cairn_types::memory::MemoryKind::{self, Decision, Event, Fact, Goal, Identity, Preference, Todo};

/// How people begin a statement about themselves or about what was decided.
#[derive(Debug, Clone, Copy)]
pub struct Lead {
    /// The words, lowercased, with a space between them.
    pub words: &'static str,
    pub kind: MemoryKind,
    pub importance: f64,
    /// The same told by somebody else, `{}` being the speaker. With a full stop at its end it needs nothing behind it.
    pub told: &'static str,
}

const fn lead(words: &'static str, kind: MemoryKind, importance: f64, told: &'static str) -> Lead {
    Lead { words, kind, importance, told }
}

/// The first that fits counts: longer ones stand before shorter ones.
pub const LEADS: &[Lead] = &[
    lead("my name is", Identity, 0.9, "{}'s name is"),
    lead("call me", Identity, 0.8, "{} wants to be called"),
    lead("i'm from", Identity, 0.7, "{} is from"),
    lead("i am from", Identity, 0.7, "{} is from"),
    lead("i come from", Identity, 0.7, "{} comes from"),
    lead("i live", Identity, 0.7, "{} lives"),
    lead("i work", Identity, 0.7, "{} works"),
    lead("i'm a", Identity, 0.6, "{} is a"),
    lead("i'm an", Identity, 0.6, "{} is an"),
    lead("i am a", Identity, 0.6, "{} is a"),
    lead("i am an", Identity, 0.6, "{} is an"),
    lead("i'm allergic", Fact, 0.9, "{} is allergic"),
    lead("i am allergic", Fact, 0.9, "{} is allergic"),
    lead("i'm vegan", Fact, 0.8, "{} is vegan."),
    lead("i am vegan", Fact, 0.8, "{} is vegan."),
    lead("i'm vegetarian", Fact, 0.8, "{} is vegetarian."),
    lead("i am vegetarian", Fact, 0.8, "{} is vegetarian."),
    lead("my birthday is", Event, 0.8, "{}'s birthday is"),
    lead("my goal is", Goal, 0.7, "{}'s goal is"),
    lead("i want to", Goal, 0.6, "{} wants to"),
    lead("i plan to", Goal, 0.6, "{} plans to"),
    lead("i have to", Todo, 0.6, "{} has to"),
    lead("i need to", Todo, 0.6, "{} needs to"),
    lead("my favourite", Preference, 0.7, "{}'s favourite"),
    lead("my favorite", Preference, 0.7, "{}'s favorite"),
    lead("i prefer", Preference, 0.7, "{} prefers"),
    lead("i like", Preference, 0.6, "{} likes"),
    lead("i love", Preference, 0.6, "{} loves"),
    lead("i hate", Preference, 0.6, "{} hates"),
    lead("i don't like", Preference, 0.7, "{} does not like"),
    lead("i don't eat", Preference, 0.7, "{} does not eat"),
    lead("i can't eat", Fact, 0.9, "{} cannot eat"),
    lead("i cannot eat", Fact, 0.9, "{} cannot eat"),
    lead("i promised", Todo, 0.8, "{} promised"),
    lead("i promise", Todo, 0.8, "{} promises"),
    lead("i'll", Todo, 0.6, "{} will"),
    lead("i will", Todo, 0.6, "{} will"),
    lead("my", Fact, 0.6, "{}'s"),
    lead("we decided", Decision, 0.8, "Decided:"),
    lead("we have decided", Decision, 0.8, "Decided:"),
    lead("we've decided", Decision, 0.8, "Decided:"),
    lead("we agreed", Decision, 0.8, "Agreed:"),
    lead("let's go with", Decision, 0.7, "Decided: to go with"),
    lead("let's use", Decision, 0.7, "Decided: to use"),
    // German
    lead("mein name ist", Identity, 0.9, "{} heißt"),
    lead("ich heiße", Identity, 0.9, "{} heißt"),
    lead("ich wohne", Identity, 0.7, "{} wohnt"),
    lead("ich arbeite", Identity, 0.7, "{} arbeitet"),
    lead("ich bin allergisch", Fact, 0.9, "{} ist allergisch"),
    lead("ich mag", Preference, 0.6, "{} mag"),
    lead("ich habe versprochen", Todo, 0.8, "{} hat versprochen"),
    lead("ich verspreche", Todo, 0.8, "{} verspricht"),
    lead("wir haben beschlossen", Decision, 0.8, "Beschlossen:"),
    lead("wir haben entschieden", Decision, 0.8, "Entschieden:"),
    // French
    lead("je m'appelle", Identity, 0.9, "{} s'appelle"),
    lead("j'habite", Identity, 0.7, "{} habite"),
    lead("je travaille", Identity, 0.7, "{} travaille"),
    lead("je suis allergique", Fact, 0.9, "{} est allergique"),
    lead("j'aime", Preference, 0.6, "{} aime"),
    lead("je préfère", Preference, 0.7, "{} préfère"),
    lead("j'ai promis", Todo, 0.8, "{} a promis"),
    lead("je promets", Todo, 0.8, "{} promet"),
    lead("nous avons décidé", Decision, 0.8, "Décidé :"),
    lead("on a décidé", Decision, 0.8, "Décidé :"),
    // Spanish
    lead("me llamo", Identity, 0.9, "{} se llama"),
    lead("vivo en", Identity, 0.7, "{} vive en"),
    lead("trabajo en", Identity, 0.7, "{} trabaja en"),
    lead("me gusta", Preference, 0.6, "A {} le gusta"),
    lead("prefiero", Preference, 0.7, "{} prefiere"),
    lead("he prometido", Todo, 0.8, "{} ha prometido"),
    lead("prometo", Todo, 0.8, "{} promete"),
    lead("hemos decidido", Decision, 0.8, "Decidido:"),
    // Portuguese; the first is Spanish, too
    lead("decidimos", Decision, 0.8, "Decidido:"),
    lead("chamo-me", Identity, 0.9, "{} chama-se"),
    lead("moro em", Identity, 0.7, "{} mora em"),
    lead("gosto de", Preference, 0.6, "{} gosta de"),
    lead("prometi", Todo, 0.8, "{} prometeu"),
    // Italian
    lead("mi chiamo", Identity, 0.9, "{} si chiama"),
    lead("abito a", Identity, 0.7, "{} abita a"),
    lead("lavoro in", Identity, 0.7, "{} lavora in"),
    lead("mi piace", Preference, 0.6, "A {} piace"),
    lead("ho promesso", Todo, 0.8, "{} ha promesso"),
    lead("abbiamo deciso", Decision, 0.8, "Deciso:"),
    // Dutch
    lead("ik heet", Identity, 0.9, "{} heet"),
    lead("ik woon", Identity, 0.7, "{} woont"),
    lead("ik werk", Identity, 0.7, "{} werkt"),
    lead("ik heb beloofd", Todo, 0.8, "{} heeft beloofd"),
    lead("we hebben besloten", Decision, 0.8, "Besloten:"),
    // Swedish, Danish, Norwegian
    lead("jag heter", Identity, 0.9, "{} heter"),
    lead("jag bor", Identity, 0.7, "{} bor"),
    lead("jag lovade", Todo, 0.8, "{} lovade"),
    lead("vi har bestämt", Decision, 0.8, "Bestämt:"),
    lead("jeg hedder", Identity, 0.9, "{} hedder"),
    lead("jeg heter", Identity, 0.9, "{} heter"),
    lead("jeg bor", Identity, 0.7, "{} bor"),
    lead("jeg lovede", Todo, 0.8, "{} lovede"),
    lead("jeg lovet", Todo, 0.8, "{} lovet"),
    lead("vi har besluttet", Decision, 0.8, "Besluttet:"),
    lead("vi har bestemt", Decision, 0.8, "Bestemt:"),
    // Russian
    lead("меня зовут", Identity, 0.9, "{} зовут"),
    lead("я живу", Identity, 0.7, "{} живёт"),
    lead("я работаю", Identity, 0.7, "{} работает"),
    lead("я обещаю", Todo, 0.8, "{} обещает"),
    lead("мы решили", Decision, 0.8, "Решено:"),
    // Finnish, Romanian, Greek
    lead("asun", Identity, 0.7, "{} asuu"),
    lead("lupaan", Todo, 0.8, "{} lupaa"),
    lead("päätimme", Decision, 0.8, "Päätetty:"),
    lead("locuiesc", Identity, 0.7, "{} locuiește"),
    lead("am promis", Todo, 0.8, "{} a promis"),
    lead("am hotărât", Decision, 0.8, "Hotărât:"),
    lead("μένω", Identity, 0.7, "{} μένει"),
    lead("υπόσχομαι", Todo, 0.8, "{} υπόσχεται"),
    lead("αποφασίσαμε", Decision, 0.8, "Αποφασίστηκε:"),
];

/// "My … is …": the words for my, those for is, and how somebody else tells it (`{}` the speaker, `{x}` the thing). In English
/// [`LEADS`] has it, since nothing but the first word changes.
pub const POSSESSIVES: &[(&[&str], &[&str], &str)] = &[
    (&["mein", "meine"], &["ist", "sind", "lautet"], "{x} von {}"),
    (&["mon", "ma", "mes"], &["est", "sont"], "{x} de {}"),
    (&["mi", "mis"], &["es", "son", "está"], "{x} de {}"),
    (&["il mio", "la mia", "i miei", "le mie"], &["è", "sono"], "{x} di {}"),
    (&["o meu", "a minha", "meu", "minha"], &["é", "são"], "{x} de {}"),
    (&["mijn"], &["is", "zijn"], "{x} van {}"),
    (&["min", "mitt", "mit", "mina", "mine"], &["är", "er"], "{}s {x}"),
];

/// What stands before a colon where something is put right.
#[rustfmt::skip]
pub const CORRECTIONS: &[&str] = &[
    "correction", "update", "korrektur", "berichtigung", "rectificatif", "corrección", "correzione", "correção",
    "correctie", "rättelse", "rettelse", "исправление", "поправка", "korjaus", "javítás", "corectură", "διόρθωση",
    "düzeltme", "تصحيح",
];

/// What stands before a colon where something was decided.
#[rustfmt::skip]
pub const DECISIONS: &[&str] = &[
    "decided", "decision", "agreed", "beschlossen", "entschieden", "décidé", "décision", "decidido", "decisión",
    "deciso", "decisione", "decisão", "besloten", "bestämt", "besluttet", "bestemt", "решено", "päätetty", "hotărât",
    "karar", "قرار",
];

/// "X is *now* Y".
#[rustfmt::skip]
pub const NOW: &[&str] = &[
    "now", "jetzt", "nun", "maintenant", "désormais", "ahora", "adesso", "ora", "agora", "nu", "nå", "теперь", "nyt",
    "mostantól", "acum", "τώρα", "artık", "الآن",
];

/// First words of a sentence in which nothing is stated: questions, conditions, guesses.
#[rustfmt::skip]
pub const UNSTATED: &[&str] = &[
    "if", "unless", "when", "what", "where", "which", "who", "why", "how", "do", "does", "did", "is", "are", "can",
    "could", "should", "would", "imagine", "suppose", "pretend", "maybe", "perhaps", "wenn", "falls", "vielleicht", "ob",
    "si", "peut-être", "quizás", "quizá", "se", "forse", "talvez", "als", "misschien", "om", "kanske", "hvis", "måske",
    "kanskje", "если", "jos", "ehkä", "dacă", "αν", "eğer", "لو",
];

/// Words that may stand before a statement and change nothing.
#[rustfmt::skip]
pub const OPENERS: &[&str] = &[
    "and", "but", "so", "oh", "ok", "okay", "hi", "hey", "hello", "yes", "yeah", "well", "also", "btw", "fyi", "please",
    "actually", "by the way", "as you know", "und", "aber", "also", "übrigens", "hallo", "bonjour", "salut", "et",
    "mais", "hola", "y", "pero", "ciao", "e", "olá", "en", "och", "og", "привет",
];

/// Objects that say nothing outside their conversation, and what is no more than a mood.
#[rustfmt::skip]
pub const VAGUE: &[&str] = &[
    "it", "that", "this", "these", "those", "them", "him", "her", "you", "your", "how", "when", "what", "go", "bit",
    "little", "lot", "admit", "say", "bad", "point", "guess", "question", "opinion", "feeling", "mistake", "fault",
    "turn", "goodness", "god", "friend",
];

/// How a message begins that asks to remember something. With `that` or a colon behind them they may stand after a few words.
#[rustfmt::skip]
pub const REMEMBER: &[&str] = &[
    "remember", "don't forget", "do not forget", "keep in mind", "note", "make a note", "merk dir", "retiens",
    "recuerda", "ricorda", "lembra-te", "onthoud", "kom ihåg", "husk", "запомни",
];

/// Words of a language behind [`REMEMBER`] that only join what follows.
#[rustfmt::skip]
pub const THAT: &[&str] = &[
    "that", "this", "dass", "que", "che", "dat", "att", "at", "что",
];

/// Words behind [`REMEMBER`] with which nothing is told.
#[rustfmt::skip]
pub const NO_THING: &[&str] = &[
    "how", "when", "what", "why", "who", "where", "me", "you", "the time", "it", "this", "us",
];

/// How people ask to be reminded.
#[rustfmt::skip]
pub const REMIND: &[&str] = &[
    "remind me", "remind us", "set a reminder", "set an alarm", "wake me", "erinnere mich", "erinner mich",
    "rappelle-moi", "rappelez-moi", "recuérdame", "ricordami", "lembra-me", "lembre-me", "herinner me", "påminn mig",
    "mind mig", "minn meg", "напомни",
];

/// Words of politeness, which change nothing in a question to the model itself.
#[rustfmt::skip]
pub const FILLERS: &[&str] = &[
    "please", "now", "right", "hey", "hi", "hello", "cairn", "bot", "then", "so", "ok", "okay", "just", "today",
    "actually", "there", "exactly", "me", "tell", "can", "could", "you", "do", "know", "bitte", "jetzt", "svp", "por",
    "favor",
];

#[rustfmt::skip]
pub const GREETINGS: &[&str] = &[
    "hi", "hello", "hey", "hiya", "yo", "good morning", "good evening", "good afternoon", "hallo", "guten morgen",
    "guten tag", "guten abend", "moin", "servus", "salut", "bonjour", "bonsoir", "hola", "buenos días", "buenas", "ciao",
    "buongiorno", "olá", "bom dia", "hoi", "hej", "hei", "привет", "moi", "salut", "γεια", "merhaba",
];

#[rustfmt::skip]
pub const THANKS: &[&str] = &[
    "thanks", "thank you", "thx", "cheers", "danke", "merci", "gracias", "grazie", "obrigado", "obrigada", "bedankt",
    "tack", "tak", "takk", "спасибо", "kiitos",
];

#[rustfmt::skip]
pub const FAREWELLS: &[&str] = &[
    "bye", "goodbye", "good night", "see you", "tschüss", "gute nacht", "au revoir", "adiós", "arrivederci", "tchau",
    "doei", "hej då", "пока",
];

#[rustfmt::skip]
pub const HOW_ARE_YOU: &[&str] = &[
    "how are you", "how are you doing", "how's it going", "wie geht's", "wie geht es dir", "ça va", "cómo estás",
    "come stai",
];

#[rustfmt::skip]
pub const WHO_ARE_YOU: &[&str] = &[
    "who are you", "what are you", "what's your name", "what is your name", "are you a bot", "are you human",
    "wer bist du", "was bist du", "qui es-tu", "qui êtes-vous", "quién eres", "chi sei", "quem és", "quem é você",
    "wie ben je", "vem är du", "hvem er du", "кто ты",
];

#[rustfmt::skip]
pub const WHAT_CAN_YOU_DO: &[&str] = &[
    "what can you do", "what do you do", "how can you help", "how can you help me", "help", "what are you able to do",
    "how do you work", "was kannst du", "hilfe", "que sais-tu faire", "que peux-tu faire", "aide", "qué puedes hacer",
    "ayuda", "cosa sai fare", "o que sabes fazer", "wat kun je", "vad kan du", "hvad kan du", "что ты умеешь",
];

#[rustfmt::skip]
pub const WHAT_TIME: &[&str] = &[
    "what time is it", "what's the time", "what is the time", "the time", "time", "what day is it", "what day is today",
    "what day is", "what's the date", "what is the date", "what's the date today", "date", "which day is it",
    "what year is it", "wie spät ist es", "wie viel uhr ist es", "welcher tag ist heute", "quelle heure est-il",
    "il est quelle heure", "qué hora es", "che ore sono", "che ora è", "que horas são", "hoe laat is het",
    "vad är klockan", "hvad er klokken", "hva er klokka", "который час", "сколько времени",
];

#[rustfmt::skip]
pub const SUMMARISE: &[&str] = &[
    "summarise", "summarize", "sum up", "recap", "tl;dr", "tldr", "give me a summary", "fass zusammen", "fasse zusammen",
    "zusammenfassung", "résume", "résumé", "resume", "resumen", "riassumi", "samenvatting", "vat samen", "sammanfatta",
    "кратко",
];

/// What may stand behind [`SUMMARISE`] where all that was said is meant.
#[rustfmt::skip]
pub const ALL_OF_IT: &[&str] = &[
    "this", "that", "it", "the", "our", "all", "of", "everything", "conversation", "chat", "discussion", "talk",
    "channel", "thread", "so", "far", "until", "up", "to", "what", "was", "has", "been", "said", "we", "discussed",
    "here", "for", "das", "alles", "ceci", "tout", "esto", "todo", "questo", "tutto", "dit",
];

/// How people ask for a sum.
#[rustfmt::skip]
pub const CALCULATE: &[&str] = &[
    "calculate", "compute", "work out", "how much is", "what is", "what's", "whats", "was ist", "wie viel ist",
    "wieviel ist", "rechne", "combien font", "combien fait", "cuánto es", "quanto fa", "quanto é", "hoeveel is",
    "vad är", "hvad er", "hva er",
];

/// Words of a sum, and what they are in figures.
#[rustfmt::skip]
pub const OPERATORS: &[(&str, &str)] = &[
    ("plus", "+"), ("minus", "-"), ("times", "*"), ("x", "*"), ("multiplied by", "*"), ("divided by", "/"),
    ("to the power of", "^"), ("percent of", "% *"), ("% of", "% *"), ("percent", "%"), ("mal", "*"),
    ("geteilt durch", "/"), ("prozent von", "% *"), ("% von", "% *"), ("fois", "*"), ("divisé par", "/"),
    ("% de", "% *"), ("por", "*"), ("más", "+"), ("menos", "-"), ("per", "*"), ("più", "+"), ("meno", "-"),
    ("% di", "% *"),
];

/// First words of a question or of a request for an answer.
#[rustfmt::skip]
pub const ASKING: &[&str] = &[
    "what", "whats", "what's", "who", "who's", "whom", "whose", "when", "where", "where's", "which", "why", "how",
    "how's", "is", "are", "was", "were", "do", "does", "did", "can", "could", "would", "will", "should", "has", "have",
    "tell", "show", "find", "search", "list", "explain", "describe", "quote", "wer", "wie", "wo", "wann", "warum",
    "wieso", "welche", "qui", "quand", "où", "pourquoi", "comment", "quel", "quelle", "quién", "cuándo", "dónde", "qué",
    "cómo", "chi", "quando", "dove", "perché", "wanneer", "waar", "waarom", "när", "varför", "hvem", "hvor", "hvornår",
    "кто", "где", "когда", "почему",
];

/// Words of [`ASKING`] that ask for a thing, a person, a place, a time or a reason.
#[rustfmt::skip]
pub const INTERROGATIVE: &[&str] = &[
    "what", "who", "whom", "whose", "when", "where", "which", "why", "how", "of", "about", "wer", "wie", "wo", "wann",
    "was",
];

/// Words that join two statements.
#[rustfmt::skip]
pub const JOINING: &[&str] = &[
    "and", "but", "und", "aber", "et", "mais", "y", "pero", "e", "ma", "mas", "en", "och", "og", "и",
];

/// What the speaker says of themselves and others among whom they are, in English, and how somebody else says it. `{}`: the name.
#[rustfmt::skip]
pub const FIRST_PERSON: &[(&str, &str)] = &[
    ("i", "{}"), ("me", "{}"), ("my", "{}'s"), ("mine", "{}'s"), ("myself", "themselves"), ("i'm", "{} is"),
    ("i've", "{} has"), ("i'll", "{} will"), ("i'd", "{} would"), ("we", "they"), ("us", "them"), ("our", "their"),
    ("ours", "theirs"), ("we're", "they are"), ("we'll", "they will"), ("we've", "they have"),
];

/// A word of a list that may be of several words: how many of these words it takes at their beginning.
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

/// The lead with which these words begin, and how many of them it takes.
pub fn lead_of(words: &[&str]) -> Option<(&'static Lead, usize)> {
    static BY_FIRST: LazyLock<HashMap<&str, Vec<&Lead>>> = LazyLock::new(|| {
        let mut by_first: HashMap<&str, Vec<&Lead>> = HashMap::new();
        for lead in LEADS {
            by_first.entry(lead.words.split(' ').next().unwrap_or_default()).or_default().push(lead);
        }
        by_first
    });
    BY_FIRST.get(words.first()?)?.iter().find_map(|lead| Some((*lead, begins(words, lead.words)?)))
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
            told.binding |= lead_of(words).is_some_and(|(lead, _)| lead.importance >= BINDING);
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
pub const NOW_MAX_WORDS: usize = 14;

/// The one word before a colon at the beginning of a text that is already [`spelled`].
pub fn label(lower: &str) -> Option<&str> {
    let (label, _) = lower.trim_start().split_once(':')?;
    let label = label.trim();
    (!label.contains(char::is_whitespace)).then_some(label)
}
