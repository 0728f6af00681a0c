//! Retention: what of an old state is kept smaller, or not at all. Off where a number is 0.

mod words;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use cairn_types::ids::MemoryId;
use cairn_types::memory::{Memory, MemoryKind};

pub use words::{InUse, WordsExpiry, expire, ranges};

/// What of an old state is kept smaller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RetentionSettings {
    /// Compress journal segments closed this many days ago (`.jsonl.gz`, for zless and zgrep); they stay readable.
    #[schemars(range(max = 36_500))]
    pub compress_days: u32,
    /// Expire the text of segments closed this many days ago, if nothing needs it any more: `[expired]` replaces it.
    /// Text that a window still shows, that no run has summarised yet or that waits for delivery stays until then.
    /// Authors and times, the summaries in the window and memories stay for good. Earlier backups and exports keep the
    /// text.
    #[schemars(range(max = 36_500))]
    pub journal_days: u32,
    /// Maximum MiB of the journal. Above it, the oldest closed segments are compressed; when all are, the oldest text
    /// expires first. If the journal is still too large after that, the log says so, and nothing else is removed.
    #[schemars(range(max = 16_777_216))]
    pub journal_mib: u64,
    /// Forget memories that were neither recalled nor changed for this many days; never a todo or an identity, and
    /// never one with at least this importance (0 to 1).
    #[schemars(range(max = 36_500))]
    pub memory_days: u32,
    #[schemars(range(min = 0, max = 1))]
    pub memory_importance: f64,
    /// Maximum number of an agent's memories; above it, the least important and longest unused ones are forgotten, with
    /// the same exceptions.
    #[schemars(range(max = 1_000_000))]
    pub memory_max: u64,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            compress_days: 0,
            journal_days: 0,
            journal_mib: 0,
            memory_days: 0,
            memory_importance: 0.5,
            memory_max: 0,
        }
    }
}

/// A segment of the journal, as retention sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentFacts {
    /// Number of its first record: its name.
    pub first: u64,
    /// When the next one was begun; none: nobody knows, or it is still written.
    pub closed_at: Option<Timestamp>,
    pub is_open: bool,
    /// Bytes of its file.
    pub bytes: u64,
    pub is_packed: bool,
    /// Nothing can be taken out of it now: its words are gone, or needed, or it could not be read.
    pub is_spent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relief {
    Compress(u64),
    /// The words that nothing needs are taken out of it.
    Expire(u64),
    /// Nothing does any more: it stays over its limit by so many bytes.
    Nothing {
        /// Bytes over the limit.
        over: u64,
    },
}

impl RetentionSettings {
    pub fn is_on(&self) -> bool {
        let Self { compress_days, journal_days, journal_mib, memory_days, memory_max, memory_importance: _ } =
            self;
        [compress_days, journal_days, memory_days].iter().any(|days| **days > 0)
            || [journal_mib, memory_max].iter().any(|most| **most > 0)
    }

    /// Whether a segment is compressed for its age.
    pub fn compresses(&self, segment: &SegmentFacts, now: Timestamp) -> bool {
        !segment.is_packed && is_closed_for(segment, self.compress_days, now)
    }

    /// Whether words are taken out of a segment for its age.
    pub fn expires(&self, segment: &SegmentFacts, now: Timestamp) -> bool {
        !segment.is_spent && is_closed_for(segment, self.journal_days, now)
    }

    /// What comes next to bring the journal within its limit; `None`: it is. `segments`: all, in their order.
    pub fn relief(&self, segments: &[SegmentFacts]) -> Option<Relief> {
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let over = bytes.saturating_sub(self.journal_mib.saturating_mul(1024 * 1024));
        if self.journal_mib == 0 || over == 0 {
            return None;
        }
        let mut closed = segments.iter().filter(|segment| !segment.is_open && !segment.is_spent);
        let plain = closed.clone().find(|segment| !segment.is_packed);
        let next = plain.map(|segment| Relief::Compress(segment.first));
        let oldest = closed.next().map(|segment| Relief::Expire(segment.first));
        Some(next.or(oldest).unwrap_or(Relief::Nothing { over }))
    }

