//! The real binary from outside: what users and scripts rely on.

mod answer;
mod chain;
mod chat;
mod codes;
mod daemon;
mod demo;
mod docs;
mod doctor;
mod export;
mod files;
mod finishes;
mod history;
mod http;
mod import;
mod init;
mod install;
mod memory;
mod networks;
mod owner;
mod ranking;
mod retain;
mod sampling;
mod spend;
mod terminal;
mod tune;
mod windows;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use cairn_testkit::home::{Home, Run};

const STRANGER: u32 = 12_345;

/// Runs the binary as somebody else, who may enter this home. None where only root could, or where the binary lies closed
/// to others.
fn as_a_stranger(home: &Home, args: &[&str]) -> Option<Run> {
    std::fs::set_permissions(home.path(""), Permissions::from_mode(0o755)).unwrap();
    match home.command(args).uid(STRANGER).gid(STRANGER).output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        output => Some(output.unwrap().into()),
    }
}
