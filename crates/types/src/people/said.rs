//! Filters for the entries of a history.

use jiff::Timestamp;

use crate::ids::Seq;
use crate::message::Author;

/// A query for entries of a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryQuery {
    /// The first entry that is looked at; `to`: the last.
    pub from: Seq,
    pub to: Seq,
    pub said: SaidFilter,
    /// Most entries that are returned.
    pub limit: usize,
    /// Return the newest that fit, not the oldest.
    pub newest: bool,
}

/// When something was said, and by whom.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SaidFilter {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Only what this person said: `PLATFORM/USER`, or a name as it is shown.
    pub user: Option<String>,
}

impl SaidFilter {
    /// Whether an entry of that time and author fits.
    pub fn fits(&self, at: Timestamp, author: Option<&Author>) -> bool {
        self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at <= until)
            && self.user.as_deref().is_none_or(|user| author.is_some_and(|author| author.is(user)))
    }
}

impl Author {
    /// Whether `user` is their id, or their name in any case.
    pub fn is(&self, user: &str) -> bool {
        self.id == user || self.name.to_lowercase() == user.to_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOON: i64 = 1_800_000_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[rstest]
    #[case::of_all(None, None, None, true)]
    #[case::from_then_on(Some(NOON), None, None, true)]
    #[case::up_to_then(None, Some(NOON), None, true)]
    #[case::later(Some(NOON + 1), None, None, false)]
    #[case::earlier(None, Some(NOON - 1), None, false)]
    #[case::by_id(None, None, Some("telegram/7"), true)]
    #[case::by_name(None, None, Some("ann Lee"), true)]
    #[case::of_another(None, None, Some("telegram/70"), false)]
    #[case::by_half_a_name(None, None, Some("Ann"), false)]
    #[case::by_whom_but_not_when(Some(NOON + 1), None, Some("telegram/7"), false)]
    fn an_entry_fits_by_its_time_and_its_author(
        #[case] since: Option<i64>,
        #[case] until: Option<i64>,
        #[case] user: Option<&str>,
        #[case] fits: bool,
    ) {
        let said = SaidFilter { since: since.map(at), until: until.map(at), user: user.map(str::to_owned) };
        let ann = Author { id: "telegram/7".to_owned(), name: "Ann Lee".to_owned() };
        assert_eq!(said.fits(at(NOON), Some(&ann)), fits);
        assert_eq!(said.fits(at(NOON), None), fits && user.is_none(), "nobody said it");
    }
}
