//! Files that go with the next message of `cairn chat`.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cairn_api::error::ErrorDetail;
use cairn_api::message::{FILES_MAX, IncomingFile, MESSAGE_BYTES_MAX};
use cairn_api::text::{bytes, counted, one_line};
use rustyline::completion::unescape;

/// What was attached and not sent yet.
#[derive(Default)]
pub(super) struct Attached {
    files: Vec<IncomingFile>,
    /// What `~` stands for in a line.
    home: Option<PathBuf>,
}

impl Attached {
    pub(super) fn at_home(home: Option<PathBuf>) -> Self {
        Self { files: Vec::new(), home }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files, for the message that they go with.
    pub(super) fn take(&mut self) -> Vec<IncomingFile> {
        std::mem::take(&mut self.files)
    }

    /// Attaches the file that a line `/file PATH` names; without a path nothing stays attached.
    pub(super) async fn line(&mut self, given: &str) -> Result<(), ErrorDetail> {
        if given.is_empty() {
            self.files.clear();
            return Ok(());
        }
        let path = self.path_of(given);
        // What is typed while a pipe is read would be lost.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(unreadable(&path, &"it is not a file"));
        }
        self.add(path).await
    }

    pub(super) async fn add(&mut self, path: PathBuf) -> Result<(), ErrorDetail> {
        if self.files.len() == FILES_MAX {
            let why = format!("a message has at most {FILES_MAX} files");
            return Err(not_attached("too_many_files", &path, &why, "send it with another message"));
        }
        let left = MESSAGE_BYTES_MAX - self.files.iter().map(|file| file.bytes.len()).sum::<usize>();
        let opened = path.clone();
        let read = tokio::task::spawn_blocking(move || read(&opened, left)).await;
        let read = read.map_err(|panic| unreadable(&path, &panic))?;
        let Some(bytes) = read.map_err(|error| unreadable(&path, &error))? else {
            let together = if self.is_empty() { "" } else { " together" };
            let why =
                format!("the files of a message have at most {} MiB{together}", MESSAGE_BYTES_MAX >> 20);
            return Err(not_attached("too_large", &path, &why, "send a part of it, or fewer files"));
        };
        let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        self.files.push(IncomingFile { name: name.into_owned(), media_type: None, bytes });
        Ok(())
    }

    /// What goes with the next message, for people.
    pub(super) fn shown(&self) -> String {
        let size = |n: u64| if n < 1024 { counted(n, "byte", "bytes") } else { bytes(n) };
        let name =
            |file: &IncomingFile| format!("{} ({})", one_line(&file.name), size(file.bytes.len() as u64));
        let names: Vec<_> = self.files.iter().map(name).collect();
        match names.as_slice() {
            [] => "no file is attached".to_owned(),
            names => format!("attached to the next message: {}", names.join(", ")),
        }
    }

    /// The path as typed; else as terminals paste one, and as Tab completes it: quoted, or with backslashes.
    fn path_of(&self, given: &str) -> PathBuf {
        let typed = self.below_home(given);
        if typed.exists() {
            return typed;
        }
        let quoted = |mark: char| given.strip_prefix(mark)?.strip_suffix(mark).map(Cow::Borrowed);
        let bare = quoted('\'').or_else(|| quoted('"')).unwrap_or_else(|| unescape(given, Some('\\')));
        self.below_home(&bare)
    }

    fn below_home(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(path),
        }
    }
}

/// A file's bytes; `None`: there are more than so many.
fn read(path: &Path, most: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> ErrorDetail {
    let hint = "check the path and the file's permissions";
    not_attached("unreadable_file", path, &format!("it cannot be read: {why}"), hint)
}

fn not_attached(code: &str, path: &Path, why: &str, hint: &str) -> ErrorDetail {
    let message = format!("`{}` is not attached: {why}", one_line(&path.to_string_lossy()));
    ErrorDetail { code: code.to_owned(), message, hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_may_be_quoted_escaped_or_below_home() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("the plan.md"), "plan").unwrap();
        let folder = dir.path().to_str().unwrap();
        let mut attached = Attached::at_home(Some(dir.path().to_owned()));
        for given in [
            "'DIR/the plan.md'",
            "\"DIR/the plan.md\"",
            "DIR/the\\ plan.md",
            "DIR/the plan.md",
            "~/the plan.md",
        ] {
            attached.line(&given.replace("DIR", folder)).await.unwrap();
        }
        assert_eq!(attached.shown().matches("the plan.md (4 bytes)").count(), 5);
        assert_eq!(attached.take()[0].bytes, b"plan");
        assert_eq!(attached.shown(), "no file is attached");
        for (given, why) in [("DIR", "not a file"), ("DIR/none", "No such file")] {
            let error = attached.line(&given.replace("DIR", folder)).await.unwrap_err();
            assert!(error.message.contains(why), "{error:?}");
        }
    }

    #[tokio::test]
    async fn so_many_files_and_bytes_are_taken_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, n: usize| {
            let path = dir.path().join(name);
            std::fs::write(&path, vec![0; n]).unwrap();
            path
        };
        let (whole, byte) = (file("whole", MESSAGE_BYTES_MAX), file("byte", 1));
        let mut attached = Attached::default();
        attached.add(whole.clone()).await.unwrap();
        assert_eq!(attached.add(byte.clone()).await.unwrap_err().code, "too_large");
        attached.line("").await.unwrap();
        for _ in 0..FILES_MAX {
            attached.add(byte.clone()).await.unwrap();
        }
        assert_eq!(attached.add(byte).await.unwrap_err().code, "too_many_files");
        attached.take();
        assert_eq!(attached.add(file("more", MESSAGE_BYTES_MAX + 1)).await.unwrap_err().code, "too_large");
    }
}
