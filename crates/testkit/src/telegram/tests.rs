//! The fake refuses what it must.
