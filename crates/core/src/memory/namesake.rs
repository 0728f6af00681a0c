//! Two people of one name: what is known of the other is no answer to who asks.

use std::collections::BTreeSet;

use cairn_types::memory::Memory;
use cairn_types::message::Author;
use cairn_types::ports::{NEAR_MAX, Recall};
use cairn_types::text::words::raw_words;

/// Memories beyond those that are wanted, in the place of those that are left out.
pub const SPARE: usize = 2;

/// The best of what was recalled, without what is about namesakes of those who ask.
#[must_use]
pub fn without_namesakes(found: Recall, limit: usize, asking: &[Author], question: &str) -> Recall {
    let mut chosen = Recall::default();
    for (memory, score) in found.memories.into_iter().zip(found.scores) {
        if chosen.memories.len() < limit && !is_of_namesake(&memory, asking, question) {
            chosen.memories.push(memory);
            chosen.scores.push(score);
        } else {
            chosen.near.push((memory.id, score));
        }
    }
    chosen.near.extend(found.near);
    chosen.near.truncate(NEAR_MAX);
    chosen
}

/// Whether a memory is about somebody else whose name has a word of the name of one who asks, and neither the question nor the
/// memory has a word that tells them apart.
fn is_of_namesake(memory: &Memory, asking: &[Author], question: &str) -> bool {
    let Some(subject) = &memory.subject else { return false };
    let of_subject = memory.source.by.as_ref().filter(|_| memory.is_of_speaker());
    if asking.iter().any(|author| *subject == author.id || of_subject.is_some_and(|by| by.id == author.id)) {
        return false;
    }
    let name = words(of_subject.map_or(subject.as_str(), |by| &by.name));
    let (question, text) = (words(question), words(&memory.text));
    asking.iter().any(|author| {
        let asker = words(&author.name);
        let (theirs, own): (Vec<_>, Vec<_>) =
            (name.difference(&asker).collect(), asker.difference(&name).collect());
        !asker.is_disjoint(&name)
            && !theirs.is_empty()
            && !own.is_empty()
            && !theirs.iter().any(|word| question.contains(*word))
            && !own.iter().any(|word| text.contains(*word))
    })
}

fn words(text: &str) -> BTreeSet<String> {
    raw_words(text).map(|word| word.split(['\'', '’']).next().unwrap_or(word).to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing;

    #[rstest]
    #[case::of_the_other("Anna Kraus", "What is my pet called?", "Anna Berg", "Anna Berg has a cat.", false)]
    #[case::of_oneself("Anna Kraus", "What is my pet called?", "Anna Kraus", "Anna Kraus has a dog.", true)]
    #[case::the_other_is_named(
        "Anna Kraus",
        "What is Anna Berg's pet?",
        "Anna Berg",
        "Anna Berg has a cat.",
        true
    )]
    #[case::family("Anna Berg", "Who is my brother?", "Max Berg", "Max Berg is Anna's brother.", true)]
    #[case::it_may_be_them("Anna Kraus", "What is my pet called?", "Anna", "Anna has a cat.", true)]
    #[case::their_name_is_shorter(
        "Anna",
        "What is my pet called?",
        "Anna Berg",
        "Anna Berg has a cat.",
        true
    )]
    #[case::somebody_else("Anna Kraus", "What is the pet called?", "Ben Berg", "Ben Berg has a cat.", true)]
    #[case::a_thing("Anna Kraus", "What is it called?", "boat", "The boat is called Mira.", true)]
    fn what_is_known_of_a_namesake_is_left_out(
        #[case] asker: &str,
        #[case] question: &str,
        #[case] subject: &str,
        #[case] text: &str,
        #[case] stays: bool,
    ) {
        let asker = Author { id: "telegram/7".to_owned(), name: asker.to_owned() };
        let memory = Memory { subject: Some(subject.to_owned()), ..testing::memory("agent", text) };
        let other = Memory { id: "m9".into(), ..testing::memory("agent", "The pier is closed.") };
        let near = vec![("m8".into(), 0.5)];
        let found = Recall { memories: vec![memory.clone(), other.clone()], scores: vec![2.0, 1.0], near };
        let chosen = without_namesakes(found, 1, &[asker], question);
        let (best, next) = if stays { (&memory, &other) } else { (&other, &memory) };
        let score = |memory: &Memory| if memory.id == other.id { 1.0 } else { 2.0 };
        assert_eq!(
            (chosen.memories.as_slice(), chosen.scores),
            (std::slice::from_ref(best), vec![score(best)])
        );
        let near: Vec<_> = chosen.near.iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(near, [next.id.to_string(), "m8".to_owned()]);
    }
}
