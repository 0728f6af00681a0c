//! `watch = true`: a change of the config file, or of a prompt, is a reload.

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

/// A file is taken as written when nothing happened for so long.
const QUIET: Duration = Duration::from_millis(300);

/// A file that is written all the time is read after so long at the latest.
const QUIET_MAX: Duration = Duration::from_secs(5);

/// Pause after the folders could not be watched.
const RETRY: Duration = Duration::from_secs(30);

/// What files held when they were last looked at; a file that cannot be read has a content of its own.
type Seen = BTreeMap<PathBuf, Option<u64>>;

/// Watches for as long as it is asked for, and waits while it is not. Never returns.
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
                tracing::warn!(%error, "cannot watch the configuration; `cairn reload` does without");
                metrics::counter!("cairn_watch_failures_total").increment(1);
                sleep(RETRY).await;
            }
        }
    }
}

/// The config file and the prompts that it names.
fn files_of(loaded: &Loaded) -> BTreeSet<PathBuf> {
    let prompts = loaded.config.agents.iter().flat_map(|agent| [&agent.prompt, &agent.compactor_prompt]);
    loaded.file.iter().chain(prompts.flatten()).cloned().collect()
}

/// Watches the folders, since editors write a file beside and rename it; there is room for one event, which says that
/// there was one.
fn begin(files: &BTreeSet<PathBuf>) -> notify::Result<(RecommendedWatcher, mpsc::Receiver<()>)> {
    let (tell, events) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let read = matches!(&event, Ok(event) if matches!(event.kind, EventKind::Access(_)));
        if !read {
            // A full queue knows already.
            let _ = tell.try_send(());
        }
    })?;
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    for folder in folders {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
    }
    Ok((watcher, events))
}

/// Reloads when the files have other contents than before; `seen` outlives the watcher, so that nothing that is saved
/// while a reload changes what is watched goes unread. Returns when there is nothing to hear any more.
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
            // A task of its own: a reload is never broken off. Told in the log, whichever way it went.
            let reloader = Arc::clone(reloader);
            let reload = tokio::spawn(async move { drop(reloader.reload("a changed file").await) });
            if reload.await.is_err() {
                tracing::error!("a reload panicked; please report it");
            }
        }
        if events.recv().await.is_none() {
            return;
        }
        // Until it is quiet, but not for ever.
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
