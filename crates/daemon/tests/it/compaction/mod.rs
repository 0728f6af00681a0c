//! The main job from outside: the real binary, a fake model server that refuses bad requests, and time to compact.
mod anthropic;
mod engines;
mod faults;
mod pruning;
mod responses;
mod restarts;
pub(crate) mod rig;
mod stages;
mod summaries;
mod window;
