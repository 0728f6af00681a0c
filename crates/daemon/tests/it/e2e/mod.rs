//! The real binary from outside: what users and scripts rely on.

mod chain;
mod chat;
mod codes;
mod daemon;
mod docs;
mod doctor;
mod export;
mod home;
mod http;
mod init;
mod install;
mod memory;
mod networks;
mod owner;
mod replay;
mod retain;
mod tune;