    /// What is to be done, and who somebody is, is never forgotten, nor what is important.
    fn keeps(&self, memory: &Memory) -> bool {
        matches!(memory.kind, MemoryKind::Todo | MemoryKind::Identity)
            || memory.importance >= self.memory_importance
    }

    /// Whether a memory is forgotten for its age.
    pub fn forgets(&self, memory: &Memory, now: Timestamp) -> bool {
        !self.keeps(memory) && is_older(touched(memory), self.memory_days, now)
    }

    /// The memories of an agent that are forgotten: for their age, and those that are too many.
    pub fn forgotten(&self, memories: &[Memory], now: Timestamp) -> Vec<MemoryId> {
        let (mut gone, stay): (Vec<&Memory>, Vec<&Memory>) =
            memories.iter().partition(|memory| self.forgets(memory, now));
        if self.memory_max > 0 {
            let surplus = (stay.len() as u64).saturating_sub(self.memory_max) as usize;
            let mut least: Vec<&Memory> = stay.into_iter().filter(|memory| !self.keeps(memory)).collect();
            least.sort_by(|a, b| {
                a.importance.total_cmp(&b.importance).then_with(|| touched(a).cmp(&touched(b)))
            });
            gone.extend(least.into_iter().take(surplus));
        }
        gone.into_iter().map(|memory| memory.id.clone()).collect()
    }
}

/// A clock that went on by so much more, or less, than the time that passed has jumped.
const JUMP: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Whether a clock went on with the time that passed. What goes for its age is gone for good: by a clock that has jumped
/// nothing goes until it has been as it is for a while.
pub fn clock_went_on(before: Timestamp, now: Timestamp, passed: SignedDuration) -> bool {
    (now.duration_since(before) - passed).abs() <= JUMP
}

/// When a memory was last made, changed or recalled.
fn touched(memory: &Memory) -> Timestamp {
    let used = memory.recalled_at.map_or(memory.updated_at, |recalled| recalled.max(memory.updated_at));
    used.max(memory.created_at)
}

fn is_closed_for(segment: &SegmentFacts, days: u32, now: Timestamp) -> bool {
    !segment.is_open && segment.closed_at.is_some_and(|closed_at| is_older(closed_at, days, now))
}

