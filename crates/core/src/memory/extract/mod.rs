//! Memories by rule, without a model.
//!
//! Precision before recall: a rule applies at the beginning of a clause only, never in a question, a condition or
//! somebody else's words.

mod clause;
mod person;
mod rules;
mod when;

use std::collections::HashSet;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::DraftMemory;
use crate::message::{Entry, Role};
use crate::sentences::sentences;
use clause::Clause;
use rules::{Rule, Takes, rules_from};

/// Most memories from one entry, and from one call: who pastes a page does not fill the store.
const ENTRY_MAX: usize = 3;
const CALL_MAX: usize = 40;

/// Longest sentence that is looked at, in bytes: a longer one is no statement about oneself.
const SENTENCE_MAX: usize = 400;

/// Finds memories in what people said ("my name is", "I prefer", "we decided", "remember that" and their like).
///
/// Each is a sentence that stands for itself, with the author's name in the place of "I"; the author is its subject,
/// unless it is a decision. The same sentence is found once.
pub fn extract(entries: &[Arc<Entry>]) -> Vec<DraftMemory> {
    let mut found = Vec::new();
    let mut known = HashSet::new();
    for entry in entries.iter().filter(|entry| entry.role == Role::User) {
        let speaker = Speaker::of(entry);
        let text = entry.text();
        let mut fenced = false;
        let spoken = text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fence && !fenced && !line.trim_start().starts_with('>')
        });
        spoken
            .flat_map(sentences)
            .filter(|sentence| sentence.len() <= SENTENCE_MAX)
            .flat_map(|sentence| in_sentence(sentence, &speaker))
            .filter(|memory| known.insert(memory.text.to_lowercase()))
            .take(ENTRY_MAX)
            .for_each(|memory| found.push(memory));
        if found.len() >= CALL_MAX {
            break;
        }
    }
    found.truncate(CALL_MAX);
    found
}

struct Speaker {
    name: String,
    day: Date,
}

impl Speaker {
    fn of(entry: &Entry) -> Self {
        let name = entry.author.as_ref().map_or_else(String::new, |author| {
            let name = if author.name.trim().is_empty() { &author.id } else { &author.name };
            name.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let name = if name.is_empty() { "somebody".to_owned() } else { name };
        Self { name, day: entry.at.to_zoned(TimeZone::UTC).date() }
    }
}

/// A rule that fits a sentence: from which word its lead begins, and where its object does.
struct Fit {
    rule: &'static Rule,
    lead: usize,
    object: usize,
    /// The words that the wild card of the lead stands for.
    wild: (usize, usize),
}

fn in_sentence(sentence: &str, speaker: &Speaker) -> Vec<DraftMemory> {
    let clause = Clause::of(sentence);
    if clause.is_question() {
        return Vec::new();
    }
    let mut fits: Vec<Fit> = Vec::new();
    let mut at = 0;
    while at < clause.words.len() {
        let rules = rules_from(clause.word(at));
        let begins = !rules.is_empty() && clause.may_begin_at(at);
        let fit = rules.iter().filter(|_| begins).find_map(|rule| fit(rule, &clause, at));
        at = fit.as_ref().map_or(at + 1, |fit| fit.object);
        fits.extend(fit);
    }
    let mut memories = Vec::new();
    for (nth, fit) in fits.iter().enumerate() {
        let next = fits.get(nth + 1);
        // "Remember that my name is …": the inner rule says it better.
        if fit.rule.takes == Takes::Told && next.is_some_and(|next| next.lead == fit.object) {
            continue;
        }
        let until = next.map_or(clause.words.len(), |next| next.lead);
        let told = nth > 0 && fits[nth - 1].rule.takes == Takes::Told && fits[nth - 1].object == fit.lead;
        if let Some(mut memory) = draft(fit, &clause, until, speaker) {
            if told {
                memory.importance = memory.importance.max(0.9);
            }
            memories.push(memory);
        }
    }
    memories
}

/// Matches the lead of a rule with the words from `at` on.
fn fit(rule: &'static Rule, clause: &Clause<'_>, at: usize) -> Option<Fit> {
    let mut word = at;
    let mut wild = (at, at);
    let mut parts = rule.lead.split(' ').peekable();
    while let Some(part) = parts.next() {
        if part == "*" {
            let after = parts.peek()?;
            let end = (word + 1..word + 4).find(|end| clause.is_any_of(*end, after))?;
            wild = (word, end);
            word = end;
        } else if clause.is_any_of(word, part) {
            word += 1;
        } else {
            return None;
        }
    }
    Some(Fit { rule, lead: at, object: word, wild })
}

fn draft(fit: &Fit, clause: &Clause<'_>, until: usize, speaker: &Speaker) -> Option<DraftMemory> {
    let Fit { rule, object, .. } = *fit;
    let object = match rule.takes {
        Takes::Name => clause.name_from(object, until)?,
        Takes::Place => clause.short_from(object, until, 6)?,
        Takes::Thing => clause.thing_from(object, until)?,
        Takes::Role => clause.role_from(object, until)?,
        Takes::Clause => clause.rest_from(object, until)?,
        Takes::Told => clause.rest_from(object, until).filter(|_| !clause.addresses_you(object, until))?,
        Takes::Nothing => "",
        Takes::Dated => clause.rest_from(object, until).filter(|rest| when::names_a_time(rest))?,
    };
    let spoken = person::third(object);
    let wild = clause.text_of(fit.wild.0, fit.wild.1);
    let lead_word = |back: usize| fit.object.checked_sub(back).map_or("", |at| clause.word(at));
    let mut text = String::with_capacity(rule.says.len() + spoken.len() + speaker.name.len());
    let mut says = rule.says;
    while let Some((before, (hole, rest))) =
        says.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        text.push_str(before);
        text.push_str(match hole {
            "who" => &speaker.name,
            "x" => wild,
            "v" => lead_word(1),
            "d" => lead_word(2),
            _ => &spoken,
        });
        says = rest;
    }
    text.push_str(says);
    if when::is_relative(object) {
        text.push_str(&format!(" (said on {})", speaker.day));
    }
    let decision = rule.kind == super::MemoryKind::Decision;
    Some(DraftMemory {
        kind: rule.kind,
        text,
        subject: (!decision).then(|| speaker.name.clone()),
        importance: rule.importance,
        by: None,
    })
}

#[cfg(test)]
mod tests;
