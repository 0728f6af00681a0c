//! The rules: with which words a statement begins, and what memory it makes.
//!
//! The first rule that fits wins, so that the special come before the general.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::memory::MemoryKind::{self, Decision, Event, Fact, Goal, Identity, Preference, Todo};

/// What a rule takes as its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Name,
    /// A few words, up to the next mark: a place, an employer, an age.
    Place,
    /// The rest, unless it is vague ("it", "your idea").
    Thing,
    /// A trade or character.
    Role,
    Clause,
    /// All of the rest, and another rule may say it better.
    Told,
    /// All of the rest, if it names a time.
    Dated,
    /// No object: the lead says it all.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Rule {
    /// The words: alternatives are parted by `|`, `*` stands for one to three words.
    pub(super) lead: &'static str,
    pub(super) takes: Takes,
    pub(super) kind: MemoryKind,
    pub(super) importance: f64,
    /// The memory: `{who}` is the author, `{}` the object, `{x}` what `*` stands for, `{v}` the last word of the
    /// lead, `{d}` the last but one.
    pub(super) says: &'static str,
}

const fn rule(
    lead: &'static str,
    takes: Takes,
    kind: MemoryKind,
    importance: f64,
    says: &'static str,
) -> Rule {
    Rule { lead, takes, kind, importance, says }
}

/// The rules whose lead may begin with a word, in their order.
pub(super) fn rules_from(word: &str) -> &'static [&'static Rule] {
    static BY_WORD: LazyLock<HashMap<&str, Vec<&Rule>>> = LazyLock::new(|| {
        let mut by_word: HashMap<&str, Vec<&Rule>> = HashMap::new();
        for rule in RULES {
            let first = rule.lead.split(' ').next().unwrap_or_default();
            first.split('|').for_each(|word| by_word.entry(word).or_default().push(rule));
        }
        by_word
    });
    BY_WORD.get(word).map_or(&[], Vec::as_slice)
}

