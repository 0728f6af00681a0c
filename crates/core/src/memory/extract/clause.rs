//! The words of a sentence, where a clause may begin in it, and what follows a lead.

use crate::words::raw_words;

/// Words after which a clause may begin without a comma.
const OPENERS: [&str; 30] = [
    "and",
    "but",
    "so",
    "also",
    "btw",
    "well",
    "actually",
    "oh",
    "hi",
    "hey",
    "hello",
    "yes",
    "yeah",
    "ok",
    "okay",
    "now",
    "because",
    "since",
    "please",
    "honestly",
    "personally",
    "und",
    "aber",
    "et",
    "mais",
    "y",
    "pero",
    "that",
    "ja",
    "hallo",
];

/// Words that make all behind them a condition, a supposition or another's words.
const SUPPOSING: [&str; 26] = [
    "if",
    "whether",
    "unless",
    "suppose",
    "imagine",
    "pretend",
    "would",
    "could",
    "might",
    "maybe",
    "perhaps",
    "said",
    "says",
    "asked",
    "told",
    "think",
    "thinks",
    "thought",
    "wenn",
    "falls",
    "ob",
    "vielleicht",
    "si",
    "quizás",
    "peut",
    "wish",
];

/// Words that begin questions, even without a question mark.
const ASKING: [&str; 22] = [
    "what", "when", "where", "which", "who", "why", "how", "do", "does", "did", "is", "are", "was", "were",
    "can", "could", "should", "would", "was", "wer", "wie", "warum",
];

/// Objects that say nothing outside their conversation.
const VAGUE: [&str; 30] = [
    "it", "that", "this", "these", "those", "them", "him", "her", "you", "your", "yours", "his", "their",
    "how", "when", "what", "where", "to", "the", "not", "so", "both", "being", "seeing", "hearing",
    "talking", "about", "chatting", "here", "there",
];

/// What is no trade, origin or character: "I am a bit tired", "I am a fan".
const NO_ROLE: [&str; 22] = [
    "bit", "little", "lot", "few", "couple", "tad", "fan", "huge", "big", "total", "mess", "fool", "bad",
    "good", "great", "firm", "strong", "while", "real", "tiny", "sucker", "wreck",
];

const OBJECT_MAX: usize = 160;

pub(super) struct Word {
    lower: String,
    start: usize,
    end: usize,
    /// Punctuation, or the beginning, stands before it.
    opens: bool,
}

/// A sentence, cut into words; contractions are two words.
pub(super) struct Clause<'a> {
    text: &'a str,
    pub(super) words: Vec<Word>,
}

