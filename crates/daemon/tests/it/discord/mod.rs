//! Discord from outside: the real binary between a fake Discord and a fake model, which both refuse what is wrong.

mod access;
mod commands;
mod files;
mod restarts;
mod rig;
mod shards;
mod talk;
mod trouble;
mod voice;
