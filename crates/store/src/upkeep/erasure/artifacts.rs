//! The files of artifacts in an erasure: those that go, and those that stay without the person's names.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cairn_core::erasure::Eraser;
use cairn_types::event::{ArtifactEvent, Event, Record};
use cairn_types::ids::ChannelId;
use cairn_types::ports::StoreError;
use cairn_types::text::checksum::checksum;

use crate::files::artifacts::{Named, file_name};
use crate::files::disk::{entries, io_error, put, remove_any, remove_file, sync_dir};

/// Files that take the place of others once the erasure is decided end so. No name of an artifact's own does.
const STAGED: &str = ".staged";

fn folder(dir: &Path, channel: &ChannelId) -> PathBuf {
    dir.join("artifacts").join(file_name(channel.as_str()))
}

/// Blanks their names out of a file that stays, beside it. Its record says how long it is, which it stays, and what its
/// checksum is.
pub(super) fn stage_blanked(dir: &Path, eraser: &Eraser, record: &mut Record) -> Result<(), StoreError> {
    let (Some(channel), Event::Artifact(ArtifactEvent::Stored { artifact })) =
        (&record.channel, &mut record.event)
    else {
        return Ok(());
    };
    if artifact.sent_in.is_some() {
        // Sound: no name can be read in it, but bytes that look like one.
        return Ok(());
    }
    let file = folder(dir, channel).join(file_name(artifact.id.as_str()));
    let bytes = match fs::read(&file) {
        _ if artifact.expired_at.is_some() => return Ok(()),
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("read", &file)(error)),
    };
    // Damaged bytes become one character each, so that the length stays.
    let chunks = bytes.utf8_chunks();
    let text: String =
        chunks.flat_map(|chunk| [chunk.valid().to_owned(), "?".repeat(chunk.invalid().len())]).collect();
    let Some(text) = eraser.blanked(&text) else { return Ok(()) };
    // One that was damaged before stays known as such.
    if artifact.sha256.as_ref().is_some_and(|sha256| *sha256 == checksum(&bytes)) {
        artifact.sha256 = Some(checksum(text.as_bytes()));
    }
    let staged = beside(&file);
    put(&staged, |out| out.write_all(text.as_bytes())).map_err(io_error("write", &staged))
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(STAGED);
    PathBuf::from(name)
}

/// Removes the files of artifacts that go, and all but the `named` ones: what is in others nobody knows.
pub(super) fn remove(dir: &Path, eraser: &Eraser, named: &BTreeSet<Named>) -> Result<(), StoreError> {
    let gone: HashSet<&Named> = eraser.artifacts().collect();
    let mut kept: HashMap<PathBuf, HashSet<String>> = HashMap::new();
    for one in named.iter().filter(|one| !gone.contains(one)) {
        let (channel, id) = one;
        if !eraser.is_dropped(channel) && !eraser.is_renamed(channel) {
            kept.entry(folder(dir, channel)).or_default().insert(file_name(id.as_str()));
        }
    }
    for folder in entries(&dir.join("artifacts"))? {
        let Some(names) = kept.get(&folder) else {
            remove_any(&folder)?;
            continue;
        };
        let mut n_removed = 0;
        for file in entries(&folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let of = name.strip_suffix(STAGED).unwrap_or(&name);
            // One that has expired since it was staged is gone.
            if !names.contains(of) || !folder.join(of).exists() {
                remove_any(&file)?;
                n_removed += 1;
            }
        }
        if n_removed > 0 {
            sync_dir(&folder).map_err(io_error("sync", &folder))?;
        }
    }
    Ok(())
}

/// Hands each folder with the files in it that wait to take the place of others to `each`.
fn staged(dir: &Path, each: impl Fn(&Path) -> Result<(), StoreError>) -> Result<(), StoreError> {
    for folder in entries(&dir.join("artifacts"))?.into_iter().filter(|folder| folder.is_dir()) {
        let files = entries(&folder)?;
        let waits = |file: &&PathBuf| file.to_string_lossy().ends_with(STAGED);
        let waiting: Vec<&PathBuf> = files.iter().filter(waits).collect();
        waiting.iter().try_for_each(|file| each(file))?;
        if !waiting.is_empty() {
            sync_dir(&folder).map_err(io_error("sync", &folder))?;
        }
    }
    Ok(())
}

/// Removes what an earlier attempt has left.
pub(super) fn clear_staged(dir: &Path) -> Result<(), StoreError> {
    staged(dir, remove_file)
}

/// Puts every staged file in the place of its own. To be called again after a crash in its midst.
pub(super) fn swap_staged(dir: &Path) -> Result<(), StoreError> {
    staged(dir, |file| fs::rename(file, file.with_extension("")).map_err(io_error("rename", file)))
}
