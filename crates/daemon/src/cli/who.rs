//! Whose a file is, for people whom it is closed to.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Where the names of users are. Those of a directory service are not in it, nor those of another container.
const USERS: &str = "/etc/passwd";

/// Whether a folder is there, or may be there, and is closed to this user.
pub(crate) fn may_not_enter(dir: &Path) -> bool {
    let needed = rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(dir, needed).is_err_and(|error| error == rustix::io::Errno::ACCESS)
}

/// The owner of a file, or of the nearest folder above it that can be looked at, as `sudo -u` takes it; none where that is
/// this user.
pub(crate) fn other_owner(path: &Path) -> Option<String> {
    let uid = path.ancestors().find_map(|path| std::fs::metadata(path).ok())?.uid();
    (uid != rustix::process::geteuid().as_raw()).then(|| name(uid))
}

pub(crate) fn owner(path: &Path) -> String {
    other_owner(path).unwrap_or_else(|| "you, and its mode forbids it".to_owned())
}

/// A command line of cairn as that user.
pub(crate) fn sudo(owner: &str, command: &str) -> String {
    // To a shell a bare # begins a comment.
    let quote = if owner.starts_with('#') { "'" } else { "" };
    format!("sudo -u {quote}{owner}{quote} cairn {command}")
}

fn name(uid: u32) -> String {
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    name_in(&users, uid).unwrap_or_else(|| format!("#{uid}"))
}

fn name_in(users: &str, uid: u32) -> Option<String> {
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(uid.to_string().as_str()))?;
    line.split(':').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_told_by_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(name_in(users, 1000).as_deref(), Some("ada"));
        assert_eq!(name_in(users, 100), None);
        let unknown = name(u32::MAX - 7);
        assert_eq!(sudo(&unknown, "status"), "sudo -u '#4294967288' cairn status");
        assert_eq!(sudo("cairn", "status"), "sudo -u cairn cairn status");
    }
}
