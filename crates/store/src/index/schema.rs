//! The fields of a document, and how texts become words.

use cairn_types::ids::{AgentId, ChannelId, MemoryId, Seq, SummaryId};
use cairn_types::memory::{Memory, Reach, Scope};
use cairn_types::ports::HitKind;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tantivy::schema::{
    FAST, Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use crate::views::topic::words_of;

#[derive(Clone)]
pub(crate) struct Fields {
    pub(crate) schema: Schema,
    /// What a document stands for, unique.
    pub(crate) key: Field,
    /// Kind and channel, or for a memory each reach that it is within: a search names the places that it may see.
    pub(crate) place: Field,
    /// The words of its neighbours, its date, and what else is said around it.
    pub(crate) near: Field,
    pub(crate) own: Field,
    /// A memory's words, each behind each place of the memory and as often as it counts: a question of memories reads of
    /// the index nothing but what is within reach.
    pub(crate) topic: Field,
    pub(crate) author: Field,
    /// Whether it asks something.
    pub(crate) asks: Field,
    /// When it was said, in seconds since 1970.
    pub(crate) at: Field,
    /// What its score is multiplied by.
    pub(crate) weight: Field,
}

/// The name of [`Words`].
pub(crate) const WORDS: &str = "words";

/// Names of the fields [`Fields::at`] and [`Fields::weight`], for their columns.
pub(crate) const AT: &str = "at";
pub(crate) const WEIGHT: &str = "weight";

impl Fields {
    pub(crate) fn new() -> Self {
        let mut schema = Schema::builder();
        let words = TextFieldIndexing::default()
            .set_tokenizer(WORDS)
            .set_index_option(IndexRecordOption::WithFreqs)
            .set_fieldnorms(true);
        let topics = TextOptions::default().set_indexing_options(words.clone().set_fieldnorms(false));
        let words = TextOptions::default().set_indexing_options(words);
        Self {
            key: schema.add_text_field("key", STRING | STORED),
            place: schema.add_text_field("place", STRING),
            near: schema.add_text_field("near", words.clone()),
            own: schema.add_text_field("own", words),
            topic: schema.add_text_field("topic", topics),
            author: schema.add_text_field("author", STORED),
            asks: schema.add_bool_field("asks", STORED),
            at: schema.add_u64_field(AT, FAST),
            weight: schema.add_f64_field(WEIGHT, FAST),
            schema: schema.build(),
        }
    }
}

/// What a document stands for, as its key says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Entry(ChannelId, Seq),
    Summary(ChannelId, SummaryId),
    Memory(MemoryId),
}

impl Subject {
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Entry(channel, seq) => format!("e\0{channel}\0{seq}"),
            Self::Summary(channel, id) => format!("s\0{channel}\0{id}"),
            Self::Memory(id) => format!("m\0{id}"),
        }
    }

    pub(crate) fn kind(&self) -> HitKind {
        match self {
            Self::Entry(..) => HitKind::Entry,
            Self::Summary(..) => HitKind::Summary,
            Self::Memory(_) => HitKind::Memory,
        }
    }

    pub(crate) fn of(key: &str) -> Option<Self> {
        let mut parts = key.splitn(3, '\0');
        match (parts.next()?, parts.next()?, parts.next()) {
            ("e", channel, Some(seq)) => Some(Self::Entry(channel.parse().ok()?, Seq(seq.parse().ok()?))),
            ("s", channel, Some(id)) => Some(Self::Summary(channel.parse().ok()?, id.into())),
            ("m", id, None) => Some(Self::Memory(id.into())),
            _ => None,
        }
    }
}

/// The place of a channel's entries.
pub(crate) fn entries_of(channel: &ChannelId) -> String {
    format!("e\0{channel}")
}

/// The place of a channel's summaries.
pub(crate) fn summaries_of(channel: &ChannelId) -> String {
    format!("s\0{channel}")
}

/// The place of a scope's memories.
pub(crate) fn memories_of(agent: &AgentId, scope: &Scope) -> String {
    format!("m\0{agent}\0{scope}")
}

/// The place of the memories within reach.
pub(crate) fn memories_within(agent: &AgentId, reach: &Reach) -> String {
    match reach {
        Reach::Scope(scope) => memories_of(agent, scope),
        Reach::Own(person) => format!("o\0{agent}\0{person}"),
        Reach::All => format!("a\0{agent}"),
    }
}

/// A word as the memories of a place are found by it.
pub(crate) fn topic_word(place: &str, word: &str) -> String {
    format!("{place}\0{word}")
}

/// All places of a memory.
pub(crate) fn places_of(memory: &Memory) -> Vec<String> {
    let own = memory.follows().map(|person| Reach::Own(person.to_owned()));
    let reaches = [Reach::All, Reach::Scope(memory.scope.clone())].into_iter().chain(own);
    reaches.map(|reach| memories_within(&memory.agent, &reach)).collect()
}

/// A date as people write it: day, month, year.
pub(crate) fn date_words(at: Timestamp) -> Vec<String> {
    words_of(&at.to_zoned_datetime(TimeZone::UTC).strftime("%-d %B %Y").to_string())
}

/// The seconds since 1970.
pub(crate) fn seconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_second()).unwrap_or(0)
}

/// Words as the index is given them, and as the last entries of channels are kept: one in each line, no word has a line feed.
/// Documents wait by the thousand to be indexed, and their words one by one take ten times as much.
pub(crate) fn joined<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join("\n")
}

/// Takes words apart that were [`joined`].
#[derive(Clone)]
pub(crate) struct Words;

pub(crate) struct WordStream<'a> {
    words: std::str::Lines<'a>,
    token: Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { words: text.lines(), token: Token::default() }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.next() else { return false };
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text.clear();
        self.token.text.push_str(word);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_as_what_it_stands_for() {
        let channel: ChannelId = "main/local/main".parse().unwrap();
        for subject in [
            Subject::Entry(channel.clone(), Seq(7)),
            Subject::Summary(channel, SummaryId::from("s3")),
            Subject::Memory(MemoryId::from("m01")),
        ] {
            assert_eq!(Subject::of(&subject.key()), Some(subject));
        }
    }

    #[test]
    fn words_that_are_joined_are_taken_apart_again() {
        for words in [&[][..], &["tea"], &["m\0main\0agent\0tea", "学校", "tea", "tea"]] {
            let (text, mut found) = (joined(words.iter().copied()), Vec::new());
            Words.token_stream(&text).process(&mut |token| found.push(token.text.clone()));
            assert_eq!(found, words);
        }
    }

    #[test]
    fn a_date_is_found_as_people_write_it() {
        let at: Timestamp = "2023-05-08T13:56:00Z".parse().unwrap();
        assert_eq!(date_words(at), words_of("8 May 2023"));
    }
}
