//! The daemon as a service, the real binary under a fake systemd: its life, and reloads while it works.
mod kills;
mod life;
mod reload;
mod rig;
