//! Panics, told by the log: where they happened. What they said may quote what people wrote, and is for debugging.

use std::panic::PanicHookInfo;

/// From here on a panic is a line of the log, in place of text on stderr.
pub(super) fn tell() {
    std::panic::set_hook(Box::new(told));
}

fn told(panic: &PanicHookInfo<'_>) {
    let place =
        panic.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    tracing::error!(place, thread, "panicked: a fault of the program; please report it with this line");
    if let Some(words) = panic.payload_as_str() {
        tracing::debug!(place, words, "what the panic said");
    }
}
