//! A network that a bridge connects: the real daemon, and a bridge that speaks the protocol of `docs/src/bridges.md`.

mod check;
mod irc;
mod rig;
mod talk;
mod trouble;
