//! What sort of thing somebody said: a question, a greeting, a wish that something be remembered.

use cairn_types::text::words::content_words;

/// Words that begin a question or a request for an answer.
const ASKING: &[&str] = &[
    "what",
    "whats",
    "what's",
    "who",
    "who's",
    "whom",
    "whose",
    "when",
    "where",
    "where's",
    "which",
    "why",
    "how",
    "how's",
    "is",
    "are",
    "was",
    "were",
    "do",
    "does",
    "did",
    "can",
    "could",
    "would",
    "will",
    "should",
    "has",
    "have",
    "tell",
    "show",
    "find",
    "search",
    "list",
    "explain",
    "describe",
    "summarise",
    "summarize",
    "quote",
];

const GREETINGS: &[&str] = &[
    "hi",
    "hello",
    "hey",
    "hiya",
    "yo",
    "good morning",
    "good evening",
    "good afternoon",
    "hallo",
    "hola",
    "salut",
    "bonjour",
    "ciao",
];

/// How people ask that something be kept; what follows is the thing.
const REMEMBER: &[&str] = &[
    "remember that ",
    "remember this: ",
    "remember: ",
    "remember, ",
    "please note that ",
    "note that ",
    "don't forget that ",
    "do not forget that ",
    "keep in mind that ",
    "make a note that ",
];

/// How a message begins that asks to remember something, where what follows is no question and nobody's tale.
const REMEMBER_FIRST: &[&str] = &[
    "remember ",
    "please remember ",
    "don't forget ",
    "please don't forget ",
    "do not forget ",
    "keep in mind ",
];

/// Words behind those with which nothing is stated.
const NO_THING: &[&str] =
    &["how", "when", "what", "why", "who", "where", "me", "you", "the time", "it", "this"];

/// Whether an answer is expected rather than an acknowledgement.
pub(super) fn is_question(text: &str) -> bool {
    let text = text.trim();
    if text.contains(['?', '？', '؟']) {
        return true;
    }
    let first = text.split(|c: char| c.is_whitespace() || c == ',').next().unwrap_or_default();
    ASKING.contains(&first.to_lowercase().replace('’', "'").as_str())
}

/// Whether it is nothing but a greeting.
pub(super) fn is_greeting(text: &str) -> bool {
    let text = text.trim().trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let begins = |greeting: &str| {
        text.strip_prefix(greeting).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']))
    };
    GREETINGS.iter().any(|greeting| begins(greeting)) && content_words(&text).len() <= 3
}

/// What somebody explicitly wants remembered, in their words.
pub(super) fn to_remember(text: &str) -> Option<String> {
    let text = text.trim().replace('’', "'");
    let lower = text.to_ascii_lowercase();
    let inside = || {
        REMEMBER.iter().find_map(|words| {
            let at = lower.find(words)?;
            // "Please", a name, "could you": what goes before is short, or the words are part of a tale.
            let before: Vec<&str> = lower[..at].split_whitespace().collect();
            let is_tale = before.len() > 3 || before.iter().any(|word| ["i", "we", "they"].contains(word));
            (!is_tale).then_some(at + words.len())
        })
    };
    let first = || {
        let words = REMEMBER_FIRST.iter().find(|words| lower.starts_with(**words))?;
        let thing = &lower[words.len()..];
        let is_none = |word: &&str| {
            thing.strip_prefix(*word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        (!NO_THING.iter().any(is_none)).then_some(words.len())
    };
    let rest = text[inside().or_else(first)?..].trim();
    (!rest.is_empty() && !rest.ends_with('?')).then(|| rest.to_owned())
}
