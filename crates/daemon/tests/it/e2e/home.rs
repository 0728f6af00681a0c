//! A home of its own for each test.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

pub(crate) use cairn_testkit::home::{Home, Run};

pub(crate) const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

const STRANGER: u32 = 12_345;

/// An empty home.
pub(crate) fn new() -> Home {
    Home::of(CAIRN)
}

/// Runs the binary as somebody else, who may enter this home. None where only root could, or where the binary lies closed
/// to others.
pub(crate) fn as_a_stranger(home: &Home, args: &[&str]) -> Option<Run> {
    std::fs::set_permissions(home.path(""), Permissions::from_mode(0o755)).unwrap();
    match home.command(args).uid(STRANGER).gid(STRANGER).output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        output => Some(output.unwrap().into()),
    }
}

/// A configuration with one model, at that address.
pub(crate) fn one_model(base_url: &str) -> String {
    format!(
        "[[models]]\nid = \"fake\"\nprovider = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"fake\"\n\
         context_window = 32000\nmax_output_tokens = 1024\n\n[[agents]]\nid = \"main\"\nmodels = [\"fake\"]\n"
    )
}
