//! A terminal, for what asks people: what is typed there, and what it shows.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::daemon::PATIENCE;

/// How often it is looked whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub struct Terminal {
    keys: Arc<File>,
    screen: Receiver<Vec<u8>>,
    /// What came and was not waited for yet.
    shown: String,
    /// All that has come.
    whole: String,
    child: Child,
}

impl Terminal {
    /// Starts a command on a terminal of its own, 100 columns wide.
    ///
    /// # Panics
    /// The machine has no terminal to give, or the command cannot be started.
    pub fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("the terminal can be used");
        let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("it has a size");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("of letters");
        let side = || File::options().read(true).write(true).open(&name).expect("it can be opened");
        command.stdin(side()).stdout(side()).stderr(Stdio::from(side())).env("TERM", "xterm");
        let child = command.spawn().expect("the binary can be started");
        drop(command);
        let keys = Arc::new(File::from(master));
        let (pieces, screen) = channel();
        let read = Arc::clone(&keys);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // Ends with an error when the command has closed the terminal.
            while let Ok(n @ 1..) = (&*read).read(&mut piece) {
                if pieces.send(piece[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keys, screen, shown: String::new(), whole: String::new(), child }
    }

    /// Types, or pastes into a terminal that does not mark what is pasted.
    ///
    /// # Panics
    /// The terminal is gone.
    pub fn type_keys(&mut self, keys: &str) {
        (&*self.keys).write_all(keys.as_bytes()).expect("it is read");
    }

    /// Waits until a text is shown, and passes over everything up to its end.
    ///
    /// # Panics
    /// It does not come.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return;
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.screen.recv_timeout(left) {
                Ok(piece) => self.take(&piece),
                Err(_) => panic!("`{text}` was not shown; what was: {:?}", self.shown),
            }
        }
    }

    fn take(&mut self, piece: &[u8]) {
        let text = String::from_utf8_lossy(piece);
        self.shown.push_str(&text);
        self.whole.push_str(&text);
    }

    /// All that was shown until now.
    pub fn screen(&self) -> &str {
        &self.whole
    }

    /// Sends what Ctrl-C sends where the terminal is the command's own.
    ///
    /// # Panics
    /// The command has ended.
    pub fn interrupt(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("it has a process");
        kill_process(pid, Signal::INT).expect("it is there");
    }

    /// Waits for the end of the command: its exit code.
    ///
    /// # Panics
    /// It does not end, or cannot be waited for.
    #[track_caller]
    pub fn end(mut self) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code();
            }
            match self.screen.recv_timeout(LOOK_EVERY) {
                Ok(piece) => self.take(&piece),
                Err(RecvTimeoutError::Timeout) => {}
                // It has closed its terminal, and ends soon.
                Err(RecvTimeoutError::Disconnected) => std::thread::park_timeout(LOOK_EVERY),
            }
        }
        panic!("it does not end; what was shown: {:?}", self.shown)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ended already, most often.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
