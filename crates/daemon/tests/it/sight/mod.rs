//! What is seen of a daemon from outside: its log, which tells nobody's words, and its metrics.
mod board;
mod canary;
mod explain;
mod exposition;
pub(crate) mod figures;
mod lines;
mod rig;