/// So many whole days have passed; 0 days never have. A moment ahead of the clock is not old.
fn is_older(at: Timestamp, days: u32, now: Timestamp) -> bool {
    days > 0 && now.duration_since(at) >= SignedDuration::from_hours(24 * i64::from(days))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use cairn_types::memory::{Scope, Source};

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).unwrap()
    }

    fn settings() -> RetentionSettings {
        RetentionSettings {
            compress_days: 30,
            journal_days: 60,
            journal_mib: 2,
            memory_days: 90,
            memory_max: 3,
            memory_importance: 0.5,
        }
    }

    #[rstest]
    #[case::a_day_and_its_day(10, 11, 24, true)]
    #[case::an_hour_off(10, 10, 1, true)]
    #[case::a_week_off(10, 17, 0, true)]
    #[case::eight_days_ahead(10, 18, 0, false)]
    #[case::eight_days_back(10, 2, 0, false)]
    #[case::a_year_ahead(10, 375, 24, false)]
    #[case::a_year_that_passed(10, 375, 365 * 24, true)]
    #[case::from_the_epoch_on(0, 20_000, 0, false)]
    fn a_clock_goes_on_with_the_time_that_passed(
        #[case] before: i64,
        #[case] now: i64,
        #[case] hours: i64,
        #[case] went_on: bool,
    ) {
        assert_eq!(clock_went_on(day(before), day(now), SignedDuration::from_hours(hours)), went_on);
    }

    fn segment(first: u64, kib: u64) -> SegmentFacts {
        SegmentFacts {
            first,
            closed_at: Some(day(1)),
            is_open: false,
            bytes: kib * 1024,
            is_packed: false,
            is_spent: false,
        }
    }

    #[rstest]
    #[case::nobody_knows(None, false, false)]
    #[case::old(Some(day(69)), true, false)]
    #[case::to_the_day(Some(day(70)), true, false)]
    #[case::young(Some(day(71)), false, false)]
    #[case::older(Some(day(40)), true, true)]
    #[case::ahead_of_the_clock(Some(day(500)), false, false)]
    fn segments_are_kept_smaller_by_age(
        #[case] closed_at: Option<Timestamp>,
        #[case] compressed: bool,
        #[case] expired: bool,
    ) {
        let closed = SegmentFacts { closed_at, ..segment(1, 1) };
        assert_eq!(settings().compresses(&closed, day(100)), compressed);
        assert_eq!(settings().expires(&closed, day(100)), expired);
        let done = SegmentFacts { is_packed: true, is_spent: true, ..closed };
        assert!(!settings().compresses(&done, day(100)) && !settings().expires(&done, day(100)));
        let open = SegmentFacts { is_open: true, ..closed };
        assert!(!settings().compresses(&open, day(100)) && !settings().expires(&open, day(100)));
        let off = RetentionSettings::default();
        assert!(!off.compresses(&closed, day(100)) && !off.expires(&closed, day(100)) && !off.is_on());
    }

    #[test]
    fn over_its_limit_the_journal_is_compressed_first_and_its_oldest_words_go_last() {
        let open = SegmentFacts { is_open: true, ..segment(30, 600) };
        let packed = |first, kib| SegmentFacts { is_packed: true, ..segment(first, kib) };
        let spent = |first, kib| SegmentFacts { is_spent: true, ..packed(first, kib) };
        let next = |segments: &[SegmentFacts]| settings().relief(segments);
        assert_eq!(next(&[segment(1, 700), segment(9, 700), open]), None, "2,000 KiB are within 2 MiB");
        assert_eq!(next(&[packed(1, 800), segment(9, 800), open]), Some(Relief::Compress(9)));
        assert_eq!(next(&[packed(1, 800), packed(9, 800), open]), Some(Relief::Expire(1)));
        assert_eq!(next(&[spent(1, 800), packed(9, 800), open]), Some(Relief::Expire(9)));
        assert_eq!(next(&[spent(1, 800), spent(9, 648), open]), None, "to the byte");
        assert_eq!(next(&[spent(1, 800), spent(9, 649), open]), Some(Relief::Nothing { over: 1024 }));
        assert_eq!(RetentionSettings::default().relief(&[segment(1, 9000), open]), None, "off");
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
                by: None,
                said_at: None,
                told_by: None,
            },
            created_at: day(1),
            updated_at: day(updated),
            recalled_at: recalled.map(day),
            uses: 0,
            superseded_by: None,
            until: None,
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

    #[test]
    fn of_too_many_memories_the_least_important_and_longest_unused_are_forgotten() {
        let named = |id: &str, memory: Memory| Memory { id: id.into(), ..memory };
        let fact = |importance, updated| memory(MemoryKind::Fact, importance, updated, None);
        let memories = [
            named("old", fact(0.3, 1)),
            named("todo", memory(MemoryKind::Todo, 0.0, 60, None)),
            named("used", memory(MemoryKind::Fact, 0.2, 20, Some(70))),
            named("unused", fact(0.2, 61)),
            named("better", fact(0.3, 60)),
            named("important", fact(0.9, 60)),
        ];
        let gone: Vec<String> =
            settings().forgotten(&memories, day(100)).iter().map(ToString::to_string).collect();
        assert_eq!(gone, ["old", "unused", "used"], "by age; then two more than three that may stay");
        let tight = RetentionSettings { memory_max: 1, ..settings() };
        assert_eq!(
            tight.forgotten(&memories, day(100)).len(),
            4,
            "what is kept is kept, however many there are"
        );
        assert!(RetentionSettings::default().forgotten(&memories, day(100)).is_empty(), "off");
    }
}
