//! Lines of the log that wait while somebody talks on the terminal, so that they come neither into an answer nor into the line
//! that is typed.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};

use parking_lot::Mutex;

/// A model that is away for hours is told of again and again: earlier lines are only counted.
const HELD_MAX: usize = 50;

/// `None`: lines are written at once.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

#[derive(Default)]
struct Held {
    lines: VecDeque<Vec<u8>>,
    n_dropped: usize,
}

impl Held {
    fn add(&mut self, line: &[u8]) {
        if self.lines.len() == HELD_MAX {
            self.lines.pop_front();
            self.n_dropped += 1;
        }
        self.lines.push_back(line.to_owned());
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.n_dropped > 0 {
            writeln!(out, "({} earlier lines of the log are left out)", self.n_dropped)?;
        }
        self.lines.iter().try_for_each(|line| out.write_all(line))
    }
}

/// Stderr, unless lines are held.
pub(super) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut *HELD.lock() {
            Some(held) => held.add(line),
            None => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// While it lasts, the log writes to a terminal only when it is released. What goes elsewhere is not held.
pub struct HeldLog(());

impl HeldLog {
    pub fn begin() -> Self {
        if io::stderr().is_terminal() {
            *HELD.lock() = Some(Held::default());
        }
        Self(())
    }

    /// Writes what has been held so far.
    pub fn release(&self) {
        let held = HELD.lock().as_mut().map(std::mem::take);
        write(held);
    }
}

impl Drop for HeldLog {
    fn drop(&mut self) {
        let held = HELD.lock().take();
        write(held);
    }
}

fn write(held: Option<Held>) {
    // Nobody is left to tell when the log itself cannot be written.
    let _closed = held.map(|held| held.write(&mut io::stderr().lock()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_held_and_the_others_counted() {
        let mut held = Held::default();
        (0..HELD_MAX + 2).for_each(|n| held.add(format!("line {n}\n").as_bytes()));
        let mut out = Vec::new();
        held.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("(2 earlier lines of the log are left out)\nline 2\nline 3\n"), "{text}");
        assert!(text.ends_with(&format!("line {}\n", HELD_MAX + 1)), "{text}");
    }
}
