//! What sort of thing somebody said: a question, a greeting, a wish that something be remembered.

use cairn_core::cues::{self, begins, plain_words, spelled};

/// Longest text, in words, that is read as something said to the model itself.
const SHORT: usize = 12;

/// Longest text, in bytes, of which the words are looked at at all: what begins otherwise is a statement or a question.
const LOOKED_AT: usize = 400;

/// Most words behind a greeting that is nothing else.
const GREETED: usize = 2;

/// What somebody wants of the model itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Greeting,
    Thanks,
    Farewell,
    HowAreYou,
    WhoAreYou,
    WhatCanYouDo,
    Time,
    Reminder,
    /// A summary of all that was said.
    Summary,
}

/// What a text wants of the model itself; `None` for all that is about something else.
pub(super) fn wish(text: &str) -> Option<Wish> {
    let start = &text[..text.floor_char_boundary(LOOKED_AT)];
    let lower = spelled(start);
    let words = plain_words(&lower);
    if is_reminder(&words) {
        return Some(Wish::Reminder);
    }
    if words.len() > SHORT || start.len() < text.len() {
        return None;
    }
    let (asks, listed) = (text.contains(['?', '？', '؟']), |list: &[&str]| is_just(&words, list));
    let of_model = [
        (cues::HOW_ARE_YOU, Wish::HowAreYou),
        (cues::WHO_ARE_YOU, Wish::WhoAreYou),
        (cues::WHAT_CAN_YOU_DO, Wish::WhatCanYouDo),
        (cues::WHAT_TIME, Wish::Time),
    ];
    of_model
        .into_iter()
        .find_map(|(list, wish)| listed(list).then_some(wish))
        .or_else(|| is_summary(&words).then_some(Wish::Summary))
        .or_else(|| (!asks && listed(cues::THANKS)).then_some(Wish::Thanks))
        .or_else(|| (!asks && listed(cues::FAREWELLS)).then_some(Wish::Farewell))
        .or_else(|| (!asks && is_greeting(&words)).then_some(Wish::Greeting))
}

/// One of the list, with nothing around it but words of politeness.
fn is_just(words: &[&str], list: &[&str]) -> bool {
    let is_polite = |word: &&str| cues::FILLERS.contains(word) || cues::GREETINGS.contains(word);
    (0..words.len()).take_while(|from| words[..*from].iter().all(is_polite)).any(|from| {
        let rest = &words[from..];
        list.iter().any(|phrase| begins(rest, phrase).is_some_and(|n| rest[n..].iter().all(is_polite)))
    })
}

fn is_greeting(words: &[&str]) -> bool {
    let n_words = cues::GREETINGS.iter().filter_map(|greeting| begins(words, greeting)).max();
    n_words.is_some_and(|n| words.len() <= n + GREETED && cues::lead_of(&words[n..]).is_none())
}

/// A wish to be reminded, not of what was said.
fn is_reminder(words: &[&str]) -> bool {
    let from = words.iter().take_while(|word| cues::FILLERS.contains(word) && **word != "me").count();
    let rest = &words[from..];
    let n_words = cues::REMIND.iter().find_map(|wish| begins(rest, wish));
    n_words.is_some_and(|n| rest.get(n).is_none_or(|word| !cues::INTERROGATIVE.contains(word)))
}

fn is_summary(words: &[&str]) -> bool {
    let from = words.iter().take_while(|word| cues::FILLERS.contains(word)).count();
    let rest = &words[from..];
    let n_words = cues::SUMMARISE.iter().find_map(|wish| begins(rest, wish));
    let means_all = |word: &&str| cues::ALL_OF_IT.contains(word) || cues::FILLERS.contains(word);
    n_words.is_some_and(|n| rest[n..].iter().all(means_all))
}

/// The text that somebody wants summarised, behind "summarise this:" or a line with those words.
pub(super) fn to_summarise(text: &str) -> Option<&str> {
    let start = &text[..text.floor_char_boundary(LOOKED_AT)];
    let at = start.find([':', '\n'])?;
    let (asked, rest) = (spelled(&start[..at]), text[at + 1..].trim());
    (is_summary(&plain_words(&asked)) && !rest.is_empty()).then_some(rest)
}

/// Whether an answer is expected rather than an acknowledgement.
pub(super) fn is_question(text: &str) -> bool {
    text.contains(['?', '？', '؟']) || begins_asking(text)
}

fn begins_asking(text: &str) -> bool {
    let start = &text[..text.floor_char_boundary(LOOKED_AT)];
    let lower = spelled(start);
    let words = plain_words(&lower);
    let requests = || cues::SUMMARISE.iter().chain(cues::REMIND);
    words.first().is_some_and(|word| cues::ASKING.contains(word))
        && !(words[0] == "do" && words.get(1) == Some(&"not"))
        || requests().any(|request| begins(&words, request).is_some())
}

/// What somebody explicitly wants remembered, in their words.
pub(super) fn to_remember(text: &str) -> Option<String> {
    let text = text.trim();
    let written: Vec<&str> = text.split_whitespace().take(SHORT).collect();
    let lower: Vec<String> = written.iter().map(|word| spelled(word)).collect();
    let words: Vec<&str> =
        lower.iter().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric())).collect();
    // "Please", a name, "could you": what goes before is short, or the words are part of a tale.
    let begun = (0..words.len().min(BEFORE_WISH + 1)).find_map(|from| {
        let rest = &words[from..];
        let n_words = cues::REMEMBER.iter().filter_map(|wish| begins(rest, wish)).max()?;
        let is_tale = words[..from].iter().any(|word| ["i", "we", "they"].contains(word));
        (!is_tale).then_some((from, from + n_words))
    });
    let (from, to) = begun?;
    let marked = written[to - 1].ends_with([':', ',']);
    let joined = words.get(to).is_some_and(|word| cues::THAT.contains(word));
    let thing = to + usize::from(joined && !marked);
    let is_polite =
        words[..from].iter().all(|word| cues::FILLERS.contains(word) || cues::OPENERS.contains(word));
    let is_thing = !cues::NO_THING.iter().any(|word| begins(&words[to..], word).is_some());
    if !(marked || joined || is_polite && is_thing) {
        return None;
    }
    let mut rest = text;
    for _ in 0..thing {
        rest = rest.trim_start().split_once(char::is_whitespace)?.1;
    }
    let rest = rest.trim();
    (!rest.is_empty() && !rest.ends_with('?')).then(|| rest.to_owned())
}

/// Most words before a wish that something be remembered.
const BEFORE_WISH: usize = 3;
