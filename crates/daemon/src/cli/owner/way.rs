//! The way of an owner to their state. systemd keeps the states of dynamic users in a folder that root alone may enter,
//! `/var/lib/private`; only their own service sees it otherwise. So does this process, once its way is open.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::thread::UnshareFlags;

use super::Owner;
use crate::cli::failure::Failure;

/// Lets the owner get to the folder, where a folder above it bars them: in a view of the file system that this process alone
/// has. To be called by root, before there is any other thread. Returns by which name it is reached: what was barred is empty
/// but for that.
///
/// # Errors
/// The system allows no such view.
pub(super) fn open(named: &Path, owner: Owner) -> Result<PathBuf, Failure> {
    // What cannot be looked at, the command finds out.
    let Ok(dir) = fs::canonicalize(named) else { return Ok(named.to_owned()) };
    let outermost = dir.ancestors().skip(1).filter(|above| !may_enter(above, owner)).last();
    let Some(barred) = outermost.map(Path::to_owned) else {
        return Ok(named.to_owned());
    };
    uncover(&barred, &dir).map_err(|error| {
        Failure::failed(
            format!(
                "the state is of another user ({}), who cannot get to it: {} can be entered by root alone, and no other \
                 view of it can be made ({error})",
                owner.uid,
                barred.display()
            ),
            "start the service, which commands then ask; or run this outside of a container",
        )
    })?;
    Ok(dir)
}

fn may_enter(dir: &Path, owner: Owner) -> bool {
    fs::metadata(dir).is_ok_and(|found| {
        let bit = match (found.uid(), found.gid()) {
            (uid, _) if uid == owner.uid => 0o100,
            (_, gid) if gid == owner.gid => 0o010,
            _ => 0o001,
        };
        found.mode() & bit != 0
    })
}

/// Puts an empty folder in the place of `barred`, with nothing in it but the way to `dir`.
fn uncover(barred: &Path, dir: &Path) -> io::Result<()> {
    #[expect(deprecated, reason = "unsafe where open files are parted; here only mounts are")]
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    // Nobody else sees what is mounted from here on.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // In this view, and before it is covered.
    let folder = File::open(dir)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", barred, "tmpfs", flags, c"mode=0755,size=1m")?;
    fs::create_dir_all(dir)?;
    for above in dir.ancestors().skip(1).take_while(|above| above.starts_with(barred)) {
        fs::set_permissions(above, Permissions::from_mode(0o755))?;
    }
    mount_bind(format!("/proc/self/fd/{}", folder.as_raw_fd()), dir)?;
    Ok(())
}