const RULES: &[Rule] = &[
    // What somebody asks to keep.
    rule("remember|note that", Takes::Told, Fact, 0.9, "{who} asked to remember that {}"),
    rule("remember to", Takes::Clause, Todo, 0.8, "{who} asked not to forget to {}"),
    rule("remember", Takes::Told, Fact, 0.9, "{who} asked to remember: {}"),
    rule("keep in mind that", Takes::Told, Fact, 0.9, "{who} asked to remember that {}"),
    rule("do not forget that", Takes::Told, Fact, 0.9, "{who} asked to remember that {}"),
    rule("do not forget to", Takes::Clause, Todo, 0.8, "{who} asked not to forget to {}"),
    rule("do not forget", Takes::Told, Fact, 0.9, "{who} asked to remember: {}"),
    // Who somebody is.
    rule("my name is", Takes::Name, Identity, 0.9, "{who}'s name is {}"),
    rule("call me", Takes::Name, Identity, 0.8, "{who} wants to be called {}"),
    rule("you can|may call me", Takes::Name, Identity, 0.8, "{who} wants to be called {}"),
    rule("i am called", Takes::Name, Identity, 0.8, "{who} is called {}"),
    rule("my pronouns are", Takes::Place, Identity, 0.8, "{who}'s pronouns are {}"),
    rule("i am from", Takes::Place, Identity, 0.7, "{who} is from {}"),
    rule("i come from", Takes::Place, Identity, 0.7, "{who} comes from {}"),
    rule("i was born in|on|at", Takes::Place, Identity, 0.7, "{who} was born {v} {}"),
    rule("i grew up in|on|near", Takes::Place, Identity, 0.6, "{who} grew up {v} {}"),
    rule("i live in|at|near", Takes::Place, Identity, 0.7, "{who} lives {v} {}"),
    rule("i moved|relocated to", Takes::Place, Identity, 0.6, "{who} moved to {}"),
    rule("i work as a|an", Takes::Role, Identity, 0.7, "{who} works as {v} {}"),
    rule("i work at|for|in|as", Takes::Place, Identity, 0.7, "{who} works {v} {}"),
    rule("i am allergic to", Takes::Clause, Fact, 0.9, "{who} is allergic to {}"),
    rule(
        "i am vegetarian|vegan|diabetic|lactose-intolerant|celiac|coeliac|deaf|blind",
        Takes::Nothing,
        Fact,
        0.8,
        "{who} is {v}",
    ),
    rule("i am a|an", Takes::Role, Identity, 0.6, "{who} is {v} {}"),
    rule("i am married|engaged to", Takes::Place, Fact, 0.7, "{who} is married or engaged to {}"),
    rule("my birthday is", Takes::Place, Event, 0.8, "{who}'s birthday is {}"),
    // What belongs to somebody.
    rule("my email|phone|address|timezone is", Takes::Clause, Fact, 0.7, "{who}'s {d} is {}"),
    rule("my * address|number is", Takes::Clause, Fact, 0.7, "{who}'s {x} {d} is {}"),
    rule("my favourite|favorite * is|are", Takes::Thing, Preference, 0.7, "{who}'s favourite {x} {v} {}"),
    rule("my goal|aim|dream is to", Takes::Clause, Goal, 0.7, "{who}'s goal is to {}"),
    rule("my * name is", Takes::Name, Fact, 0.7, "{who}'s {x} name is {}"),
    rule("my * is|are called|named", Takes::Name, Fact, 0.7, "{who}'s {x} is called {}"),
    // What was decided.
    rule("we decided|agreed to|on|that|against", Takes::Clause, Decision, 0.8, "it was {d} {v} {}"),
    rule("we have decided|agreed to|on|that|against", Takes::Clause, Decision, 0.8, "it was {d} {v} {}"),
    rule("we settled on", Takes::Clause, Decision, 0.8, "it was decided on {}"),
    rule("let us go with", Takes::Thing, Decision, 0.7, "it was decided to go with {}"),
    rule("let us use|stick", Takes::Thing, Decision, 0.7, "it was decided to {v} {}"),
    rule("we will|are go|going with", Takes::Thing, Decision, 0.8, "it was decided to go with {}"),
    rule("the decision is to|that", Takes::Clause, Decision, 0.8, "it was decided {v} {}"),
    rule("i decided|resolved to", Takes::Clause, Decision, 0.7, "{who} decided to {}"),
    rule("i have decided to", Takes::Clause, Decision, 0.7, "{who} decided to {}"),
    // What is to be done.
    rule("remind me to", Takes::Clause, Todo, 0.8, "{who} wants to be reminded to {}"),
    rule("todo", Takes::Clause, Todo, 0.7, "{who} has to do: {}"),
    rule("i need|have to", Takes::Dated, Todo, 0.6, "{who} has to {}"),
    rule("i must", Takes::Dated, Todo, 0.6, "{who} has to {}"),
    // What somebody aims at.
    rule("i want to become", Takes::Thing, Goal, 0.7, "{who} wants to become {}"),
    rule("i want to be a|an", Takes::Role, Goal, 0.7, "{who} wants to be {v} {}"),
    rule(
        "i want to learn|start|open|write|visit|study|move|buy|build|run",
        Takes::Thing,
        Goal,
        0.6,
        "{who} wants to {v} {}",
    ),
    rule("i am planning|hoping to", Takes::Clause, Goal, 0.6, "{who} is {d} to {}"),
    rule("i plan|hope to", Takes::Clause, Goal, 0.6, "{who} plans to {}"),
    rule("i dream of", Takes::Thing, Goal, 0.6, "{who} dreams of {}"),
    // What somebody likes.
    rule("i prefer", Takes::Thing, Preference, 0.7, "{who} prefers {}"),
    rule("i really|always prefer", Takes::Thing, Preference, 0.7, "{who} prefers {}"),
    rule("i like", Takes::Thing, Preference, 0.6, "{who} likes {}"),
    rule("i really like", Takes::Thing, Preference, 0.6, "{who} likes {}"),
    rule("i love", Takes::Thing, Preference, 0.6, "{who} loves {}"),
    rule("i really love", Takes::Thing, Preference, 0.6, "{who} loves {}"),
    rule("i enjoy", Takes::Thing, Preference, 0.5, "{who} enjoys {}"),
    rule("i hate", Takes::Thing, Preference, 0.6, "{who} hates {}"),
    rule("i dislike", Takes::Thing, Preference, 0.6, "{who} dislikes {}"),
    rule("i do not like|eat|drink|want", Takes::Thing, Preference, 0.7, "{who} does not {v} {}"),
    rule("i can not eat|stand|drink", Takes::Thing, Preference, 0.7, "{who} cannot {v} {}"),
    rule("i am not a fan of", Takes::Thing, Preference, 0.6, "{who} is not a fan of {}"),
    rule("i am a fan of", Takes::Thing, Preference, 0.6, "{who} is a fan of {}"),
    // What happens, and when.
    rule(
        "i am going|flying|moving|travelling|traveling|leaving|starting|getting|having|meeting|visiting",
        Takes::Dated,
        Event,
        0.6,
        "{who} is {v} {}",
    ),
    rule("i have a|an", Takes::Dated, Event, 0.6, "{who} has {v} {}"),
    rule(
        "i went|visited|met|started|finished|bought|got|lost|won|passed|signed|joined|adopted",
        Takes::Dated,
        Event,
        0.6,
        "{who} {v} {}",
    ),
    rule(
        "we are going|flying|moving|travelling|traveling|leaving|getting|having|meeting|visiting",
        Takes::Dated,
        Event,
        0.6,
        "{who} and others are {v} {}",
    ),
    rule(
        "we went|visited|met|started|finished|bought|got|won|signed|adopted",
        Takes::Dated,
        Event,
        0.6,
        "{who} and others {v} {}",
    ),
    // German, French and Spanish, for the plainest of these.
    rule("mein name ist", Takes::Name, Identity, 0.9, "{who}'s name is {}"),
    rule("ich heiße|heisse", Takes::Name, Identity, 0.9, "{who}'s name is {}"),
    rule("ich wohne|lebe in", Takes::Place, Identity, 0.7, "{who} lives in {}"),
    rule("ich komme aus", Takes::Place, Identity, 0.7, "{who} comes from {}"),
    rule("ich arbeite als", Takes::Place, Identity, 0.7, "{who} works as {}"),
    rule("ich arbeite bei", Takes::Place, Identity, 0.7, "{who} works at {}"),
    rule("ich bevorzuge", Takes::Thing, Preference, 0.7, "{who} prefers {}"),
    rule("wir haben beschlossen|entschieden", Takes::Clause, Decision, 0.8, "it was decided: {}"),
    rule("je m'appelle", Takes::Name, Identity, 0.9, "{who}'s name is {}"),
    rule("j'habite à|a|en|au", Takes::Place, Identity, 0.7, "{who} lives in {}"),
    rule("je travaille chez", Takes::Place, Identity, 0.7, "{who} works at {}"),
    rule("je travaille comme", Takes::Place, Identity, 0.7, "{who} works as {}"),
    rule("je préfère", Takes::Thing, Preference, 0.7, "{who} prefers {}"),
    rule("j'aime|j'adore", Takes::Thing, Preference, 0.6, "{who} likes {}"),
    rule("nous avons décidé de", Takes::Clause, Decision, 0.8, "it was decided: {}"),
    rule("me llamo", Takes::Name, Identity, 0.9, "{who}'s name is {}"),
    rule("mi nombre es", Takes::Name, Identity, 0.9, "{who}'s name is {}"),
    rule("vivo en", Takes::Place, Identity, 0.7, "{who} lives in {}"),
    rule("trabajo como|de", Takes::Place, Identity, 0.7, "{who} works as {}"),
    rule("trabajo en", Takes::Place, Identity, 0.7, "{who} works at {}"),
    rule("prefiero", Takes::Thing, Preference, 0.7, "{who} prefers {}"),
    rule("me gusta|gustan", Takes::Thing, Preference, 0.6, "{who} likes {}"),
    rule("hemos decidido", Takes::Clause, Decision, 0.8, "it was decided: {}"),
];
