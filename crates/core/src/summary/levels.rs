//! Levels of the stack: when adjacent summaries merge, and when the oldest item leaves the window.

use super::{Marker, Stack};
use crate::ids::SummaryId;

/// The merge that is due: the oldest `fan_out` adjacent summaries of the lowest level that holds more than
/// `fan_out` in a row, never across a marker.
pub fn due_merge(stack: &Stack, fan_out: u32) -> Option<(Vec<SummaryId>, u32)> {
    let _ = (stack, fan_out);
    todo!()
}

/// The leading marker that brings the stack under `cap_tokens`, when it is over: it stands for the oldest items.
pub fn due_retirement(stack: &Stack, cap_tokens: u64) -> Option<Marker> {
    let _ = (stack, cap_tokens);
    todo!()
}
