//! Long work over the store that a browser starts and looks at again: a check or a backup, one at a time.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use cairn_api::error::{ApiError, ErrorDetail};
use cairn_store::{BackupReport, Progress, VerifyReport};
use cairn_types::ports::ProgressReport;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use crate::api::shared::{Shared, backup_error};
use crate::api::watch::StopWhenDropped;

/// Work over the whole store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreJob {
    /// `quick`: only what was added since the last check.
    Check { quick: bool },
    /// Into a new or empty folder of the daemon's machine.
    Backup(PathBuf),
}

/// What a job came to.
#[derive(Debug, Clone)]
pub enum Outcome {
    Checked(Box<VerifyReport>),
    BackedUp(Box<BackupReport>),
    Failed(ErrorDetail),
}

/// The job that was started last.
#[derive(Debug, Clone)]
pub struct JobRecord {
    pub job: StoreJob,
    pub started_at: Timestamp,
    pub progress: ProgressReport,
    /// `None` while it is under way.
    pub outcome: Option<Outcome>,
}

struct Started {
    job: StoreJob,
    at: Timestamp,
    progress: Progress,
    /// It ends with what holds it: the daemon's calls.
    task: AbortOnDropHandle<()>,
    outcome: Arc<Mutex<Option<Outcome>>>,
}

/// Holds the job that was started last, until the daemon stops.
#[derive(Default)]
pub struct StoreJobs(Mutex<Option<Started>>);

impl StoreJobs {
    /// # Errors
    /// Another job is under way, or no daemon runs.
    pub fn start(&self, admin: &Shared, job: StoreJob) -> Result<(), ApiError> {
        admin.runtime()?;
        let mut last = self.0.lock();
        if last.as_ref().is_some_and(|started| !started.task.is_finished()) {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "busy",
                "a check or a backup is already running",
                "wait until it has ended, or stop it",
            ));
        }
        let (progress, outcome) = (Progress::default(), Arc::<Mutex<Option<Outcome>>>::default());
        let work = run(Arc::clone(admin), job.clone(), progress.clone());
        let told = Arc::clone(&outcome);
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let ended = work.await;
            *told.lock() = Some(ended);
        }));
        *last = Some(Started { job, at: admin.clock.now(), progress, task, outcome });
        Ok(())
    }

    /// Stops the job that is under way at its next step.
    pub fn stop(&self) {
        if let Some(started) = self.0.lock().as_ref() {
            started.progress.stop();
        }
    }

    pub fn last(&self) -> Option<JobRecord> {
        let last = self.0.lock();
        let started = last.as_ref()?;
        // In this order: one that has ended has told its outcome before, unless it panicked.
        let has_ended = started.task.is_finished();
        let mut outcome = started.outcome.lock().clone();
        if has_ended && outcome.is_none() {
            outcome = Some(Outcome::Failed(ApiError::internal(&"the work panicked").detail));
        }
        Some(JobRecord {
            job: started.job.clone(),
            started_at: started.at,
            progress: started.progress.now(),
            outcome,
        })
    }
}

async fn run(admin: Shared, job: StoreJob, progress: Progress) -> Outcome {
    // Whoever drops this has the work end at its next step.
    let _stop = StopWhenDropped(progress.clone());
    let done = match &job {
        StoreJob::Check { quick } => {
            let checked = admin.store.verify_watched(*quick, &progress).await.map_err(ApiError::from);
            checked.map(|report| Outcome::Checked(Box::new(report)))
        }
        StoreJob::Backup(dir) => {
            let made = admin.store.backup_watched(dir.clone(), admin.clock.now(), &progress).await;
            made.map_err(backup_error).map(|report| Outcome::BackedUp(Box::new(report)))
        }
    };
    if let StoreJob::Check { quick } = job {
        match &done {
            Ok(_) => tracing::info!(quick, "a check from the page has ended"),
            Err(error) => tracing::warn!(quick, error = error.detail.message, "a check from the page failed"),
        }
    }
    done.unwrap_or_else(|error| Outcome::Failed(error.detail))
}