impl<'a> Clause<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        for raw in raw_words(text) {
            let start = raw.as_ptr() as usize - text.as_ptr() as usize;
            let before = text[words.last().map_or(0, |word| word.end)..start].trim();
            let opens = (words.is_empty() && !before.contains(['"', '“', '„', '«', '/']))
                || (!before.is_empty() && before.chars().all(|c| ",;:—–-!…().".contains(c)));
            let lower = raw.to_lowercase().replace('’', "'");
            let end = start + raw.len();
            let (first, second) = apart(&lower);
            words.push(Word { lower: first.to_owned(), start, end, opens });
            if let Some(second) = second {
                words.push(Word { lower: second.to_owned(), start: end, end, opens: false });
            }
        }
        Self { text, words }
    }

    pub(super) fn is_question(&self) -> bool {
        // "Do not forget" asks for no answer.
        let asks = self.words.first().is_some_and(|word| ASKING.contains(&word.lower.as_str()))
            && !(self.is_any_of(0, "do") && self.is_any_of(1, "not"));
        asks || self.text.trim_end_matches(['"', ')', ' ', '!']).ends_with(['?', '？'])
    }

    /// A statement may begin with this word: nothing before it makes it a condition or another's words.
    pub(super) fn may_begin_at(&self, at: usize) -> bool {
        let opens = self.words[at].opens || at > 0 && OPENERS.contains(&self.words[at - 1].lower.as_str());
        opens && !self.words[..at].iter().any(|word| SUPPOSING.contains(&word.lower.as_str()))
    }

    /// The word is one of `choices`, which are parted by `|`.
    pub(super) fn is_any_of(&self, at: usize, choices: &str) -> bool {
        self.words.get(at).is_some_and(|word| choices.split('|').any(|choice| choice == word.lower))
    }

    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &word.lower)
    }

    /// The text of the words from `from` until `until`.
    pub(super) fn text_of(&self, from: usize, until: usize) -> &'a str {
        match (self.words.get(from), until.checked_sub(1).and_then(|last| self.words.get(last))) {
            (Some(first), Some(last)) if from < until => &self.text[first.start..last.end],
            _ => "",
        }
    }

    /// All from a word until another, without the conjunction and the marks at its end.
    pub(super) fn rest_from(&self, from: usize, until: usize) -> Option<&'a str> {
        let mut until = until;
        while until > from && OPENERS.contains(&self.words[until - 1].lower.as_str()) {
            until -= 1;
        }
        let rest = self.text_of(from, until);
        (!rest.is_empty() && rest.len() <= OBJECT_MAX).then_some(rest)
    }

    /// It speaks to somebody: "remember, you can do it" is encouragement, nothing to keep.
    pub(super) fn addresses_you(&self, from: usize, until: usize) -> bool {
        (from..until).any(|at| self.is_any_of(at, "you|your|yours|yourself"))
    }

    /// An object that means something elsewhere too.
    pub(super) fn thing_from(&self, from: usize, until: usize) -> Option<&'a str> {
        let first = &self.words.get(from)?.lower;
        let vague = VAGUE.contains(&first.as_str()) && !(first == "to" && until > from + 2);
        if vague { None } else { self.rest_from(from, until) }
    }

    /// An object of at most `max` words, up to the next mark or conjunction.
    pub(super) fn short_from(&self, from: usize, until: usize, max: usize) -> Option<&'a str> {
        let end = (from + 1..until).find(|at| self.words[*at].opens || self.joins(*at)).unwrap_or(until);
        let first = &self.words.get(from)?.lower;
        let fine = !VAGUE.contains(&first.as_str()) || first == "the";
        if fine && end - from <= max { self.rest_from(from, end) } else { None }
    }

    /// What somebody is: `nurse`, `software engineer from Berlin`.
    pub(super) fn role_from(&self, from: usize, until: usize) -> Option<&'a str> {
        let first = self.words.get(from)?.lower.as_str();
        if NO_ROLE.contains(&first) { None } else { self.short_from(from, until, 8) }
    }

    /// A name: words with capitals, or a single word.
    pub(super) fn name_from(&self, from: usize, until: usize) -> Option<&'a str> {
        let capital = |at: usize| self.text[self.words[at].start..].starts_with(char::is_uppercase);
        let first = self.words.get(from)?;
        if from >= until || VAGUE.contains(&first.lower.as_str()) || first.lower == "a" || first.lower == "in"
        {
            return None;
        }
        let mut end = from + 1;
        while end < until && end < from + 3 && !self.words[end].opens && capital(from) && capital(end) {
            end += 1;
        }
        let last_word = end == until || self.words[end].opens || self.joins(end);
        (capital(from) || last_word).then(|| self.text_of(from, end))
    }

    fn joins(&self, at: usize) -> bool {
        let word = self.words[at].lower.as_str();
        matches!(word, "but" | "because" | "so" | "which" | "und" | "aber" | "mais" | "pero")
            || matches!(word, "and" | "y" | "et")
                && self
                    .words
                    .get(at + 1)
                    .is_some_and(|next| matches!(next.lower.as_str(), "i" | "my" | "we" | "it"))
    }
}

fn apart(word: &str) -> (&str, Option<&'static str>) {
    const ENDINGS: [(&str, &str); 6] =
        [("n't", "not"), ("'m", "am"), ("'ve", "have"), ("'ll", "will"), ("'d", "would"), ("'re", "are")];
    match word {
        "im" => return ("i", Some("am")),
        "ive" => return ("i", Some("have")),
        "dont" => return ("do", Some("not")),
        "can't" | "cannot" | "cant" => return ("can", Some("not")),
        "won't" => return ("will", Some("not")),
        "let's" | "lets" => return ("let", Some("us")),
        _ => {}
    }
    let cut = |(ending, second): &(&str, &'static str)| Some((word.strip_suffix(ending)?, Some(*second)));
    ENDINGS.iter().find_map(cut).unwrap_or((word, None))
}
