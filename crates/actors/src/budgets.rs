//! Budgets that all channels share: money and messages of people, permits, and shares in the model calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_core::limits::{Limited, Meter, Price, TalkLimits};
use cairn_core::registry::UsageDay;
use cairn_types::ids::{ChannelId, LOCAL_PLATFORM, OPENAI_PLATFORM};
use cairn_types::model::Usage;
use cairn_types::ports::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

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
    /// Notified when the price of a call is no longer reserved.
    released: Notify,
}

/// The likely price of a call in flight, which counts against the day's money until this is dropped.
pub(crate) struct Reservation {
    budgets: Arc<Budgets>,
    price: f64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budgets.meter.lock().release(self.price);
        self.budgets.released.notify_waiters();
    }
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
            released: Notify::new(),
        }
    }

    pub(crate) fn set(&self, talk: TalkLimits, prices: BTreeMap<String, Price>) {
        self.meter.lock().set(talk, prices);
    }

    /// Counts a message, if its author is within the limits. On the local platform only the day's money is limited, except for
    /// those who come through the OpenAI-compatible endpoint.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn admit(&self, channel: &ChannelId, user: &str, now: Timestamp) -> Result<(), Limited> {
        let mut meter = self.meter.lock();
        let from = user.split_once('/').map_or("", |(platform, _)| platform);
        match channel.platform() {
            LOCAL_PLATFORM if from != OPENAI_PLATFORM => meter.admit_spend(now),
            _ => meter.admit(channel, user, now),
        }
    }

    /// Counts a command that reads or writes what is stored. The local platform has no limits of the hour.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn admit_command(
        &self,
        channel: &ChannelId,
        user: &str,
        now: Timestamp,
    ) -> Result<(), Limited> {
        match channel.platform() {
            LOCAL_PLATFORM => Ok(()),
            _ => self.meter.lock().admit_command(channel, user, now),
        }
    }

    /// # Errors
    /// The day's money is spent.
    pub(crate) fn admit_spend(&self, now: Timestamp) -> Result<(), Limited> {
        self.meter.lock().admit_spend(now)
    }

    /// Reserves the likely price of a call with a request of so many tokens. Waits while the calls in flight may use up the
    /// day's money.
    ///
    /// # Errors
    /// The day's money is spent.
    pub(crate) async fn reserve_in_turn(
        self: &Arc<Self>,
        model: &str,
        (request_tokens, answer_max): (u64, u64),
        clock: &dyn Clock,
    ) -> Result<Reservation, Limited> {
        loop {
            // Before the meter is asked, so that no release is missed.
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            {
                let mut meter = self.meter.lock();
                let price = meter.likely_price(model, request_tokens, answer_max);
                if meter.try_reserve(price, clock.now())? {
                    return Ok(Reservation { budgets: Arc::clone(self), price });
                }
            }
            released.await;
        }
    }

    /// Reserves the likely price of a call that is made in any case.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        model: &str,
        request_tokens: u64,
        answer_max: u64,
    ) -> Reservation {
        let mut meter = self.meter.lock();
        let price = meter.likely_price(model, request_tokens, answer_max);
        meter.reserve(price);
        Reservation { budgets: Arc::clone(self), price }
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
