//! A model's health: the outcomes of its calls, and how long it is skipped.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use cairn_types::model::ModelError;
use cairn_types::wire::backoff::pause_after;

/// How long failed models are skipped. Pauses double with each consecutive failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoolDowns {
    /// After the first failure of a server that is overloaded, silent, unreachable, or breaks the protocol.
    pub failing: Duration,
    /// After the first refusal for too many requests, if the server names no time.
    pub limited: Duration,
    pub max: Duration,
    /// After a refused key, which an operator must correct.
    pub auth: Duration,
    /// Longest pause that a server may ask for.
    pub asked_max: Duration,
}

impl Default for CoolDowns {
    fn default() -> Self {
        Self {
            failing: Duration::from_secs(30),
            limited: Duration::from_secs(60),
            max: Duration::from_secs(5 * 60),
            auth: Duration::from_secs(30 * 60),
            asked_max: Duration::from_secs(3600),
        }
    }
}

impl CoolDowns {
    /// How long a model is skipped after its `n`-th consecutive failure (from 1). `None`: the error says nothing about the
    /// model's health.
    pub fn after(&self, error: &ModelError, n: u32) -> Option<Duration> {
        let grown = |base: Duration| pause_after(n, base, self.max);
        let pause = match error {
            ModelError::RateLimited { retry_after: Some(_), .. } => Duration::ZERO,
            ModelError::RateLimited { retry_after: None, .. } => grown(self.limited),
            ModelError::Overloaded { .. }
            | ModelError::Failed(_)
            | ModelError::Timeout(_)
            | ModelError::Transport(_)
            | ModelError::Broken(_)
            | ModelError::Protocol(_) => grown(self.failing),
            ModelError::Auth(_) => self.auth,
            ModelError::ContextOverflow { .. }
            | ModelError::NoTools(_)
            | ModelError::BadRequest { .. }
            | ModelError::CutOff(_)
            | ModelError::Declined
            | ModelError::Filtered => return None,
        };
        Some(pause.max(error.retry_after().unwrap_or_default().min(self.asked_max)))
    }
}

/// Whether a model is skipped after such an error.
pub fn cools(error: &ModelError) -> bool {
    CoolDowns::default().after(error, 1).is_some()
}

/// A model's last failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The error's code.
    pub code: &'static str,
    /// The error as text, cut to a line.
    pub message: String,
    pub at: Timestamp,
}

/// How long a model that refused tools is asked without them. Its server may be repaired or replaced without notice; asking
/// again costs one refusal a day for all conversations together.
const WITHOUT_TOOLS: SignedDuration = SignedDuration::from_hours(24);

/// A model's health after its last calls. It is well until a call fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    until: Option<Timestamp>,
    /// The longest remaining cool-down, so that a clock that was set back does not prolong it.
    span: SignedDuration,
    /// The server asked not to be called before this time.
    asked: Option<Timestamp>,
    /// Consecutive failures, except those within a cool-down: many conversations may notice the same outage.
    pub failures: u32,
    /// The last failure; `None` after an answer.
    pub trouble: Option<Trouble>,
    tools_refused: Option<Timestamp>,
}

/// Most characters of a server's message that are kept.
const MESSAGE_MAX: usize = 200;

impl Health {
    pub fn failed(&mut self, error: &ModelError, now: Timestamp, cool_downs: &CoolDowns) {
        self.trouble = Some(Trouble { code: error.code(), message: line(error), at: now });
        let failures =
            if self.cooling_until(now).is_some() { self.failures } else { self.failures.saturating_add(1) };
        let Some(pause) = cool_downs.after(error, failures) else { return };
        self.failures = failures;
        if let Some(asked) = error.retry_after() {
            self.asked = Some(later(now, asked.min(cool_downs.asked_max)).1);
        }
        let (span, until) = later(now, pause);
        // If a server asked for a longer pause, another failure of a call does not shorten it.
        if self.cooling_until(now).is_none_or(|before| before < until) {
            self.until = Some(until);
            self.span = span;
        }
    }

    /// Notes an answer: the model is well again.
    pub fn answered(&mut self) {
        *self = Self { tools_refused: self.tools_refused, ..Self::default() };
    }

    /// Notes that the server refused a request because of its tools.
    pub fn refused_tools(&mut self, now: Timestamp) {
        self.tools_refused = Some(now);
    }

    /// Whether the model is asked without tools.
    pub fn takes_no_tools(&self, now: Timestamp) -> bool {
        let since = self.tools_refused.map(|at| now.duration_since(at));
        since.is_some_and(|since| !since.is_negative() && since < WITHOUT_TOOLS)
    }

    /// The end of its cool-down; `None`: it is not skipped.
    pub fn cooling_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| *until > now && until.duration_since(now) <= self.span)
    }

    /// How much longer the server wants us to wait.
    pub fn asked(&self, now: Timestamp) -> Option<Duration> {
        let asked = self.asked.filter(|_| self.cooling_until(now).is_some())?;
        Duration::try_from(asked.duration_since(now)).ok()
    }
}

fn later(now: Timestamp, pause: Duration) -> (SignedDuration, Timestamp) {
    let span = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
    (span, now.checked_add(span).unwrap_or(Timestamp::MAX))
}

/// The error on one line.
fn line(error: &ModelError) -> String {
    let text = error.to_string();
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(MESSAGE_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}
