//! The commit of a source tree, as git tells it: none without git, and none in a tree that came without its history.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The commit that is checked out there.
pub(crate) fn of(source: &Path) -> Option<String> {
    is_top(source).then(|| git(source, &["rev-parse", "--short=12", "HEAD"]))?
}

/// The files that change when another commit is checked out or made there.
pub(crate) fn files(source: &Path) -> Vec<PathBuf> {
    let path = |name: &str| Some(source.join(git(source, &["rev-parse", "--git-path", name])?));
    let known = ["HEAD", "logs/HEAD"].into_iter().filter(|_| is_top(source)).filter_map(path);
    known.filter(|file| file.exists()).collect()
}

/// The repository is that of this source, not one that a tree without history was unpacked into.
fn is_top(source: &Path) -> bool {
    let top = git(source, &["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    top.and_then(|top| top.canonicalize().ok())
        .is_some_and(|top| source.canonicalize().is_ok_and(|source| source == top))
}

fn git(source: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(source).args(args).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    Some(said.trim().to_owned()).filter(|said| output.status.success() && !said.is_empty())
}
