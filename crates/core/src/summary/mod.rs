//! Levels of the summary stack: when summaries are merged, and how long they may be.

mod levels;

pub use levels::{Merge, StackSizes, due_merge, stack_cap};
pub(crate) use levels::{SPARED_LEVELS, next_merge};
