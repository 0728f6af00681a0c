//! What views and index show of the journal while both are closed.

use cairn_types::ports::StoreError;

use crate::files::disk::Layout;
use crate::index;
use crate::journal::open::ViewState;
use crate::views::db::Check;
use crate::views::opening;

/// Of sled, for a look at closed views.
const CACHE_BYTES: u64 = 8 * 1024 * 1024;

/// What views and index show of the journal, both closed. The lock is held.
pub(crate) fn view_state(layout: &Layout) -> Result<ViewState, StoreError> {
    let (state, check) = check_closed(layout)?;
    for problem in check.problems {
        tracing::warn!(
            problem,
            "the views are damaged; they may not show which records of the journal they have"
        );
    }
    Ok(state)
}

/// What closed views and index show, and what is wrong with the views.
pub(super) fn check_closed(layout: &Layout) -> Result<(ViewState, Check), StoreError> {
    let (mut state, mut check) = (ViewState::default(), Check::default());
    if let Some(views) = opening::look_into_closed(&layout.views, CACHE_BYTES)? {
        (state, check) = (views.state, views.check);
        // Nothing is wrong with rows of another version: the next start makes them again.
        for problem in &mut check.problems {
            problem.push_str("; the next start rebuilds the views");
        }
    }
    state.last.push(index::reach(&layout.index));
    Ok((state, check))
}
