//! Headers of lists.

/// Header of a list with more pages: the next call's `after`, already encoded for a URL.
pub const NEXT: &str = "cairn-next";

/// Header of a search's answer: how many journal records are not in the index yet. Absent: all are indexed.
pub const UNINDEXED: &str = "cairn-unindexed";
