//! Discord from outside: the real binary between a fake Discord and a fake model, which both refuse what is wrong.

mod away;
mod changes;
mod commands;
mod doors;
mod gateway;
mod kills;
mod outage;
mod rig;
mod shows;
mod talk;
mod trouble;
