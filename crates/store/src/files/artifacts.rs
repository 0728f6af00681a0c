//! Artifacts: large tool results and copies of large messages, one file each, in one folder per channel.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_types::event::{ArtifactEvent, Event, Record};
use cairn_types::ids::{ArtifactId, ChannelId};
use cairn_types::message::Artifact;
use cairn_types::ports::{ArtifactLines, LineRange, StoreError};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use percent_encoding::percent_encode_byte;
use sha2::{Digest as _, Sha256};

use super::disk::{blocking, io_error, make_dir, put_by, remove_file, sync_dir};

/// Names the work in the error when it panics.
const WORK: &str = "work on an artifact";

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// Longest name of a folder; file systems take 255 bytes.
const NAME_MAX: usize = 200;

/// An artifact that the journal names.
pub(crate) type Named = (ChannelId, ArtifactId);

/// Updates the set of artifacts that the journal names and that have not expired, by one record.
pub(crate) fn note_named(named: &mut BTreeSet<Named>, record: &Record) {
    let Some(channel) = &record.channel else { return };
    match &record.event {
        Event::Artifact(ArtifactEvent::Stored { artifact }) => {
            named.insert((channel.clone(), artifact.id.clone()));
        }
        Event::Artifact(ArtifactEvent::Expired { ids, .. }) => {
            for id in ids {
                named.remove(&(channel.clone(), id.clone()));
            }
        }
        _ => {}
    }
}

/// A second place that keeps artifacts: the database, when the state folder holds a copy of its journal.
pub(crate) trait ArtifactSource: Send + Sync {
    /// The bytes of an artifact; `None`: there is none of that id. Blocks.
    ///
    /// # Errors
    /// The source does not answer.
    fn artifact(self: Arc<Self>, channel: &ChannelId, id: &ArtifactId)
    -> Result<Option<Vec<u8>>, StoreError>;
}

/// The artifact files of a state folder.
#[derive(Clone)]
pub(crate) struct Artifacts {
    dir: Arc<Path>,
    /// Files to remove when the running backup ends; none: no backup runs.
    held: Arc<Mutex<Option<Vec<PathBuf>>>>,
    /// Where missing files are fetched from; none: the folder has all of them.
    source: Option<Arc<dyn ArtifactSource>>,
}

/// Keeps artifact files from being removed until it is dropped.
pub(crate) struct RemovalHold(Artifacts);

impl Drop for RemovalHold {
    fn drop(&mut self) {
        // Locked to the end: what is stored again under a name waits until the old file is gone.
        let mut held = self.0.held.lock();
        for file in held.take().into_iter().flatten() {
            // The next start removes what is still there then.
            if let Err(error) = remove_file(&file) {
                tracing::warn!(%error, "an expired artifact could not be deleted");
            }
        }
    }
}

impl Artifacts {
    pub(crate) fn of(state: &Path, source: Option<Arc<dyn ArtifactSource>>) -> Self {
        Self { dir: state.join("artifacts").into(), held: Arc::default(), source }
    }

    /// Fetches an artifact's file from the source unless it is here. Blocks.
    ///
    /// # Errors
    /// The source does not answer, or the file cannot be read or written.
    pub(crate) fn fetch(&self, channel: &ChannelId, id: &ArtifactId) -> Result<(), StoreError> {
        let file = self.file(channel, id);
        if self.source.is_none() || file.try_exists().map_err(io_error("read", &file))? {
            return Ok(());
        }
        self.fetch_again(channel, id).map(drop)
    }

    /// Fetches an artifact's file from the source, even when it is here: a leader that lost its lease may have written another
    /// one with this id. False: the source has none. Blocks.
    ///
    /// # Errors
    /// The source does not answer, or the file cannot be written.
    pub(crate) fn fetch_again(&self, channel: &ChannelId, id: &ArtifactId) -> Result<bool, StoreError> {
        let Some(source) = &self.source else { return Ok(false) };
        match Arc::clone(source).artifact(channel, id)? {
            Some(bytes) => put(&self.folder(channel), &self.file(channel, id), &bytes).map(|()| true),
            None => Ok(false),
        }
    }

    /// Delays removals until the returned hold is dropped. Only one hold may exist.
    pub(crate) fn hold(&self) -> RemovalHold {
        *self.held.lock() = Some(Vec::new());
        RemovalHold(self.clone())
    }

    fn folder(&self, channel: &ChannelId) -> PathBuf {
        self.dir.join(file_name(&channel.to_string()))
    }

    pub(crate) fn file(&self, channel: &ChannelId, id: &ArtifactId) -> PathBuf {
        self.folder(channel).join(file_name(id.as_str()))
    }

    /// Checks an artifact's file. `None`: it is sound, or has expired.
    pub(crate) fn wrong(&self, channel: &ChannelId, artifact: &Artifact) -> Option<Wrong> {
        if artifact.expired_at.is_some() {
            return None;
        }
        let file = self.file(channel, &artifact.id);
        let (what, is_lost) = match self.looked(channel, artifact, &file) {
            Ok(None) => return None,
            Ok(Some(what)) => (what, true),
            // Nobody can tell what is in it.
            Err(error) => (format!("cannot be read: {error}"), false),
        };
        let what = format!("channel {channel}: artifact {} ({}) {what}", artifact.id, file.display());
        let is_message = artifact.message.is_some();
        Some(Wrong { id: artifact.id.clone(), what, is_lost, is_message })
    }

