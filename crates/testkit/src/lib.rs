//! Fakes and builders for tests, and the tools that measure.

pub mod daemon;
pub mod kills;
pub mod locomo;
