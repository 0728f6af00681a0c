//! Whether a text tells anything of its source at all. Models that refuse, or give up, answer in a sentence or two, or with
//! the headings and a word for nothing under each; in every language they name nothing that was said. No list of words is
//! needed for that.

use std::collections::HashSet;

use super::loose::loose;
use super::{Rejection, Section, Sections, SummarySource, find, plain};
use cairn_types::text::words::{is_gapless, raw_words};
use cairn_types::tokens::estimate;

/// What is shorter may be said in a sentence.
const LONG_SOURCE: u64 = 200;

/// A text without headings takes so much of its source at the least, up to a bound: refusals took 4 to 80 tokens in twelve
/// languages, summaries of 400 to 3,000 tokens on LoCoMo 86 to 950.
const LEAST_SHARE: u64 = 20;
const LEAST_TOKENS: u64 = 64;

/// A word counts by its first letters, so that endings make no difference; shorter words say too little.
const WORD_CHARS: usize = 4;
const STEM_CHARS: usize = 5;

/// Most words for nothing under a heading: "None captured."
const HOLLOW_WORDS: usize = 3;

/// Checks that a text tells something of what it is to summarise.
///
/// # Errors
/// Why it does not.
pub fn check_told(text: &str, source: &SummarySource) -> Result<(), Rejection> {
    if source.is_plain || source.tokens < LONG_SOURCE {
        return Ok(());
    }
    let sections = Sections::parse(text);
    let n_headings = text.lines().filter(|line| Section::begun_by(line).is_some()).count();
    let fault = if n_headings > 0 { source.skeleton(&sections, n_headings) } else { source.remark(text) };
    fault.map_or(Ok(()), |fault| Err(Rejection::NoSummary(fault)))
}

impl SummarySource {
    /// What is wrong with several headings under which there is a word for nothing each: the same one mostly, or a few that
    /// its source does not have. One heading with a few words may be all that a model has to say.
    fn skeleton(&self, sections: &Sections, n_headings: usize) -> Option<&'static str> {
        let bodies: Vec<&str> = Section::ALL.iter().filter_map(|section| sections.get(*section)).collect();
        let different: HashSet<&str> = bodies.iter().copied().collect();
        let is_hollow = |body: &&str| raw_words(body).take(HOLLOW_WORDS + 1).count() <= HOLLOW_WORDS;
        let body = plain(&bodies.join("\n"));
        let named: HashSet<String> = stems(&body).collect();
        let said: HashSet<String> = stems(&self.text).filter(|stem| named.contains(stem)).collect();
        let says_the_same = bodies.len() > 2 && different.len() * 2 <= bodies.len();
        let says_nothing = n_headings > 1 && bodies.iter().all(is_hollow) && said.len() * 3 < named.len();
        let is_one = (says_the_same || says_nothing) && !self.names_somebody(&body);
        is_one.then_some("under its headings stands nothing of it")
    }

    /// What is wrong with a text without headings that is no summary.
    fn remark(&self, text: &str) -> Option<&'static str> {
        let least = (self.tokens / LEAST_SHARE).min(LEAST_TOKENS);
        if u64::from(estimate(text)) < least {
            return Some("it is far too short");
        }
        let (words, exact) = (loose(text), find(text));
        let names_something =
            self.unsaid(words.clone()).len() < words.len() || self.lacking(exact.clone()).len() < exact.len();
        (!names_something && !self.names_somebody(text)).then_some("it names nobody and nothing of it")
    }

    fn names_somebody(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() && !is_gapless(c));
        self.people.iter().filter(|name| !name.is_empty()).any(|name| {
            text.match_indices(name.as_str()).any(|(at, name)| {
                !is_word(text[..at].chars().next_back()) && !is_word(text[at + name.len()..].chars().next())
            })
        })
    }
}