    fn looked(&self, channel: &ChannelId, artifact: &Artifact, file: &Path) -> io::Result<Option<String>> {
        self.fetch(channel, &artifact.id).map_err(io::Error::other)?;
        match look(file, artifact)? {
            Some(_) if self.fetch_again(channel, &artifact.id).map_err(io::Error::other)? => {
                look(file, artifact)
            }
            found => Ok(found),
        }
    }

    /// Moves an artifact's file to the folder `aside`. A missing file is no error.
    pub(crate) fn set_aside(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        aside: &Path,
    ) -> Result<(), StoreError> {
        let file = self.file(channel, id);
        make_dir(aside)?;
        let name = file_name(&format!("artifact-{channel}-{id}"));
        match fs::rename(&file, aside.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("move aside", &file)(error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn put(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
        content: Arc<[u8]>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (folder, file) = (self.folder(channel), self.file(channel, id));
        if let Some(held) = self.held.lock().as_mut() {
            held.retain(|gone| *gone != file);
        }
        Box::pin(blocking(WORK, move || put(&folder, &file, &content)))
    }

    pub(crate) fn lines(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
        range: LineRange,
    ) -> BoxFuture<'_, Result<Option<ArtifactLines>, StoreError>> {
        let (file, sha256) = (self.file(channel, &artifact.id), artifact.sha256.clone());
        let (artifacts, channel, id) = (self.clone(), channel.clone(), artifact.id.clone());
        Box::pin(blocking(WORK, move || {
            artifacts.fetch(&channel, &id)?;
            let read = || match File::open(&file) {
                Ok(open) => lines_of(open, sha256.as_deref(), range).map_err(io_error("read", &file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(io_error("open", &file)(error)),
            };
            match read()? {
                None if artifacts.fetch_again(&channel, &id)? => read(),
                found => Ok(found),
            }
        }))
    }

    pub(crate) fn bytes(
        &self,
        channel: &ChannelId,
        artifact: &Artifact,
    ) -> BoxFuture<'_, Result<Option<Arc<[u8]>>, StoreError>> {
        let (file, sha256) = (self.file(channel, &artifact.id), artifact.sha256.clone());
        let (artifacts, channel, id) = (self.clone(), channel.clone(), artifact.id.clone());
        Box::pin(blocking(WORK, move || {
            artifacts.fetch(&channel, &id)?;
            let read = || match fs::read(&file) {
                Ok(bytes) => {
                    let is_sound =
                        sha256.as_ref().is_none_or(|expected| hex(&Sha256::digest(&bytes)) == *expected);
                    Ok(is_sound.then(|| Arc::from(bytes)))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(io_error("read", &file)(error)),
            };
            match read()? {
                None if artifacts.fetch_again(&channel, &id)? => read(),
                found => Ok(found),
            }
        }))
    }

    /// The ids of a channel's artifacts that have a file.
    pub(crate) fn ids(&self, channel: &ChannelId) -> BoxFuture<'_, Result<Vec<ArtifactId>, StoreError>> {
        let folder = self.folder(channel);
        Box::pin(blocking(WORK, move || {
            let files = match fs::read_dir(&folder) {
                Ok(files) => files,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(io_error("list", &folder)(error)),
            };
            let mut ids = Vec::new();
            for file in files {
                let name = file.map_err(io_error("list", &folder))?.file_name();
                // A name that is written otherwise than its id is none that we gave.
                ids.extend(name.to_str().filter(|name| file_name(name) == *name).map(ArtifactId::from));
            }
            Ok(ids)
        }))
    }

    pub(crate) fn remove(
        &self,
        channel: &ChannelId,
        id: &ArtifactId,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let file = self.file(channel, id);
        if let Some(held) = self.held.lock().as_mut() {
            held.push(file);
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(blocking(WORK, move || remove_file(&file)))
    }
}

/// A missing or damaged artifact file.
#[derive(PartialEq)]
pub(crate) struct Wrong {
    pub(crate) id: ArtifactId,
    /// For people.
    pub(crate) what: String,
    /// The content is lost: the file is missing, or not what was written.
    pub(crate) is_lost: bool,
    /// The artifact is the copy of a message.
    pub(crate) is_message: bool,
}

/// How an artifact's file differs from what was written; `None`: it does not.
fn look(file: &Path, artifact: &Artifact) -> io::Result<Option<String>> {
    let mut open = match File::open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some("is missing".to_owned())),
        Err(error) => return Err(error),
    };
    let bytes = open.metadata()?.len();
    if bytes != artifact.bytes {
        return Ok(Some(format!("has {bytes} bytes instead of {}", artifact.bytes)));
    }
    let Some(expected) = &artifact.sha256 else { return Ok(None) };
    Ok((sum(&mut open)? != *expected).then(|| "is damaged: its checksum does not match".to_owned()))
}

/// SHA-256 of the rest of a file, in hex.
fn sum(file: &mut impl Read) -> io::Result<String> {
    let (mut sum, mut buffer) = (Sha256::new(), vec![0; CHUNK]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&sum.finalize())),
            Ok(n) => sum.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name that is safe as a file's and tells what it is of: what is no letter, digit, dot, line or underscore is written
/// in hex; a long one ends in a hash instead of its end.
pub(crate) fn file_name(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(percent_encode_byte(byte)),
        }
    }
    if name.len() > NAME_MAX {
        name.truncate(NAME_MAX - 33);
        name.push('-');
        name.push_str(&hex(&Sha256::digest(text.as_bytes())[..16]));
    }
    name
}

