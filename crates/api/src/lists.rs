//! Headers of lists.

/// Header of a list that goes on: what the next call gives as `after`, encoded for a URL already.
pub const NEXT: &str = "cairn-next";

/// Header of a search's answer: how many records of the journal are not in the index yet. Absent: all are.
pub const UNINDEXED: &str = "cairn-unindexed";
