//! sled's files only grow: rows that were written again and again leave them mostly empty. When they are much larger than what
//! is in them the rows are copied beside, a few at a time behind the writing, and the copy takes their place.
//!
//! `views/current` names the folder of the copy that is in use; without it, as at first, sled's files stand in `views/` itself.
//! It is replaced in one step once the copy is whole and durable. Whatever else is in `views/` is of no use, and goes at the
//! next opening, be it a copy half made.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cairn_types::ports::StoreError;

use crate::files::disk::{io_error, put, remove_dir, remove_file};

/// Files that are smaller are left alone.
const SMALL: u64 = 32 << 20;

/// Files that are so many times as large as what is in them are mostly empty: fresh ones are three to four times as large.
const MOST: u64 = 6;

const CURRENT: &str = "current";
const COPY: &str = "rows-";

/// Whether files of that size are worth a copy of what is in them.
pub(super) fn is_due(on_disk: u64, live: u64) -> bool {
    on_disk > SMALL && on_disk > live.saturating_mul(MOST)
}

/// The number of the copy that is in use; 0: none is.
fn current(dir: &Path) -> Result<u64, StoreError> {
    let path = dir.join(CURRENT);
    match fs::read_to_string(&path) {
        Ok(name) => Ok(name.trim().strip_prefix(COPY).and_then(|n| n.parse().ok()).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(io_error("read", &path)(error)),
    }
}

fn copy_path(dir: &Path, n: u64) -> PathBuf {
    if n == 0 { dir.to_owned() } else { dir.join(format!("{COPY}{n}")) }
}

/// The folder of sled's files.
pub(super) fn place(dir: &Path) -> Result<PathBuf, StoreError> {
    Ok(copy_path(dir, current(dir)?))
}

/// Where the next copy is made.
pub(super) fn next_copy(dir: &Path) -> Result<PathBuf, StoreError> {
    Ok(copy_path(dir, current(dir)? + 1))
}

/// Has the next opening take the copy at that place.
pub(super) fn take_over(dir: &Path, copy: &Path) -> Result<(), StoreError> {
    let name = copy.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = dir.join(CURRENT);
    put(&path, |file| file.write_all(name.as_bytes())).map_err(io_error("write", &path))
}

/// Removes what is not in use.
pub(super) fn clean(dir: &Path) -> Result<(), StoreError> {
    let fail = io_error("list", dir);
    let current = current(dir)?;
    let kept = copy_path(dir, current);
    for entry in fs::read_dir(dir).map_err(&fail)? {
        let path = entry.map_err(&fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_copy = name.starts_with(COPY);
        if name == CURRENT || path == kept || (current == 0 && !is_copy) {
            continue;
        }
        if path.is_dir() { remove_dir(&path)? } else { remove_file(&path)? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_files_that_are_mostly_empty_are_copied() {
        let mb = |n: u64| n << 20;
        let cases = [
            (mb(1), 0, false),
            (SMALL, 0, false),
            (mb(64), 0, true),
            (mb(64), mb(20), false),
            (mb(60), mb(10), false),
            (mb(61), mb(10), true),
            (u64::MAX, u64::MAX, false),
        ];
        for (on_disk, live, is) in cases {
            assert_eq!(is_due(on_disk, live), is, "{on_disk} of {live}");
        }
    }

    /// Names of what is left after an opening, with where it finds its rows.
    fn after(files: &[&str], current: Option<&str>) -> (String, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        if let Some(name) = current {
            fs::write(dir.path().join(CURRENT), name).unwrap();
        }
        clean(dir.path()).unwrap();
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != CURRENT)
            .collect();
        left.sort();
        let place = place(dir.path()).unwrap();
        (place.strip_prefix(dir.path()).unwrap().display().to_string(), left)
    }

    #[test]
    fn a_kill_between_any_two_steps_leaves_one_set_of_files() {
        let own = ["db", "conf", "blobs/1"];
        let with = |more: &[&'static str]| -> Vec<&str> { own.iter().chain(more).copied().collect() };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        // Before, half made, whole but not in use: the files of old.
        for files in [with(&[]), with(&["rows-1/conf"]), with(&["rows-1/conf", "rows-1/db", "current.new"])] {
            let (place, left) = after(&files, None);
            assert_eq!(place, "", "{files:?}");
            assert!(["blobs", "conf", "db"].iter().all(|name| left.contains(&name.to_string())), "{left:?}");
            assert!(!left.contains(&"rows-1".to_owned()), "{left:?}");
        }
        // In use; the files of old half removed, and removed.
        for files in [with(&["rows-1/db"]), vec!["blobs/1", "rows-1/db"], vec!["rows-1/db", "snap.1"]] {
            assert_eq!(after(&files, Some("rows-1")), ("rows-1".to_owned(), names(&["rows-1"])), "{files:?}");
        }
        // The copy of a copy.
        let two = ["rows-1/db", "rows-2/db"];
        assert_eq!(after(&two, Some("rows-1")), ("rows-1".to_owned(), names(&["rows-1"])));
        assert_eq!(after(&two, Some("rows-2\n")), ("rows-2".to_owned(), names(&["rows-2"])));
        // Its name is spoiled: what is left is made again from the journal.
        assert_eq!(after(&["rows-1/db"], Some("else")), (String::new(), names(&[])));
    }
}
