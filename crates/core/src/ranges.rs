//! What settings may be: ranges, and what contradicts what.

use crate::compaction::check_instruction;
use crate::settings::{PruningSettings, ResultGuardSettings, WindowGuard};
use crate::tier::{BadSetting, CompactionSettings};

/// Largest number of tokens that any setting may name.
const TOKENS_MAX: u64 = 100_000_000;

/// Largest size of a single result that any setting may name, in bytes or characters.
const RESULT_MAX: usize = 64 << 20;

fn bad(key: &'static str, value: impl ToString, reason: impl Into<String>) -> BadSetting {
    BadSetting { key, value: value.to_string(), reason: reason.into() }
}

fn tokens(key: &'static str, value: u64, low: u64) -> Result<(), BadSetting> {
    if (low..=TOKENS_MAX).contains(&value) {
        return Ok(());
    }
    Err(bad(key, value, format!("must be a number of tokens from {low} to {TOKENS_MAX}")))
}

fn size(key: &'static str, value: usize, low: usize) -> Result<(), BadSetting> {
    if (low..=RESULT_MAX).contains(&value) {
        return Ok(());
    }
    Err(bad(key, value, format!("must be from {low} to {RESULT_MAX}")))
}

/// Fewest bytes of a shrunk result: its notice must fit.
const SHRINK_BYTES_MIN: usize = 400;

impl WindowGuard {
    /// Checks ranges and order.
    ///
    /// # Errors
    /// The first setting that is out of range or contradicts another.
    pub fn validate(&self) -> Result<(), BadSetting> {
        tokens("min_tokens", self.min_tokens, 0)?;
        tokens("warn_tokens", self.warn_tokens, 0)?;
        if self.min_tokens > self.warn_tokens {
            let reason = format!("must not be above warn_tokens = {}", self.warn_tokens);
            return Err(bad("min_tokens", self.min_tokens, reason));
        }
        Ok(())
    }
}

impl PruningSettings {
    /// Checks ranges and order.
    ///
    /// # Errors
    /// The first setting that is out of range or contradicts another.
    pub fn validate(&self) -> Result<(), BadSetting> {
        tokens("protect_tokens", self.protect_tokens, 0)?;
        tokens("min_win_tokens", self.min_win_tokens, 0)?;
        size("shrink_bytes", self.shrink_bytes, SHRINK_BYTES_MIN)?;
        for (key, ratio) in [("soft_ratio", self.soft_ratio), ("hard_ratio", self.hard_ratio)] {
            if !(0.0..=1.0).contains(&ratio) {
                return Err(bad(key, ratio, "must be from 0 to 1, such as 0.30 for 30 %"));
            }
        }
        if self.soft_ratio > self.hard_ratio {
            let reason = format!("must not be below soft_ratio = {}", self.soft_ratio);
            return Err(bad("hard_ratio", self.hard_ratio, reason));
        }
        size("soft_chars", self.soft_chars, 200)?;
        size("keep_chars", self.keep_chars, 1)?;
        if self.keep_chars.saturating_mul(2) >= self.soft_chars {
            let reason = format!(
                "must be below half of soft_chars = {}: head and tail are kept, and something is to be won",
                self.soft_chars
            );
            return Err(bad("keep_chars", self.keep_chars, reason));
        }
        if self.keep_replies > 1_000 {
            return Err(bad("keep_replies", self.keep_replies, "must be from 0 to 1000"));
        }
        Ok(())
    }
}

impl ResultGuardSettings {
    /// Checks ranges.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<(), BadSetting> {
        size("max_bytes", self.max_bytes, 1_000)?;
        if !(self.free_share > 0.0 && self.free_share <= 1.0) {
            return Err(bad(
                "free_share",
                self.free_share,
                "must be above 0 and at most 1, such as 0.5 for half",
            ));
        }
        if self.artifact_days > 36_500 {
            return Err(bad(
                "artifact_days",
                self.artifact_days,
                "must be a number of days from 0 (never) to 36500",
            ));
        }
        if self.artifact_mib > 1_048_576 {
            return Err(bad(
                "artifact_mib",
                self.artifact_mib,
                "must be a number of MiB from 0 (no limit) to 1048576",
            ));
        }
        Ok(())
    }
}