/// The words of a text that tell it from others, by their beginnings; of scripts without gaps, pairs of characters.
fn stems(text: &str) -> impl Iterator<Item = String> {
    raw_words(text).flat_map(|word| {
        let chars: Vec<char> = word.to_lowercase().chars().collect();
        if chars.first().copied().is_some_and(is_gapless) {
            return chars.windows(2).map(|pair| pair.iter().collect()).collect();
        }
        let counts =
            chars.len() >= WORD_CHARS || (chars.len() > 1 && !word.bytes().all(|b| b.is_ascii_alphabetic()));
        if counts { vec![chars.iter().take(STEM_CHARS).collect()] } else { Vec::new() }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing::said;

    /// What Ann says in some thirty messages, over 400 tokens.
    fn source() -> SummarySource {
        let lines: Vec<String> = (0..30)
            .map(|n| {
                format!(
                    "In week {} the orchard needs {} crates, and my sister picks the pears with us.",
                    n + 10,
                    n * 7 + 20
                )
            })
            .collect();
        SummarySource::of_entries(&said(&lines.iter().map(String::as_str).collect::<Vec<_>>()), [])
    }

    #[rstest]
    #[case::english("I'm sorry, but I can't help with that.")]
    #[case::in_more_words(
        "I am not able to summarise this conversation, since it may hold private details of people. If there is something else that I can do for you, please let me know, and I will gladly help you with that instead of this. Thank you for your understanding, and have a nice day."
    )]
    #[case::german("Es tut mir leid, aber dabei kann ich nicht helfen.")]
    #[case::french(
        "Je suis désolé, mais je ne peux pas résumer cette conversation, car elle contient des informations personnelles."
    )]
    #[case::russian(
        "К сожалению, я не могу составить краткое изложение этого разговора, поскольку он содержит личные сведения."
    )]
    #[case::japanese("申し訳ありませんが、そのリクエストにはお応えできません。")]
    #[case::chinese("很抱歉，由于对话内容涉及个人隐私，我无法为您总结。如果您有其他问题，我很乐意帮助您。")]
    #[case::one_sentence("They talk about the orchard and the pears.")]
    #[case::a_promise("Sure! Here is the summary.")]
    #[case::skeleton(
        "## Goal\nNone.\n\n## Key decisions\nNo prior history.\n\n## Critical context\nNone captured."
    )]
    #[case::skeleton_with_a_known_word_for_nothing("## Goal\nNone.\n\n## Progress\nNothing captured.")]
    #[case::skeleton_in_german("## Goal\n- Keines genannt.\n\n## Progress\n- Bisher nichts festgehalten.")]
    #[case::skeleton_in_chinese("## Goal\n- 没有。\n\n## Progress\n- 没有记录。")]
    #[case::skeleton_of_one_phrase(
        "## Goal\nNone mentioned with us so far.\n\n## Progress\nNone mentioned with us so far.\n\n## Next steps\nNone mentioned with us so far."
    )]
    fn what_tells_nothing_of_a_long_source_is_no_summary(#[case] text: &str) {
        assert!(matches!(check_told(text, &source()), Err(Rejection::NoSummary(_))));
        // Of a short one a sentence may be all that there is to say.
        assert_eq!(check_told(text, &SummarySource::of_entries(&said(&["hello", "thanks"]), [])), Ok(()));
        assert_eq!(check_told(text, &source().plain(true)), Ok(()), "an extract has no headings");
    }

    #[rstest]
    #[case::headed(
        "## Goal\n- Pick the pears in the orchard.\n\n## Critical context\n- Week 12 needs 34 crates."
    )]
    #[case::one_line("## Goal\n- apples\n")]
    #[case::few_words("## Goal\n- Keep the orchard.\n\n## Next steps\n- Pick pears.")]
    #[case::by_name("## Progress\n- Ann geht jede Woche hin.")]
    #[case::in_another_language("## Goal\n- Birnen ernten\n\n## Critical context\n- Woche 12: 34 Kisten")]
    #[case::none_under_some(
        "## Goal\n- Pick the pears.\n\n## Next steps\nNone.\n\n## Mood and relationships\nNone."
    )]
    #[case::prose(
        "Ann tells of the orchard, where her sister and the others pick pears from week 10 on. Each week needs more crates than the one before: 20 at first, 27 then, and so on, seven more each time. She has said this for every week so far, and nothing of it has changed since; nobody else has said anything about it, and there was no question that is still open."
    )]
    fn what_tells_something_is_one(#[case] text: &str) {
        assert_eq!(check_told(text, &source()), Ok(()));
    }
}
