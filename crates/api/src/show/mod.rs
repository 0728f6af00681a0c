//! How records look, whoever shows them.

pub mod bar;
