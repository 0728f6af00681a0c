//! Tells the program from which commit it is built, and for which target.

mod commit;

use std::env;
use std::path::Path;

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script everything so")]
fn main() {
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed=CAIRN_COMMIT");
    let var = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo:rustc-env=CAIRN_TARGET={}", var("TARGET"));
    println!("cargo:rustc-env=CAIRN_PROFILE={}", var("PROFILE"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = Some(var("CAIRN_COMMIT")).filter(|given| !given.is_empty());
    // A build for development would be made again at each commit.
    let found = given.is_none() && var("PROFILE") == "release";
    let commit = given.or_else(|| found.then(|| commit::of(&source))?);
    println!("cargo:rustc-env=CAIRN_COMMIT={}", commit.as_deref().unwrap_or("not recorded"));
    if found {
        for file in commit::files(&source) {
            println!("cargo:rerun-if-changed={}", file.display());
        }
    }
}
