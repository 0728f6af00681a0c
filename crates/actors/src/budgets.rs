//! Budgets that all channels share: money and messages of people, permits, and shares in the model calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_core::limits::{Limited, Meter, Price, TalkLimits};
use cairn_core::registry::UsageDay;
use cairn_types::ids::{ChannelId, LOCAL_PLATFORM};
use cairn_types::model::Usage;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::admission::CallShares;
use crate::telemetry;

/// Digests that are made at the same time. The other blocking threads are left to messages.
const DIGESTS: usize = 2;

pub(crate) struct Budgets {
    meter: Mutex<Meter>,
    /// Permits of messages on their way to the journal. Their number never changes.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) digests: Arc<Semaphore>,
    pub(crate) call_shares: Arc<CallShares>,
}

impl Budgets {
    /// `admitted_messages`: how many messages may be on their way to the journal at the same time.
    pub(crate) fn new(
        talk: TalkLimits,
        prices: BTreeMap<String, Price>,
        usage_day: UsageDay,
        admitted_messages: usize,
    ) -> Self {
        Self {
            meter: Mutex::new(Meter::new(talk, prices, usage_day)),
            permits: Arc::new(Semaphore::new(admitted_messages)),
            digests: Arc::new(Semaphore::new(DIGESTS)),
            call_shares: Arc::default(),
        }
    }

    pub(crate) fn set(&self, talk: TalkLimits, prices: BTreeMap<String, Price>) {
        self.meter.lock().set(talk, prices);
    }

    /// Counts a message, if its author is within the limits. On the local platform only the day's money is limited.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn admit(&self, channel: &ChannelId, user: &str, now: Timestamp) -> Result<(), Limited> {
        let mut meter = self.meter.lock();
        match channel.platform() {
            LOCAL_PLATFORM => meter.admit_spend(now),
            _ => meter.admit(channel, user, now),
        }
    }

    /// # Errors
    /// The day's money is spent.
    pub(crate) fn admit_spend(&self, now: Timestamp) -> Result<(), Limited> {
        self.meter.lock().admit_spend(now)
    }

    /// The price of a model, by its id in the configuration.
    pub(crate) fn price(&self, model: &str) -> Option<Price> {
        self.meter.lock().price(model)
    }

    /// Counts the tokens that a model used on behalf of these people.
    pub(crate) fn count_usage(
        &self,
        channel: &ChannelId,
        users: &[String],
        model: &str,
        usage: Usage,
        at: Timestamp,
    ) {
        // The embedded model uses none.
        if usage == Usage::default() {
            return;
        }
        telemetry::usage(model, usage);
        let mut meter = self.meter.lock();
        meter.spent(channel, users, model, usage, at);
        metrics::gauge!("cairn_spent_today").set(meter.spent_today(at));
    }

    pub(crate) fn spent_today(&self, now: Timestamp) -> f64 {
        self.meter.lock().spent_today(now)
    }
}
