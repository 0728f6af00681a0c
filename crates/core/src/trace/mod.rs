//! Requests of the past, made again from their traces, and the story of a turn or a run that they tell.

mod frame;
mod of_run;
mod rebuild;
mod story;
#[cfg(test)]
mod tests;
mod which;

pub use frame::frame_of;
pub use of_run::{RunStory, is_of_run, run_story};
pub use rebuild::{Gap, Inputs, Rebuilt, rebuild};
pub use story::{Stage, Story, StoryCall, Told, story};
pub use which::{TurnRecords, WhichTurn};
