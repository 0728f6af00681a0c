//! Checks of what guards the window beside compaction.

use cairn_core::settings::ResultGuardSettings;

use super::agents::below;
use super::check::Check;
use super::source::Seg;

/// Least and most bytes from which a result is large: head, tail and note need some, and a window has an end.
const RESULT_BYTES: (u64, u64) = (1_000, 10_000_000);

/// `[defaults.result_guard]` or that of an agent: the keys that are set there.
pub(super) fn check_result_guard(check: &mut Check<'_, '_>, at: &[Seg], settings: &ResultGuardSettings) {
    let table = below(at, "result_guard");
    let max_bytes = below(&table, "max_bytes");
    if check.source.sets(&max_bytes) {
        check.within(&max_bytes, settings.max_bytes as u64, RESULT_BYTES.0, RESULT_BYTES.1, "bytes");
    }
    let share = below(&table, "free_share");
    if check.source.sets(&share) && !(settings.free_share > 0.0 && settings.free_share <= 1.0) {
        let message = format!("`free_share` = {} is out of range", settings.free_share);
        check.wrong(&share, message, "write a share of the free window, above 0 and up to 1, such as 0.5");
    }
}
