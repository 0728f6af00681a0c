//! The store: how large it is, and its checks and backups with their progress.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::{Extension, Form};
use cairn_api::error::ApiError;
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::layout::{Frame, Section, layout};
use crate::links::seen_again;
use crate::pieces::{command, facts, is_poll, live_every, text, time};
use crate::visitor::Visitor;
use cairn_api::text::{bytes, counted, grouped, one_line, plain};
use cairn_server::api::store_jobs::{JobRecord, Outcome, StoreJob, StoreJobs};
use cairn_server::api::{Shared, daemon};

const HERE: &str = "/store";

/// Problems that are listed; the command tells all.
const PROBLEMS: usize = 50;

/// `GET /store`.
pub(super) async fn view(
    State(admin): State<Shared>,
    Extension(jobs): Extension<Arc<StoreJobs>>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Result<Markup, PageError> {
    let last = jobs.last();
    let now = live_every(
        2,
        "job",
        &html! { @if let Some(last) = &last { (job(last, visitor)) } @else { p { "No check or backup was started here since the daemon started." } } },
    );
    if is_poll(&headers, "job") {
        return Ok(now);
    }
    let store = daemon::status(State(admin)).await?.0.store;
    let body = html! {
        (facts(&[
            ("journal", text(format!("{} in {}", bytes(store.journal_bytes), counted(store.segments, "file", "files")))),
            ("databases", text(bytes(store.views_bytes))),
            ("last record", text(grouped(store.last))),
            ("in the databases", text(grouped(store.applied))),
            ("in the index", text(grouped(store.indexed))),
            ("state", match &store.error { Some(error) => html! { span.trouble { (one_line(error)) } }, None => text("no known problems") }),
        ]))
        section aria-labelledby="work" { h2 #work { "Last check or backup" } (now) }
        @if visitor.may_operate() { (forms()) }
    };
    let frame =
        Frame { title: "Store", section: Section::Store, visitor, command: command(&["store", "verify"]) };
    Ok(layout(&frame, &body))
}

fn forms() -> Markup {
    html! {
        section aria-labelledby="check" {
            h2 #check { "Check" }
            p.note { "Checks the whole state while the daemon runs. “Check new records” covers only records since the last check." }
            form.actions method="post" action={ (HERE) "/check" } {
                button name="quick" value="yes" { "Check new records" }
                button name="quick" value="no" { "Check everything" }
            }
        }
        section aria-labelledby="backup" {
            h2 #backup { "Back up" }
            p.note { "Copies everything into a new or empty folder on the daemon's machine, while the daemon runs." }
            form.filter method="post" action={ (HERE) "/backup" } {
                p { label for="dir" { "Folder" } input #dir name="dir" required placeholder="/srv/backups/monday"; }
                p { button { "Back up" } }
            }
        }
    }
}

fn job(last: &JobRecord, visitor: Visitor) -> Markup {
    let what = match &last.job {
        StoreJob::Check { quick: true } => "Check of new records".to_owned(),
        StoreJob::Check { quick: false } => "Full check".to_owned(),
        StoreJob::Backup(dir) => format!("Backup into {}", one_line(&dir.display().to_string())),
    };
    let progress = &last.progress;
    html! {
        p { (what) ", started at " (time(last.started_at)) }
        @match &last.outcome {
            None => {
                p role="status" {
                    progress max=(progress.total.max(1)) value=(progress.done) aria-label="Progress" {}
                    " " (one_line(&progress.phase)) ": " (grouped(progress.done)) " of " (grouped(progress.total))
                }
                @if visitor.may_operate() { form method="post" action={ (HERE) "/stop" } { button #stop { "Stop" } } }
            },
            Some(Outcome::Checked(report)) => {
                @if report.ok { p.well { "No problems found." } } @else { p.trouble { "Problems found." } }
                p { (counted(report.journal.events, "record", "records")) ", " (counted(report.channels, "channel", "channels")) ", " (counted(report.memories, "memory", "memories")) }
                @if !report.problems.is_empty() {
                    ul.troubles { @for problem in report.problems.iter().take(PROBLEMS) { li { (one_line(problem)) } } }
                }
            },
            Some(Outcome::BackedUp(report)) => {
                p.well { "The backup is complete." }
                p { (counted(report.records, "record", "records")) ", " (counted(report.files, "file", "files")) ", " (bytes(report.bytes)) }
                @if !report.missing.is_empty() {
                    ul.troubles { @for missing in report.missing.iter().take(PROBLEMS) { li { (one_line(missing)) } } }
                }
            },
            Some(Outcome::Failed(error)) => {
                p.trouble { (plain(&error.message)) }
                p.note { (plain(&error.hint)) }
            },
        }
    }
}

#[derive(Deserialize)]
pub(super) struct CheckForm {
    quick: String,
}

#[derive(Deserialize)]
pub(super) struct BackupForm {
    dir: String,
}

/// `POST /store/check`.
pub(super) async fn check(
    State(admin): State<Shared>,
    Extension(jobs): Extension<Arc<StoreJobs>>,
    Form(CheckForm { quick }): Form<CheckForm>,
) -> Result<Response, PageError> {
    jobs.start(&admin, StoreJob::Check { quick: quick == "yes" })?;
    Ok(seen_again(HERE))
}

/// `POST /store/backup`.
pub(super) async fn backup(
    State(admin): State<Shared>,
    Extension(jobs): Extension<Arc<StoreJobs>>,
    Form(BackupForm { dir }): Form<BackupForm>,
) -> Result<Response, PageError> {
    let dir = PathBuf::from(dir.trim());
    if !dir.is_absolute() {
        return Err(
            ApiError::malformed("the folder must be an absolute path, such as /srv/backups/monday").into()
        );
    }
    jobs.start(&admin, StoreJob::Backup(dir))?;
    Ok(seen_again(HERE))
}

/// `POST /store/stop`.
pub(super) async fn stop(Extension(jobs): Extension<Arc<StoreJobs>>) -> Response {
    jobs.stop();
    seen_again(HERE)
}
