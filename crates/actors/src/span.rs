//! What every line of the log carries that belongs to a turn, a run or a delivery. Spans are errors by level, so that they are
//! there however little is logged.

use cairn_core::ids::{RunId, TurnId};
use cairn_core::ports::OutboxItem;
use tracing::{Span, error_span};

use crate::handle::ChannelHandle;

/// Around a turn: its task, its tools, what the chat sees of it.
pub(crate) fn turn(handle: &ChannelHandle, turn: &TurnId) -> Span {
    error_span!("turn", %turn, channel = %handle.id, agent = %handle.id.agent())
}

pub(crate) fn run(handle: &ChannelHandle, run: &RunId) -> Span {
    error_span!("run", %run, channel = %handle.id, agent = %handle.id.agent())
}

/// Around a delivery, which belongs to the turn that it answers.
pub(crate) fn delivery(item: &OutboxItem) -> Span {
    let (turn, channel) = (&item.turn, &item.channel);
    error_span!("delivery", delivery = %item.id, %turn, %channel, agent = %channel.agent())
}

/// Around a call of a tool; `tool` is one that there is.
pub(crate) fn tool(tool: &str) -> Span {
    error_span!("tool", tool)
}
