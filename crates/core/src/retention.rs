//! Retention: what of an old state is kept smaller, or not at all. Off where a number of days is 0.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::memory::{Memory, MemoryKind};

/// `[retention]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetentionSettings {
    /// Journal segments that were closed so many days ago are compressed; 0: never.
    pub compress_days: u32,
    /// Memories that were neither recalled nor changed for so many days are forgotten; 0: never.
    pub memory_days: u32,
    /// Those at least as important stay all the same; 0 to 1.
    pub memory_importance: f64,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self { compress_days: 0, memory_days: 0, memory_importance: 0.5 }
    }
}

impl RetentionSettings {
    /// Something is to be done at all.
    pub fn is_on(&self) -> bool {
        self.compress_days > 0 || self.memory_days > 0
    }

    /// Whether a segment is compressed. `closed_at`: when the next one was begun; none: it is still written.
    pub fn compresses(&self, closed_at: Option<Timestamp>, now: Timestamp) -> bool {
        closed_at.is_some_and(|closed_at| is_older(closed_at, self.compress_days, now))
    }

    /// Whether a memory is forgotten. What is to be done, and who somebody is, never is.
    pub fn forgets(&self, memory: &Memory, now: Timestamp) -> bool {
        let stays = matches!(memory.kind, MemoryKind::Todo | MemoryKind::Identity)
            || memory.importance >= self.memory_importance;
        let touched =
            memory.recalled_at.map_or(memory.updated_at, |recalled| recalled.max(memory.updated_at));
        !stays && is_older(touched.max(memory.created_at), self.memory_days, now)
    }
}

/// So many whole days have passed; 0 days never have. A moment ahead of the clock is not old.
fn is_older(at: Timestamp, days: u32, now: Timestamp) -> bool {
    days > 0 && now.duration_since(at) >= SignedDuration::from_hours(24 * i64::from(days))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::memory::{Scope, Source};

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).unwrap()
    }

    fn settings() -> RetentionSettings {
        RetentionSettings { compress_days: 30, memory_days: 90, memory_importance: 0.5 }
    }

    #[rstest]
    #[case::still_written(None, false)]
    #[case::old(Some(day(69)), true)]
    #[case::to_the_day(Some(day(70)), true)]
    #[case::young(Some(day(71)), false)]
    #[case::ahead_of_the_clock(Some(day(500)), false)]
    fn segments_are_compressed_by_age(#[case] closed_at: Option<Timestamp>, #[case] due: bool) {
        assert_eq!(settings().compresses(closed_at, day(100)), due);
        assert!(!RetentionSettings::default().compresses(closed_at, day(100)), "off");
    }

    fn memory(kind: MemoryKind, importance: f64, updated: i64, recalled: Option<i64>) -> Memory {
        Memory {
            id: "m1".into(),
            agent: "main".into(),
            scope: Scope::Agent,
            kind,
            text: "Tea is at four.".to_owned(),
            subject: None,
            importance,
            sightings: 1,
            source: Source {
                channel: None,
                from_seq: None,
                to_seq: None,
                summary: None,
                model: String::new(),
            },
            created_at: day(1),
            updated_at: day(updated),
            recalled_at: recalled.map(day),
            uses: 0,
            superseded_by: None,
        }
    }

    #[rstest]
    #[case::old(MemoryKind::Fact, 0.3, 1, None, true)]
    #[case::important(MemoryKind::Fact, 0.5, 1, None, false)]
    #[case::to_be_done(MemoryKind::Todo, 0.1, 1, None, false)]
    #[case::who_somebody_is(MemoryKind::Identity, 0.1, 1, None, false)]
    #[case::changed(MemoryKind::Fact, 0.3, 50, None, false)]
    #[case::recalled(MemoryKind::Fact, 0.3, 1, Some(60), false)]
    #[case::recalled_long_ago(MemoryKind::Fact, 0.3, 1, Some(9), true)]
    fn memories_that_nobody_needed_are_forgotten(
        #[case] kind: MemoryKind,
        #[case] importance: f64,
        #[case] updated: i64,
        #[case] recalled: Option<i64>,
        #[case] gone: bool,
    ) {
        let memory = memory(kind, importance, updated, recalled);
        assert_eq!(settings().forgets(&memory, day(100)), gone);
        assert!(!RetentionSettings::default().forgets(&memory, day(100)), "off");
    }
}
