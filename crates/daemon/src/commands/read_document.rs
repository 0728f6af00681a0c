//! The process that reads a document which somebody sent: no command of people. It takes its limits, reads its input, and prints
//! what it found as JSON. Whatever a hostile document does to it, the daemon goes on.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use cairn_cli::failure::exit;
use cairn_platforms::attach::{READER_CPU_SECS, READER_MEMORY, read_document};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

pub(super) fn run() -> ExitCode {
    match read() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cairn: a document cannot be read: {error}");
            ExitCode::from(exit::FAILED)
        }
    }
}

fn read() -> std::io::Result<()> {
    for (resource, most) in
        [(Resource::Data, READER_MEMORY), (Resource::Cpu, READER_CPU_SECS), (Resource::Core, 0)]
    {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    let found = serde_json::to_vec(&read_document(&bytes))?;
    std::io::stdout().lock().write_all(&found)
}
