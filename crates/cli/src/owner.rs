//! Who owns a file, for people who may not open it.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Where the names of users are. Those of a directory service are not in it, nor those of another container.
const USERS: &str = "/etc/passwd";

/// Whether a folder is there, or may be there, and is closed to this user.
pub fn may_not_enter(dir: &Path) -> bool {
    let needed = rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(dir, needed).is_err_and(|error| error == rustix::io::Errno::ACCESS)
}

/// The owner of a file, or of the nearest folder above it that can be looked at, as `sudo -u` takes it; none where that is
/// this user.
pub fn other_owner(path: &Path) -> Option<String> {
    let uid = path.ancestors().find_map(|path| std::fs::metadata(path).ok())?.uid();
    let users = std::fs::read_to_string(USERS).unwrap_or_default();
    (uid != rustix::process::geteuid().as_raw()).then(|| name(&users, uid))
}

/// A command line of cairn as that user.
pub fn sudo(owner: &str, command: &str) -> String {
    // In a shell a bare # begins a comment.
    let quote = if owner.starts_with('#') { "'" } else { "" };
    format!("sudo -u {quote}{owner}{quote} cairn {command}")
}

/// The user's name, or `#UID`.
fn name(users: &str, uid: u32) -> String {
    let id = uid.to_string();
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&id));
    let name = line.and_then(|line| line.split(':').next()).filter(|name| !name.is_empty());
    name.map_or_else(|| format!("#{id}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_told_by_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!(name(users, 1000), "ada");
        assert_eq!(sudo(&name(users, 100), "status"), "sudo -u '#100' cairn status");
        assert_eq!(sudo("cairn", "status"), "sudo -u cairn cairn status");
    }
}
