//! `watch = true`: reloads when the config file or a prompt file changes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::reload::Reloader;
use cairn_config::Loaded;

/// A file counts as written after this long without an event.
const QUIET: Duration = Duration::from_millis(300);

/// A file that changes all the time is read after this long.
const QUIET_MAX: Duration = Duration::from_secs(5);

/// Pause before a failed watch is repeated.
const RETRY: Duration = Duration::from_secs(30);

/// Hashes of the files' contents at the last check; `None` for a file that cannot be read.
type Seen = BTreeMap<PathBuf, Option<u64>>;

/// Watches the files while `watch` is set. Never returns.
pub async fn watch(reloader: Arc<Reloader>) {
    let mut changes = reloader.live().changes();
    let mut seen = Seen::new();
    loop {
        let loaded = Arc::clone(&changes.borrow_and_update());
        if !loaded.config.watch {
            seen.clear();
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        let files = files_of(&loaded);
        match begin(&files) {
            Ok((watcher, events)) => {
                tokio::select! {
                    () = look_on(&reloader, &files, events, &mut seen) => {}
                    changed = changes.changed() => if changed.is_err() { return },
                }
                drop(watcher);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot watch the configuration; use `cairn reload`");
                metrics::counter!("cairn_watch_failures_total").increment(1);
                sleep(RETRY).await;
            }
        }
    }
}

/// The config file, its prompt files and those of languages.
fn files_of(loaded: &Loaded) -> BTreeSet<PathBuf> {
    let prompts = loaded.config.agents.iter().flat_map(|agent| [&agent.prompt, &agent.compactor_prompt]);
    loaded.file.iter().chain(prompts.flatten()).chain(&loaded.config.language_files).cloned().collect()
}

/// Watches the folders, because editors write a new file and rename it. The channel holds one event: it only says that
/// something changed.
fn begin(files: &BTreeSet<PathBuf>) -> notify::Result<(RecommendedWatcher, mpsc::Receiver<()>)> {
    let (tell, events) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let read = matches!(&event, Ok(event) if matches!(event.kind, EventKind::Access(_)));
        if !read {
            // A full channel already holds an event.
            let _ = tell.try_send(());
        }
    })?;
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    for folder in folders {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
    }
    Ok((watcher, events))
}

/// Reloads when the contents of the files have changed. `seen` is kept across watchers, so that changes made during a
/// reload are noticed. Returns when the watcher has ended.
async fn look_on(
    reloader: &Arc<Reloader>,
    files: &BTreeSet<PathBuf>,
    mut events: mpsc::Receiver<()>,
    seen: &mut Seen,
) {
    loop {
        let now = fingerprint(files).await;
        let differs =
            now.iter().any(|(file, content)| seen.get(file).is_some_and(|before| before != content));
        *seen = now;
        if differs {
            // In its own task, so that a reload is never cancelled halfway. The result is logged.
            let reloader = Arc::clone(reloader);
            let reload = tokio::spawn(async move { drop(reloader.reload("a changed file").await) });
            if reload.await.is_err() {
                tracing::error!("a reload panicked; please report it");
            }
        }
        if events.recv().await.is_none() {
            return;
        }
        // Waits until the files are quiet, with a limit.
        let quiet = async { while let Ok(Some(())) = timeout(QUIET, events.recv()).await {} };
        drop(timeout(QUIET_MAX, quiet).await);
    }
}

async fn fingerprint(files: &BTreeSet<PathBuf>) -> Seen {
    let files = files.clone();
    let read = move || {
        let content = |file: &PathBuf| {
            let bytes = std::fs::read(file).ok()?;
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            Some(hasher.finish())
        };
        files.into_iter().map(|file| (file.clone(), content(&file))).collect()
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
