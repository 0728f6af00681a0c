//! Usage of model calls: summed up by day, channel, person, purpose and model from the journal, and grouped as people ask
//! for it.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::limits::Price;
use crate::registry::day_of;
use cairn_types::event::{CompactionEvent, Event, Record, TurnEvent};
use cairn_types::ids::{AgentId, ChannelId};
use cairn_types::model::Usage;

/// What a call was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpendPurpose {
    Answer,
    Compaction,
}

impl SpendPurpose {
    pub fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Compaction => "compaction",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Answer, Self::Compaction].into_iter().find(|purpose| purpose.name() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpendKey {
    /// In UTC.
    pub day: Date,
    /// `None`: the call belongs to no channel.
    pub channel: Option<ChannelId>,
    /// `PLATFORM/USER`; empty for a compaction, and where the journal does not say.
    pub person: String,
    pub purpose: SpendPurpose,
    /// By its id in the configuration.
    pub model: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendSum {
    pub calls: u64,
    /// Calls whose tokens are our own estimate, in whole or in part.
    pub estimated: u64,
    pub usage: Usage,
}

impl std::ops::AddAssign for SpendSum {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.estimated = self.estimated.saturating_add(other.estimated);
        self.usage += other.usage;
    }
}

/// The usage in a record. Tokens of a call for several people are divided among them; the first one gets the call and the
/// remainder.
pub fn spent(record: &Record) -> Vec<(SpendKey, SpendSum)> {
    let (model, usage, is_estimate, people, purpose) = match &record.event {
        Event::Turn(TurnEvent::UsageReported {
            model, usage, disbelieved, is_estimate, caused_by, ..
        }) => {
            let people: Vec<&str> = caused_by.iter().map(String::as_str).collect();
            (model, *usage, *is_estimate || disbelieved.is_some(), people, SpendPurpose::Answer)
        }
        Event::Compaction(CompactionEvent::UsageSpent { model, usage, is_estimate, .. }) => {
            (model, *usage, *is_estimate, Vec::new(), SpendPurpose::Compaction)
        }
        _ => return Vec::new(),
    };
    // A call of the embedded model is no expense.
    if usage == Usage::default() {
        return Vec::new();
    }
    let people = if people.is_empty() { vec![""] } else { people };
    let n_people = people.len() as u64;
    let share = |tokens: u64, idx: usize| tokens / n_people + if idx == 0 { tokens % n_people } else { 0 };
    let rows = people.into_iter().enumerate().map(|(idx, person)| {
        let key = SpendKey {
            day: day_of(record.at),
            channel: record.channel.clone(),
            person: person.to_owned(),
            purpose,
            model: model.clone(),
        };
        let usage = Usage {
            input_tokens: share(usage.input_tokens, idx),
            output_tokens: share(usage.output_tokens, idx),
            cached_tokens: share(usage.cached_tokens, idx),
            cache_write_tokens: share(usage.cache_write_tokens, idx),
        };
        let (calls, estimated) = (u64::from(idx == 0), u64::from(idx == 0 && is_estimate));
        (key, SpendSum { calls, estimated, usage })
    });
    rows.collect()
}

/// How sums are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpendBy {
    Day,
    Agent,
    Channel,
    Person,
    Purpose,
    Model,
}

impl SpendBy {
    pub const ALL: [Self; 6] =
        [Self::Day, Self::Agent, Self::Channel, Self::Person, Self::Purpose, Self::Model];

    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Agent => "agent",
            Self::Channel => "channel",
            Self::Person => "person",
            Self::Purpose => "purpose",
            Self::Model => "model",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.name() == name)
    }
}

/// A sum of one group. Keys that it is not grouped by are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpendLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<SpendPurpose>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(flatten)]
    pub sum: SpendSum,
    /// In the currency of the prices, at today's prices; `None`: none of its models has a price.
    pub cost: Option<f64>,
}

/// Groups rows as requested, in the order of the groups.
pub fn summed_up(
    rows: impl IntoIterator<Item = (SpendKey, SpendSum)>,
    by: &[SpendBy],
    prices: &BTreeMap<String, Price>,
) -> Vec<SpendLine> {
    let mut lines: BTreeMap<Vec<String>, SpendLine> = BTreeMap::new();
    for (key, sum) in rows {
        let agent = key.channel.as_ref().map(ChannelId::agent);
        let shown = |by: &SpendBy| match by {
            SpendBy::Day => key.day.to_string(),
            SpendBy::Agent => agent.as_ref().map(ToString::to_string).unwrap_or_default(),
            SpendBy::Channel => key.channel.as_ref().map(ToString::to_string).unwrap_or_default(),
            SpendBy::Person => key.person.clone(),
            SpendBy::Purpose => key.purpose.name().to_owned(),
            SpendBy::Model => key.model.clone(),
        };
        let line = lines.entry(by.iter().map(shown).collect()).or_insert_with(|| {
            let has = |one| by.contains(&one);
            SpendLine {
                day: has(SpendBy::Day).then_some(key.day),
                agent: agent.clone().filter(|_| has(SpendBy::Agent)),
                channel: key.channel.clone().filter(|_| has(SpendBy::Channel)),
                person: has(SpendBy::Person).then(|| key.person.clone()),
                purpose: has(SpendBy::Purpose).then_some(key.purpose),
                model: has(SpendBy::Model).then(|| key.model.clone()),
                ..SpendLine::default()
            }
        });
        line.sum += sum;
        if let Some(price) = prices.get(&key.model) {
            *line.cost.get_or_insert_default() += price.of(sum.usage);
        }
    }
    lines.into_values().collect()
}

