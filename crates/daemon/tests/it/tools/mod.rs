//! Servers of tools from outside: the real binary, fake MCP servers over both transports, a fake model that calls what it
//! is told to.
mod approve;
mod children;
mod faults;
mod house;
mod results;
mod trust;
mod turn;