/// Removes temporary files of earlier writes of this artifact: those that a crash cut off, and those that were given up but
/// still run, which then cannot replace this one.
fn clear_leftovers(folder: &Path, file: &Path) -> Result<(), StoreError> {
    let begins = format!("{}.", file.file_name().unwrap_or_default().to_string_lossy());
    for found in fs::read_dir(folder).map_err(io_error("list", folder))? {
        let found = found.map_err(io_error("list", folder))?;
        let name = found.file_name().to_string_lossy().into_owned();
        if name.starts_with(&begins) && name.ends_with(".new") {
            remove_file(&found.path())?;
        }
    }
    Ok(())
}

static WRITES: AtomicU64 = AtomicU64::new(0);

/// Written beside its place, made durable, then renamed: a file that has its name is whole.
fn put(folder: &Path, file: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    make_dir(folder)?;
    // Of its own: a write that was given up may still be under way.
    let fresh = file.with_extension(format!("{}.new", WRITES.fetch_add(1, Ordering::Relaxed)));
    put_by(file, &fresh, |fresh| fresh.write_all(bytes)).map_err(io_error("write", file))?;
    clear_leftovers(folder, file)?;
    // The folder itself may be new.
    match folder.parent() {
        Some(above) => sync_dir(above).map_err(io_error("sync", above)),
        None => Ok(()),
    }
}

/// The lines of a file; `None`: its checksum does not match.
fn lines_of(mut open: File, sha256: Option<&str>, range: LineRange) -> io::Result<Option<ArtifactLines>> {
    if let Some(expected) = sha256 {
        if sum(&mut open)? != expected {
            return Ok(None);
        }
        open.rewind()?;
    }
    lines(open, range).map(Some)
}

fn lines(open: File, range: LineRange) -> io::Result<ArtifactLines> {
    let mut reader = BufReader::new(open);
    for _ in 1..range.from {
        if reader.fill_buf()?.is_empty() {
            break;
        }
        skip_line(&mut reader)?;
    }
    let offset = skip_within_line(&mut reader, range.offset)?;
    let mut bytes: Vec<u8> = Vec::new();
    let (mut n_lines, mut cut_bytes) = (0, 0);
    let mut line = Vec::new();
    while n_lines < range.count {
        let room = range.max_bytes.saturating_sub(bytes.len());
        line.clear();
        // One byte more than there is room for tells a whole line from a cut one.
        (&mut reader).take(room as u64 + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        let words = line.strip_suffix(b"\n").unwrap_or(&line);
        if words.len() > room {
            if n_lines == 0 {
                let whole = floor_char_boundary(words, room);
                let rest = skip_line(&mut reader)?;
                cut_bytes = (words.len() - whole) as u64 + rest;
                bytes.extend_from_slice(&words[..whole]);
                n_lines = 1;
            }
            break;
        }
        bytes.extend_from_slice(&line);
        n_lines += 1;
    }
    if cut_bytes == 0 && bytes.ends_with(b"\n") {
        bytes.pop();
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(ArtifactLines { text, lines: n_lines, offset, cut_bytes })
}

/// Bytes that continue a character.
fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

fn floor_char_boundary(bytes: &[u8], at: usize) -> usize {
    let mut at = at.min(bytes.len());
    while at > 0 && bytes.get(at).is_some_and(|byte| is_continuation(*byte)) {
        at -= 1;
    }
    at
}

/// Passes over so many bytes of a line and the rest of the character there, never over its end; the bytes passed over.
fn skip_within_line(reader: &mut impl BufRead, offset: u64) -> io::Result<u64> {
    let mut n_bytes = 0;
    loop {
        let buffer = reader.fill_buf()?;
        let passes = |(idx, byte): &(usize, &u8)| {
            let at = n_bytes + *idx as u64;
            **byte != b'\n' && (at < offset || (offset > 0 && is_continuation(**byte)))
        };
        let n = buffer.iter().enumerate().take_while(passes).count();
        let ended = n < buffer.len() || n == 0;
        reader.consume(n);
        n_bytes += n as u64;
        if ended {
            return Ok(n_bytes);
        }
    }
}

/// Passes over the rest of a line, however long, and its break; the bytes that it had, without the break.
/// At the end of the file: 0.
fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut n_bytes = 0;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(n_bytes);
        }
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(idx) => (idx + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(used);
        n_bytes += (used - usize::from(ended)) as u64;
        if ended {
            return Ok(n_bytes);
        }
    }
}
