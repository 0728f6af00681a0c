//! The threads of sled. For what a thread was to do that could not be started, under a limit of memory or of tasks, it waits
//! forever, also where it panics for want of one: so it is opened only where all of them can be started.

use std::io;
use std::path::Path;
use std::thread;

use cairn_core::ports::StoreError;
use parking_lot::Mutex;

use crate::disk::io_error;

/// Seven that write and one that flushes (`threadpool.rs` and `flusher.rs` of sled 0.34.7), and one more.
const N_THREADS: usize = 9;

/// Checks that sled can start its threads, to be called before it is opened.
///
/// # Errors
/// The system has not so many to give.
pub(crate) fn can_start(dir: &Path) -> Result<(), StoreError> {
    start_together(N_THREADS).map_err(io_error("start the threads for", dir))
}

/// Their stacks are kept at hand by the C library: sled's threads get them.
fn start_together(n_threads: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let closed = gate.lock();
        let mut started =
            (0..n_threads).map(|_| thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())));
        let outcome = started.try_for_each(|thread| thread.map(drop));
        drop(closed);
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_can_be_started_end_again() {
        let before = std::fs::read_dir("/proc/self/task").unwrap().count();
        start_together(200).unwrap();
        let after = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(after < before + 200, "{before} threads, then {after}");
    }
}
