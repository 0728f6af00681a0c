//! How much of what is asked for a digest keeps.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_core::digest::{digest, render};
use cairn_testkit::random::Random;
use cairn_types::ids::{Generation, Seq, TurnId};
use cairn_types::message::{Author, Entry, Part, Role};
use cairn_types::text::words::topic_words;
use cairn_types::tokens::estimate;

use super::{Conversation, Turn};

/// What an extract keeps; add them up over conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Evidence turns asked for, each as often as it is.
    pub evidence: usize,
    /// Those of which at least half of the words are in the extract.
    pub evidence_kept: usize,
    /// Words of answers that occur in the conversation.
    pub answer_words: usize,
    /// Those that occur in the extract.
    pub answer_words_kept: usize,
    /// Tokens of the whole, as lines with their authors.
    pub tokens: u64,
    /// Tokens of the extract.
    pub tokens_kept: u64,
}

impl std::ops::AddAssign for Kept {
    fn add_assign(&mut self, other: Self) {
        self.evidence += other.evidence;
        self.evidence_kept += other.evidence_kept;
        self.answer_words += other.answer_words;
        self.answer_words_kept += other.answer_words_kept;
        self.tokens += other.tokens;
        self.tokens_kept += other.tokens_kept;
    }
}

/// The conversation as entries of a channel, numbered from 1.
pub fn entries(conversation: &Conversation) -> Vec<Arc<Entry>> {
    conversation.turns.iter().zip(1..).map(entry).collect()
}

/// What the digest of a whole conversation keeps at a share of its size.
pub fn kept_by_digest(conversation: &Conversation, share: f64) -> Kept {
    let entries = entries(conversation);
    let tokens = size(conversation);
    let lines = digest(&entries, (tokens as f64 * share) as u32);
    let mut texts = vec![String::new(); conversation.turns.len()];
    for line in &lines {
        texts[line.seq.0 as usize - 1] = line.text.clone();
    }
    kept(conversation, &texts, estimate(&render(&lines)).into())
}

/// What whole turns taken by chance keep at the same share: the figure to beat.
pub fn kept_by_chance(conversation: &Conversation, share: f64, seed: u64) -> Kept {
    let budget = (size(conversation) as f64 * share) as u64;
    let mut order: Vec<usize> = (0..conversation.turns.len()).collect();
    let mut random = Random::new(seed);
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let mut texts = vec![String::new(); conversation.turns.len()];
    let mut spent = 0;
    for idx in order {
        let line = line(&conversation.turns[idx]);
        let tokens = u64::from(estimate(&line)) + 1;
        if spent + tokens > budget {
            break;
        }
        spent += tokens;
        texts[idx] = line;
    }
    kept(conversation, &texts, spent)
}

/// `texts` has what is kept of each turn.
fn kept(conversation: &Conversation, texts: &[String], tokens_kept: u64) -> Kept {
    let words: Vec<HashSet<String>> = conversation.turns.iter().map(|turn| words(&turn.text)).collect();
    let words_kept: Vec<HashSet<String>> = texts.iter().map(|text| self::words(text)).collect();
    let all: HashSet<&String> = words.iter().flatten().collect();
    let all_kept: HashSet<&String> = words_kept.iter().flatten().collect();
    let mut sum = Kept { tokens: size(conversation), tokens_kept, ..Kept::default() };
    for question in &conversation.questions {
        for idx in question.evidence.iter().map(|evidence| evidence.turn) {
            let common = words[idx].intersection(&words_kept[idx]).count();
            sum.evidence += 1;
            sum.evidence_kept += usize::from(!texts[idx].is_empty() && common * 2 >= words[idx].len());
        }
        let answer = self::words(question.answer.as_deref().unwrap_or_default());
        sum.answer_words += answer.iter().filter(|word| all.contains(word)).count();
        sum.answer_words_kept += answer.iter().filter(|word| all_kept.contains(word)).count();
    }
    sum
}

fn words(text: &str) -> HashSet<String> {
    topic_words(text).into_iter().collect()
}

fn size(conversation: &Conversation) -> u64 {
    conversation.turns.iter().map(|turn| u64::from(estimate(&line(turn))) + 1).sum()
}

fn line(turn: &Turn) -> String {
    format!("{}: {}", turn.speaker, turn.text)
}

fn entry((turn, seq): (&Turn, u64)) -> Arc<Entry> {
    Arc::new(Entry {
        seq: Seq(seq),
        turn: TurnId::new(format!("t{seq}")),
        generation: Generation::default(),
        at: turn.at,
        role: Role::User,
        author: Some(Author { id: format!("local/{}", turn.speaker), name: turn.speaker.clone() }),
        message: None,
        parts: vec![Part::text(&turn.text)],
        reasoning: None,
        provider_state: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        artifact: None,
        files: Vec::new(),
        provenance: cairn_types::message::Provenance::default(),
        spoken: false,
        quotes: false,
        finish: None,
        tokens: estimate(&turn.text),
    })
}
