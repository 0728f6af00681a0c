//! What settings may be: ranges, and what contradicts what.

use crate::settings::{ResultGuardSettings, WindowGuard};
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
    if settings.reserve_ratio >= settings.background_threshold {
        let reason = format!(
            "must be below background_threshold = {}: what a run may not take must not fill the window by itself",
            settings.background_threshold
        );
        return Err(bad("reserve_ratio", settings.reserve_ratio, reason));
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
    #[case(|_: &mut ResultGuardSettings| {}, None)]
    #[case(|s: &mut ResultGuardSettings| s.max_bytes = 999, Some("max_bytes"))]
    #[case(|s: &mut ResultGuardSettings| s.free_share = 0.0, Some("free_share"))]
    #[case(|s: &mut ResultGuardSettings| s.free_share = 1.0, None)]
    #[case(|s: &mut ResultGuardSettings| s.free_share = f64::NAN, Some("free_share"))]
    #[case(|s: &mut ResultGuardSettings| s.artifact_days = 40_000, Some("artifact_days"))]
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
    #[case(|s: &mut CompactionSettings| s.background_threshold = 0.1, Some("reserve_ratio"))]
    fn limits_of_runs(#[case] change: fn(&mut CompactionSettings), #[case] expected: Option<&str>) {
        let mut settings = CompactionSettings::default();
        change(&mut settings);
        assert_eq!(key(settings.validate()), expected);
    }
}
