//! Files of JSON lines, read and checked completely before a command does anything.

use std::io::Read;
use std::path::Path;

use crate::failure::Failure;

/// The bytes of a file, `-` for stdin.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| {
        let message = format!("cannot read {}: {error}", file.display());
        Failure::failed(message, "check the path; `-` reads stdin")
    };
    if file != Path::new("-") {
        return std::fs::read(file).map_err(unreadable);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// The value of each line that is not blank; or the number of the first bad line, and what is wrong with it.
pub fn each<T>(
    bytes: &[u8],
    mut read: impl FnMut(usize, &[u8]) -> Result<T, String>,
) -> Result<Vec<T>, (usize, String)> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines
        .filter(|(_, line)| !line.iter().all(u8::is_ascii_whitespace))
        .map(|(idx, line)| read(idx + 1, line).map_err(|why| (idx + 1, why)))
        .collect()
}
