//! Two people of one name: what is known of the other is no answer to who asks.

use cairn_types::memory::Memory;
use cairn_types::message::Author;
use cairn_types::ports::{NEAR_MAX, Recall};
use cairn_types::text::words::raw_words;

/// Memories beyond those that are wanted, in the place of those that are left out.
pub const SPARE: usize = 2;

/// The best of what was recalled. Where something is known of those who ask, what is about their namesakes is left out.
#[must_use]
pub fn without_namesakes(found: Recall, limit: usize, asking: &[Author], question: &str) -> Recall {
    let mut chosen = Recall::default();
    let knows = asking.iter().any(|asker| found.memories.iter().any(|memory| is_about(memory, asker)));
    let question = words(question);
    let is_left_out = |memory: &Memory| knows && is_of_namesake(memory, asking, &question);
    for (memory, score) in found.memories.into_iter().zip(found.scores) {
        if chosen.memories.len() < limit && !is_left_out(&memory) {
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

fn is_about(memory: &Memory, person: &Author) -> bool {
    let by = memory.source.by.as_ref().filter(|_| memory.is_of_speaker());
    let name = |name: &str| name.trim().to_lowercase();
    match (by, &memory.subject) {
        (Some(by), _) => by.id == person.id,
        (None, Some(subject)) => *subject == person.id || name(subject) == name(&person.name),
        (None, None) => false,
    }
}

/// Whether a memory is about somebody else whose name begins as that of one who asks, and neither the question nor the memory
/// has a word that tells them apart.
fn is_of_namesake(memory: &Memory, asking: &[Author], question: &[String]) -> bool {
    let Some(subject) = &memory.subject else { return false };
    let by = memory.source.by.as_ref().filter(|_| memory.is_of_speaker());
    let (name, text) = (words(by.map_or(subject.as_str(), |by| &by.name)), words(&memory.text));
    !asking.iter().any(|asker| is_about(memory, asker))
        && asking.iter().map(|asker| words(&asker.name)).any(|asker| {
            let (mut theirs, mut own) = (
                name.iter().filter(|word| !asker.contains(word)),
                asker.iter().filter(|word| !name.contains(word)),
            );
            let (is_longer, is_other) = (theirs.clone().next().is_some(), own.clone().next().is_some());
            name.first() == asker.first()
                && (is_longer && is_other)
                && !theirs.any(|word| question.contains(word))
                && !own.any(|word| text.contains(word))
        })
}

fn words(text: &str) -> Vec<String> {
    raw_words(text).map(|word| word.split(['\'', '’']).next().unwrap_or(word).to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing;

    #[rstest]
    #[case::of_the_other("Anna Kraus", "What is my pet called?", "Anna Berg", "Anna Berg has a cat.", false)]
    #[case::the_other_is_named(
        "Anna Kraus",
        "What is Anna Berg's pet?",
        "Anna Berg",
        "Anna Berg has a cat.",
        true
    )]
    #[case::of_one_family("Anna Berg", "Who has a pet?", "Max Berg", "Max Berg has a cat.", true)]
    #[case::known_to_each_other(
        "Anna Kraus",
        "Who is my friend?",
        "Anna Berg",
        "Anna Berg is a friend of Kraus.",
        true
    )]
    #[case::it_may_be_them("Anna Kraus", "What is my pet called?", "Anna", "Anna has a cat.", true)]
    #[case::their_name_is_shorter(
        "Anna",
        "What is my pet called?",
        "Anna Berg",
        "Anna Berg has a cat.",
        true
    )]
    #[case::a_thing("Anna Kraus", "What is it called?", "boat", "The boat is called Mira.", true)]
    fn what_is_known_of_a_namesake_is_left_out(
        #[case] asker: &str,
        #[case] question: &str,
        #[case] subject: &str,
        #[case] text: &str,
        #[case] stays: bool,
    ) {
        let about = |id: &str, subject: &str, text: &str| Memory {
            id: id.into(),
            subject: Some(subject.to_owned()),
            ..testing::memory("agent", text)
        };
        let (memory, own) = (about("m1", subject, text), about("m2", asker, "They have a dog."));
        let other = about("m3", "pier", "The pier is closed.");
        let asker = [Author { id: "telegram/7".to_owned(), name: asker.to_owned() }];
        let chosen = |memories: Vec<Memory>| {
            let near = vec![("m8".into(), 0.5)];
            let found = Recall { scores: vec![3.0, 2.0, 1.0][..memories.len()].to_vec(), memories, near };
            let chosen = without_namesakes(found, 2, &asker, question);
            assert_eq!(chosen.memories.len(), chosen.scores.len());
            let ids = |ids: Vec<&cairn_types::ids::MemoryId>| {
                ids.iter().map(|id| id.to_string()).collect::<Vec<_>>()
            };
            (
                ids(chosen.memories.iter().map(|memory| &memory.id).collect()),
                ids(chosen.near.iter().map(|(id, _)| id).collect()),
            )
        };
        let (best, near) = chosen(vec![memory.clone(), own, other.clone()]);
        assert_eq!((best.contains(&"m1".to_owned()), best.len()), (stays, 2));
        assert_eq!(near, [if stays { "m3" } else { "m1" }, "m8"]);
        // Where nothing is known of who asks, it may be of use.
        assert_eq!(chosen(vec![memory, other]).0, ["m1", "m3"]);
    }
}
