//! What sort of thing somebody said: a question, a greeting, a wish that something be remembered.

use cairn_core::words::content_words;

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
    let rest = REMEMBER.iter().find_map(|words| {
        let at = lower.find(words)?;
        // "Please", a name, "could you": what goes before is short, or the words are part of a tale.
        (lower[..at].split_whitespace().count() <= 3).then(|| text[at + words.len()..].trim())
    })?;
    (!rest.is_empty() && !rest.ends_with('?')).then(|| rest.to_owned())
}
