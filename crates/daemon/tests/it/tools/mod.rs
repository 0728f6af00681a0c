//! Tool servers from outside: the real binary, fake MCP servers over both transports, a fake model that calls what it
//! is told to.
mod approve;
mod children;
mod faults;
mod results;
mod rig;
mod trust;
mod turn;
