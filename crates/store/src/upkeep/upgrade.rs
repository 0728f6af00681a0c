//! Carries a state of an earlier format forward when it is opened, with a copy of its journal kept first.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_types::ports::StoreError;

use crate::files::disk::{Layout, io_error, make_dir, remove_dir, replace, sync_folders};
use crate::files::format::{BEFORE, FORMAT, UNMARKED, mark, read, refuse_newer};
use crate::journal::segment::Lines;
use crate::journal::{line, segment};

/// Marks a new state, and carries one of an earlier format forward, step by step, with a copy kept first. Whoever calls
/// it holds the state's lock.
///
/// # Errors
/// The state is of a newer format, or something cannot be read or written; done again, it goes on where it stopped.
pub(crate) fn upgrade(dir: &Path) -> Result<(), StoreError> {
    refuse_newer(dir)?;
    let mut at = match read(dir)? {
        Some(marker) => marker.format,
        None => match by_journal(&Layout::of(dir).journal)? {
            Some(format) if format < FORMAT => format,
            // Of a later one its lines tell, by their numbers.
            Some(_) | None => return mark(dir, FORMAT),
        },
    };
    while at < FORMAT {
        let kept = keep_copy(dir, at + 1)?;
        // Format 2 only allows what format 1 did not have: nothing is rewritten.
        mark(dir, at + 1)?;
        tracing::warn!(
            from = at,
            to = at + 1,
            kept = %kept.display(),
            "the state was converted to a new format; the old journal is kept until you remove it"
        );
        at += 1;
    }
    Ok(())
}

/// The format of a state without a marker: an early one, or one whose marker was damaged and removed. `None`: it is new.
fn by_journal(journal: &Path) -> Result<Option<u32>, StoreError> {
    if !journal.is_dir() {
        return Ok(None);
    }
    let segments = segment::list(journal)?;
    let mut newest = None;
    for first in segments.into_iter().rev() {
        let path = segment::path(journal, first);
        // Compressed segments came with format 2.
        let packed = if segment::packed_path(&path).exists() { UNMARKED + 1 } else { UNMARKED };
        let last = Lines::open(&path, 0, None)?.last()?;
        newest = newest.max(last.and_then(|line| line::version(&line)).max(Some(packed)));
    }
    Ok(newest)
}

/// Keeps the journal as it is now in a folder of its own. Sealed segments are linked: no format changes a file in its place.
/// One that is there already is whole, and stays.
fn keep_copy(dir: &Path, to: u32) -> Result<PathBuf, StoreError> {
    let kept = dir.join(format!("{BEFORE}{to}"));
    if kept.exists() {
        return Ok(kept);
    }
    let fresh = dir.join(format!("{BEFORE}{to}.new"));
    remove_dir(&fresh)?;
    let copied = copy_journal(&Layout::of(dir).journal, &fresh.join("journal"));
    let made = copied.and_then(|()| {
        sync_folders(&fresh).and_then(|()| replace(&kept, &fresh)).map_err(io_error("make", &kept))
    });
    if made.is_err() {
        // What stays there even so goes at the next try.
        drop(remove_dir(&fresh));
    }
    made.map(|()| kept)
}

fn copy_journal(from: &Path, into: &Path) -> Result<(), StoreError> {
    make_dir(into)?;
    let segments = segment::list(from)?;
    for first in &segments {
        let source = segment::file_of(&segment::path(from, *first));
        let target = into.join(source.file_name().unwrap_or_default());
        let linked = Some(first) != segments.last() && fs::hard_link(&source, &target).is_ok();
        if !linked {
            let copy = || {
                fs::copy(&source, &target)?;
                fs::File::open(&target)?.sync_all()
            };
            copy().map_err(io_error("copy", &source))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::files::format::FILE;

    fn old_state() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let journal = Layout::of(dir.path()).journal;
        fs::create_dir_all(&journal).unwrap();
        fs::write(segment::path(&journal, 1), "one\n").unwrap();
        fs::write(segment::path(&journal, 2), "two\n").unwrap();
        dir
    }

    #[test]
    fn a_new_state_is_marked_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        upgrade(dir.path()).unwrap();
        let marker = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(marker, format!("{{\"format\":2,\"written_by\":\"{}\"}}\n", env!("CARGO_PKG_VERSION")));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_old_state_is_carried_forward_with_a_copy_that_later_appends_do_not_change() {
        let dir = old_state();
        // A copy that was cut short is restarted.
        fs::create_dir_all(dir.path().join("before-format-2.new/journal")).unwrap();
        upgrade(dir.path()).unwrap();
        upgrade(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap().unwrap().format, FORMAT);
        let journal = Layout::of(dir.path()).journal;
        fs::write(segment::path(&journal, 2), "two\nthree\n").unwrap();
        let kept = dir.path().join("before-format-2");
        let text = |first| fs::read_to_string(segment::path(&kept.join("journal"), first)).unwrap();
        assert_eq!((text(1), text(2)), ("one\n".to_owned(), "two\n".to_owned()));
        assert_eq!(fs::metadata(segment::path(&journal, 1)).unwrap().nlink(), 2, "sealed ones take no room");
        assert!(!dir.path().join("before-format-2.new").exists());
    }

    #[test]
    fn a_newer_state_is_refused_by_name_and_a_garbled_marker_says_what_to_do() {
        let dir = old_state();
        fs::write(dir.path().join(FILE), r#"{"format":7,"written_by":"3.1.4","more":true}"#).unwrap();
        let before = fs::read_dir(dir.path()).unwrap().count();
        let error = upgrade(dir.path()).unwrap_err();
        assert!(matches!(error, StoreError::Newer { format: 7, known: FORMAT, .. }), "{error}");
        assert!(error.to_string().contains("3.1.4"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);
        // A state of format 1 has no marker, and this version writes format 2.
        let of = |format| format!("{{\"format\":{format},\"written_by\":\"{}\"}}", env!("CARGO_PKG_VERSION"));
        for garbled in ["{\"form".to_owned(), of(0), of(1), of(3), of(6)] {
            fs::write(dir.path().join(FILE), &garbled).unwrap();
            let error = upgrade(dir.path()).unwrap_err();
            assert!(error.to_string().contains("remove the file"), "{garbled}: {error}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before, "{garbled}");
        }
        fs::remove_file(dir.path().join(FILE)).unwrap();
        upgrade(dir.path()).unwrap();
        assert_eq!(read(dir.path()).unwrap().unwrap().format, FORMAT);
    }

    #[test]
    fn a_copy_has_compressed_segments_too_and_one_that_fails_leaves_nothing() {
        let dir = old_state();
        let journal = Layout::of(dir.path()).journal;
        let packed = segment::packed_path(&segment::path(&journal, 1));
        fs::rename(segment::path(&journal, 1), &packed).unwrap();
        let kept = keep_copy(dir.path(), 7).unwrap();
        assert!(kept.join("journal").join(packed.file_name().unwrap()).exists());
        fs::create_dir(segment::path(&journal, 3)).unwrap();
        keep_copy(dir.path(), 8).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the journal, and what was kept before");
    }
}
