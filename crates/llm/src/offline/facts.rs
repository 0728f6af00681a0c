//! What is true once at a time: where somebody lives, where they work. People ask for it in some words and tell it in others,
//! and what they told last holds.

use std::collections::HashSet;

use cairn_types::text::sentences::sentences;
use cairn_types::text::words::topic_words;

use super::quote::Candidate;

struct Fact {
    /// Words that ask for it.
    asked: &'static [&'static str],
    /// Words that tell it, behind one of [`TELLERS`].
    told: &'static [&'static str],
}

const FACTS: &[Fact] = &[
    Fact {
        asked: &["live", "living", "reside"],
        told: &[
            "live in",
            "live at",
            "live with",
            "live near",
            "living in",
            "moved to",
            "moved in with",
            "based in",
        ],
    },
    Fact {
        asked: &["work", "working", "job", "employer"],
        told: &[
            "work at",
            "work for",
            "work as",
            "work in",
            "working at",
            "working for",
            "started at",
            "joined",
        ],
    },
];

/// How a sentence begins in which people tell something of themselves.
const TELLERS: &[&str] = &["i", "we", "i'm", "we're", "i've", "we've"];

/// A question for a place or a thing, not for yes or no, has one of these.
const ASKING: &[&str] = &["where", "where's", "which", "what", "what's"];

/// Words between them that change nothing.
const BETWEEN: &[&str] =
    &["am", "are", "have", "now", "just", "already", "finally", "recently", "currently", "still"];

/// A question for such a fact.
pub(super) struct Asked {
    fact: &'static Fact,
    /// Whose fact: that of who asks, else of anybody whom the question may name.
    of: Option<String>,
    /// The words of the question that ask for it.
    pub(super) words: Vec<String>,
}

impl Asked {
    /// What a question by that person asks for; none when it is no such fact.
    pub(super) fn of(question: &str, asker: Option<&str>) -> Option<Self> {
        let said = plain_words(question);
        said.iter().find(|word| ASKING.contains(&word.as_str()))?;
        let fact = FACTS.iter().find(|fact| said.iter().any(|word| fact.asked.contains(&word.as_str())))?;
        let of_asker = said.iter().any(|word| ["i", "my", "we", "our"].contains(&word.as_str()));
        let asking = said.iter().filter(|word| fact.asked.contains(&word.as_str()));
        let words = asking.flat_map(|word| topic_words(word)).collect();
        Some(Self { fact, of: asker.filter(|_| of_asker).map(str::to_owned), words })
    }

    /// The words of a search that finds it, however it was told.
    pub(super) fn query(&self, question: &str) -> String {
        let told: HashSet<&str> = self.fact.told.iter().filter_map(|told| told.split(' ').next()).collect();
        let mut told: Vec<&str> = told.into_iter().collect();
        told.sort_unstable();
        format!("{question} {}", told.join(" "))
    }

    /// Whether these words tell it.
    pub(super) fn is_told(&self, candidate: &Candidate) -> bool {
        let of = self.of.as_deref();
        of.is_none_or(|of| candidate.speaker().is_none_or(|speaker| speaker == of))
            && (sentences(&candidate.text).any(|sentence| !sentence.ends_with('?') && self.tells(sentence))
                || candidate.author.is_none() && self.tells_of_another(&candidate.text))
    }

    /// A memory tells it of somebody: "Ada lives in Graz".
    fn tells_of_another(&self, memory: &str) -> bool {
        let words = plain_words(memory);
        self.fact.told.iter().any(|told| {
            let mut told = told.split(' ');
            let verb = told.next().map(|verb| format!("{verb}s"));
            let rest: Vec<&str> = told.collect();
            let told = |at: usize| {
                words[at + 1..].iter().zip(&rest).filter(|(word, told)| word == told).count() == rest.len()
            };
            (0..words.len()).any(|at| Some(&words[at]) == verb.as_ref() && told(at))
        })
    }

    fn tells(&self, sentence: &str) -> bool {
        let words = plain_words(sentence);
        let tellers = words.iter().enumerate().filter(|(_, word)| TELLERS.contains(&word.as_str()));
        tellers.map(|(idx, _)| &words[idx + 1..]).any(|rest| {
            let skipped = rest.iter().take_while(|word| BETWEEN.contains(&word.as_str())).count();
            let rest = &rest[skipped..];
            self.fact.told.iter().any(|told| {
                let told: Vec<&str> = told.split(' ').collect();
                rest.len() > told.len() && rest.iter().zip(&told).all(|(word, told)| word == told)
            })
        })
    }
}

fn plain_words(text: &str) -> Vec<String> {
    let text = text.to_lowercase().replace('’', "'");
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}
