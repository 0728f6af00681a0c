//! Shows long work in the terminal: a progress line, and Ctrl-C to stop it.

use std::io::IsTerminal as _;
use std::time::Duration;

use axum::http::Method;
use cairn_store::Progress;
use cairn_types::ports::ProgressReport;
use console::Term;
use serde::Serialize;
use serde::de::DeserializeOwned;

use cairn_cli::args::Global;
use cairn_cli::client::Client;
use cairn_cli::failure::Failure;
use cairn_cli::out;

/// Time between two updates of the line.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// Width of the progress bar, in characters.
const CELLS: usize = 24;

/// The progress line on stderr; `None` without a terminal and with `--json`.
pub(super) struct Line(Option<Term>);

impl Line {
    pub(super) fn new(global: &Global) -> Self {
        Self((!global.json && std::io::stderr().is_terminal()).then(Term::stderr))
    }

    pub(super) fn show(&self, report: &ProgressReport) {
        if let Some(term) = &self.0
            && !report.phase.is_empty()
        {
            // If the terminal is gone, nobody sees the line.
            let _gone = term.clear_line().and_then(|()| term.write_str(&drawn(report)));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(term) = &self.0 {
            let _gone = term.clear_line();
        }
    }
}

fn drawn(report: &ProgressReport) -> String {
    let ProgressReport { phase, done, total } = report;
    // The total is not known yet.
    let Some(percent) = done.saturating_mul(100).checked_div(*total) else { return format!("{phase} …") };
    let full = (percent.min(100) as usize * CELLS) / 100;
    format!("{phase:<10}[{}{}] {percent:>3} %", "#".repeat(full), ".".repeat(CELLS - full))
}

/// Lets a daemon do the work. Ctrl-C closes the connection, which stops the work.
pub(super) async fn by_daemon<T: DeserializeOwned>(
    global: &Global,
    client: &Client,
    (method, path): (Method, &str),
    body: Option<&impl Serialize>,
    stopped: fn() -> Failure,
) -> Result<T, Failure> {
    let line = Line::new(global);
    let work = client.watch(method, path, body, |report| line.show(report));
    tokio::select! {
        done = work => Ok(done?),
        _ = tokio::signal::ctrl_c() => Err(stopped()),
    }
}

/// Watches work of this process. Ctrl-C asks it to stop, and its end is awaited.
pub(super) async fn here<T>(global: &Global, progress: &Progress, work: impl Future<Output = T>) -> T {
    let line = Line::new(global);
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(DRAW_EVERY) => line.show(&progress.now()),
            _ = tokio::signal::ctrl_c() => progress.stop(),
        }
    }
}

/// Asks a question on the terminal. `None`: Ctrl-C, which no longer ends a process that has watched work.
pub(super) async fn ask(question: String) -> Result<Option<String>, Failure> {
    let asked = tokio::task::spawn_blocking(move || out::ask(&question));
    tokio::select! {
        answer = asked => {
            answer.map_err(|error| Failure::failed(format!("cannot ask: {error}"), "add --yes"))?.map(Some)
        }
        _ = tokio::signal::ctrl_c() => Ok(None),
    }
}

pub(super) fn stopped() -> Failure {
    Failure::failed("stopped early; nothing was changed", "try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_the_phase_and_how_much_of_it_is_done() {
        let cases = [
            ((0, 0), "journal …"),
            ((0, 10), "journal   [........................]   0 %"),
            ((5, 10), "journal   [############............]  50 %"),
            ((10, 10), "journal   [########################] 100 %"),
        ];
        for ((done, total), expected) in cases {
            assert_eq!(drawn(&ProgressReport { phase: "journal".to_owned(), done, total }), expected);
        }
    }
}