/// Checks the limits of runs and of the stack.
pub(crate) fn runs(settings: &CompactionSettings) -> Result<(), BadSetting> {
    if settings.call_timeout_secs == 0 {
        return Err(bad("call_timeout_secs", 0, "must be 1 or more"));
    }
    for (key, secs) in
        [("timeout_secs", settings.timeout_secs), ("call_timeout_secs", settings.call_timeout_secs)]
    {
        if secs > 86_400 {
            return Err(bad(key, secs, "must be a day (86400 seconds) or less"));
        }
    }
    if let Some(target) = settings.target_tokens {
        tokens("target_tokens", target, 50)?;
        if settings.stack_tokens > 0 && target > settings.stack_tokens {
            let reason = format!("must not be above stack_tokens = {}", settings.stack_tokens);
            return Err(bad("target_tokens", target, reason));
        }
    }
    if settings.stack_tokens > 0 {
        tokens("stack_tokens", settings.stack_tokens, 100)?;
    }
    if settings.max_messages == 1 || settings.max_messages > 1_000_000 {
        return Err(bad("max_messages", settings.max_messages, "must be 0 (off) or from 2 to 1000000"));
    }
    if let Some(Err(error)) = settings.instructions.as_deref().map(check_instruction) {
        return Err(bad("instructions", format!("{} characters", error.chars), error.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn key(result: Result<(), BadSetting>) -> Option<&'static str> {
        result.err().map(|bad| bad.key)
    }

    #[rstest]
    #[case(WindowGuard { min_tokens: 0, warn_tokens: 0 }, None)]
    #[case(WindowGuard { min_tokens: 32_000, warn_tokens: 32_000 }, None)]
    #[case(WindowGuard { min_tokens: 32_001, warn_tokens: 32_000 }, Some("min_tokens"))]
    #[case(WindowGuard { min_tokens: 0, warn_tokens: TOKENS_MAX + 1 }, Some("warn_tokens"))]
    fn limits_of_the_window_guard(#[case] settings: WindowGuard, #[case] expected: Option<&str>) {
        assert_eq!(key(settings.validate()), expected);
    }

    #[rstest]
    #[case(|_: &mut PruningSettings| {}, None)]
    #[case(|s: &mut PruningSettings| s.soft_ratio = 0.6, Some("hard_ratio"))]
    #[case(|s: &mut PruningSettings| s.soft_ratio = f64::NAN, Some("soft_ratio"))]
    #[case(|s: &mut PruningSettings| s.hard_ratio = 1.1, Some("hard_ratio"))]
    #[case(|s: &mut PruningSettings| s.hard_ratio = s.soft_ratio, None)]
    #[case(|s: &mut PruningSettings| s.keep_chars = 1_999, None)]
    #[case(|s: &mut PruningSettings| s.keep_chars = 2_000, Some("keep_chars"))]
    #[case(|s: &mut PruningSettings| s.keep_chars = usize::MAX, Some("keep_chars"))]
    #[case(|s: &mut PruningSettings| s.shrink_bytes = 10, Some("shrink_bytes"))]
    #[case(|s: &mut PruningSettings| s.keep_replies = 5_000, Some("keep_replies"))]
    fn limits_of_pruning(#[case] change: fn(&mut PruningSettings), #[case] expected: Option<&str>) {
        let mut settings = PruningSettings::default();
        change(&mut settings);
        assert_eq!(key(settings.validate()), expected);
    }

    #[rstest]
    #[case(|_: &mut ResultGuardSettings| {}, None)]
    #[case(|s: &mut ResultGuardSettings| s.max_bytes = 999, Some("max_bytes"))]
    #[case(|s: &mut ResultGuardSettings| s.free_share = 0.0, Some("free_share"))]
    #[case(|s: &mut ResultGuardSettings| s.free_share = 1.0, None)]
    #[case(|s: &mut ResultGuardSettings| s.free_share = f64::NAN, Some("free_share"))]
    #[case(|s: &mut ResultGuardSettings| s.artifact_days = 40_000, Some("artifact_days"))]
    #[case(|s: &mut ResultGuardSettings| s.artifact_mib = 2_000_000, Some("artifact_mib"))]
    fn limits_of_the_result_guard(
        #[case] change: fn(&mut ResultGuardSettings),
        #[case] expected: Option<&str>,
    ) {
        let mut settings = ResultGuardSettings::default();
        change(&mut settings);
        assert_eq!(key(settings.validate()), expected);
    }

    #[rstest]
    #[case(|_: &mut CompactionSettings| {}, None)]
    #[case(|s: &mut CompactionSettings| s.call_timeout_secs = 0, Some("call_timeout_secs"))]
    #[case(|s: &mut CompactionSettings| s.timeout_secs = 90_000, Some("timeout_secs"))]
    #[case(|s: &mut CompactionSettings| s.target_tokens = Some(10), Some("target_tokens"))]
    #[case(|s: &mut CompactionSettings| s.target_tokens = Some(800), None)]
    #[case(|s: &mut CompactionSettings| (s.target_tokens, s.stack_tokens) = (Some(800), 700), Some("target_tokens"))]
    #[case(|s: &mut CompactionSettings| s.stack_tokens = 1, Some("stack_tokens"))]
    #[case(|s: &mut CompactionSettings| s.max_messages = 1, Some("max_messages"))]
    #[case(|s: &mut CompactionSettings| s.background_threshold = 0.1, None)]
    #[case(|s: &mut CompactionSettings| s.instructions = Some("x".repeat(4_001)), Some("instructions"))]
    fn limits_of_runs(#[case] change: fn(&mut CompactionSettings), #[case] expected: Option<&str>) {
        let mut settings = CompactionSettings::default();
        change(&mut settings);
        assert_eq!(key(settings.validate()), expected);
    }
}