/// Money in words, with its currency unless that is empty.
pub fn amount(amount: f64, currency: &str) -> String {
    let gap = if currency.is_empty() { "" } else { " " };
    format!("{}{gap}{currency}", money(amount))
}

/// Money in words: cents, or more digits below a cent.
pub fn money(amount: f64) -> String {
    // A sum of nothing is a negative zero.
    let amount = amount + 0.0;
    if amount == 0.0 || amount.abs() >= 0.01 {
        return format!("{amount:.2}");
    }
    // Two digits that say something.
    let zeros = (-amount.abs().log10()).floor().clamp(2.0, 15.0) as usize;
    let text = format!("{amount:.*}", zeros + 2);
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, "0.00")]
    #[case(-0.0, "0.00")]
    #[case(12.0, "12.00")]
    #[case(0.126, "0.13")]
    #[case(0.01, "0.01")]
    #[case(0.009_9, "0.0099")]
    #[case(0.004, "0.004")]
    #[case(0.000_123_4, "0.00012")]
    #[case(0.000_000_5, "0.0000005")]
    fn money_has_as_many_digits_as_it_needs(#[case] amount: f64, #[case] expected: &str) {
        assert_eq!(money(amount), expected);
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, ..Usage::default() }
    }

    fn answered(at_text: &str, channel: &str, people: &[&str], usage: Usage, is_estimate: bool) -> Record {
        let event = Event::Turn(TurnEvent::UsageReported {
            model: "main".to_owned(),
            estimated: 1,
            usage,
            disbelieved: None,
            is_estimate,
            set_window: None,
            caused_by: people.iter().map(|&person| person.to_owned()).collect::<BTreeSet<_>>(),
            trace: None,
        });
        Record { n: 1, at: at(at_text), channel: Some(channel.parse().unwrap()), event }
    }

    fn compacted(at_text: &str, channel: &str, usage: Usage) -> Record {
        let model = "small".to_owned();
        let event =
            Event::Compaction(CompactionEvent::UsageSpent { model, usage, is_estimate: false, trace: None });
        Record { n: 1, at: at(at_text), channel: Some(channel.parse().unwrap()), event }
    }

    fn rows() -> Vec<(SpendKey, SpendSum)> {
        let records = [
            answered("2026-03-01T23:59:59Z", "main/discord/1", &["discord/ann"], usage(100, 10), false),
            answered(
                "2026-03-02T00:00:00Z",
                "main/discord/1",
                &["discord/ann", "discord/bob"],
                usage(101, 10),
                true,
            ),
            answered("2026-03-02T01:00:00Z", "other/local/x", &["local/me"], usage(7, 1), false),
            compacted("2026-03-02T02:00:00Z", "main/discord/1", usage(1_000, 50)),
        ];
        records.iter().flat_map(spent).collect()
    }

    fn shown(by: &[SpendBy]) -> Vec<(String, u64, u64)> {
        let prices = BTreeMap::new();
        let name = |line: &SpendLine| {
            let parts = [
                line.day.map(|day| day.to_string()),
                line.agent.as_ref().map(ToString::to_string),
                line.channel.as_ref().map(ToString::to_string),
                line.person.clone(),
                line.purpose.map(|purpose| purpose.name().to_owned()),
                line.model.clone(),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        };
        let lines = summed_up(rows(), by, &prices);
        lines.iter().map(|line| (name(line), line.sum.usage.input_tokens, line.sum.calls)).collect()
    }

    #[test]
    fn sums_are_told_apart_by_what_is_asked_for_and_add_up_to_the_same() {
        let expect = |by: &[SpendBy], expected: &[(&str, u64, u64)]| {
            let expected: Vec<_> =
                expected.iter().map(|(name, tokens, calls)| ((*name).to_owned(), *tokens, *calls)).collect();
            assert_eq!(shown(by), expected);
        };
        expect(&[], &[("", 1_208, 4)]);
        expect(&[SpendBy::Day], &[("2026-03-01", 100, 1), ("2026-03-02", 1_108, 3)]);
        expect(&[SpendBy::Agent], &[("main", 1_201, 3), ("other", 7, 1)]);
        expect(
            &[SpendBy::Person],
            &[("", 1_000, 1), ("discord/ann", 151, 2), ("discord/bob", 50, 0), ("local/me", 7, 1)],
        );
        expect(
            &[SpendBy::Purpose, SpendBy::Model],
            &[("answer main", 208, 3), ("compaction small", 1_000, 1)],
        );
    }

    #[test]
    fn what_has_a_price_costs_it_and_what_has_none_costs_nothing_known() {
        let price = Price { input: 10.0, output: 100.0, ..Price::default() };
        let prices = BTreeMap::from([("small".to_owned(), price)]);
        let lines = summed_up(rows(), &[SpendBy::Purpose], &prices);
        assert_eq!(lines.iter().map(|line| line.cost).collect::<Vec<_>>(), [None, Some(0.015)]);
        assert_eq!(lines[0].sum.estimated, 1, "a call of two people is one call");
    }
}
